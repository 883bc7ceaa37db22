"""Rules that are carried out on nodes: the same results as rules on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import recipes, special_arrays
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT, Scope
from lumijit.compiler.transform.recipes import Recipe
from lumijit.functions import matrices
from lumijit.llvm import (
    Complex2f,
    Float,
    Matrix2f,
    Matrix3f,
    Matrix4f,
    Quaternion4f,
    ad,
)
from lumijit.runtime.errors import SizeError

KINDS = ("Complex2f", "Quaternion4f", "Matrix2f", "Matrix3f", "Matrix4f", "Complex2f64")
UNARY = (
    *("sqrt", "rcp", "exp", "log", "sin", "tan", "asin", "atanh", "abs", "det"),
    *("trace", "frob", "transpose", "conj", "diag", "rsqrt"),
)
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "matmul": lambda a, b: a @ b,
    "power": lambda a, b: a**b,
}


def made(namespace: Any, kind: str, seed: int, size: int = 5) -> Any:
    """Return an array of a kind with entries between 0 and 1."""
    cls = getattr(namespace, kind)
    rng = np.random.default_rng(seed)
    shape = [cls._spec.outer[0]] * (2 if kind.startswith("Matrix") else 1)
    parts = rng.random((*shape, size))
    leaf = special_arrays.leaf_class(cls)
    return cls(_arrays(leaf, parts))


def _arrays(leaf: Any, parts: Any) -> Any:
    return [_arrays(leaf, p) for p in parts] if parts.ndim > 1 else leaf(parts)


def plainly(program: Callable[[], Any]) -> Any:
    """Run a program by rules alone; return the error's type if it raises."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (special_arrays, matrices):
            patch.setattr(module, "carry_out", lambda rule, *parts: rule(*parts))
        return outcome(program)


def outcome(program: Callable[[], Any]) -> Any:
    try:
        value = program()
    except Exception as error:
        return type(error)
    return type(value).__name__, np.asarray(value)


def check(program: Callable[..., Any], rtol: float = 0) -> None:
    mine, other = outcome(program), plainly(program)
    if isinstance(other, type):
        assert mine is other
        return
    assert mine[0] == other[0]
    np.testing.assert_allclose(mine[1], other[1], rtol=rtol)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(kind: str, name: str) -> None:
    function = getattr(dr, name)
    for size in (5, 1):
        x = made(dr.llvm, kind, 1, size)
        check(lambda x=x: function(x))
        check(lambda x=x: function(x))
    check(lambda: function(type(x)(2)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(kind: str, name: str) -> None:
    function = BINARY[name]
    x, y = made(dr.llvm, kind, 1), made(dr.llvm, kind, 2)
    flat = special_arrays.leaf_class(type(x))(0.5, 1, 2, 3, 4)
    operands = [x, y, made(dr.llvm, kind, 3, 1), type(x)(2), flat, 2, 0.5]
    for a in operands:
        for b in operands:
            if isinstance(a, dr.ArrayBase) or isinstance(b, dr.ArrayBase):
                check(lambda a=a, b=b: function(a, b))


@pytest.mark.parametrize("is_lenient", [False, True])
def test_flag_fast_math_folds_as_before(is_lenient: bool) -> None:
    with dr.scoped_set_flag(dr.JitFlag.FastMath, is_lenient):
        q, zero = made(dr.llvm, "Quaternion4f", 1), Quaternion4f(0)
        check(lambda: q * zero + q)
        assert plainly(lambda: Float(recorded(q * zero + q)))[1] == recorded(
            q * zero + q
        )


def recorded(value: Any) -> int:
    """Return how many operations there are behind a value."""
    stack = [part._node for part in special_arrays.parts_of(value)]
    seen = set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.deps)
    return len(seen)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_in_control_flow(mode: Any) -> None:
    q, p = made(dr.llvm, "Quaternion4f", 1), made(dr.llvm, "Quaternion4f", 2)
    outside = q * p

    def run() -> Any:
        count = dr.arange(Float, 5)

        def body(i: Float, r: Quaternion4f) -> Any:
            return i + 1, dr.exp(r * p * 0.1) + q * p

        loop = dr.while_loop((Float(0), q), lambda i, _: i < count, body, mode=mode)
        found = dr.if_stmt(
            (loop[1],), count > 2, lambda r: r * r, lambda r: dr.log(r), mode=mode
        )
        return found + q * p

    check(run)
    del outside


@pytest.mark.parametrize("kind", ["Complex2f", "Quaternion4f", "Matrix3f", "Matrix4f"])
def test_derivatives(kind: str) -> None:
    def run() -> Any:
        x, y = made(ad, kind, 1), made(ad, kind, 2)
        dr.enable_grad(x)
        value = dr.rcp(x * y) * y + x
        dr.backward(dr.sum(special_arrays.parts_of(value)[1]))
        return dr.grad(x)

    # Derivatives may be summed in another order.
    check(run, rtol=1e-3)
    value = made(ad, kind, 1)
    dr.enable_grad(value)
    with dr.suspend_grad():
        assert not dr.grad_enabled(value * value)
    assert dr.grad_enabled(value * value)


def test_results_are_found_again_while_they_live() -> None:
    m, n = made(dr.llvm, "Matrix4f", 1), made(dr.llvm, "Matrix4f", 2)
    first = special_arrays.parts_of(m @ n)
    product = m @ n
    again = m @ n
    nodes = [p._node for p in special_arrays.parts_of(product)]
    assert nodes == [p._node for p in special_arrays.parts_of(again)]
    del first
    dr.eval(product)
    np.testing.assert_array_equal(np.asarray(m @ n), np.asarray(product))
    assert special_arrays.parts_of(m @ n)[0]._node is not nodes[0]


def test_results_of_a_region_stay_in_it() -> None:
    q, p = made(dr.llvm, "Quaternion4f", 1), made(dr.llvm, "Quaternion4f", 2)
    with trace.scoped(Scope()):
        inner = q * p
        assert (q * p)[0]._node is inner[0]._node
    outer = q * p
    assert outer[0]._node is not inner[0]._node
    with trace.scoped(Scope(ROOT)):
        assert (q * p)[0]._node is outer[0]._node


def test_results_are_nobody_elses() -> None:
    q = made(dr.llvm, "Quaternion4f", 1)
    before = np.asarray(q)
    other = dr.conj(q)
    other.w += 1
    turned = made(dr.llvm, "Matrix2f", 1)
    entries = np.asarray(turned)
    transposed = dr.transpose(turned)
    transposed[0, 0] = Float(7)
    dr.diag(turned)[0] = Float(9)
    np.testing.assert_array_equal(np.asarray(q), before)
    np.testing.assert_array_equal(np.asarray(turned), entries)


def test_sizes_are_checked() -> None:
    q, p = made(dr.llvm, "Quaternion4f", 1, 5), made(dr.llvm, "Quaternion4f", 1, 4)
    with pytest.raises(SizeError, match="incompatible sizes"):
        _ = q * p


def test_known_results_are_few() -> None:
    kept = [made(dr.llvm, "Quaternion4f", k) for k in range(100)]
    products = [q * kept[0] for q in kept]
    for known in recipes._RECIPES.values():
        if known:
            assert isinstance(known[0], Recipe)
            assert len(known[0]._known) <= 64
    assert len(products) == 100


def test_types_of_parts() -> None:
    classes: list[type[Any]] = [Complex2f, Matrix2f, Matrix3f, Matrix4f]
    for cls in classes:
        assert type(cls(2) * cls(3)) is cls
