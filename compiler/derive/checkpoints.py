"""Going through the turns of a loop backwards, in memory of a fixed size.

A first loop runs all turns and keeps states in a fixed number of slots of local
memory: those at multiples of a spacing, which doubles when the slots are full. A second
loop goes back from the last turn. Where it enters the turns between two kept states, it
runs them once more and keeps theirs, in as many slots again. So a loop of N turns runs
twice, besides its derivative, if N is up to the square of the number of slots; beyond,
some turns more are repeated between slots. Nothing needs to know N in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lumijit.compiler.derive.recorded import Recorded, traced_loop
from lumijit.compiler.derive.values import Value
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.local_types import LocalType
from lumijit.compiler.ir.ops.arithmetic import MAX
from lumijit.compiler.ir.ops.logic import SHL, SHR
from lumijit.compiler.ir.trace import Node
from lumijit.compiler.record import local, regions
from lumijit.compiler.record.local import Buffer
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import DerivativeError

Nodes = Sequence[Node]
Undo = Callable[[dict[int, Node], Nodes], Nodes]

# How many bytes an element may take for kept states, and the slots that there are at
# least and at most, as logarithms.
_BUDGET = 1 << 14
_FEWEST, _MOST = 3, 8


def _number(value: int) -> Value:
    return Value(trace.literal(UINT32, value))


def _keeps_buffer(label: str) -> DerivativeError:
    return DerivativeError(
        label,
        "going back through the turns needs the contents of a local buffer in each of "
        "them, which aren't kept",
        "keep what is differentiated in variables, detach what is read from the "
        "buffer, or use forward mode.",
    )


class Slots:
    """States by number, for each element."""

    def __init__(self, like: dict[int, Node], bits: int) -> None:
        self._buffers: dict[int, Buffer] = {
            k: local.allocate(node.type, 1 << bits) for k, node in like.items()
        }

    def write(self, state: dict[int, Node], slot: Value, mask: Value) -> None:
        """Keep a state where the mask is set."""
        for k, buffer in self._buffers.items():
            local.write(buffer, state[k], slot.node, mask.node)

    def read(self, slot: Value) -> dict[int, Node]:
        """Return a state that was kept."""
        mask = trace.make_true(1)
        return {k: local.read(b, slot.node, mask) for k, b in self._buffers.items()}

    def move(self, source: Value, target: Value) -> None:
        """Copy a state to another slot."""
        self.write(self.read(source), target, Value(trace.make_true(1)))


class Checkpoints:
    """A recorded loop, and the state that is kept to go back."""

    def __init__(self, loop: Recorded, kept: list[int]) -> None:
        self.loop = loop
        self.kept = kept
        for k in kept:
            if isinstance(loop.args[k].type, LocalType):
                raise _keeps_buffer(loop.label)
        size = sum(max(1, loop.args[k].type.size_bytes) for k in kept) or 1
        slots = _BUDGET // (2 * size)
        self.bits = min(max(slots.bit_length() - 1, _FEWEST), _MOST)

    def undo(self, starts: Nodes, undo: Undo) -> list[Node]:
        """Go through the turns from the last to the first.

        Args:
            starts: what is carried from turn to turn.
            undo: from the state at the start of a turn and what is carried, returns
                what is carried on.
        """
        loop = self.loop
        like = {k: loop.args[k] for k in self.kept}
        coarse = Slots(like, self.bits)
        fine = Slots(like, self.bits)
        turns, shift = self._run(coarse)
        # How far apart the fine slots are, as a logarithm.
        stride = (shift.map(MAX, self.bits)) - self.bits
        span = _number(1).map(SHL, shift)

        def body(args: Nodes) -> Nodes:
            turn = Value(args[0]) - 1
            number = turn.map(SHR, shift)
            first = number.map(SHL, shift)
            after = Value(args[0])
            is_entry = (after == turns) | ((after & (span - 1)) == 0)
            slot = (turn - first).map(SHR, stride)
            start = is_entry.select(first, first + slot.map(SHL, stride))
            state = self._mixed(is_entry, coarse.read(number), fine.read(slot))
            state = self._advance(fine, state, (start, turn), (is_entry, first, stride))
            return [turn.node, *undo(state, args[1:])]

        results = traced_loop(
            loop.label,
            loop.width,
            [turns.node, *starts],
            lambda args: (Value(args[0]) > 0).node,
            body,
        )
        return results[1:]

    @staticmethod
    def _mixed(
        mask: Value, yes: dict[int, Node], no: dict[int, Node]
    ) -> dict[int, Node]:
        return {k: trace.select(mask.node, node, no[k]) for k, node in yes.items()}

    def _run(self, slots: Slots) -> tuple[Value, Value]:
        """Run the loop; return the number of turns and the spacing's logarithm."""
        loop = self.loop
        count = len(loop.state)
        zero = trace.literal(UINT32, 0)

        def body(args: Nodes) -> Nodes:
            state = dict(zip(loop.state, args[:count], strict=True))
            turn, shift = Value(args[count]), Value(args[count + 1])
            mask = _number(1).map(SHL, shift) - 1
            is_full = (turn & mask) == 0
            is_full = is_full & (turn.map(SHR, shift) == 1 << self.bits)
            self._thin(slots, is_full)
            shift = is_full.select(shift + 1, shift)
            mask = _number(1).map(SHL, shift) - 1
            kept = {k: state[k] for k in self.kept}
            slots.write(kept, turn.map(SHR, shift), (turn & mask) == 0)
            after = loop.turn(state)
            return [*after.values(), (turn + 1).node, shift.node]

        results = traced_loop(
            loop.label,
            loop.width,
            [*loop.inits.values(), zero, zero],
            lambda args: loop.condition(
                dict(zip(loop.state, args[:count], strict=True))
            ),
            body,
        )
        return Value(results[count]), Value(results[count + 1])

    def _thin(self, slots: Slots, is_full: Value) -> None:
        """Keep every other state where the slots are full."""
        loop = self.loop
        last = 1 << (self.bits - 1)

        def move(args: Nodes) -> Nodes:
            slot = Value(args[0])
            slots.move(slot + slot, slot)
            return [(slot + 1).node]

        with regions.scope(loop.label, loop.width) as yes:
            traced_loop(
                loop.label,
                loop.width,
                [trace.literal(UINT32, 1)],
                lambda args: (Value(args[0]) < last).node,
                move,
            )
        with regions.scope(loop.label, loop.width, [yes]) as no:
            pass
        regions.close_branch(is_full.node, (yes, no), ((), ()))

    def _advance(
        self,
        fine: Slots,
        state: dict[int, Node],
        turns: tuple[Value, Value],
        keeping: tuple[Value, Value, Value],
    ) -> dict[int, Node]:
        """Run from one turn to another; keep states on the way where that is asked."""
        start, end = turns
        is_keeping, first, stride = keeping
        loop = self.loop

        def body(args: Nodes) -> Nodes:
            turn = Value(args[0])
            now = dict(zip(self.kept, args[1:], strict=True))
            offset = turn - first
            mask = _number(1).map(SHL, stride) - 1
            is_mark = is_keeping & ((offset & mask) == 0)
            fine.write(now, offset.map(SHR, stride), is_mark)
            return [(turn + 1).node, *loop.turn(now).values()]

        results = traced_loop(
            loop.label,
            loop.width,
            [start.node, *state.values()],
            lambda args: (Value(args[0]) < end).node,
            body,
        )
        return dict(zip(self.kept, results[1:], strict=True))
