"""Code for the lanes of a packet, one by one: written out, or in a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.repetition import fold
from lumijit.compiler.lower.common.atomics import entry_address
from lumijit.runtime.dtypes import UINT32

# More aren't written out one after the other.
MANY_LANES = 32
# How many a turn of a loop over all lanes serves.
LANES_A_TURN = 4


def constants(numbers: Iterable[int]) -> str:
    """Spell a vector of known integers of 32 bits."""
    return "<" + ", ".join(f"i32 {number}" for number in numbers) + ">"


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


def every_lane(b: Builder, code: Callable[[str], None]) -> None:
    """Write a loop over all lanes; `code` gets the number of one, an `i64`."""

    def turn(first: str, _: list[str]) -> list[str]:
        for k in range(LANES_A_TURN):
            code(b.emit(f"add i64 {first}, {k}") if k else first)
        return []

    fold(b, b.width, LANES_A_TURN, "", [], turn)


def looped(b: Builder, element: str, base: str, places: str, found: str) -> str:
    """Read entries lane by lane by way of the stack, with little code.

    `places` are the addresses of the lanes' indices, `found` that of what is read.
    """

    def read(lane: str) -> None:
        place = entry_address(b, element, base, b.load_at("i32", places, lane))
        entry = b.load(element, place)
        b.line(f"store {element} {entry}, ptr {b.at(element, found, lane)}")

    every_lane(b, read)
    return b.load(f"<{b.width} x {element}>", found, 32)


def mask_bits(b: Builder, mask: str) -> str:
    """Return a narrow mask as an integer of one bit a lane."""
    return b.emit(f"bitcast <{b.width} x i1> {mask} to i{b.width}")


class LaneLoop:
    """A loop over the lanes that are set in an integer of bits, lowest first.

    `lane` is the number of the turn's, an `i64`, and `left` the lanes that are still to
    be served, of type `bits`. If one `is_set` in any case, that isn't tested. `carried`
    names a vector of UInt32 that each turn updates, and zero before.
    """

    def __init__(
        self, b: Builder, bits: str, is_set: bool = False, carried: str = ""
    ) -> None:
        self.b = b
        self.bits = f"i{max(b.width, 64)}"
        self.latch, self._head, self._done = (
            b.label(s) for s in ("latch", "lanes", "served")
        )
        self.left = f"%{b.label('left')}"
        start = self.word(bits)
        self.before = b.current
        if is_set:
            b.branch(self._head)
        else:
            some = b.emit(f"icmp ne {self.bits} {start}, 0")
            b.branch_if(some, self._head, self._done)
        b.block(self._head)
        self._phi(self.bits, self.left, start)
        if carried:
            self._phi(b.type(UINT32), carried, "zeroinitializer")
        self.lane = self._counted("cttz", self.left, ("i1", "true"))

    def _phi(self, ty: str, name: str, first: str) -> None:
        sides = f"[ {first}, %{self.before} ], [ {name}.n, %{self.latch} ]"
        self.b.line(f"{name} = phi {ty} {sides}")

    def _counted(self, function: str, lanes: str, *more: tuple[str, str]) -> str:
        """Call one of LLVM's functions that count bits; the result is an `i64`."""
        b, name = self.b, f"llvm.{function}.{self.bits}"
        count = b.call(self.bits, name, (self.bits, lanes), *more)
        return b.emit(f"trunc {self.bits} {count} to i64") if b.width > 64 else count

    def count(self, lanes: str) -> str:
        """Return how many lanes are set, as an `i64`."""
        return self._counted("ctpop", lanes)

    def word(self, bits: str) -> str:
        """Return an integer of bits in the type of `left`."""
        b = self.b
        if b.width >= 64:
            return bits
        return b.emit(f"zext i{b.width} {bits} to {self.bits}")

    def same(self, index: str, at: str) -> tuple[str, str]:
        """Return the lanes left that have an index: as bits, and as a mask."""
        b = self.b
        equal = b.compare("eq", UINT32, index, b.splat(UINT32, at))
        bits = self.word(mask_bits(b, b.narrow(equal)))
        served = b.emit(f"and {self.bits} {bits}, {self.left}")
        return served, self.mask(served)

    def mask(self, lanes: str) -> str:
        """Return lanes, bits of the type of `left`, as a mask."""
        b = self.b
        if b.width < 64:
            lanes = b.emit(f"trunc {self.bits} {lanes} to i{b.width}")
        return b.emit(f"bitcast i{b.width} {lanes} to <{b.width} x i1>")

    def close(self, served: str = "") -> None:
        """Go on without the lanes that were `served` (bits), or without the one."""
        b = self.b
        b.branch(self.latch)
        b.block(self.latch)
        if served:
            others = b.emit(f"xor {self.bits} {served}, -1")
        else:
            others = b.emit(f"add {self.bits} {self.left}, -1")
        b.line(f"{self.left}.n = and {self.bits} {self.left}, {others}")
        more = b.emit(f"icmp ne {self.bits} {self.left}.n, 0")
        b.branch_if(more, self._head, self._done)
        b.block(self._done)
