"""Lowers reads of the tables of calls: which body an element runs, and its data.

Neighbouring elements mostly call the same function. So a packet whose lanes have one
index reads once; the others read lane by lane in a loop, which is a tenth of the code
of reading all lanes in a row.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.repetition import repeat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED
from lumijit.compiler.lower.packet.lanes import lane_of
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.runtime.dtypes import UINT32, DType


def is_table(node: Node) -> bool:
    """Tell whether an array is the table of a call."""
    return node.op is EVALUATED and node.attr is not None


def read_table(
    low: PacketState, dtype: DType, base: str, index: str, offsets: list[int]
) -> list[str]:
    """Read the entries at `index` plus each of the offsets.

    Args:
        low: the kernel that is being written.
        dtype: the type of the entries, UInt32 or UInt64.
        base: the address of the table.
        index: a vector of positions, all of them in the table.
        offsets: what is added to the positions.

    Returns:
        A vector for each of the offsets.
    """
    b = low.b
    low.cross_mask()
    positions, ty = b.type(UINT32), b.type(dtype)
    first = lane_of(b, positions, index, 0)
    differs = b.compare("ne", UINT32, index, b.splat(UINT32, first))
    some = b.any_lane(differs)
    labels = [b.label(s) for s in ("one", "spread", "read")]
    one, spread, done = labels
    places = low.on_stack("places", positions)
    found = [low.on_stack(f"found{k}", ty) for k in range(len(offsets))]
    b.branch_if(some, spread, one)
    b.block(one)
    at = b.emit(f"zext i32 {first} to i64")
    element = dtype.llvm
    same = [b.splat(dtype, _entry(b, element, base, at, o)) for o in offsets]
    b.branch(done)
    b.block(spread)
    b.line(f"store {positions} {index}, ptr {places}, align 32")

    def read(lane: str) -> None:
        at = b.emit(f"zext i32 {b.load_at('i32', places, lane)} to i64")
        for address, offset in zip(found, offsets, strict=True):
            entry = _entry(b, element, base, at, offset)
            target = b.at(element, address, lane)
            b.line(f"store {element} {entry}, ptr {target}")

    repeat(b, b.width, read)
    end = b.current
    apart = [b.load(ty, address, 32) for address in found]
    b.branch(done)
    b.block(done)
    pairs = zip(same, apart, strict=True)
    return [b.phi(ty, (x, one), (y, end)) for x, y in pairs]


def _entry(b: Builder, element: str, base: str, at: str, offset: int) -> str:
    place = b.at(element, base, at)
    if offset:
        place = b.at(element, place, offset)
    return b.load(element, place)
