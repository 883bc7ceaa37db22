"""Views of matrices and their products with vectors, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    DerivativeError,
    SizeError,
)
from tests import targets
from tests.verifier.interpret import interpret

nn = dr.nn
TYPES = {
    "f2": (ad.Float16, ad.TensorXf16, 4e-3),
    "f4": (ad.Float32, ad.TensorXf, 4e-6),
    "f8": (ad.Float64, ad.TensorXf64, 1e-13),
}


def drawn(seed, dtype, *shape):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def vector(cls, values):
    return nn.CoopVec([cls(row) for row in values])


def entries(vec):
    return np.stack([part.numpy() for part in vec]).astype("f8")


def close(found, expected, tolerance):
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TYPES)),
    st.integers(1, 19),
    st.integers(1, 19),
    st.sampled_from([1, 2, 7, 33, 1000]),
    st.booleans(),
    st.booleans(),
)
def test_products_and_their_derivatives(dtype, rows, columns, size, turned, has_bias):
    cls, tensor, tolerance = TYPES[dtype]
    A, b = drawn(1, dtype, rows, columns), drawn(2, dtype, rows)
    x, g = drawn(3, dtype, columns, size), drawn(4, dtype, rows, size)
    shown = A.T if turned else A
    shown_view, b_view = nn.pack(tensor(np.array(shown)), tensor(b))
    buffer = shown_view.buffer
    vec = vector(cls, x)
    dr.enable_grad(buffer, vec)
    y = nn.matvec(shown_view, vec, b_view if has_bias else None, transpose=turned)
    wide = A.astype("f8") @ x.astype("f8") + has_bias * b.astype("f8")[:, None]
    assert interpret([part._node for part in y])[0].shape == (size,)
    close(np.stack(interpret([p._node for p in y])), wide, tolerance)
    close(entries(y), wide, tolerance)
    for part, grad in zip(y, g, strict=True):
        dr.set_grad(part, cls(grad))
    dr.enqueue(dr.ADMode.Backward, list(y))
    dr.traverse(dr.ADMode.Backward)
    by_x = A.astype("f8").T @ g.astype("f8")
    close(np.stack([dr.grad(part).numpy() for part in vec]), by_x, 2 * tolerance)
    by_A = g.astype("f8") @ x.astype("f8").T
    found = tensor(shown_view.grad).numpy()
    close(found.T if turned else found, by_A, 20 * tolerance)
    by_b = g.astype("f8").sum(1) * has_bias
    close(tensor(b_view.grad).numpy()[:, 0], by_b, 20 * tolerance)


def test_forward_mode():
    A, x = drawn(1, "f8", 5, 3), drawn(2, "f8", 3, 4)
    dA, dx = drawn(3, "f8", 5, 3), drawn(4, "f8", 3, 4)
    matrix, vec = ad.TensorXf64(A), vector(ad.Float64, x)
    dr.enable_grad(matrix, vec)
    dr.set_grad(matrix, ad.TensorXf64(dA))
    for part, row in zip(vec, dx, strict=True):
        dr.set_grad(part, ad.Float64(row))
    y = list(nn.view(matrix) @ vec)
    dr.forward_to(y)
    found = np.stack([dr.grad(part).numpy() for part in y])
    np.testing.assert_allclose(found, dA @ x + A @ dx, atol=1e-14)


def test_second_derivatives():
    A = drawn(1, "f8", 3, 2)

    def loss(matrix, p, q):
        vec = nn.matvec(nn.view(matrix), nn.CoopVec(p, q))
        return sum(part * part * part for part in vec)

    given_ = ad.TensorXf64(A), ad.Float64(0.5, 2), ad.Float64(-1, 0.25)
    dr.gradcheck(loss, *given_)
    by = dr.hvp(
        lambda m: dr.sum(loss(m, *given_[1:])), (given_[0],), (ad.TensorXf64(A),)
    )
    step = 1e-5

    def gradient(values):
        m = ad.TensorXf64(values)
        return dr.value_and_grad(lambda m: dr.sum(loss(m, *given_[1:])))(m)[1].numpy()

    difference = (gradient(A + step * A) - gradient(A - step * A)) / (2 * step)
    found = by[0] if isinstance(by, tuple) else by
    np.testing.assert_allclose(found.numpy(), difference, rtol=1e-7)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_and_their_derivatives(mode):
    A = drawn(1, "f8", 4, 4) * 0.8
    x = drawn(2, "f8", 4, 6)
    turns = np.array([0, 1, 2, 3, 5, 2])

    def run(matrix, parts):
        view, count = nn.view(matrix), ad.UInt32(turns)

        def body(k, *state):
            found = nn.matvec(view, nn.CoopVec(*state))
            return k + 1, *(dr.tanh(part) for part in found)

        _, *parts = dr.while_loop(
            (ad.UInt32(0), *parts), lambda k, *_: k < count, body, mode=mode
        )
        return sum(parts)

    def plain(A):
        state = x.copy()
        for k in range(5):
            state = np.where(turns > k, np.tanh(A @ state), state)
        return state.sum(0)

    matrix, parts = ad.TensorXf64(A), [ad.Float64(row) for row in x]
    dr.enable_grad(matrix)
    y = run(matrix, parts)
    np.testing.assert_allclose(y.numpy(), plain(A), atol=1e-13)
    dr.backward(dr.sum(y))
    found, step = dr.grad(matrix).numpy(), 1e-6
    for i, j in np.ndindex(4, 4):
        moved = np.zeros((4, 4))
        moved[i, j] = step
        slope = (plain(A + moved).sum() - plain(A - moved).sum()) / (2 * step)
        assert abs(found[i, j] - slope) < 1e-8


def test_networks_of_instances_and_masks():
    """Calls aren't merged where they read different matrices; others stay at zero."""
    matrices = [drawn(k, "f4", 3, 2) for k in range(3)]
    views = [nn.view(llvm.TensorXf(m)) for m in matrices]
    x, which = drawn(9, "f4", 2, 50), np.arange(50) % 3

    def call(view):
        return lambda a, b: llvm.Array3f(view @ nn.CoopVec(a, b))

    found = dr.switch(
        llvm.UInt32(which), [call(v) for v in views], llvm.Float(x[0]), llvm.Float(x[1])
    )
    expected = np.stack([matrices[k] @ x[:, n] for n, k in enumerate(which)], 1)
    close(found.numpy(), expected, 1e-6)


