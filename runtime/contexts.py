"""Context managers from generators that end at once when Ctrl-C cuts them short.

A Ctrl-C may come when a generator has been entered but its `with` block hasn't begun.
Python's own `contextmanager` leaves the end of the generator to whoever drops the
traceback then: what it puts back is by that time long past, and wrong.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Prompt(Generic[T]):
    """Enters and leaves a generator; leaves it, too, if entering it fails."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> T:
        try:
            value: T = self._inner.__enter__()
            return value
        except BaseException:
            self._inner.gen.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return bool(self._inner.__exit__(kind, error, traceback))


def contextmanager(function: Callable[P, Iterator[T]]) -> Callable[P, _Prompt[T]]:
    """Make a context manager of a generator function, as `contextlib` does."""
    made = contextlib.contextmanager(function)

    @functools.wraps(function)
    def helper(*args: P.args, **kwargs: P.kwargs) -> _Prompt[T]:
        return _Prompt(made(*args, **kwargs))

    return helper
