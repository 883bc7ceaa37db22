"""Networks: modules, their parameters, and how they learn."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import (
    ArrayTypeError,
    SizeError,
    StateError,
    UnknownKeyError,
)

nn = dr.nn


def small(tensor=ad.TensorXf64, prefix=""):
    net = nn.Sequential(
        nn.TriEncode(2, 0.2),
        nn.Linear(-1, 6),
        nn.LeakyReLU(0.1),
        nn.Linear(-1, -1, bias=False),
        nn.Tanh(),
        nn.Linear(-1, 3),
        nn.Sigmoid(),
        prefix=prefix,
    )
    return net.alloc(tensor, 2)


def plain(net, x):
    """Evaluate the same in NumPy."""
    waves = []
    for row in x:
        for k in range(2):
            p = row * 2**k + k * 0.2
            waves += [1 - 4 * np.abs(q - np.round(q)) for q in (p - 0.25, p)]
    weights = {k: v.numpy().astype("f8") for k, v in net.items()}
    y = weights["layers.1.weights"] @ waves + weights["layers.1.bias"][:, None]
    y = weights["layers.3.weights"] @ np.where(y >= 0, y, 0.1 * y)
    y = weights["layers.5.weights"] @ np.tanh(y) + weights["layers.5.bias"][:, None]
    return 1 / (1 + np.exp(-y))


def test_vectors_and_tensors_give_the_same():
    net = small()
    net["layers.1.bias"] = ad.TensorXf64(np.linspace(-1, 1, 6))
    x = np.random.default_rng(0).uniform(0, 1, (2, 40))
    expected = plain(net, x)
    np.testing.assert_allclose(net(ad.TensorXf64(x)).numpy(), expected, atol=1e-14)
    packed = nn.pack(net)
    found = ad.Array3f64(packed(nn.CoopVec(ad.Float64(x[0]), ad.Float64(x[1]))))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-14)


def test_scalar_gives_the_same():
    net = nn.pack(small())
    other = nn.pack(small(scalar.TensorXf64))
    other["weights"] = net["weights"].numpy()
    found = list(other(nn.CoopVec(0.3, 0.7)))
    expected = [v[0] for v in net(nn.CoopVec(ad.Float64(0.3), 0.7))]
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_parameters_are_a_dictionary():
    net = small(prefix="mlp")
    names = ["layers.1.weights", "layers.1.bias", "layers.3.weights"]
    names += ["layers.5.weights", "layers.5.bias"]
    assert list(net) == [f"mlp.{name}" for name in names]
    assert len(net) == 5
    assert "mlp.layers.1.bias" in net
    assert "layers.1.bias" not in net
    packed = nn.pack(net)
    assert list(packed) == ["mlp.weights"]
    assert list(net) != list(packed)
    buffer = packed["mlp.weights"]
    packed["mlp.weights"] = ad.Float64(buffer * 2)
    assert packed["mlp.weights"] is buffer
    for layer, old in zip(packed.layers, net.layers, strict=True):
        if isinstance(old, nn.Linear):
            doubled = 2 * old.weights.numpy()
            assert (ad.TensorXf64(layer.weights).numpy() == doubled).all()
    again = nn.unpack(packed)
    assert again.layers[1].weights.layout == "row_major"


def test_first_parameters():
    first, second = small(), small()
    weights = first["layers.1.weights"].numpy()
    assert (weights == second["layers.1.weights"].numpy()).all()
    other = nn.Linear(8, 6).alloc(ad.TensorXf64, rng=dr.rng(seed=3))
    assert (weights != other.weights.numpy()).any()
    limit = 1 / math.sqrt(6)
    assert abs(weights).max() <= limit
    assert abs(weights).max() > 0.8 * limit
    assert not first["layers.1.bias"].numpy().any()


@pytest.mark.parametrize("precision", ["single", "half"])
def test_a_network_learns_an_image(precision):
    half = precision == "half"
    weight = ad.TensorXf16 if half else ad.TensorXf
    entry = ad.Float16 if half else ad.Float32
    net = nn.Sequential(
        nn.Cast(entry),
        nn.SinEncode(3),
        nn.Linear(-1, 16),
        nn.ReLU(),
        nn.Linear(-1, 16),
        nn.ReLU(),
        nn.Linear(-1, 1),
    )
    net = nn.pack(net.alloc(weight, 2, rng=dr.rng(seed=1)), layout="training")
    opt = dr.opt.Adam(lr=0.01, params={"weights": ad.Float32(net["weights"])})
    scaler = dr.opt.GradScaler()
    u, v = dr.meshgrid(*[(dr.arange(ad.Float, 24) + 0.5) / 24] * 2)
    goal = dr.select(dr.square(u - 0.4) + dr.square(v - 0.6) < 0.1, 0.9, 0.2 * u)
    losses = []
    for _ in range(60):
        net["weights"] = opt["weights"]
        (found,) = net(nn.CoopVec(u, v))
        loss = dr.mean(dr.square(ad.Float(found) - goal))
        losses.append(loss[0])
        dr.backward(scaler.scale(loss))
        scaler.step(opt)
    assert losses[-1] < 0.1 * losses[0]
    assert losses[-1] < 0.02


def test_networks_in_loops_and_as_state():
    net = nn.pack(small(llvm.TensorXf64))

    @dr.syntax
    def iterate(net, x, y, count):
        k = llvm.UInt32(0)
        while k < count:
            x, y, _ = net(nn.CoopVec(x, y))
            k += 1
        return x, y

    x, y = iterate(net, llvm.Float64(0.1, 0.2), llvm.Float64(0.3, 0.4), 3)
    a, b = np.array([0.1, 0.2]), np.array([0.3, 0.4])
    for _ in range(3):
        a, b, _ = plain(small(llvm.TensorXf64), np.stack([a, b]))
    np.testing.assert_allclose([x.numpy(), y.numpy()], [a, b], atol=1e-14)


def test_gradients_of_all_parameters():
    net = small()
    x = ad.TensorXf64(np.random.default_rng(0).uniform(0, 1, (2, 5)))
    names = list(net)

    def loss(*values):
        other = small()
        other.update(dict(zip(names, values, strict=True)))
        other = nn.pack(other)
        return sum(other(nn.CoopVec(x[0].array, x[1].array)))

    dr.gradcheck(loss, *[net[name] for name in names])


def test_own_modules():
    class Twice(nn.Module):
        DRJIT_STRUCT = {"inner": nn.Module, "factor": float}

        def __init__(self, inner=None):
            self.inner, self.factor = inner, 2.0

        def __call__(self, arg, /):
            return self.inner(arg) * self.factor

        def _alloc(self, dtype, size, rng, /):
            inner, size = self.inner._alloc(dtype, size, rng)
            return Twice(inner), size

    net = nn.Sequential(Twice(nn.Linear(2, 1))).alloc(llvm.TensorXf)
    assert list(net) == ["layers.0.inner.weights", "layers.0.inner.bias"]
    weights = net["layers.0.inner.weights"].numpy()
    (y,) = nn.pack(net)(nn.CoopVec(llvm.Float(1), 10))
    assert abs(y[0] - 2 * (weights @ [1, 10])[0]) < 1e-6
    with pytest.raises(NotImplementedError):
        nn.Module()(1)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: nn.Linear(2, 3)(nn.CoopVec(1, 2)), StateError, "no parameters yet"),
        (
            lambda: nn.Linear(2, 3).alloc(llvm.TensorXf)(nn.CoopVec(1, 2)),
            StateError,
            "pack them",
        ),
        (
            lambda: nn.pack(nn.Linear(2, 3).alloc(llvm.TensorXf))(llvm.TensorXf([1])),
            StateError,
            "packed, and the input is a 'TensorXf'",
        ),
        (lambda: nn.Linear(2, 3).alloc(llvm.Float), ArrayTypeError, "tensor type"),
        (lambda: nn.Linear(2, 3).alloc(llvm.TensorXf, 4), SizeError, "2 .* gets 4"),
        (lambda: nn.Linear(-1, 3).alloc(llvm.TensorXf), SizeError, "isn't known"),
        (lambda: nn.SinEncode(2).alloc(llvm.TensorXf), SizeError, "isn't known"),
        (lambda: nn.SinEncode(-1), SizeError, "-1 octaves"),
        (lambda: nn.SinEncode()(nn.CoopVec(1)), SizeError, "0 octaves"),
        (lambda: nn.TriEncode(1)([0.5]), ArrayTypeError, "can't encode a 'list'"),
        (lambda: nn.Sequential(3), ArrayTypeError, "'int' is no module"),  # type: ignore[arg-type]
        (lambda: nn.Cast(float), ArrayTypeError, "no array type"),
        (lambda: nn.Linear(2, 3).pop("weights"), UnknownKeyError, "no parameter"),
        (
            lambda: nn.Linear(2, 3).alloc(llvm.TensorXf).popitem(),
            StateError,
            "can't be removed",
        ),
        (
            lambda: nn.Linear(2, 3).alloc(llvm.TensorXf).update({"bias": [1]}),
            SizeError,
            r"'bias' has shape \(3,\)",
        ),
        (lambda: nn.pack(nn.Linear(2, 3)), ArrayTypeError, "no matrix"),
        (lambda: nn.CoopVec(), ArrayTypeError, "no component"),
        (lambda: nn.CoopVec("x"), ArrayTypeError, "'str' has no components"),
        (lambda: nn.CoopVec(llvm.Bool(True)), ArrayTypeError, "no common flat type"),
        (lambda: nn.CoopVec(1) + nn.CoopVec(1, 2), SizeError, "1 and 2 components"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_packed_weights_are_put_back() -> None:
    """An array that is assigned to itself stays the variable that it is."""
    net = dr.nn.pack(dr.nn.Linear(2, 1).alloc(ad.TensorXf, 2))
    weights = net["weights"]
    dr.enable_grad(weights)
    net["weights"] = weights
    assert net["weights"] is weights
    (result,) = net(dr.nn.CoopVec(ad.Float(3), ad.Float(4)))
    dr.backward(result)
    assert sorted(float(v) for v in weights.grad) == [1, 3, 4]
    other = ad.Float(dr.detach(weights)) + 0
    dr.enable_grad(other)
    net["weights"] = other
    (result,) = net(dr.nn.CoopVec(ad.Float(3), ad.Float(4)))
    dr.backward(result)
    assert sorted(float(v) for v in other.grad) == [1, 3, 4]
    assert sorted(float(v) for v in net["weights"].grad) == [1, 3, 4]
