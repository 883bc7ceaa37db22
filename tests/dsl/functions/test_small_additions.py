"""Functions beyond the reference: extremes, products, likeness, colors, tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError

NUMBERS = [1.0, -2.5, 0.0, -0.0, dr.inf, -dr.inf, dr.nan, 3.0]
FLOATS = [
    llvm.Float16,
    llvm.Float,
    llvm.Float64,
    ad.Float64,
    scalar.ArrayXf,
    scalar.ArrayXf64,
]


@pytest.mark.parametrize("cls", FLOATS)
@pytest.mark.parametrize("name", ["fmin", "fmax"])
def test_extremes_leave_nan_out(cls, name):
    a = np.repeat(NUMBERS, len(NUMBERS))
    b = np.tile(NUMBERS, len(NUMBERS))
    result = getattr(dr, name)(cls(a), cls(b))
    assert type(result) is cls
    np.testing.assert_array_equal(result.numpy(), getattr(np, name)(a, b))


def test_extremes_of_numbers_and_nested_arrays():
    assert dr.fmin(1, 2) == 1
    assert type(dr.fmin(1, 2)) is int
    assert (dr.fmin(dr.nan, 1), dr.fmax(1.0, dr.nan)) == (1.0, 1.0)
    assert np.isnan(dr.fmax(dr.nan, dr.nan))
    found = dr.fmax(llvm.Array2f(dr.nan, [1, dr.nan]), 0.5)
    assert found.numpy().tolist() == [[0.5, 0.5], [1, 0.5]]
    assert list(dr.fmin(llvm.Int(3, -3), 0)) == [0, -3]
    with pytest.raises(ArrayTypeError, match=r"lumijit.fmin: unsupported argument"):
        dr.fmin("x", 1)  # type: ignore[call-overload]


def test_extremes_pass_derivatives_to_what_they_take():
    a, b = ad.Float64(1, dr.nan, 3), ad.Float64(dr.nan, 2, 2.5)
    dr.enable_grad(a, b)
    dr.backward(dr.sum(dr.fmin(a, b)))
    assert list(dr.grad(a)) == [1, 0, 0]
    assert list(dr.grad(b)) == [0, 1, 1]


def test_clamp_is_clip():
    assert list(dr.clamp(llvm.Float(1, 5, 9), 2, 8)) == [2, 5, 8]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["Int", "UInt"])
@pytest.mark.parametrize("space", [llvm, ad, scalar])
def test_products_of_integers(bits, sign, space):
    suffix = {"Int": "i", "UInt": "u"}[sign] + ("" if bits == 32 else str(bits))
    names = {llvm: f"{sign}{bits}", ad: f"{sign}{bits}", scalar: f"ArrayX{suffix}"}
    cls = getattr(space, names[space])
    info = np.iinfo(f"{sign.lower()}{bits}")
    rng = np.random.default_rng(bits)
    edges = [info.min, info.max, 0, 1, info.max // 2]
    drawn = rng.integers(info.min, info.max, 64, dtype=info.dtype, endpoint=True)
    x = np.array([*edges, *drawn], dtype=info.dtype)
    y = np.roll(x, 3)
    exact = [int(a) * int(b) for a, b in zip(x, y, strict=True)]
    high = dr.mul_hi(cls(x), cls(y))
    assert type(high) is cls
    assert [int(v) for v in high] == [v >> bits for v in exact]
    if bits == 64:
        with pytest.raises(ArrayTypeError, match="no integer type twice as wide"):
            dr.mul_wide(cls(x), cls(y))
        return
    wide = dr.mul_wide(cls(x), cls(y))
    assert dr.type_v(wide).name == f"{sign}{2 * bits}"
    assert [int(v) for v in wide] == exact


words = st.integers(-(1 << 31), (1 << 32) - 1)


@given(words, words)
def test_products_of_python_numbers(a, b):
    assert dr.mul_wide(a, b) == a * b
    assert dr.mul_hi(a, b) == a * b >> 32


def test_products_in_a_symbolic_loop():
    def body(x, i):
        return dr.mul_hi(x, 0x9E3779B9) + i, i + 1

    x, _ = dr.while_loop(
        (llvm.UInt(1 << 31, 7), llvm.UInt(0)), lambda x, i: i < 3, body
    )
    expected = []
    for start in (1 << 31, 7):
        for i in range(3):
            start = (start * 0x9E3779B9 >> 32) + i
        expected.append(start)
    assert list(x) == expected


def test_products_refuse_other_types():
    for function in (dr.mul_hi, dr.mul_wide):
        with pytest.raises(ArrayTypeError, match="entries of type Float32"):
            function(llvm.Float(1), 2)
        with pytest.raises(ArrayTypeError, match="unsupported argument of type"):
            function(1.5, 2)
        with pytest.raises(ArrayTypeError, match="needs more than 32 bits"):
            function(1 << 40, 2)


@pytest.mark.parametrize(
    "value",
    [
        llvm.Float(1, 2, 3),
        llvm.Bool(True, False),
        llvm.Array3f(1, 2, [3, 4]),
        ad.Array22f64(1),
        llvm.ArrayXi([1, 2], [3, 4]),
        llvm.TensorXf([[1, 2], [3, 4], [5, 6]]),
        llvm.Complex2f(1, 2),
        scalar.Array3f(1, 2, 3),
        scalar.ArrayXu(1, 2),
        llvm.Float(),
        3,
        2.5,
    ],
)
def test_arrays_like_others(value):
    for function, entry in (
        (dr.zeros_like, 0),
        (dr.ones_like, 1),
        (dr.empty_like, None),
    ):
        made = function(value)
        assert type(made) is type(value)
        assert dr.shape(made) == dr.shape(value)
        if entry is not None and not dr.is_complex_v(value):
            assert np.all(np.asarray(made) == entry)


def test_arrays_like_others_in_pytrees():
    tree: dict[str, Any] = {"a": [llvm.Float(1, 2), 3.0], "b": (llvm.Array2i(1, 2),)}
    zeros = dr.zeros_like(tree)
    assert zeros["a"][1] == 0.0
    assert list(zeros["a"][0]) == [0, 0]
    assert zeros["b"][0].numpy().tolist() == [[0], [0]]
    with pytest.raises(ArrayTypeError, match="zeros_like: unsupported argument"):
        dr.zeros_like("text")


def test_opaque_widths():
    width = dr.opaque_width([llvm.Float(1, 2, 3), 5])
    assert type(width) is llvm.UInt
    assert width.state is dr.VarState.Evaluated
    assert list(width) == [3]
    assert type(dr.opaque_width(ad.Array3f(1))) is ad.UInt
    with pytest.raises(ArrayTypeError, match="opaque_width: unsupported argument"):
        dr.opaque_width(3)


def encoded(x):
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.abs(x) ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("cls", [llvm.Array3f, ad.Array3f64, scalar.Array3f])
def test_oklab(cls):
    """Values of the source's table, and back."""
    for x, y, z, lab in [
        (0.95, 1.0, 1.089, (1, 0, 0)),
        (1, 0, 0, (0.45, 1.236, -0.019)),
        (0, 0, 1, (0.153, -1.415, -0.449)),
    ]:
        xyz = np.array([x, y, z])
        # From CIE XYZ (D65) to linear sRGB.
        matrix = np.array(
            [
                [3.2404542, -1.5371385, -0.4985314],
                [-0.9692660, 1.8760108, 0.0415560],
                [0.0556434, -0.2040259, 1.0572252],
            ]
        )
        color = cls(*(matrix @ xyz))
        found = dr.linear_srgb_to_oklab(color)
        assert type(found) is cls
        assert dr.allclose(found, list(lab), atol=2e-3)
        assert dr.allclose(dr.oklab_to_linear_srgb(found), color, atol=1e-4)
    assert dr.allclose(dr.linear_srgb_to_oklab(cls(1)), [1, 0, 0], atol=1e-5)


