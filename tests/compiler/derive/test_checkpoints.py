"""Undoing the turns of loops: all ways through the slots, against differences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.derive import checkpoints
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, DerivativeError

X = np.array([0.3, 0.7, 1.1])


def run(x: Float, turns: list[int], bound: int | None = None) -> Float:
    return dr.while_loop(
        (UInt(0), x + 0, x, UInt(turns)),
        lambda i, z, x, n: i < n,
        lambda i, z, x, n: (i + 1, z * 0.99 + dr.sin(z) * x * 0.02, x, n),
        max_iterations=bound,
    )[1]


def check(turns: list[int], bound: int | None = None) -> None:
    x = Float(X)
    dr.enable_grad(x)
    dr.backward(run(x, turns, bound))
    step = 1e-6
    ahead, behind = (run(Float(X + h), turns).numpy().copy() for h in (step, -step))
    np.testing.assert_allclose(x.grad, (ahead - behind) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize(
    "turns",
    [[0, 1, 2], [7, 8, 9], [15, 16, 17], [63, 64, 65], [127, 700, 333]],
    ids=str,
)
def test_few_slots(turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight slots: full from 8 turns on; above 64, turns between them are repeated."""
    monkeypatch.setattr(checkpoints, "_MOST", 3)
    monkeypatch.setattr(checkpoints, "_FEWEST", 3)
    check(turns)


def test_loops_in_loops_have_slots_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "_MOST", 3)

    def nested(x: Float) -> Float:
        return dr.while_loop(
            (UInt(0), x),
            lambda i, z: i < 11,
            lambda i, z: (i + 1, run(z * 0.9 + 0.1, [3, 9, 12])),
        )[1]

    x = Float(X)
    dr.enable_grad(x)
    dr.backward(nested(x))
    step = 1e-6
    ahead, behind = (nested(Float(X + h)).numpy().copy() for h in (step, -step))
    np.testing.assert_allclose(x.grad, (ahead - behind) / (2 * step), rtol=1e-4)


@pytest.mark.parametrize("bound", [-1, 9, 10, 4096, 10_000_000])
def test_a_bound_changes_nothing(bound: int) -> None:
    """Of nine turns all states are kept; a large bound doesn't fit and is ignored."""
    check([0, 4, 9], bound)


@pytest.mark.parametrize("turns", [[0, 4, 9], [100, 100, 100]])
def test_more_turns_than_the_bound_are_an_error(turns: list[int]) -> None:
    x = Float(X)
    dr.enable_grad(x)
    dr.backward(run(x, turns, 8))
    message = f"the loop ran {max(turns)} times, but max_iterations is 8"
    with pytest.raises(DerivativeError, match=message):
        dr.eval(x.grad)


def test_no_bound_is_needed_where_nothing_is_kept() -> None:
    x = Float(X)
    dr.enable_grad(x)
    y = dr.while_loop(
        (UInt(0), x * 0),
        lambda i, y: i < 9,
        lambda i, y: (i + 1, y + x),
        max_iterations=1,
    )[1]
    dr.backward(y)
    np.testing.assert_allclose(x.grad, 9)


@pytest.fixture
def _unlimited() -> Iterator[None]:
    yield
    dr.set_checkpoint_memory(None)


@pytest.mark.usefixtures("_unlimited")
def test_the_memory_for_states_can_be_set() -> None:
    assert dr.checkpoint_memory() is None
    dr.set_checkpoint_memory(32)
    assert dr.checkpoint_memory() == 32
    check([0, 9, 250])
    dr.set_checkpoint_memory(31)
    with pytest.raises(DerivativeError, match=r"of 8 bytes .* room for 31 bytes"):
        check([0, 9, 250])
    with pytest.raises(ArrayTypeError, match="'size' is no whole number"):
        dr.set_checkpoint_memory(1.5)  # type: ignore[arg-type]
    with pytest.raises(ArrayValueError, match="'size' is negative"):
        dr.set_checkpoint_memory(-1)
