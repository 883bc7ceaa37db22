"""Finds indices that go on or back by one from lane to lane, or stay: accesses to runs.

Such an access is one load or store of a packet, whose lanes are turned around where it
goes back, or one load of an entry for all lanes. A counter plus what is the same in all
lanes surely is a run. Quotients and remainders of a counter (rows and columns) are runs
but for the packets in which a row ends, as are entries of a table by row, or a position
that is kept within limits: there the kernel looks, with one comparison a packet, unless
rows are shorter than two packets. What is made of other data isn't asked.

`find_runs` guesses from the operations of an index; only what it calls sure has to be
so. The rest is what lowers accesses: the comparison, and the address of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    GATHER,
    LITERAL,
    PROJECT,
    SYMBOLIC,
)
from lumijit.compiler.lower.packet.lanes import lane_of, mask_bits
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.plan.program import Program, is_baked
from lumijit.runtime.dtypes import BOOL, UINT32, DType


class Run(NamedTuple):
    """By how much a value grows from lane to lane: 0, 1 or -1; and if that is sure.

    `rows` are operations on numbers among the kernel's arguments that tell how long
    rows are.
    """

    step: int
    is_sure: bool
    rows: tuple[Node, ...] = ()


_ADDITIVE = {ar.ADD: 1, ar.SUB: -1}
_PIECES = frozenset({lo.SHR, lo.SHR_BY, ar.MULHI, ar.INT_DIV})
_SCALED = frozenset({ar.MUL, lo.SHL, lo.SHL_BY, lo.OR})
_LIMITED = frozenset({ar.MOD, ar.MIN, ar.MAX, lo.AND})
_STEADY = frozenset({*_ADDITIVE, ar.NEG, *_SCALED, *_LIMITED, CAST, BITCAST, lo.SELECT})
# The last shift of a quotient says how long rows are, or the mask of a remainder.
_TELLING = frozenset({lo.SHR, lo.AND})


def find_runs(program: Program, uniform: Collection[Node]) -> dict[Node, Run]:
    """Return the values that probably are runs in most packets."""
    found: dict[Node, Run] = {}
    for node in program.all_nodes():
        # Lanes that aren't active may hold anything in what regions pass on.
        is_passed = node.op is SYMBOLIC or node.op is PROJECT
        same = Run(0, not is_passed)
        run = same if node in uniform else _run(node, found)
        if run is not None:
            found[node] = run
    return found


def find_strided(program: Program, found: Collection[Node]) -> set[Node]:
    """Return the values that probably grow by some same number from lane to lane.

    They are made of runs and of what stays; none is among them.
    """
    strided: set[Node] = set()
    for node in program.all_nodes():
        if node.op in _STEADY and node.type.is_int and node not in found:
            deps = node.deps[1:] if node.op is lo.SELECT else node.deps
            if all(dep in found or dep in strided for dep in deps):
                strided.add(node)
    return strided


def _run(node: Node, found: dict[Node, Run]) -> Run | None:
    op, t = node.op, node.type
    if not t.is_int:
        return None
    if op is COUNTER:
        return Run(1, True)
    if op is LITERAL or op is EVALUATED:
        return Run(0, True) if node.size == 1 or op is LITERAL else None
    if op is GATHER:
        index = found.get(node.deps[1])
        return index if index is not None and index.step == 0 else None
    deps = node.deps[1:] if op is lo.SELECT else node.deps
    runs = [found[dep] for dep in deps if dep in found]
    if not runs or len(runs) < len(deps):
        return None
    step = _step(node, [run.step for run in runs])
    if step is None:
        return None
    # Sums of 32 bits wrap around as positions do.
    is_exact = op in _ADDITIVE or op in (ar.NEG, CAST, BITCAST)
    is_sure = all(run.is_sure for run in runs) and all(
        n.type.is_int and n.type.bits == 32 for n in (node, *deps)
    )
    is_same = not any(run.step for run in runs) and op is not lo.SELECT
    if is_sure and (is_exact or is_same):
        return Run(step, True)
    if op in _TELLING and deps[1].op is LITERAL and not is_baked(deps[1]):
        return Run(step, False, (node,))
    rows = dict.fromkeys(row for run in runs for row in run.rows)
    return Run(step, False, tuple(rows))


def _step(node: Node, steps: list[int]) -> int | None:
    """Return the step of an operation on values of some steps, if it likely has one."""
    op = node.op
    if op in _ADDITIVE:
        step = steps[0] + _ADDITIVE[op] * steps[1]
        return step if 0 in steps and abs(step) < 2 else None
    if op is ar.NEG:
        return -steps[0]
    if op in _PIECES:
        return 0
    if op in _SCALED:
        return None if any(steps) else 0
    if op in _LIMITED:
        return steps[0] if not any(steps[1:]) else None
    is_passed = op is CAST or op is BITCAST or op is lo.SELECT
    return steps[0] if is_passed and len(set(steps)) == 1 else None


class Runs:
    """The runs of one kernel."""

    def __init__(self, low: PacketState, uniform: Collection[Node]) -> None:
        self.low = low
        self.found = find_runs(low.program, uniform)
        self.strided = find_strided(low.program, self.found)
        self._are_long: dict[Run, str] = {}

    def test(self, index: str, run: Run, active: str, packed: str, apart: str) -> None:
        """Go to one block if all lanes are active and on a run, else to the other."""
        b = self.low.b
        if run.rows:
            look = b.label("look")
            b.branch_if(self._has_long_rows(run), look, apart)
            b.block(look)
        is_packed = active
        if not run.is_sure:
            wanted = b.splat(UINT32, lane_of(b, b.type(UINT32), index, 0))
            if run.step:
                combine = b.add if run.step > 0 else b.sub
                wanted = combine(UINT32, wanted, self.low.lane_numbers())
            is_packed = b.compare("eq", UINT32, index, wanted)
            if active != b.const(BOOL, True):
                is_packed = b.binary("and", BOOL, is_packed, active)
        bits = mask_bits(b, b.narrow(is_packed))
        b.branch_if(b.emit(f"icmp eq i{b.width} {bits}, -1"), packed, apart)

    def read(
        self,
        index: str,
        run: Run,
        active: str,
        ty: str,
        packed: Callable[[], list[str]],
        apart: Callable[[], list[str]],
    ) -> list[str]:
        """Return values of one type that are read in one of two ways, see `test`."""
        b = self.low.b
        labels = [b.label(s) for s in ("packed", "apart", "read")]
        self.test(index, run, active, *labels[:2])
        sides: list[tuple[str, list[str]]] = []
        for label, values in zip(labels, (packed, apart), strict=False):
            b.block(label)
            found = values()
            sides.append((b.current, found))
            b.branch(labels[2])
        b.block(labels[2])
        (left, ones), (right, others) = sides
        return [
            b.emit(f"phi {ty} [ {one}, %{left} ], [ {other}, %{right} ]")
            for one, other in zip(ones, others, strict=True)
        ]

    def _has_long_rows(self, run: Run) -> str:
        """Write in the kernel's entry whether rows take two packets at least."""
        low = self.low
        lanes = 2 * low.b.width
        result = self._are_long.get(run, "")
        if not result:
            for node in run.rows:
                slot = low.program.arguments.index(node.deps[1])
                least = lanes.bit_length() - 1 if node.op is lo.SHR else lanes - 1
                number = low.load_slot(slot, node.type.llvm)
                test = low.in_entry(f"icmp uge {node.type.llvm} {number}, {least}")
                result = low.in_entry(f"and i1 {result}, {test}") if result else test
            self._are_long[run] = result
        return result


