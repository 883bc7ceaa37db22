"""The `@syntax` decorator: from a function to its rewritten twin.

Imports `rewriting`, which does the work, and control flow with the first function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, overload

from lumijit.runtime import errors

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
    options = {
        "recursive": recursive,
        "print_ast": print_ast,
        "print_code": print_code,
    }
    if f is None:
        return partial(syntax, **options)
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(syntax(f.__func__, **options))
    if hasattr(f, _MARK):
        return f
    if not isinstance(f, FunctionType):
        problem = f"it decorates an object of type {type(f).__name__!r}"
        fix = "put @syntax right above the 'def' of a function or method."
        raise errors.SyntaxTransformError("@syntax", problem, fix)
    from lumijit.control import install as install
    from lumijit.syntax.rewriting import decorated

    result = decorated(f, recursive, print_ast, print_code)
    setattr(result, _MARK, True)
    return result
