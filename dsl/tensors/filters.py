"""Resampling and convolution of tensors along their axes, by filters.

Each axis is filtered on its own. Weights and positions are computed in NumPy while
tracing; an output adds up its neighbours, which are gathered.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lumijit.base import Array, ArrayBase
from lumijit.derivatives.gradients import grad_enabled
from lumijit.functions.creation import arange, zeros
from lumijit.functions.elementwise import fma
from lumijit.functions.evaluation import eval as evaluate
from lumijit.functions.gathering import rearranged
from lumijit.functions.reductions import check_strategy
from lumijit.initialize import whole_number
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.tensors.joining import stretched
from lumijit.tensors.shapes import as_tensor, checked_axes
from lumijit.tensors.views import index_class

Filter = str | Callable[[float], float]
# After so many neighbours, sums are put into memory.
_TAPS = 32


# Each filter's radius, and its value at a distance from the centre.
_PRESETS: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "box": (0.5, lambda x: ((x > -0.5) & (x <= 0.5)) * 1.0),
    "linear": (1.0, lambda x: np.maximum(1 - abs(x), 0)),
    "hamming": (
        1.0,
        lambda x: (abs(x) < 1) * np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x)),
    ),
    "cubic": (
        2.0,
        lambda x: np.where(
            abs(x) < 1,
            (1.5 * abs(x) - 2.5) * x**2 + 1,
            np.where(abs(x) < 2, ((abs(x) - 5) * abs(x) + 8) * abs(x) * -0.5 + 2, 0),
        ),
    ),
    "lanczos": (3.0, lambda x: (abs(x) < 3) * np.sinc(x) * np.sinc(x / 3)),
    # Of standard deviation 1 / 2, and shifted so that it ends at 0.
    "gaussian": (2.0, lambda x: np.maximum(np.exp(-2 * x**2) - math.exp(-8), 0)),
}
_BOUNDARIES = ("zero", "nearest", "wrap", "reflect", "mirror")


def _function(construct: str, filter: Any, radius: Any) -> tuple[float, Any]:
    """Return a filter's radius and values."""
    if isinstance(filter, str) and filter in _PRESETS:
        return _PRESETS[filter]
    if not callable(filter):
        raise ArrayValueError(
            construct,
            f"the filter is {filter!r}",
            f"pass one of {', '.join(map(repr, _PRESETS))}, or a function.",
        )
    if radius is None:
        raise ArrayValueError(
            construct, "the filter's radius is missing", "pass 'filter_radius'."
        )
    return float(radius), np.vectorize(filter, otypes=[np.float64])


def _source(construct: str, source: Any, boundary: str, mode: Any) -> Any:
    check_strategy(mode, construct)
    if boundary not in _BOUNDARIES:
        raise ArrayValueError(
            construct,
            f"the boundary is {boundary!r}",
            f"pass one of {', '.join(map(repr, _BOUNDARIES))}.",
        )
    tensor = as_tensor(construct, source)
    if not tensor._spec.dtype.is_float or len(source._spec.shape) != 1:
        raise ArrayTypeError(
            construct,
            f"the source is of type {type(source).__name__}",
            "pass a tensor, or a flat array, of floats.",
        )
    return tensor


