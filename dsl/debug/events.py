"""`Event`: a place among launches, to wait for and to measure between."""

from __future__ import annotations

from lumijit.compiler.launch.marks import mark
from lumijit.runtime.device import DeviceId, Mark
from lumijit.runtime.errors import ArrayTypeError, StateError
from lumijit.spec import LLVM, Backend

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

    _backend: Backend = LLVM

    def __init__(self, enable_timing: bool = True) -> None:
        """Make an event that hasn't been recorded."""
        self._is_timed = bool(enable_timing)
        self._mark: Mark | None = None
        self._device: DeviceId | None = None

    def record(self) -> None:
        """Move the event behind all that has been launched.

        Raises:
            BackendError: if that is on a device which isn't there.
        """
        self._device = self._backend.device
        self._mark = mark(self._device, self._is_timed)

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
            StateError: if one isn't recorded, or has no time, or if they are of
                different devices.
            ArrayTypeError: if the argument is no event.
        """
        if not isinstance(end_event, Event):
            raise ArrayTypeError(
                "Event.elapsed_time",
                f"expected an Event, got {type(end_event).__name__!r}",
                "pass the event at the end.",
            )
        end, start = end_event._timed(), self._timed()
        if self._device != end_event._device:
            names = (_name(event._device) for event in (self, end_event))
            raise StateError(
                "Event.elapsed_time",
                f"the events are of different devices ({' and '.join(names)})",
                "record both on one device.",
            )
        return start.seconds_until(end) * 1e3

    def _timed(self) -> Mark:
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
        return self._mark

    @property
    def handle(self) -> int:
        """The number of the last launch before the event; 0 if there was none.

        On a GPU, the driver's handle of the event.
        """
        return 0 if self._mark is None else self._mark.handle


def _name(where: DeviceId | None) -> str:
    return "the CPU" if where is None else f"{where.backend}:{where.number}"
