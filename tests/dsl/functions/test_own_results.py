"""What functions and operators compute are arrays of their own, not their arguments.

What only looks at an argument (`dr.ravel`, `dr.real`, `v.x`) may be that argument.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lumijit as dr

COMPUTED: dict[str, Callable[[Any], Any]] = {
    "x ** 1": lambda x: x**1,
    "x ** 1.0": lambda x: x**1.0,
    "power": lambda x: dr.power(x, True),
    "x * 1": lambda x: x * 1,
    "x + 0": lambda x: x + 0,
    "+x": lambda x: +x,
    "x[:]": lambda x: x[:],
    "abs": lambda x: abs(x),
    "tile": lambda x: dr.tile(x, 1),
    "repeat": lambda x: dr.repeat(x, 1),
    "identity": lambda x: dr.reduce(dr.ReduceOp.Identity, x),
    "constructor": lambda x: type(x)(x),
}
REDUCED: dict[str, Any] = {
    name: getattr(dr, name) for name in ("sum", "prod", "min", "max", "mean")
}


def check(compute: Callable[[Any], Any], x: Any) -> None:
    before = np.array(x).copy()
    y = compute(x)
    y += 1
    np.testing.assert_array_equal(np.array(x), before)


@pytest.fixture(params=["llvm", "llvm.ad", "scalar"])
def space(request: pytest.FixtureRequest) -> Any:
    found: Any = dr
    for name in request.param.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("name", COMPUTED)
def test_entry_by_entry(name: str, space: ModuleType) -> None:
    compute = COMPUTED[name]
    arrays = (
        space.Int(1, 2, 3) if space is not dr.scalar else space.ArrayXi([1, 2, 3]),
        space.Array3f(1, 2, 3),
        space.TensorXf([1, 2, 3, 4], (2, 2)),
        space.Matrix2f(1, 2, 3, 4),
        space.Complex2f(1, 2),
    )
    for x in arrays:
        check(compute, x)


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_of_single_entries(name: str, space: ModuleType) -> None:
    reduction = REDUCED[name]
    for shape in ((1,), (), (1, 1)):
        check(reduction, space.TensorXf([5], shape))
        check(lambda x: reduction(x, axis=None), space.TensorXf([5], shape))
    check(lambda x: reduction(x, axis=1), space.TensorXf([5, 6], (2, 1)))
    if space is not dr.scalar:
        check(reduction, space.Array1f(space.Float(5, 6)))
        x = space.Float(1, 2)
        check(lambda x: reduction([x]), x)


def test_filters_and_grids() -> None:
    types = dr.llvm
    check(lambda x: dr.resample(x, (2, 2)), types.TensorXf([1, 2, 3, 4], (2, 2)))
    check(lambda x: dr.meshgrid(x)[0], types.Float(1, 2))


def test_a_penalty_leaves_its_parameter_alone() -> None:
    """`loss += …` on a sum of one entry wrote to the parameter."""
    p = dr.llvm.ad.TensorXf([5], (1,))
    dr.enable_grad(p)
    loss = dr.sum(p)
    loss += 0.5 * dr.sum(p * p)
    dr.backward(loss)
    found = [x.numpy().item() for x in (p, loss, dr.grad(p))]
    assert found == [5, 17.5, 6]


def test_components_of_vectors_are_nobody_else_s() -> None:
    x, y = dr.llvm.Float(1, 2), dr.llvm.Float(3, 4)
    vector = dr.nn.CoopVec(x, y)
    x += 10
    a, b = vector
    a *= 0
    b -= x
    assert [list(v) for v in vector] == [[1, 2], [3, 4]]
