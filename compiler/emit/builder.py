"""Writes LLVM IR text for one function, for packets of lanes or for one thread.

Owns the spelling of types, constants, instructions and intrinsics. Every value
is the text of an operand without its type ("%12", "splat (i32 3)"). With a
width the builder writes vectors `<width x T>` (the CPU target); with width 0 it
writes scalars (the thread target). What to write is decided by the op records,
`mathlib` and `packet`.

Masks have two forms: `<W x i1>` as comparisons give it and selections take it, and
the wide `<W x i32>` of all or no bits. Processors without mask registers keep
masks in vector registers, and LLVM packs an `<W x i1>` that logic or another block
uses down to bytes; so there logic works on the wide form, and masks cross blocks in
it. `narrow` and `wide` convert, at most once in a block.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from lumijit.compiler.emit import conversions
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    INT32,
    DType,
)

Operand = str | int | float | bool


class TargetInfo(NamedTuple):
    """What the lowering may know of the processor."""

    lanes_f32: int = 8
    # Mask registers, which decide on the form of masks and of indexed accesses; and
    # the instructions of x86 beside them.
    has_masks: bool = False
    has_avx512: bool = False
    # Whether gathers (and scatters, which need mask registers) take less time than what
    # is written out lane by lane.
    has_fast_gathers: bool = False

    @property
    def has_fast_scatters(self) -> bool:
        """Whether scatters take less time than what is written out lane by lane."""
        return self.has_masks and self.has_fast_gathers


def float_hex(dtype: DType, value: float) -> str:
    """Spell a float constant exactly, as LLVM wants it for this type."""
    # The cache can't tell the zeros apart: they are equal.
    return _float_hex(dtype, value, math.copysign(1.0, value) < 0)


@lru_cache(maxsize=4096)
def _float_hex(dtype: DType, value: float, is_negative: bool) -> str:
    if dtype is FLOAT16:
        (bits,) = struct.unpack("<H", struct.pack("<e", dtype.wrap(value)))
        return f"0xH{bits:04X}"
    if dtype is FLOAT32:
        value = dtype.wrap(value)
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


class Builder:
    """Collects the lines of one function body and the declarations it needs."""

    #: Whom exchanges of memory tell, where that isn't everybody.
    scope = ""

    def __init__(self, width: int, target: TargetInfo) -> None:
        self.width = width
        self.target = target
        self.lines: list[str] = []
        # The basic block that lines are appended to.
        self.current = ""
        self.declarations: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self._next = 0
        self.has_plain_masks = target.has_masks or not width
        self._wide_names: set[str] = set()
        self._wide_of: dict[str, str] = {}
        self._narrow_of: dict[str, str] = {}
        # By each form of a mask, the name that it had first.
        self._origins: dict[str, str] = {}
        self._types: dict[DType, str] = {}

    def _spell(self, scalar: str) -> str:
        return f"<{self.width} x {scalar}>" if self.width else scalar

    # Types, names and operands

    def type(self, dtype: DType) -> str:
        """Spell the register type of one value."""
        try:
            return self._types[dtype]
        except KeyError:
            spelled = self._types[dtype] = self._spell(dtype.llvm)
            return spelled

    @property
    def lanes(self) -> int:
        """How many elements a value has."""
        return max(1, self.width)

    def memory_type(self, dtype: DType) -> str:
        """Spell the type of one value as it is in memory."""
        return self._spell(dtype.memory_llvm)

    def suffix(self, dtype: DType) -> str:
        """Spell the type as intrinsics mangle it: `v16f32`, `i64`."""
        scalar = f"f{dtype.bits}" if dtype.is_float else f"i{dtype.bits}"
        return f"v{self.width}{scalar}" if self.width else scalar

    def name(self) -> str:
        """Return a fresh value name."""
        self._next += 1
        return f"%v{self._next}"

    def label(self, stem: str) -> str:
        """Return a fresh block label (without the percent sign)."""
        self._next += 1
        return f"{stem}{self._next}"

    def const(self, dtype: DType, value: float) -> str:
        """Spell a constant operand that is the same in all lanes."""
        if dtype.is_float:
            text = float_hex(dtype, float(value))
        elif dtype.is_bool:
            text = "true" if value else "false"
        else:
            text = str(dtype.wrap(value))
        return f"splat ({dtype.llvm} {text})" if self.width else text

    def operand(self, dtype: DType, value: Operand) -> str:
        """Return an operand's text; Python numbers become constants."""
        return value if isinstance(value, str) else self.const(dtype, value)

    # Raw lines

    def line(self, text: str) -> None:
        """Append one line."""
        self.lines.append("  " + text)

    def emit(self, text: str) -> str:
        """Append `%new = text` and return the new name."""
        self._next += 1
        name = f"%v{self._next}"
        self.lines.append(f"  {name} = {text}")
        return name

    def block(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.current = label
        self._wide_of.clear()
        self._narrow_of.clear()

    def branch(self, label: str) -> None:
        """Jump to a block."""
        self.lines.append(f"  br label %{label}")

    def branch_if(self, condition: str, yes: str, no: str) -> None:
        """Jump on a scalar `i1`."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    def phi(self, ty: str, *sides: tuple[str, str]) -> str:
        """Join values of a spelled type, each with the block that it comes from."""
        spelled = ", ".join([f"[ {value}, %{block} ]" for value, block in sides])
        return self.emit(f"phi {ty} {spelled}")

    # Memory, by spelled types

    def at(self, element: str, base: str, index: str | int) -> str:
        """Return where an entry of an array lies; its index is an `i64`."""
        return self.emit(f"getelementptr {element}, ptr {base}, i64 {index}")

    def load(self, ty: str, address: str, align: int = 0) -> str:
        """Read from an address, aligned as the type wants it, or as is said."""
        told = f", align {align}" if align else ""
        return self.emit(f"load {ty}, ptr {address}{told}")

    def load_at(self, element: str, base: str, index: str | int) -> str:
        """Read an entry of an array; its index is an `i64`."""
        return self.load(element, self.at(element, base, index))

    # Masks

    @property
    def mask_type(self) -> str:
        """The type of masks that cross blocks."""
        return self.type(BOOL) if self.has_plain_masks else self.type(INT32)

    def note_wide(self, name: str) -> str:
        """Declare that a value (a phi, say) is a mask in its crossing form."""
        if not self.has_plain_masks:
            self._wide_names.add(name)
        return name

    def wide(self, mask: str) -> str:
        """Return a mask in the form for logic and for other blocks."""
        if self.has_plain_masks or mask in self._wide_names:
            return mask
        if mask.startswith("splat (i32"):
            return mask
        if mask.startswith("splat (i1"):
            return self.const(INT32, -1 if "true" in mask else 0)
        found = self._wide_of.get(mask)
        if found is None:
            found = self.convert("sext", BOOL, mask, INT32)
            self._wide_names.add(found)
            self._origins[found] = self.origin(mask)
            self._wide_of[mask] = found
            self._narrow_of[found] = mask
        return found

    def narrow(self, mask: str) -> str:
        """Return a mask as `<W x i1>`."""
        if mask not in self._wide_names:
            if mask.startswith("splat (i32"):
                return self.const(BOOL, "-1" in mask)
            return mask
        found = self._narrow_of.get(mask)
        if found is None:
            zero = self.const(INT32, 0)
            found = self.emit(f"icmp slt {self.type(INT32)} {mask}, {zero}")
            self._origins[found] = self.origin(mask)
            self._narrow_of[mask] = found
            self._wide_of[found] = mask
        return found

    def crossing_type(self, t: DType) -> str:
        """Spell the type in which a value crosses blocks."""
        return self.mask_type if t is BOOL else self.type(t)

    def crossing(self, t: DType, value: str) -> str:
        """Return a value in the form in which it crosses blocks."""
        return self.wide(value) if t is BOOL else value

    def arrived(self, t: DType, value: str) -> str:
        """Note that a value (a phi, say) has crossed blocks."""
        return self.note_wide(value) if t is BOOL else value

    def origin(self, mask: str) -> str:
        """Return the name that a mask had before it changed its form, if it did."""
        return self._origins.get(mask, mask)

    def _logic(self, instr: str, a: Operand, b: Operand) -> str:
        """Combine two masks."""
        x, y = (self.wide(self.operand(BOOL, v)) for v in (a, b))
        return self.note_wide(self.emit(f"{instr} {self.mask_type} {x}, {y}"))

    # Instructions

    def binary(self, instr: str, dtype: DType, a: Operand, b: Operand) -> str:
        """Write `instr T a, b`."""
        if dtype is BOOL:
            return self._logic(instr, a, b)
        return self.emit(
            f"{instr} {self.type(dtype)} "
            f"{self.operand(dtype, a)}, {self.operand(dtype, b)}"
        )

    def add(self, t: DType, a: Operand, b: Operand) -> str:
        """Add, float or integer."""
        return self.binary("fadd" if t.is_float else "add", t, a, b)

    def sub(self, t: DType, a: Operand, b: Operand) -> str:
        """Subtract, float or integer."""
        return self.binary("fsub" if t.is_float else "sub", t, a, b)

    def mul(self, t: DType, a: Operand, b: Operand) -> str:
        """Multiply, float or integer."""
        return self.binary("fmul" if t.is_float else "mul", t, a, b)

    def fdiv(self, t: DType, a: Operand, b: Operand) -> str:
        """Divide floats."""
        return self.binary("fdiv", t, a, b)

    def neg(self, t: DType, a: Operand) -> str:
        """Negate, float or integer."""
        if t.is_float:
            return self.emit(f"fneg {self.type(t)} {self.operand(t, a)}")
        return self.binary("sub", t, 0, a)

    def compare(self, predicate: str, t: DType, a: Operand, b: Operand) -> str:
        """Compare; float predicates start with o or u (olt, une), others are icmp."""
        if t is BOOL:
            differ = self._logic("xor", a, b)
            return differ if predicate == "ne" else self._logic("xor", differ, True)
        instr = "fcmp" if t.is_float else "icmp"
        return self.binary(f"{instr} {predicate}", t, a, b)

    def select(self, t: DType, mask: str, a: Operand, b: Operand) -> str:
        """Blend by a mask."""
        ty = self.type(t)
        x, y = self.operand(t, a), self.operand(t, b)
        if t is BOOL:
            ty, x, y = self.mask_type, self.wide(x), self.wide(y)
        result = self.emit(
            f"select {self.type(BOOL)} {self.narrow(mask)}, {ty} {x}, {ty} {y}"
        )
        return self.note_wide(result) if t is BOOL else result

    def blend(self, ty: str, mask: str, x: str, y: str = "zeroinitializer") -> str:
        """Blend values of a spelled type, such as those of memory, by a mask."""
        chosen = f"{self.type(BOOL)} {self.narrow(mask)}"
        return self.emit(f"select {chosen}, {ty} {x}, {ty} {y}")

    def to_memory(self, t: DType, value: str) -> str:
        """Return a value as it is in memory, where masks are bytes."""
        if t is not BOOL:
            return value
        masks = f"{self.type(BOOL)} {self.narrow(value)}"
        return self.emit(f"zext {masks} to {self.memory_type(BOOL)}")

    def from_memory(self, t: DType, raw: str) -> str:
        """Return what a value in memory is."""
        if t is not BOOL:
            return raw
        return self.emit(f"icmp ne {self.memory_type(BOOL)} {raw}, zeroinitializer")

    def convert(self, instr: str, source: DType, value: Operand, to: DType) -> str:
        """Write a conversion instruction such as `sitofp`, `zext`, `bitcast`."""
        return self.emit(
            f"{instr} {self.type(source)} {self.operand(source, value)} "
            f"to {self.type(to)}"
        )

    def bitcast(self, source: DType, value: Operand, to: DType) -> str:
        """Reinterpret the bits of a value as another type of the same width."""
        if source.llvm == to.llvm:
            return self.operand(source, value)
        return self.convert("bitcast", source, value, to)

    def intrinsic(
        self, name: str, result: DType, args: Iterable[tuple[DType, Operand]]
    ) -> str:
        """Call an elementwise LLVM intrinsic by its full mangled name."""
        given = [(self.type(t), self.operand(t, v)) for t, v in args]
        return self.call(self.type(result), name, *given)

    def call(self, ty: str, name: str, *operands: tuple[str, str]) -> str:
        """Call a function of LLVM's; operands stand behind their spelled types."""
        if name not in self.declarations:
            types = ", ".join([t for t, _ in operands])
            self.declarations[name] = f"declare {ty} @{name}({types})"
        given = ", ".join([f"{t} {x}" for t, x in operands])
        return self.emit(f"call {ty} @{name}({given})")

    def unary_intrinsic(self, stem: str, t: DType, a: Operand) -> str:
        """Call `llvm.stem.T(T)`, such as fabs, floor, sqrt, ctpop."""
        return self.intrinsic(f"llvm.{stem}.{self.suffix(t)}", t, [(t, a)])

    def binary_intrinsic(self, stem: str, t: DType, a: Operand, b: Operand) -> str:
        """Call `llvm.stem.T(T, T)`, such as copysign, smax, umin."""
        return self.intrinsic(f"llvm.{stem}.{self.suffix(t)}", t, [(t, a), (t, b)])

    def fma(self, t: DType, a: Operand, b: Operand, c: Operand) -> str:
        """Write a fused multiply-add `a * b + c` on floats."""
        return self.intrinsic(f"llvm.fma.{self.suffix(t)}", t, [(t, a), (t, b), (t, c)])

    def horner(self, t: DType, x: Operand, coefficients: Iterable[float]) -> str:
        """Evaluate a polynomial, highest coefficient first, by Horner's scheme."""
        it = iter(coefficients)
        result: Operand = next(it)
        for c in it:
            result = self.fma(t, result, x, c)
        return self.operand(t, result)

    def splat(self, t: DType, scalar: str) -> str:
        """Broadcast a scalar SSA value to all lanes."""
        return self.spread(t.llvm, scalar) if self.width else scalar

    def spread(self, element: str, scalar: str) -> str:
        """Broadcast a scalar of a spelled type to all lanes."""
        ty = f"<{self.width} x {element}>"
        first = self.emit(f"insertelement {ty} poison, {element} {scalar}, i32 0")
        return self.emit(
            f"shufflevector {ty} {first}, {ty} poison, "
            f"<{self.width} x i32> zeroinitializer"
        )

    def shuffle(self, ty: str, x: str, y: str, picks: Sequence[int]) -> str:
        """Pick lanes of two vectors of one spelled type."""
        spelled = ", ".join(f"i32 {k}" for k in picks)
        mask = f"<{len(picks)} x i32> <{spelled}>"
        return self.emit(f"shufflevector {ty} {x}, {ty} {y}, {mask}")

    def any_lane(self, mask: str) -> str:
        """Reduce a mask to a scalar `i1`: is it set in any lane."""
        width = self.width
        if not width:
            return mask
        if self.has_plain_masks:
            current = mask
        else:
            wide, lanes = self.wide(mask), self.target.lanes_f32
            while width > lanes:
                wide = self._fold_half(wide, width)
                width //= 2
            current = self.emit(f"icmp slt <{width} x i32> {wide}, zeroinitializer")
        bits = self.emit(f"bitcast <{width} x i1> {current} to i{width}")
        return self.emit(f"icmp ne i{width} {bits}, 0")

    def _fold_half(self, wide: str, width: int) -> str:
        """Combine the halves of a wide mask with `or`."""
        ty = f"<{width} x i32>"
        half = width // 2
        parts = []
        for start in (0, half):
            picks = range(start, start + half)
            parts.append(self.shuffle(ty, wide, "poison", picks))
        return self.emit(f"or <{half} x i32> {parts[0]}, {parts[1]}")

    # Casts between value types

    def cast(self, source: DType, value: str, to: DType) -> str:
        """Convert a value the way C does; floats out of range saturate, NaN is 0."""
        if source is to or (source.llvm == to.llvm and not source.is_bool):
            return value
        if to.is_bool:
            if source.is_float:
                return self.compare("une", source, value, 0)
            return self.compare("ne", source, value, 0)
        if source.is_bool:
            return self.select(to, value, 1, 0)
        if source.is_float and to.is_float:
            return conversions.float_to_float(self, source, value, to)
        if source.is_float:
            return conversions.float_to_int(self, source, value, to)
        if to.is_float:
            return conversions.int_to_float(self, source, value, to)
        if to.bits < source.bits:
            return self.convert("trunc", source, value, to)
        return self.convert("sext" if source.is_signed else "zext", source, value, to)
