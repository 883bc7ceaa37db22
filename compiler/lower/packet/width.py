"""Chooses how many elements a kernel processes at once, from what its code costs.

What nobody needs inside of regions isn't lowered, so it doesn't count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.record import Role
from lumijit.compiler.ir.ops.structural import (
    CALL,
    COUNTER,
    EVALUATED,
    GATHER,
    LITERAL,
    LOCAL_READ,
    LOCAL_WRITE,
    LOOP,
    READS,
    REGIONS,
    SCATTER,
)
from lumijit.compiler.ir.roles import operand, value_deps
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.effort import Effort, wanted_nodes
from lumijit.compiler.lower.packet.late import Late
from lumijit.compiler.lower.packet.shape import (
    Shape,
    flat,
    is_innermost,
    live_registers,
    shape,
)
from lumijit.compiler.plan.program import Program
from lumijit.runtime.dtypes import BOOL, FLOAT16

MANY_OPERATIONS = 1000
SHORT_PROGRAM = 80
# How much may be live for two registers a value if there are 32.
_MOST_LIVE = 20
# And for four of 16.
_FEW_LIVE = 3
# So many accesses to local memory lane by lane are most of the code.
_MANY_APART = 6
# Loops that cost more than this would double the time of the build.
LEAN_COST = 64


def choose_width(
    program: Program,
    demand: Demand,
    uniform: Collection[Node],
    late: Late,
    work: Effort,
    target: TargetInfo,
) -> int:
    """Pick the packet width: two registers; four for lean loops; one for fat ones.

    These are registers of numbers of 32 bits. Where none has more than 16 or 8, they
    are registers of those.

    Wider than a register hides latency; above some 1,000 operations or 64 gathers
    it only makes the build longer. Programs with most of their code outside of loops
    build fastest at one register. Calls run as fast at one, where lanes agree more
    often, and build in half the time (measured, see docs/decisions/packets.md).
    """
    count, _, gathers = work
    lanes = target.lanes_f32
    if count > MANY_OPERATIONS or gathers > 64:
        return lanes
    if not target.has_fast_scatters and _apart(program, demand, uniform) >= _MANY_APART:
        return lanes
    if target.has_avx512 and _rows(program, demand) > 1:
        return lanes
    found = [n for n in program.all_nodes() if n.op is LOOP]
    loops = [n for n in found if n in demand.wanted]
    if not loops:
        if any(n.op is CALL for n in program.nodes):
            return lanes
        widest = _widest(program, demand, uniform, late, target)
        registers = _registers_a_number(program, demand, uniform, late, target, widest)
        return lanes * registers * 4 // widest
    if _is_mostly_outside(loops, count, demand):
        return lanes
    inner = [loop for loop in loops if is_innermost(loop, demand)]
    if any(_walks(loop, late.lines.strided, demand) for loop in inner):
        return lanes
    shapes = [shape(loop, demand, uniform) for loop in inner]
    return lanes * min(_registers_a_value(s, target) for s in shapes)


def _apart(program: Program, demand: Demand, uniform: Collection[Node]) -> int:
    """Count accesses to local memory that are written out for each lane.

    Many take as long with one register a value, and are built in less time.
    """
    return sum(
        n.op in (LOCAL_READ, LOCAL_WRITE)
        and n in demand.wanted
        and operand(n, Role.INDEX) not in uniform
        for n in program.all_nodes()
    )


def _walks(loop: Node, strided: Collection[Node], demand: Demand) -> bool:
    """Tell whether each lane walks along a line of its own, like a row of a picture.

    Of caches, lines that lie a power of two apart share a few places, which are as
    many as a register has lanes.
    """
    nodes = [n for block in loop.attr.blocks for n in flat(block, demand)]
    return any(
        operand(node, Role.INDEX) in strided
        for node in nodes
        if node.op is GATHER or node.op is SCATTER
    )


def _widest(
    program: Program,
    demand: Demand,
    uniform: Collection[Node],
    late: Late,
    target: TargetInfo,
) -> int:
    """Return how many bytes, 4 at most, the numbers have that packets compute or move.

    Positions of runs don't count, as each takes two scalars, nor do integers that are
    the same along a run: of those, runs take one.
    """
    lines = late.lines.found
    along = {n for n, line in lines.items() if n.type.is_int and not line.step}
    moved = [*program.outputs, *(t.root for t in program.targets.values())]
    moved += [n for n in program.nodes if n.op is EVALUATED and n.size == program.size]
    widest = max(n.type.size_bytes for n in moved)
    for node in program.nodes:
        if node not in demand.wanted or node in late.nodes or node in uniform:
            continue
        if node in along:
            continue
        if node.op in REGIONS or node.op is COUNTER:
            return 4
        if node.op in (LITERAL, EVALUATED):
            continue
        deps = [dep for dep in value_deps(node) if dep not in late.nodes]
        types = {n.type for n in (node, *deps) if n.op is not LITERAL}
        # Halves are computed in single precision, and masks may be words.
        is_wide = node.op.lower is not None and FLOAT16 in types
        if not target.has_masks:
            is_wide |= any(n.type is BOOL for n in _looked_at(node, deps))
        widest = max([widest, *(4 if is_wide else t.size_bytes for t in types)])
    return min(max(widest, 1), 4)


def _looked_at(node: Node, deps: list[Node]) -> list[Node]:
    """Return what a node computes with, rather than moving it as it is in memory."""
    if node.op is GATHER or node.op is SCATTER:
        deps = [dep for dep in deps if dep is operand(node, Role.MASK)]
    else:
        deps = [node, *deps]
    return [n for n in deps if n.op is not LITERAL]


def _rows(program: Program, demand: Demand) -> int:
    """Count the rows of three or more neighbours that each lane reads by itself.

    Each takes a register while it is taken apart. What is spilled then makes reads that
    miss the cache wait for each other (measured, see docs/decisions/packets.md).
    """
    rows = Counter(
        (id(n.scope), *map(id, n.deps))
        for n in program.all_nodes()
        if n.op is GATHER and n in demand.wanted
    )
    return sum(entries > 2 for entries in rows.values())


def _registers_a_number(
    program: Program,
    demand: Demand,
    uniform: Collection[Node],
    late: Late,
    target: TargetInfo,
    widest: int,
) -> int:
    """Return how many registers one of the widest numbers takes at best without loops.

    Two, unless so much is live that registers are spilled. Code that waits for memory
    anyway doesn't mind, and with AVX2, broadcasting numbers costs more than spilling.
    There, four of bytes in runs, as telling where runs end takes most of the time
    (measured, see docs/decisions/packets.md and packet-accesses.md).
    """
    nodes = [
        n
        for n in program.nodes
        if n in demand.wanted
        and n.op is not LITERAL
        and n not in late.nodes
        and n not in uniform
    ]
    live = live_registers(nodes)
    if not target.has_avx512:
        return 4 if widest == 1 and late.nodes and live <= _FEW_LIVE else 2
    is_waiting = any(n.op in READS for n in nodes)
    return 2 if is_waiting or live <= _MOST_LIVE else 1


def _registers_a_value(turn: Shape, target: TargetInfo) -> int:
    """Return how many registers a value of 32 bits takes at best in a loop.

    Limits of what is live were measured on 25 loops with 16 registers, and follow two
    measurements with 32. While results are waited for, spilled registers cost less.
    """
    lean, most = (10, _MOST_LIVE) if target.has_avx512 else (6, 10)
    if turn.cost > LEAN_COST or turn.accesses:
        lean = 0
    for count, limit in ((4, lean), (2, most)):
        if turn.live <= limit * (1.5 if turn.waits(count) else 1):
            return count
    return 1


def _is_mostly_outside(loops: list[Node], count: int, demand: Demand) -> bool:
    """Tell whether little of the code is in loops, where the time goes.

    Then wide packets would make the build long for code that hardly matters.
    """
    inside = sum(len(wanted_nodes(b, demand)) for n in loops for b in n.attr.blocks)
    return count > SHORT_PROGRAM and 3 * inside < count