def resample(
    source: Array,
    shape: Sequence[int],
    filter: Filter = "cubic",
    filter_radius: float | None = None,
    boundary: str = "zero",
    mode: str | None = None,
) -> Any:
    """Change the resolution of a tensor, or a flat array, along its axes.

    Args:
        source: tensor or flat array of floats.
        shape: the new sizes.
        filter: "box", "linear", "hamming", "cubic", "lanczos" or "gaussian"; or a
            function from a distance, in entries of the result where there are fewer
            of them, to a weight.
        filter_radius: distance from which on such a function is 0.
        boundary: what is beyond the ends: "zero" (nothing, and the other weights add up
            to 1), "nearest" (the last entry), "wrap" (the other end), "reflect" or
            "mirror" (entries in reverse order, with or without the last one again).
        mode: "symbolic" leaves the result unevaluated.

    Returns:
        The resampled entries, of the type of `source`.

    Raises:
        ArrayTypeError: if the entries aren't floats.
        ArrayValueError: for unknown filters and boundaries, and a radius of a filter
            that has one.
        SizeError: if the number of dimensions would change, or a size is 0.

    Source: separable filters as in the Python Imaging Library.

    >>> import lumijit as dr
    >>> dr.resample(dr.llvm.Float(1, 2, 3), (6,), "linear")
    [1, 1.25, 1.75, 2.25, 2.75, 3]
    """
    construct = "lumijit.resample"
    tensor = _source(construct, source, boundary, mode)
    if isinstance(filter, str) and filter_radius is not None:
        raise ArrayValueError(
            construct,
            f"the filter {filter!r} has a radius of its own",
            "leave 'filter_radius' out, or pass a function.",
        )
    radius, values = _function(construct, filter, filter_radius)
    sizes = tuple([whole_number("lumijit.resample", "a size", n) for n in shape])
    if len(sizes) != tensor.ndim or min(0, *sizes, *tensor.shape) < 0:
        raise SizeError(
            construct,
            f"can't change the shape {tensor.shape} to {sizes}",
            "pass a size for each dimension.",
        )
    for axis, size in enumerate(sizes):
        old = tensor.shape[axis]
        if size == old:
            continue
        if not size or not old:
            raise SizeError(
                construct, f"axis {axis} has size {min(size, old)}", "pass entries."
            )
        scale = max(old / size, 1.0)
        centers = (np.arange(size) + 0.5) * (old / size)
        first = np.floor(centers - radius * scale + 0.5).astype(np.int64)
        count = int(np.max(np.floor(centers + radius * scale + 0.5) - first))
        places = first[:, None] + np.arange(count)
        weights = values((places - centers[:, None] + 0.5) / scale)
        tensor = _filtered(tensor, axis, places, weights, boundary, True)
    return _finished(source, tensor, mode)


def convolve(
    source: Array,
    filter: Filter | Sequence[float] | Array,
    filter_radius: float | None = None,
    *,
    axis: Any = None,
    boundary: str = "zero",
    normalize: bool = False,
    mode: str | None = None,
) -> Any:
    """Convolve a tensor, or a flat array, with a filter along axes.

    Args:
        source: tensor or flat array of floats.
        filter: weights, as of `numpy.convolve(…, mode="same")`, by which there are no
            derivatives; a function from a distance to a weight; or a name, as of
            `resample`.
        filter_radius: distance from which on a function is 0; the factor by which a
            named filter is made wider.
        axis: axis or axes; None for all.
        boundary: what is beyond the ends, as of `resample`; with "zero", zeros.
        normalize: whether to have the weights of each result add up to 1.
        mode: "symbolic" leaves the result unevaluated.

    Returns:
        The filtered entries, of the type and shape of `source`.

    Raises:
        ArrayTypeError: if the entries aren't floats.
        ArrayValueError: for unknown filters and boundaries.

    >>> import lumijit as dr
    >>> dr.convolve(dr.llvm.Float(1, 2, 3, 4), [1, 1, 1])
    [3, 6, 9, 7]
    """
    construct = "lumijit.convolve"
    tensor = _source(construct, source, boundary, mode)
    if hasattr(filter, "__len__") and not isinstance(filter, str):
        weights: Any = filter
        if isinstance(weights, ArrayBase) and grad_enabled(weights):
            raise ArrayValueError(
                construct,
                "the weights are tracked, and there are no derivatives by weights",
                "pass lumijit.detach(weights), or add up products of slices.",
            )
        if filter_radius is not None or not len(weights):
            raise ArrayValueError(
                construct,
                "weights have no radius, and there must be one at least",
                "leave 'filter_radius' out.",
            )
        taps = np.array([float(w) for w in weights])[::-1]
        offsets = np.arange(len(taps)) - len(taps) // 2
    else:
        radius, values = _function(construct, filter, filter_radius)
        scale = 1.0
        if isinstance(filter, str):
            scale = 1.0 if filter_radius is None else float(filter_radius)
        reach = math.floor(radius * scale)
        offsets = np.arange(-reach, reach + 1)
        taps = values((offsets if isinstance(filter, str) else -offsets) / scale)
    axes = list(range(tensor.ndim)) if axis is None else axis
    for k in checked_axes(construct, axes, tensor.ndim):
        places = np.arange(tensor.shape[k])[:, None] + offsets
        weights = np.broadcast_to(taps, places.shape)
        tensor = _filtered(tensor, k, places, weights, boundary, normalize)
    return _finished(source, tensor, mode)


