"""With which gradients traversals begin: those that were set, or ones."""

from __future__ import annotations

from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm.ad import Array2f, Float, UInt

# A seed, and with what `forward_from` and `backward_from` begin (as in Dr.Jit).
SEEDS = [
    (None, [1, 1]),
    (0, [1, 1]),
    ([0, 0], [0, 0]),
    ([10, 20], [10, 20]),
    (10, [10, 10]),
]


def square(seed: Any, is_forward: bool) -> tuple[Float, Float]:
    x = Float(1, 2)
    dr.enable_grad(x)
    y = x * x
    if seed is not None:
        dr.set_grad(x if is_forward else y, seed)
    return x, y


@pytest.mark.parametrize(("seed", "begin"), SEEDS)
@pytest.mark.parametrize("is_forward", [True, False])
def test_what_was_set_is_propagated(seed: Any, begin: Any, is_forward: bool) -> None:
    x, y = square(seed, is_forward)
    before, after = (x, y) if is_forward else (y, x)
    (dr.forward_from if is_forward else dr.backward_from)(before)
    assert list(after.grad) == [2 * begin[0], 4 * begin[1]]
    assert list(before.grad) == [0, 0]


@pytest.mark.parametrize("seed", [seed for seed, _ in SEEDS])
@pytest.mark.parametrize("is_forward", [True, False])
def test_the_short_names_begin_with_one(seed: Any, is_forward: bool) -> None:
    x, y = square(seed, is_forward)
    before, after = (x, y) if is_forward else (y, x)
    (dr.forward if is_forward else dr.backward)(before)
    assert list(after.grad) == [2, 4]


@pytest.mark.parametrize("seed", [seed for seed, _ in SEEDS])
@pytest.mark.parametrize("is_forward", [True, False])
def test_ends_take_what_was_set_only(seed: Any, is_forward: bool) -> None:
    x, y = square(seed, is_forward)
    end = dr.forward_to(y) if is_forward else dr.backward_to(x)
    begin = dr.zeros(Float, 2) + (0 if seed is None else Float(seed))
    assert list(end) == [2 * begin[0], 4 * begin[1]]


def test_what_was_added_and_what_a_traversal_left() -> None:
    x, y = square(None, False)
    dr.accum_grad(y, [1, 2])
    dr.accum_grad(y, [1, 2])
    dr.backward_from(y)
    assert list(x.grad) == [4, 16]
    z = x * 3
    dr.forward_from(x)
    assert list(z.grad) == [12, 48]


def test_components_that_have_none() -> None:
    x = Array2f([1, 2], [3, 4])
    dr.enable_grad(x)
    y = x * 2
    dr.set_grad(y.y, [5, 6])
    dr.backward_from(y)
    assert [list(part) for part in x.grad] == [[0, 0], [10, 12]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", [4, 6]), ("a", [10, 12]), ("b", [14, 32]), ("ab", [24, 44])],
)
@pytest.mark.parametrize("kind", [tuple, list, lambda pair: dict(enumerate(pair))])
def test_leaves_that_have_none(given: str, expected: Any, kind: Any) -> None:
    x = Float(1, 2)
    dr.enable_grad(x)
    a, b = x * 2, x * x
    if "a" in given:
        dr.set_grad(a, [5, 6])
    if "b" in given:
        dr.set_grad(b, [7, 8])
    dr.backward_from(kind((a, b)))
    assert list(x.grad) == expected


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_in_loops(mode: Any) -> None:
    @dr.syntax
    def last(x: Float) -> Float:
        i = Float(0)
        r = Float(0)
        while dr.hint(i < x, mode=mode):
            y = Float(x)
            dr.enable_grad(y)
            z = y * y
            dr.set_grad(z, i + 10)
            dr.backward_from(z)
            r = y.grad
            i += 1
        return r

    assert list(last(Float(1, 3))) == [20, 72]


def test_elements_that_take_no_part() -> None:
    @dr.syntax
    def some(x: Float, y: Float) -> None:
        if dr.hint(x > 1, mode="evaluated"):
            dr.backward_from(y)

    x, y = square([0, 20], False)
    some(x, y)
    assert list(x.grad) == [0, 80]


def test_frozen() -> None:
    @dr.freeze
    def frozen(y: Float) -> Float:
        z = y * y
        dr.forward_from(y)
        return z.grad

    for seed, begin in SEEDS * 2:
        y, _ = square(seed, True)
        assert list(frozen(y)) == [2 * begin[0], 4 * begin[1]]


@pytest.mark.parametrize(
    "same", [lambda p: p * 1, lambda p: p + 0, lambda p: p / 1, lambda p: 1 * p - 0]
)
def test_what_an_operation_leaves_as_it_was_is_no_variable(same: Any) -> None:
    p = Float(3)
    dr.enable_grad(p)
    dr.backward(p * p)
    dr.backward(same(p))
    assert list(dr.grad(p)) == [7]


@pytest.mark.parametrize("give", ["backward", "accum_grad"])
def test_compressed_loops_that_give_gradients_to_all(give: str) -> None:
    p = Float(1, 2, 3)
    dr.enable_grad(p)

    def body(i: Any, n: Any) -> Any:
        if give == "backward":
            dr.backward(p * 3)
        else:
            dr.accum_grad(p, 3)
        return i + 1, n

    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        state = UInt(0, 0, 0), UInt(1, 2, 3)
        dr.while_loop(state, lambda i, n: i < n, body, compress=True)
    assert list(dr.grad(p)) == [3, 6, 9]
