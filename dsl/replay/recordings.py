"""Which recording of a function serves a call: finding it, or making it.

A call's key is compared with that of the last replay, and looked up if it differs. What
users see of recordings is in `recorded_function`, what one is, in `playback`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, cast

from lumijit.compiler.ir import trace
from lumijit.compiler.launch import evaluate
from lumijit.replay import entries
from lumijit.replay.differentiated import Differentiated, Recorded
from lumijit.replay.entries import Entry, reason_for
from lumijit.replay.inputs import Arguments, Call
from lumijit.replay.numbers import Guard, moment, shown
from lumijit.replay.playback import EVERY
from lumijit.replay.recording import record
from lumijit.replay.surroundings import Surroundings, left
from lumijit.runtime import recorders
from lumijit.runtime.config import flags
from lumijit.runtime.errors import warn

_SURROUNDINGS = 64
# From how many recordings on that differ in their arrays' sizes only another size has
# to come twice, and how many calls are remembered that came once.
_SIZES = 4
_PASSING = 64


class Recordings:
    """The recordings of a function; `reached_from` leads to what it reaches."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: Collection[str],
        has_breaks: bool,
        limits: tuple[int, int],
        reached_from: Callable[..., Any] | None,
    ) -> None:
        self.name: str = function.__qualname__
        self.function = function
        self._reached_from = reached_from or function
        self._static = frozenset(static)
        self._has_breaks = has_breaks
        # How many are kept, and after how many there is a warning.
        self._limits = limits
        self._signature = inspect.signature(function)
        self._labels: dict[int, tuple[str, ...]] = {}
        parameters = self._signature.parameters.values()
        # Parameters that callers can't name; keywords of these names are others.
        self._unnamed = {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
        # By key; of one key there may be several, which differ in guards.
        self._entries: OrderedDict[Any, list[Entry]] = OrderedDict()
        # By the ids of arguments that are objects.
        self._surroundings: OrderedDict[Any, Surroundings] = OrderedDict()
        self._history: list[str] = []
        # What was replayed last, and its key.
        self._latest_key: tuple[Any, ...] | None = None
        self._latest: list[Entry] = []
        # Keys of calls that ran as they are, as their sizes were new, and how many.
        self._passing: OrderedDict[Any, None] = OrderedDict()
        self._passing_count = 0

    @property
    def n_recordings(self) -> int:
        """How often the function was recorded."""
        return len(self._history)

    @property
    def n_cached_recordings(self) -> int:
        """How many recordings there are."""
        return sum(map(len, self._entries.values()))

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Replay a call, or run and record it."""
        # What another thread records has stand-ins for numbers in objects.
        before = moment()
        if before is None:
            return self.function(*args, **kwargs)
        call = self.inputs(args, kwargs)
        key = self._key(call)
        if moment() is not before:
            return self.function(*args, **kwargs)
        is_latest = key == self._latest_key
        found = self._latest if is_latest else self._entries.get(key, [])
        reason: Guard | Exception | None = None
        # The newest first: it is the likeliest.
        for entry in found[::-1]:
            if entry.differentiated is not None:
                reason = entry.differentiated.obstacle(call.numbers)
                if reason is None:
                    entry.call_count += 1
                    return entry.differentiated(args, kwargs)
                continue
            if entry.recording is None:
                entry.call_count += 1
                return self.function(*args, **kwargs)
            recording = entry.recording
            is_played, result = recording.played(
                call.arrays, call.inputs, call.numbers, call.place
            )
            if is_played:
                self._note_replay(entry, call.surroundings)
                if not is_latest:
                    self._entries.move_to_end(key)
                    self._latest_key, self._latest = key, found
                return result
            reason = result
        return self._recorded(call, key, reason)

    def _note_replay(self, entry: Entry, surroundings: Surroundings) -> None:
        recording = entry.recording
        assert recording is not None
        entry.call_count += 1
        for place, key in recording.puts:
            if place < len(surroundings.places):
                if key is EVERY:
                    surroundings.is_stale = True
                else:
                    surroundings.note(surroundings.places[place], key)

    def inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return what the call depends on."""
        count, names = len(args), tuple(kwargs)
        labels = (*self._names(count), *names)
        if self._unnamed:
            others = [f"[{n!r}]" if n in self._unnamed else n for n in names]
            labels = (*self._names(count), *others)
        arguments = Arguments((*args, *kwargs.values()), labels, self._static)
        surroundings = self._surroundings_of(arguments.objects)
        return Call(self.name, self.function, names, arguments, surroundings)

    def _names(self, count: int) -> tuple[str, ...]:
        """Return the names of positional arguments."""
        known = self._labels.get(count)
        if known is None:
            names: list[str] = []
            for name, parameter in self._signature.parameters.items():
                if parameter.kind is parameter.VAR_POSITIONAL:
                    names += [f"{name}[{k}]" for k in range(count - len(names))]
                elif parameter.kind is not parameter.KEYWORD_ONLY:
                    names.append(name)
            # (Of too many, the function itself says what is wrong.)
            names += [f"argument {k}" for k in range(len(names), count)]
            known = self._labels[count] = tuple(names[:count])
        return known

    def _surroundings_of(self, objects: list[Any]) -> Surroundings:
        """Return what the function reaches, for some objects among the arguments."""
        key = tuple(map(id, objects))
        found = self._surroundings.get(key)
        if found is None:
            # It keeps the objects alive, so that no other gets their ids: as long as
            # somebody else does.
            known = self._surroundings
            for old in left(known.items()):
                known.pop(old, None)
            found = known[key] = Surroundings((self._reached_from, *objects))
            while len(known) > _SURROUNDINGS:
                known.popitem(last=False)
        elif found.is_stale or not found.is_current():
            found.look()
        return found

    def _key(self, call: Call) -> tuple[Any, ...]:
        """Return what calls have in common that look alike, as `_DIFFERENCES` says."""
        return (*call.key(), *entries.context())

    def _recorded(
        self, call: Call, key: tuple[Any, ...], cause: Guard | Exception | None
    ) -> Any:
        """Record a call and return its result."""
        before = next(reversed(self._entries), None)
        reason = reason_for(call, key, before, cause)
        names = [*call.array_names(), *call.number_names()]
        found = self._entries.get(key, [])
        is_read = isinstance(cause, Guard) and cause.has_reads
        if is_read and len(found) >= max(1, self._limits[0] // 2):
            found[:] = [
                Entry(None, "what Python reads is too often new", reason, names)
            ]
            return call.run(call.arguments.parts.values)
        if cause is None and self._is_passing(key):
            return call.run(call.arguments.parts.values)
        evaluate.evaluate_pending()
        # (Of two threads that begin at once, none may.)
        with shown() if call.shows_numbers() else contextlib.nullcontext(True) as may:
            if not may:
                return call.run(call.arguments.parts.values)
            made = record(call, self._has_breaks)
        entry = Entry(made.recording, made.problem, reason, names)
        if made.tracked is not None:
            entry.differentiated = Differentiated(
                cast(Recorded, self), made.tracked, made.arithmetic
            )
        self._entries.setdefault(key, found).append(entry)
        call.surroundings.is_stale = True
        self._history.append(reason)
        self._latest_key = None
        limit, warn_after = self._limits
        while self.n_cached_recordings > limit:
            oldest, found = next(iter(self._entries.items()))
            del found[0]
            if not found:
                del self._entries[oldest]
        if len(self._history) == warn_after:
            warn(
                f"@kernel {self.name} has been recorded "
                f"{warn_after} times, this time because {reason}: see "
                f"{self.name}.explain()"
            )
        return made.result

    def _is_passing(self, key: tuple[Any, ...]) -> bool:
        """Tell whether a call has new sizes, as others had, which may not come again.

        Recording takes several times as long as running the function.
        """
        rest = entries.without_sizes(key)
        alike = sum(entries.without_sizes(known) == rest for known in self._entries)
        if alike < _SIZES or key in self._passing:
            self._passing.pop(key, None)
            return False
        self._passing[key] = None
        self._passing_count += 1
        while len(self._passing) > _PASSING:
            self._passing.popitem(last=False)
        return True


def is_replayable() -> bool:
    """Tell whether a call from here can be recorded: not within a construct."""
    return (
        flags.kernel_freezing
        and trace.is_unconditional()
        and not trace.running_lanes
        and not (recorders.listening and recorders.is_heard())
    )
