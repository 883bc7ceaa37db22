"""Functions of one framework that are called with arrays of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Array3f, Complex2f, Float, TensorXf, UInt
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, DerivativeError

NAMES = ["torch", "jax"]


@pytest.fixture(params=NAMES)
def other(request: pytest.FixtureRequest):
    """A framework's module of functions, and its name."""
    module = pytest.importorskip(request.param)
    return (module if request.param == "torch" else module.numpy), request.param


def test_values_and_gradients_of_theirs(other) -> None:
    xp, name = other

    @dr.wrap("drjit", name)
    def function(x, y):
        return xp.sin(x) * y, {"sum": (x * x).sum()}

    x, y = Float(1, 2, 3), Float(0.5, 1, 2)
    dr.enable_grad(x, y)
    product, parts = function(x, y)
    assert isinstance(product, TensorXf)
    np.testing.assert_allclose(product, np.sin([1, 2, 3]) * [0.5, 1, 2], 1e-6)
    np.testing.assert_allclose(parts["sum"], 14)
    dr.backward(product.array * 2 + parts["sum"].array)
    grad = 2 * np.cos([1, 2, 3]) * [0.5, 1, 2] + 3 * 2 * np.array([1, 2, 3])
    np.testing.assert_allclose(x.grad, grad, 1e-5)
    np.testing.assert_allclose(y.grad, 2 * np.sin([1, 2, 3]), 1e-5)


def test_forward_derivatives_of_theirs(other) -> None:
    xp, name = other
    function = dr.wrap(dr, name)(lambda x: xp.exp(x) * 2)
    x = Float(0.5, 1)
    dr.enable_grad(x)
    y = function(x)
    dr.set_grad(x, Float(1, 3))
    dr.forward_to(y)
    np.testing.assert_allclose(y.grad, 2 * np.exp([0.5, 1]) * [1, 3], 1e-5)


def test_nested_arrays_and_what_is_no_array(other) -> None:
    _, name = other

    @dr.wrap("drjit", name)
    def scaled(values, factor, index):
        assert isinstance(factor, float)
        return [values["v"] * factor, index + 1, "text"]

    v = Array3f([1, 2], [3, 4], 5)
    dr.enable_grad(v)
    found, index, text = scaled({"v": v}, 2.0, index=dr.llvm.Int(1, 2))
    assert found.shape == (3, 2)
    assert index.numpy().tolist() == [2, 3]
    assert text == "text"
    dr.backward(found)
    # The last component is one number for both entries.
    np.testing.assert_allclose(v.grad, [[2, 2], [2, 2], [4, 4]])


def test_without_gradients(other) -> None:
    _, name = other
    function = dr.wrap("drjit", name)(lambda x: x * 2)
    assert not dr.grad_enabled(function(dr.llvm.Float(1, 2)))
    assert function(dr.llvm.Int(1, 2)).numpy().tolist() == [2, 4]


@dr.syntax
def powers(x, n):
    """Our own: a loop of another length for each entry."""
    i, y = UInt(0), dr.ones(TensorXf, x.shape).array
    x = x.array
    n = n.array
    while i < UInt(n):
        y *= x
        i += 1
    return {"powers": TensorXf(y), "n": n}


def test_ours_in_torch() -> None:
    torch = pytest.importorskip("torch")
    function = dr.wrap(source="torch", target="drjit")(powers)
    x = torch.tensor([2.0, 3.0, 0.5], requires_grad=True)
    found = function(x, torch.tensor([1, 2, 3], dtype=torch.int32))
    assert found["n"].dtype == torch.int32
    (found["powers"] * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    np.testing.assert_allclose(x.grad, [1, 2 * 2 * 3, 3 * 3 * 0.25], 1e-6)


def test_ours_in_torch_forward() -> None:
    torch = pytest.importorskip("torch")
    function = dr.wrap(source="torch", target="drjit")(lambda x: dr.sin(x))
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.tensor([1.0, 2]))
        _, tangent = torch.autograd.forward_ad.unpack_dual(function(x))
    np.testing.assert_allclose(tangent, np.cos(1) * np.array([1, 2]), 1e-6)


