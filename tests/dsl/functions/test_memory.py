"""Gather, scatter and atomic updates against NumPy, in both namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array2f, Array3f, Bool, Float, Int, UInt
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    SymbolicError,
)


@given(
    size=st.integers(1, 50),
    indices=st.lists(st.integers(0, 10**6), min_size=1, max_size=70),
)
@settings(max_examples=20, deadline=None)
def test_gather_matches_numpy(size, indices):
    source = np.arange(size) * 2.0
    where = np.array(indices) % size
    mask = where % 3 != 0
    for cls, index, flags in (
        (Float, UInt, Bool),
        (scalar.ArrayXf, scalar.ArrayXu, scalar.ArrayXb),
    ):
        read = dr.gather(cls, cls(source), index(where), flags(mask))
        np.testing.assert_array_equal(read.numpy(), np.where(mask, source[where], 0))


@pytest.mark.parametrize("name", ["Int8", "UInt8", "Float16", "Bool", "Float64"])
def test_gathers_of_all_sizes(name):
    """Up to the last entry, of which nothing lies behind."""
    cls = getattr(llvm, name)
    rng = np.random.default_rng(7)
    for size in (1, 3, 64, 1001):
        data = rng.integers(0, 2 if cls is Bool else 100, size)
        where, mask = rng.integers(0, size, 333), rng.random(333) < 0.7
        where[:5] = size - 1
        read = dr.gather(
            cls, cls(data.astype(cls().numpy().dtype)), UInt(where), Bool(mask)
        )
        np.testing.assert_array_equal(read.numpy(), np.where(mask, data[where], 0))


def test_gather_of_nested_types():
    flat = dr.arange(Float, 12)
    assert str(dr.gather(Array3f, flat, UInt(0, 3))) == "[[0, 1, 2],\n [9, 10, 11]]"
    grid = dr.gather(llvm.Array22f, flat, UInt(1))
    np.testing.assert_array_equal(grid.numpy()[..., 0], [[4, 5], [6, 7]])
    own = dr.gather(Array2f, Array2f([1, 2], [3, 4]), UInt(1, 1, 0))
    assert str(own) == "[[2, 4],\n [2, 4],\n [1, 3]]"
    assert dr.gather(scalar.Array2f, scalar.ArrayXf(1, 2, 3, 4), 1)[1] == 4
    assert dr.gather(float, scalar.ArrayXf(1, 2), 1) == 2
    assert dr.gather(float, scalar.ArrayXf(1, 2), 7, False) == 0


@dataclass
class Pair:
    a: Float
    b: Array2f


def test_gather_and_scatter_of_trees():
    source = Pair(Float(1, 2), Array2f([3, 4], [5, 6]))
    read = dr.gather(Pair, source, UInt(1))
    assert isinstance(read, Pair)
    assert (str(read.a), str(read.b)) == ("[2]", "[[4, 6]]")
    target = dr.zeros(Pair, 3)
    dr.scatter(target, read, UInt(2))
    assert str(target.b) == "[[0, 0],\n [0, 0],\n [4, 6]]"
    assert str(dr.gather(list, [Float(1, 2), 7], UInt(1))) == "[[2], 7]"


@pytest.mark.parametrize(
    ("dtype", "source", "index", "match"),
    [
        (Float, UInt(1), UInt(0), "can't read Float from a source of type 'UInt'"),
        (Float, Array2f(1), UInt(0), "can't read Float"),
        (llvm.ArrayXf, Float(1), UInt(0), "can't read ArrayXf"),
        (Float, Float(1), llvm.Array2u(0), "nested array type Array2u"),
        (int, [1, 2], 1, "can't read int"),
        (Float, 1.0, 1, "can't read Float"),
        (int, scalar.ArrayXf(1), 0, "can't read int"),
        (scalar.ArrayXi, scalar.ArrayXf(1), 0, "can't read ArrayXi"),
    ],
)
def test_impossible_gathers(dtype, source, index, match):
    with pytest.raises(ArrayTypeError, match=match):
        dr.gather(dtype, source, index)


@pytest.mark.parametrize("op", list(dr.ReduceOp)[1:])
@pytest.mark.parametrize("mode", list(dr.ReduceMode)[:3] + [dr.ReduceMode.Expand])
@pytest.mark.parametrize("cls", [llvm.UInt, llvm.Int64, llvm.Float, llvm.Float64])
def test_scatter_reduce_matches_numpy(op, mode, cls):
    updates = {
        dr.ReduceOp.Add: np.add,
        dr.ReduceOp.Mul: np.multiply,
        dr.ReduceOp.Min: np.minimum,
        dr.ReduceOp.Max: np.maximum,
        dr.ReduceOp.And: np.bitwise_and,
        dr.ReduceOp.Or: np.bitwise_or,
    }
    bitwise = op in (dr.ReduceOp.And, dr.ReduceOp.Or)
    if bitwise and dr.is_float_v(cls):
        with pytest.raises(ArrayTypeError, match="isn't defined for"):
            dr.scatter_reduce(op, cls(1), cls(1), UInt(0))
        return
    rng = np.random.default_rng(3)
    dtype = cls(1).numpy().dtype
    initial = rng.integers(1, 4, 7).astype(dtype)
    value = rng.integers(1, 3, 61).astype(dtype)
    index = rng.integers(0, 7, 61)
    expected = initial.copy()
    updates[op].at(expected, index, value)
    target = cls(initial)
    dr.scatter_reduce(op, target, cls(value), UInt(index), mode=mode)
    np.testing.assert_array_equal(target.numpy(), expected)


@pytest.mark.parametrize("mode", [dr.ReduceMode.NoConflicts, dr.ReduceMode.Permute])
def test_promised_disjoint_updates(mode):
    target = dr.ones(Float, 40)
    dr.scatter_add(target, dr.arange(Float, 40), dr.arange(UInt, 40), mode=mode)
    np.testing.assert_array_equal(target.numpy(), np.arange(40) + 1)


def test_scatter_semantics():
    target = dr.zeros(Float, 6)
    before = Float(target)
    dr.scatter(target, Array2f([1, 2], [3, 4]), UInt(2, 0))
    assert list(target) == [2, 4, 0, 0, 1, 3]
    assert list(before) == [0] * 6
    dr.scatter(target, 9, UInt(3), False)
    dr.scatter(target, 9, UInt(3, 4), Bool(True, False))
    assert list(target) == [2, 4, 0, 9, 1, 3]
    nested = dr.zeros(Array2f, 3)
    dr.scatter(nested, Array2f(1, 2), UInt(1))
    dr.scatter_add(nested, 1, UInt(1))
    assert str(nested) == "[[0, 0],\n [2, 3],\n [0, 0]]"
    dr.scatter(target, 5, [0])
    assert target[0] == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: dr.zeros(Float, 3),
        lambda: Float(1, 2, 3),
        lambda: Float(1, 2, 3) + 1,
        lambda: Float(dr.opaque(Float, 1, 3)),
        lambda: written(Float(5, 6, 7)),
    ],
)
def test_writes_show_in_one_array_only(make):
    a = make()
    b, c = Float(a), make()
    original = list(make())
    dr.scatter(a, 10, UInt(0))
    dr.scatter(b, 20, UInt(1))
    dr.eval(a, b, c)
    assert list(a) == [10, *original[1:]]
    assert list(b) == [original[0], 20, original[2]]
    assert list(c) == original


def written(array):
    dr.scatter(array, 8, UInt(2))
    return array


def test_reads_see_the_version_at_their_time():
    x = dr.zeros(Float, 2)
    dr.scatter(x, 1, UInt(0))
    y, copy = dr.gather(Float, x, UInt(0, 1)), Float(x)
    dr.scatter(x, 2, UInt(0))
    dr.eval(x, y, copy)
    assert (list(x), list(y), list(copy)) == ([2, 0], [1, 0], [1, 0])


def test_host_scatter():
    target = scalar.ArrayXf(0, 0, 0, 0)
    dr.scatter(target, scalar.ArrayXf(1, 2), scalar.ArrayXu(3, 1))
    dr.scatter_add(target, 1, scalar.ArrayXu(1, 1))
    dr.scatter(target, scalar.Array2f(7, 8), 0)
    assert list(target) == [7, 8, 0, 1]
    dr.scatter_reduce(dr.ReduceOp.Max, target, 5, 2, True)
    assert list(target) == [7, 8, 5, 1]
    with pytest.raises(ArrayIndexError, match="position 9 is out of bounds"):
        dr.scatter(target, 1, 9)
    with pytest.raises(ArrayIndexError, match="position -5 is out of bounds"):
        dr.gather(float, target, -5)
    found = dr.gather(scalar.ArrayXf, target, scalar.ArrayXi(-1, -4, -5, 4))
    assert list(found) == [1, 7, 0, 0]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: dr.scatter(Int(1), 2.5, UInt(0)),
            "can't write a value of type 'float'",
        ),
        (lambda: dr.scatter(UInt(1), Float(2), UInt(0)), "can't write a value"),
        (lambda: dr.scatter([Float(1)], (Float(1),), UInt(0)), "structures differ"),
        (lambda: dr.scatter(0.5, 1.5, UInt(0)), "the target has type 'float'"),
        (lambda: dr.scatter(0.5, Float(0.5), UInt(0)), "the target has type 'float'"),
        (lambda: dr.scatter_add((Float(1), 2), (1, 3), UInt(0)), "type 'int'"),
        (lambda: dr.scatter({"a": Float(1)}, {"b": 1}, UInt(0)), "keys"),
        (lambda: dr.scatter(Float(1), 1, UInt(0), mode="auto"), "mode is 'auto'"),  # type: ignore[arg-type]
        (lambda: dr.scatter_reduce("add", Float(1), 1, UInt(0)), "op is 'add'"),  # type: ignore[arg-type]
        (lambda: dr.scatter_inc(Float(1), UInt(0)), "expected a flat UInt32 array"),
        (
            lambda: dr.scatter_reduce(dr.ReduceOp.Add, Bool(True), True, UInt(0)),
            "Add isn't defined for Bool",
        ),
    ],
)
def test_impossible_scatters(call, match):
    with pytest.raises(ArrayTypeError, match=match):
        call()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("cls", [Float, llvm.Float16, llvm.Float64])
def test_floats_of_numpy_are_rounded(cls: type[Any], dtype: str) -> None:
    x, data = cls(1, 2), np.array([3.5, 4], dtype)
    dr.scatter(x, data, np.array([1, 0]))
    assert list(x) == [4, 3.5]
    x[:] = data
    assert list(x) == [3.5, 4]
    with pytest.raises(ArrayTypeError, match="can't write a value of type 'ndarray'"):
        dr.scatter(UInt(1, 2), data, UInt(0, 1))


def test_scatter_inc_hands_out_places():
    counter = UInt(0)
    mask = dr.arange(UInt, 100) % 3 == 0
    place = dr.scatter_inc(counter, 0, mask)
    data = dr.full(UInt, 999, 34)
    dr.scatter(data, dr.arange(UInt, 100), place, mask)
    dr.eval(data, counter)
    assert counter[0] == 34
    assert sorted(data) == list(range(0, 100, 3))
    host = scalar.ArrayXu(5)
    assert list(dr.scatter_inc(host, scalar.ArrayXu(0, 0))) == [5, 6]
    assert list(host) == [7]


def test_symbolic_sources_are_refused():
    def body(i):
        dr.gather(Float, Float(i), UInt(0))
        return (i + 1,)

    with pytest.raises(SymbolicError, match=r"gather.*symbolic"):
        dr.while_loop((dr.opaque(UInt, 0, 2),), lambda i: i < 3, body)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[0],
        lambda x: x.numpy(),
        lambda x: list(x),
        lambda x: bool(x < 3),
        lambda x: dr.eval(x),
        lambda x: dr.schedule(x),
        lambda x: dr.make_opaque(x),
        lambda x: dr.compress(x > 0),
        lambda x: dr.prefix_sum(x),
        lambda x: dr.block_sum(x, 1),
        lambda x: dr.sum(dr.select(x > 0, x, UInt(1, 2))),
    ],
)
def test_symbolic_variables_cannot_be_read(use):
    def body(i):
        use(i)
        return (i + 1,)

    with pytest.raises(SymbolicError, match="symbolic"):
        dr.while_loop((dr.opaque(UInt, 0, 1),), lambda i: i < 3, body, mode="symbolic")


def test_symbolic_variables_print_as_such():
    seen = []

    def body(i):
        seen.append((repr(i), repr(Array2f(i)), i.state))
        return (i + 1,)

    dr.while_loop((dr.opaque(UInt, 0, 2),), lambda i: i < 3, body, mode="symbolic")
    assert seen[0] == (
        "UInt[<symbolic>]",
        "Array2f[<symbolic>]",
        dr.VarState.Symbolic,
    )


def test_arrays_of_one_known_number_beyond_the_end() -> None:
    """What only runs under a condition may be out of bounds: it might not run."""
    x = Float(1, 2, 3)
    for index, name in ((Int(-4), "-4"), (UInt(3), "3"), (dr.full(UInt, 9, 4), "9")):
        with pytest.raises(ArrayIndexError, match=f"position {name} is out of bou"):
            dr.gather(Float, x, index)
        with pytest.raises(ArrayIndexError, match=f"position {name} is out of bou"):
            dr.scatter(x, 5.0, index)
        with pytest.raises(ArrayIndexError, match=f"position {name} is out of bou"):
            print(x[index])
        with pytest.raises(ArrayIndexError, match=f"position {name} is out of bou"):
            x[index] = 1
    assert list(x) == [1, 2, 3]
    assert list(dr.gather(Float, x, UInt(2))) == [3]
    assert list(dr.gather(Float, x, Int(-4), active=Bool(False))) == [0]
    assert list(dr.gather(Float, x, dr.zeros(UInt, 0) + 7)) == []

    def read(x: Float) -> Float:
        return dr.gather(Float, x, UInt(7))

    for mode in ("symbolic", "evaluated"):
        never = dr.opaque(Bool, False, 3)
        found = dr.if_stmt((x,), never, read, lambda x: x, mode=mode)
        assert list(found) == [1, 2, 3]


def test_numbers_beyond_the_end() -> None:
    x, counts = Float(1, 2, 3), UInt(0, 0)
    match = r"position 3 is out of bounds \(the array is of size 3"
    with pytest.raises(ArrayIndexError, match=r"test_memory.py:\d+ .*gather: " + match):
        dr.gather(Float, x, 3)
    for write in (dr.scatter, dr.scatter_add):
        with pytest.raises(ArrayIndexError, match=match):
            write(x, 5.0, 3)
    with pytest.raises(ArrayIndexError, match="position 3 is out of bounds"):
        dr.gather(Array2f, x, 1)
    with pytest.raises(ArrayIndexError, match="position 5 is out of bounds"):
        dr.scatter(x, Array3f(1, 2, 3), 1)
    with pytest.raises(ArrayIndexError, match="scatter_inc: position 2 is out of"):
        dr.scatter_inc(counts, 2)
    with pytest.raises(ArrayIndexError, match="scatter_add_kahan: position 3 is out"):
        dr.scatter_add_kahan(x, Float(0, 0, 0), 1.0, 3)
    assert list(dr.gather(Float, x, 1_000_000, active=Bool(False, False))) == [0, 0]
    assert list(dr.gather(Float, x, 2)) == [3]
    assert list(x) == [1, 2, 3]


@pytest.mark.parametrize(
    "index",
    [llvm.UInt64([4, 2**32 + 1]), llvm.Int64([4, 1 - 2**32]), llvm.Float64([4, 1e30])],
)
def test_large_indices_are_out_of_bounds_under_debug(index: object) -> None:
    """They don't wrap around, into the array again."""
    x = dr.arange(Float, 30) + 1
    target, parts = dr.zeros(Float, 9), dr.zeros(Float, 30)
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        with pytest.warns(RuntimeWarning, match="out-of-bounds read from position"):
            assert dr.gather(Float, x, index).numpy().tolist() == [5, 0]
        with pytest.warns(RuntimeWarning, match="out-of-bounds read from position"):
            found = dr.gather(Array3f, x, index).numpy()
        dr.scatter(target, 7, index)
        with pytest.warns(RuntimeWarning, match="out-of-bounds write to position"):
            assert dr.sum(target)[0] == 7
        dr.scatter(parts, Array3f(1, 2, 3), index)
        with pytest.warns(RuntimeWarning, match="out-of-bounds write to position"):
            assert dr.sum(parts)[0] == 6
    np.testing.assert_array_equal(found, [[13, 0], [14, 0], [15, 0]])


def test_indices_of_parts_do_not_wrap_around_under_debug() -> None:
    x, y = dr.arange(Float, 30) + 1, dr.zeros(Float, 30)
    index = UInt([1, (2**32 + 2) // 3])  # three times the second is 2, in 32 bits
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        with pytest.warns(RuntimeWarning, match="out-of-bounds read from position"):
            found = dr.gather(Array3f, x, index).numpy()
        dr.scatter(y, Array3f(1, 2, 3), index)
        with pytest.warns(RuntimeWarning, match="out-of-bounds write to position"):
            assert dr.sum(y)[0] == 6
    np.testing.assert_array_equal(found, [[4, 0], [5, 0], [6, 0]])
