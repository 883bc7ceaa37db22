"""From a function object to its syntax tree.

Owns finding and parsing the source text of a function. What the tree means is the
business of `names` and `control_tree`.
"""

from __future__ import annotations
import __future__

import dis
import inspect
import itertools
import linecache
import os
import time
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import gast

from lumijit.syntax.places import SourcePlace, syntax_error

_WRAPPER = "if 1:\n"
# Files that are older can't have been edited since they were imported.
_STARTED = time.time()
_FEATURES = (getattr(__future__, name) for name in __future__.all_feature_names)
#: The compiler flags of `from __future__ import …`.
FUTURE = sum(feature.compiler_flag for feature in _FEATURES)
_OPERATORS = ("BINARY", "INPLACE", "COMPARE", "UNARY", "CONTAINS", "IS_OP")


@dataclass(frozen=True)
class Source:
    """The parsed definition of one function."""

    filename: str
    function: str
    tree: Any

    def error(self, node: Any, problem: str, fix: str = "") -> Exception:
        """Make the error that points at `node` in the user's file."""
        return syntax_error(
            self.filename, self.function, SourcePlace.of(node), problem, fix
        )


def read_function(function: FunctionType) -> Source:
    """Find and parse the source of `function`, with its true line numbers."""
    code = function.__code__
    place = SourcePlace(code.co_firstlineno, 0)

    def refuse(problem: str, fix: str) -> Exception:
        name = function.__qualname__
        return syntax_error(code.co_filename, name, place, problem, fix)

    if code.co_name == "<lambda>":
        raise refuse(
            "a lambda can't be transformed", "write it as a function with 'def'."
        )
    if hasattr(function, "__wrapped__"):
        raise refuse(
            "another decorator stands between @syntax and the function",
            "make @syntax the innermost decorator, right above 'def'.",
        )
    lines = _lines_of(function)
    if not lines:
        raise refuse(
            "the source text of the function can't be found, which happens for "
            "code run by exec() or typed into a REPL that keeps no source",
            "put the function into a file or a notebook cell, or register its "
            "text with 'linecache'.",
        )
    return _parse(function, "".join(lines), code.co_firstlineno, refuse)


def _lines_of(function: FunctionType) -> list[str]:
    """Return the lines of a function's definition, none if they can't be found.

    (`inspect.getsourcelines` looks through all modules first, some 15 ms.)
    """
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    try:
        return list(inspect.getblock(lines[code.co_firstlineno - 1 :]))
    except (SyntaxError, IndexError, tokenize.TokenError):
        return []


def _parse(function: FunctionType, text: str, first_line: int, refuse: Any) -> Source:
    """Parse `text`, kept indented as it is so that columns and strings stay."""
    indented = text[:1].isspace()
    wrapper = _WRAPPER if indented else ""
    code = function.__code__
    try:
        module = gast.parse(wrapper + text, code.co_filename)
    except SyntaxError as error:
        raise refuse(
            f"the source text found for the function can't be parsed ({error.msg})",
            "reload the module: the file may have changed since it was imported.",
        ) from None
    except RecursionError:
        raise refuse(
            "the control flow of this function is nested too deeply",
            "split it into several functions.",
        ) from None
    body = module.body[0].body if indented else module.body
    tree = body[0]
    kinds = (gast.FunctionDef, gast.AsyncFunctionDef)
    is_other = not isinstance(tree, kinds) or tree.name != code.co_name
    if is_other or _is_edited(code, text):
        raise refuse(
            "the source text found is not that of this function",
            "reload the module: the file may have changed since it was imported.",
        )
    _shift_lines(tree, first_line - 1 - wrapper.count("\n"))
    return Source(code.co_filename, function.__qualname__, tree)


def _is_edited(code: CodeType, text: str) -> bool:
    """Tell whether the text in a file has become another one than code was made of."""
    try:
        if os.stat(code.co_filename).st_mtime < _STARTED:
            return False
    except OSError:
        return False
    # (Classes have the numbers of their lines among their constants.)
    lines = code.co_firstlineno - 1
    if text[:1].isspace():
        lines -= 1
        text = f"def _({', '.join(code.co_freevars)}):\n{text}"
    text = "\n" * lines + text
    flags = code.co_flags & FUTURE
    try:
        module = compile(text, code.co_filename, "exec", flags, dont_inherit=True)
    except SyntaxError:
        return False
    found = [c for c in _codes_in(module) if c.co_name == code.co_name]
    return bool(found) and list(_contents(found[0])) != list(_contents(code))


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code in code, outer before inner."""
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield value
            yield from _codes_in(value)


def _contents(code: CodeType) -> Iterator[Any]:
    """Yield the constants and operators of code, which don't depend on what is around.

    (Names do: those of a function around are other variables, private ones change.)
    """
    every = (i for c in (code, *_codes_in(code)) for i in dis.get_instructions(c))
    for instruction in every:
        name, text = instruction.opname, instruction.argrepr
        is_constant = "CONST" in name or "SMALL_INT" in name
        is_named = isinstance(instruction.argval, CodeType) or "<locals>" in text
        if (is_constant and not is_named) or name.startswith(_OPERATORS):
            yield name, text


def _shift_lines(tree: Any, offset: int) -> None:
    for node in gast.walk(tree):
        if getattr(node, "lineno", None) is not None:
            node.lineno += offset
        if getattr(node, "end_lineno", None) is not None:
            node.end_lineno += offset


def class_around(qualname: str) -> str | None:
    """Return the name of the innermost class that a function is written in."""
    parts = qualname.split(".")
    for part, following in reversed(list(itertools.pairwise(parts))):
        if "<locals>" not in (part, following):
            return part
    return None


def mangled(attribute: str, owner: str | None) -> str:
    """Return what a private attribute is called at run time."""
    is_private = attribute.startswith("__") and not attribute.endswith("__")
    if not is_private or owner is None or not owner.strip("_"):
        return attribute
    return f"_{owner.lstrip('_')}{attribute}"
