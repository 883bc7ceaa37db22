"""Local memory: `alloc_local` and `Local`, small buffers private to each element.

Owns what users call. What a buffer consists of is in `buffers`; what an access is in
the trace, and how buffers get through loops and branches, in `compiler.record.local`.
"""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar, cast

from lumijit.base import ArrayBase
from lumijit.compiler.ir import local_types
from lumijit.compiler.record import local
from lumijit.control.local_buffers import ListedBuffer, TracedBuffer, is_plain
from lumijit.control.state import is_array
from lumijit.functions.creation import zeros
from lumijit.functions.repetition import copy as copy_tree
from lumijit.pytree import Parts
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError

T = TypeVar("T")
_NUMBERS = (bool, int, float)


def alloc_local(dtype: type[T], size: int, value: T | float | None = None) -> Local[T]:
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
    leaves = Parts((pattern,)).leaves
    if any(map(is_array, leaves)):
        store: Any = TracedBuffer(dtype, count, pattern, value is not None)
    elif any(map(is_plain, leaves)):
        store = ListedBuffer([copy_tree(pattern) for _ in range(count)], pattern)
    else:
        raise _no_entries(dtype)
    result: Local[T] = object.__new__(Local)
    result._dtype, result._store = dtype, store
    return result


def _checked_size(size: Any) -> int:
    if isinstance(size, bool) or not isinstance(size, int):
        raise ArrayTypeError(
            "alloc_local",
            f"'size' must be known while tracing (expected int, got "
            f"{type(size).__name__})",
            "pass a Python int.",
        )
    if size < 0:
        raise ArrayValueError(
            "alloc_local", f"the size {size} is negative", "pass 0 or more."
        )
    if size > local_types.MAX_LENGTH:
        raise SizeError(
            "alloc_local",
            f"the size {size} exceeds the limit of {local_types.MAX_LENGTH} entries "
            "per lane",
            "use gather and scatter for large tables.",
        )
    return size


def _pattern(dtype: Any, value: Any) -> Any:
    """Return an instance of the entries' type: their initial value, or zeros."""
    if value is None:
        if not isinstance(dtype, type):
            raise _no_entries(dtype)
        if dtype in (tuple, list, dict):
            raise ArrayTypeError(
                "alloc_local",
                f"the type {dtype.__name__!r} doesn't say what it contains",
                "pass an instance as 'value'.",
            )
        return zeros(dtype)
    if not isinstance(dtype, type) or not isinstance(value, dtype):
        is_number = isinstance(dtype, type) and isinstance(value, _NUMBERS)
        if is_number and issubclass(dtype, (ArrayBase, *_NUMBERS)):
            return cast(Any, dtype)(value)
        raise ArrayTypeError(
            "alloc_local",
            f"'value' isn't of the type of the entries (expected "
            f"{getattr(dtype, '__name__', dtype)!s}, got {type(value).__name__})",
            "pass an instance of the type, or no value.",
        )
    return value


def _no_entries(dtype: Any) -> ArrayTypeError:
    return ArrayTypeError(
        "alloc_local",
        f"can't make entries of type {getattr(dtype, '__name__', dtype)!r}",
        "pass an array type, or a dataclass or DRJIT_STRUCT class of arrays.",
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
    _store: TracedBuffer | ListedBuffer

    def __init__(self, other: Local[T]) -> None:
        """Copy a buffer."""
        if not isinstance(other, Local):
            raise ArrayTypeError(
                "Local",
                f"can't copy a {type(other).__name__} as a local buffer",
                "make buffers with lumijit.alloc_local.",
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

    def write(self, value: Any, index: Any, active: Any = True) -> None:
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

    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace the entry at a position."""
        self.write(value, index)

    def __copy__(self) -> Local[T]:
        """Return an independent copy."""
        return Local(self)

    def __deepcopy__(self, memo: Any) -> Local[T]:
        """Return an independent copy."""
        return Local(self)

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise ArrayTypeError(
            "Local",
            "a local buffer can't be pickled: its contents belong to one computation",
            "pickle arrays read from it.",
        )

    def _copy(self) -> Local[T]:
        """Serve `lumijit.copy`."""
        return Local(self)

    @property
    def _holders(self) -> list[local.Buffer]:
        """The buffers of the trace, for `lumijit.eval` and its like."""
        return self._store.holders if isinstance(self._store, TracedBuffer) else []

    def __repr__(self) -> str:
        """Name the type of the entries and their number."""
        cls = self._dtype
        module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
        return f"Local[{module}{cls.__qualname__}, {len(self)}]"
