"""Blocks of threads on NVIDIA's GPUs: code of one thread, with NVVM's intrinsics.

Launched with as many blocks as there are, of `Shape.threads` threads. Kernels take the
number of elements, that of a block, and the argument block. Blocks may wait for earlier
ones, as GPUs begin blocks in the order of their numbers (which NVIDIA's own library of
scans, CUB, takes for granted, too).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lumijit.compiler.emit.type_names import bits_of, is_float
from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.values import LANES, Shape, Shared, Value
from lumijit.runtime import nvptx

#: Telling the host, too, takes longer.
DEVICE_SCOPE = 'syncscope("device") '
_ALL = "i32 -1"
_SHUFFLES = {"up": "up", "down": "down", "at": "idx"}
_BARRIERS = {
    "sync": ("@llvm.nvvm.barrier.cta.sync.aligned.all(i32", "i32 0"),
    "sync_warp": ("@llvm.nvvm.bar.warp.sync(i32", _ALL),
}
_HEAD = """\
define ptx_kernel void @{name}(i64 %size, i64 %block, {given} %args) {{
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %thread = zext i32 %tid to i64
  %lane = and i64 %thread, 31
  %warp = lshr i64 %thread, 5
  %number = zext i32 %ctaid to i64
  %begin = mul i64 %number, %block
  %after = add i64 %begin, %block
  %is.short = icmp ult i64 %size, %after
  %end = select i1 %is.short, i64 %size, i64 %after
  br label %start
start:"""


class NvvmBlock(Block):
    """Writes a kernel for GPUs."""

    copies = 1
    pause = "; nothing"
    scope = DEVICE_SCOPE

    def __init__(self, shape: Shape, name: str) -> None:
        super().__init__(shape, name)
        self.current = "start"
        self.begin, self.end, self._number = (
            Value(self, "i64", (f"%{n}",), False) for n in ("begin", "end", "number")
        )
        self.thread, self.lane, self.warp = (
            Value(self, "i64", (f"%{n}",), True) for n in ("thread", "lane", "warp")
        )

    @property
    def number(self) -> Value:
        """Return the block's number."""
        return self._number

    def _declare(self, result: str, function: str, operands: str) -> None:
        text = f"declare {result} {function}({operands})"
        self.declarations[function] = f"{text} convergent nounwind"

    def spell(self, ty: str, varies: bool) -> str:
        """Spell the type of a thread's value."""
        return ty

    def vary(self, value: Value) -> Value:
        """Return a value, which every thread has."""
        return Value(self, value.ty, value.names, True)

    def read(self, ty: str, address: Value) -> Value:
        """Read, in each thread."""
        return self.each(ty, lambda n, _, a: f"  %{n} = load {ty}, ptr {a}", address)

    def load_row(self, ty: str, base: Value, index: Value, count: int) -> list[Value]:
        """Read neighbouring entries at once."""
        row, (at,) = self.fresh(), self.address(ty, base, index).names
        spelled, align = f"<{count} x {ty}>", count * bits_of(ty) // 8
        self.lines.append(f"  %{row} = load {spelled}, ptr {at}, align {align}")
        found = []
        for k in range(count):
            name = self.fresh()
            self.lines.append(f"  %{name} = extractelement {spelled} %{row}, i32 {k}")
            found.append(Value(self, ty, (f"%{name}",), True))
        return found

    def store_row(
        self, values: Sequence[Value], base: Value, index: Value, where: Value
    ) -> None:
        """Write neighbouring entries at once."""
        ty, count = values[0].ty, len(values)
        spelled, align = f"<{count} x {ty}>", count * bits_of(ty) // 8
        (at,), row = self.address(ty, base, index).names, "poison"
        for k, value in enumerate(values):
            name = f"%{self.fresh()}"
            self.lines.append(
                f"  {name} = insertelement {spelled} {row}, {ty} {value.names[0]}, "
                f"i32 {k}"
            )
            row = name
        store = f"  store {spelled} {row}, ptr {at}, align {align}"
        self.branch(where, lambda: self.lines.append(store))

    def write(self, value: Value, address: Value, where: Value) -> None:
        """Write in the threads that are set."""
        store = f"  store {value.ty} {value.names[0]}, ptr {address.names[0]}"
        if where.names == ("true",):
            self.lines.append(store)
        else:
            self.branch(where, lambda: self.lines.append(store))

    def alone(self, code: Callable[[], None]) -> None:
        """Run code in the first thread."""
        self.branch(self.thread.equals(0), code)

    def shuffle(self, value: Value, kind: str, by: int) -> Value:
        """Exchange words of 32 bits with another lane."""
        bits = bits_of(value.ty)
        word = value
        if is_float(value.ty):
            word = self.cast("bitcast", value, f"i{bits}")
        if bits == 64:
            parts = [word.to("i32"), (word >> 32).to("i32")]
        else:
            parts = [word.to("i32")]
        low, *high = (self._shuffled(part, kind, by) for part in parts)
        found = low.to(f"i{bits}")
        if high:
            found = found | (high[0].to("i64") << 32)
        if is_float(value.ty):
            found = self.cast("bitcast", found, value.ty)
        return self.vary(found)

    def _shuffled(self, word: Value, kind: str, by: int) -> Value:
        function = f"@llvm.nvvm.shfl.sync.{_SHUFFLES[kind]}.i32"
        self._declare("i32", function, "i32, i32, i32, i32")
        bound = 0 if kind == "up" else LANES - 1
        given = f"i32 {by}, i32 {bound}"
        return self.each(
            "i32",
            lambda n, _, x: f"  %{n} = call i32 {function}({_ALL}, i32 {x}, {given})",
            word,
        )

    def ballot(self, mask: Value) -> Value:
        """Vote."""
        function = "@llvm.nvvm.vote.ballot.sync"
        self._declare("i32", function, "i32, i1")
        return self.each(
            "i32",
            lambda n, _, x: f"  %{n} = call i32 {function}({_ALL}, i1 {x})",
            self.vary(mask),
        )

    def wait(self, kind: str) -> None:
        """Write a barrier."""
        function, given = _BARRIERS[kind]
        name = function.partition("(")[0]
        self._declare("void", name, "i32")
        self.lines.append(f"  call void {name}({given})")

    def until_set(self, flags: Value, first: Value, count: Value, step: int) -> None:
        """Look at a flag in each thread until it is set."""
        self._asked("i32", flags, first + self.thread * step, count, "acquire")

    def told(self, words: Value, first: Value, count: Value, step: int) -> Value:
        """Look at a word in each thread until it is there."""
        at = first + self.thread * step
        return self._asked("i64", words, at, count, "monotonic")

    def _asked(
        self, ty: str, words: Value, at: Value, count: Value, order: str
    ) -> Value:
        """Look at words until they are set, in the first threads; others get zeros."""
        (place,) = self.address(ty, words, at).names
        is_asking, before = (self.thread < count).names[0], self.current
        stem = self.fresh()
        self.lines.append(f"  br i1 {is_asking}, label %{stem}.in, label %{stem}.out")
        self.label(f"{stem}.in")
        word = self.poll(place, ty, order)
        inside = self.current
        self.lines.append(f"  br label %{stem}.out")
        self.label(f"{stem}.out")
        self.lines.append(
            f"  %{stem} = phi {ty} [ 0, %{before} ], [ {word}, %{inside} ]"
        )
        return Value(self, ty, (f"%{stem}",), True)

    def place(self, memory: Shared, index: Value) -> Value:
        """Return an address in shared memory."""
        array = f"ptr addrspace(3) @{memory.name} to ptr"
        start = Value(self, "ptr", (f"addrspacecast ({array})",), False)
        return self.address(memory.ty, start, index)

    def module(self) -> str:
        """Return the module, with shared memory beside the kernel."""
        given = nvptx.slots_parameter(self.slots)
        arrays = [
            f"@{m.name} = internal addrspace(3) global [{m.size} x {m.ty}] undef, "
            "align 64"
            for m in self._shared
        ]
        return "\n".join(
            [
                *arrays,
                _HEAD.format(name=self.name, given=given),
                *self.lines,
                "  ret void",
                "}",
                "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
                "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
                *self.declarations.values(),
            ]
        )
