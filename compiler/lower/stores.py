"""Lowers plain indirect writes for packets: which instructions store the lanes.

With AVX-512 a scatter is one instruction. Elsewhere LLVM would test and branch for
every lane; one test for the whole packet does instead, as mostly all lanes are
active. Where loops take a kernel's time, a loop over the lanes does, which is a
quarter of the code. Writes that combine are in `access`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumijit.compiler.lower.builder import Builder
from lumijit.runtime.dtypes import BOOL, UINT32

if TYPE_CHECKING:
    from lumijit.compiler.lower.packet import PacketLowering

_ALIGN = {"half": 2, "float": 4, "double": 8}
_STEMS = {"half": "f16", "float": "f32", "double": "f64"}


def scatter_lanes(
    low: PacketLowering, element: str, value: str, base: str, index: str, mask: str
) -> None:
    """Write entries under a mask; of lanes with one index the last one stays.

    Args:
        low: the kernel that is being written.
        element: the type of an entry in memory.
        value: a vector of such entries.
        base: the address of the array.
        index: a vector of 32-bit positions.
        mask: the lanes to write, as bits.
    """
    b = low.b
    if b.target.has_avx512:
        _call(b, element, value, base, index, mask)
        return
    outer = None if low.mask is None else b.wide(low.mask)
    bits = b.emit(f"bitcast {b.type(BOOL)} {mask} to i{b.width}")
    if low.program.has_loops and low.loop_depth == 0:
        _by_lane(low, element, value, base, index, bits)
    else:
        packed, some, done = (b.label(s) for s in ("packed", "some", "written"))
        is_full = b.emit(f"icmp eq i{b.width} {bits}, -1")
        b.branch_if(is_full, packed, some)
        b.block(packed)
        for lane in range(b.width):
            at = b.emit(f"extractelement {b.type(UINT32)} {index}, i32 {lane}")
            ty = f"<{b.width} x {element}>"
            item = b.emit(f"extractelement {ty} {value}, i32 {lane}")
            _store(b, element, item, base, at)
        b.branch(done)
        b.block(some)
        _by_lane(low, element, value, base, index, bits)
        b.branch(done)
        b.block(done)
    low.set_mask(outer)


def _store(b: Builder, element: str, item: str, base: str, at: str) -> None:
    wide = b.emit(f"zext i32 {at} to i64")
    address = b.emit(f"getelementptr {element}, ptr {base}, i64 {wide}")
    b.line(f"store {element} {item}, ptr {address}")


def _by_lane(
    low: PacketLowering, element: str, value: str, base: str, index: str, bits: str
) -> None:
    """Write the lanes that are set in an integer of bits, one by one."""
    b = low.b
    places = _on_stack(low, "places", b.type(UINT32), index)
    items = _on_stack(low, "items", f"<{b.width} x {element}>", value)
    head, lanes, done = (b.label(s) for s in ("head", "lanes", "done"))
    left = b.emit(f"zext i{b.width} {bits} to i64") if b.width < 64 else bits
    any_lane = b.emit(f"icmp ne i64 {left}, 0")
    b.branch(head)
    b.block(head)
    b.branch_if(any_lane, lanes, done)
    b.block(lanes)
    b.line(f"%{lanes}.l = phi i64 [ {left}, %{head} ], [ %{lanes}.n, %{lanes} ]")
    b.declarations["llvm.cttz.i64"] = "declare i64 @llvm.cttz.i64(i64, i1)"
    lane = b.emit(f"call i64 @llvm.cttz.i64(i64 %{lanes}.l, i1 true)")
    at = _on_stack_at(b, "i32", places, lane)
    _store(b, element, _on_stack_at(b, element, items, lane), base, at)
    less = b.emit(f"add i64 %{lanes}.l, -1")
    b.line(f"%{lanes}.n = and i64 %{lanes}.l, {less}")
    more = b.emit(f"icmp ne i64 %{lanes}.n, 0")
    b.branch_if(more, lanes, done)
    b.block(done)


def _on_stack(low: PacketLowering, role: str, ty: str, vector: str) -> str:
    """Put a vector into memory, from where single lanes are read fast."""
    address = low.on_stack(role, ty)
    low.b.line(f"store {ty} {vector}, ptr {address}, align 32")
    return address


def _on_stack_at(b: Builder, element: str, address: str, lane: str) -> str:
    place = b.emit(f"getelementptr {element}, ptr {address}, i64 {lane}")
    return b.emit(f"load {element}, ptr {place}")


def _call(
    b: Builder, element: str, value: str, base: str, index: str, mask: str
) -> None:
    w = b.width
    ty = f"<{w} x {element}>"
    pointers = b.emit(f"getelementptr {element}, ptr {base}, {b.type(UINT32)} {index}")
    stem = _STEMS.get(element, element)
    name = f"llvm.masked.scatter.v{w}{stem}.v{w}p0"
    masks = b.type(BOOL)
    b.declarations[name] = f"declare void @{name}({ty}, <{w} x ptr>, {masks})"
    align = _ALIGN.get(element) or max(1, int(element[1:]) // 8)
    b.line(
        f"call void @{name}({ty} {value}, <{w} x ptr> align {align} {pointers}, "
        f"{masks} {mask})"
    )
