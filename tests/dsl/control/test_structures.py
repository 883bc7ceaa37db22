"""What the sides of a branch, or the turns of a loop, leave has one structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import (
    Array2f,
    Array3f,
    Array4f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Matrix2f,
    Quaternion4f,
    TensorXf,
    UInt,
)
from lumijit.runtime.errors import StateError

from ..programs.modes import flags_of


@pytest.fixture(params=["symbolic", "evaluated"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Any:
    with flags_of(request.param):
        yield request.param


@dataclass
class Matte:
    k: Any

    def eval(self, c: Any) -> Any:
        return self.k * c


@dataclass
class Glossy:
    k: Any

    def eval(self, c: Any) -> Any:
        return self.k * c * c


X = Float(1, 2)
PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "dataclasses": (lambda: Matte(X), lambda: Glossy(X), "Matte and Glossy"),
    "list and tuple": (lambda: [[X]], lambda: [(X,)], "list and tuple"),
    "complex": (
        lambda: Array2f(X, X),
        lambda: Complex2f(X, X),
        "Array2f and Complex2f",
    ),
    "quaternion": (
        lambda: Array4f(X, X, X, X),
        lambda: Quaternion4f(X, X, X, X),
        "Array4f and Quaternion4f",
    ),
    "matrix": (
        lambda: Matrix2f(X, X, X, X),
        lambda: type(Matrix2f(X, X, X, X).array)([[X, X], [X, X]]),
        "Matrix2f and",
    ),
    "dynamic": (lambda: Array3f(X, X, X), lambda: ArrayXf([X, X, X]), "and ArrayXf"),
    "shapes": (
        lambda: TensorXf(X, (1, 2)),
        lambda: TensorXf(X, (2, 1)),
        r"of shape \(1, 2\) and \(2, 1\)",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_other_classes_are_refused(name: str) -> None:
    one, other, message = PAIRS[name]
    mask = Bool(True, False)
    with pytest.raises(StateError, match=message):
        dr.if_stmt((), mask, one, other)

    @dr.syntax
    def branch() -> Any:
        if mask:
            made = one()
        else:
            made = other()
        return made

    @dr.syntax
    def loop() -> Any:
        made, i = one(), UInt(0)
        while i < UInt(1, 2):
            made = other()
            i += 1
        return made

    for function in (branch, loop):
        with pytest.raises(StateError, match=message):
            function()


def test_a_tuple_is_no_single_result() -> None:
    with pytest.raises(StateError, match="one is a tuple"):
        dr.if_stmt((X,), X > 1, lambda x: x, lambda x: (x,))
    with pytest.raises(StateError, match="one is a tuple"):
        dr.if_stmt((X,), X > 1, lambda x: (x,), lambda x: x)


def test_tensors_of_one_entry_fit_others() -> None:
    wide, one = TensorXf(Float(1, 2), (2,)), TensorXf([7], (1,))
    found = dr.if_stmt((), Bool(True, False), lambda: wide + 0, lambda: one + 0)
    assert list(found.array) == [1, 7]


def test_variables_that_begin_late_beside_exchanges() -> None:
    """The names' arrays are told by position, which a late variable moves."""

    @dr.syntax
    def f(u: Any, v: Any, n: Any) -> Any:
        i = UInt(0)
        last = [Float(0), Float(0)]
        while i < n:
            u, v = v, u
            v += 1
            if i > 0:
                last = [v + 0, u + 0]
            i += 1
        return u, v, last

    u, v = Float(1, 1, 1), Float(10, 10, 10)
    a, b, last = f(u, v, UInt(1, 2, 3))
    assert [list(x) for x in (u, v)] == [[2, 2, 3], [10, 11, 11]]
    assert [list(x) for x in (a, b)] == [[10, 2, 11], [2, 11, 3]]
    assert [list(x) for x in last] == [[0, 11, 3], [0, 2, 11]]


def test_jumps_split_the_elements_in_the_mode_of_their_branch() -> None:
    """The rest of a block whose elements may have left is a branch, too."""

    @dr.syntax
    def f(a: Any, b: Any) -> Any:
        i = UInt(0)
        while dr.hint(i < 4, mode="evaluated"):
            i += 1
            if dr.hint(a > 2, mode="evaluated"):
                if dr.hint(b > 3, mode="evaluated"):
                    break
                b += 1
            j = UInt(0)
            while dr.hint(j < 2, mode="evaluated"):
                j += 1
                a += 1
        return a, b, i

    def plain(a: int, b: int) -> tuple[int, int, int]:
        i = 0
        while i < 4:
            i += 1
            if a > 2:
                if b > 3:
                    break
                b += 1
            a += 2
        return a, b, i

    pairs = [(1, 0), (2, 1), (3, 4), (5, 2)]
    found = f(*(UInt(column) for column in zip(*pairs, strict=True)))
    expected = [plain(*pair) for pair in pairs]
    assert list(zip(*map(list, found), strict=True)) == expected
