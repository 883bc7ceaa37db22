"""Which of the values that a region writes to an array are left in the end.

Each lane counts its writes to the array, in local memory. Count and lane make a number
that no other write has, and the greatest that replaced an entry is noted for each
entry. So whether a value is left is told by comparing integers in memory, in any order
and as often as needed: derivatives of any degree read them like an index.
"""

from __future__ import annotations

from lumijit.compiler.derive.values import Value
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.local_types import local_type
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import GE, SHL
from lumijit.compiler.record import local, memory
from lumijit.compiler.record.local import Buffer
from lumijit.runtime.dtypes import UINT32, UINT64

_LANE_BITS = 32


class Clock:
    """Counts a lane's writes to one array, onwards or from the last to the first."""

    def __init__(self, start: Node, is_onwards: bool) -> None:
        self._is_onwards = is_onwards
        self._buffer = Buffer(local.new(local_type(UINT32, 1), start))

    @property
    def count(self) -> Node:
        """How many writes there have been, or are left to go back through."""
        return local.read(self._buffer, _entry(), trace.make_true(1))

    def tick(self) -> Value:
        """Go on to the next write; return its number, from 1."""
        before = Value(self.count)
        after = before + 1 if self._is_onwards else before - 1
        local.write(self._buffer, after.node, _entry(), trace.make_true(1))
        return after if self._is_onwards else before


def _entry() -> Node:
    return trace.literal(UINT32, 0)


class Order:
    """The last writes that replaced the entries of an array.

    `push` takes the writes, as the region makes them; then clocks tell moments again.
    """

    def __init__(self, size: int, lanes: int) -> None:
        self._lane = Value(trace.cast_to(trace.counter(lanes), UINT64))
        self._last = Holder(trace.literal(UINT64, 0, size))
        self._start = trace.literal(UINT32, 0, lanes)
        self._clock = Clock(self._start, True)

    def note(self, is_replacing: bool, index: Node, mask: Node) -> None:
        """Note a write, when its turn comes."""
        moment = self._moment(self._clock)
        if is_replacing:
            memory.update(self._last, moment.node, index, mask, "max")

    def clock(self, is_onwards: bool) -> Clock:
        """Return a clock for going through the writes once more."""
        return Clock(self._start if is_onwards else self._clock.count, is_onwards)

    def _moment(self, clock: Clock) -> Value:
        count = Value(trace.cast_to(clock.tick().node, UINT64))
        return count.map(SHL, _LANE_BITS) | self._lane

    def is_left(self, clock: Clock, index: Node, mask: Node) -> Node:
        """Tell where the next value on a clock is part of the entry in the end."""
        last = memory.entries(self._last._node, index, mask)
        return (Value(mask) & self._moment(clock).map(GE, Value(last))).node

    @property
    def is_kept(self) -> Value:
        """Which entries were never replaced."""
        return Value(self._last._node) == 0
