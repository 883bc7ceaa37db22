"""Products of tensors: `@`, as NumPy has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lumijit import promotion
from lumijit.base import symbolic_error
from lumijit.compiler.derive import products
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.record.products import Sizes
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.scalar_arrays import HostArray
from lumijit.tensors.views import Shape, broadcast


def matmul(construct: str, a: Any, b: Any) -> Any:
    """Multiply the last two dimensions of tensors as matrices.

    The dimensions before them broadcast. A tensor of one dimension is a row as the
    first factor, a column as the second, and its dimension vanishes.
    """
    a, b = promotion.promote(construct, a, b)
    if a._spec.dtype is BOOL:
        raise ArrayTypeError(
            construct, "masks can't be multiplied", "convert them to numbers first."
        )
    if not a.ndim or not b.ndim:
        raise SizeError(
            construct,
            f"the shapes are {a.shape} and {b.shape}: one has no dimension",
            "use * to multiply with a number.",
        )
    first = a.shape if a.ndim > 1 else (1, *a.shape)
    second = b.shape if b.ndim > 1 else (*b.shape, 1)
    if first[-1] != second[-2]:
        raise _unfit(construct, a.shape, b.shape, "the sum's sizes differ")
    try:
        outer = np.broadcast_shapes(first[:-2], second[:-2])
    except ValueError:
        what = "the dimensions before the last two don't broadcast"
        raise _unfit(construct, a.shape, b.shape, what) from None
    sizes = Sizes(math.prod(outer), first[-2], first[-1], second[-1])
    flat = _multiplied(
        construct,
        broadcast(first, (*outer, *first[-2:])).entries(a.array),
        broadcast(second, (*outer, *second[-2:])).entries(b.array),
        sizes,
    )
    shape = outer + first[-2:-1] * (a.ndim > 1) + second[-1:] * (b.ndim > 1)
    return a._of(flat, shape)


def _multiplied(construct: str, a: Any, b: Any, sizes: Sizes) -> Any:
    if isinstance(a, HostArray):
        first = a._data.reshape(sizes.batch, sizes.rows, sizes.inner)
        second = b._data.reshape(sizes.batch, sizes.inner, sizes.columns)
        with np.errstate(all="ignore"):
            return type(a)(np.matmul(first, second).reshape(-1))
    if a._is_symbolic() or b._is_symbolic():
        raise symbolic_error(construct)
    return wrap_flat(type(a), products.matmul(a._node, b._node, sizes))


def _unfit(construct: str, a: Shape, b: Shape, problem: str) -> SizeError:
    return SizeError(
        construct,
        f"the shapes {a} and {b} don't fit: {problem}",
        "the last dimension of the first factor must be the one before the last of the "
        "second.",
    )
