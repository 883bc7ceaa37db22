"""Marks among launches: is all that was launched before done, and since when?"""

from __future__ import annotations

import platform
import struct
import sys

from lumijit.compiler.launch import named_kernels
from lumijit.runtime import buffers, device, pool_layout, workers
from lumijit.runtime.dtypes import INT64
from lumijit.runtime.pool_ir import platform_for


def mark(where: device.DeviceId | None, is_timed: bool) -> device.Mark:
    """Return a place behind all that was launched on a device, or on the host.

    Raises:
        BackendError: if the device isn't there.
    """
    return HostMark(is_timed) if where is None else device.find(where).mark(is_timed)


class HostMark(device.Mark):
    """A place among launches. If it is timed, a kernel of its own notes the time."""

    def __init__(self, is_timed: bool) -> None:
        self._buffer = buffers.allocate(64) if is_timed else None
        if self._buffer is not None:
            clock = platform_for(sys.platform, platform.machine()).monotonic_clock
            kernel = named_kernels.get(f"clock_{clock}", _clock_ir, clock)
            where = workers.pool_address() + pool_layout.CLOCK
            args = struct.pack("<2Q", where, self._buffer.address)
            named_kernels.launch(kernel, args, 1, 1, writes=(self._buffer,))
        self.handle = workers.last_ticket()

    @property
    def is_done(self) -> bool:
        """Whether all that was launched before is done."""
        return workers.completed_ticket() >= self.handle

    def wait(self) -> None:
        """Wait until it is."""
        workers.wait(self.handle)

    def seconds_until(self, end: HostMark) -> float:
        """Return how much later another one was."""
        return (end._nanoseconds() - self._nanoseconds()) / 1e9

    def _nanoseconds(self) -> int:
        """Return when it was, by a clock that only goes forward."""
        self.wait()
        assert self._buffer is not None
        seconds, rest = buffers.as_numpy(self._buffer, INT64, 2).tolist()
        return int(seconds) * 1_000_000_000 + int(rest)


def _clock_ir(name: str, clock: int) -> str:
    """Write the time to memory. Slots: where the clock's address is; the memory."""
    from lumijit.compiler.lower.collectives.pieces import head

    return f"""{head(name, "where to")}
  %clock = load ptr, ptr %where
  %missing = icmp eq ptr %clock, null
  br i1 %missing, label %none, label %read
read:
  %status = call i32 %clock(i32 {clock}, ptr %to)
  ret void
none:
  store <2 x i64> zeroinitializer, ptr %to, align 8
  ret void
}}
"""
