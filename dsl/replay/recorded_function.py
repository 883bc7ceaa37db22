"""Recorded functions: what `@kernel` makes of a function.

Owns which recordings a function has, which of them serves a call, and what `explain`
tells of them. What a recording is, is up to `playback`.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload
from weakref import WeakSet

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.compiler.launch import evaluate
from lumijit.replay import saved
from lumijit.replay.differentiated import Differentiated
from lumijit.replay.entries import CONTEXT, Entry, Latest, context, reason_for
from lumijit.replay.inputs import (
    Arguments,
    Call,
    array_tokens,
    as_inputs,
)
from lumijit.replay.numbers import Guard
from lumijit.replay.playback import EVERY
from lumijit.replay.recording import record
from lumijit.replay.surroundings import Surroundings
from lumijit.runtime import recorders
from lumijit.runtime.config import flags
from lumijit.runtime.errors import warn

P = ParamSpec("P")
R = TypeVar("R")
_SURROUNDINGS = 64


_kernels: WeakSet[Kernel[Any, Any]] = WeakSet()


def _after_fork_in_child() -> None:
    """Make new locks: other threads, which may have held one, aren't there any more."""
    for known in list(_kernels):
        known._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class Kernel(Generic[P, R]):
    """A function whose launches are recorded once and replayed: see `kernel`."""

    # What the function reaches is found through it (`control.reachability`).
    _wraps_function = True

    def __init__(
        self,
        function: Callable[P, R],
        static: Collection[str],
        graph_breaks: bool,
        limit: int,
        warn_after: int,
        is_enabled: bool,
        reached_from: Callable[..., Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = function.__qualname__
        self.function = function
        # From where everything is found that it reaches.
        self._reached_from = reached_from or function
        self._static = frozenset(static)
        self._has_breaks = graph_breaks
        self._limit = limit
        self._warn_after = warn_after
        self._is_enabled = is_enabled
        self._lock = threading.RLock()
        self._signature = inspect.signature(function)
        self._labels: dict[int, tuple[str, ...]] = {}
        # By key; of one key there may be several, which differ in guards.
        self._entries: OrderedDict[Any, list[Entry]] = OrderedDict()
        # By the ids of arguments that are objects.
        self._surroundings: OrderedDict[Any, Surroundings] = OrderedDict()
        self._history: list[str] = []
        self._latest: Latest | None = None
        _kernels.add(self)

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Kernel[P, R]: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Callable[..., R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of an object."""
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.n_cached_recordings} recordings>"

    @property
    def n_recordings(self) -> int:
        """How often the function was recorded."""
        return len(self._history)

    @property
    def n_cached_recordings(self) -> int:
        """How many recordings there are."""
        return sum(map(len, self._entries.values()))

    @property
    def history(self) -> list[str]:
        """Why each recording was made, the oldest first."""
        return list(self._history)

    def clear(self) -> None:
        """Forget all recordings, and let go of the memory that they hold."""
        with self._lock:
            self._entries.clear()
            self._surroundings.clear()
            self._history.clear()
            self._latest = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all recordings to a file, with machine code and constants.

        Args:
            path: the file, which is replaced.

        Raises:
            RecordingError: if a recording depends on something that another process
                can't find by name (a local function, say), or prints.
            OSError: if the file can't be written.
        """
        with self._lock:
            saved.save(self._construct, os.fspath(path), self.entries())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add recordings from a file, so that calls like these needn't be recorded.

        Args:
            path: a file that `save` has written.

        Raises:
            RecordingError: if it was written for another function or by another
                version, on another processor, or isn't whole.
            OSError: if it can't be read.
        """
        with self._lock:
            self.adopt(saved.load(self._construct, os.fspath(path), self))

    @property
    def _construct(self) -> str:
        return f"@kernel {self.name}"

    def entries(self) -> list[tuple[tuple[Any, ...], Entry]]:
        """List the recordings, with their keys."""
        rows = self._entries.items()
        return [(key, entry) for key, found in rows for entry in found]

    def adopt(self, entries: Iterable[tuple[tuple[Any, ...], Entry]]) -> None:
        """Add recordings."""
        for key, entry in entries:
            self._entries.setdefault(key, []).append(entry)

    def explain(self) -> str:
        """Tell what was recorded, why, how often it was replayed, and its inputs."""
        entries = [entry for found in self._entries.values() for entry in found]
        lines = [f"kernel {self.name}: {len(entries)} recordings"]
        for number, entry in enumerate(entries, 1):
            first, *others = entry.text()
            lines += [f"{number}. {first}", *[f"   {line}" for line in others]]
        return "\n".join(lines)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function: replay what was recorded, or record it."""
        if not self._is_replayable():
            return self.function(*args, **kwargs)
        with self._lock:
            if not kwargs:
                is_played, result = self._repeated(args)
                if is_played:
                    return cast(R, result)
            return cast(R, self._called(args, kwargs))

    def _is_replayable(self) -> bool:
        """Tell whether a call from here can be recorded: not within a construct."""
        return (
            self._is_enabled
            and flags.kernel_freezing
            and trace.state.scope is ROOT
            and trace.is_unconditional()
            and not trace.running_lanes
            and not (recorders.listening and recorders.is_heard())
        )

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = self.inputs(args, kwargs)
        key = self._key(call)
        found = self._entries.get(key, ())
        reason: Guard | Exception | None = None
        # The newest first: it is the likeliest.
        for entry in reversed(found):
            if entry.differentiated is not None:
                reason = entry.differentiated.obstacle(call.numbers)
                if reason is None:
                    entry.call_count += 1
                    return entry.differentiated(args, kwargs)
                continue
            if entry.recording is None:
                entry.call_count += 1
                return self.function(*args, **kwargs)
            is_played, result = entry.recording.played(
                call.arrays, call.numbers, call.place
            )
            if is_played:
                self._note_replay(entry, call.surroundings)
                self._entries.move_to_end(key)
                if not kwargs and call.arguments.is_plain:
                    self._latest = Latest.of(args, call, key, entry)
                return result
            reason = result
        return self._recorded(call, key, reason)

    @staticmethod
    def _note_replay(entry: Entry, surroundings: Surroundings) -> None:
        assert entry.recording is not None
        entry.call_count += 1
        for place, key in entry.recording.puts:
            if place < len(surroundings.places):
                if key is EVERY:
                    surroundings.is_stale = True
                else:
                    surroundings.note(surroundings.places[place], key)

    def _repeated(self, args: tuple[Any, ...]) -> tuple[bool, Any]:
        """Replay what was replayed last, if the call is quickly told to look alike.

        That is so with arrays in memory, each for itself, that aren't tracked.
        """
        latest = self._latest
        if latest is None or tuple(map(type, args)) != latest.kinds:
            return False, None
        surroundings = latest.surroundings
        if surroundings.is_stale or not surroundings.is_current():
            return False, None
        arrays = [args[k] for k in latest.arrays] + surroundings.arrays
        nodes = [array._node for array in arrays]
        memory = [node.buffer for node in nodes]
        if (
            [node.size for node in nodes] != latest.sizes
            or None in memory
            or len(set(map(id, memory))) < len(memory)
            or any([node.vertex for node in nodes])
            or context() != latest.key[CONTEXT:]
        ):
            return False, None
        numbers = [args[k] for k in latest.numbers] + surroundings.numbers
        entry = latest.entry
        assert entry.recording is not None
        is_played, result = entry.recording.played(
            arrays, numbers, surroundings.places.__getitem__
        )
        if is_played:
            self._note_replay(entry, surroundings)
        return is_played, result

    def inputs(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        """Return what the call depends on."""
        count, names = len(args), tuple(kwargs)
        labels = (*self._names(count), *names)
        arguments = Arguments((*args, *kwargs.values()), labels, self._static)

        def run(values: Sequence[Any]) -> Any:
            given = dict(zip(names, values[count:], strict=True))
            return self.function(*values[:count], **given)

        surroundings = self._surroundings_of(arguments.objects)
        call = Call(self.name, run, arguments, surroundings)
        evaluate.evaluate_all(as_inputs([array._node for array in call.arrays]))
        return call

    def alike(self, function: Callable[..., Any]) -> Kernel[..., Any]:
        """Decorate what calls the function; if it can't be recorded, it just runs."""
        limits = self._limit, self._warn_after
        return Kernel(function, (), True, *limits, self._is_enabled, self.function)

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
            # It keeps the objects alive, so that no other gets their ids.
            found = self._surroundings[key] = Surroundings(
                (self._reached_from, *objects)
            )
            while len(self._surroundings) > _SURROUNDINGS:
                self._surroundings.popitem(last=False)
        elif found.is_stale or not found.is_current():
            found.look()
        return found

    def _key(self, call: Call) -> tuple[Any, ...]:
        """Return what calls have in common that look alike, as `_DIFFERENCES` says."""
        return (
            call.arguments.key,
            call.surroundings.key,
            call.surroundings.aliases(call.arguments.containers),
            array_tokens(call.arrays),
            *context(),
        )

    def _recorded(
        self, call: Call, key: tuple[Any, ...], cause: Guard | Exception | None
    ) -> Any:
        """Record a call and return its result."""
        before = next(reversed(self._entries), None)
        reason = reason_for(call, key, before, cause)
        names = [*call.array_names(), *call.number_names()]
        found = self._entries.get(key, [])
        is_read = isinstance(cause, Guard) and cause.has_reads
        if is_read and len(found) >= max(1, self._limit // 2):
            found[:] = [
                Entry(None, "what Python reads is too often new", reason, names)
            ]
            return call.run(call.arguments.values)
        evaluate.evaluate_pending()
        made = record(call, self._has_breaks)
        entry = Entry(made.recording, made.problem, reason, names)
        if made.is_tracked is not None:
            entry.differentiated = Differentiated(
                self, made.is_tracked, made.arithmetic
            )
        self._entries.setdefault(key, found).append(entry)
        call.surroundings.is_stale = True
        self._history.append(reason)
        self._latest = None
        while self.n_cached_recordings > self._limit:
            oldest, found = next(iter(self._entries.items()))
            del found[0]
            if not found:
                del self._entries[oldest]
        if len(self._history) == self._warn_after:
            warn(
                f"@kernel {self.name} has been recorded "
                f"{self._warn_after} times, this time because {reason}: see "
                f"{self.name}.explain()"
            )
        return made.result
