"""Custom operations in nested regions: what only their derivatives refer to is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float, Loop, UInt32

Function = Callable[..., Any]


class Mul(dr.CustomOp):
    """Keeps its operands."""

    def eval(self, x: Any, k: Any) -> Any:
        self.x, self.k = x, k
        return x * k

    def forward(self) -> None:
        self.set_grad_out(self.grad_in("x") * self.k + self.x * self.grad_in("k"))

    def backward(self) -> None:
        by = self.grad_out()
        self.set_grad_in("x", self.k * by)
        self.set_grad_in("k", self.x * by)


def scaled(factor: float) -> type[dr.CustomOp]:
    """Return an operation whose values don't depend on what is differentiated."""

    class Scaled(dr.CustomOp):
        def eval(self, x: Any, u: Any, kept: Any = 1) -> Any:
            self.kept = kept
            return u * 2

        def forward(self) -> None:
            self.set_grad_out(self.grad_in("x") * factor * self.kept)

        def backward(self) -> None:
            self.set_grad_in("x", self.grad_out() * factor * self.kept)

    return Scaled


def mixed(x: Any, k: Any) -> Any:
    """Call one of two functions, of which one is custom."""
    functions = [lambda x, k: x * k, lambda x, k: dr.custom(Mul, x, k)]
    return dr.switch(UInt32(x * 10) % 2, functions, x, k)


OPERATIONS: dict[str, Function] = {
    "custom": lambda x, k: dr.custom(Mul, x, k),
    "of_a_product": lambda x, k: dr.custom(Mul, x * k, k),
    "nested": lambda x, k: dr.custom(Mul, dr.custom(Mul, x, k), k),
    "switch": mixed,
    "invariant": lambda x, k: dr.custom(scaled(3), x, dr.detach(k)),
    "kept": lambda x, k: dr.custom(scaled(3), x, dr.detach(k), dr.detach(x * k)),
}


def program(operation: Function, inner: str, write: Function) -> Function:
    """Return a loop that writes to an array and has an operation in a region."""

    @dr.syntax
    def run(x: Any, k: Any, film: Any) -> Any:
        i = UInt32(0)
        p = x * 0
        while i < 2:
            t = x * (i + 1)
            if dr.hint(inner == "while", mode="scalar"):
                j = UInt32(0)
                while j < 2:
                    p += operation(t, k)
                    j += 1
            elif dr.hint(inner == "if", mode="scalar"):
                if x > 0.15:
                    p = p + operation(t, k)
            else:
                p += operation(t, k)
            write(film, dr.detach(x), i)
            i += 1
        return p

    return run


def derivatives(run: Function, film: Any, mode: str) -> Any:
    x, k = Float(0.1, 0.2, 0.3), Float(0.5, 0.6, 0.7)
    dr.enable_grad(x, k)
    if mode == "forward":
        dr.set_grad(x, [1, 2, 3])
        dr.set_grad(k, 10)
        found = dr.forward_to(run(x, k, film))
        return found.numpy(), film.numpy()
    dr.backward(run(x, k, film) * Float(1, 2, 3))
    return np.concatenate([x.grad.numpy(), k.grad.numpy()]), film.numpy()


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("write", [dr.scatter, dr.scatter_add])
@pytest.mark.parametrize("inner", ["while", "if", "flat"])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_loop_that_writes_to_a_literal(
    name: str, inner: str, write: Function, mode: str
) -> None:
    run = program(OPERATIONS[name], inner, write)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        expected = derivatives(run, dr.zeros(Float, 4), mode)
    for film in (dr.zeros(Float, 4), dr.opaque(Float, 0, 4)):
        found = derivatives(run, film, mode)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_variable_that_only_a_derivative_reads(mode: str, is_recorded: bool) -> None:
    """The values of the operation don't depend on the variable."""
    operation = scaled(3)

    @dr.syntax
    def written(x: Any, u: Any) -> Any:
        i = UInt32(0)
        p = x * 0
        while i < 2:
            p += dr.custom(operation, x, u)
            i += 1
        return p

    def recorded(x: Any, u: Any) -> Any:
        i, p = UInt32(0), Float(0)
        loop = Loop("loop", lambda: (i, p, x))
        while loop(i < 2):
            p += dr.custom(operation, x, u)
            i += 1
        return p

    x, u = Float(1, 2, 3), Float(4, 5, 6)
    dr.enable_grad(x)
    y = (recorded if is_recorded else written)(x, u)
    if mode == "forward":
        dr.forward(x)
        assert dr.all(y.grad == 6)
    else:
        dr.backward(y)
        assert dr.all(x.grad == 6)


