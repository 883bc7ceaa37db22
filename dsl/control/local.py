"""Local memory: `alloc_local` and `Local`, small buffers private to each element.

Owns buffers of PyTrees, which consist of one buffer for each flat array, and those of
the `scalar` namespace, which are Python lists. What an access is in the trace, and
how buffers get through loops and branches, is in `compiler.local`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from lumijit import promotion, traits
from lumijit.base import ArrayBase
from lumijit.compiler import checks, local, trace
from lumijit.control.state import Leaf, flatten, rebuild, with_node, zeros_like
from lumijit.functions.creation import zeros
from lumijit.functions.memory import index_array, mask_array
from lumijit.functions.repetition import copy as copy_tree
from lumijit.pytree import tree_leaves, tree_map
from lumijit.runtime.config import flags
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    message,
)

T = TypeVar("T")
_NUMBERS = (bool, int, float)


def alloc_local(dtype: type[T], size: int, value: T | None = None) -> Local[T]:
    """Allocate a small buffer that each element of the computation has for itself.

    Symbolic loops may read and write its entries at computed positions, which
    gather and scatter can't do with one array. A kernel reserves memory of `size`
    entries for each lane while it runs: on the stack, or for each thread.

    The same in plain Python, for one element:

        [copy.deepcopy(value) for _ in range(size)]

    Args:
        dtype: type of the entries: an array type, a dataclass or a class with
            DRJIT_STRUCT. Containers take a `value` as pattern: `tuple`, `list`,
            `dict`.
        size: number of entries, a Python int.
        value: instance of `dtype` that all entries start with; may differ between
            elements. Without it, entries are undefined until they are written.

    Returns:
        The buffer.

    Raises:
        ArrayTypeError: `size` is no int, or `dtype` holds no arrays.
        ArrayValueError: `size` is negative.
        SizeError: `size` is beyond a million.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> buffer = dr.alloc_local(Float, 4, value=dr.zeros(Float))
    >>> buffer[UInt(0, 1, 3)] = Float(10, 20, 30)
    >>> buffer[3]
    [0, 0, 30]
    >>> buffer
    Local[lumijit.llvm.Float, 4]
    """
    count = _checked_size(size)
    pattern = _pattern(dtype, value)
    leaves = flatten((pattern,), ("value",))
    if any(leaf.is_array for leaf in leaves):
        store: Any = _Traced(dtype, count, pattern, value is not None)
    elif any(_is_plain(leaf) for _, leaf in tree_leaves(pattern)):
        store = _Listed([copy_tree(pattern) for _ in range(count)], pattern)
    else:
        raise _no_entries(dtype)
    result: Local[T] = object.__new__(Local)
    result._dtype, result._store = dtype, store
    return result


def _checked_size(size: Any) -> int:
    if isinstance(size, bool) or not isinstance(size, int):
        raise ArrayTypeError(
            message(
                "alloc_local",
                f"'size' must be known while tracing (expected int, got "
                f"{type(size).__name__})",
                "pass a Python int.",
            )
        )
    if size < 0:
        raise ArrayValueError(
            message("alloc_local", f"the size {size} is negative", "pass 0 or more.")
        )
    if size > local.MAX_LENGTH:
        raise local.too_long(size)
    return size


def _pattern(dtype: Any, value: Any) -> Any:
    """Return an instance of the entries' type: their initial value, or zeros."""
    if value is None:
        if not isinstance(dtype, type):
            raise _no_entries(dtype)
        if dtype in (tuple, list, dict):
            raise ArrayTypeError(
                message(
                    "alloc_local",
                    f"the type {dtype.__name__!r} doesn't say what it contains",
                    "pass an instance as 'value'.",
                )
            )
        return zeros(dtype)
    if not isinstance(dtype, type) or not isinstance(value, dtype):
        is_number = isinstance(dtype, type) and isinstance(value, _NUMBERS)
        if is_number and issubclass(dtype, (ArrayBase, *_NUMBERS)):
            return cast(Any, dtype)(value)
        raise ArrayTypeError(
            message(
                "alloc_local",
                f"'value' isn't of the type of the entries (expected "
                f"{getattr(dtype, '__name__', dtype)!s}, got {type(value).__name__})",
                "pass an instance of the type, or no value.",
            )
        )
    return value


def _is_plain(value: Any) -> bool:
    """Tell whether a leaf is a number or an array of the `scalar` namespace."""
    return isinstance(value, (ArrayBase, *_NUMBERS))