def test_small_arrays_and_numbers():
    """Matrices that aren't in memory: of zeros, or of one entry."""
    x = nn.CoopVec(ad.Float(1, 2), 3)
    zero = nn.view(dr.zeros(ad.TensorXf, (2, 2))) @ x
    assert [list(part) for part in zero] in ([[0, 0], [0, 0]], [[0], [0]])
    one = ad.TensorXf([[5.0]])
    dr.enable_grad(one)
    (y,) = nn.view(one) @ nn.CoopVec(ad.Float(1, 2))
    dr.backward(dr.sum(y))
    assert list(y) == [5, 10]
    assert dr.grad(one).numpy().tolist() == [[3]]


def test_empty_and_single_lanes():
    view = nn.view(ad.TensorXf([[1, 2], [3, 4]]))
    y = view @ nn.CoopVec(ad.Float([]), ad.Float([]))
    assert all(len(part) == 0 for part in y)
    assert [list(p) for p in view @ nn.CoopVec(ad.Float(1), 1)] == [[3], [7]]


def test_masked_lanes_add_nothing():
    """What isn't active has no part in the gradient, even if it is NaN."""
    matrix = ad.TensorXf([[1.0, 2.0], [3.0, 4.0]])
    dr.enable_grad(matrix)
    x = ad.Float(1, dr.nan, 2)

    def inside(v):
        return sum(nn.view(matrix) @ nn.CoopVec(v, v))

    y = dr.if_stmt((x,), x == x, inside, lambda v: ad.Float(0))
    dr.backward(dr.sum(y))
    assert dr.grad(matrix).numpy().tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_threads_compute_the_same(dtype):
    cls, tensor, tolerance = TYPES[dtype]
    A, x = drawn(1, dtype, 9, 6), drawn(2, dtype, 6, 20)
    with targets.written_for("thread"):
        view, vec = nn.view(tensor(A)), vector(cls, x)
        dr.enable_grad(view.buffer)
        y = view @ vec
        close(entries(y), A.astype("f8") @ x.astype("f8"), tolerance)
        dr.backward(dr.sum(sum(y)))
        expected = np.broadcast_to(x.astype("f8").sum(1), A.shape)
        close(tensor(view.grad).numpy(), expected, 10 * tolerance)


def test_scalar_is_the_same():
    A, b = drawn(1, "f4", 3, 2), drawn(2, "f4", 3)
    x = drawn(3, "f4", 2)
    matrix, bias = nn.pack(scalar.TensorXf(A), scalar.TensorXf(b))
    found = nn.matvec(matrix, nn.CoopVec(*map(float, x)), bias)
    assert found.type is float
    np.testing.assert_allclose(list(found), A @ x + b, rtol=1e-6)


def test_parts_of_matrices():
    A = drawn(1, "f4", 6, 5)
    view = nn.view(llvm.TensorXf(A))
    for key in (
        np.s_[1:4, :],
        np.s_[2],
        np.s_[:, 3],
        np.s_[::2, 1:],
        np.s_[-1, ::-2],
        np.s_[::-1],
    ):
        part, expected = view[key], np.atleast_2d(A[key])
        if key == np.s_[:, 3]:
            expected = expected.T
        assert part.shape == expected.shape
        assert part.size == expected.size
        assert (llvm.TensorXf(part).numpy() == expected).all()
        assert (llvm.TensorXf(part.T).numpy() == expected.T).all()
        x = drawn(2, "f4", expected.shape[1], 3)
        close(entries(part @ vector(llvm.Float, x)), expected @ x, 1e-6)
    assert view[1:].offset == 5
    assert view.stride == 5
    assert view.layout == "row_major"
    assert view.dtype == dr.VarType.Float32


