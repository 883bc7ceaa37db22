"""From rewritten code to a function: within an outline, which gives it free variables.

The new code runs on the user's globals and on the very cells of the original function,
with helpers added to the closure.
"""

from __future__ import annotations

import sys
from types import CellType, CodeType, FunctionType
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.invented import PREFIX, RUNTIME
from lumijit.syntax.source import FUTURE, class_around

_OUTLINE = PREFIX + "outline"


def outline(function: FunctionType, tree: Any, helpers: list[Any]) -> Any:
    """Wrap the rewritten function so that its closure compiles to free variables."""
    free = list(function.__code__.co_freevars)
    names = [RUNTIME, *(h.name for h in helpers), *free]
    body: list[Any] = [*helpers, tree]
    owner = class_around(function.__qualname__)
    if owner is not None and (
        any(map(_has_private_names, body)) or "__class__" in free
    ):
        # The class gives private names their prefix, and `__class__` its cell.
        names = [n for n in names if n != "__class__"]
        body = [
            gast.ClassDef(
                name=owner,
                bases=[],
                keywords=[],
                body=body,
                decorator_list=[],
                type_params=[],
            )
        ]
    defined = body[-1].name
    if defined not in free:
        # The name means what it means to the user, in the function, too.
        body.insert(0, gast.Global(names=[defined]))
    whole = build.function(_OUTLINE, names, body)
    return gast.Module(body=[build.located(whole, tree)], type_ignores=[])


def compiled(function: FunctionType, module: Any) -> dict[str, CodeType]:
    """Compile an outline; return the code of the function and of its helpers."""
    code = function.__code__
    tree = gast.gast_to_ast(module)
    flags = code.co_flags & FUTURE
    whole = compile(tree, code.co_filename, "exec", flags, dont_inherit=True)
    found = _functions_in(whole)
    names = code.co_name, function.__qualname__
    return {name: _named(found[name], *names) for name in found}


def _named(code: CodeType, name: str, path: str) -> CodeType:
    """Give a piece of a function the function's name, as tracebacks and errors show it.

    Pieces that share variables with functions inside are defined in these.
    """
    constants: list[Any] = []
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            own = name, path
            if not inner.co_name.startswith(PREFIX):
                own = inner.co_name, getattr(inner, "co_qualname", "")
            inner = _named(inner, *own)
        constants.append(inner)
    changed: dict[str, Any] = {"co_name": name, "co_consts": tuple(constants)}
    if sys.version_info >= (3, 11):
        changed["co_qualname"] = path
    return code.replace(**changed)


def _functions_in(module: CodeType) -> dict[str, CodeType]:
    """Find the code of the functions that stand directly in the outline."""
    (whole,) = (c for c in module.co_consts if isinstance(c, CodeType))
    found = {c.co_name: c for c in whole.co_consts if isinstance(c, CodeType)}
    is_optimized = 1
    if len(found) == 1:
        (only,) = found.values()
        if not only.co_flags & is_optimized:  # the body of a class
            return {c.co_name: c for c in only.co_consts if isinstance(c, CodeType)}
    return found


def _has_private_names(tree: Any) -> bool:
    names = (
        getattr(node, key, None)
        for node in gast.walk(tree)
        for key in ("id", "attr", "name", "arg")
    )
    return any(
        isinstance(n, str) and n.startswith("__") and not n.endswith("__")
        for n in names
    )


def bound(
    function: FunctionType, codes: dict[str, CodeType], runtime: Any
) -> FunctionType:
    """Make the function that replaces `function` from its code and its helpers'."""
    code = function.__code__
    closure = function.__closure__ or ()
    cells = dict(zip(code.co_freevars, closure, strict=True))
    cells[RUNTIME] = CellType(runtime)
    helpers = [n for n in codes if n.startswith(PREFIX)]
    cells |= {name: CellType() for name in helpers}
    for name in helpers:
        cells[name].cell_contents = _bind(codes[name], function, cells)
    result = _bind(codes[code.co_name], function, cells)
    result.__defaults__ = function.__defaults__
    result.__kwdefaults__ = function.__kwdefaults__
    if sys.version_info >= (3, 14):
        # Unevaluated: they may name what isn't there yet.
        result.__annotate__ = function.__annotate__
    else:
        result.__annotations__ = function.__annotations__
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(result, attribute, getattr(function, attribute))
    if sys.version_info >= (3, 12):
        result.__type_params__ = function.__type_params__
    result.__dict__.update(function.__dict__)
    result.__wrapped__ = function  # type: ignore[attr-defined]
    return result


def _bind(
    code: CodeType, original: FunctionType, cells: dict[str, CellType]
) -> FunctionType:
    closure = tuple(cells[name] for name in code.co_freevars)
    return FunctionType(code, original.__globals__, code.co_name, None, closure)
