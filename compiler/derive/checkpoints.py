"""Going through the turns of a loop backwards, in memory of a fixed size.

A first loop runs all turns and keeps states in a fixed number of slots of local
memory: those at multiples of a spacing, which doubles when the slots are full. A second
loop goes back from the last turn. Where it enters the turns between two kept states, it
runs them once more and keeps theirs, in as many slots again. So a loop of N turns runs
twice, besides its derivative, if N is up to the square of the number of slots; beyond,
some turns more are repeated between slots. Nothing needs to know N in advance. Where
the program bounds N, and as many states fit, all of them are kept, and no turn runs a
third time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lumijit.compiler.derive.recorded import Nodes, Recorded, State, keyed
from lumijit.compiler.derive.values import Value
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.local_types import MAX_LENGTH, LocalType
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import MAX
from lumijit.compiler.ir.ops.logic import SHL, SHR
from lumijit.compiler.record import local, regions
from lumijit.compiler.record.checks import Finding
from lumijit.compiler.record.local import Buffer
from lumijit.compiler.record.new_loops import counted, counting, traced_loop
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    DerivativeError,
)

Undo = Callable[[State, Nodes], Nodes]

# How many bytes an element's kept states may take unless the user says it, and how many
# slots there are at least (then) and at most, as logarithms.
_MEMORY = 1 << 14
_FEWEST, _MOST = 3, 8
_limit: int | None = None


def checkpoint_memory() -> int | None:
    """Return how many bytes an element may take for the states of a loop.

    That is while derivatives go back through the loop's iterations. None: as many as
    is fast.
    """
    return _limit


def set_checkpoint_memory(size: int | None) -> None:
    """Set how many bytes an element may take for the states of a loop.

    Reverse mode keeps some states of each symbolic loop, unless it sums up only, and
    computes the others again: more memory means less work. Loops inside of loops have
    as much each.

    Args:
        size: in bytes; None for as many as is fast, about 16 KiB.

    Raises:
        ArrayTypeError: if it is no whole number.
        ArrayValueError: if it is negative.
        DerivativeError: later, in a traversal, if less than four states fit.
    """
    global _limit
    if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
        raise ArrayTypeError(
            "set_checkpoint_memory()",
            f"'size' is no whole number (expected int, got {type(size).__name__})",
            "pass a number of bytes, or None.",
        )
    if size is not None and size < 0:
        raise ArrayValueError(
            "set_checkpoint_memory()",
            f"'size' is negative (got {size})",
            "pass a number of bytes, or None for as many as is fast.",
        )
    _limit = None if size is None else int(size)


def _number(value: int) -> Value:
    return Value(trace.literal(UINT32, value))


def _length(node: Node) -> int:
    return node.type.length if isinstance(node.type, LocalType) else 1


class Slots:
    """States by number, for each element; of a local buffer, all its entries."""

    def __init__(self, loop: Recorded, kept: Sequence[int], count: int) -> None:
        self._loop = loop
        self._like = {k: loop.args[k] for k in kept}
        self._buffers: dict[int, Buffer] = {}
        for k, node in self._like.items():
            kind = node.type
            element = kind.element if isinstance(kind, LocalType) else kind
            self._buffers[k] = local.allocate(element, _length(node) * count)

    def _place(self, k: int, slot: Value, entry: Value) -> Node:
        return (slot * _length(self._like[k]) + entry).node

    def write(self, state: State, slot: Value, mask: Value) -> None:
        """Keep a state where the mask is set."""
        for k, buffer in self._buffers.items():
            if isinstance(self._like[k].type, LocalType):
                self._write_buffer(k, Buffer(state[k]), slot, mask)
            else:
                place = self._place(k, slot, _number(0))
                local.write(buffer, state[k], place, mask.node)

    def _write_buffer(self, k: int, source: Buffer, slot: Value, mask: Value) -> None:
        always = trace.make_true(1)

        def keep(entry: Value) -> None:
            value = local.read(source, entry.node, always)
            local.write(self._buffers[k], value, self._place(k, slot, entry), always)

        self._each(_length(self._like[k]), mask, keep)

    def _each(self, length: int, mask: Value, run: Callable[[Value], None]) -> None:
        """Trace something for each entry of a buffer, where the mask is set."""

        counted(
            self._loop.label,
            self._loop.width,
            lambda entry: (Value(entry) < length).node,
            lambda entry: run(Value(entry)),
            mask.select(_number(0), length).node,
        )

    def read(self, slot: Value) -> State:
        """Return a state that was kept."""
        return {k: self._read(k, slot) for k in self._like}

    def _read(self, k: int, slot: Value) -> Node:
        kind = self._like[k].type
        always = trace.make_true(1)

        def entry(position: Value) -> Node:
            place = self._place(k, slot, position)
            return local.read(self._buffers[k], place, always)

        if not isinstance(kind, LocalType):
            return entry(_number(0))
        nothing = trace.literal(kind.element, kind.element.wrap(0), self._loop.width)
        made = Buffer(local.new(kind, nothing))

        def fill(position: Value) -> None:
            local.write(made, entry(position), position.node, always)

        self._each(kind.length, Value(always), fill)
        return made._node

    def move(self, source: Value, target: Value) -> None:
        """Copy a state to another slot."""
        self.write(self.read(source), target, Value(trace.make_true(1)))


class TooManyTurns(Finding):
    """A loop's bound and, after evaluation, how often the loop ran beyond it."""

    def __init__(self, label: str, bound: int) -> None:
        super().__init__()
        self._label = label
        self._bound = bound

    def tell(self, found: int) -> None:
        """Raise an error: the loop ran more often than its bound."""
        raise DerivativeError(
            self._label,
            f"the loop ran {found} times, but max_iterations is {self._bound}, so "
            f"the gradients are wrong (differentiated at {self.where})",
            "raise max_iterations, or leave it out.",
        )


