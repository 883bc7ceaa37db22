"""Instructions that access memory in some lanes only; what others read is zero."""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.type_names import bits_of, mangled
from lumijit.runtime.dtypes import BOOL, UINT32


def load_call(b: Builder, element: str, ty: str, place: str, mask: str) -> str:
    """Write a masked load of a packet of entries."""
    name = f"llvm.masked.load.v{b.width}{mangled(element)}.p0"
    masks = b.type(BOOL)
    where = ("ptr", place), ("i32", str(bits_of(element) // 8))
    return b.call(ty, name, *where, (masks, mask), (ty, "zeroinitializer"))


def store_call(b: Builder, element: str, value: str, place: str, mask: str) -> None:
    """Write a masked store of a packet of entries, wherever they lie."""
    ty, masks = f"<{b.width} x {element}>", b.type(BOOL)
    name = f"llvm.masked.store.v{b.width}{mangled(element)}.p0"
    b.declarations[name] = f"declare void @{name}({ty}, ptr, i32, {masks})"
    b.line(f"call void @{name}({ty} {value}, ptr {place}, i32 1, {masks} {mask})")


def scatter_call(
    b: Builder, element: str, value: str, base: str, index: str, mask: str
) -> None:
    """Write a masked scatter; of lanes with one index the last one stays."""
    w, ty, masks = b.width, f"<{b.width} x {element}>", b.type(BOOL)
    pointers = b.emit(f"getelementptr {element}, ptr {base}, {b.type(UINT32)} {index}")
    name = f"llvm.masked.scatter.v{w}{mangled(element)}.v{w}p0"
    b.declarations[name] = f"declare void @{name}({ty}, <{w} x ptr>, {masks})"
    where = f"<{w} x ptr> align {bits_of(element) // 8} {pointers}"
    b.line(f"call void @{name}({ty} {value}, {where}, {masks} {mask})")


def gather_call(
    b: Builder,
    element: str,
    ty: str,
    base: str,
    index: str,
    mask: str,
    step: str = "",
) -> str:
    """Write a masked gather.

    Indices count entries, or what else `step` says.
    """
    w = b.width
    step = step or element
    pointers = b.emit(f"getelementptr {step}, ptr {base}, {b.type(UINT32)} {index}")
    name = f"llvm.masked.gather.v{w}{mangled(element)}.v{w}p0"
    masks = b.type(BOOL)
    where = f"<{w} x ptr>", f"align {max(1, bits_of(step) // 8)} {pointers}"
    return b.call(ty, name, where, (masks, mask), (ty, "zeroinitializer"))
