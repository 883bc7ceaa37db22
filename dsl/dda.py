"""Digital differential analyzers: walks along rays through the cells of a grid.

Positions are ordered by axis (X, Y, Z), resolutions and cells the other way (Z, Y, X),
as the shapes of tensors and textures are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

from lumijit.base import ArrayBase
from lumijit.control.loop import while_loop
from lumijit.functions.elementwise import clip, floor, fma, maximum, minimum
from lumijit.functions.gathering import gather_run
from lumijit.functions.masks import all as all_
from lumijit.functions.reductions import max as max_
from lumijit.functions.reductions import min as min_
from lumijit.functions.selection import select
from lumijit.functions.vectors import dot, norm
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.spec import TENSOR
from lumijit.type_traits import expr_t, int32_array_t, uint32_array_t, value_t

__all__ = ["dda", "integrate"]

_INFINITY = float("inf")


def dda(
    ray_o: Any,
    ray_d: Any,
    ray_max: Any,
    grid_res: Any,
    grid_min: Any,
    grid_max: Any,
    func: Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]],
    state: Any,
    active: Any = True,
    mode: str | None = None,
    max_iterations: int | None = None,
) -> Any:
    """Call a function for each cell of a grid that a ray passes, in their order.

    Args:
        ray_o: origin of the ray, a static array of N floats.
        ray_d: its direction, of any length.
        ray_max: how far the ray reaches, as a multiple of `ray_d`; may be infinite.
        grid_res: number of cells along each axis, the last one first; 32-bit integers.
        grid_min: corner of the grid with the smallest coordinates.
        grid_max: corner of the grid with the largest coordinates.
        func: gets the state, the cell (the last axis first, of the type of
            `grid_res`), the points where the ray enters and leaves it (between 0 and
            1 within the cell) and the mask of rays that are in one. It returns the
            new state and whether to go on.
        state: the first state, any PyTree.
        active: which rays to follow.
        mode: "scalar", "symbolic" or "evaluated", as for `while_loop`.
        max_iterations: as for `while_loop`.

    Returns:
        The last state.

    Raises:
        ArrayTypeError: if the ray is no static array of floats, or the resolution
            none of 32-bit integers.

    Source: Amanatides and Woo, "A fast voxel traversal algorithm for ray tracing"
    (1987); positions are counted anew in each cell, so they stay exact.

    >>> import lumijit as dr
    >>> from lumijit.scalar import Array2f, Array2u
    >>> def visit(cells, index, enter, leave, active):
    ...     return cells + [tuple(index)], True
    >>> box = Array2f(0), Array2f(1)
    >>> dr.dda.dda(
    ...     Array2f(-1, 0.3), Array2f(1, 0), 5.0, Array2u(2, 2), *box, visit, []
    ... )
    [(0, 0), (0, 1)]
    """
    cls, cells = _checked(ray_o, ray_d, grid_res)
    size = cls(_reversed(grid_res))
    scale = size / (grid_max - grid_min)
    origin, direction = (ray_o - grid_min) * scale, ray_d * scale
    near, far = _overlap(origin, direction, size, ray_max)
    start = clip(fma(direction, near, origin), 0, size)
    first = minimum(floor(start), size - 1)
    cell = int32_array_t(cls)(first)
    last = int32_array_t(cls)(size) - 1
    step = int32_array_t(cls)(select(direction < 0, -1, 1))
    is_still, is_forward = direction == 0, direction > 0

    def visit(
        state: Any, cell: Any, enter: Any, rest: Any, active: Any
    ) -> tuple[Any, ...]:
        ahead = (select(is_forward, 1.0, 0.0) - enter) / direction
        ahead = select(is_still, _INFINITY, ahead)
        length = minimum(min_(ahead, axis=0), rest)
        crosses = ahead <= length
        inside = clip(fma(direction, select(is_still, 0.0, length), enter), 0, 1)
        leave = select(crosses, select(is_forward, 1.0, 0.0), inside)
        state, goes_on = func(state, cells(_reversed(cell)), enter, leave, active)
        cell = select(crosses, cell + step, cell)
        enter = select(crosses, select(is_forward, 0.0, 1.0), leave)
        rest = rest - length
        is_inside = all_((cell >= 0) & (cell <= last), axis=0)
        return state, cell, enter, rest, active & goes_on & is_inside & (rest > 0)

    active = active & (near <= far)
    found = while_loop(
        (state, cell, start - first, far - near, active),
        lambda *state: state[-1],
        visit,
        labels=("state", "cell", "enter", "rest", "active"),
        label="dda",
        mode=mode,
        max_iterations=max_iterations,
    )
    return found[0]


def _checked(ray_o: Any, ray_d: Any, grid_res: Any) -> tuple[Any, Any]:
    """Return the types of positions and of cells."""
    for name, value in (("ray_o", ray_o), ("ray_d", ray_d)):
        spec = value._spec if isinstance(value, ArrayBase) else None
        if spec is None or not spec.dtype.is_float or len(spec.outer) != 1:
            raise ArrayTypeError(
                "lumijit.dda",
                f"{name!r} has type {type(value).__name__!r} (expected a static array "
                "of floats)",
                "pass a position such as Array3f.",
            )
    cls = expr_t(ray_o, ray_d)
    if type(grid_res) not in (int32_array_t(cls), uint32_array_t(cls)):
        raise ArrayTypeError(
            "lumijit.dda",
            f"'grid_res' has type {type(grid_res).__name__!r} (expected "
            f"{uint32_array_t(cls).__name__})",
            "convert it, with the number of cells along the last axis first.",
        )
    return cls, type(grid_res)


def _reversed(value: Any) -> list[Any]:
    return list(value)[::-1]


def _overlap(origin: Any, direction: Any, size: Any, ray_max: Any) -> tuple[Any, Any]:
    """Return where a ray enters the box from 0 to `size`, and where it leaves it."""
    is_still = direction == 0
    to_low, to_high = -origin / direction, (size - origin) / direction
    is_beside = is_still & ((origin < 0) | (origin > size))
    near = select(is_still, -_INFINITY, minimum(to_low, to_high))
    far = select(is_still, _INFINITY, maximum(to_low, to_high))
    far = select(is_beside, -_INFINITY, far)
    return maximum(max_(near, axis=0), 0.0), minimum(min_(far, axis=0), ray_max)


def integrate(
    ray_o: Any,
    ray_d: Any,
    ray_max: Any,
    grid_min: Any,
    grid_max: Any,
    vol: Any,
    active: Any = None,
    mode: str | None = None,
) -> Any:
    """Integrate a volume along rays, by length.

    The values at the corners of the cells are interpolated linearly along each axis;
    the integral is exact.

    Args:
        ray_o: origin of the ray, a static array of N floats.
        ray_d: its direction, of any length.
        ray_max: how far the ray reaches, as a multiple of `ray_d`; may be infinite.
        grid_min: corner of the grid with the smallest coordinates.
        grid_max: corner of the grid with the largest coordinates.
        vol: tensor of values, of shape (Z, Y, X) or of fewer or more dimensions; at
            least two along each.
        active: which rays to follow.
        mode: "scalar", "symbolic" or "evaluated", as for `while_loop`.

    Returns:
        The integrals, 0 for rays that miss the grid. In reverse mode, the values'
        derivatives come from one more walk, which remembers nothing.

    Raises:
        ArrayTypeError: if `vol` is no tensor of floats, or the ray no array of floats.
        SizeError: if the tensor has another number of dimensions than the ray, or
            less than two values along one.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array2f, Float, TensorXf
    >>> vol = TensorXf([[0, 1], [0, 1]])
    >>> ray = Array2f(-1, 0.5), Array2f(1, 0), Float(dr.inf)
    >>> dr.dda.integrate(*ray, Array2f(0), Array2f(4), vol)
    [2]
    """
    shape = _volume_shape(vol, ray_o)
    cls = expr_t(ray_o, ray_d)
    spacing = (grid_max - grid_min) / cls([n - 1 for n in reversed(shape)])
    pace = ray_d / spacing
    entries = vol.array
    entry = type(entries) if vol._spec.is_jit else float
    total = expr_t(entry, value_t(cls))
    speed = norm(ray_d)
    per_pace = speed / dot(pace, pace)
    per_pace = select(speed > 0, per_pace, 0.0)

    def add(
        sum_: Any, index: Any, enter: Any, leave: Any, active: Any
    ) -> tuple[Any, Any]:
        # Along a line, the interpolant is cubic at most: Simpson's rule is exact.
        points = enter, (enter + leave) * 0.5, leave
        value = _weighted(entry, entries, shape, index, points, active)
        return sum_ + value * dot(leave - enter, pace) * per_pace, True

    res = uint32_array_t(cls)([n - 1 for n in shape])
    given = ray_o, ray_d, ray_max, res, grid_min, grid_max
    is_active = True if active is None else active
    return dda(*given, add, total(0), is_active, mode)


def _volume_shape(vol: Any, ray_o: Any) -> tuple[int, ...]:
    construct = "lumijit.dda.integrate"
    spec = vol._spec if isinstance(vol, ArrayBase) else None
    if spec is None or spec.kind is not TENSOR or not spec.dtype.is_float:
        raise ArrayTypeError(
            construct,
            f"'vol' has type {type(vol).__name__!r} (expected a tensor of floats)",
            "pass one such as TensorXf.",
        )
    shape: tuple[int, ...] = vol.shape
    if len(shape) != len(ray_o) or min(shape) < 2:
        raise SizeError(
            construct,
            f"'vol' has the shape {shape} (expected {len(ray_o)} dimensions with two "
            "values at least)",
            "give it one dimension for each axis of the ray.",
        )
    return shape


def _weighted(
    entry: Any,
    entries: Any,
    shape: tuple[int, ...],
    index: Any,
    points: Any,
    active: Any,
) -> Any:
    """Average the interpolant in a cell at three points, with Simpson's weights."""
    weights = [[(1 - p, p) for p in _reversed(point)] for point in points]
    total: Any = 0
    for corner in product((0, 1), repeat=len(shape) - 1):
        row: Any = 0
        for k, up in enumerate(corner):
            row = (row + index[k] + up) * shape[k + 1]
        pair = gather_run(entry, entries, row + index[len(shape) - 1], 2, active)
        for last, value in enumerate(pair):
            first, middle, end = (
                math.prod(w[k][up] for k, up in enumerate((*corner, last)))
                for w in weights
            )
            total = total + value * (first + 4 * middle + end)
    return total * (1 / 6)
