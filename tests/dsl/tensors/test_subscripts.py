"""Subscripts of tensors against NumPy's: reading, assignment, in-place updates."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import scalar
from lumijit.llvm import (
    Array3f,
    Float,
    Int,
    TensorXf,
    TensorXi,
    UInt,
    ad,
)
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    SizeError,
    SymbolicError,
)
from tests.dsl.tensors.common import (
    ENTRIES,
    FULL_SHAPES,
    MODES,
    MODULES,
    SHAPES,
    numbers,
    ours,
    same,
    subscripts,
)

GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
GRID.setflags(write=False)


class TestReading:
    @MODULES
    @given(data=st.data(), shape=SHAPES, suffix=st.sampled_from(sorted(ENTRIES)))
    @settings(max_examples=150, deadline=None)
    def test_any(self, module: Any, data: Any, shape: Any, suffix: str) -> None:
        a = numbers(shape, ENTRIES[suffix])
        x = getattr(module, f"TensorX{suffix}")(a)
        key = data.draw(subscripts(shape))
        found = x[ours(key, module)]
        assert type(found) is type(x)
        same(found, a[key])
        same(x[key], a[key])

    @MODULES
    def test_index_arrays(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        flat = dr.int32_array_t(dr.array_t(x))
        unsigned = dr.uint64_array_t(flat)
        same(x[flat(1, 0, -1)], GRID[[1, 0, -1]])
        same(x[:, unsigned(2, 0)], GRID[:, [2, 0]])
        same(x[flat(0, 1), :, flat(0, 1)], GRID[[0, 1], :, [0, 1]])
        same(x[scalar.TensorXi8([[1, 0]]), 1], GRID[[[1, 0]], 1])
        same(x[[[0], [1]], [2, -1]], GRID[[[0], [1]], [2, -1]])
        same(x[flat(1)], GRID[[1]])
        same(x[np.int64(1)], GRID[1])
        same(x[[]], GRID[[]])
        wide = module.TensorXf(np.arange(1000))
        same(wide[module.TensorXi8([-1, 5])], [999, 5])

    @MODULES
    def test_entries_outside_are_zero(self, module: Any) -> None:
        x = module.TensorXf(GRID) + 1
        index = dr.int32_array_t(dr.array_t(x))(0, 3, -4)
        same(x[:, index], np.stack([GRID[:, 0] + 1, 0 * GRID[:, 0], 0 * GRID[:, 0]], 1))
        for wide in (dr.int64_array_t(index), dr.uint64_array_t(index)):
            same(x[:, wide(1 << 32, 1)], np.stack([0 * GRID[:, 0], GRID[:, 1] + 1], 1))

    @MODULES
    def test_masks(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        same(x[x > 20], [21, 22, 23])
        same(x[[True, False]], GRID[:1])
        same(x[:, np.array([True, False, True])], GRID[:, [0, 2]])
        same(x[True], GRID[True])
        same(x[False], GRID[False])
        same(x[0, dr.mask_t(dr.array_t(x))(True, False, True)], GRID[0, [0, 2]])

    @MODULES
    def test_iteration(self, module: Any) -> None:
        rows = list(module.TensorXf(GRID))
        assert len(rows) == 2
        same(rows[1], GRID[1])
        first, second = module.TensorXf([3, 4])
        same(first, 3)
        assert float(second) == 4

    def test_the_result_is_independent(self) -> None:
        x = TensorXf(GRID)
        y = x[...]
        y += 1
        y[0, 0, 0] = 50
        same(x, GRID)

    def test_computed_without_memory(self) -> None:
        x = dr.arange(TensorXi, 12)[None, ::-2]
        assert x.state is dr.VarState.Unevaluated
        same(x, np.arange(12)[None, ::-2])
        zeros = dr.zeros(TensorXf, (2, 3))[:, 1]
        assert zeros.state is dr.VarState.Literal


class TestWriting:
    @MODULES
    @given(data=st.data(), shape=SHAPES, suffix=st.sampled_from(["f", "u", "b"]))
    @settings(max_examples=120, deadline=None)
    def test_any(self, module: Any, data: Any, shape: Any, suffix: str) -> None:
        a = numbers(shape, ENTRIES[suffix])
        x = getattr(module, f"TensorX{suffix}")(a)
        key = data.draw(subscripts(shape))
        selected = a[key]
        narrow = tuple(
            data.draw(st.sampled_from([1, n])) if n != 1 else 1 for n in selected.shape
        )[data.draw(st.integers(0, selected.ndim)) :]
        value = numbers(narrow, ENTRIES[suffix], seed=1)
        # Where an entry is selected twice, either value may stay.
        places = np.arange(a.size).reshape(shape)[key]
        if len(np.unique(places)) < places.size:
            value = value.reshape(-1)[:1]
            if not value.size:
                return
            narrow, value = (), value[0]
        a[key] = value
        x[ours(key, module)] = type(x)(value)
        same(x, a)

    @MODULES
    def test_numbers_and_sequences(self, module: Any) -> None:
        a, x = GRID.copy(), module.TensorXf(GRID)
        for b in (a, x):
            b[0] = 5
            b[1, 1] = [1, 2, 3, 4]
            b[..., 3] = np.ones((2, 3), np.float32)
            b[:, 0, 0] = b[:, 1, 1]
            b[1, 2, 3] = 7.0
            b[1:1] = 3
        same(x, a)
        x[...] = 1
        same(x, np.ones_like(a))
        x[:] = GRID[0]
        same(x, GRID * [[[1]], [[0]]] + GRID[0] * [[[0]], [[1]]])

    @MODULES
    def test_updates(self, module: Any) -> None:
        a, x = GRID.copy(), module.TensorXf(GRID)
        for b in (a, x):
            b[0] += 1
            b[:, 1] *= 2
            b[..., ::2] -= b[..., 1::2]
            b[[1, 0], 2] /= 4
        same(x, a)
        x[x > 5] += 1
        a[a > 5] += 1
        same(x, a)

    @MODULES
    def test_under_masks(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        x[x > 20] = 0
        same(x, np.where(GRID > 20, 0, GRID))
        x[x > 10] = x * 10
        same(x, np.where((GRID > 10) & (GRID <= 20), GRID * 10, GRID * (GRID <= 20)))
        x[x > 100] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        same(x.array[11:21], np.arange(10) + 1)
        x[True] = 3
        same(x, np.full_like(GRID, 3))
        x[False] = 4
        same(x, np.full_like(GRID, 3))

    def test_the_tensors_own_entries_change(self) -> None:
        x = TensorXf(GRID)
        flat, other = x.array, copy.copy(x)
        x[0] = 1
        x[...] = x + 1
        assert flat is x.array
        assert list(flat)[:2] == [2, 2]
        same(other, GRID)

    def test_bad_values(self) -> None:
        x = TensorXf(GRID)
        with pytest.raises(SizeError, match=r"shape \(3,\) doesn't .* shape \(3, 4\)"):
            x[0] = [1, 2, 3]
        with pytest.raises(ArrayTypeError, match="can't write a value of type"):
            TensorXi(GRID)[0] = 1.5
        with pytest.raises(SizeError, match=r"shape \(2,\) doesn't .* \(3,\)"):
            x[x > 20] = [1, 2]


class TestErrors:
    @MODULES
    @pytest.mark.parametrize(
        ("key", "error", "text"),
        [
            (2, ArrayIndexError, "index 2 is out of bounds for axis 0 of size 2"),
            (
                (0, -4),
                ArrayIndexError,
                "index -4 is out of bounds for axis 1 of size 3",
            ),
            ((0, [3]), ArrayIndexError, "index 3 is out of bounds for axis 1"),
            ((0, 0, 0, 0), ArrayIndexError, "4 indices for 3 dimensions"),
            ((..., ...), ArrayIndexError, "several ellipses"),
            (1.5, ArrayTypeError, "an index has type 'float'"),
            ("a", ArrayTypeError, "an index has type 'str'"),
            (np.ones(2), ArrayTypeError, "an index has type 'ndarray'"),
            (slice(0.5), ArrayTypeError, "is no slice of integers"),
            (slice(0, 2, 0), ArrayValueError, "slice step cannot be zero"),
            (([0, 1], [0, 1, 2]), ArrayIndexError, r"\(2,\), \(3,\) don't broadcast"),
            ([[0], [1, 2]], ArrayValueError, "ragged list"),
            (np.ones((2, 2), bool), ArrayIndexError, r"mask has shape \(2, 2\)"),
            ([Float(1), 2], ArrayTypeError, "a list of arrays"),
        ],
    )
    def test_keys(self, module: Any, key: Any, error: Any, text: str) -> None:
        x = module.TensorXf(GRID)
        with pytest.raises(error, match=r"TensorXf\[…\]: .*" + text):
            x[key]
        with pytest.raises(error, match=text):
            x[key] = 1

    def test_arrays_as_keys(self) -> None:
        x = TensorXf(GRID)
        for wrong in (Float(1), Array3f(1), TensorXf(1)):
            with pytest.raises(ArrayTypeError, match="an index has type"):
                x[wrong]
        with pytest.raises(ArrayTypeError, match="is no slice of integers"):
            x[UInt(0) : UInt(1)]
        with pytest.raises(
            ArrayIndexError, match="index 7 is out of bounds for axis 0"
        ):
            x[Int(7)]
        with pytest.raises(SizeError, match="without dimensions has no length"):
            list(TensorXf(1))


class TestDerivatives:
    @given(data=st.data(), shape=FULL_SHAPES)
    @settings(max_examples=60, deadline=None)
    def test_of_reading(self, data: Any, shape: Any) -> None:
        key = data.draw(subscripts(shape))
        x = ad.TensorXf(numbers(shape))
        dr.enable_grad(x)
        y = x[ours(key, ad)]
        weights = np.arange(y.array.shape[0], dtype=np.float32).reshape(y.shape) + 1
        dr.backward(y * ad.TensorXf(weights))
        expected = np.zeros(shape, np.float32)
        np.add.at(expected, key, weights)
        same(dr.grad(x), expected)

    def test_of_writing(self) -> None:
        def changed(x: Any, v: Any) -> Any:
            x = x * 1
            x[:, 1] = v
            x[0, ::2] *= v
            x[x > 100] = 0
            return x

        x = ad.TensorXf64(GRID)
        dr.gradcheck(changed, x, ad.TensorXf64([1, 2, 3, 4]))

    def test_of_broadcasting(self) -> None:
        def product(x: Any, y: Any) -> Any:
            return x * y[:, None] + x[:1]

        dr.gradcheck(product, ad.TensorXf64(GRID), ad.TensorXf64(GRID[:, 0]))


class TestControlFlow:
    @MODES
    def test_reads_what_is_outside(self, mode: str) -> None:
        table = TensorXf(GRID) + 0
        _, total = dr.while_loop(
            state=(dr.arange(UInt, 4), dr.zeros(TensorXf, 4)),
            cond=lambda count, total: count < 4,
            body=lambda count, total: (count + 1, total + table[0, 1, count]),
            mode=mode,
        )
        same(total, [22, 18, 13, 7])

    @MODES
    def test_masks(self, mode: str) -> None:
        def body(x: Any, i: Any) -> Any:
            x[x < 3] += 1
            return x, i + 1

        x, _ = dr.while_loop(
            (TensorXf([1, 2, 3, 4]) + 0, UInt(0, 0, 0, 0)),
            lambda x, i: i < 5,
            body,
            mode=mode,
        )
        same(x, [3, 3, 3, 4])

    def test_symbolic_entries_cant_be_counted(self) -> None:
        def body(x: Any) -> Any:
            y = x * 2
            with pytest.raises(SymbolicError, match="symbolic"):
                y[0]
            return (x + 1,)

        (x,) = dr.while_loop((TensorXf([1, 2]) + 0,), lambda x: x.array < 3, body)
        same(x, [3, 3])


def _differences(x: Any) -> Any:
    d = x[1:] - x[:-1]
    return d[1:] - d[:-1]


#: Programs, and how many kernels they take.
SLICES_OF_SLICES = {
    "differences": (_differences, 1),
    "crop": (lambda x: x[1:-1, 2:][::2, ::-1] * 2, 1),
    "axes": (lambda x: x[::-1][:, ::-1][1:, :, None], 1),
    "broadcast": (lambda x: x + 2 * x[:, :1], 1),
    "several": (lambda x: x - (x[:1] + x[1:2]), 2),
}


class TestSlicesOfSlices:
    @pytest.mark.packets("how often it is launched")
    @pytest.mark.parametrize("name", SLICES_OF_SLICES)
    def test_kernels(self, name: str) -> None:
        program, count = SLICES_OF_SLICES[name]
        a = numbers((7, 9))
        x = TensorXf(a)
        dr.eval(x)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            found = program(x)
            dr.eval(found)
            assert len(dr.kernel_history()) == count
        same(found, program(a))

    @given(data=st.data(), shape=FULL_SHAPES)
    @settings(max_examples=100, deadline=None)
    def test_any(self, data: Any, shape: Any) -> None:
        a = numbers(shape)
        x: Any = TensorXf(a)
        for _ in range(3):
            if not a.ndim:
                break
            key = data.draw(subscripts(a.shape))
            x, a = x[ours(key, dr.llvm)], a[key]
            x, a = x * 2 + x, a * np.float32(2) + a
        same(x, a)
