"""Products of tensors against NumPy's `matmul`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit.llvm import TensorXb, TensorXf, ad
from lumijit.runtime.errors import ArrayTypeError, SizeError, SymbolicError
from tests.dsl.tensors.common import MODULES, numbers, same

TYPES = {"f": "f4", "f64": "f8", "f16": "f2", "i": "i4", "u64": "u8", "i8": "i1"}


@MODULES
@given(
    sizes=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    outer=st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((), (2, 2))]),
    suffix=st.sampled_from(sorted(TYPES)),
)
@settings(max_examples=60, deadline=None)
def test_matrices(module: Any, sizes: Any, outer: Any, suffix: str) -> None:
    m, k, n = sizes
    a = numbers((*outer[0], m, k), TYPES[suffix]) % 2
    b = numbers((*outer[1], k, n), TYPES[suffix], seed=1) % 3
    tensor = getattr(module, f"TensorX{suffix}")
    same(tensor(a) @ tensor(b), a @ b)


@MODULES
def test_vectors(module: Any) -> None:
    a, b = numbers((4, 3, 5)), numbers(5, seed=1)
    x, y = module.TensorXf(a), module.TensorXf(b)
    same(x @ y, a @ b)
    same(y @ x.mT, b @ np.swapaxes(a, 1, 2))
    same(y @ y, b @ b)
    same(dr.matmul(x, y), a @ b)
    same(x @ module.TensorXi(b), a @ b)
    same(x @ dr.array_t(module.TensorXf)(b), a @ b)


def test_large_ones() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((130, 517), np.float32), rng.random((517, 259), np.float32)
    found = (TensorXf(a) @ TensorXf(b)).numpy()
    np.testing.assert_allclose(found, a.astype("f8") @ b, rtol=1e-5)


def test_mistakes() -> None:
    x = TensorXf(np.ones((2, 3)))
    with pytest.raises(SizeError, match=r"\(2, 3\) and \(2, 3\) don't fit: the sum's"):
        x @ x
    with pytest.raises(SizeError, match=r"before the last two don't broadcast"):
        TensorXf(np.ones((2, 1, 3))) @ TensorXf(np.ones((3, 3, 1)))
    with pytest.raises(SizeError, match="one has no dimension"):
        dr.matmul(x, TensorXf(1))
    with pytest.raises(ArrayTypeError, match="masks can't be multiplied"):
        TensorXb([[True]]) @ TensorXb([[True]])

    def body(v: Any) -> Any:
        with pytest.raises(SymbolicError, match="matmul"):
            v @ v
        return (v + 1,)

    dr.while_loop((TensorXf(np.ones((2, 2))),), lambda v: v.array < 3, body)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3, 4)), ((2, 2, 3), (3, 2)), ((3,), (3,))]
)
def test_derivatives(shapes: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (ad.TensorXf64(rng.random(s)) for s in shapes)
    dr.gradcheck(lambda x, y: dr.square(x @ y), a, b)


def test_second_derivatives() -> None:
    rng = np.random.default_rng(0)
    x = ad.TensorXf64(rng.random((3, 3)))
    v = ad.TensorXf64(rng.random((3, 3)))

    def cube(m: Any) -> Any:
        return dr.sum(m @ m @ m)

    def along(t: float) -> Any:
        y = x + v * t
        dr.enable_grad(y)
        dr.backward(cube(y))
        return dr.grad(y).numpy()

    (product,) = dr.hvp(cube, (x,), (v,))
    expected = (along(1e-4) - along(-1e-4)) / 2e-4
    np.testing.assert_allclose(product.numpy(), expected, rtol=1e-6)
