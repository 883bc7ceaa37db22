"""Constants, sequences, grids and rearrangement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array2f, Array3f, ArrayXf, Bool, Float, Int, UInt
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError


@dataclass
class Ray:
    o: Array3f
    t: Float
    hits: int


class Old:
    DRJIT_STRUCT = {"x": Float, "label": str}

    def __init__(self):
        self.x: Any = None
        self.label = "none"


def test_constants():
    assert list(dr.zeros(Float, 3)) == [0, 0, 0]
    assert list(dr.ones(Bool, 2)) == [True, True]
    assert dr.full(Array3f, 2, 4).shape == (3, 4)
    assert dr.zeros(Array3f, (3, 2)).shape == (3, 2)
    assert dr.zeros(ArrayXf, (2, 3)).shape == (2, 3)
    assert dr.zeros(llvm.Array22f, 5).shape == (2, 2, 5)
    assert list(dr.full(scalar.ArrayXf, 1.5, 2)) == [1.5, 1.5]
    assert dr.zeros(scalar.Array3f, 9).shape == (3,)
    assert (dr.zeros(int), dr.ones(bool), dr.full(float, 3)) == (0, True, 3.0)
    assert dr.zeros(Float, 5).state is dr.VarState.Literal
    assert dr.opaque(Array2f, 1, 3).state is dr.VarState.Evaluated
    assert list(dr.opaque(Bool, True, 3)) == [True] * 3


def test_structs():
    ray = dr.zeros(Ray, 4)
    assert (ray.o.shape, ray.t.shape, ray.hits) == ((3, 4), (4,), 0)
    old = dr.ones(Old, 2)
    assert list(old.x) == [1, 1]
    assert old.label == ""
    rng = dr.zeros(llvm.PCG32, 3)
    assert len(rng.state) == 3


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: dr.zeros(Float, -1), SizeError, "size -1 is negative"),
        (lambda: dr.zeros(float, -1), SizeError, "size -1 is negative"),
        (lambda: dr.zeros(int, (2, -1)), SizeError, "size -1 is negative"),
        (lambda: dr.zeros(bool, 1.5), ArrayTypeError, "a size is 1.5"),
        (lambda: dr.zeros(Float, 2**32), SizeError, "exceeds the limit"),
        (lambda: dr.zeros(Float, 1.5), ArrayTypeError, "a size is 1.5"),
        (lambda: dr.zeros(Float, (2, 3)), SizeError, "doesn't suit Float"),
        (lambda: dr.zeros(Array3f, (2, 2)), SizeError, "doesn't suit Array3f"),
        (lambda: dr.zeros("a"), ArrayTypeError, "the dtype is 'a'"),  # type: ignore[arg-type]
        (lambda: dr.zeros(dict), ArrayTypeError, "can't make an instance of"),
        (lambda: dr.full(Int, "a"), ArrayTypeError, "can't make a Int32 entry"),
        (lambda: dr.arange(Array3f, 3), ArrayTypeError, "one-dimensional"),
        (lambda: dr.arange(int, 3), ArrayTypeError, "one-dimensional"),
        (lambda: dr.arange(Float, -1), SizeError, "negative"),
        (lambda: dr.arange(Float, size=-1), SizeError, "negative"),
        (lambda: dr.arange(Float, 1, size=2), ArrayTypeError, "a size beside"),
        (lambda: dr.arange(Float), ArrayTypeError, "an argument is None"),
        (lambda: dr.arange(Int, 4, 1), SizeError, "negative"),
        (lambda: dr.arange(Int, 0, 4, 0), ArrayValueError, "the step is 0"),
        (lambda: dr.arange(Int, 1.5), ArrayTypeError, "expected an int"),
        (lambda: dr.linspace(Int, 0, 1, 3), ArrayTypeError, "holds no floats"),
        (lambda: dr.linspace(Float, 0, 1, -3), SizeError, "negative"),
        (lambda: dr.meshgrid(Float(1), indexing="a"), ArrayValueError, "indexing"),
        (lambda: dr.meshgrid([1], [2]), ArrayTypeError, "pass flat arrays"),
        (lambda: dr.ravel("a"), ArrayTypeError, "unsupported argument"),
        (lambda: dr.ravel(Float(1), order="X"), ArrayValueError, "order is 'X'"),
        (lambda: dr.unravel(Array3f, Float(1, 2)), SizeError, "no multiple"),
        (
            lambda: dr.unravel(llvm.Array3i, llvm.Array3f(1)),
            ArrayTypeError,
            "can't read",
        ),
        (lambda: dr.unravel(scalar.Array2f, scalar.ArrayXf(1)), SizeError, "no multi"),
        (lambda: dr.reshape(Float, Float(1, 2), 3), SizeError, "can't rearrange"),
        (lambda: dr.reshape(Float, Float(1, 2), (-1, -1)), SizeError, "can't rearr"),
        (lambda: dr.reshape(Array3f, Float(1, 2), (3, -1)), SizeError, "can't rearr"),
        (
            lambda: dr.reshape(Float, Float(1), 4, shrink=True),
            SizeError,
            "can't shrink",
        ),
        (lambda: dr.tile(Float(1), -1), SizeError, "count -1 is negative"),
        (lambda: dr.concat([]), ArrayValueError, "there are no arrays"),
        (lambda: dr.reverse(3), ArrayTypeError, "unsupported"),
        (lambda: dr.reverse([3], axis=1), ArrayValueError, "axis 1"),
        (lambda: dr.width(Float(1, 2), Float(1, 2, 3)), SizeError, "different sizes"),
        (lambda: dr.shape([[1], [1, 2]]), SizeError, "ragged"),
        (lambda: dr.shape("a"), ArrayTypeError, "unsupported"),
    ],
)
def test_impossible_requests(call, error, match):
    with pytest.raises(error, match=match):
        call()


class Chain:
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {}
    rest: Any


@pytest.mark.parametrize("make", [dr.zeros, dr.empty, dr.alloc_local])
def test_types_that_consist_of_themselves(make: Any) -> None:
    Chain.DRJIT_STRUCT = {"x": Float, "rest": Chain | None}
    assert dr.zeros(Chain, 2).rest is None
    Chain.DRJIT_STRUCT = {"x": Float, "rest": Chain}
    with pytest.raises(ArrayTypeError, match=r"declare the field as 'Chain \| None'"):
        make(Chain, 2)


@given(start=st.integers(-50, 50), count=st.integers(0, 40), step=st.integers(-5, 5))
@settings(max_examples=25, deadline=None)
def test_arange(start, count, step):
    if step == 0:
        return
    expected = list(range(start, start + count * step, step))
    for cls in (Int, Float, llvm.Float16, llvm.Int64, scalar.ArrayXi):
        assert list(dr.arange(cls, start, start + count * step, step)) == expected


def test_arange_by_keyword():
    assert list(dr.arange(Float, size=3)) == [0, 1, 2]
    assert list(dr.arange(dtype=Int, start=2, stop=9, step=3)) == [2, 5, 8]


def test_long_float_sequences_are_rounded_once():
    x = dr.arange(Float, 2**24 - 1, 2**24 + 9, 3)
    expected = np.arange(2**24 - 1, 2**24 + 9, 3).astype(np.float32)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert dr.arange(Float, 10).state is dr.VarState.Unevaluated


@pytest.mark.parametrize("cls", [Float, llvm.Float64, scalar.ArrayXf64])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 5, 1000])
def test_linspace(cls, endpoint, num):
    x = dr.linspace(cls, -2, 1, num, endpoint=endpoint)
    expected = np.linspace(-2, 1, num, endpoint=endpoint)
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_matches_numpy(indexing):
    arrays = [np.arange(3.0), np.arange(4.0) + 10, np.arange(2.0) + 20]
    for count in (1, 2, 3):
        expected = np.meshgrid(*arrays[:count], indexing=indexing)
        lazy = [dr.arange(Float, len(a)) + float(a[0]) for a in arrays[:count]]
        for made in (
            [Float(a) for a in arrays[:count]],
            lazy,
            [scalar.ArrayXf(a) for a in arrays[:count]],
        ):
            grid = dr.meshgrid(*made, indexing=indexing)
            for mine, theirs in zip(grid, expected, strict=True):
                np.testing.assert_array_equal(mine.numpy(), np.ravel(theirs))
    assert dr.meshgrid() == ()


def test_grids_of_shifted_counters():
    count = dr.arange(UInt, 3)
    u, v, w = dr.meshgrid(count * 4, count << 1, (count + 5) >> 1)
    expected = np.meshgrid([0, 4, 8], [0, 2, 4], [2, 3, 3])
    for mine, theirs in zip((u, v, w), expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), np.ravel(theirs))


def test_grids_of_expressions_need_no_memory():
    x = dr.linspace(Float, -1, 1, 50)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        u, v = dr.meshgrid(x, x)
        total = u * v
        dr.eval(total)
        assert len(dr.kernel_history()) == 1
    np.testing.assert_allclose(total.numpy().reshape(50, 50), np.outer(x, x), atol=1e-6)


@pytest.mark.parametrize("order", ["A", "C", "F"])
def test_ravel_and_unravel_are_inverse(order):
    data = np.arange(12, dtype=np.float32)
    for cls, outer in ((Array2f, (2,)), (Array3f, (3,)), (llvm.Array22f, (2, 2))):
        value = dr.unravel(cls, Float(data), order)
        expected = np.reshape(data, (*outer, -1), order="F" if order == "A" else order)
        np.testing.assert_array_equal(value.numpy(), expected)
        np.testing.assert_array_equal(dr.ravel(value, order).numpy(), data)
        assert dr.width(dr.unravel(cls, Float(), order)) == 0


def test_unravel_reads_components_together():
    """With one index, of which the others are a constant offset away."""
    x = Float(np.arange(12, dtype=np.float32))
    found = {id(part._node.deps[1]) for part in dr.unravel(Array3f, x)}
    assert len(found) == 1


def test_ravel():
    assert list(dr.ravel(Array3f([1, 2], 3, 4))) == [1, 3, 4, 2, 3, 4]
    assert list(dr.ravel(scalar.Array22f([1, 2], [3, 4]))) == [1, 3, 2, 4]
    assert list(dr.ravel([1.5, 2])) == [1.5, 2]
    x = Float(1, 2)
    assert dr.ravel(x) is x
    assert list(dr.unravel(scalar.Array2f, scalar.ArrayXf(1, 2))) == [1, 2]


def test_reshape_without_a_type_keeps_it():
    x = Float(1, 2, 3, 4)
    assert list(dr.reshape(x, 4)) == [1, 2, 3, 4]
    assert list(dr.reshape(value=x, shape=3, shrink=True)) == [1, 2, 3]
    assert dr.reshape(dtype=Array2f, value=x, shape=(2, -1)).shape == (2, 2)
    with pytest.raises(SizeError, match="can't rearrange"):
        dr.reshape(x, (3,))


def test_reshape_to_dynamic_arrays():
    numbers = llvm.Float(range(6))
    by_columns = dr.reshape(llvm.ArrayXf, numbers, (2, -1))
    assert type(by_columns) is llvm.ArrayXf
    assert by_columns.numpy().tolist() == [[0, 2, 4], [1, 3, 5]]
    by_rows = dr.reshape(llvm.ArrayXf, numbers, (2, 3), order="C")
    assert by_rows.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_reshape():
    value = dr.reshape(Array3f, Array2f([1, 2, 3], [4, 5, 6]), (3, -1), order="C")
    expected = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(value.numpy(), expected)
    assert list(dr.reshape(Float, Array2f([1, 2], [3, 4]), -1)) == [1, 3, 2, 4]
    queue = {"a": Float(1, 2, 3), "b": Array2f([1, 2, 3], 5)}
    short = dr.reshape(dict, queue, 2, shrink=True)
    assert list(short["a"]) == [1, 2]
    assert short["b"].shape == (2, 2)


def test_slices():
    value = Array3f([1, 2], 3, 4)
    assert isinstance(dr.slice(value, 1), scalar.Array3f)
    assert list(dr.slice(value, 1)) == [2, 3, 4]
    assert dr.slice([Float(1, 2), 7], 1) == [2, 7]
    assert str(dr.slice(value, UInt(1, 0))) == "[[2, 3, 4],\n [1, 3, 4]]"


def test_repetition():
    x = Float(1, 2)
    assert list(dr.tile(x, 2)) == [1, 2, 1, 2]
    assert list(dr.repeat(x, 2)) == [1, 1, 2, 2]
    assert len(dr.tile(x, 0)) == 0
    assert list(dr.tile(x, 1)) == [1, 2]
    assert list(dr.tile(scalar.ArrayXf(1, 2), 2)) == [1, 2, 1, 2]
    assert list(dr.repeat({"a": x}, 2)["a"]) == [1, 1, 2, 2]
    assert list(dr.reverse(x)) == [2, 1]
    assert dr.reverse([1, 2]) == [2, 1]


def test_concat():
    assert list(dr.concat([Float(1, 2), Float(), Float(3)])) == [1, 2, 3]
    joined = dr.concat([Array2f([1, 2], 3), Array2f(4, 5)])
    np.testing.assert_array_equal(joined.numpy(), [[1, 2, 4], [3, 3, 5]])
    assert isinstance(dr.concat([Int(1), Float(2)]), Float)
    assert dr.concat([[1], [2]]) == [1, 2]
    assert list(dr.concat([scalar.ArrayXf(1), scalar.ArrayXf(2)])) == [1, 2]


def test_evaluation():
    x, y = Float(1, 2) + 1, Float(1, 2) * 3
    assert dr.schedule([x], {"y": y})
    assert dr.eval()
    assert x.state is y.state is dr.VarState.Evaluated
    assert not dr.eval(x, Float(1))
    z = Float(1)
    dr.make_opaque(z)
    assert z.state is dr.VarState.Evaluated
    tree: dict[str, Any] = dr.copy({"a": [x], "b": 3})
    tree["a"][0] += 1
    assert list(x) == [2, 3]


def test_labels():
    x: dict[str, Any] = {"a": Float(1, 2) + 1, "b": [Array2f(1, Float(1, 2) + 5)]}
    dr.set_label(x=x)
    assert x["a"].label == "x_a"
    assert x["b"][0].y.label == "x_b_0_1"
    y = Float(1, 2) + 3
    assert y.label is None
    y.label = "y"
    assert y.label == "y"
    z = Array2f(Float(1, 2) + 3, 1)
    z.label = "z"
    assert z.x.label == "z_0"
    untyped: Any = y
    with pytest.raises(ArrayTypeError, match="no value and its name"):
        untyped.label = 3


@pytest.mark.parametrize("make", [dr.full, dr.opaque])
def test_one_value_for_each_component(make) -> None:
    found = make(llvm.Array3f, [1, 2, 3], 2)
    assert type(found) is llvm.Array3f
    np.testing.assert_array_equal(found, [[1, 1], [2, 2], [3, 3]])
    np.testing.assert_array_equal(make(llvm.Array2i, (4, 5), (2, 1)), [[4], [5]])
    np.testing.assert_array_equal(make(scalar.Array3f, [1, 2, 3]), [1, 2, 3])
    wanted = dr.VarState.Literal if make is dr.full else dr.VarState.Evaluated
    assert found.x.state == wanted
    with pytest.raises(SizeError, match="2 values for the 3 components of Array3f"):
        make(llvm.Array3f, [1, 2])
    with pytest.raises(SizeError, match="2 values for the 3 components of Array3f"):
        make(scalar.Array3f, [1, 2])
    with pytest.raises(ArrayTypeError, match="can't make a Float32 entry of a value"):
        make(llvm.Float, [1, 2])
