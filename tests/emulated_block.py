"""Blocks of threads on the CPU: all threads of a block take each step together.

A warp is a vector of 32 lanes, and what one warp does is written for all of them before
the next step. So barriers need nothing, and shared memory is on the stack. Kernels have
the signature of those for packets; blocks are the workers' blocks, which take them in
order: a block may wait for an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.emit.type_names import bits_of, mangled
from lumijit.compiler.lower.collectives.scan import spinning
from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.kernels import Cooperative
from lumijit.compiler.lower.cooperative.values import LANES, Shape, Shared, Value

_ACCESSES = {
    "gather": """\
define internal {values} {function}({places} %at) noinline nounwind {{
  %x = call {values} {intrinsic}({places} align {align} %at, \
{masks} splat (i1 true), {values} poison)
  ret {values} %x
}}
declare {values} {intrinsic}({places}, {masks}, {values})""",
    "scatter": """\
define internal void {function}({values} %x, {places} %at, {masks} %in) \
noinline nounwind {{
  call void {intrinsic}({values} %x, {places} align {align} %at, {masks} %in)
  ret void
}}
declare void {intrinsic}({values}, {places}, {masks})""",
}


def _numbers(first: int) -> str:
    return f"<{', '.join(f'i64 {first + k}' for k in range(LANES))}>"


class EmulatedBlock(Block):
    """Writes a kernel that carries out blocks of threads on the CPU."""

    def __init__(self, shape: Shape, name: str) -> None:
        super().__init__(shape, name)
        self.copies = shape.warps
        self.pause, self._declaration = spinning()
        self.functions: dict[str, str] = {}
        warps = range(shape.warps)
        self.begin = Value(self, "i64", ("%begin",), False)
        self.end = Value(self, "i64", ("%end",), False)
        numbers = tuple(_numbers(LANES * w) for w in warps)
        self.thread = Value(self, "i64", numbers, True)
        self.lane = Value(self, "i64", (_numbers(0),) * shape.warps, True)
        splats = tuple(f"splat (i64 {w})" for w in warps)
        self.warp = Value(self, "i64", splats, True)

    @property
    def number(self) -> Value:
        """Return the block's number; its size is in slot 4."""
        return self.begin // self.argument(4, "i64")

    def spell(self, ty: str, varies: bool) -> str:
        """Spell the type of a warp's values as a vector."""
        return f"<{LANES} x {ty}>" if varies else ty

    def vary(self, value: Value) -> Value:
        """Put a value into all lanes."""
        if value.varies:
            return value
        (name,) = value.names
        ty = self.spell(value.ty, True)
        if not name.startswith("%"):
            splat = f"splat ({value.ty} {name})"
            return Value(self, value.ty, (splat,) * self.copies, True)
        one, all_ = self.fresh(), self.fresh()
        self.lines.append(
            f"  %{one} = insertelement {ty} poison, {value.ty} {name}, i32 0"
        )
        self.lines.append(
            f"  %{all_} = shufflevector {ty} %{one}, {ty} poison, "
            f"<{LANES} x i32> zeroinitializer"
        )
        return Value(self, value.ty, (f"%{all_}",) * self.copies, True)

    def _function(self, ty: str, kind: str) -> str:
        """Return the function that reads or writes in the lanes of a warp.

        Accesses are long, and a kernel has many of them.
        """
        short = mangled(ty)
        function = f"@{kind}.{short}"
        if function not in self.functions:
            values, masks, places = (self.spell(x, True) for x in (ty, "i1", "ptr"))
            align = bits_of(ty) // 8
            intrinsic = f"@llvm.masked.{kind}.v{LANES}{short}.v{LANES}p0"
            self.functions[function] = _ACCESSES[kind].format(**locals())
        return function

    def read(self, ty: str, address: Value) -> Value:
        """Read in all lanes."""
        function, values = self._function(ty, "gather"), self.spell(ty, True)
        return self.each(
            ty, lambda n, t, a: f"  %{n} = call {values} {function}({t} {a})", address
        )

    def write(self, value: Value, address: Value, where: Value) -> None:
        """Write in the lanes that are set, warp by warp."""
        values, masks, places = (self.spell(x, True) for x in (value.ty, "i1", "ptr"))
        function = self._function(value.ty, "scatter")
        for x, at, mask in zip(value.names, address.names, where.names, strict=True):
            given = f"{values} {x}, {places} {at}, {masks} {mask}"
            self.lines.append(f"  call void {function}({given})")

    def alone(self, code: Callable[[], None]) -> None:
        """Run code once: it stands for all threads."""
        code()

    def shuffle(self, value: Value, kind: str, by: int) -> Value:
        """Move values between the lanes of each warp."""

        def source(lane: int) -> int:
            other = {"up": lane - by, "down": lane + by, "at": by}[kind]
            return other if 0 <= other < LANES else lane

        picks = ", ".join(f"i32 {source(k)}" for k in range(LANES))
        return self.each(
            value.ty,
            lambda n, t, x: (
                f"  %{n} = shufflevector {t} {x}, {t} poison, <{LANES} x i32> <{picks}>"
            ),
            self.vary(value),
        )

    def ballot(self, mask: Value) -> Value:
        """Take the lanes of each warp as bits."""
        names: list[str] = []
        for name in self.vary(mask).names:
            bits = self.fresh()
            self.lines.append(f"  %{bits} = bitcast <{LANES} x i1> {name} to i{LANES}")
            names += self.vary(Value(self, f"i{LANES}", (f"%{bits}",), False)).names[:1]
        return Value(self, f"i{LANES}", tuple(names), True)

    def wait(self, kind: str) -> None:
        """Do nothing: all threads are in step."""

    def until_set(self, flags: Value, first: Value, count: Value, step: int) -> None:
        """Look at one flag after the other until it is set."""
        self._poll_all("i32", flags, first, count, step)

    def _poll_all(
        self, ty: str, words: Value, first: Value, count: Value, step: int
    ) -> None:

        def look(i: Value) -> list[Value]:
            (place,) = self.address(ty, words, first + i * step).names
            self.poll(place, ty)
            return []

        self.loop(self.constant("i64", "0"), count, 1, [], look)

    def told(self, words: Value, first: Value, count: Value, step: int) -> Value:
        """Look at one word after the other, and then read them all."""
        self._poll_all("i64", words, first, count, step)
        zero = self.constant("i64", "0")
        is_asking = self.thread < count
        at = self.select(is_asking, first + self.thread * step, first)
        return self.select(is_asking, self.load("i64", words, at), zero)

    def place(self, memory: Shared, index: Value) -> Value:
        """Return an address on the stack."""
        start = Value(self, "ptr", (f"%{memory.name}",), False)
        return self.address(memory.ty, start, index)

    def module(self) -> str:
        """Return the module, with shared memory at the kernel's beginning."""
        arrays = [
            f"  %{m.name} = alloca [{m.size} x {m.ty}], align 64" for m in self._shared
        ]
        return "\n".join(
            [
                f"define void @{self.name}(i64 %begin, i64 %end, i32 %thread, "
                "ptr %args) nounwind {",
                "entry:",
                *arrays,
                *self.lines,
                "  ret void",
                "}",
                *self.functions.values(),
                *self.declarations.values(),
                self._declaration,
            ]
        )


# Few warps and rows are written faster; a GPU has work for more.
SHAPE = Shape(warps=2, rows=4)


def emulated(shape: Shape = SHAPE) -> Cooperative:
    """Return the kernels for blocks that the CPU carries out in step."""
    return Cooperative(shape, shape, EmulatedBlock)
