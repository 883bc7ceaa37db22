"""Arrays that stand for Python's numbers, which nothing changes in place.

Numbers that loops change are arrays inside of them. `n += 1` then gives the name, or
the attribute, an array of its own, as it gives it a number of its own in plain Python:
who asked for `n` before keeps what it was. What operators and functions make of
such arrays and numbers stands for a number as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

import numpy as np

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder, wrap
from lumijit.compiler.ir.nodes import Node

_NUMBERS = (int, float, np.integer, np.floating)
#: The arrays, weakly, by their ids; operators ask whether there are any.
STANDING: dict[int, Any] = {}


def stand(array: Any) -> Any:
    """Have an array stand for a number, as long as it lives; return it."""
    key = id(array)

    def forget(reference: Any) -> None:
        if STANDING.get(key) is reference:
            del STANDING[key]

    STANDING[key] = ref(array, forget)
    return array


def stands(value: Any) -> bool:
    """Tell whether an array stands for a number."""
    found = STANDING.get(id(value))
    return found is not None and found() is value


def are_numbers(*values: Any) -> bool:
    """Tell whether all of some values are numbers, or stand for some."""
    for value in values:
        if isinstance(value, Holder):
            if not STANDING or not stands(value):
                return False
        elif not (issubclass(value.__class__, _NUMBERS) or stands(value)):
            return False
    return True


def stand_as(result: Any, *operands: Any) -> Any:
    """Have a result of an operator or a function stand for a number if all operands do.

    Operators ask `STANDING` first, and don't come here where nothing stands for any.
    """
    if STANDING and any(map(stands, operands)) and are_numbers(*operands):
        stand(result)
    return result


def like(array: Any, node: Node) -> Any:
    """Return another array of the type, which stands for a number if the first does."""
    other = wrap(type(array), node)
    if STANDING and stands(array):
        stand(other)
    return other


def settle(arrays: Iterable[Any]) -> None:
    """Let variables' arrays be ordinary ones after a construct in no other.

    In decorated code, `+=` gives names of numbers other arrays anyway. What objects
    have keeps standing for a number.
    """
    if STANDING and trace.is_unconditional():
        for array in arrays:
            STANDING.pop(id(array), None)


def stand_if(array: Any, *sources: Any) -> Any:
    """Have an array stand for a number if all of what it is made of do; return it."""
    return stand(array) if are_numbers(*sources) else array
