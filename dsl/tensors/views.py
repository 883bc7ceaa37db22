"""Views: which entries of a flat array make up a tensor, and in which shape.

A subscript, a broadcast shape, a permutation of axes are all a start and, for each
dimension, the distance of its entries; index arrays give offsets in place of one.
`positions` turns that into an index array, in the one place that does; known parts
fold. What subscripts mean is in `subscripts`.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np

from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.record import memory
from lumijit.compiler.transform.substitution import at_positions
from lumijit.functions.creation import full
from lumijit.functions.gathering import gather
from lumijit.functions.sizes import strides
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import SizeError
from lumijit.spec import ArraySpec, require
from lumijit.tensors import lanes

Shape = tuple[int, ...]
#: Beyond all arrays: where index arrays point that leave their dimension.
OUTSIDE = 1 << 31
_WRAP = 1 << 32


class View:
    """Entries of a flat array: `start`, and the size and step of each dimension.

    A step is the distance of neighbours, or a flat array with an offset for each
    entry. `shape` may write a dimension of `runs` as several.
    """

    __slots__ = ("_joined", "is_known", "runs", "shape", "size", "start")
    shape: Shape
    start: int
    runs: tuple[tuple[int, Any], ...]
    size: int  # the number of entries
    is_known: bool  # whether all positions are known while tracing
    _joined: list[tuple[int, Any]]  # runs, those that follow each other evenly as one

    def __init__(
        self, shape: Shape, start: int, runs: tuple[tuple[int, Any], ...]
    ) -> None:
        self.shape = shape
        self.start = start
        self.runs = runs
        self.size = math.prod(shape)
        self.is_known = True
        self._joined = joined = []
        before = None
        for run in runs:
            size, step = run
            if isinstance(step, ArrayBase):
                self.is_known = False
                before = None
            elif size == 1:
                continue
            elif before is not None and before[1] == step * size:
                joined.pop()
                run = before = (before[0] * size, step)
            else:
                before = run
            joined.append(run)

    @property
    def is_injective(self) -> bool:
        """Whether surely no entry is there twice."""
        return self.is_known and all(step for size, step in self.runs if size > 1)

    def is_all_of(self, size: int) -> bool:
        """Tell whether these are the entries of an array of `size`, in order."""
        if not self.is_known or self.size != size:
            return False
        return size == 0 or self._joined in ([(size, 1)], [])

    def forwards(self) -> View:
        """Return the same entries in an order that goes back along no dimension."""
        start, runs, has_changed = self.start, [], False
        for size, step in self.runs:
            if not isinstance(step, ArrayBase) and step < 0:
                start += (size - 1) * step
                step = -step
                has_changed = True
            runs.append((size, step))
        return View(self.shape, start, tuple(runs)) if has_changed else self

    def positions(self, dtype: type[Any]) -> Any:
        """Return where the entries lie, as integers of a flat 32-bit unsigned type."""
        total, runs = self.size, self._joined
        if total == 0 or _is_one_entry(runs):
            return full(dtype, self.start % _WRAP, total)
        if dtype._spec.is_jit:
            number = placement.counter(total, dtype._spec.backend.device)
            return wrap_flat(dtype, _positions(number, self.start % _WRAP, runs))
        places = np.array([self.start])
        for size, step in runs:
            is_known = not isinstance(step, ArrayBase)
            offsets = np.arange(size) * step if is_known else np.asarray(step, np.int64)
            places = np.add.outer(places, offsets).ravel()
        return dtype(places % _WRAP)

    def entries(self, flat: Array) -> Array:
        """Return the entries of an array at the positions; another array object."""
        if self.is_all_of(len(flat)):
            return flat._copy()
        index = self.positions(index_class(flat._spec))
        if not isinstance(flat, FlatArray):
            return gather(type(flat), flat, index)
        return wrap_flat(type(flat), self._entries(flat._node, index._node))

    def _entries(self, source: Node, index: Node) -> Node:
        if source.vertex is None and self.is_known:
            short = at_positions(source, index)
            if short is not None and short.size == index.size:
                return short
        if not self.is_known:
            return memory.gather(source, index, trace.make_true(1))
        node = memory.read_inside(source, index)
        if self.is_injective and node.vertex is not None and node is not source:
            node.vertex.mode = "permute"
        return node


def _is_one_entry(runs: list[tuple[int, Any]]) -> bool:
    return all(not isinstance(step, ArrayBase) and not step for _, step in runs)


def _positions(number: Node, start: int, runs: list[tuple[int, Any]]) -> Node:
    """Return `start` and, for each run, what the coordinate of an entry by it adds.

    `number` counts the entries. A coordinate is how often all runs inside of one have
    begun anew, less what that has gone through the run itself: each of these quotients
    is multiplied once, by both.
    """
    result = trace.literal(UINT32, start) if start else None
    through = 0
    for place in range(len(runs) - 1, -1, -1):
        size, step = runs[place]
        rest = _by(ar.INT_DIV, number, size) if place else None
        factor = -through
        if isinstance(step, ArrayBase):
            coordinate = number
            if rest is not None:
                coordinate = trace.emit2(ar.SUB, number, _by(ar.MUL, rest, size))
            offset = step._node
            if len(runs) > 1 or len(step) != number.size:
                offset = memory.read_inside(offset, coordinate)
            result = _sum(result, offset)
            through = 0
        else:
            factor += step
            through = size * step
        if factor > 0:
            result = _sum(result, _by(ar.MUL, number, factor))
        elif factor < 0:
            result = _sum(result, _by(ar.MUL, number, -factor), ar.SUB)
        if rest is not None:
            number = rest
    assert result is not None
    return result


def _sum(total: Node | None, part: Node, op: Op = ar.ADD) -> Node:
    if total is None:
        if op is ar.ADD:
            return part
        total = trace.literal(UINT32, 0)
    return trace.emit2(op, total, part)


def _by(op: Op, node: Node, number: int) -> Node:
    """Multiply or divide by a number."""
    if number == 1:
        return node
    return trace.emit2(op, node, trace.literal(UINT32, number % _WRAP))


def view(shape: Shape, steps: Shape, start: int = 0) -> View:
    """Return the view with these steps."""
    return View(shape, start, tuple(zip(shape, steps, strict=True)))


def broadcast(shape: Shape, wide: Shape) -> View:
    """Return what an array of a shape is in a wider one, to which it broadcasts."""
    steps = [0] * (len(wide) - len(shape)) + [
        0 if size == 1 else step
        for size, step in zip(shape, strides(shape), strict=True)
    ]
    return view(wide, tuple(steps))


def of_one_shape(construct: str, operands: tuple[Any, ...]) -> tuple[Shape, list[Any]]:
    """Return the shape of a result and the operands' entries, as many as it has.

    One entry may stand for all.
    """
    shape: Shape = ()
    shapes = [o._shape for o in operands]
    for found in shapes:
        if found and found != shape:
            if shape:
                break
            shape = found
    else:
        return shape, [o._flat for o in operands]
    shapes = lanes.matched(shapes)
    try:
        shape, wide = _broadcast(tuple(shapes))
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise SizeError(
            construct,
            f"the tensors' shapes {listed} don't broadcast",
            "make them equal from the last dimension on, or 1, or leave them out: "
            "x[:, None] adds a dimension of size 1.",
        ) from None
    return shape, [
        o._flat if view is None else view.entries(o._flat)
        for o, view in zip(operands, wide, strict=True)
    ]


@lru_cache(maxsize=1024)
def _broadcast(shapes: tuple[Shape, ...]) -> tuple[Shape, list[View | None]]:
    """Return the shape to which others broadcast, and what each is in it.

    None: itself, or one entry.
    """
    shape = np.broadcast_shapes(*shapes)
    return shape, [
        None if known == shape or math.prod(known) == 1 else broadcast(known, shape)
        for known in shapes
    ]


def broadcasts(shape: Shape, wide: Shape) -> bool:
    """Tell whether a shape broadcasts to another one."""
    tail = wide[len(wide) - len(shape) :]
    return len(shape) <= len(wide) and all(
        m in (1, n) for m, n in zip(shape, tail, strict=True)
    )


@cache
def index_class(spec: ArraySpec) -> type[Any]:
    """Return the type of flat positions beside arrays of a kind."""
    outer = spec.outer if not spec.is_jit else ()
    return require(spec.replaced(dtype=UINT32, outer=outer).plain(), "index")
