"""Small rules beside arrays: numbers as arguments, halves, tensors in containers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array2u, Float, Float16, Int, TensorXf, UInt64, ad
from lumijit.runtime.errors import ArrayValueError, SizeError


def test_numbers_to_powers_by_integers_are_floats():
    assert (3 ** Int(1, -2, 3)).numpy().tolist() == pytest.approx([3, 1 / 9, 27])
    assert type(3 ** Int(1)) is Float
    assert type(2 ** Array2u(1, 2)) is llvm.Array2f
    assert type(2 ** UInt64(3)) is type(2.0 ** UInt64(3))
    assert (3 ** llvm.Int8(2))[0] == (3 ** llvm.Bool(True))[0] * 3 == 9
    assert dr.power(3, Int(2))[0] == 9
    assert (2.5 ** Int(2))[0] == 6.25
    assert type(Int(2) ** 3) is Int


def test_powers_in_the_scalar_namespace():
    np.testing.assert_allclose((3 ** scalar.Array2i(1, 2)).numpy(), [3, 9])


@pytest.mark.parametrize("cls", [Float16, ad.Float16, scalar.ArrayXf16])
def test_means_of_halves_are_summed_in_single_precision(cls):
    values = np.full(1000, 60000, np.float16)
    assert np.ravel(dr.mean(cls(values)))[0] == values[0]
    assert type(dr.mean(cls(values))) is type(dr.sum(cls(values)))
    rng = np.random.default_rng(0)
    many = rng.random(5000).astype(np.float16)
    found = np.ravel(dr.mean(cls(many)))[0]
    assert found == np.float16(many.astype(np.float64).mean())


def test_means_of_halves_along_axes():
    values = np.full((3, 500), 50000, np.float16)
    found = dr.mean(llvm.TensorXf16(values), axis=1)
    assert found.numpy().tolist() == values[:, 0].tolist()
    assert dr.mean(llvm.Array2f16(60000, 60000), axis=0)[0] == np.float16(60000)
    x = ad.Float16(1, 2, 3, 4)
    dr.enable_grad(x)
    dr.backward(dr.mean(x))
    assert dr.grad(x).numpy().tolist() == [0.25] * 4


def test_reshape_shrinks_tensors():
    x = TensorXf([1, 2, 3, 4, 5])
    assert dr.reshape(x, (2, 2), shrink=True).numpy().tolist() == [[1, 2], [3, 4]]
    assert dr.reshape(TensorXf, x, 3, shrink=True).numpy().tolist() == [1, 2, 3]
    assert dr.reshape(x, (0,), shrink=True).shape == (0,)
    with pytest.raises(SizeError, match="can't shrink 5 entries to 6"):
        dr.reshape(x, (2, 3), shrink=True)


def test_one_count_in_a_tuple_is_a_count():
    for count in (2, (2,), [2]):
        tiled = dr.tile(llvm.Float(1, 2), count)
        assert type(tiled) is llvm.Float
        assert list(tiled) == [1, 2, 1, 2]
        assert type(dr.tile(llvm.Array2f(1, 2), count)) is llvm.Array2f
    assert dr.tile(llvm.Float(1, 2), (3, 2)).shape == (3, 4)


def test_tensors_in_containers_are_tiled_and_repeated():
    value: dict[str, Any] = {"a": TensorXf([[1, 2]]), "b": [Float(1, 2), 3]}
    found = dr.tile(value, 2)
    assert found["a"].numpy().tolist() == [[1, 2, 1, 2]]
    assert list(found["b"][0]) == [1, 2, 1, 2]
    assert found["b"][1] == 3
    found = dr.repeat(value, 2)
    assert found["a"].numpy().tolist() == [1, 1, 2, 2]
    assert list(found["b"][0]) == [1, 1, 2, 2]


def test_ravel_and_median_of_numbers():
    assert dr.ravel(0.5) == 0.5
    assert dr.median(3) == 3
    assert dr.median(0.5, return_index=True) == (0.5, 0)


def test_upsample_textures():
    texels = TensorXf([[[1.0], [2]], [[3], [5]]])
    texture = dr.upsample(llvm.Texture2f(texels), scale_factor=(2, 2))
    # As Dr.Jit has it.
    expected = [
        [1.0, 1.25, 1.75, 2.0],
        [1.5, 1.8125, 2.4375, 2.75],
        [2.5, 2.9375, 3.8125, 4.25],
        [3.0, 3.5, 4.5, 5.0],
    ]
    np.testing.assert_allclose(texture.tensor().numpy()[..., 0], expected)
    nearest = llvm.Texture1f(
        TensorXf([[1, 7], [2, 8], [4, 9]]),
        filter_mode=dr.FilterMode.Nearest,
        wrap_mode=dr.WrapMode.Mirror,
    )
    wide = dr.upsample(nearest, shape=(6,))
    wanted = np.repeat([[1, 7], [2, 8], [4, 9]], 2, axis=0)
    np.testing.assert_array_equal(wide.tensor().numpy(), wanted)
    assert wide.filter_mode() is dr.FilterMode.Nearest
    assert wide.wrap_mode() is dr.WrapMode.Mirror
    assert dr.upsample(nearest, shape=(5,)).shape == (5, 2)
    with pytest.raises(SizeError, match="none of 1 dimensions"):
        dr.upsample(nearest, shape=(0,))
    with pytest.raises(ArrayValueError, match="a shape or factors"):
        dr.upsample(nearest)


def test_no_counts_of_tiles_leave_an_array_as_it_is():
    assert dr.tile(llvm.Float(1, 2), ()).numpy().tolist() == [1, 2]
    assert dr.tile(llvm.TensorXf([1, 2]), ()).numpy().tolist() == [1, 2]
