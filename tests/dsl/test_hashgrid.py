"""Hash encodings against plain NumPy, one point after the other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError

hashgrid = dr.hashgrid
KINDS = [hashgrid.HashGridEncoding, hashgrid.PermutoEncoding]
PRIMES = [1, 2654435761, 805459861, 3674653429]


def plain(kind, values, point, levels, count, limit, base, factor, aligned):
    """Encode one point; `values` are the features of all vertices."""
    found, first = [], 0
    for level in range(levels):
        scale = base * factor**level - 1
        side = math.ceil(scale) + 1
        size = min(-(-(side ** len(point)) // count) * count, limit)
        place = np.array(point) * scale + (0 if aligned else 0.5)
        cell = np.floor(place).astype(int)
        inside = place - cell
        corners = []
        if kind is KINDS[0]:
            for steps in itertools.product((0, 1), repeat=len(point)):
                weight = np.prod(np.where(steps, inside, 1 - inside))
                corners.append((cell + steps, weight))
        else:
            order = np.argsort(-inside, kind="stable")
            edges = [1, *inside[order], 0]
            vertex = cell.copy()
            for k in range(len(point) + 1):
                corners.append((vertex.copy(), edges[k] - edges[k + 1]))
                if k < len(point):
                    vertex[order[k]] += 1
        total = np.zeros(count)
        for vertex, weight in corners:
            at = 0
            for axis, k in enumerate(vertex.tolist()):
                if side ** len(point) <= limit:
                    at = (at + k * side**axis) % 2**32
                elif kind is KINDS[0]:
                    at ^= k * PRIMES[axis] % 2**32
                else:
                    at = (at + k) * 2531011 % 2**32
            at = first + at % size
            total += weight * values[at * count : (at + 1) * count]
        found += list(total)
        first += size
    return found


def settings_of(encoding):
    return (
        encoding.n_levels,
        encoding.n_features_per_level,
        encoding.hashmap_size,
        encoding.base_resolution,
        encoding.per_level_scale,
        encoding.align_corners,
    )


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(2, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([60, 256, 1 << 14]),
    st.integers(2, 7),
    st.sampled_from([1, 1.5, 2]),
    st.booleans(),
)
def test_features(kind, dimension, levels, count, limit, base, factor, aligned):
    encoding = kind(
        llvm.Float64,
        dimension,
        n_levels=levels,
        n_features_per_level=count,
        hashmap_size=limit,
        base_resolution=base,
        per_level_scale=factor,
        align_corners=aligned,
    )
    random = np.random.default_rng(levels)
    values = random.uniform(-1, 1, encoding.n_params)
    encoding.params = values
    points = random.uniform(-0.3, 1.3, (dimension, 9))
    points[:, 0], points[:, 1] = 0, 1
    found = encoding([llvm.Float64(row) for row in points])
    assert found.shape == (encoding.n_output_features, 9)
    for n, point in enumerate(points.T):
        expected = plain(kind, values, point, *settings_of(encoding))
        np.testing.assert_allclose(found.numpy()[:, n], expected, atol=1e-12)
    other = kind(
        scalar.ArrayXf64,
        dimension,
        n_levels=levels,
        n_features_per_level=count,
        hashmap_size=limit,
        base_resolution=base,
        per_level_scale=factor,
        align_corners=aligned,
    )
    other.params = values
    alone = other(points[:, 3].tolist())
    np.testing.assert_allclose(alone.numpy(), found.numpy()[:, 3], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives(kind):
    encoding = kind(ad.Float64, 2, n_levels=3, base_resolution=3, hashmap_size=30)
    values = ad.Float64(np.random.default_rng(0).uniform(-1, 1, encoding.n_params))

    def encode(values, x, y):
        encoding.set_params(values)
        parts = encoding([x, y])
        return sum(part * (k + 1) for k, part in enumerate(parts))

    dr.gradcheck(encode, values, ad.Float64(0.13, 0.52), ad.Float64(0.41, 0.77))


def test_smoothed_derivatives_leave_values():
    def make(**more):
        return KINDS[0](ad.Float64, 1, n_levels=1, base_resolution=2, **more)

    smooth = make(smooth_weight_gradients=True, smooth_weight_lambda=0.5)
    sharp = make()
    sharp.params = smooth.params = np.arange(sharp.n_params) ** 2.0
    slopes = []
    for encoding in (sharp, smooth):
        x = ad.Float64(0.3)
        dr.enable_grad(x)
        first, _ = encoding([x])
        dr.backward(first)
        slopes.append((first[0], dr.grad(x)[0]))
    (value, slope), (same, smoother) = slopes
    assert value == same
    ratio = 1 + 0.5 * (math.pi / 2) * math.sin(math.pi * 0.8)
    assert abs(smoother / slope - ratio) < 1e-12


def test_masks_loops_and_half_precision():
    encoding = KINDS[0](llvm.Float16, 3, n_levels=2, base_resolution=4)
    encoding.params = np.linspace(-1, 1, encoding.n_params)
    point = llvm.Array3f([0.2, 0.4], 0.5, 0.7)
    found = encoding(point, llvm.Bool(True, False))
    assert type(found) is llvm.ArrayXf16
    assert found.numpy()[:, 0].all()
    assert not found.numpy()[:, 1].any()

    def body(k, total):
        return k + 1, total + llvm.Float(encoding(point)[0])

    _, total = dr.while_loop(
        (llvm.UInt32(0), llvm.Float(0, 0)), lambda k, _: k < 3, body
    )
    once = encoding(point)[0].numpy().astype("f4")
    np.testing.assert_allclose(total.numpy(), 3 * once, rtol=1e-5)


def test_as_a_layer_that_learns():
    nn = dr.nn
    encoding = nn.HashGridEncoding(ad.Float, 2, n_levels=3, base_resolution=4)
    net = nn.Sequential(nn.HashEncodingLayer(encoding), nn.Linear(-1, 1))
    net = nn.pack(net.alloc(ad.TensorXf, 2), layout="training")
    assert sorted(net) == ["layers.0.data", "weights"]
    opt = dr.opt.Adam(lr=0.02)
    opt.update(net)
    u, v = dr.meshgrid(*[(dr.arange(ad.Float, 16) + 0.5) / 16] * 2)
    goal = dr.select(u > v, 0.8, 0.1)
    losses = []
    for _ in range(40):
        net.update(opt)
        (found,) = net(nn.CoopVec(u, v))
        loss = dr.mean(dr.square(found - goal))
        losses.append(loss[0])
        dr.backward(loss)
        opt.step()
    assert losses[-1] < losses[0] / 20


def test_what_is_known_of_an_encoding():
    encoding = KINDS[0](
        ad.TensorXf, 2, n_levels=3, base_resolution=5, per_level_scale=1.5
    )
    assert encoding.dtype is ad.Float
    assert [encoding.level_offset(k) for k in range(4)] == [0, 26, 90, 234]
    assert encoding.n_params == 468
    assert encoding.n_output_features == 6
    assert float(dr.max(abs(encoding.params))[0]) <= 1e-4
    assert repr(encoding).startswith("HashGridEncoding(Float, 2, n_levels=3")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: KINDS[0](llvm.UInt, 2), ArrayTypeError, "can't be of type"),
        (lambda: KINDS[0](float, 2), ArrayTypeError, "can't be of type"),
        (lambda: KINDS[0](llvm.Float, 0), ArrayValueError, "dimension is 0"),
        (lambda: KINDS[0](llvm.Float, 9), SizeError, "9 dimensions"),
        (lambda: KINDS[1](llvm.Float, 2)([1.0]), SizeError, "have 1 coordinates"),
        (
            lambda: KINDS[1](llvm.Float, 2).set_params([1.0]),
            SizeError,
            "1 parameters",
        ),
        (lambda: dr.nn.HashEncodingLayer(3), ArrayTypeError, "no hash encoding"),  # type: ignore[arg-type]
        (
            lambda: dr.nn.HashEncodingLayer(KINDS[1](llvm.Float, 2)).alloc(
                llvm.TensorXf, 3
            ),
            SizeError,
            "takes 2 components and gets 3",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
