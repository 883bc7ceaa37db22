"""Construction, conversion, printing, indexing and properties of arrays."""

from __future__ import annotations

import copy
import tracemalloc

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import (
    ArrayAttributeError,
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    SizeError,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (llvm.Float(1, 2.5, -0.0), "[1, 2.5, -0]"),
        (
            llvm.Float(3e10, 1e-5, float("inf"), float("nan")),
            "[3e+10, 1e-05, inf, nan]",
        ),
        (llvm.Float(), "[]"),
        (llvm.Bool(True, False), "[True, False]"),
        (llvm.Float64(1 / 3), "[0.333333]"),
        (llvm.UInt64(2**63), "[9223372036854775808]"),
        (dr.arange(llvm.Float, 20), str(list(range(20)))),
        (dr.arange(llvm.Float, 30), "[0, 1, 2, .. 24 skipped .., 27, 28, 29]"),
        (llvm.Array3f([1, 2], [3, 4], 5), "[[1, 3, 5],\n [2, 4, 5]]"),
        (llvm.Array22f([1, 2], [3, 4]), "[[[1, 2],\n  [3, 4]]]"),
        (llvm.ArrayXf([1, 2], [3, 4]), "[[1, 3],\n [2, 4]]"),
        (llvm.Array3f([1, 2], [1, 2, 3], 1), "[ragged array]"),
        (scalar.Array3f(1, 2, 3), "[1, 2, 3]"),
        (scalar.Array22f([1, 2], [3, 4]), "[[1, 2],\n [3, 4]]"),
        (ad.Array2f(1, 2), "[[1, 2]]"),
    ],
)
def test_printing(value, text):
    assert repr(value) == text