def _finished(source: Any, tensor: Any, mode: Any) -> Any:
    if mode != "symbolic":
        evaluate(tensor)
    result = tensor if type(source) is type(tensor) else tensor.array
    return result._copy() if result is source else result


def _filtered(
    tensor: Any, axis: int, places: Any, weights: Any, boundary: str, normalize: bool
) -> Any:
    """Add up entries along an axis: those at a row of places are a result."""
    size, array = tensor.shape[axis], type(tensor.array)
    shape = (*tensor.shape[:axis], len(places), *tensor.shape[axis + 1 :])
    count = math.prod(shape)
    if not size or not count:
        return type(tensor)(zeros(array, count), shape)
    if boundary == "zero":
        weights = np.where((places >= 0) & (places < size), weights, 0)
    places = _inside(places, size, boundary)
    if normalize:
        weights = weights / weights.sum(axis=1, keepdims=True)
    inner = math.prod(tensor.shape[axis + 1 :])
    index = index_class(tensor.array._spec)
    entry = arange(index, count)
    row = entry // inner % len(places)
    start = entry // (inner * len(places)) * (size * inner) + entry % inner
    result = zeros(array, count)
    for number, tap in enumerate(np.flatnonzero(weights.any(axis=0))):
        place = _column(index, places[:, tap] * inner, row)
        weight = _column(array, weights[:, tap], row)
        result = fma(rearranged(tensor.array, start + place), weight, result)
        if number % _TAPS == _TAPS - 1:
            evaluate(result)
    return type(tensor)(result, shape)


def _column(cls: Any, values: Any, row: Any) -> Any:
    """Return the values of rows as an array; a number if all are the same."""
    first = values[0].item()
    return first if (values == first).all() else rearranged(cls(values), row)


def _inside(places: Any, size: int, boundary: str) -> Any:
    """Return where an entry beyond the ends is taken from."""
    if boundary == "wrap":
        return places % size
    if boundary in ("reflect", "mirror"):
        again = int(boundary == "reflect")
        period = max(2 * size - 2 + 2 * again, 1)
        turned = places % period
        return np.where(turned < size, turned, period - again - turned)
    return np.clip(places, 0, size - 1)


def upsample(
    source: Any, shape: Sequence[int] | None = None, scale_factor: Any = None
) -> Any:
    """Repeat the entries of a tensor along its axes, or look up those of a texture.

    Args:
        source: tensor, or texture, of which the last axis (channels) stays.
        shape: the new sizes, multiples of the old ones; fewer sizes leave the last
            dimensions as they are.
        scale_factor: how often entries are repeated, in place of `shape`.

    Returns:
        A tensor; of a texture, another one, of what its own lookup gives.

    Raises:
        SizeError: if sizes are no multiples, which for textures they needn't be.

    >>> import lumijit as dr
    >>> dr.upsample(dr.llvm.TensorXf([1, 2]), scale_factor=(2,))
    [1, 1, 2, 2]
    """
    construct = "lumijit.upsample"
    if (shape is None) == (scale_factor is None):
        raise ArrayValueError(
            construct, "there must be a shape or factors", "pass one of them."
        )
    if hasattr(source, "_upsampled"):
        return source._upsampled(construct, shape, scale_factor)
    tensor = as_tensor(construct, source)
    old = tensor.shape
    given = [operator.index(n) for n in (scale_factor if shape is None else shape)]
    missing = len(old) - len(given)
    if missing < 0:
        raise SizeError(
            construct, f"{len(given)} sizes for {len(old)} dimensions", "pass fewer."
        )
    if shape is None:
        factors = given + [1] * missing
    else:
        given += old[len(given) :]
        factors = [n // max(m, 1) for m, n in zip(old, given, strict=True)]
        if any(m * f != n for m, f, n in zip(old, factors, given, strict=True)):
            raise SizeError(
                construct,
                f"the shape {tuple(given)} is no multiple of {old}",
                "use lumijit.resample.",
            )
    return stretched(tensor, factors)