@pytest.mark.parametrize("cls", [llvm.Float64, ad.Float64, scalar.ArrayXf64])
def test_srgb(cls):
    x = np.linspace(-0.5, 1.5, 301)
    clipped = np.clip(x, 0, 1)
    found = dr.linear_to_srgb(cls(x))
    assert type(found) is cls
    np.testing.assert_allclose(found.numpy(), encoded(clipped), atol=1e-14)
    back = dr.srgb_to_linear(found)
    np.testing.assert_allclose(back.numpy(), clipped, atol=1e-7)
    odd = dr.linear_to_srgb(cls(x), clip=False)
    np.testing.assert_allclose(odd.numpy(), np.sign(x) * encoded(np.abs(x)), rtol=1e-13)
    back = dr.srgb_to_linear(odd, clip=False)
    np.testing.assert_allclose(back.numpy(), x, atol=1e-7)


def test_srgb_of_numbers_and_vectors():
    assert abs(dr.linear_to_srgb(0.5) - 0.7353569830524495) < 1e-15
    assert abs(dr.srgb_to_linear(0.5) - 0.21404114048223255) < 1e-15
    color = dr.srgb_to_linear(llvm.Array3f(0, 0.5, 1))
    np.testing.assert_allclose(color.numpy()[:, 0], [0, 0.21404114, 1], 1e-6)


