"""Making a function object from rewritten code.

The new code runs on the user's globals and on the very cells of the original function,
with helpers added to the closure.
"""

from __future__ import annotations

import sys
from types import CellType, CodeType, FunctionType
from typing import Any

from lumijit.syntax.invented import PREFIX, RUNTIME


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
