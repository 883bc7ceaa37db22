"""Quotients and remainders of integers by known numbers, without a division."""

from __future__ import annotations

from functools import lru_cache

from lumijit.compiler.ir import ranges, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.record import Op
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

    `emit.division` says how. There are two forms for unsigned numbers, so that most
    other divisors give the same kernel.
    """
    t = n.type
    magnitude = abs(divisor)
    if _is_power(t, divisor):
        return _shift_right(n, divisor.bit_length() - 1)
    op, factor, shift = _product(t, magnitude)
    # (It is an integer of the type, so what is above its bits is left out.)
    found = trace.emit3(op, n, trace.literal(t, factor), trace.literal(t, shift))
    return trace.emit1(ar.NEG, found) if divisor < 0 else found


@lru_cache(1024)
def _product(t: DType, magnitude: int) -> tuple[Op, int, int]:
    """Return by which operation a divisor is, and its factor and shift."""
    log = max((magnitude - 1).bit_length(), 1)
    unit = 1 << (t.bits + log - 1)
    op, factor = ar.QUOTIENT, unit // magnitude + 1
    if not t.is_signed and factor * magnitude - unit > 1 << (log - 1):
        op, factor = ar.LONG_QUOTIENT, 2 * unit // magnitude + 1
    return op, t.wrap(factor), log - 1


def _is_power(t: DType, divisor: int) -> bool:
    """Tell whether dividing takes a shift: by powers of two, without signs."""
    return not t.is_signed and not divisor & (divisor - 1)


def _shift_right(node: Node, amount: int) -> Node:
    """Shift by an amount that stays an argument of the kernel."""
    return trace.append(lo.SHR, node.type, (node, _int(node.type, amount)))


def _int(t: DType, value: int) -> Node:
    return trace.literal(t, t.wrap(value))
