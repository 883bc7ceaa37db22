"""Atomic updates of single entries, which are the same for packets and threads."""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder, float_hex
from lumijit.compiler.emit.combine import combine
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, DType


def atomic(b: Builder, op: str, t: DType, address: str, item: str) -> str:
    """Write one atomic read-modify-write of a scalar; return what was there."""
    element = t.memory_llvm
    if op == "identity":
        op = "xchg"
    elif op == "mul" or t is FLOAT16:
        return _compare_exchange(b, op, t, address, item)
    if op in ("min", "max"):
        kind = f"f{op}" if t.is_float else (op if t.is_signed else f"u{op}")
    elif op == "add":
        kind = "fadd" if t.is_float else "add"
    else:
        kind = op
    return b.emit(
        f"atomicrmw {kind} ptr {address}, {element} {item} monotonic, "
        f"align {t.size_bytes}"
    )


def _compare_exchange(b: Builder, op: str, t: DType, address: str, item: str) -> str:
    """Update atomically what no instruction does: products and halves."""
    bits = f"i{t.bits}"
    element = t.memory_llvm
    before, retry, done = (b.label(s) for s in ("before", "retry", "swapped"))
    first = b.emit(f"load {bits}, ptr {address}")
    b.branch(before)
    b.block(before)
    b.branch(retry)
    b.block(retry)
    seen = f"%{b.label('seen')}"
    b.line(f"{seen} = phi {bits} [ {first}, %{before} ], [ {seen}.n, %{retry} ]")
    old = b.emit(f"bitcast {bits} {seen} to {element}")
    if t is FLOAT16:
        wide = [b.emit(f"fpext half {v} to float") for v in (old, item)]
        result = combine(b, op, FLOAT32, "float", *wide)
        new = b.emit(f"fptrunc float {result} to half")
    else:
        new = combine(b, op, t, element, old, item)
    raw = b.emit(f"bitcast {element} {new} to {bits}")
    swap = b.emit(
        f"cmpxchg ptr {address}, {bits} {seen}, {bits} {raw} {b.scope}monotonic "
        "monotonic"
    )
    b.line(f"{seen}.n = extractvalue {{ {bits}, i1 }} {swap}, 0")
    fine = b.emit(f"extractvalue {{ {bits}, i1 }} {swap}, 1")
    b.branch_if(fine, done, retry)
    b.block(done)
    return old


def exchange_if(b: Builder, t: DType, address: str, new: str, expected: str) -> str:
    """Write an entry atomically if its bits are as expected; return what was there."""
    bits, element = f"i{t.bits}", t.memory_llvm
    raw = [b.emit(f"bitcast {element} {v} to {bits}") for v in (expected, new)]
    swap = b.emit(
        f"cmpxchg ptr {address}, {bits} {raw[0]}, {bits} {raw[1]} {b.scope}monotonic "
        "monotonic"
    )
    old = b.emit(f"extractvalue {{ {bits}, i1 }} {swap}, 0")
    return b.emit(f"bitcast {bits} {old} to {element}")


def add_with_error(b: Builder, t: DType, address: str, new: str) -> str:
    """Add a scalar atomically, and return what rounding took from the sum.

    Source: Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation
    endlicher Summen" (1974). Sums that aren't finite have no error.
    """
    element = t.memory_llvm
    old = b.emit(
        f"atomicrmw fadd ptr {address}, {element} {new} monotonic, align {t.size_bytes}"
    )
    total = b.emit(f"fadd {element} {old}, {new}")
    old_size, new_size = (_fabs(b, t, v) for v in (old, new))
    is_larger = b.emit(f"fcmp oge {element} {old_size}, {new_size}")
    large = b.emit(f"select i1 {is_larger}, {element} {old}, {element} {new}")
    small = b.emit(f"select i1 {is_larger}, {element} {new}, {element} {old}")
    rest = b.emit(f"fsub {element} {large}, {total}")
    error = b.emit(f"fadd {element} {rest}, {small}")
    nothing = b.emit(f"fsub {element} {total}, {total}")
    is_finite = b.emit(f"fcmp ord {element} {nothing}, {nothing}")
    zero = float_hex(t, 0.0)
    return b.emit(f"select i1 {is_finite}, {element} {error}, {element} {zero}")


def _fabs(b: Builder, t: DType, value: str) -> str:
    return b.call(t.llvm, f"llvm.fabs.f{t.bits}", (t.llvm, value))


def entry_address(b: Builder, element: str, base: str, index: str) -> str:
    """Return the address of an entry, given its index as an `i32`."""
    return b.at(element, base, b.emit(f"zext i32 {index} to i64"))