def test_long_nested_arrays_leave_out_the_middle():
    lines = repr(llvm.Array2f(dr.arange(llvm.Float, 100), 1)).splitlines()
    assert len(lines) == 7
    assert lines[3] == " .. 94 skipped ..,"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: llvm.Float(5), [5]),
        (lambda: llvm.Float([1, 2]), [1, 2]),
        (lambda: llvm.Float((1, True)), [1, 1]),
        (lambda: llvm.Float(range(3)), [0, 1, 2]),
        (lambda: llvm.Float(x for x in range(3)), [0, 1, 2]),
        (lambda: llvm.Float(np.arange(3)), [0, 1, 2]),
        (lambda: llvm.Float(np.arange(6.0)[::2]), [0, 2, 4]),
        (lambda: llvm.Float(np.float64(2)), [2]),
        (lambda: llvm.Float(llvm.Int(1, 2)), [1, 2]),
        (lambda: llvm.Float(ad.Float(1, 2)), [1, 2]),
        (lambda: llvm.Float(scalar.ArrayXf(1, 2)), [1, 2]),
        (lambda: llvm.Float(llvm.Float(1), llvm.Float(2), 3), [1, 2, 3]),
        (lambda: llvm.Int(1.7), [1]),
        (lambda: llvm.Int(llvm.Float(1.7, -1.7)), [1, -1]),
        (lambda: llvm.UInt(llvm.Float(3e9, -1, 1e20)), [3000000000, 0, 2**32 - 1]),
        (lambda: llvm.Int(llvm.Float(float("nan"), 1e20)), [0, 2**31 - 1]),
        (lambda: llvm.UInt64([2**64 - 1, 0]), [2**64 - 1, 0]),
        (lambda: llvm.Bool(llvm.Int(0, 7)), [False, True]),
        (lambda: llvm.Bool([1, 0]), [True, False]),
        (lambda: scalar.ArrayXi([1, 2]), [1, 2]),
        (lambda: scalar.ArrayXi(scalar.ArrayXf(1.5, 2.5)), [1, 2]),
        (lambda: scalar.Array3f(llvm.Array3f(1, 2, 3)), [1, 2, 3]),
    ],
)
def test_construction(make, expected):
    assert list(make()) == expected


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: llvm.Array3f(1), [[1], [1], [1]]),
        (lambda: llvm.Array3f([1, 2, 3]), [[1], [2], [3]]),
        (lambda: llvm.Array3f([1, 2], 3, 4), [[1, 2], [3, 3], [4, 4]]),
        (lambda: llvm.Array2f(llvm.Float(1, 2)), [[1, 2], [1, 2]]),
        (lambda: llvm.Array2f(np.arange(6).reshape(2, 3)), [[0, 1, 2], [3, 4, 5]]),
        (lambda: llvm.Array2f(llvm.Array2i(1, 2)), [[1], [2]]),
        (lambda: llvm.Array2f(scalar.Array2f(1, 2)), [[1], [2]]),
        (lambda: llvm.Array22f(1, 2), [[[1], [1]], [[2], [2]]]),
        (lambda: llvm.Array22f(llvm.Array2f(1, 2)), [[[1], [2]], [[1], [2]]]),
        (lambda: llvm.ArrayXf(llvm.Float(1, 2)), [[1, 2]]),
        (lambda: scalar.Array22f(3), [[3, 3], [3, 3]]),
    ],
)
def test_nested_construction(make, expected):
    np.testing.assert_array_equal(make().numpy(), expected)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: llvm.Float("a"), ArrayTypeError, "can't be made from .*'str'"),
        (lambda: llvm.Float([1, "a"]), ArrayTypeError, "can't make a Float32 entry"),
        (lambda: llvm.Float(1 + 2j), ArrayTypeError, "'complex'"),
        (lambda: llvm.Float(None), ArrayTypeError, "'NoneType'"),
        (lambda: llvm.Float(np.zeros((2, 2))), ArrayTypeError, "2 dimensions"),
        (lambda: llvm.Float(np.array(["a"])), ArrayTypeError, "NumPy array of type"),
        (lambda: llvm.Float(llvm.Array2f(1)), ArrayTypeError, "nested array type"),
        (lambda: llvm.Float(llvm.Float(1, 2), 3), ArrayTypeError, "single entries"),
        (lambda: llvm.UInt(-1), ArrayValueError, "doesn't fit into UInt32"),
        (lambda: llvm.UInt([-1]), ArrayValueError, "doesn't fit into UInt32"),
        (lambda: llvm.Int(2**31), ArrayValueError, "doesn't fit into Int32"),
        (lambda: llvm.Int(float("nan")), ArrayValueError, "nan doesn't fit"),
        (lambda: llvm.Array3f(1, 2), ArrayTypeError, "expected 3 components, got 2"),
        (lambda: scalar.Array3f(1, 2), ArrayTypeError, "expected 3 components, got 2"),
        (lambda: llvm.Array2f(llvm.Array22f(1)), ArrayTypeError, "more dimensions"),
        (lambda: llvm.Array2f(np.zeros((2, 1, 1))), ArrayTypeError, "3 dimensions"),
        (lambda: scalar.Array2f("ab"), ArrayTypeError, "can't be made"),
        (lambda: scalar.ArrayXf(np.zeros((2, 2))), SizeError, "2 dimensions"),
        (lambda: dr.ArrayBase(), ArrayTypeError, "can't be instantiated"),
    ],
)
def test_impossible_construction(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_messages_name_the_users_line():
    with pytest.raises(ArrayTypeError, match=r"test_arrays\.py:\d+ in test_messages"):
        llvm.Float("a")


def test_lengths_and_shapes():
    assert len(llvm.Float()) == 0
    assert len(llvm.Array3f(1)) == 3
    assert llvm.Float(1, 2).shape == (2,)
    assert llvm.Array3f([1, 2], 3, 4).shape == (3, 2)
    assert scalar.Array3f(1).shape == (3,)
    assert llvm.Array22f(1).shape == (2, 2, 1)
    assert llvm.Array3f(1).ndim == 2
    with pytest.raises(SizeError, match="ragged"):
        assert llvm.Array2f([1, 2], [1, 2, 3]).shape


def test_states():
    assert llvm.Float(1).state is dr.VarState.Literal
    assert llvm.Float(1, 2).state is dr.VarState.Evaluated
    assert (llvm.Float(1, 2) + 1).state is dr.VarState.Unevaluated
    assert llvm.Float().state is dr.VarState.Invalid
    assert dr.empty(llvm.Float, 3).state is dr.VarState.Undefined
    assert llvm.Array2f(1, [1, 2]).state is dr.VarState.Mixed
    x = dr.zeros(llvm.Float, 3)
    dr.scatter(x, 1, llvm.UInt(0))
    states = [x.state]
    dr.eval(x)
    states.append(x.state)
    assert states == [dr.VarState.Dirty, dr.VarState.Evaluated]


def test_equal_expressions_have_one_index():
    x = llvm.Float(1, 2)
    assert (x + 1).index == (x + 1).index != 0
    assert llvm.Array3f(1).index == 0
    assert x.index_ad == 0


def test_components():
    v = llvm.Array4f(1, 2, 3, 4)
    assert v.w[0] == 4
    assert str(v.xy) == "[[1, 2]]"
    assert isinstance(v.zyx, llvm.Array3f)
    v.y = 7
    assert v[1][0] == 7
    assert v.array is v
    with pytest.raises(ArrayAttributeError, match="no 'z' component"):
        assert llvm.Array2f(1).z  # type: ignore[attr-defined]
    with pytest.raises(ArrayAttributeError, match="no 'x' component"):
        llvm.Float(1).x = 2  # type: ignore[attr-defined]
    assert not hasattr(v, "frobnicate")


def test_items_are_references_and_constructors_copy():
    v = llvm.Array3f(1, 2, 3)
    x = v.x
    x += 10
    assert v.x[0] == 11
    f = llvm.Float(1)
    w = llvm.Array2f(f, f)
    f += 1
    assert str(w) == "[[1, 1]]"
    copy = llvm.Array3f(v)
    copy.x = 0
    assert v.x[0] == 11


@pytest.mark.host("a device's memory is copied")
def test_printing_long_arrays_takes_no_memory():
    x = dr.zeros(llvm.UInt8, 4_000_000)
    dr.make_opaque(x)
    text = str(x)
    tracemalloc.start()
    try:
        assert str(x) == text == "[0, 0, 0, .. 3999994 skipped .., 0, 0, 0]"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cls", [llvm.Float, scalar.ArrayXf])
def test_indexing_reads(cls):
    x = cls(10, 20, 30)
    index = llvm.UInt(2, 0) if cls is llvm.Float else scalar.ArrayXu(2, 0)
    assert x[0] == 10
    assert x[-1] == 30
    assert list(x[1:]) == [20, 30]
    assert list(x[::-1]) == [30, 20, 10]
    assert list(x[3:]) == []
    assert list(x[index]) == [30, 10]
    with pytest.raises(ArrayIndexError, match="entry 3 is out of bounds"):
        x[3]
    for key in (0.5, [0], "a", None):
        with pytest.raises(ArrayTypeError, match="invalid key"):
            x[key]


@pytest.mark.parametrize("cls", [llvm.Float, scalar.ArrayXf])
def test_indexing_writes(cls):
    mask = llvm.Bool if cls is llvm.Float else scalar.ArrayXb
    index = llvm.UInt if cls is llvm.Float else scalar.ArrayXu
    x = cls(1, 2, 3)
    y = cls(x)
    x[1] = 7
    assert list(x) == [1, 7, 3]
    x[0:2] = cls(8, 9)
    assert list(x) == [8, 9, 3]
    x[index(2, 0)] = cls(5, 6)
    assert list(x) == [6, 9, 5]
    x[x > 5] = 0
    assert list(x) == [0, 0, 5]
    x[mask(True, False, True)] = cls(1, 2, 3)
    assert list(x) == [1, 0, 3]
    assert list(y) == [1, 2, 3]
    with pytest.raises(ArrayIndexError, match="entry 5"):
        x[5] = 1
    with pytest.raises(SizeError, match="can't write 2 values to 3 entries"):
        x[0:3] = cls(1, 2)
    with pytest.raises(ArrayTypeError, match="invalid key"):
        x["a"] = 1


def test_masked_assignment_keeps_the_type():
    i = llvm.Int(1, 2)
    with pytest.raises(ArrayTypeError, match="can't write a value of type"):
        i[i > 1] = 2.5
    with pytest.raises(ArrayTypeError, match="can't write a value of type"):
        i[i > 1] = llvm.Array2i(1)
    v = llvm.Array3f([1, 2], 3, 4)
    v[llvm.Bool(True, False)] = 0
    assert str(v) == "[[0, 0, 0],\n [2, 3, 4]]"
    v[v > 2] = 9
    assert str(v) == "[[0, 0, 0],\n [2, 9, 9]]"


@pytest.mark.parametrize("cls", [llvm.Float, scalar.ArrayXf, scalar.Array3f])
def test_assignment_in_place_under_a_mask(cls):
    x = cls(1, 2, 3)
    y = x
    z = cls(x)
    x[x > 1] += 5
    assert list(x) == [1, 7, 8]
    x[x > 7] -= x / 2
    x[x == 1] *= 10
    x[True] /= 2
    x[False] -= 100
    assert list(x) == [5, 3.5, 2]
    x[x < 4] **= 2
    assert list(x) == [5, 12.25, 4]
    assert y is x
    assert list(z) == [1, 2, 3]


@pytest.mark.parametrize("space", [llvm, scalar])
def test_assignment_in_place_under_masks_of_other_types(space):
    m = space.Array3b(True, True, False)
    flags = m
    flags[space.Array3b(True, False, False)] ^= True
    assert str(flags[0]) + str(flags[1]) in ("[False][True]", "FalseTrue")
    i = space.Array3i(4, 5, 6)
    i[i > 4] //= 2
    i[i == 4] <<= 3
    i[i == 3] |= 8
    i[i == 11] %= 4
    assert [int(v if space is scalar else v[0]) for v in i] == [32, 2, 3]
    with pytest.raises(ArrayTypeError, match="can't write a value of type"):
        i[i > 4] += 0.5
    assert int(i[0] if space is scalar else i[0][0]) == 32


def test_assignment_in_place_under_a_mask_in_nested_arrays():
    v = llvm.Array2f([1, 2], [3, 4])
    v[v > 1] += 5
    assert str(v) == "[[1, 8],\n [7, 9]]"
    v[llvm.Bool(True, False)] *= 2
    assert str(v) == "[[2, 16],\n [7, 9]]"
    v[0][v[0] > 2] -= 1
    v[1, v[1] > 9] -= 1
    assert str(v) == "[[2, 15],\n [6, 9]]"
    assert "under a mask, to be assigned" in repr(v[v > 1])
    with pytest.raises(ArrayTypeError, match="MaskedEntries"):
        dr.sum(v[v > 1])
    with pytest.raises(ArrayTypeError, match="invalid key"):
        v[v > 1, 0]


def test_writing_to_slices_of_nested_arrays():
    v = llvm.Array3f([1, 2], [3, 4], [5, 6])
    v[1:, 1] = 9
    assert str(v) == "[[1, 3, 5],\n [2, 9, 9]]"
    assert v[1:, 1].numpy().ravel().tolist() == [9, 9]
    v[1:] = llvm.Array2f([3, 4], 9)
    assert str(v) == "[[1, 3, 9],\n [2, 4, 9]]"
    v[0:2] = llvm.Array2f(7, [8, 4])
    assert str(v) == "[[7, 8, 9],\n [7, 4, 9]]"
    v[0:2] += 1
    v[1:2, 1] = 0
    assert str(v) == "[[8, 9, 9],\n [8, 0, 9]]"
    v[:2] = llvm.Float(1, 2)
    assert str(v) == "[[1, 1, 9],\n [2, 2, 9]]"
    v[:] = llvm.Array3i(1, 2, 3)
    assert str(v) == "[[1, 2, 3]]"
    with pytest.raises(SizeError, match="can't write 3 values to 2"):
        v[0:2] = llvm.Array3f(1)
    m = scalar.Array22f([1, 2], [3, 4])
    m[:, 1] = 9
    assert str(m) == "[[1, 9],\n [3, 9]]"


@pytest.mark.parametrize("cls", [llvm.Array2f, scalar.Array2f, llvm.Float])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_are_independent(cls, duplicate):
    x = cls(1, 2)
    y = duplicate(x)
    y[0] += 1
    assert str(x) == str(cls(1, 2))
    assert str(y) == str(cls(2, 2))


def test_nested_indexing():
    m = llvm.Array22f([1, 2], [3, 4])
    assert m[1, 0][0] == 3
    assert m[1, 0, 0] == 3
    m[0, 1] = 5
    assert m[0][1][0] == 5
    v = llvm.Array3f(1, 2, 3)
    assert isinstance(v[1:], llvm.Array2f)
    v[0:2] = [7, 8]
    assert str(v) == "[[7, 8, 3]]"
    with pytest.raises(SizeError, match="can't write 3 values to 2"):
        v[0:2] = [1, 2, 3]
    with pytest.raises(ArrayIndexError, match="entry 3"):
        v[3]
    with pytest.raises(ArrayTypeError, match="invalid key"):
        v[llvm.UInt(0, 1)]


def test_bool_conversion():
    assert bool(llvm.Bool(True))
    assert not llvm.Bool(False)
    assert dr.all(llvm.Float(1, 2) > 0)
    for value in (llvm.Bool(True, False), llvm.Float(1), llvm.Array3b(True)):
        with pytest.raises(ArrayTypeError, match=r"flat masks .* def inside of an"):
            bool(value)
    with pytest.raises(ArrayTypeError, match=r"Fix: .*'x in \(a, b\)'"):
        assert llvm.Int(1, 2) in (1, 5)


def test_numpy_round_trip():
    data = np.linspace(0, 1, 17, dtype=np.float32)
    np.testing.assert_array_equal(np.array(llvm.Float(data)), data)
    assert np.array(llvm.Float(1, 2), dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(llvm.Array2f([1, 2], 3).numpy(), [[1, 2], [3, 3]])
    assert llvm.Float(3).item() == 3
    with pytest.raises(SizeError, match="2 entries, not one"):
        llvm.Float(1, 2).item()


def test_scatter_leaves_a_numpy_source_alone():
    data = np.zeros(1000, np.float32)
    x = llvm.Float(data)
    dr.scatter(x, 1, llvm.UInt(0))
    dr.eval(x)
    assert data[0] == 0
    assert x[0] == 1


def test_iteration_and_membership():
    assert list(llvm.Float(1, 2)) == [1, 2]
    assert 2 in llvm.Float(1, 2)
    assert float(sum(llvm.Array3f(1, 2, 3))) == 6
    assert len({llvm.Float(1), llvm.Float(1)}) == 2
    assert (llvm.Float(1) == None) is False  # noqa: E711
