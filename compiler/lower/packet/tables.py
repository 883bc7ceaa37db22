"""Lowers reads of the tables of calls: which body an element runs, and its data.

Neighbouring elements mostly call the same function. So a packet whose lanes have one
index reads once; the others read lane by lane in a loop, which is a tenth of the code
of reading all lanes in a row.
"""

from __future__ import annotations

from lumijit.compiler.emit.repetition import repeat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED
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
    first = b.emit(f"extractelement {positions} {index}, i32 0")
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
    same = [b.splat(dtype, _entry(low, element, base, at, o)) for o in offsets]
    b.branch(done)
    b.block(spread)
    b.line(f"store {positions} {index}, ptr {places}, align 32")

    def read(lane: str) -> None:
        place = b.emit(f"getelementptr i32, ptr {places}, i64 {lane}")
        at = b.emit(f"zext i32 {b.emit(f'load i32, ptr {place}')} to i64")
        for address, offset in zip(found, offsets, strict=True):
            entry = _entry(low, element, base, at, offset)
            target = b.emit(f"getelementptr {element}, ptr {address}, i64 {lane}")
            b.line(f"store {element} {entry}, ptr {target}")

    repeat(b, b.width, read)
    end = b.current
    apart = [b.emit(f"load {ty}, ptr {address}, align 32") for address in found]
    b.branch(done)
    b.block(done)
    return [
        b.emit(f"phi {ty} [ {x}, %{one} ], [ {y}, %{end} ]")
        for x, y in zip(same, apart, strict=True)
    ]


def _entry(low: PacketState, element: str, base: str, at: str, offset: int) -> str:
    b = low.b
    place = b.emit(f"getelementptr {element}, ptr {base}, i64 {at}")
    if offset:
        place = b.emit(f"getelementptr {element}, ptr {place}, i64 {offset}")
    return b.emit(f"load {element}, ptr {place}")
