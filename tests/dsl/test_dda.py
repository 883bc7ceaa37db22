"""Walks through grids, against cells found from all crossings, and their integrals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, SizeError

dda, integrate = dr.dda.dda, dr.dda.integrate


def crossings(o, d, far, res):
    """List the cells between all places where a ray crosses planes of the unit grid."""
    size = np.array(res[::-1], float)
    times = [0.0, far]
    for axis in range(len(o)):
        if d[axis]:
            times += list((np.arange(res[::-1][axis] + 1) - o[axis]) / d[axis])
    within = np.unique([t for t in times if 0 <= t <= far])
    cells = []
    for a, b in itertools.pairwise(within):
        if b - a > 1e-9:
            p = o + d * (a + b) / 2
            if (p > 0).all() and (p < size).all():
                cells.append((tuple(int(v) for v in np.floor(p))[::-1], a, b))
    return cells


def visited(ray_o, ray_d, far, res):
    """Walk in the scalar namespace, by cells of length 1."""
    n = len(ray_o)
    vector = getattr(scalar, f"Array{n}f64")
    cells = getattr(scalar, f"Array{n}u")

    def visit(found, index, enter, leave, active):
        assert active is True
        return [*found, (tuple(index), list(enter), list(leave))], True

    size = vector(*[float(v) for v in res[::-1]])
    given_ = vector(*ray_o), vector(*ray_d), far, cells(*res), vector(0), size
    return dda(*given_, visit, [], True, mode="scalar")


coordinates = st.floats(-3, 6).map(lambda v: round(v, 3) + 0.0001)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(coordinates, min_size=2, max_size=3),
    st.lists(st.floats(-1, 1).map(lambda v: round(v, 3)), min_size=3, max_size=3),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.sampled_from([0.7, 5.0, 1e3]),
)
def test_all_cells_in_order(o, d, res, far):
    o, d, res = np.array(o), np.array(d[: len(o)]), res[: len(o)]
    if not d.any():
        return
    right = crossings(o, d, far, res)
    found = visited(o, d, far, res)
    found = [v for v in found if np.abs(np.subtract(v[1], v[2])).max() > 1e-8]
    assert [v[0] for v in found] == [cell for cell, _, _ in right]
    for (cell, enter, leave), (_, a, b) in zip(found, right, strict=True):
        corner = np.array(cell[::-1])
        np.testing.assert_allclose(corner + enter, o + d * a, atol=1e-6)
        np.testing.assert_allclose(corner + leave, o + d * b, atol=1e-6)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("kind", ["Array3u", "Array3i"])
def test_many_rays_at_once(mode, kind):
    rng = np.random.default_rng(4)
    n, res = 300, (3, 4, 5)
    o, d = rng.uniform(-1, 5, (3, n)), rng.normal(size=(3, n))

    def visit(state, index, enter, leave, active):
        count, _, length = state
        flat = (index[0] * res[1] + index[1]) * res[2] + index[2]
        way = dr.norm(leave - enter)
        return (count + 1, llvm.UInt(flat), length + way), True

    start = llvm.UInt(0), llvm.UInt(0), llvm.Float64(0)
    given_ = (
        *(llvm.Array3f64(o), llvm.Array3f64(d), llvm.Float64(2)),
        *(getattr(llvm, kind)(*res), llvm.Array3f64(0), llvm.Array3f64(5, 4, 3)),
    )
    count, last, length = dda(*given_, visit, start, llvm.Bool(True), mode)
    for k in range(n):
        cells = crossings(o[:, k], d[:, k], 2.0, res)
        assert count[k] == len(cells)
        if cells:
            assert last[k] == np.ravel_multi_index(cells[-1][0], res)
        way = sum(b - a for _, a, b in cells) * np.linalg.norm(d[:, k])
        assert abs(length[k] - way) < 1e-9


def test_walks_end_early_and_where_nothing_is_active():
    def visit(count, index, enter, leave, active):
        return count + 1, count < 1

    box = llvm.Array2u(4, 4), llvm.Array2f(0), llvm.Array2f(1)
    ray = llvm.Array2f([-1, -1, -1], [0.1, 0.1, 5]), llvm.Array2f(1, 0), dr.inf
    count = dda(*ray, *box, visit, llvm.UInt(0), llvm.Bool(True, False, True))
    assert list(count) == [2, 0, 0]
    still = llvm.Array2f(0.3, 0.3), llvm.Array2f(0, 0), 1.0
    assert list(dda(*still, *box, visit, llvm.UInt(0))) == [1]


def test_bad_input_of_walks():
    box = llvm.Array2u(4, 4), llvm.Array2f(0), llvm.Array2f(1)
    with pytest.raises(ArrayTypeError, match="'ray_d' has type 'Float'"):
        dda(llvm.Array2f(0), llvm.Float(1), 1.0, *box, None, 0)  # type: ignore[arg-type]
    with pytest.raises(
        ArrayTypeError, match=r"'grid_res' has type 'Array2f' \(expected"
    ):
        dda(llvm.Array2f(0), llvm.Array2f(1), 1.0, box[1], *box[1:], None, 0)  # type: ignore[arg-type]


def brute_force(vol, o, d, far, low, high):
    axes = [
        np.linspace(low[k], high[k], vol.shape[len(low) - 1 - k])
        for k in reversed(range(len(low)))
    ]
    read = RegularGridInterpolator(axes, vol, bounds_error=False, fill_value=0)
    count = 40_000
    t = (np.arange(count) + 0.5) * far / count
    points = np.array(o) + t[:, None] * np.array(d)
    return read(points[:, ::-1]).mean() * far * np.linalg.norm(d)


@pytest.mark.parametrize("shape", [(3, 4), (2, 2), (4, 2, 5), (3, 3, 3)])
@pytest.mark.parametrize("space", [llvm, ad, scalar])
def test_integrals(shape, space):
    rng = np.random.default_rng(sum(shape))
    n = len(shape)
    vol = rng.normal(size=shape)
    low, high = rng.uniform(-1, 0, n), rng.uniform(1, 2, n)
    vector = getattr(space, f"Array{n}f64")
    tensor = space.TensorXf64(vol)
    for _ in range(5):
        o, d = rng.uniform(-1, 2, n), rng.normal(size=n)
        far = rng.uniform(0.5, 4)
        right = brute_force(vol, o, d, far, low, high)
        found = integrate(vector(o), vector(d), far, vector(low), vector(high), tensor)
        np.testing.assert_allclose(np.ravel(found)[0], right, atol=2e-3)


def test_integrals_of_constants_and_ramps():
    ones = llvm.TensorXf(np.ones((3, 4, 5)))
    box = llvm.Array3f(0), llvm.Array3f(2, 3, 4)
    o, d = llvm.Array3f(-1, [0.5, 9], 0.5), llvm.Array3f(2, 0, 0)
    assert list(integrate(o, d, dr.inf, *box, ones)) == [2, 0]
    assert list(integrate(o, d, 0.75, *box, ones)) == [0.5, 0]
    mask = llvm.Bool(False, True)
    assert list(integrate(o, d, dr.inf, *box, ones, mask)) == [0, 0]
    ramp = llvm.TensorXf(np.linspace(0, 1, 5)[None, None] * np.ones((3, 4, 1)))
    assert dr.allclose(integrate(o, d, dr.inf, *box, ramp), [1, 0])


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_derivatives(mode):
    rng = np.random.default_rng(8)
    vol = ad.TensorXf64(rng.normal(size=(3, 2, 4)))
    o = ad.Array3f64([-0.31, 0.42], [0.13, 0.37], [0.22, -0.41])
    d = ad.Array3f64([0.9, 0.11], [0.23, 0.35], [0.17, 1.1])
    box = ad.Array3f64(0), ad.Array3f64(1)

    def function(vol, o, d):
        return integrate(o, d, ad.Float64(5, 0.8), *box, vol, mode=mode)

    assert dr.gradcheck(function, vol, o, d)


def test_the_derivative_by_values_needs_no_memory_of_the_walk():
    vol = ad.TensorXf64(np.random.default_rng(9).normal(size=(8, 8, 8)))
    dr.enable_grad(vol)
    n = 1000
    o = ad.Array3f64(-1, dr.linspace(ad.Float64, 0, 1, n), 0.4)
    box = ad.Array3f64(0), ad.Array3f64(1)
    found = integrate(o, ad.Array3f64(1, 0.1, 0.05), dr.inf, *box, vol)
    dr.backward(dr.sum(found))
    # The integrals are linear in the values.
    total = dr.sum(dr.grad(vol).array * dr.detach(vol.array))
    assert dr.allclose(total, dr.sum(dr.detach(found)))


def test_bad_input_of_integrals():
    ray = llvm.Array2f(0), llvm.Array2f(1), 1.0, llvm.Array2f(0), llvm.Array2f(1)
    with pytest.raises(ArrayTypeError, match="'vol' has type 'Float'"):
        integrate(*ray, llvm.Float(1, 2))
    with pytest.raises(SizeError, match=r"'vol' has the shape \(2, 2, 2\)"):
        integrate(*ray, llvm.TensorXf(np.zeros((2, 2, 2))))
    with pytest.raises(SizeError, match="two values at least"):
        integrate(*ray, llvm.TensorXf(np.zeros((1, 2))))