def _no_entries(dtype: Any) -> ArrayTypeError:
    return ArrayTypeError(
        message(
            "alloc_local",
            f"can't make entries of type {getattr(dtype, '__name__', dtype)!r}",
            "pass an array type, or a dataclass or DRJIT_STRUCT class of arrays.",
        )
    )


class Local(Generic[T]):
    """A buffer that each element has for itself; made by `alloc_local`.

    `Local(other)` is an independent copy; `x = other` is another name for the same
    buffer. Loops and branches that write to a buffer change it, whether it is one
    of their variables or found through an object or a closure.

    Indices are UInt32 arrays, or what converts to one. A Python int is checked.
    Other indices beyond the end read anything, and write nothing; with flag Debug
    they read zero, and a warning names the line. Derivatives are not tracked.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> squares = dr.alloc_local(UInt, 10)
    >>> for k in range(10):
    ...     squares[k] = UInt(k * k)
    >>> squares[UInt(2, 3, 9)], len(squares)
    ([4, 9, 81], 10)
    """

    __slots__ = ("_dtype", "_store")
    _dtype: type[T]
    _store: _Traced | _Listed

    def __init__(self, other: Local[T]) -> None:
        """Copy a buffer."""
        if not isinstance(other, Local):
            raise ArrayTypeError(
                message(
                    "Local",
                    f"can't copy a {type(other).__name__} as a local buffer",
                    "make buffers with lumijit.alloc_local.",
                )
            )
        self._dtype = other._dtype
        self._store = other._store.copy()

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._store.size

    def read(self, index: Any, active: Any = True) -> T:
        """Return the entry at `index`.

        Args:
            index: position: int, or integer array; not negative.
            active: mask; the result is 0 where it isn't set.

        Returns:
            An instance of the entries' type.

        Raises:
            ArrayIndexError: an int is out of range.
            ArrayTypeError: the index is no integer.

        >>> import lumijit as dr
        >>> from lumijit.llvm import Bool, Float
        >>> x = dr.alloc_local(Float, 2, value=Float(7, 8))
        >>> x.read(0, active=Bool(True, False))
        [7, 0]
        """
        return cast(T, self._store.read(index, active))

    def write(self, value: T, index: Any, active: Any = True) -> None:
        """Replace the entry at `index` by a value.

        Args:
            value: instance of the entries' type, or what converts to one without
                loss.
            index: position: int, or integer array; not negative.
            active: mask of the elements that write.

        Raises:
            ArrayIndexError: an int is out of range.
            ArrayTypeError: the index is no integer, or the value of another type.

        >>> import lumijit as dr
        >>> from lumijit.llvm import Bool, Float
        >>> x = dr.alloc_local(Float, 2, value=Float(7))
        >>> x.write(Float(1), 0, active=Bool(True, False))
        >>> x[0]
        [1, 7]
        """
        self._store.write(value, index, active)

    def __getitem__(self, index: Any) -> T:
        """Return the entry at a position."""
        return self.read(index)

    def __setitem__(self, index: Any, value: T) -> None:
        """Replace the entry at a position."""
        self.write(value, index)

    def __copy__(self) -> Local[T]:
        """Return an independent copy."""
        return Local(self)

    def __deepcopy__(self, memo: Any) -> Local[T]:
        """Return an independent copy."""
        return Local(self)

    def _copy(self) -> Local[T]:
        """Serve `lumijit.copy`."""
        return Local(self)

    @property
    def _holders(self) -> list[local.Holder]:
        """The buffers of the trace, for `lumijit.eval` and its like."""
        return self._store.holders if isinstance(self._store, _Traced) else []

    def __repr__(self) -> str:
        """Name the type of the entries and their number."""
        cls = self._dtype
        module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
        return f"Local[{module}{cls.__qualname__}, {len(self)}]"


def _checked_index(index: Any, size: int, construct: str) -> Any:
    """Check what can be checked of an index while tracing."""
    if isinstance(index, ArrayBase):
        is_integer = traits.is_integral_v(index) and not traits.is_mask_v(index)
        if is_integer and traits.depth_v(index) <= 1:
            return index
    elif isinstance(index, int) and not isinstance(index, bool):
        if not 0 <= index < size:
            raise ArrayIndexError(
                message(
                    construct,
                    f"position {index} is out of bounds (the buffer has {size} "
                    "entries)",
                    "use positions from 0 to size - 1.",
                )
            )
        return index
    raise ArrayTypeError(
        message(
            construct,
            f"the index has type {type(index).__name__!r}",
            "pass an int, or a flat integer array.",
        )
    )


