"""Joining, splitting, repeating, reordering and taking: tensors against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import lumijit as dr
from lumijit import scalar
from lumijit.llvm import Array2f, Array3f, Float, Int, TensorXf, TensorXi, UInt, ad
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    SizeError,
)
from tests.dsl.tensors.common import FULL_SHAPES, MODULES, SHAPES, near, numbers, same

GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SHAPES_WITH_AXIS = SHAPES.filter(len).flatmap(
    lambda s: st.tuples(st.just(s), st.integers(-len(s), len(s) - 1))
)


@MODULES
class TestAxes:
    @given(data=st.data(), shape=SHAPES.filter(len))
    @settings(max_examples=50, deadline=None)
    def test_moved(self, module: Any, data: Any, shape: Any) -> None:
        a = numbers(shape)
        x = module.TensorXf(a)
        axes = st.integers(-len(shape), len(shape) - 1)
        first, second = data.draw(axes), data.draw(axes)
        same(dr.moveaxis(x, first, second), np.moveaxis(a, first, second))
        same(dr.swapaxes(x, first, second), np.swapaxes(a, first, second))
        several = npst.valid_tuple_axes(len(shape), min_size=2)
        if len(shape) > 1:
            here = data.draw(several)
            there = data.draw(several.filter(lambda t: len(t) == len(here)))
            same(dr.moveaxis(x, here, there), np.moveaxis(a, here, there))
        same(x.T, a.T)
        if len(shape) > 1:
            same(x.mT, np.swapaxes(a, -1, -2))
        same(dr.reverse(x, first), np.flip(a, first))

    @given(data=st.data(), shape=SHAPES)
    @settings(max_examples=50, deadline=None)
    def test_added_and_removed(self, module: Any, data: Any, shape: Any) -> None:
        a = numbers(shape)
        x = module.TensorXf(a)
        same(dr.squeeze(x), np.squeeze(a))
        new = data.draw(npst.valid_tuple_axes(len(shape) + 2, min_size=2, max_size=2))
        wide = dr.expand_dims(x, new)
        same(wide, np.expand_dims(a, new))
        same(dr.squeeze(wide, new), a)
        same(dr.expand_dims(x, 0), a[None])

    def test_reshaped(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        for shape in ((6, 4), (-1, 2), (24,), (1, 24, 1)):
            for order in ("A", "C", "F"):
                numpys: Any = "C" if order == "A" else order
                found = dr.reshape(module.TensorXf, x, shape, order)
                same(found, GRID.reshape(shape, order=numpys))
        flat = dr.array_t(module.TensorXf)
        assert list(dr.reshape(flat, x, -1)) == GRID.reshape(-1).tolist()
        same(dr.reshape(module.TensorXf, flat(1, 2), (2, 1)), [[1], [2]])
        same(dr.reshape(module.TensorXf, x, 24), GRID.reshape(24))
        with pytest.raises(SizeError, match=r"shape \(2, 3, 4\) to \(5, -1\)"):
            dr.reshape(module.TensorXf, x, (5, -1))


@MODULES
class TestJoining:
    @given(data=st.data(), case=SHAPES_WITH_AXIS)
    @settings(max_examples=60, deadline=None)
    def test_concat(self, module: Any, data: Any, case: Any) -> None:
        shape, axis = case
        parts = []
        for seed in range(data.draw(st.integers(1, 4))):
            sizes = list(shape)
            sizes[axis] = data.draw(st.integers(0, 3))
            parts.append(numbers(tuple(sizes), seed=seed))
        ours = [module.TensorXf(a) for a in parts]
        same(dr.concat(ours, axis=axis), np.concatenate(parts, axis))
        flat = dr.concat(ours, axis=None)
        assert type(flat) is dr.array_t(module.TensorXf)
        assert list(flat) == np.concatenate(parts, None).tolist()

    @given(case=SHAPES_WITH_AXIS, count=st.integers(1, 4))
    @settings(max_examples=50, deadline=None)
    def test_stacks(self, module: Any, case: Any, count: int) -> None:
        shape, axis = case
        parts = [numbers(shape, seed=seed) for seed in range(count)]
        ours = [module.TensorXf(a) for a in parts]
        same(dr.stack(ours, axis), np.stack(parts, axis))
        same(dr.hstack(ours), np.hstack(parts))
        same(dr.vstack(ours), np.vstack(parts))
        same(dr.row_stack(ours), np.vstack(parts))
        same(dr.dstack(ours), np.dstack(parts))
        same(dr.column_stack(ours), np.column_stack(parts))

    @given(case=SHAPES_WITH_AXIS, data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_splits(self, module: Any, case: Any, data: Any) -> None:
        shape, axis = case
        a = numbers(shape)
        x = module.TensorXf(a)
        count = data.draw(st.integers(1, 5))
        places = data.draw(st.lists(st.integers(0, shape[axis]), max_size=3))
        pairs = [
            (dr.array_split(x, count, axis), np.array_split(a, count, axis)),
            (dr.array_split(x, places, axis), np.array_split(a, places, axis)),
            (dr.split(x, places, axis), np.split(a, places, axis)),
        ]
        if shape[axis] % count == 0:
            pairs.append((dr.split(x, count, axis), np.split(a, count, axis)))
        for found, expected in pairs:
            assert len(found) == len(expected)
            for ours, theirs in zip(found, expected, strict=True):
                same(ours, theirs)

    def test_promotion(self, module: Any) -> None:
        x = module.TensorXi([[1, 2]])
        assert type(dr.concat([x, module.TensorXf([[3, 4]])])) is module.TensorXf
        assert type(dr.stack([x, x])) is module.TensorXi


@MODULES
class TestRepetition:
    @given(case=SHAPES_WITH_AXIS, data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_repeat_and_tile(self, module: Any, case: Any, data: Any) -> None:
        shape, axis = case
        a = numbers(shape)
        x = module.TensorXf(a)
        count = data.draw(st.integers(0, 3))
        same(dr.repeat(x, count, axis), np.repeat(a, count, axis))
        same(dr.repeat(x, count), np.repeat(a, count))
        counts = data.draw(
            st.lists(st.integers(0, 3), min_size=shape[axis], max_size=shape[axis])
        )
        expected = np.repeat(a, np.array(counts, int), axis)
        same(dr.repeat(x, counts, axis), expected)
        same(dr.repeat(x, module.TensorXi(counts), axis), expected)
        reps = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
        same(dr.tile(x, reps), np.tile(a, reps))
        same(dr.tile(x, count), np.tile(a, count))

    def test_of_arrays(self, module: Any) -> None:
        flat = dr.array_t(module.TensorXf)(1, 2)
        assert type(dr.repeat(flat, 2)) is type(dr.tile(flat, 2)) is type(flat)
        same(dr.repeat(flat, [1, 2]), [1, 2, 2])
        same(dr.tile(flat, (2, 1)), [[1, 2], [1, 2]])


@MODULES
class TestTaking:
    def test_take(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        for axis in (0, 1, -1):
            same(dr.take(x, 1, axis), np.take(GRID, 1, axis))
            index = np.array([[1, 0], [0, 1]])
            same(dr.take(x, module.TensorXi(index), axis), np.take(GRID, index, axis))
        flat = dr.array_t(module.TensorXf)
        same(dr.take(flat(5, 6, 7), [2, 0]), [7, 5])
        with pytest.raises(ArrayIndexError, match="index 2 is out of bounds"):
            dr.take(x, 2)

    @given(data=st.data(), shape=FULL_SHAPES)
    @settings(max_examples=40, deadline=None)
    def test_take_interp(self, module: Any, data: Any, shape: Any) -> None:
        a = numbers(shape)
        axis = data.draw(st.integers(-len(shape), len(shape) - 1))
        wide = data.draw(npst.array_shapes(min_dims=0, max_dims=2, max_side=3))
        places = np.random.default_rng(1).uniform(-1, 5, wide).astype(np.float32)
        inside = np.clip(places, 0, shape[axis] - 1)
        low = np.floor(inside).astype(int)
        high = np.minimum(low + 1, shape[axis] - 1)
        rest = (inside - low).reshape(
            wide + (1,) * (len(shape) - axis % len(shape) - 1)
        )
        below, above = np.take(a, low, axis), np.take(a, high, axis)
        found = dr.take_interp(module.TensorXf(a), module.TensorXf(places), axis)
        near(found, below + (above - below) * rest)

    def test_numbers(self, module: Any) -> None:
        same(dr.take_interp(module.TensorXf(GRID), 0.5), GRID[0] + 6)
        with pytest.raises(SizeError, match="axis 0 has no entries"):
            dr.take_interp(module.TensorXf(), 0.5)


class TestArrays:
    """What isn't a tensor becomes one."""

    def test_promoted(self) -> None:
        same(dr.stack([Float(1, 2), Float(3, 4)]), [[1, 2], [3, 4]])
        same(dr.stack([Array2f(1, 2), Array2f(3, 4)]), [[[1], [2]], [[3], [4]]])
        same(dr.swapaxes(Array3f([1, 2], 3, 4), 0, 1), [[1, 3, 4], [2, 3, 4]])
        same(dr.split(Float(1, 2), 2)[1], [2])
        same(dr.column_stack([scalar.ArrayXf(1, 2), Float(3, 4)]), [[1, 3], [2, 4]])

    def test_meshgrids(self) -> None:
        a, b, c = np.arange(2.0), np.arange(3.0), np.arange(4.0)
        for indexing in ("xy", "ij"):
            expected = np.meshgrid(a, b, c, indexing=indexing)
            ours = dr.meshgrid(TensorXf(a), TensorXf(b), TensorXf(c), indexing=indexing)
            for x, y in zip(ours, expected, strict=True):
                same(x, y)


