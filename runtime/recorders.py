"""Recorders: who listens to what a thread does with memory and jobs.

Owns who listens; `buffers` and `launch.starting` tell. Hardly ever does anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import get_ident
from typing import Any, Final

from lumijit.runtime.contexts import Entry


class Recorder:
    """Somebody who is told what happens; this one ignores it.

    Attributes:
        start: the serial number of what is computed first while it listens.
        is_entangled: whether the program has asked for derivatives of something that
            depends on what was tracked before, or has given some.
    """

    start = 0
    is_entangled = False

    def references(self, buffer: Any) -> int:
        """Return how many references to a buffer are the recorder's."""
        del buffer
        return 0

    def note_memory(self, buffer: Any) -> None:
        """Take note of memory that has been taken."""

    def note_filled(self, buffer: Any) -> None:
        """Take note of memory with contents from the host."""

    def note_addresses(self, buffer: Any) -> None:
        """Take note that what the host has filled contains addresses."""

    def note_read(self, buffer: Any) -> None:
        """Take note of the host's reading."""

    def note_entry(self, buffer: Any, dtype: Any, position: int, value: Any) -> Any:
        """Take note of the host's reading an entry; return what stands for it."""
        del buffer, dtype, position
        return value

    def note_job(self, *job: Any) -> None:
        """Take note of a job."""

    def note_gradient(self, vertex: Any) -> None:
        """Take note that a vertex is about to get another gradient."""

    def note_traversal(self, found: Iterable[Any]) -> None:
        """Take note of the vertices that take part in a traversal."""

    def note_brought(self, source: Any, made: Any, address: int) -> None:
        """Take note that a device has the host's memory: a copy of an address's."""


#: By thread. Empty, nearly always: that is what to ask first.
listening: Final[dict[int, Recorder]] = {}
_NOBODY: Final = Recorder()


def present() -> Recorder:
    """Return who listens to this thread."""
    return listening.get(get_ident(), _NOBODY)


def is_heard() -> bool:
    """Tell whether anybody listens to this thread."""
    return get_ident() in listening


def hearing(recorder: Recorder | None) -> Entry:
    """Have a recorder listen to this thread in a block, in place of another one."""
    return Entry(listening, recorder)
