"""Updates of a thread's copies of an array by all lanes of a packet.

Lanes that hit one entry are combined as long as these are many, the others go one by
one. That is much code, so kernels that update often call a function for it. Entries
that lie side by side, like those of a vector or a texel, are updated together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.combine import combine, combine_lanes
from lumijit.compiler.lower.common.atomics import entry_address
from lumijit.compiler.lower.packet.columns import MOST_IN_ROW, rows
from lumijit.compiler.lower.packet.lanes import LaneLoop, constants, lane_of, mask_bits
from lumijit.compiler.plan.program import IDLE_ENTRIES
from lumijit.runtime.dtypes import UINT32, DType

# From so many lanes on that hit one entry, these are combined first.
MANY = 8
# As many updates of a kind are written out.
WRITTEN_OUT = 4


class Copies(NamedTuple):
    """The copies of an array of some type that a thread has.

    Vectors tell which copy a lane takes (`offset`), and which entry it hits if it is
    idle: updates of one entry would wait for each other.
    """

    type: DType
    base: str
    offset: str
    idle: str


def update_entry(b: Builder, op: str, copies: Copies, at: str, item: str) -> None:
    """Combine one entry of the copies with a value.

    Integers, too, are combined in a vector register. With general ones, each update
    waits for the one before on Zen 4, wherever that went (3 to 11 times as slow).
    """
    t = copies.type
    element, ty = t.memory_llvm, t.memory_llvm
    address = entry_address(b, element, copies.base, at)
    pair = [b.emit(f"load {element}, ptr {address}"), item]
    is_word = t.bits >= 32 and not t.is_float
    if is_word:
        ty = f"<{128 // t.bits} x {element}>"
        pair = [
            b.emit(f"insertelement {ty} poison, {element} {v}, i32 0") for v in pair
        ]
    new = combine(b, op, t, ty, *pair)
    if is_word:
        new = lane_of(b, ty, new, 0)
    b.line(f"store {element} {new}, ptr {address}")


def update(
    b: Builder, op: str, copies: Copies, index: str, mask: str, values: Sequence[str]
) -> None:
    """Combine the entries that lanes tell, and those behind, with their values.

    The code stands in blocks of its own, as LLVM's time for a block grows faster than
    that.
    """
    t = copies.type
    ty, indices = b.memory_type(t), b.type(UINT32)
    loop = LaneLoop(b, mask_bits(b, b.narrow(mask)))
    at = lane_of(b, indices, index, loop.lane)
    served, mine = loop.same(index, at)
    many, few, done = b.label("many"), b.label("few"), b.label("updated")
    # Combining lanes takes less time then than updates of each.
    is_many = b.emit(f"icmp uge i64 {loop.count(served)}, {MANY}")
    b.branch_if(is_many, many, few)
    b.block(many)
    for k, value in enumerate(values):
        place = b.emit(f"add i32 {at}, {k}") if k else at
        update_entry(b, op, copies, place, combine_lanes(b, op, t, ty, value, mine))
    loop.close(served)
    b.branch(done)
    b.block(few)
    idle = copies.idle
    if len(values) > 1:
        apart = [idle_entry(k, MOST_IN_ROW) - idle_entry(k) for k in range(b.width)]
        idle = b.add(UINT32, idle, constants(apart))
    left = b.select(UINT32, loop.mask(loop.left), index, idle)
    place = b.add(UINT32, left, copies.offset)
    found = rows(b, t.memory_llvm, values) if len(values) > 1 else []
    for lane in range(b.width):
        at = lane_of(b, indices, place, lane)
        if found:
            _update_row(b, op, copies, at, found[lane], len(values))
        else:
            update_entry(b, op, copies, at, lane_of(b, ty, values[0], lane))
    b.branch(done)
    b.block(done)


def idle_entry(lane: int, span: int = 1) -> int:
    """Return which of the entries behind a copy a lane hits that is idle."""
    return lane * span % IDLE_ENTRIES


def _update_row(
    b: Builder, op: str, copies: Copies, at: str, row: str, count: int
) -> None:
    """Combine so many entries of the copies with a row of values."""
    t = copies.type
    ty, align = f"<{count} x {t.memory_llvm}>", t.size_bytes
    address = entry_address(b, t.memory_llvm, copies.base, at)
    old = b.emit(f"load {ty}, ptr {address}, align {align}")
    new = combine(b, op, t, ty, old, row)
    b.line(f"store {ty} {new}, ptr {address}, align {align}")


def call_update(
    b: Builder, op: str, copies: Copies, index: str, mask: str, values: Sequence[str]
) -> None:
    """Do the same by a call; the function is written with the first one."""
    t, indices, count = copies.type, b.type(UINT32), len(values)
    name = f"update_{op}_{t.short}_{count}"
    types = ["ptr", indices, indices, indices, b.mask_type]
    types += [b.memory_type(t)] * count
    if name not in b.helpers:
        inner = Builder(b.width, b.target)
        inner.block("entry")
        own = Copies(t, "%base", "%offset", "%idle")
        columns = [f"value{k}" for k in range(count)]
        given = [f"%{name}" for name in columns]
        update(inner, op, own, "%index", inner.note_wide("%mask"), given)
        b.declarations.update(inner.declarations)
        names = ["base", "offset", "idle", "index", "mask", *columns]
        params = ", ".join(f"{ty} %{n}" for ty, n in zip(types, names, strict=True))
        head = f"define internal fastcc void @{name}({params}) nounwind {{"
        b.helpers[name] = "\n".join([head, *inner.lines, "  ret void", "}"])
    args = [copies.base, copies.offset, copies.idle, index, b.wide(mask), *values]
    passed = ", ".join(f"{ty} {v}" for ty, v in zip(types, args, strict=True))
    b.line(f"call fastcc void @{name}({passed})")