@pytest.mark.parametrize("function", [dr.linear_to_srgb, dr.srgb_to_linear])
@pytest.mark.parametrize("clip", [True, False])
def test_derivatives_of_srgb(function, clip):
    x = ad.Float64(0.001, 0.02, 0.3, 0.9)
    assert dr.gradcheck(lambda v: function(v, clip), x)
    zero = ad.Float64(0.0)
    dr.enable_grad(zero)
    dr.backward(function(zero, clip=False))
    assert np.isfinite(dr.grad(zero)[0])
    assert dr.grad(zero)[0] > 0


def test_assert_allclose_says_by_how_much():
    dr.assert_allclose(llvm.Float(1, 2), [1, 2.0001])
    dr.assert_allclose(llvm.Float(dr.nan), dr.nan, equal_nan=True)
    dr.assert_allclose(llvm.Float(), llvm.Float())
    with pytest.raises(AssertionError) as error:
        dr.assert_allclose(llvm.Float(1, 2, 3), llvm.Float(1, 3, 5), err_msg="shading")
    text = str(error.value)
    assert text.startswith("shading\nArrays differ by more than rtol=0.001, atol=1e-05")
    assert "Mismatched elements: 2 of 3" in text
    assert "Largest absolute difference: 2\n" in text
    assert "Largest relative difference: 0.4\n" in text
    assert "First at [1]: " in text
    with pytest.raises(AssertionError, match="absolute difference: nan"):
        dr.assert_allclose(llvm.Float(dr.nan), 1)
    with pytest.raises(SizeError, match="assert_allclose: the shapes"):
        dr.assert_allclose(llvm.Float(1, 2), llvm.Float(1, 2, 3))


def test_functions_stay_what_they_are():
    @dr.func
    def scaled(x):
        return x * 3

    @dr.func(backend=dr.JitBackend.LLVM)
    def shifted(x):
        return x + 1

    assert list(shifted(scaled(llvm.Float(1, 2)))) == [4, 7]
    with pytest.raises(ArrayTypeError, match=r"lumijit.func: 3 is no function"):
        dr.func(3)  # type: ignore[call-overload]
    with pytest.raises(ArrayTypeError, match="pass a member of JitBackend"):
        dr.func(backend="llvm")  # type: ignore[call-overload]


def test_threads_keep_their_order():
    value = [llvm.Float(1, 2)]
    assert dr.reorder_threads(llvm.UInt(1, 0), 1, value) is value
    with pytest.raises(ArrayTypeError, match="expected a flat UInt32 array"):
        dr.reorder_threads(llvm.Int(1), 1, value)
    with pytest.raises(ArrayValueError, match="num_bits is 17"):
        dr.reorder_threads(llvm.UInt(1), 17, value)
    assert dr.flush_thread() is None  # type: ignore[func-returns-value]
    with dr.profile_enable():
        pass
