"""Arrays of others that a construct's functions meet, and may change in place.

Where code does nothing else that others could see, comparing these takes the place of
watching all that it can reach: should one have changed, the construct runs again, and
is watched. Who may do so is told by `inert`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.control.differing import are_one, is_renewed, is_written
from lumijit.nested import NestedArray
from lumijit.spec import TENSOR

_node_of = attrgetter("_node")


def is_tensor(value: Any) -> bool:
    """Tell whether a value is a tensor: a flat array and a shape."""
    return isinstance(value, ArrayBase) and value._spec.kind is TENSOR


class Met:
    """Flat arrays with what they held, and nested ones, tensors, lists, dictionaries.

    `values` are all of these, and what they are made of.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.arrays = [v for v in values if isinstance(v, FlatArray)]
        self.nodes: list[Node] = list(map(_node_of, self.arrays))
        self._lists = [(v, v[:]) for v in values if type(v) is list]
        self._lists += [
            (v._items, v._items[:]) for v in values if isinstance(v, NestedArray)
        ]
        tensors = [v for v in values if is_tensor(v)]
        self._tensors = [(v, v._flat, v._shape) for v in tensors]
        self._dicts = [(v, v.copy()) for v in values if type(v) is dict]

    def run(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        changed: Callable[[], BaseException],
    ) -> Any:
        """Return `function(*args)`; where that changes something, undo it and raise."""
        # A scatter asks who else refers to the nodes of an array.
        held = trace.state.held
        trace.state.held = (*held, self.nodes)
        try:
            result = function(*args)
        except Exception:
            if self._put_back():
                # Symbolic values that were left behind may be the reason.
                raise changed() from None
            raise
        except BaseException:
            self._put_back()
            raise
        finally:
            trace.state.held = held
        if self._put_back():
            raise changed()
        return result

    def _put_back(self) -> bool:
        """Put back what has changed; tell whether anything has."""
        found = False
        for array, before in zip(self.arrays, self.nodes, strict=True):
            now = array._node
            if now is before or is_written(array, before) or is_renewed(before, now):
                continue
            array._go_back(before)
            found = True
        for items, held in self._lists:
            if not _are_all_one(items, held):
                items[:] = held
                found = True
        for tensor, flat, shape in self._tensors:
            if tensor._flat is not flat or tensor._shape != shape:
                tensor._flat, tensor._shape = flat, shape
                found = True
        for entries, kept in self._dicts:
            is_same = entries.keys() == kept.keys()
            if not (is_same and _are_all_one(entries.values(), kept.values())):
                entries.clear()
                entries.update(kept)
                found = True
        return found


def _are_all_one(now: Collection[Any], before: Collection[Any]) -> bool:
    """Tell whether values are what they were, but for another thread's stand-ins."""
    if len(now) != len(before):
        return False
    pairs = zip(before, now, strict=True)
    return all([old is new or are_one(old, new) for old, new in pairs])
