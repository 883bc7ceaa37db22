"""Masks of tensors as conditions: each lane is an entry, in the order of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import ad
from lumijit.llvm.ad import Array2f, Float, TensorXb, TensorXf
from lumijit.runtime.errors import ArrayTypeError, SizeError, StateError

MODES = ["symbolic", "evaluated", None]
ROWS = np.linspace(0.1, 12, 12, dtype=np.float32).reshape(3, 4)


@dr.syntax
def rounds(x: Any, limit: float) -> Any:
    n = x * 0
    while x < limit:
        x = x * 1.5 + 0.1
        n += 1
        if x > 2 and n < 3:
            x = x + 5
        elif not (n > 1):
            x += 0.25
        if x > 100:
            break
    return x, n


def test_syntax_goes_through_entries() -> None:
    found, count = rounds(TensorXf(ROWS), 9.0)
    assert found.shape == count.shape == (3, 4)
    wanted = [rounds(v, np.float32(9)) for v in ROWS.ravel()]
    assert found.numpy().ravel() == pytest.approx([w[0] for w in wanted])
    assert count.numpy().ravel().tolist() == [w[1] for w in wanted]


@pytest.mark.parametrize("mode", MODES)
def test_branches(mode: Any) -> None:
    mask = TensorXb([[True, False], [False, True]])

    def chosen(value: Any) -> Any:
        given = (value,)
        return dr.if_stmt(given, mask, lambda v: v + 1, lambda v: v - 1, mode=mode)

    found = chosen(TensorXf([[1, 2], [3, 4]]))
    assert found.numpy().tolist() == [[2, 1], [2, 5]]
    assert list(chosen(Float(1, 2, 3, 4))) == [2, 1, 2, 5]
    assert list(chosen(Float(1))) == [2, 0, 0, 2]
    found = chosen(Array2f([1, 2, 3, 4], 4))
    assert found.numpy().tolist() == [[2, 1, 2, 5], [5, 3, 3, 5]]
    # Both sides make numbers, whose type and shape follow from the condition.
    number: Any = dr.if_stmt((), mask, lambda: 1.0, lambda: 2.0, mode=mode)
    assert type(number) is TensorXf
    assert number.numpy().tolist() == [[1, 2], [2, 1]]


@pytest.mark.parametrize("mode", MODES)
def test_loops(mode: Any) -> None:
    def run(x: Any) -> Any:
        return dr.while_loop((x,), lambda x: x < 3, lambda x: (x * 2,), mode=mode)[0]

    assert run(TensorXf([[1, 2], [3, 0.5]])).numpy().tolist() == [[4, 4], [3, 4]]
    assert dr.gradcheck(run, ad.TensorXf64([[1.1, 2.2], [3.5, 0.4]]))


def test_a_single_entry_decides_for_all() -> None:
    x = TensorXf([1, 2, 3])
    turns = dr.while_loop((x,), lambda x: dr.any(x < 3, None), lambda x: (x + 1,))[0]
    assert turns.numpy().tolist() == [3, 4, 5]
    for one in (TensorXb(True), TensorXb([True]), TensorXb([[True]])):
        for mode in MODES:
            found = dr.if_stmt((x,), one, lambda v: v + 1, lambda v: v, mode=mode)
            assert found.numpy().tolist() == [2, 3, 4]

    # Inside of a construct it isn't known, and decides there.
    @dr.syntax
    def inner(x: Any, limit: Any) -> Any:
        while x < limit:
            one = TensorXf(x, shape=(1,))
            if one < 2:
                x += 1
            else:
                x += 10
        return x

    assert list(inner(Float(1), Float(5))) == [12]


def test_what_doesnt_fit() -> None:
    x = TensorXf([[1, 2], [3, 4]])
    with pytest.raises(SizeError, match="incompatible sizes"):
        dr.if_stmt((x,), TensorXb([True, False]), lambda v: v + 1, lambda v: v)
    with pytest.raises(ArrayTypeError, match="mask or that of a tensor"):
        dr.if_stmt((x,), x, lambda v: v + 1, lambda v: v)
    with pytest.raises(StateError, match="the condition has the wrong type"):
        dr.if_stmt((x,), x, lambda v: v + 1, lambda v: v, mode="symbolic")
    with pytest.raises(ArrayTypeError, match="only flat masks of one entry"):
        bool(x < 3)
