"""Quotients and remainders of integers by known numbers, without a division."""

from __future__ import annotations

from lumijit.compiler.ir import ranges, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.runtime.dtypes import DType


def quotient(a: Node, b: Node) -> Node | None:
    """Divide by a literal with products and shifts."""
    if b.op is not LITERAL or b.attr == 0:
        return None
    if b.attr == 1:
        return a
    found = _divide_by_multiplying(a, b.attr)
    if not a.type.is_signed:
        low, high = ranges.limits(a)
        ranges.note(found, low // b.attr, high // b.attr)
    return found


def remainder(a: Node, b: Node) -> Node | None:
    """Return what a quotient by a literal leaves."""
    if a.type.is_float or b.op is not LITERAL or b.attr == 0:
        return None
    if b.attr in (1, -1):
        return trace.literal(a.type, 0, a.size)
    largest = abs(b.attr) - 1
    if _is_power(a.type, b.attr):
        rest = trace.emit2(lo.AND, a, _int(a.type, largest))
    else:
        product = trace.emit2(ar.MUL, _divide_by_multiplying(a, b.attr), b)
        rest = trace.emit2(ar.SUB, a, product)
    ranges.note(rest, -largest if a.type.is_signed else 0, largest)
    return rest


def _divide_by_multiplying(n: Node, divisor: int) -> Node:
    """Divide by an invariant integer with a high product and shifts.

    Source: Granlund and Montgomery, "Division by invariant integers using
    multiplication" (1994), figures 4.1, 4.2 and 5.1. There are three forms for unsigned
    numbers and one for signed ones, so that most other divisors give the same kernel.
    """
    t, bits = n.type, n.type.bits
    magnitude = abs(divisor)
    if _is_power(t, divisor):
        return _shift_right(n, divisor.bit_length() - 1)
    if not t.is_signed:
        log = (magnitude - 1).bit_length()
        short = (1 << (bits + log - 1)) // magnitude + 1
        if short * magnitude - (1 << (bits + log - 1)) <= 1 << (log - 1):
            return _shift_right(trace.emit2(ar.MULHI, n, _int(t, short)), log - 1)
        factor = ((1 << bits) * ((1 << log) - magnitude)) // magnitude + 1
        high = trace.emit2(ar.MULHI, n, _int(t, factor))
        rest = _shift_right(trace.emit2(ar.SUB, n, high), min(log, 1))
        total = trace.emit2(ar.ADD, high, rest)
        return _shift_right(total, max(log - 1, 0))
    log = max((magnitude - 1).bit_length(), 1)
    factor = (1 << (bits + log - 1)) // magnitude + 1 - (1 << bits)
    total = trace.emit2(ar.ADD, n, trace.emit2(ar.MULHI, n, _int(t, factor)))
    shifted = _shift_right(total, log - 1)
    sign = trace.append(lo.SHR_BY, t, (n,), bits - 1)
    quotient = trace.emit2(ar.SUB, shifted, sign)
    return trace.emit1(ar.NEG, quotient) if divisor < 0 else quotient


def _is_power(t: DType, divisor: int) -> bool:
    """Tell whether dividing takes a shift: by powers of two, without signs."""
    return not t.is_signed and not divisor & (divisor - 1)


def _shift_right(node: Node, amount: int) -> Node:
    """Shift by an amount that stays an argument of the kernel."""
    return trace.append(lo.SHR, node.type, (node, _int(node.type, amount)))


def _int(t: DType, value: int) -> Node:
    return trace.literal(t, t.wrap(value))
