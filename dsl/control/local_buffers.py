"""What a local buffer consists of: traced buffers for PyTrees, or a Python list.

Owns reads and writes of one buffer, and the checks of indices and values. What users
call is in `local_memory`, what an access is in the trace in `compiler.record.local`.
"""

from __future__ import annotations

from typing import Any

from lumijit import promotion, traits
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.record import checks, local
from lumijit.control.state import is_array, zeros_like
from lumijit.functions.creation import zeros
from lumijit.functions.gathering import index_array, mask_array
from lumijit.functions.repetition import copy as copy_tree
from lumijit.pytree import Parts, tree_map
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import ArrayIndexError, ArrayTypeError
from lumijit.spec import ArraySpec

_NUMBERS = (bool, int, float)


def is_plain(value: Any) -> bool:
    """Tell whether a leaf is a number or an array of the `scalar` namespace."""
    return isinstance(value, (ArrayBase, *_NUMBERS))


def _checked_index(index: Any, size: int, construct: str) -> Any:
    """Check what can be checked of an index while tracing."""
    if isinstance(index, ArrayBase):
        is_integer = traits.is_integral_v(index) and not traits.is_mask_v(index)
        if is_integer and traits.depth_v(index) <= 1:
            return index
    elif isinstance(index, int) and not isinstance(index, bool):
        if not 0 <= index < size:
            raise ArrayIndexError(
                construct,
                f"position {index} is out of bounds (the buffer has {size} entries)",
                "use positions from 0 to size - 1.",
            )
        return index
    raise ArrayTypeError(
        construct,
        f"the index has type {type(index).__name__!r}",
        "pass an int, or a flat integer array.",
    )


class TracedBuffer:
    """A buffer of traced arrays: one buffer of the trace for each flat one.

    `pattern` is an instance of the entries' type, `classes` are those of its leaves
    (None for leaves that are no arrays, and so no part of the entries).
    """

    def __init__(self, dtype: Any, size: int, pattern: Any, is_filled: bool) -> None:
        parts = Parts((pattern,), ("value",))
        for k, leaf in enumerate(parts.leaves):
            if not is_array(leaf) and is_plain(leaf):
                raise _mixed(parts.names[k], leaf)
        arrays = [leaf for leaf in parts.leaves if is_array(leaf)]
        self.dtype = dtype
        self.size = size
        self.pattern = zeros_like(pattern)
        self.parts = Parts((self.pattern,))
        self.classes = [type(v) if is_array(v) else None for v in parts.leaves]
        self.spec: ArraySpec = type(arrays[0])._spec
        self.holders = [
            local.allocate(a._node.type, size, a._node if is_filled else None)
            for a in arrays
        ]

    def copy(self) -> TracedBuffer:
        """Return a buffer with the same contents."""
        result = object.__new__(TracedBuffer)
        result.__dict__.update(self.__dict__)
        result.holders = [local.copy(holder) for holder in self.holders]
        return result

    def _access(self, index: Any, active: Any, construct: str) -> tuple[Node, Node]:
        """Return the nodes of an index and a mask."""
        index = _checked_index(index, self.size, construct)
        # Constants are the common case, and need no array objects.
        positions: Node = (
            trace.literal(UINT32, index)
            if isinstance(index, int)
            else index_array(self.spec, index, construct)._node
        )
        mask: Node = (
            trace.make_true(1)
            if active is True
            else mask_array(self.spec, active, construct)._node
        )
        if flags.debug:
            mask = trace.under_mask(mask)
            mask = checks.in_bounds(construct, self.size, positions, mask)
        return positions, mask

    def read(self, index: Any, active: Any) -> Any:
        """Return the entry at `index`."""
        positions, mask = self._access(index, active, "Local.read")
        holders = iter(self.holders)
        values = [
            wrap(cls, local.read(next(holders), positions, mask)) if cls else other
            for cls, other in zip(self.classes, self.parts.leaves, strict=True)
        ]
        return self.parts.together(values)[0]

    def write(self, value: Any, index: Any, active: Any) -> None:
        """Replace the entry at `index`."""
        nodes = [array._node for array in self._arrays(value)]
        positions, mask = self._access(index, active, "Local.write")
        for holder, node in zip(self.holders, nodes, strict=True):
            local.write(holder, node, positions, mask)

    def _arrays(self, value: Any) -> list[Any]:
        """Return the flat arrays of a value; numbers and narrower types convert."""
        if isinstance(self.pattern, ArrayBase):
            value = _converted(type(self.pattern), value)
        elif type(value) is not type(self.pattern):
            raise _wrong_value(type(self.pattern), value)
        parts = Parts((value,))
        if not parts.is_like(self.parts):
            raise _wrong_value(type(self.pattern), value)
        pairs = zip(self.classes, parts.leaves, strict=True)
        return [_converted(cls, leaf) for cls, leaf in pairs if cls]


def _converted(cls: Any, value: Any) -> Any:
    """Convert a value to an array type if its entries keep their type."""
    if type(value) is cls:
        return value
    if not is_plain(value):
        raise _wrong_value(cls, value)
    spec = promotion.common_spec((zeros(cls), value), "Local.write")
    if spec.dtype is not cls._spec.dtype or spec.outer != cls._spec.outer:
        raise _wrong_value(cls, value)
    return cls(value)


def _wrong_value(cls: Any, value: Any) -> ArrayTypeError:
    name = getattr(cls, "__name__", repr(cls))
    return ArrayTypeError(
        "Local.write",
        f"can't write a value of type {type(value).__name__!r} to entries of "
        f"type {name!r}",
        f"convert it to {name} first.",
    )


def _mixed(name: str, leaf: Any) -> ArrayTypeError:
    return ArrayTypeError(
        "alloc_local",
        f"'{name}' is no traced array but of type "
        f"{type(leaf).__name__!r}, while others are",
        "use array types for all parts.",
    )


class ListedBuffer:
    """A buffer of the `scalar` namespace: a list of entries."""

    def __init__(self, items: list[Any], pattern: Any) -> None:
        self.items = items
        self.pattern = pattern

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.items)

    def copy(self) -> ListedBuffer:
        """Return a buffer with the same contents."""
        return ListedBuffer([copy_tree(item) for item in self.items], self.pattern)

    def _position(self, index: Any, construct: str) -> int:
        if isinstance(index, ArrayBase):
            raise ArrayTypeError(
                construct,
                f"the index is a {type(index).__name__} array, but the buffer "
                "belongs to the scalar namespace",
                "pass an int.",
            )
        return int(_checked_index(index, self.size, construct))

    def read(self, index: Any, active: Any) -> Any:
        """Return a copy of the entry at `index`."""
        if not active:
            return tree_map(_blank, self.pattern)
        return copy_tree(self.items[self._position(index, "Local.read")])

    def write(self, value: Any, index: Any, active: Any) -> None:
        """Replace the entry at `index`."""
        cls = type(self.pattern)
        if type(value) is not cls:
            is_simple = is_plain(value) and is_plain(self.pattern)
            is_lossy = isinstance(value, float) and cls in (int, bool)
            if not is_simple or is_lossy:
                raise _wrong_value(cls, value)
            value = cls(value)
        if active:
            self.items[self._position(index, "Local.write")] = copy_tree(value)


def _blank(value: Any) -> Any:
    """Return a zero like a number or an array of the `scalar` namespace."""
    if not is_plain(value):
        return value
    cls = type(value)
    return zeros(cls, len(value)) if traits.is_dynamic_v(cls) else zeros(cls)
