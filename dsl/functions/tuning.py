"""What tunes programs on other backends, and changes nothing on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit.base import ArrayBase
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.runtime.history import JitBackend

_MOST_BITS = 16


def func(
    f: Callable[..., Any] | None = None, *, backend: JitBackend | None = None
) -> Any:
    """Mark a pure function whose code may be shared between the places that call it.

    It is traced where it is called, as any other function is. Which code becomes a
    function of the kernel is the compiler's choice.

    Args:
        f: the function; what it returns depends on its arguments only.
        backend: which backend compiles it; it is that of the arguments anyway.

    Returns:
        The function, or a decorator if there is none yet.

    Raises:
        ArrayTypeError: if `f` can't be called.

    >>> import lumijit as dr
    >>> @dr.func
    ... def scaled(x):
    ...     return x * 3
    >>> scaled(dr.llvm.Float(1, 2))
    [3, 6]
    """
    if backend is not None and not isinstance(backend, JitBackend):
        raise ArrayTypeError(
            "lumijit.func",
            f"backend is {backend!r}",
            "pass a member of JitBackend, or leave it out.",
        )
    if f is None:
        return func
    if not callable(f):
        raise ArrayTypeError(
            "lumijit.func",
            f"{f!r} is no function",
            "write @lumijit.func, or @lumijit.func(backend=…), before a function.",
        )
    return f


def reorder_threads(key: Any, num_bits: int, value: Any) -> Any:
    """Group elements whose keys are equal; only GPUs can.

    Args:
        key: flat UInt32 array by which elements are grouped.
        num_bits: how many of the lowest bits count, 1 to 16.
        value: array or PyTree.

    Returns:
        `value`.

    Raises:
        ArrayTypeError: if the key isn't a flat UInt32 array.
        ArrayValueError: if the number of bits can't be.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> dr.reorder_threads(UInt(3, 1), 2, Float(1, 2))
    [1, 2]
    """
    construct = "lumijit.reorder_threads"
    spec = key._spec if isinstance(key, ArrayBase) else None
    if spec is None or not spec.is_jit or spec.outer or spec.dtype is not UINT32:
        raise ArrayTypeError(
            construct,
            f"the key has type {type(key).__name__!r} (expected a flat UInt32 array)",
            "convert it to UInt32.",
        )
    if not isinstance(num_bits, int) or not 1 <= num_bits <= _MOST_BITS:
        raise ArrayValueError(
            construct,
            f"num_bits is {num_bits!r} (expected an int from 1 to {_MOST_BITS})",
            "take as few bits as tell the groups apart.",
        )
    return value


def flush_thread() -> None:
    """Hand over what this thread has launched: on the CPU, launches begin at once.

    >>> import lumijit as dr
    >>> dr.flush_thread()
    """
