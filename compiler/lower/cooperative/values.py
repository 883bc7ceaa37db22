"""What code for blocks of threads is about: values of threads, shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lumijit.compiler.emit.type_names import bits_of

if TYPE_CHECKING:
    from lumijit.compiler.lower.cooperative.block import Block

#: The threads of a warp.
LANES = 32


@dataclass(frozen=True)
class Shape:
    """How many warps a block has, and how many entries each thread holds at once."""

    warps: int
    rows: int

    @property
    def threads(self) -> int:
        """Return how many threads a block has."""
        return LANES * self.warps

    @property
    def tile(self) -> int:
        """Return how many entries a block holds at once."""
        return self.threads * self.rows


def _operator(instruction: str) -> Callable[[Value, Value | int], Value]:
    """Return the method that writes an instruction on two values of one type."""

    def write(self: Value, other: Value | int) -> Value:
        return self.block.binary(instruction, self, self._like(other))

    return write


class Value:
    """What each thread of a block has, or, unless it `varies`, all have in common.

    Operators are those of unsigned integers. `names` are the values of its warps.
    """

    __slots__ = ("block", "names", "ty", "varies")

    def __init__(
        self, block: Block, ty: str, names: tuple[str, ...], varies: bool
    ) -> None:
        self.block = block
        self.ty = ty
        self.names = names
        self.varies = varies

    def _like(self, other: Value | int) -> Value:
        if isinstance(other, Value):
            return other
        return self.block.constant(self.ty, str(other))

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __floordiv__ = _operator("udiv")
    __mod__ = _operator("urem")
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shl")
    __rshift__ = _operator("lshr")

    def __lt__(self, other: Value | int) -> Value:
        return self.block.compare("ult", self, self._like(other))

    def equals(self, other: Value | int) -> Value:
        """Compare."""
        return self.block.compare("eq", self, self._like(other))

    def minimum(self, other: Value | int) -> Value:
        """Return the lesser of both."""
        other = self._like(other)
        return self.block.select(other < self, other, self)

    def to(self, ty: str) -> Value:
        """Convert to another integer type: cut, or filled up with zeros."""
        if self.ty == ty:
            return self
        kind = "trunc" if bits_of(self.ty) > bits_of(ty) else "zext"
        return self.block.cast(kind, self, ty)


@dataclass(frozen=True)
class Shared:
    """Memory that the threads of a block share; each of its owners has its part.

    These are the "block", "warp" or "thread".
    """

    name: str
    ty: str
    size: int
    owner: str
