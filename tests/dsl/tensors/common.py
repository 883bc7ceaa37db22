"""What the tests of tensors share: namespaces, comparison, indices, modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lumijit import llvm, scalar
from lumijit.llvm import ad

MODULES = pytest.mark.parametrize(
    "module", [llvm, ad, scalar], ids=lambda m: m.__name__
)
MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FULL_SHAPES = npst.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)
#: Suffixes of types, and NumPy's name of their entries.
ENTRIES = {"f": "f4", "f64": "f8", "i": "i4", "u": "u4", "i64": "i8", "b": "?"}


def same(tensor: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert tensor.shape == expected.shape
    np.testing.assert_array_equal(tensor.numpy(), expected)


def near(tensor: Any, expected: Any, rtol: float = 1e-5) -> None:
    expected = np.asarray(expected)
    assert tensor.shape == expected.shape
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=rtol)


def numbers(shape: Any, entries: str = "f4", seed: int = 0) -> Any:
    """Return small whole numbers, on which sums and products are exact."""
    data = np.asarray(np.random.default_rng(seed).integers(0, 5, shape))
    return np.asarray(data > 2 if entries == "?" else data).astype(entries)


@st.composite
def subscripts(draw: Any, shape: tuple[int, ...]) -> Any:
    """Make any subscript that NumPy takes for an array of a shape."""
    kind = draw(st.sampled_from(["basic", "mask", "mixed"]))
    if kind == "basic":
        return draw(npst.basic_indices(shape, allow_newaxis=True, max_dims=6))
    if kind == "mask":
        ndim = draw(st.integers(0, len(shape)))
        mask = draw(npst.arrays(bool, shape[:ndim]))
        return mask if draw(st.booleans()) else (mask, *_rest(draw, shape[ndim:]))
    wide = draw(npst.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    return tuple(_rest(draw, shape, wide))


def _rest(draw: Any, shape: tuple[int, ...], wide: Any = None) -> list[Any]:
    """Make an index for some of the dimensions, with arrays that broadcast."""
    indices: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        options: list[Any] = [st.slices(size)]
        if size:
            options.append(st.integers(-size, size - 1))
            if wide is not None:
                inner = draw(npst.broadcastable_shapes(wide, max_dims=2, max_side=3))
                inner = inner if _goes_with(inner, wide) else wide
                entries = st.integers(-size, size - 1)
                options.append(npst.arrays(np.int32, inner, elements=entries))
        indices += [None] * draw(st.integers(0, 1)) + [draw(st.one_of(options))]
    if draw(st.booleans()):
        indices.append(Ellipsis)
    return indices


def _goes_with(inner: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    return 0 not in inner and np.broadcast_shapes(inner, wide) == wide


def ours(key: Any, module: Any) -> Any:
    """Return a subscript with our tensors in place of NumPy's arrays."""
    if isinstance(key, tuple):
        return tuple(ours(k, module) for k in key)
    if not isinstance(key, np.ndarray):
        return key
    return module.TensorXb(key) if key.dtype == bool else module.TensorXi(key)