def _refuse_more_turns(label: str, bound: int, turns: Value) -> None:
    """Have an evaluation raise an error if a loop ran more often than its bound."""
    mask = trace.under_mask((turns > bound).node)
    TooManyTurns(label, bound).note(turns.node, mask, "direct")


def undo_turns(
    loop: Recorded, needed: set[int], starts: Nodes, undo: Undo
) -> list[Node]:
    """Go through the turns of a loop from the last to the first.

    Args:
        loop: the loop.
        needed: the positions of the state that `undo` needs.
        starts: what is carried from turn to turn.
        undo: from the state at the start of a turn and what is carried, returns what
            is carried on.
    """
    kept, counters = loop.closure(needed)
    size = sum(max(1, loop.args[k].type.size_bytes) for k in kept)
    longest = max([_length(loop.args[k]) for k in kept], default=1)
    count = MAX_LENGTH // longest
    if kept:
        count = min((_MEMORY if _limit is None else _limit) // size, count)
    bound = loop.region.bound
    if not kept or (bound is not None and bound <= count):
        return _back(Tape(loop, kept, counters, bound), starts, undo)
    if _limit is None:
        count = min(max(count, 2 << _FEWEST), MAX_LENGTH // longest)
    bits = min((count // 2).bit_length() - 1, _MOST)
    if bits < 1:
        raise _too_large(loop, size)
    return _back(Checkpoints(loop, kept, counters, bits), starts, undo)


def _back(made: Tape | Checkpoints, starts: Nodes, undo: Undo) -> list[Node]:
    """Run a loop; then go through its turns from the last to the first."""
    turns, loop = made.run(), made.loop

    def body(args: Nodes) -> Nodes:
        turn = Value(args[0]) - 1
        state = made.state(turn) | loop.counted(made.counters, turn)
        return [turn.node, *undo(state, args[1:])]

    results = traced_loop(
        loop.label,
        loop.width,
        [turns.node, *starts],
        lambda args: (Value(args[0]) > 0).node,
        body,
    )
    return results[1:]


def _too_large(loop: Recorded, size: int) -> DerivativeError:
    limit = f"{_limit} bytes" if _limit is not None else f"{MAX_LENGTH} entries"
    return DerivativeError(
        loop.label,
        f"going back through the turns keeps at least four states, of {size} bytes for "
        f"each element, but there is room for {limit}",
        "raise it with lumijit.set_checkpoint_memory, keep less in the loop's state, "
        "or use evaluated mode (mode='evaluated').",
    )


class Tape:
    """A recorded loop whose state is kept in all turns, if it is kept at all.

    At most `bound` states are, of others than `counters`.
    """

    def __init__(
        self, loop: Recorded, kept: list[int], counters: list[int], bound: int | None
    ) -> None:
        self.loop = loop
        self.counters = counters
        self._kept = kept
        self._bound = (bound or 0) if kept else None
        self._slots = Slots(loop, kept, max(self._bound or 0, 1))

    def run(self) -> Value:
        """Run the loop; return the number of turns to go back through."""
        loop, bound = self.loop, self._bound

        def body(state: State, counts: Nodes) -> Nodes:
            turn = Value(counts[0])
            if bound is not None:
                kept = {k: state[k] for k in self._kept}
                self._slots.write(kept, turn, turn < bound)
            return [*loop.turn(state).values(), (turn + 1).node]

        turns = Value(loop.along([trace.literal(UINT32, 0)], body)[1][0])
        if bound is None:
            return turns
        _refuse_more_turns(loop.label, bound, turns)
        return (turns <= bound).select(turns, bound)

    def state(self, turn: Value) -> State:
        """Return what is kept, as it was at the start of a turn."""
        return self._slots.read(turn)


class Checkpoints:
    """A recorded loop, and the state that is kept to go back, besides counters.

    The coarse slots come first; the fine ones follow.
    """

    def __init__(
        self, loop: Recorded, kept: list[int], counters: list[int], bits: int
    ) -> None:
        self.loop = loop
        self.counters = counters
        self._kept = kept
        self._count = 1 << bits
        self._bits = bits
        self._slots = Slots(loop, kept, 2 * self._count)
        # Known after the run: the number of turns, and how far apart coarse slots are;
        # then that as a logarithm, and the fine slots' distance as one.
        self._turns = self._span = self._shift = self._stride = _number(0)

    def run(self) -> Value:
        """Run the loop; return the number of turns."""
        loop, slots = self.loop, self._slots
        zero = trace.literal(UINT32, 0)

        def body(state: State, counts: Nodes) -> Nodes:
            turn, shift = map(Value, counts)
            mask = _number(1).map(SHL, shift) - 1
            is_full = (turn & mask) == 0
            is_full = is_full & (turn.map(SHR, shift) == self._count)
            self._thin(is_full)
            shift = is_full.select(shift + 1, shift)
            mask = _number(1).map(SHL, shift) - 1
            kept = {k: state[k] for k in self._kept}
            slots.write(kept, turn.map(SHR, shift), (turn & mask) == 0)
            after = loop.turn(state)
            return [*after.values(), (turn + 1).node, shift.node]

        self._turns, self._shift = map(Value, loop.along([zero, zero], body)[1])
        self._stride = self._shift.map(MAX, self._bits) - self._bits
        self._span = _number(1).map(SHL, self._shift)
        return self._turns

    def state(self, turn: Value) -> State:
        """Return what is kept, as it was at the start of a turn."""
        shift, stride = self._shift, self._stride
        number = turn.map(SHR, shift)
        first = number.map(SHL, shift)
        after = turn + 1
        is_entry = (after == self._turns) | ((after & (self._span - 1)) == 0)
        fine = (turn - first).map(SHR, stride)
        start = is_entry.select(first, first + fine.map(SHL, stride))
        state = self._slots.read(is_entry.select(number, fine + self._count))
        return self._advance(state, start, turn, (is_entry, first))

    def _thin(self, is_full: Value) -> None:
        """Keep every other state where the slots are full."""
        loop, slots = self.loop, self._slots
        last = self._count >> 1
        with regions.scope(loop.label, loop.width) as yes:
            counted(
                loop.label,
                loop.width,
                lambda slot: (Value(slot) < last).node,
                lambda slot: slots.move(Value(slot) + Value(slot), Value(slot)),
                trace.literal(UINT32, 1),
            )
        with regions.scope(loop.label, loop.width, [yes]) as no:
            pass
        regions.close_branch(is_full.node, (yes, no), ((), ()))

    def _advance(
        self, state: State, start: Value, end: Value, keeping: tuple[Value, Value]
    ) -> State:
        """Run from one turn to another; keep states on the way where that is asked.

        `keeping`: where, and the turn with the first of these states.
        """
        is_keeping, first = keeping
        loop, stride = self.loop, self._stride

        def body(number: Node, carried: Nodes) -> Nodes:
            turn, now = Value(number), keyed(self._kept, carried)
            offset = turn - first
            mask = _number(1).map(SHL, stride) - 1
            is_mark = is_keeping & ((offset & mask) == 0)
            self._slots.write(now, offset.map(SHR, stride) + self._count, is_mark)
            images = loop.images(now | loop.counted(self.counters, turn))
            return list(loop.turn(now, images).values())

        results = counting(
            loop.label,
            loop.width,
            start.node,
            lambda number: (Value(number) < end).node,
            list(state.values()),
            body,
        )
        return keyed(self._kept, results)
