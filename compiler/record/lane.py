"""One element of a vectorized computation at a time, with known numbers.

While a lane runs, the entries of wide arrays are literals, so that folding computes
every operation at once. Owns what this needs beyond folding: taking the lane's entry
of a wide operand, reading and counting at once. What runs a lane is `debug.run_lane`.
"""

from __future__ import annotations

from lumijit.compiler.ir import simplify, trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import evaluate
from lumijit.runtime.contexts import on_error
from lumijit.runtime.errors import ArrayIndexError, ArrayValueError


class Lane:
    """The lane `index` of arrays of `width` entries."""

    def __init__(self, index: int, width: int) -> None:
        self.index = index
        self.width = width
        #: Which array a literal is an entry of, by the literal's id.
        self._sources: dict[int, tuple[Node, Node]] = {}

    def enter(self, node: Node) -> Node:
        """Return this lane's entry of an array, as a literal that knows its array."""
        if node.size != self.width:
            return node
        value = node.attr if node.op is LITERAL else self._entry(node, self.index)
        entry = trace.make_root(LITERAL, node.type, 1, value)
        self._sources[id(entry)] = (entry, node)
        return entry

    @staticmethod
    def _entry(node: Node, position: int) -> object:
        return node.type.wrap(evaluate.data(node)[position].item())

    def known(self, node: Node) -> Node:
        """Return an operand as a literal; arrays of another width stay as they are."""
        if node.op is LITERAL and node.size == 1:
            return node
        if node.size not in (1, self.width):
            return node
        position = 0 if node.size == 1 else self.index
        value = node.attr if node.op is LITERAL else self._entry(node, position)
        return trace.literal(node.type, value)

    def binary(self, op: Op, a: Node, b: Node) -> Node | None:
        """Compute an operation one of whose operands is a literal."""
        if a.op is b.op is LITERAL:
            return simplify.binary(op, a, b)
        left, right = self.known(a), self.known(b)
        if left is a and right is b:
            return None
        return trace.emit2(op, left, right)

    def ternary(self, op: Op, a: Node, b: Node, c: Node) -> Node | None:
        """Compute an operation one of whose operands is a literal."""
        first, second, third = self.known(a), self.known(b), self.known(c)
        if first is a and second is b and third is c:
            return None
        return trace.emit3(op, first, second, third)

    def gather(self, source: Node, index: Node, mask: Node, offset: int) -> Node | None:
        """Read one entry at once; None if the index is no single number."""
        index, mask = self.known(index), self.known(mask)
        if index.op is not LITERAL or index.size != 1 or mask.op is not LITERAL:
            return None
        if not mask.attr or source.size == 0:
            return trace.literal(source.type, source.type.wrap(0))
        source = self.array(source, "gather")
        if source.op is LITERAL:
            return trace.literal(source.type, source.attr)
        position = index.attr + offset if source.size > 1 else 0
        return trace.literal(source.type, self._entry(source, position))

    def array(self, node: Node, construct: str) -> Node:
        """Return the array that is indexed."""
        _, array = self._sources.get(id(node), (None, None))
        if array is not None:
            return array
        if node.size == 1 < self.width and node.op is LITERAL:
            raise ArrayValueError(
                construct,
                f"the indexed array has one entry while lane {self.index} runs, "
                "since it was computed from values of this lane",
                "compute it before, and pass it as an argument.",
            )
        return node

    def _check(self, position: int, size: int, construct: str) -> None:
        if not -size <= position < size:
            raise ArrayIndexError(
                construct,
                f"lane {self.index} accesses entry {position} of an array of "
                f"{size} entries",
                "mask the access, or correct the index.",
            )

    def give_back(self, holder: Holder) -> None:
        """Give a target that is written its whole array back."""
        _, array = self._sources.get(id(holder._node), (None, None))
        if array is not None:
            holder._rehouse(array)

    def place(
        self, index: Node, mask: Node, size: int, construct: str
    ) -> tuple[Node, Node]:
        """Return index and mask of an access, known and checked."""
        index, mask = self.known(index), self.known(mask)
        if index.op is LITERAL and mask.op is LITERAL and mask.attr:
            self._check(index.attr, size, construct)
        return index, mask

    @staticmethod
    def count(found: Node) -> Node:
        """Return what a write found, at once."""
        entries = evaluate.data(found)
        if found.size > 1:
            return found
        return trace.literal(found.type, found.type.wrap(entries[0].item()))

    def refuse_reduction(self, construct: str) -> None:
        """Refuse to combine lanes of which only one runs."""
        if self.width > 1:
            raise ArrayValueError(
                construct,
                f"this combines the entries of all {self.width} lanes, but only "
                f"lane {self.index} runs",
                "compute it before, and pass it as an argument.",
            )


def start(lane: Lane) -> None:
    """Have the rest of the construct run for one lane."""
    trace.running_lanes.append(lane)
    on_error(lambda: stop(lane))
    trace.state.lane = lane


def stop(lane: Lane) -> None:
    """End what `start` began."""
    if lane in trace.running_lanes:
        trace.running_lanes.remove(lane)