class TestErrors:
    def test_axes(self) -> None:
        x = TensorXf(GRID)
        calls = [
            lambda axis: dr.moveaxis(x, axis, 0),
            lambda axis: dr.swapaxes(x, 0, axis),
            lambda axis: dr.squeeze(x, axis),
            lambda axis: dr.concat([x, x], axis=axis),
            lambda axis: dr.split(x, 1, axis),
            lambda axis: dr.repeat(x, 2, axis),
            lambda axis: dr.take(x, 0, axis),
            lambda axis: dr.take_interp(x, 0.5, axis),
        ]
        for call in calls:
            with pytest.raises(ArrayValueError, match=r"axis 3 doesn't exist .*3 dim"):
                call(3)
            with pytest.raises(ArrayTypeError, match="an axis is 'x'"):
                call("x")
        with pytest.raises(ArrayValueError, match="axis -5 doesn't exist"):
            dr.stack([x, x], -5)
        with pytest.raises(ArrayValueError, match=r"an axis repeats in \(0, -3\)"):
            dr.moveaxis(x, (0, -3), (1, 2))
        with pytest.raises(ArrayValueError, match="1 axes for 2 places"):
            dr.moveaxis(x, 0, (1, 2))
        with pytest.raises(SizeError, match=r"axis 1 .* has size 3"):
            dr.squeeze(x, 1)

    def test_inputs(self) -> None:
        x = TensorXf(GRID)
        with pytest.raises(ArrayTypeError, match=r"type 'int' \(expected a tensor\)"):
            dr.stack([1, 2])
        with pytest.raises(ArrayValueError, match="no arrays"):
            dr.stack([])
        with pytest.raises(SizeError, match=r"different shapes \(\(2, 3, 4\), \("):
            dr.stack([x, x[0]])
        with pytest.raises(SizeError, match="differ beside axis 1"):
            dr.concat([x, x[:1]], axis=1)
        with pytest.raises(ArrayValueError, match="axis 1 isn't supported for arrays"):
            dr.concat([Float(1), Float(2)], axis=1)
        with pytest.raises(SizeError, match="3 entries can't be cut into 2 equal"):
            dr.split(x, 2, axis=1)
        wrong: Any
        for wrong in (0, 1.5):
            with pytest.raises(ArrayValueError, match="the number of parts is"):
                dr.array_split(x, wrong)
        with pytest.raises(SizeError, match="count -1 is negative"):
            dr.repeat(x, -1, axis=0)
        with pytest.raises(ArrayTypeError, match=r"a count is 1\.5"):
            dr.tile(x, (1.5,))
        with pytest.raises(SizeError, match=r"shape \(2,\) for 3 entries"):
            dr.repeat(x, UInt(1, 2), axis=1)
        with pytest.raises(SizeError, match="the counts are of type Float"):
            dr.repeat(x, Float(1, 2), axis=0)


