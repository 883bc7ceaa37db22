"""`@kernel` and `freeze`: decorators that record a function once, and replay it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar, overload

from lumijit.replay.recorded_function import Kernel
from lumijit.runtime.errors import ArrayTypeError
from lumijit.syntax import syntax

P = ParamSpec("P")
R = TypeVar("R")
_WARN_AFTER = 10
_LIMIT = 16
_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@overload
def kernel(
    f: Callable[P, R],
    *,
    static: Collection[str] = ...,
    graph_breaks: bool = ...,
    limit: int = ...,
    warn_after: int = ...,
    enabled: bool = ...,
) -> Kernel[P, R]: ...


@overload
def kernel(
    *,
    static: Collection[str] = ...,
    graph_breaks: bool = ...,
    limit: int = ...,
    warn_after: int = ...,
    enabled: bool = ...,
) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...


def kernel(
    f: Any = None,
    *,
    static: Collection[str] = (),
    graph_breaks: bool = False,
    limit: int = _LIMIT,
    warn_after: int = _WARN_AFTER,
    enabled: bool = True,
) -> Any:
    """Record what a function computes, and replay that in later calls.

    The first call runs the function, as `syntax` vectorizes it, and notes what it
    launches. A later call that looks alike launches the same kernels, without tracing.
    Arrays and Python numbers may differ then, also those in containers and objects, in
    variables of enclosing functions and of modules; what the function leaves in them is
    left by a replay, too. Calls look alike that agree in structure and types, in the
    arrays' sizes, in which arrays are one, in strings, enumerations and bools, in
    flags, and in what Python asks of numbers (`if n > 2`, `range(n)`). Others are
    recorded anew; once several sizes have been, another one when it comes again.

    Args:
        f: a function or method. Lambdas, and what other decorators made of functions
            (`functools.wraps`), aren't vectorized as `syntax` would.
        static: names of arguments whose numbers belong to the recording.
        graph_breaks: whether the function may read arrays. Entries that it reads (as in
            `x[0] > 1`) are read by a replay, too, which goes on if Python decides as it
            did; where that can't be, the function runs as it is.
        limit: how many recordings are kept; the one used least recently goes first.
        warn_after: after how many recordings there is a warning.
        enabled: whether to record at all.

    Returns:
        The function, with `explain()`, `history` and `clear()`.

    Raises:
        ArrayTypeError: if `f` is no function.
        RecordingError: when called: the function reads arrays in Python, uses arrays
            that can't be found from its code, or returns new objects of classes that
            are no PyTrees.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> @dr.kernel
    ... def scaled(x, factor):
    ...     return dr.sin(x) * factor
    >>> scaled(Float(0, 1), 2), scaled(Float(1, 2), 3)
    ([0, 1.68294], [2.52441, 2.72789])
    >>> scaled.n_recordings
    1
    """
    if f is None:
        return functools.partial(
            kernel,
            static=static,
            graph_breaks=graph_breaks,
            limit=limit,
            warn_after=warn_after,
            enabled=enabled,
        )
    options = static, graph_breaks, limit, warn_after, enabled
    if isinstance(f, MethodType):
        return MethodType(_kernel_of(f.__func__, *options), f.__self__)
    return _kernel_of(f, *options)


def _kernel_of(f: Any, *options: Any) -> Kernel[..., Any]:
    """Make a kernel of a function."""
    if not isinstance(f, FunctionType) or f.__code__.co_flags & _SUSPENDED:
        is_function = isinstance(f, FunctionType)
        kind = "generator or coroutine" if is_function else type(f).__name__
        raise ArrayTypeError(
            "@kernel",
            f"it decorates an object of type {kind!r}",
            "put @kernel right above the 'def' of an ordinary function or method.",
        )
    # Expressions have nothing that `syntax` could find again in the source, and what
    # wraps a function has the source of another.
    is_plain = f.__name__ == "<lambda>" or hasattr(f, "__wrapped__")
    return Kernel(f if is_plain else syntax(f), *options)


def freeze(
    f: Any = None,
    *,
    state_fn: Any = None,
    limit: int | None = None,
    warn_after: int = _WARN_AFTER,
    backend: Any = None,
    auto_opaque: bool = True,
    enabled: bool = True,
) -> Any:
    """Record and replay: `kernel`, with the name and the parameters of Dr.Jit.

    Args:
        f: a function or method.
        state_fn: ignored, as what a function reaches is found.
        limit: how many recordings are kept; None for a number that suffices.
        warn_after: after how many recordings there is a warning.
        backend: ignored, as arrays tell it.
        auto_opaque: ignored, as numbers never belong to a recording by themselves.
        enabled: whether to record at all.

    Returns:
        The function, as `kernel` returns it.

    >>> import lumijit as dr
    >>> @dr.freeze
    ... def double(x):
    ...     return x * 2
    >>> double(dr.llvm.Float(1, 2))
    [2, 4]
    """
    del state_fn, backend, auto_opaque
    kept = _LIMIT if limit is None or limit < 0 else limit
    return kernel(f, limit=kept, warn_after=warn_after, enabled=enabled)
