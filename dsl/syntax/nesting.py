"""Recursion of decorated functions: where it ends, and where it has no end.

Owns the record of which constructs are being vectorized inside of one another. What
becomes of a branch that nobody reaches is up to `control.recursion`.
"""

from __future__ import annotations

import ctypes
from types import TracebackType

from lumijit.runtime import errors
from lumijit.runtime.contexts import Variable
from lumijit.syntax.bindings import targets
from lumijit.syntax.places import pointed_text
from lumijit.syntax.site import Site

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

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site

    def __str__(self) -> str:
        return _endless_text(self.site, "for no element", _BRANCH)


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
            raise NobodyLeft(self.site)
        _nesting.set((*sites, self.site))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        nested = sum(s is self.site for s in _nesting.get()) - 1
        # A converter of arguments makes an error of its own of Python's.
        is_full = kind is RecursionError or (
            kind is ctypes.ArgumentError and "RecursionError" in str(error)
        )
        if is_full and nested >= _SUSPICIOUS:
            text = _endless_text(self.site, "without end", _EVALUATED)
            raise errors.RecursionBoundError(text) from None


def _endless_text(site: Site, how: str, fix: str) -> str:
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
