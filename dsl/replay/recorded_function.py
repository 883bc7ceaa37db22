"""Recorded functions: what `@kernel` makes of a function.

Owns what users call: calls, `explain`, `save` and `load`. Which recording serves a call
is up to `recordings`.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Collection, Iterable
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload
from weakref import WeakSet

from lumijit.replay import saved
from lumijit.replay.entries import Entry
from lumijit.replay.recordings import Recordings, is_replayable

P = ParamSpec("P")
R = TypeVar("R")
_kernels: WeakSet[Kernel[Any, Any]] = WeakSet()


def _after_fork_in_child() -> None:
    """Make new locks: other threads, which may have held one, aren't there any more."""
    for known in list(_kernels):
        known._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class Kernel(Recordings, Generic[P, R]):
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
        limits = limit, warn_after
        super().__init__(function, static, graph_breaks, limits, reached_from)
        functools.update_wrapper(self, function)
        self._is_enabled = is_enabled
        self._lock = threading.RLock()
        _kernels.add(self)

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Kernel[P, R]: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Callable[..., R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the method of an object."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str:
        """Pickle it by its name, as functions are; a copy is the kernel itself."""
        return self.function.__qualname__

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.n_cached_recordings} recordings>"

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
            self._passing.clear()
            self._passing_count = 0
            self._latest_key = None
            self._latest = []

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
            saved.save(self._construct, os.fspath(path), self, self.entries())

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
        if self._passing_count:
            lines.append(
                f"{self._passing_count} calls ran as they are: by now, other sizes are "
                "recorded when they come a second time"
            )
        return "\n".join(lines)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function: replay what was recorded, or record it."""
        if not (self._is_enabled and is_replayable()):
            return cast(R, self.function(*args, **kwargs))
        with self._lock:
            return cast(R, self.called(args, kwargs))

    def alike(self, function: Callable[..., Any]) -> Kernel[..., Any]:
        """Decorate what calls the function; if it can't be recorded, it just runs."""
        return Kernel(
            function, (), True, *self._limits, self._is_enabled, self.function
        )
