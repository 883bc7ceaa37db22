"""Packets taken apart into shorter ones, such as registers, and put together again."""

from __future__ import annotations

from collections.abc import Iterator

from lumijit.compiler.emit.builder import Builder


def parts(b: Builder, element: str, packet: str, width: int) -> Iterator[str]:
    """Take a packet apart, so many lanes at a time; each is taken when it is asked for.

    Nothing is taken of a packet that has no more lanes.
    """
    if width == b.width:
        yield packet
        return
    ty = f"<{b.width} x {element}>"
    for start in range(0, b.width, width):
        yield b.shuffle(ty, packet, "poison", range(start, start + width))


def joined(b: Builder, element: str, parts: list[str], width: int) -> str:
    """Put vectors together to one, in pairs."""
    while len(parts) > 1:
        ty = f"<{width} x {element}>"
        width *= 2
        parts = [
            b.shuffle(ty, x, y, range(width))
            for x, y in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]
