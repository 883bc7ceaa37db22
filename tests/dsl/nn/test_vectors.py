"""Cooperative vectors: components, operators, functions, layers on them."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.llvm import ad

nn = dr.nn
X = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]], "f4")


def vec():
    return nn.CoopVec(llvm.Float(X[0]), llvm.Float(X[1]))


def entries(found):
    return np.stack([np.broadcast_to(part.numpy(), 3) for part in found])


def test_components():
    x = nn.CoopVec(llvm.Array2f(1, 2), [llvm.Float(3, 4), 5], {"a": vec()})
    assert len(x) == 6
    assert x.type is llvm.Float
    assert repr(vec()) == "CoopVec[lumijit.llvm.Float, shape=(2, 3)]"
    assert nn.CoopVec(llvm.Float16(1), llvm.Float(2)).type is llvm.Float
    assert nn.CoopVec(1, 2.5).type is float
    assert llvm.ArrayXf(vec()).shape == (2, 3)
    assert llvm.TensorXf(nn.CoopVec(llvm.Float(1, 2), 3)).numpy().tolist() == [
        [1, 2],
        [3, 3],
    ]
    assert dr.width(vec()) == 3
    rows = nn.CoopVec(llvm.TensorXf(X))
    assert repr(rows) == repr(vec())
    assert np.array_equal(entries(rows), X)
    assert not dr.is_array_v(vec())


def test_operators_and_functions():
    x, y = vec(), llvm.Float(2, 3, 4)
    for found, expected in (
        (x + x, X + X),
        (1 - x, 1 - X),
        (x - 1, X - 1),
        (x * y, X * y.numpy()),
        (y * x, X * y.numpy()),
        (y + x, X + y.numpy()),
        (-x, -X),
        (abs(x), abs(X)),
        (dr.maximum(x, 0), np.maximum(X, 0)),
        (dr.minimum(0.5, x), np.minimum(0.5, X)),
        (dr.fma(x, 2, x), X * 2 + X),
        (dr.exp2(x), np.exp2(X)),
        (dr.tanh(x), np.tanh(X)),
        (dr.clip(x, 0, 1), np.clip(X, 0, 1)),
        (dr.square(x), X * X),
        (nn.cast(x, llvm.Float64), X),
    ):
        np.testing.assert_allclose(entries(found), expected, rtol=1e-6)
    for wrong in (lambda: x + [1, 2], lambda: x @ x):
        with pytest.raises(TypeError):
            wrong()


def test_layers():
    for layer, function in (
        (nn.ReLU(), lambda v: np.maximum(v, 0)),
        (nn.LeakyReLU(), lambda v: np.where(v >= 0, v, 0.01 * v)),
        (nn.Exp(), np.exp),
        (nn.Exp2(), np.exp2),
        (nn.Tanh(), np.tanh),
        (nn.Sigmoid(), lambda v: 1 / (1 + np.exp(-v))),
        (nn.ScaleAdd(2, 3), lambda v: 2 * v + 3),
        (nn.ScaleAdd(offset=1), lambda v: v + 1),
        (nn.Cast(llvm.Float64), lambda v: v),
    ):
        np.testing.assert_allclose(entries(layer(vec())), function(X), rtol=2e-6)
        np.testing.assert_allclose(
            layer(llvm.TensorXf(X)).numpy(), function(X), rtol=2e-6
        )
        assert repr(layer).startswith(type(layer).__name__)
        assert list(layer) == []


def test_waves():
    p = X[:, None] * 2.0 ** np.arange(3)[:, None] + 0.25 * np.arange(3)[:, None]
    waves = np.stack([np.sin(2 * np.pi * p), np.cos(2 * np.pi * p)], 2)
    layer = nn.SinEncode(3, 0.25)
    found = entries(layer(vec()))
    np.testing.assert_allclose(found, waves.reshape(12, 3), atol=1e-5)
    assert (layer(llvm.TensorXf(X)).numpy() == found).all()


def test_derivatives_and_control_flow():
    dr.gradcheck(
        lambda a, b: sum(nn.SinEncode(2)(nn.CoopVec(a, b * b))),
        ad.Float64(0.1, 0.7),
        ad.Float64(-0.3, 0.4),
    )
    x = nn.CoopVec(llvm.Float(1, 2), llvm.Float(3, 4))
    _, x = dr.while_loop(
        (llvm.UInt32(0), x), lambda k, x: k < 2, lambda k, x: (k + 1, x * 2)
    )
    assert [list(part) for part in x] == [[4, 8], [12, 16]]
