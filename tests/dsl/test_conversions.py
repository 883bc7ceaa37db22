"""Python's own conversions and copies of arrays."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array3f, Bool, Complex2f, Float, Float64, UInt32
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError


def test_one_entry_converts_to_numbers() -> None:
    assert float(Float(2.5)) == 2.5
    assert int(UInt32(7)) == 7
    assert int(Float(2.9) + 1) == 3
    assert float(dr.sum(Float(1, 2, 3))) == 6.0


@pytest.mark.parametrize("size", [0, 2])
def test_other_sizes_do_not(size: int) -> None:
    with pytest.raises(ArrayTypeError, match=rf"only arrays of one entry.*{size} ent"):
        float(dr.zeros(Float, size))
    with pytest.raises(ArrayTypeError, match="only arrays of one entry"):
        int(dr.zeros(UInt32, size))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_copies_are_independent(how: object) -> None:
    x = Float(1, 2, 3) * 2
    y = how(x)  # type: ignore[operator]
    dr.scatter(y, 10, UInt32(1))
    assert type(y) is Float
    assert x.numpy().tolist() == [2, 4, 6]
    assert y.numpy().tolist() == [2, 10, 6]


def test_deep_copies_of_nested_arrays_are_independent() -> None:
    x = Array3f([1, 2], [3, 4], [5, 6])
    y = copy.deepcopy(x)
    y.x += 1
    assert x.x.numpy().tolist() == [1, 2]
    assert y.x.numpy().tolist() == [2, 3]


@pytest.mark.parametrize(
    "value", [Float(1, 2, 3), UInt32(), Bool(True, False), Array3f([1, 2], 3, 4)]
)
def test_pickling(value: object) -> None:
    found = pickle.loads(pickle.dumps(value))
    assert type(found) is type(value)
    np.testing.assert_array_equal(np.array(found), np.array(value))


def test_masked_entries_of_numpy_are_refused() -> None:
    array = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(ArrayTypeError, match=r"are masked.*filled\(0\)"):
        Float(array)
    with pytest.raises(ArrayTypeError, match=r"Complex2f: .*are masked"):
        Complex2f(array)
    with pytest.raises(ArrayTypeError, match=r"operator \+: .*are masked"):
        Complex2f(1, 2) + (array + 1j)
    assert list(Float(array.filled(0))) == [1, 0, 3]
    assert list(Float(np.ma.array([1.0, 2.0]))) == [1, 2]


def test_masked_arrays_of_numpy_take_ours_as_operands() -> None:
    array = np.ma.array([1.0, 2.0], mask=[False, True])
    found = array + Float(3, 4)
    assert isinstance(found, np.ma.MaskedArray)
    assert found.tolist() == [4, None]


def test_integers_beyond_all_floats_become_infinite() -> None:
    assert Float(10**400)[0] == np.inf
    assert Float([1, -(10**400)])[1] == -np.inf
    assert Float64(10**400)[0] == np.inf


@pytest.mark.host("views of a device's memory are copies")
def test_what_is_written_to_a_view_shows() -> None:
    tracked = llvm.ad.Float(1, 2)
    dr.enable_grad(tracked)  # of no concern to what follows
    x = dr.arange(Float, 5) * 2
    x.numpy()[1] = 7
    assert list(x + 1) == [1, 8, 5, 7, 9]
    y = dr.empty(Float, 3)
    y.numpy()[:] = 5
    assert list(y) == [5, 5, 5]
    constant = dr.zeros(Float, 5)
    other = constant + 0
    repr(constant), np.sin(constant), Array3f(constant, 1, 2).numpy()
    assert constant.state == dr.VarState.Literal
    constant.numpy()[0] = 7
    assert list(constant + 1) == [8, 1, 1, 1, 1]
    assert list(other) == [0] * 5
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(other)[0] = 7
    assert list(other) == [0] * 5


@pytest.mark.parametrize("cls", [llvm.Int, llvm.UInt64, scalar.ArrayXi])
def test_fractions_in_sequences_are_refused(cls: Any) -> None:
    for values in ([1, 2.5], (1.5, 2), [np.float32(0.5), 1]):
        with pytest.raises(ArrayValueError, match=r"is no whole number .*round it"):
            cls(values)
    assert list(llvm.Int([1.0, 2])) == [1, 2]
    with pytest.raises(ArrayValueError, match=r"1\.5 is no whole number"):
        llvm.Int(1, 1.5)
    with pytest.raises(ArrayValueError, match="no whole number"):
        dr.full(llvm.Int, 1.5, 3)


def test_explicit_conversions_cut() -> None:
    assert list(llvm.Int(1.5)) == [1]
    assert list(llvm.Int(llvm.Float(1.5, -2.5))) == [1, -2]
    assert list(llvm.Int(np.array([1.5, -2.5]))) == [1, -2]
    assert list(scalar.ArrayXi(scalar.ArrayXf(1.5, 2.5))) == [1, 2]


@pytest.mark.parametrize("opaque", [True, False])
def test_nan_times_zero_is_nan(opaque: bool) -> None:
    """FastMath is off unless it is asked for."""
    assert not dr.flag(dr.JitFlag.FastMath)
    x = llvm.Float(math.nan, math.inf, -0.0, 2)
    zero = llvm.Float(0)
    if opaque:
        dr.make_opaque(zero)
    assert np.isnan((x * zero).numpy()).tolist() == [True, True, False, False]
    assert np.isnan(dr.fma(x, zero, 1).numpy()).tolist() == [True, True, False, False]
    assert not np.signbit((x + zero).numpy()[2])


UNCOPIED: list[tuple[Any, Any]] = [
    (Float(1, 2) + 1, float),
    (Array3f(1, 2, 3), None),
    (llvm.Complex2f(1, 2), None),
    (scalar.Array3f(1, 2, 3), "f8"),
    (llvm.TensorXf([1, 2]), int),
]


@pytest.mark.skipif(
    int(np.__version__[0]) < 2, reason="there, 'copy' isn't handed over"
)
@pytest.mark.parametrize(("value", "dtype"), UNCOPIED, ids=repr)
def test_what_numpy_needs_a_copy_of(value: Any, dtype: Any) -> None:
    with pytest.raises(ValueError, match=r"without a copy|avoid copy"):
        np.array(value, dtype, copy=False)
    assert np.array(value, dtype, copy=None).size == np.array(value).size


@pytest.mark.host("a device's memory is copied")
@pytest.mark.parametrize("make", [Float, llvm.TensorXf, scalar.ArrayXf])
def test_what_numpy_needs_no_copy_of(make: Any) -> None:
    value = make([1, 2])
    options: dict[str, Any] = {"copy": False} if int(np.__version__[0]) > 1 else {}
    np.asarray(value, **options)[0] = 3
    assert np.array(value).tolist() == [3, 2]