@pytest.mark.parametrize("inner", ["while", "if"])
def test_what_only_a_nested_operation_keeps(inner: str) -> None:
    operation = scaled(1)

    @dr.syntax
    def run(x: Any, u: Any) -> Any:
        i = UInt32(0)
        p = x * 0
        while i < 2:
            kept = u * (i + 1)
            if dr.hint(inner == "while", mode="scalar"):
                j = UInt32(0)
                while j < 1:
                    p += dr.custom(operation, x, u, kept)
                    j += 1
            elif u > 0:
                p += dr.custom(operation, x, u, kept)
            i += 1
        return p

    x, u = Float(1, 2), Float(4, 5)
    dr.enable_grad(x)
    dr.backward(run(x, u))
    assert dr.all(x.grad == Float(12, 15))


@pytest.mark.parametrize("inner", ["while", "flat"])
@pytest.mark.parametrize("mode", [dr.ADMode.Forward, dr.ADMode.Backward])
def test_derivatives_of_derivatives(inner: str, mode: dr.ADMode) -> None:
    """That by `k` has the operation's values, which depend on `x`."""

    @dr.syntax
    def run(x: Any, k: Any) -> Any:
        i = UInt32(0)
        p = k * 0
        while i < 2:
            y = x + Float(i) * 0
            m = dr.custom(Mul, y, y)
            if dr.hint(inner == "while", mode="scalar"):
                j = UInt32(0)
                while j < 1:
                    p += k * m
                    j += 1
            else:
                p += k * m
            i += 1
        return p

    x, k = Float(0.1, 0.2), Float(0.5, 0.7)
    dr.enable_grad(x, k)
    p = run(x, k)
    is_forward = mode is dr.ADMode.Forward
    start, end = (k, p) if is_forward else (p, k)
    dr.set_grad(start, 1)
    dr.enqueue(mode, start)
    dr.traverse(mode, dr.ADFlag.ClearInterior | dr.ADFlag.TrackDerivatives)
    by = end.grad
    dr.clear_grad(x, k, p)
    dr.backward(by)
    np.testing.assert_allclose(x.grad, [0.4, 0.8], rtol=1e-5)


@pytest.mark.parametrize("is_nested", [False, True])
def test_calls_don_t_unite_other_derivatives(is_nested: bool) -> None:
    one, other = scaled(1), scaled(100)

    @dr.syntax
    def repeated(operation: type[dr.CustomOp], x: Any, u: Any) -> Any:
        i = UInt32(0)
        p = x * 0
        while i < 1:
            p += dr.custom(operation, x, u)
            i += 1
        return p

    call: Any = repeated if is_nested else dr.custom
    functions = [lambda x, u: call(one, x, u), lambda x, u: call(other, x, u)]
    x, u = Float(1, 2, 3), Float(4, 5, 6)
    dr.enable_grad(x)
    dr.backward(dr.switch(UInt32(0, 1, 0), functions, x, u))
    assert dr.all(x.grad == Float(1, 100, 1))


def test_calls_don_t_unite_what_is_suspended_inside() -> None:
    @dr.syntax
    def run(x: Any, u: Any, is_first: bool) -> Any:
        i = UInt32(0)
        p = x * 0
        while i < 2:
            with dr.suspend_grad(when=is_first):
                a = x * u
            with dr.suspend_grad(when=not is_first):
                b = x * (u + 1)
            p = p + a + b
            i += 1
        return p

    functions = [lambda x, u: run(x, u, False), lambda x, u: run(x, u, True)]
    x, u = Float(1, 2, 3), Float(4, 5, 6)
    dr.enable_grad(x)
    dr.backward(dr.switch(UInt32(0, 1, 0), functions, x, u))
    assert dr.all(x.grad == Float(8, 12, 12))


def test_a_loop_that_fills_an_array_and_computes_what_its_condition_does() -> None:
    """The array is new, so that the loop is traced with something in its place."""

    @dr.syntax
    def run(x: Any, n: Any) -> Any:
        film, i = dr.zeros(Float, 4), UInt32(0)
        while i < n % 4:
            dr.scatter_add(film, x, n % 4)
            x = dr.custom(Mul, x, x)
            i += 1
        return x, film

    x = Float(1, 2, 3)
    dr.enable_grad(x)
    y, film = run(x, UInt32(4, 1, 6))
    assert y.numpy().tolist() == [1, 4, 81]
    assert film.numpy().tolist() == [0, 2, 12, 0]
    dr.backward(dr.sum(y) + dr.sum(film))
    assert x.grad.numpy().tolist() == [1, 4 + 1, 4 * 27 + 1 + 2 * 3]
