"""Reductions of tensors over axes, against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import lumijit as dr
from lumijit import llvm
from lumijit.llvm import Array3f, Complex2f, Float, TensorXf, TensorXf16, TensorXi, ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SymbolicError
from tests import targets
from tests.dsl.tensors.common import (
    ENTRIES,
    FULL_SHAPES,
    MODULES,
    SHAPES,
    near,
    numbers,
    same,
)

GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (dr.sum, np.sum),
    "prod": (dr.prod, np.prod),
    "min": (dr.min, np.min),
    "max": (dr.max, np.max),
}
#: Runs of rows, and entries a row: those of less and more than one register, few and
#: many at a time.
ROWS = [
    *((7, 12, n) for n in (2, 3, 13, 16, 33, 70)),
    *((3, 100, n) for n in (2, 3, 13, 16, 33, 70)),
    (1, 1000, 3),
    (1500, 9, 2),
    (500, 24, 11),
    (300, 24, 32),
    (40, 300, 13),
]


@st.composite
def axes(draw: Any, ndim: int) -> Any:
    if ndim == 0 or draw(st.integers(0, 4)) == 0:
        return None
    if draw(st.booleans()):
        return draw(st.integers(-ndim, ndim - 1))
    return draw(npst.valid_tuple_axes(ndim))


@MODULES
class TestAgainstNumpy:
    @given(
        data=st.data(),
        shape=FULL_SHAPES,
        name=st.sampled_from(sorted(FUNCTIONS)),
        suffix=st.sampled_from(["f", "f64", "i", "u", "i64"]),
        keepdims=st.booleans(),
    )
    @settings(max_examples=100, deadline=None)
    def test_numbers(
        self, module: Any, data: Any, shape: Any, name: str, suffix: str, keepdims: bool
    ) -> None:
        ours, theirs = FUNCTIONS[name]
        a = numbers(shape, ENTRIES[suffix])
        if name == "prod":
            a = np.minimum(a, 1) + 1 - (a > 1)
        axis = data.draw(axes(a.ndim))
        x = getattr(module, f"TensorX{suffix}")(a)
        found = ours(x, axis=axis, keepdims=keepdims)
        assert type(found) is type(x)
        expected = theirs(a, axis=axis, keepdims=keepdims)
        same(found, np.asarray(expected).astype(a.dtype))

    @given(data=st.data(), shape=SHAPES, keepdims=st.booleans())
    @settings(max_examples=50, deadline=None)
    def test_masks_and_empty_ones(
        self, module: Any, data: Any, shape: Any, keepdims: bool
    ) -> None:
        a = numbers(shape, "?")
        options: Any = {"axis": data.draw(axes(a.ndim)), "keepdims": keepdims}
        x = module.TensorXb(a)
        same(dr.all(x, **options), np.all(a, **options))
        same(dr.any(x, **options), np.any(a, **options))
        same(dr.none(x, **options), ~np.any(a, **options))
        same(dr.count(x, **options), np.sum(a, **options))
        assert type(dr.count(x, **options)) is module.TensorXu
        b = a.astype(np.float32)
        same(dr.sum(module.TensorXf(b), **options), np.sum(b, **options))
        same(dr.prod(module.TensorXf(b), **options), np.prod(b, **options))

    def test_means_and_norms(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        for axis in (None, 0, -1, (0, 2), (1, 2)):
            near(dr.mean(x, axis), np.mean(GRID, axis))
            near(dr.squared_norm(x, axis), np.sum(GRID**2, axis))
            near(dr.norm(x, axis), np.sqrt(np.sum(GRID**2, axis)))
            near(dr.var(x, axis), np.var(GRID, axis))
            near(dr.std(x, axis, ddof=1), np.std(GRID, axis, ddof=1))
            near(dr.var(x, axis, keepdims=True), np.var(GRID, axis, keepdims=True))
        near(dr.norm(x, 1, keepdims=True), np.sqrt(np.sum(GRID**2, 1, keepdims=True)))
        near(dr.dot(x, x), np.sum(GRID * GRID, 0))
        assert float(dr.dot(module.TensorXf([1, 2]), module.TensorXf([3, 4]))) == 11

    def test_defaults(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        same(dr.sum(x), GRID.sum())
        same(dr.max(x), 23)
        same(dr.mean(x), 11.5)
        same(dr.norm(x), np.sqrt(np.sum(GRID**2)))
        assert dr.all(x >= 0)
        assert not dr.any(x > 23)
        assert dr.allclose(x, GRID)
        same(dr.sum(x, axis=()), GRID)
        same(dr.reduce(dr.ReduceOp.Min, x, -1, keepdims=True), GRID[..., :1])

    def test_neutral_values(self, module: Any) -> None:
        nothing = module.TensorXf(np.ones((2, 0, 3)))
        same(dr.min(nothing, 1), np.full((2, 3), np.inf))
        same(dr.max(nothing), -np.inf)
        same(dr.mean(nothing, 1), np.full((2, 3), np.nan))
        same(dr.sum(nothing, 0), np.zeros((0, 3)))

    def test_prefix_sums(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        for axis in (0, 1, 2):
            same(dr.prefix_sum(x, False, axis), np.cumsum(GRID, axis))
            same(dr.cumsum(x, axis), np.cumsum(GRID, axis))
            after = np.flip(np.cumsum(np.flip(GRID, axis), axis), axis)
            same(dr.cumsum(x, axis, reverse=True), after)

    def test_reductions_of_everything(self, module: Any) -> None:
        x = module.TensorXf(GRID)
        assert type(dr.sum_nested(x)) is module.TensorXf
        same(dr.sum_nested(x), GRID.sum())
        same(dr.max_nested(x), 23)


class TestRows:
    @pytest.mark.parametrize(
        "shape",
        [(1, 5, 3), (2, 7, 64), (3, 1000, 3), (1, 9001, 3), (1, 100, 2000)]
        + [(4, 300, 77), (1, 2, 5000), (100, 7, 70), (1, 17, 9001), (2, 400, 1)],
    )
    @pytest.mark.parametrize("suffix", ["f", "f64", "f16", "u", "i64", "b"])
    def test_kernels(self, shape: tuple[int, ...], suffix: str) -> None:
        a = numbers(shape, {**ENTRIES, "f16": "f2"}[suffix], seed=3)
        x = getattr(dr.llvm, f"TensorX{suffix}")(a)
        if suffix == "b":
            same(dr.any(x, 1), a.any(1))
            same(dr.all(x, 1), a.all(1))
            return
        expected = np.minimum(a.astype(np.float64).sum(1), 65504)
        same(dr.sum(x, 1), expected.astype(a.dtype))
        same(dr.min(x, 1), a.min(1))
        same(dr.max(x, (0, 1)), a.max((0, 1)))

    @pytest.mark.parametrize("target", ["vectors", "masks"])
    @pytest.mark.parametrize("suffix", ["f", "f16", "f64", "i", "u8", "b"])
    def test_short_rows(self, target: str, suffix: str) -> None:
        with targets.generating_for(targets.target_of(target)):
            cls: Any = getattr(llvm, f"TensorX{suffix}")
            for outer, block, inner in ROWS:
                a = np.random.default_rng(1).integers(0, 2, (outer, block, inner))
                x = cls(a.astype(cls(0).numpy().dtype))
                if suffix == "b":
                    same(dr.any(x, 1), a.any(1))
                    same(dr.count(x, 1), a.sum(1))
                    continue
                same(dr.max(x, 1), a.max(1))
                same(dr.sum(x, 1), a.sum(1).astype(x.numpy().dtype))
                same(dr.sum(x + 1, 1), (a + 1).sum(1).astype(x.numpy().dtype))

    @pytest.mark.packets("how often it is launched")
    def test_short_rows_are_read_where_they_lie(self) -> None:
        x = TensorXf(numbers((256, 48, 16)))
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            total = dr.sum(x, 1)
            dr.eval(total)
            sizes = [k["size"] for k in dr.kernel_history()]
        # Three rows of 48 are added to one, and that is one of 16.
        assert sizes == [256 * 48, 256 * 16]
        same(total, x.numpy().sum(1))

    def test_one_order_for_any_number_of_threads(self) -> None:
        a = np.random.default_rng(0).random((3000, 70), np.float32)
        count = dr.thread_count()
        first = dr.sum(TensorXf(a), 0).numpy()
        dr.set_thread_count(1)
        try:
            np.testing.assert_array_equal(dr.sum(TensorXf(a), 0).numpy(), first)
        finally:
            dr.set_thread_count(count)
        np.testing.assert_allclose(first, a.sum(0, dtype=np.float64), rtol=1e-6)

    def test_symbolic_mode(self) -> None:
        x = TensorXi(numbers((40, 5, 6), "i4"))
        for axis in (0, 1, 2, (0, 2), None):
            found = dr.sum(x, axis, mode="symbolic")
            np.testing.assert_array_equal(found.numpy(), dr.sum(x, axis).numpy())

    def test_literals_need_no_memory(self) -> None:
        total = dr.sum(dr.ones(TensorXf, (20, 30)), axis=0)
        assert total.state is dr.VarState.Literal
        same(total, np.full(30, 20))
        same(dr.sum(dr.ones(TensorXf16, (4, 5)), 1), np.full(4, 5))


class TestErrors:
    def test_axes(self) -> None:
        x = TensorXf(GRID)
        for axis in (3, -4, (0, 3)):
            with pytest.raises(ArrayValueError, match=r"axis .* doesn't exist .*3 dim"):
                dr.sum(x, axis=axis)
        with pytest.raises(ArrayValueError, match=r"sum: .* one of them twice"):
            dr.sum(x, axis=(1, -2))
        with pytest.raises(ArrayValueError, match="any: axis 3 doesn't exist"):
            dr.any(x > 0, axis=3)
        with pytest.raises(ArrayValueError, match="count: axis 3 doesn't exist"):
            dr.count(x > 0, axis=3)
        with pytest.raises(ArrayTypeError, match=r"an axis is 1\.0"):
            dr.sum(x, axis=1.0)
        with pytest.raises(ArrayTypeError, match=r"expected a mask"):
            dr.all(x)
        with pytest.raises(ArrayTypeError, match=r"reduce\(And\)"):
            dr.reduce(dr.ReduceOp.And, x)

    def test_no_dimensions(self) -> None:
        assert dr.sum(TensorXf(3), axis=0) == 3
        assert dr.max(TensorXf(3), axis=-1, keepdims=True).shape == ()
        for axis in (1, (0,)):
            with pytest.raises(ArrayValueError, match="there are 0 dimensions"):
                dr.sum(TensorXf(3), axis=axis)

    def test_dimensions_that_cant_stay(self) -> None:
        for value in (Array3f(1), Complex2f(1)):
            with pytest.raises(ArrayTypeError, match="can't stay with size 1"):
                dr.sum(value, keepdims=True)
        with pytest.raises(ArrayValueError, match="no axis"):
            dr.sum([1, 2], keepdims=True)
        assert dr.sum(Float(1, 2), keepdims=True) == 3

    def test_symbolic_entries(self) -> None:
        def body(x: Any) -> Any:
            with pytest.raises(SymbolicError, match="reduce"):
                dr.sum(x, 0)
            return (x + 1,)

        dr.while_loop((TensorXf(GRID),), lambda x: x.array < 3, body)


class TestDerivatives:
    @pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)])
    def test_against_differences(self, axis: Any) -> None:
        x = ad.TensorXf64(1 + np.random.default_rng(0).random((3, 4, 5)))
        for function in (dr.sum, dr.prod, dr.max, dr.min, dr.mean, dr.norm):
            dr.gradcheck(lambda v, f=function: dr.square(f(v, axis)), x)

    def test_long_rows(self) -> None:
        x = ad.TensorXf(np.ones((300, 70)))
        dr.enable_grad(x)
        y = dr.sum(x * x, 0)
        dr.backward(y * dr.arange(ad.TensorXf, 70))
        same(dr.grad(x), np.broadcast_to(2 * np.arange(70), (300, 70)))