def run_address(
    b: Builder, element: str, base: str, index: str, offset: int, step: int = 1
) -> str:
    """Return where the run of entries begins that the first lane's index tells.

    Where it goes back, it begins at the last lane's. Positions are below 2**31: one
    above is as far before the first entry. Lanes that lie there are masked.
    """
    first = lane_of(b, b.type(UINT32), index, 0)
    place = b.emit(f"sext i32 {first} to i64")
    if step < 0:
        offset -= b.width - 1
    if offset:
        place = b.emit(f"add i64 {place}, {offset}")
    return b.emit(f"getelementptr {element}, ptr {base}, i64 {place}")


def load_run(b: Builder, t: DType, place: str, step: int) -> str:
    """Load a packet of entries as they are in memory, in the order of the lanes."""
    ty = b.memory_type(t)
    return _turned(b, ty, b.emit(f"load {ty}, ptr {place}, align {t.size_bytes}"), step)


def store_run(b: Builder, element: str, value: str, place: str, step: int) -> None:
    """Store a packet of entries as they are in memory, from the lanes in order."""
    ty = f"<{b.width} x {element}>"
    # Every type's entries are aligned to a byte at least, which is all the same to x86.
    b.line(f"store {ty} {_turned(b, ty, value, step)}, ptr {place}, align 1")


def _turned(b: Builder, ty: str, packet: str, step: int) -> str:
    lanes = range(b.width - 1, -1, -1)
    return b.shuffle(ty, packet, packet, lanes) if step < 0 else packet
