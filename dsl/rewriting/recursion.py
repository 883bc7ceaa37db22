"""Recursion of decorated functions: counting activations, and where it has no end.

Owns the wrapper of functions with a bound, and the record of which constructs are
being vectorized inside of one another. What becomes of a branch that would recurse
past the bound is up to `control.recursion`.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from types import TracebackType
from typing import Any

from lumijit.rewriting.hooks import targets
from lumijit.rewriting.source import Source, pointed_text
from lumijit.rewriting.state import Site
from lumijit.runtime import errors
from lumijit.runtime.contexts import Variable

#: A construct nested this often in itself has to do with running out of stack.
_SUSPICIOUS = 5


class BoundReached(errors.RecursionBoundError):
    """A call was left out: it is nested deeper than its function's `max_depth`.

    Vectorized branches and loops catch it.
    """


def with_bound(function: Callable[..., Any], limit: Any, source: Source) -> Any:
    """Return a function that refuses activations nested deeper than `limit`.

    Calls count that vectorized control flow separates from the activation around
    them: recursion under plain conditions is as deep as Python allows.
    """
    try:
        depth = operator.index(limit)
    except TypeError:
        depth = 0
    if depth < 1 or isinstance(limit, bool):
        raise source.error(
            source.tree,
            f"'max_depth' must be a positive int (got {limit!r})",
            "state how many calls of the function may be nested, as in max_depth=8.",
        )
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise source.error(
            source.tree,
            "'max_depth' is for functions that return, not for generators and "
            "coroutines",
            "remove it.",
        )
    place = f"{source.filename}:{source.tree.lineno} in {source.function}"
    text = (
        f"{place}: @syntax: the recursion goes deeper than max_depth={depth}. Fix: "
        "state a larger bound, or end the recursion earlier."
    )

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        here = targets.surroundings()
        activations = _activations.get()
        around, level = activations.get(bounded, (None, 0))
        level += around != here
        if level > depth:
            raise BoundReached(text)
        with _activations.during({**activations, bounded: (here, level)}):
            return function(*args, **kwargs)

    return bounded


#: Surroundings and depth of the last activation, by function.
_activations: Variable[dict[Any, tuple[Any, int]]] = Variable("activations", {})
#: The constructs that are being vectorized, outermost first.
_nesting: Variable[tuple[Site, ...]] = Variable("nesting", ())


class entered:
    """Context manager around the vectorization of one construct.

    Inside of itself, an evaluated construct that no lane reaches isn't run.
    """

    __slots__ = ("site",)

    def __init__(self, site: Site) -> None:
        self.site = site

    def __enter__(self) -> None:
        sites = _nesting.get()
        if any(s is self.site for s in sites) and targets.is_idle():
            raise BoundReached("no element is left")
        _nesting.set((*sites, self.site))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        nested = sum(s is self.site for s in _nesting.get()) - 1
        if kind is RecursionError and nested >= _SUSPICIOUS:
            raise _endless(self.site) from None


def _endless(site: Site) -> errors.RecursionBoundError:
    """Word the error for a function that calls itself for ever while traced."""
    name = site.function.rsplit(".", 1)[-1]
    text = pointed_text(
        site.filename,
        site.function,
        site.place,
        f"{name!r} calls itself without end while it is vectorized: whether it does "
        f"depends on an array condition ('{site.kind}'), whose contents aren't known "
        "by then",
        "state how many calls are nested at most, as in @syntax(max_depth=8), or "
        "use evaluated mode, where recursion ends with the last active element.",
    )
    return errors.RecursionBoundError(text)
