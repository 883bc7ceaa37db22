"""Code for the lanes of a packet, one by one: written out, or in a loop."""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.lower.common.atomics import entry_address
from lumijit.runtime.dtypes import UINT32


def lane_of(b: Builder, ty: str, vector: str, lane: int | str) -> str:
    """Take one lane of a vector; its number is known, or an `i64`."""
    spelled = f"i64 {lane}" if isinstance(lane, str) else f"i32 {lane}"
    return b.emit(f"extractelement {ty} {vector}, {spelled}")


def lane_address(
    b: Builder, element: str, base: str, index: str, lane: int | str
) -> str:
    """Return the address of the entry that a lane of a vector of indices tells."""
    return entry_address(b, element, base, lane_of(b, b.type(UINT32), index, lane))


def each_lane(b: Builder, element: str, value: Callable[[int], str]) -> str:
    """Put what is computed for each lane into one vector."""
    ty = f"<{b.width} x {element}>"
    result = "poison"
    for k in range(b.width):
        result = b.emit(f"insertelement {ty} {result}, {element} {value(k)}, i32 {k}")
    return result


def mask_bits(b: Builder, mask: str) -> str:
    """Return a narrow mask as an integer of one bit a lane."""
    return b.emit(f"bitcast <{b.width} x i1> {mask} to i{b.width}")


class LaneLoop:
    """A loop over the lanes that are set in an integer of bits, lowest first.

    `lane` is the number of the turn's, and `left` the lanes that are still to be
    served, both `i64`. If one `is_set` in any case, that isn't tested. `carried` names
    a vector of UInt32 that each turn updates, and zero before.
    """

    def __init__(
        self, b: Builder, bits: str, is_set: bool = False, carried: str = ""
    ) -> None:
        self.b = b
        self.latch, self._head, self._done = (
            b.label(s) for s in ("latch", "lanes", "served")
        )
        self.left = f"%{b.label('left')}"
        start = self.word(bits)
        self.before = b.current
        if is_set:
            b.branch(self._head)
        else:
            b.branch_if(b.emit(f"icmp ne i64 {start}, 0"), self._head, self._done)
        b.block(self._head)
        self._phi("i64", self.left, start)
        if carried:
            self._phi(b.type(UINT32), carried, "zeroinitializer")
        b.declarations["llvm.cttz.i64"] = "declare i64 @llvm.cttz.i64(i64, i1)"
        self.lane = b.emit(f"call i64 @llvm.cttz.i64(i64 {self.left}, i1 true)")

    def _phi(self, ty: str, name: str, first: str) -> None:
        sides = f"[ {first}, %{self.before} ], [ {name}.n, %{self.latch} ]"
        self.b.line(f"{name} = phi {ty} {sides}")

    def word(self, bits: str) -> str:
        """Return an integer of bits as an `i64`."""
        width = self.b.width
        return bits if width == 64 else self.b.emit(f"zext i{width} {bits} to i64")

    def same(self, index: str, at: str) -> tuple[str, str]:
        """Return the lanes left that have an index: as an `i64`, and as a mask."""
        b = self.b
        equal = b.compare("eq", UINT32, index, b.splat(UINT32, at))
        bits = self.word(mask_bits(b, b.narrow(equal)))
        served = b.emit(f"and i64 {bits}, {self.left}")
        return served, self.mask(served)

    def mask(self, lanes: str) -> str:
        """Return lanes, bits of an `i64`, as a mask."""
        b = self.b
        if b.width < 64:
            lanes = b.emit(f"trunc i64 {lanes} to i{b.width}")
        return b.emit(f"bitcast i{b.width} {lanes} to <{b.width} x i1>")

    def close(self, served: str = "") -> None:
        """Go on without the lanes that were `served` (an `i64`), or without the one."""
        b = self.b
        b.branch(self.latch)
        b.block(self.latch)
        if served:
            others = b.emit(f"xor i64 {served}, -1")
        else:
            others = b.emit(f"add i64 {self.left}, -1")
        b.line(f"{self.left}.n = and i64 {self.left}, {others}")
        more = b.emit(f"icmp ne i64 {self.left}.n, 0")
        b.branch_if(more, self._head, self._done)
        b.block(self._done)
