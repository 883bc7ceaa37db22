"""The `@syntax` decorator: from a function to its rewritten twin.

Owns what has been rewritten already. How that is done is up to `rewriting`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from lumijit.runtime import errors
from lumijit.syntax.entry_points import Runtime
from lumijit.syntax.function_object import bound
from lumijit.syntax.meanings import Meanings

if TYPE_CHECKING:
    from lumijit.syntax.rewriting import Code

F = TypeVar("F", bound=Callable[..., Any])

#: Set on rewritten functions.
_MARK = "__lumijit_syntax__"


@overload
def syntax(
    f: F,
    *,
    recursive: bool = ...,
    print_ast: bool = ...,
    print_code: bool = ...,
) -> F: ...


@overload
def syntax(
    *,
    recursive: bool = ...,
    print_ast: bool = ...,
    print_code: bool = ...,
) -> Callable[[F], F]: ...


def syntax(
    f: Any = None,
    *,
    recursive: bool = False,
    print_ast: bool = False,
    print_code: bool = False,
) -> Any:
    """Vectorize the control flow of a function.

    `if`, `while`, `for … in range(…)`, conditional expressions, `and`, `or`, `not`
    and chained comparisons work on arrays as they do on numbers. Conditions that
    are not arrays take the plain Python path.

    Args:
        f: The function, or a static or class method or property made of one.
        recursive: Whether to transform inner functions as well.
        print_ast: Whether to print the syntax tree of the rewritten code.
        print_code: Whether to print the rewritten code.

    Returns:
        A function with the same signature, name, defaults and closure.

    Raises:
        SyntaxTransformError: The source can't be found or a hint makes no sense.
        RecursionBoundError: When called: recursion under an array condition has no
            end. In evaluated mode it ends when no element is active.

    >>> from lumijit.syntax import hint
    >>> hint(True)
    True
    """
    if f is None:
        return lambda function: syntax(
            function,
            recursive=recursive,
            print_ast=print_ast,
            print_code=print_code,
        )
    if isinstance(f, (staticmethod, classmethod)):
        inner = syntax(
            f.__func__,
            recursive=recursive,
            print_ast=print_ast,
            print_code=print_code,
        )
        return type(f)(inner)
    if not isinstance(f, FunctionType):
        problem = f"it decorates an object of type {type(f).__name__!r}"
        fix = "put @syntax right above the 'def' of a function or method."
        raise errors.SyntaxTransformError("@syntax", problem, fix)
    if hasattr(f, _MARK):
        return f
    meanings = Meanings(f)
    key = (f.__code__, f.__code__.co_filename, f.__qualname__, recursive)
    known = _known.get(key)
    # To be refused, or shown.
    is_asked = hasattr(f, "__wrapped__") or print_ast or print_code
    if known is None or is_asked or not meanings.agree_with(known.answers):
        from lumijit.syntax.rewriting import rewrite

        known = rewrite(f, meanings, recursive, print_ast, print_code)
        # (Other threads may add some meanwhile.)
        for oldest in list(_known)[: max(0, len(_known) + 1 - _KEPT)]:
            _known.pop(oldest, None)
        _known[key] = known
    result = bound(f, known.codes, Runtime(known.sites))
    setattr(result, _MARK, True)
    return result


# Nested functions are made, and decorated, again and again.
_known: dict[tuple[object, ...], Code] = {}
_KEPT = 1024
