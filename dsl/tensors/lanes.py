"""The shape of the lanes of constructs whose condition is a tensor.

Lanes are entries of the tensor, in the order that these have in memory. What holds one
entry for each, but no shape, has theirs: a counter in a loop over a picture, say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any

from lumijit import pytree, type_traits
from lumijit.arrays import FlatArray
from lumijit.runtime.contexts import Variable
from lumijit.standing import stands

if TYPE_CHECKING:
    from lumijit.tensors.views import Shape

#: That of the construct that runs, innermost; empty if there is none.
LANES: Variable[Shape] = Variable("the shape of the lanes", ())


def of(count: int) -> Shape | None:
    """Return the shape of the lanes, if there are so many, and several."""
    shape = LANES.get()
    return shape if count > 1 and math.prod(shape) == count else None


def matched(shapes: list[Shape]) -> list[Shape]:
    """Return shapes of operands: of a tensor like the lanes, and of values of each."""
    shape = LANES.get()
    if shape not in shapes:
        return shapes
    each = (math.prod(shape),)
    return [shape if found == each else found for found in shapes]


def along(condition: Any, construct: Callable[[], Any]) -> Any:
    """Run a construct whose condition is a tensor; return its results.

    Numbers that differ between the elements are tensors like the condition.
    """
    is_outermost = not LANES.get()
    with LANES.during(condition.shape):
        results = construct()
    if not is_outermost or len(condition.shape) == 1:
        return results
    if type(results) is tuple:
        return tuple([_shaped(value, condition.shape) for value in results])
    return _shaped(results, condition.shape)


def _shaped(value: Any, shape: Shape) -> Any:
    """Return a result with such tensors; itself if there are none in it."""
    parts = pytree.Parts((value,))
    leaves = [_tensor_of(leaf, shape) for leaf in parts.leaves]
    if all(map(is_, leaves, parts.leaves)):
        return value
    return parts.together(leaves)[0]


def _tensor_of(value: Any, shape: Shape) -> Any:
    """Return a tensor of an array that stands for a number of each element."""
    if not isinstance(value, FlatArray) or not stands(value):
        return value
    if len(value) != math.prod(shape):
        return value
    return type_traits.tensor_t(type(value))(value, shape)
