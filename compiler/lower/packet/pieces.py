"""Moves neighbouring entries of a packet between memory and the stack.

That is how processors that mask neither bytes nor halves access a row's part of a
packet: the packet lies on the stack, and a function copies so many bytes of it.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.type_names import bits_of


def copy(b: Builder, element: str, to: str, start: str, count: str) -> None:
    """Copy some entries of a packet, one at least; both are `i64`.

    Args:
        b: where to write.
        element: how an entry is spelled.
        to: the address of the first entry that is written.
        start: that of the first one that is read.
        count: how many.
    """
    size = bits_of(element) // 8
    most = b.width * size
    name = f"copy_{most}"
    if name not in b.helpers:
        b.helpers[name] = _function(name, most)
    amount = b.emit(f"mul i64 {count}, {size}") if size > 1 else count
    b.line(f"call void @{name}(ptr {to}, ptr {start}, i64 {amount})")


def _function(name: str, most: int) -> str:
    """Write the function that copies from 1 to `most` bytes, a power of two.

    What fills a register is copied as its first and its last bytes, which may overlap.
    """
    lines = [
        f"define internal void @{name}(ptr %to, ptr %from, i64 %count) "
        "noinline nounwind {"
    ]
    size = most // 2
    while size:
        ty = f"i{8 * size}" if size <= 8 else f"<{size} x i8>"
        lines += [
            f"  %is{size} = icmp uge i64 %count, {size}",
            f"  br i1 %is{size}, label %by{size}, label %below{size}",
            f"by{size}:",
            f"  %last{size} = sub i64 %count, {size}",
            f"  %source{size} = getelementptr i8, ptr %from, i64 %last{size}",
            f"  %target{size} = getelementptr i8, ptr %to, i64 %last{size}",
            f"  %head{size} = load {ty}, ptr %from, align 1",
            f"  %tail{size} = load {ty}, ptr %source{size}, align 1",
            f"  store {ty} %head{size}, ptr %to, align 1",
            f"  store {ty} %tail{size}, ptr %target{size}, align 1",
            "  ret void",
            f"below{size}:",
        ]
        size //= 2
    return "\n".join([*lines, "  ret void", "}"])
