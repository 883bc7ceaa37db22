"""Folding and algebraic simplification, applied before a node is made.

Constants are folded through the op's NumPy reference, or by a kernel where that rounds
otherwise (`native_folding`). Identities hold for every input:
x + 0 keeps -0, x * 0 isn't 0 for NaN (unless flag FastMath allows it).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit.compiler.ir import quotients, trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.ops.arithmetic import FMA
from lumijit.compiler.ir.ops.logic import SELECT, SHL_BY, SHR_BY
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.runtime import cpu
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.dtypes import BOOL, FLOAT32, FLOAT64, DType

Rule = Callable[[Node, Node], Node | None]

#: Products of a root are off by half an ulp more with each half of the exponent.
LARGEST_HALF = 3.5


# What floats are multiplied by, or get added, matters for these numbers only.
_BY_UNIT = frozenset({ar.ADD, ar.SUB, ar.MUL})
_UNITS = frozenset({-1, 0, 1})


def _refuse(op: Op, t: DType, values: list[Any]) -> Any:
    raise AssertionError("only who imports `launch.evaluate` can compute")


#: Computes an operation on numbers as a kernel does; `launch.evaluate` sets it,
#: as kernels are made of traces.
native_folding: Callable[[Op, DType, list[Any]], Any] = _refuse
# What Python computes on integers of any length.
_ON_INTEGERS: dict[Op, Callable[[Any, Any], Any]] = {
    ar.ADD: operator.add,
    ar.SUB: operator.sub,
    ar.MUL: operator.mul,
    lo.AND: operator.and_,
    lo.OR: operator.or_,
    lo.XOR: operator.xor,
}
# What other operations on literals give, which a program does again and again.
_folded: dict[tuple[Any, ...], Any] = {}
_REMEMBERED = 4096
# The smallest normal numbers; results of kernels below them are zero (`pool_ir`).
_SMALLEST: dict[DType, float] = {}
if cpu.flushes_denormals():
    _SMALLEST = {FLOAT32: 2.0**-126, FLOAT64: 2.0**-1022}


def fold(op: Op, result: DType, args: tuple[Node, ...]) -> Node | None:
    """Evaluate an operation on literals."""
    if (unusual and not flags.constant_propagation) or op.reference is None:
        return None
    size = trace.broadcast_size(op, args)
    if op.own_rounding and result.is_float:
        number = native_folding(op, result, [a.attr for a in args])
        return trace.literal(result, result.wrap(number.item()), size)
    if result.is_int and op in _ON_INTEGERS:
        number = _ON_INTEGERS[op](args[0].attr, args[1].attr)
        return trace.literal(result, result.wrap(number), size)
    # (Of equal numbers, only 0 and -0 are different.)
    key = (op, result, *[(a.type, a.attr or repr(a.attr)) for a in args])
    number = _folded.get(key)
    if number is None:
        values = [a.type.numpy.type(a.attr) for a in args]
        with np.errstate(all="ignore"):
            value = op.reference(*[np.asarray(v) for v in values])
        if len(_folded) >= _REMEMBERED:
            _folded.clear()
        number = _flushed(result, np.asarray(value).item(), args)
        _folded[key] = number
    return trace.literal(result, number, size)


def _flushed(t: DType, number: Any, args: tuple[Node, ...]) -> Any:
    """Return a result as kernels leave it: zero if it is denormal and was computed."""
    number = t.wrap(number)
    if t not in _SMALLEST or not abs(number) < _SMALLEST[t]:
        return number
    is_operand = any(a.type is t and abs(a.attr) == abs(number) for a in args)
    return number if is_operand else math.copysign(0.0, number)


def unary(op: Op, a: Node) -> Node | None:
    """Fold a unary operation on a literal."""
    return fold(op, op.result or a.type, (a,))


def binary(op: Op, a: Node, b: Node) -> Node | None:
    """Fold or simplify a binary operation; None where nothing applies."""
    if a.op is LITERAL and b.op is LITERAL:
        return fold(op, op.result or a.type, (a, b))
    rule = RULES.get(op) or (OF_EQUALS.get(op) if a is b else None)
    if rule is None:
        return None
    is_scaled = b.op is LITERAL and a.type.is_float and op in _BY_UNIT
    if is_scaled and b.attr not in _UNITS:
        return None
    if unusual and not flags.constant_propagation:
        return None
    if a.size != b.size and a.size != 1 and b.size != 1:
        raise trace.size_mismatch(op, (a, b))
    if op.commutative and a.op is LITERAL:
        a, b = b, a
    found = rule(a, b)
    if found is None:
        return None
    size = b.size if a.size == 1 else a.size
    return _no_variable(found) if found.size == size else _widen(found, size)


def _no_variable(node: Node) -> Node:
    """Return what an operation comes to: of a variable, a value that is none itself."""
    vertex = node.vertex
    if vertex is not None and vertex.serial in vertices.variables:
        return trace.copied(node)
    return node


def _widen(node: Node, size: int) -> Node | None:
    """Give a simplified result its full size, if that costs nothing."""
    if node.op is LITERAL:
        return trace.literal(node.type, node.attr, size)
    return None


def ternary(op: Op, a: Node, b: Node, c: Node, size: int) -> Node | None:
    """Fold or simplify fma and select of operands that broadcast to a size."""
    if a.op is LITERAL and b.op is LITERAL and c.op is LITERAL:
        return fold(op, c.type, (a, b, c))
    if trace.running_lanes and trace.state.lane is not None:
        known: Node | None = trace.state.lane.ternary(op, a, b, c)
        return known
    if unusual and not flags.constant_propagation:
        return None
    found: Node | None = None
    if op is SELECT:
        found = _select(a, b, c)
    elif op is FMA:
        found = _fma(a, b, c)
    if found is not None and found.size != size:
        return _widen(found, size)
    return None if found is None else _no_variable(found)


def _select(mask: Node, a: Node, b: Node) -> Node | None:
    if mask.op is LITERAL:
        return a if mask.attr else b
    if a is b:
        return a
    if a.type is BOOL:
        if a.op is LITERAL:
            if a.attr:
                return trace.emit2(lo.OR, mask, b)
            return trace.emit2(lo.AND, trace.emit1(lo.NOT, mask), b)
        if b.op is LITERAL and not b.attr:
            return trace.emit2(lo.AND, mask, a)
    return None


def _fma(a: Node, b: Node, c: Node) -> Node | None:
    if a.op is LITERAL:
        found = _fma_by(a, b, c)
        if found is not None:
            return found
    if b.op is LITERAL:
        found = _fma_by(b, a, c)
        if found is not None:
            return found
    if a.op is LITERAL and b.op is LITERAL and not _is_signed_zero(a, b):
        product = fold(ar.MUL, a.type, (a, b))
        if product is not None and _is_exact(a, b, product):
            return trace.emit2(ar.ADD, product, c)
    if c.op is not LITERAL or c.attr != 0:
        return None
    if c.type.is_int or _is_negative_zero(c) or (unusual and flags.fast_math):
        return trace.emit2(ar.MUL, a, b)
    return None


def _fma_by(factor: Node, x: Node, c: Node) -> Node | None:
    """Simplify factor * x + c for a literal factor."""
    value = factor.attr
    if value == 1:
        return trace.emit2(ar.ADD, x, c)
    if value == -1 and c.type.is_float:
        return trace.emit2(ar.SUB, c, x)
    if value == 0 and _may_drop(x):
        return c
    return None


def _is_exact(a: Node, b: Node, product: Node) -> bool:
    """Tell whether a folded product of literals is the product itself."""
    if a.type.is_int:
        return True
    if not math.isfinite(product.attr):
        return False
    above, below = product.attr.as_integer_ratio()
    (n, d), (m, e) = a.attr.as_integer_ratio(), b.attr.as_integer_ratio()
    return bool(n * m * below == above * d * e)


def _is_signed_zero(a: Node, b: Node) -> bool:
    return a.type.is_float and (a.attr == 0 or b.attr == 0)


def _may_drop(node: Node) -> bool:
    """Tell whether x * 0 may be 0: always for integers, else under FastMath."""
    return not node.type.is_float or flags.fast_math


def _is_negative_zero(node: Node) -> bool:
    return node.op is LITERAL and node.attr == 0 and str(node.attr) == "-0.0"


def _add(a: Node, b: Node) -> Node | None:
    if b.op is LITERAL and b.attr == 0:
        # x + -0 is x for every x; x + 0 is not for x = -0, which nobody misses.
        return a if not a.type.is_float or _is_negative_zero(b) or _lenient() else None
    return None


def _lenient() -> bool:
    return bool(flags.fast_math)


def _sub(a: Node, b: Node) -> Node | None:
    if b.op is LITERAL and b.attr == 0 and not _is_negative_zero(b):
        return a
    if a is b and a.type.is_int:
        return trace.literal(a.type, 0, a.size)
    if a.op is LITERAL and a.attr == 0:
        return trace.emit1(ar.NEG, b) if a.type.is_int or _lenient() else None
    return None


def _mul(a: Node, b: Node) -> Node | None:
    if b.op is not LITERAL:
        return None
    if b.attr == 1:
        return a
    if b.attr == 0 and _may_drop(a):
        return trace.literal(a.type, a.type.wrap(0), a.size)
    if b.attr == -1 or (a.type.is_int and b.attr == a.type.wrap(-1)):
        return trace.emit1(ar.NEG, a)
    if a.type.bits == 64 and a.type.is_int and b.attr > 0 and not b.attr & (b.attr - 1):
        # Without AVX-512 a 64-bit product takes three multiplications.
        return trace.append(SHL_BY, a.type, (a,), b.attr.bit_length() - 1)
    return None


def _div(a: Node, b: Node) -> Node | None:
    if b.op is not LITERAL:
        return None
    if b.attr == 1:
        return a
    if b.attr == 0 or b.attr in (float("inf"), float("-inf")):
        return None
    inverse = b.type.wrap(1 / b.attr)
    exact = inverse != 0 and inverse * b.attr == 1.0 and abs(inverse) < 1e300
    if exact and abs(math.frexp(b.attr)[0]) == 0.5:
        return trace.emit2(ar.MUL, a, trace.literal(a.type, inverse))
    return None


def _power(a: Node, b: Node) -> Node | None:
    """Raise to a half, 3/2 and the like with a square root."""
    if b.op is LITERAL and abs(b.attr) <= LARGEST_HALF and 2 * b.attr % 2 == 1:
        return trace.append(ma.HALF_POWER, a.type, (a,), int(2 * b.attr))
    return None


def _and(a: Node, b: Node) -> Node | None:
    if a is b:
        return a
    if b.op is LITERAL:
        if b.attr == 0:
            return trace.literal(a.type, a.type.wrap(0), a.size)
        if b.attr is True or (a.type.is_int and b.attr == a.type.wrap(-1)):
            return a
    return None


def _or(a: Node, b: Node) -> Node | None:
    if a is b:
        return a
    if b.op is LITERAL:
        if b.attr == 0:
            return a
        if b.attr is True or (a.type.is_int and b.attr == a.type.wrap(-1)):
            return trace.literal(a.type, b.attr, a.size)
    return None


def _xor(a: Node, b: Node) -> Node | None:
    if a is b:
        return trace.literal(a.type, a.type.wrap(0), a.size)
    if b.op is LITERAL:
        if b.attr == 0:
            return a
        if b.attr is True or (a.type.is_int and b.attr == a.type.wrap(-1)):
            return trace.emit1(lo.NOT, a)
    return None


def _shifted(by: Op, a: Node, b: Node) -> Node | None:
    """Shift by a known distance, which is part of the operation `by`."""
    if a.op is LITERAL and a.attr == 0:
        return trace.literal(a.type, 0, b.size)
    if b.op is not LITERAL or (b.size != 1 and b.size != a.size):
        return None
    amount, bits = b.attr, a.type.bits
    if amount == 0:
        return a
    if not 0 < amount < bits:
        if by is SHL_BY or not a.type.is_signed:
            return trace.literal(a.type, 0, a.size)
        amount = bits - 1
    return trace.append(by, a.type, (a,), amount)


def _shift_left(a: Node, b: Node) -> Node | None:
    return _shifted(SHL_BY, a, b)


def _shift_right(a: Node, b: Node) -> Node | None:
    return _shifted(SHR_BY, a, b)


def _rotate(to_right: bool) -> Rule:
    def rule(a: Node, b: Node) -> Node | None:
        if b.op is not LITERAL or (b.size != 1 and b.size != a.size):
            return None
        bits = a.type.bits
        amount = (-b.attr if to_right else b.attr) & (bits - 1)
        if amount == 0:
            return a
        if a.type.is_signed:
            return None
        # Known distances are part of the code, which LLVM sees to be a rotation.
        up = trace.append(SHL_BY, a.type, (a,), amount)
        down = trace.append(SHR_BY, a.type, (a,), bits - amount)
        return trace.emit2(lo.OR, up, down)

    return rule


def _extreme(a: Node, b: Node) -> Node | None:
    return a if a is b else None


def _same_int(result: bool) -> Rule:
    def rule(a: Node, b: Node) -> Node | None:
        if a is b and not a.type.is_float:
            return trace.literal(BOOL, result, a.size)
        return None

    return rule


def _equal(a: Node, b: Node) -> Node | None:
    if a.type is BOOL and b.op is LITERAL:
        return a if b.attr else trace.emit1(lo.NOT, a)
    return _same_int(True)(a, b)


def _not_equal(a: Node, b: Node) -> Node | None:
    if a.type is BOOL and b.op is LITERAL:
        return trace.emit1(lo.NOT, a) if b.attr else a
    return _same_int(False)(a, b)


RULES: dict[Op, Rule] = {
    ar.ADD: _add,
    ar.SUB: _sub,
    ar.MUL: _mul,
    ar.DIV: _div,
    ar.INT_DIV: quotients.quotient,
    ar.MOD: quotients.remainder,
    ma.POWER: _power,
    lo.AND: _and,
    lo.OR: _or,
    lo.XOR: _xor,
    lo.SHL: _shift_left,
    lo.SHR: _shift_right,
    lo.ROTL: _rotate(to_right=False),
    lo.ROTR: _rotate(to_right=True),
    lo.EQ: _equal,
    lo.NE: _not_equal,
}
#: What simplifies only where both operands are the same.
OF_EQUALS: dict[Op, Rule] = {
    ar.MIN: _extreme,
    ar.MAX: _extreme,
    lo.LT: _same_int(False),
    lo.GT: _same_int(False),
    lo.LE: _same_int(True),
    lo.GE: _same_int(True),
}


def cast_value(value: Any, source: DType, to: DType) -> Any:
    """Convert one Python number the way the CAST operation does."""
    if source.is_float and to.is_int:
        if value != value:
            return 0
        low = -(1 << (to.bits - 1)) if to.is_signed else 0
        high = (1 << (to.bits - to.is_signed)) - 1
        if value <= low:
            return low
        return high if value >= high else int(value)
    if source.is_int and to.is_float:
        # By way of a Python float, long integers would be rounded twice.
        with np.errstate(over="ignore"):
            return np.asarray(value, source.numpy).astype(to.numpy).item()
    return to.wrap(value)


def cast_literal(node: Node, dtype: DType) -> Node:
    """Fold a conversion of a literal."""
    return trace.literal(dtype, cast_value(node.attr, node.type, dtype), node.size)


def bitcast_literal(node: Node, dtype: DType) -> Node | None:
    """Fold a reinterpretation of a literal, but for NaN's: literals have one only."""
    value = np.asarray(node.attr, dtype=node.type.numpy).view(dtype.numpy).item()
    return None if value != value else trace.literal(dtype, value, node.size)
