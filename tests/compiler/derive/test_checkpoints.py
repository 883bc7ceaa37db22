"""Undoing the turns of loops: all ways through the slots, against differences."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.derive import checkpoints
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt

X = np.array([0.3, 0.7, 1.1])


def run(x: Float, turns: list[int]) -> Float:
    return dr.while_loop(
        (UInt(0), x + 0, x, UInt(turns)),
        lambda i, z, x, n: i < n,
        lambda i, z, x, n: (i + 1, z * 0.99 + dr.sin(z) * x * 0.02, x, n),
    )[1]


@pytest.mark.parametrize(
    "turns",
    [[0, 1, 2], [7, 8, 9], [15, 16, 17], [63, 64, 65], [127, 700, 333]],
    ids=str,
)
def test_few_slots(turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight slots: full from 8 turns on; above 64, turns between them are repeated."""
    monkeypatch.setattr(checkpoints, "_MOST", 3)
    monkeypatch.setattr(checkpoints, "_FEWEST", 3)
    x = Float(X)
    dr.enable_grad(x)
    dr.backward(run(x, turns))
    step = 1e-6
    ahead, behind = (run(Float(X + h), turns).numpy().copy() for h in (step, -step))
    np.testing.assert_allclose(x.grad, (ahead - behind) / (2 * step), rtol=1e-5)


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
