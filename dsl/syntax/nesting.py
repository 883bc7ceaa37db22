"""Recursion of decorated functions: where it ends, and where it has no end.

Which constructs are being vectorized is known to `object_state`; what becomes of a
branch that nobody reaches is up to `control.recursion`. Owns, too, what a construct's
functions consist of.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from lumijit.runtime import errors
from lumijit.syntax.places import pointed_text

#: A construct nested this often in itself has to do with running out of stack.
_SUSPICIOUS = 5

_EVALUATED = (
    "use evaluated mode, where recursion ends with the last active element, as in "
    "lumijit.hint(condition, mode='evaluated'), or write a loop with a stack in local "
    "memory (lumijit.alloc_local)."
)
_BRANCH = "put the recursive call under an 'if' whose other side tells the result."


class NobodyLeft(errors.RecursionBoundError):
    """An evaluated construct inside of itself isn't run, since no lane reaches it.

    Vectorized branches catch it, and take the results of their other side.
    """

    def __init__(self, site: Any) -> None:
        super().__init__()
        self.site = site

    def __str__(self) -> str:
        return _endless_text(self.site, "for no element", _BRANCH)


def depth_of(site: Any, running: Any) -> int:
    """Return how often a construct is among one that runs and those around it."""
    count = 0
    while running is not None:
        if running.site is site:
            count += 1
        running = running.around
    return count


def check_depth(error: BaseException, site: Any, depth: int) -> None:
    """Raise an error of its own for recursion of a site that has no end.

    Args:
        error: what a run of the site has raised.
        site: the construct.
        depth: how often it is being vectorized around that run.
    """
    # A converter of arguments makes an error of its own of Python's.
    is_full = type(error) is RecursionError or (
        type(error) is ctypes.ArgumentError and "RecursionError" in str(error)
    )
    if is_full and depth >= _SUSPICIOUS:
        text = _endless_text(site, "without end", _EVALUATED)
        raise errors.RecursionBoundError(text) from None


def _endless_text(site: Any, how: str, fix: str) -> str:
    """Word the error for a function whose recursion doesn't end."""
    name = site.function.rsplit(".", 1)[-1]
    return pointed_text(
        site.filename,
        site.function,
        site.place,
        f"{name!r} calls itself {how} while it is vectorized: whether it does "
        f"depends on an array condition ('{site.kind}'), whose contents aren't known "
        "by then",
        fix,
    )


def called_by(functions: Iterable[Any]) -> tuple[Any, ...]:
    """List functions, and for those that tell which others they call, these."""
    found = []
    left = list(functions)
    for function in left:  # (which grows)
        calls = getattr(function, "calls", None)
        if calls is None:
            found.append(function)
        else:
            left += calls
    return tuple(found)