class TestDerivatives:
    def test_against_differences(self) -> None:
        x = ad.TensorXf64(np.random.default_rng(0).random((2, 3, 4)))
        y = ad.TensorXf64(np.random.default_rng(1).random((2, 3, 4)))
        places = ad.Float64(0.25, 1.5)
        for function in (
            lambda x, y: dr.square(dr.concat([x, y * 2], axis=1)),
            lambda x, y: dr.square(dr.stack([x, x * y], axis=-1)),
            lambda x, y: dr.moveaxis(x, 0, -1) * y[0, :, :, None],
            lambda x, y: dr.tile(x, (2, 1)) * dr.repeat(y, 2, axis=1),
            lambda x, y: dr.array_split(x * y, 3, axis=2)[1],
            lambda x, y: dr.take_interp(x, places, 1) * dr.take_interp(y, 0.5, 1)[0],
        ):
            dr.gradcheck(function, x, y)

    def test_of_positions(self) -> None:
        x = ad.TensorXf64(np.random.default_rng(0).random((4, 3)))
        places = ad.TensorXf64([0.25, 1.5, 2.75])
        dr.gradcheck(lambda x, p: dr.take_interp(x, p), x, places)


def test_indices_of_any_type() -> None:
    same(dr.take(TensorXi([5, 6]), Int(-1)), [6])
