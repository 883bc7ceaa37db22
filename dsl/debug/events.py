"""`Event`: a place among launches, to wait for and to measure between."""

from __future__ import annotations

from lumijit.compiler.launch.marks import Mark
from lumijit.runtime.errors import ArrayTypeError, StateError

__all__ = ["Event"]


class Event:
    """A place in the order of what is launched.

    Launches are asynchronous: `record` returns at once, and the event has happened when
    all that was launched before is done. What hasn't been evaluated isn't launched.

    Args:
        enable_timing: whether to note when that is.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Event, Float
    >>> start, end = Event(), Event()
    >>> start.record()
    >>> x = dr.sqrt(dr.arange(Float, 1000))
    >>> _ = dr.eval(x)
    >>> end.record()
    >>> end.wait()
    >>> end.query(), start.elapsed_time(end) >= 0
    (True, True)
    """

    def __init__(self, enable_timing: bool = True) -> None:
        """Make an event that hasn't been recorded."""
        self._is_timed = bool(enable_timing)
        self._mark: Mark | None = None

    def record(self) -> None:
        """Move the event behind all that has been launched."""
        self._mark = Mark(self._is_timed)

    def query(self) -> bool:
        """Tell whether the event has happened; one that isn't recorded has."""
        return self._mark is None or self._mark.is_done

    def wait(self) -> None:
        """Wait until the event has happened."""
        if self._mark is not None:
            self._mark.wait()

    def elapsed_time(self, end_event: Event) -> float:
        """Wait for two events, and return how much later the other one happened.

        Args:
            end_event: the other one.

        Returns:
            The time in milliseconds.

        Raises:
            StateError: if one isn't recorded, or has no time.
            ArrayTypeError: if the argument is no event.
        """
        if not isinstance(end_event, Event):
            raise ArrayTypeError(
                "Event.elapsed_time",
                f"expected an Event, got {type(end_event).__name__!r}",
                "pass the event at the end.",
            )
        return (end_event._time() - self._time()) / 1e6

    def _time(self) -> int:
        if not self._is_timed:
            raise StateError(
                "Event.elapsed_time",
                "the event was made without a time",
                "make it with enable_timing=True.",
            )
        if self._mark is None:
            raise StateError(
                "Event.elapsed_time", "the event isn't recorded", "call 'record' first."
            )
        return self._mark.nanoseconds()

    @property
    def handle(self) -> int:
        """The number of the last launch before the event; 0 if there was none."""
        return 0 if self._mark is None else self._mark.ticket