def test_gradients_of_parts():
    """Rows that aren't neighbours, and columns."""
    A = drawn(1, "f8", 6, 4)
    x = drawn(2, "f8", 2, 100)
    for key in (np.s_[::2, 1:3], np.s_[:, ::-3]):
        matrix = ad.TensorXf64(A)
        dr.enable_grad(matrix)
        y = nn.view(matrix)[key] @ vector(ad.Float64, x)
        dr.backward(dr.sum(sum(part * (k + 1) for k, part in enumerate(y))))
        expected = np.zeros_like(A)
        expected[key] = np.arange(1, len(y) + 1)[:, None] * x.sum(1)
        np.testing.assert_allclose(dr.grad(matrix).numpy(), expected, atol=1e-12)


def test_packing():
    A, b = drawn(1, "f4", 3, 2), drawn(2, "f4", 3)
    tree = {"w": llvm.TensorXf(A), "rest": [llvm.Float(b), 7, None]}
    packed = nn.pack(tree, layout="training")
    assert packed["rest"][1:] == [7, None]
    views = packed["w"], packed["rest"][0]
    assert views[0].buffer is views[1].buffer
    assert views[0].layout == "training"
    assert (views[0].buffer.numpy() == [*b, *A.ravel()]).all()
    first, second = nn.unpack(*views)
    assert (llvm.TensorXf(first).numpy() == A).all()
    assert (llvm.TensorXf(second).numpy()[:, 0] == b).all()
    again = nn.pack(nn.view(llvm.TensorXf(A))[1:], views[1])
    assert (again[0].buffer.numpy() == [*A[1:].ravel(), *b]).all()


def test_derivatives_inside_of_a_loop_have_no_second_ones():
    def loss(matrix):
        def body(k, a, b):
            a, b = nn.view(matrix) @ nn.CoopVec(a, b)
            return k + 1, a * a, b * b

        state = ad.UInt32(0), ad.Float64(1, 2), ad.Float64(2, 1)
        _, a, b = dr.while_loop(state, lambda k, *_: k < 2, body)
        return dr.sum(a + b)

    given_ = ad.TensorXf64(drawn(1, "f8", 2, 2))
    with pytest.raises(DerivativeError, match="can't be differentiated there once"):
        dr.eval(dr.hvp(loss, (given_,), (given_,)))


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda a, x: nn.matvec(a.T, x), SizeError, r"shape \(2, 3\) doesn't fit"),
        (lambda a, x: nn.matvec(llvm.Float(1), x), ArrayTypeError, "a MatrixView"),  # type: ignore[arg-type]
        (lambda a, x: nn.matvec(a, [1, 2]), ArrayTypeError, "expected a CoopVec"),  # type: ignore[arg-type]
        (lambda a, x: nn.matvec(a, x, a), SizeError, r"added of shape \(3, 2\)"),
        (
            lambda a, x: a @ nn.cast(x, llvm.Float16),
            ArrayTypeError,
            r"'Float' and the vector is made of 'Float16'.*nn.cast",
        ),
        (lambda a, x: a @ nn.CoopVec(1, 2), ArrayTypeError, "made of 'float'"),
        (lambda a, x: a[5], ArrayIndexError, "5 is beyond 3 entries"),
        (lambda a, x: a[3:], ArrayIndexError, "of 3 is empty"),
        (lambda a, x: a["x"], ArrayIndexError, "is 'str'"),
        (lambda a, x: a[1, 2, 3], ArrayIndexError, "3 subscripts"),
        (lambda a, x: nn.view(3), ArrayTypeError, "got 'int'"),
        (lambda a, x: nn.view(llvm.TensorXu([1])), ArrayTypeError, "of floats"),
        (lambda a, x: nn.view(llvm.TensorXf(1)), SizeError, r"shape is \(\)"),
        (lambda a, x: nn.view(dr.zeros(llvm.Float, 0)), SizeError, "not empty"),
        (lambda a, x: nn.pack(a, layout="fast"), ArrayTypeError, "layout is 'fast'"),  # type: ignore[arg-type]
        (lambda a, x: nn.pack(3), ArrayTypeError, "there is no matrix"),
        (
            lambda a, x: nn.pack(a, llvm.TensorXf16([1])),
            ArrayTypeError,
            r"different types \(Float, Float16\)",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(
            nn.view(llvm.TensorXf([[1, 2], [3, 4], [5, 6]])),
            nn.CoopVec(llvm.Float(1), 2),
        )