class _Traced:
    """A buffer of traced arrays: one buffer of the trace for each flat one.

    `pattern` is an instance of the entries' type, `classes` are those of its leaves
    (None for leaves that are no arrays, and so no part of the entries).
    """

    def __init__(self, dtype: Any, size: int, pattern: Any, is_filled: bool) -> None:
        leaves = flatten((pattern,), ("value",))
        for leaf in leaves:
            if not leaf.is_array and _is_plain(leaf.value):
                raise _mixed(leaf)
        arrays = [leaf.value for leaf in leaves if leaf.is_array]
        self.dtype = dtype
        self.size = size
        self.pattern = zeros_like(pattern)
        self.names = [leaf.name for leaf in leaves]
        self.classes = [type(f.value) if f.is_array else None for f in leaves]
        self.others = [None if f.is_array else f.value for f in leaves]
        self.space: str = type(arrays[0])._spec.space
        self.holders = [
            local.allocate(a._node.type, size, a._node if is_filled else None)
            for a in arrays
        ]

    def copy(self) -> _Traced:
        """Return a buffer with the same contents."""
        result = object.__new__(_Traced)
        result.__dict__.update(self.__dict__)
        result.holders = [local.copy(holder) for holder in self.holders]
        return result

    def _access(self, index: Any, active: Any, construct: str) -> Any:
        """Return the nodes of an index and a mask."""
        index = _checked_index(index, self.size, construct)
        positions = index_array(self.space, index, construct)._node
        mask = mask_array(self.space, active, construct)._node
        if flags.debug:
            mask = trace.under_mask(mask)
            mask = checks.in_bounds(construct, self.size, positions, mask)
        return positions, mask

    def read(self, index: Any, active: Any) -> Any:
        """Return the entry at `index`."""
        positions, mask = self._access(index, active, "Local.read")
        holders = iter(self.holders)
        values = [
            with_node(cls, local.read(next(holders), positions, mask)) if cls else other
            for cls, other in zip(self.classes, self.others, strict=True)
        ]
        return rebuild((self.pattern,), values)[0]

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
        leaves = flatten((value,), ("value",))
        if [leaf.name for leaf in leaves] != self.names:
            raise _wrong_value(type(self.pattern), value)
        pairs = zip(self.classes, leaves, strict=True)
        return [_converted(cls, leaf.value) for cls, leaf in pairs if cls]


def _converted(cls: Any, value: Any) -> Any:
    """Convert a value to an array type if its entries keep their type."""
    if type(value) is cls:
        return value
    if not _is_plain(value):
        raise _wrong_value(cls, value)
    spec = promotion.common_spec((zeros(cls), value), "Local.write")
    if spec.dtype is not cls._spec.dtype or spec.outer != cls._spec.outer:
        raise _wrong_value(cls, value)
    return cls(value)


def _wrong_value(cls: Any, value: Any) -> ArrayTypeError:
    name = getattr(cls, "__name__", repr(cls))
    return ArrayTypeError(
        message(
            "Local.write",
            f"can't write a value of type {type(value).__name__!r} to entries of "
            f"type {name!r}",
            f"convert it to {name} first.",
        )
    )


def _mixed(leaf: Leaf) -> ArrayTypeError:
    return ArrayTypeError(
        message(
            "alloc_local",
            f"'{leaf.name}' is no traced array but of type "
            f"{type(leaf.value).__name__!r}, while others are",
            "use array types for all parts.",
        )
    )


class _Listed:
    """A buffer of the `scalar` namespace: a list of entries."""

    def __init__(self, items: list[Any], pattern: Any) -> None:
        self.items = items
        self.pattern = pattern

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.items)

    def copy(self) -> _Listed:
        """Return a buffer with the same contents."""
        return _Listed([copy_tree(item) for item in self.items], self.pattern)

    def _position(self, index: Any, construct: str) -> int:
        if isinstance(index, ArrayBase):
            raise ArrayTypeError(
                message(
                    construct,
                    f"the index is a {type(index).__name__} array, but the buffer "
                    "belongs to the scalar namespace",
                    "pass an int.",
                )
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
            is_simple = _is_plain(value) and _is_plain(self.pattern)
            is_lossy = isinstance(value, float) and cls in (int, bool)
            if not is_simple or is_lossy:
                raise _wrong_value(cls, value)
            value = cls(value)
        if active:
            self.items[self._position(index, "Local.write")] = copy_tree(value)


def _blank(value: Any) -> Any:
    """Return a zero like a number or an array of the `scalar` namespace."""
    if not _is_plain(value):
        return value
    cls = type(value)
    return zeros(cls, len(value)) if traits.is_dynamic_v(cls) else zeros(cls)
