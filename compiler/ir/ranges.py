"""What is known of the numbers in an array of the trace without computing them.

`limits` follows a few operations down to literals and counters. `note` keeps what
cannot be seen in the operations: remainders, which are expanded while tracing, and
counters of loops under the loop's condition.

Nothing is known of what lies in memory: otherwise, what the program did before would
decide about the next kernel, and a loop's second iteration could need another one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.logic import AND, GE, GT, LE, LT, SELECT
from lumijit.compiler.ir.ops.structural import (
    CAST,
    COUNTER,
    EVALUATED,
    LITERAL,
    SYMBOLIC,
)
from lumijit.runtime.dtypes import DType

# How many operations deep `limits` looks, …
MAX_DEPTH = 8
# … and how many of these it must have left for nodes to keep what it finds.
_KEPT_DEPTH = 4

Range = tuple[Any, Any]


@cache
def of_type(t: DType) -> Range:
    """Return the lowest and the highest number of a type."""
    if t.is_float:
        return -math.inf, math.inf
    if t.is_bool:
        return 0, 1
    low = -(1 << (t.bits - 1)) if t.is_signed else 0
    return low, low + (1 << t.bits) - 1


def note(node: Node, lowest: int, highest: int) -> None:
    """Keep that all entries of a node lie in a range."""
    if node.op is not LITERAL:
        node.range = lowest, highest


def note_condition(condition: Node) -> None:
    """Keep what a loop's condition tells of its counters, for use in the body.

    Only there: in lanes that aren't active, they may be anything.
    """
    op = condition.op
    if op is AND:
        for part in condition.deps:
            note_condition(part)
    elif op in _BELOW:
        counter, end = condition.deps
        if op is GT or op is GE:
            counter, end = end, counter
        if counter.op is SYMBOLIC and counter.type.is_int:
            low, _ = of_type(counter.type)
            _, high = limits(end)
            note(counter, low, max(low, high - _BELOW[op]))


# By comparison: how far below the other operand the smaller one is at least.
_BELOW = {LT: 1, LE: 0, GT: 1, GE: 0}


def limits(node: Node, depth: int = MAX_DEPTH) -> Range:
    """Return two numbers between which all entries lie (floats may also be NaN)."""
    op, t = node.op, node.type
    if op is LITERAL:
        return (node.attr, node.attr) if node.attr == node.attr else of_type(t)
    if op is COUNTER:
        return 0, max(node.size - 1, 0)
    if op is EVALUATED:
        return of_type(t)
    found: Range | None = node.range
    if found is not None:
        return found
    if depth == 0:
        return of_type(t)
    if op is CAST:
        found = _cast(node.deps[0], t, depth - 1)
    else:
        rule = _extreme(node) if op is SELECT else _RULES.get(op)
        if rule is None:
            return of_type(t)
        deps = node.deps[1:] if op is SELECT else node.deps
        found = rule(t, node.attr, *[limits(d, depth - 1) for d in deps])
        low, high = of_type(t)
        # What wraps around may be anything.
        if found is None or not (low <= found[0] and found[1] <= high):
            found = low, high
    if depth >= _KEPT_DEPTH:
        node.range = found
    return found


def _cast(source: Node, t: DType, depth: int) -> Range:
    low, high = of_type(t)
    first, last = limits(source, depth)
    if source.type.is_float:
        if not t.is_int:
            return low, high
        # NaN becomes 0.
        ends = [min(max(v, low), high) for v in (first, last, 0)]
        return min(map(int, ends)), max(map(int, ends))
    return (first, last) if low <= first and last <= high else (low, high)


def _sum(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    return None if t.is_float else (a[0] + b[0], a[1] + b[1])


def _difference(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    return None if t.is_float else (a[0] - b[1], a[1] - b[0])


def _negative(t: DType, attr: Any, a: Range) -> Range | None:
    return -a[1], -a[0]


def _product(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    if t.is_float:
        return None
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _quotient(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    if t.is_float or a[0] < 0 or b[0] <= 0:
        return None
    return a[0] // b[1], a[1] // b[0]


def _remainder(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    if t.is_float or a[0] < 0 or b[0] <= 0:
        return None
    return 0, min(a[1], b[1] - 1)


def _both_bits(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    ends = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(ends)) if ends else None


def _any_bit(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return 0, (1 << int(max(a[1], b[1])).bit_length()) - 1


def _shifted_right(t: DType, attr: Any, a: Range, *by: Range) -> Range | None:
    amount = by[0] if by else (attr, attr)
    if a[0] < 0 or not 0 <= amount[0] <= amount[1] < t.bits:
        return None
    return a[0] >> amount[1], a[1] >> amount[0]


def _shifted_left(t: DType, attr: Any, a: Range, *by: Range) -> Range | None:
    amount = by[0] if by else (attr, attr)
    if a[0] < 0 or not 0 <= amount[0] <= amount[1] < t.bits:
        return None
    return a[0] << amount[0], a[1] << amount[1]


def _minimum(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    return min(a[0], b[0]), min(a[1], b[1])


def _maximum(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    return max(a[0], b[0]), max(a[1], b[1])


def _either(t: DType, attr: Any, a: Range, b: Range) -> Range | None:
    return min(a[0], b[0]), max(a[1], b[1])


def _extreme(node: Node) -> Any:
    """Return the rule of a selection, which may be of the smaller or larger one."""
    mask, a, b = node.deps
    if mask.op not in _BELOW or mask.deps not in ((a, b), (b, a)):
        return _either
    is_less = (mask.op in (LT, LE)) == (mask.deps == (a, b))
    return _minimum if is_less else _maximum


_RULES: dict[Any, Any] = {
    ar.ADD: _sum,
    ar.SUB: _difference,
    ar.NEG: _negative,
    ar.MUL: _product,
    ar.INT_DIV: _quotient,
    ar.MOD: _remainder,
    ar.MIN: _minimum,
    ar.MAX: _maximum,
    AND: _both_bits,
    lo.OR: _any_bit,
    lo.XOR: _any_bit,
    lo.SHR: _shifted_right,
    lo.SHR_BY: _shifted_right,
    lo.SHL: _shifted_left,
    lo.SHL_BY: _shifted_left,
}