def test_ours_in_jax() -> None:
    jax = pytest.importorskip("jax")
    function = dr.wrap(source="jax", target="drjit")(powers)
    n = jax.numpy.array([1, 2, 3])

    def loss(x):
        weights = jax.numpy.array([1.0, 2.0, 3.0])
        return (function(x, n)["powers"] * weights).sum()

    x = jax.numpy.array([2.0, 3.0, 0.5])
    np.testing.assert_allclose(loss(x), 2 + 18 + 3 * 0.125, 1e-6)
    np.testing.assert_allclose(jax.grad(loss)(x), [1, 12, 2.25], 1e-6)
    for tracing in (jax.jit, jax.vmap):
        with pytest.raises(ArrayValueError, match=r"test_wrap.*while JAX traces"):
            tracing(loss)(x[:, None])


def ours_in(name):
    """What differentiates a function of sums with weights 1, ... in a framework."""
    module = pytest.importorskip(name)
    if name == "jax":
        return module.numpy.array, module.grad

    def grad(function):
        def gradient(x):
            x = x if x.requires_grad else x.requires_grad_()
            return module.autograd.grad(function(x), x, create_graph=True)[0]

        return gradient

    return module.tensor, grad


def summed(function):
    return lambda x: function(x).sum()


@pytest.mark.parametrize("name", NAMES)
def test_higher_derivatives_of_ours(name) -> None:
    array, grad = ours_in(name)

    @dr.wrap(name, "drjit")
    def function(x):
        x = x.array
        return Array3f(x, x * x, dr.sin(x)), dr.sum(x * x * x)

    def loss(x):
        parts, total = function(x)
        return parts.sum() + total.sum()

    x = np.array([0.5, 2], np.float32)
    for k, expected in enumerate(
        [
            1 + 2 * x + np.cos(x) + 3 * x * x,
            2 - np.sin(x) + 6 * x,
            -np.cos(x) + 6,
        ]
    ):
        derivative = loss
        for _ in range(k):
            derivative = summed(grad(derivative))
        found = grad(derivative)(array(x))
        found = found.detach() if name == "torch" else found
        np.testing.assert_allclose(found, expected, 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_ours_gives_gradients_to_what_it_uses_besides(name) -> None:
    array, grad = ours_in(name)
    p = Float(2)
    dr.enable_grad(p)
    function = dr.wrap(name, "drjit")(lambda x: x * x * p)
    x = np.array([1, 3], np.float32)
    found = grad(summed(function))(array(x))
    found = found.detach() if name == "torch" else found
    np.testing.assert_allclose(found, 4 * x)
    assert p.grad == 10
    dr.clear_grad(p)
    grad(summed(grad(summed(function))))(array(x))
    assert p.grad == 10 + 2 * 4


def test_theirs_gives_gradients_to_its_weights() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(2, 1)
    function = dr.wrap("drjit", "torch")(lambda x: layer(x))
    for is_tracked in (True, False):
        x = TensorXf([[1.0, 2.0]])
        dr.set_grad_enabled(x, is_tracked)
        dr.backward(function(x))
        np.testing.assert_allclose(layer.weight.grad, [[1, 2]])
        np.testing.assert_allclose(layer.bias.grad, [1])
        expected = layer.weight.detach() if is_tracked else [[0, 0]]
        np.testing.assert_allclose(x.grad, expected)
        layer.zero_grad()
    with torch.no_grad():
        assert not dr.grad_enabled(function(TensorXf([[1.0, 2.0]])))


@pytest.mark.parametrize("scope", ["no_grad", "inference_mode"])
def test_where_theirs_tracks_nothing(scope) -> None:
    """Our variables are tracked, which the scope doesn't concern."""
    torch = pytest.importorskip("torch")
    x = Float(1)
    dr.enable_grad(x)
    with getattr(torch, scope)():
        y = dr.wrap("drjit", "torch")(torch.sin)(x)
    dr.backward(y)
    np.testing.assert_allclose(x.grad, np.cos(1), 1e-6)


@pytest.mark.parametrize("is_tracked", [True, False])
def test_gradients_are_of_the_numbers_that_were_drawn(is_tracked) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(64, requires_grad=True)
    function = dr.wrap("drjit", "torch")(
        lambda x: torch.nn.functional.dropout(x * weight)
    )
    x = Float(np.ones(64, np.float32))
    dr.set_grad_enabled(x, is_tracked)
    y = function(x)
    for k in (1, 2):
        dr.backward(y, flags=dr.ADFlag.ClearVertices)
        np.testing.assert_array_equal(weight.grad, k * y.numpy())
    if is_tracked:
        np.testing.assert_array_equal(x.grad, 2 * y.numpy())


def test_first_derivatives_of_theirs_while_others_are_tracked(other) -> None:
    """The second ones are an error, which names the function."""
    xp, name = other
    unrelated = Float(1)
    dr.enable_grad(unrelated)

    @dr.wrap("drjit", name)
    def sine(x):
        return xp.sin(x)

    def function(x):
        return dr.sum(sine(x) * x)

    for _ in range(2):
        value, gradient = dr.value_and_grad(function)(Float(1))
        np.testing.assert_allclose(value, np.sin(1), 1e-6)
        np.testing.assert_allclose(gradient, np.sin(1) + np.cos(1), 1e-6)
    outer = dr.wrap(name, "drjit")(function)
    array, grad = ours_in(name)
    found = grad(summed(outer))(array([1.0]))
    found = found.detach() if name == "torch" else found
    np.testing.assert_allclose(found, np.sin([1]) + np.cos([1]), 1e-6)
    with pytest.raises(DerivativeError, match=r"test_wrap.*: sine: .*'wrap'"):
        dr.hvp(function, (Float(1),), (Float(1),))


@pytest.mark.parametrize("name", NAMES)
def test_types_that_ours_lacks(name) -> None:
    module = pytest.importorskip(name)
    array = module.ones(2, dtype=module.bfloat16) if name == "torch" else None
    if array is None:
        array = module.numpy.ones(2, module.numpy.bfloat16)
    with pytest.raises(ArrayTypeError, match=r"test_wrap.*no arrays of type .*bfloat"):
        dr.wrap(name, "drjit")(lambda x: x)(array)


@pytest.mark.parametrize("name", NAMES)
def test_errors_in_derivatives_name_the_line(name) -> None:
    class Nothing(dr.CustomOp):
        def eval(self, x):
            return x + 1

    array, grad = ours_in(name)
    function = dr.wrap(name, "drjit")(lambda x: dr.custom(Nothing, x))
    with pytest.raises(DerivativeError, match=r"test_wrap.*Nothing.backward"):
        grad(summed(function))(array([1.0]))


def test_tracked_tensors_are_read() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    assert list(Float(tensor)) == [1, 2]
    assert list(Float(1, 2) + tensor) == [2, 4]
    assert list(TensorXf(tensor)) == [1, 2]


@pytest.mark.parametrize(
    "pair", [("drjit", "drjit"), ("torch", "jax"), ("drjit", "cupy")], ids=str
)
def test_other_pairs_are_refused(pair) -> None:
    with pytest.raises(ArrayValueError, match="can't call functions of"):
        dr.wrap(*pair)
    with pytest.raises(ArrayTypeError, match="a framework is a name or a module"):
        dr.wrap(3, "torch")  # type: ignore[arg-type]


@dataclass
class Pair:
    first: Any
    second: Any


def test_structs_pass_both_ways(other) -> None:
    xp, name = other

    @dr.wrap("drjit", name)
    def theirs(pair):
        assert not isinstance(pair.first, dr.ArrayBase)
        return Pair(pair.first * pair.second, [pair.first])

    x = Float(1, 2, 3)
    dr.enable_grad(x)
    found = theirs(Pair(x, Float(2, 3, 4)))
    assert isinstance(found.first, TensorXf)
    assert isinstance(found.second[0], TensorXf)
    dr.backward(found.first.array)
    np.testing.assert_array_equal(x.grad, [2, 3, 4])

    @dr.wrap(name, "drjit")
    def ours(pair):
        assert isinstance(pair.first, TensorXf)
        return Pair(pair.first * pair.second, None)

    values = xp.ones(3)
    result = ours(Pair(values, values * 3))
    assert type(result.first) is type(values)
    assert result.second is None
    np.testing.assert_array_equal(np.asarray(result.first), [3, 3, 3])


def test_gradients_by_complex_numbers(other) -> None:
    """All have derivatives by real and imaginary parts, which JAX conjugates."""
    xp, name = other
    z = Complex2f(Float(1, 2), Float(3, 4))
    dr.enable_grad(z)
    dr.backward(dr.wrap("drjit", name)(lambda z: xp.abs(z) ** 2)(z).array)
    np.testing.assert_allclose(z.grad, np.array([2 + 6j, 4 + 8j]), 1e-6)
