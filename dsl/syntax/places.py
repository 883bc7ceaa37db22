"""Places in the user's files, and messages that show them with line and caret."""

from __future__ import annotations

import linecache
from typing import Any, NamedTuple

from lumijit.runtime import errors


class SourcePlace(NamedTuple):
    """A position in a source file: line counted from 1, column from 0."""

    line: int
    column: int

    @staticmethod
    def of(node: Any) -> SourcePlace:
        """Take the position of a syntax node."""
        return SourcePlace(getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def pointed_text(
    filename: str, function: str, place: SourcePlace, problem: str, fix: str
) -> str:
    """Word a message that shows the source line and a caret below it."""
    text = f"{filename}:{place.line} in {function}: @syntax: {problem}."
    if fix:
        text += f" Fix: {fix}"
    line = linecache.getline(filename, place.line).rstrip("\n")
    if line:
        # The column counts UTF-8 bytes; tabs are kept so that the caret lines up.
        before = line.encode()[: place.column].decode(errors="ignore")
        pad = "".join("\t" if c == "\t" else " " for c in before)
        text += f"\n    {line}\n    {pad}^"
    return text


def syntax_error(
    filename: str, function: str, place: SourcePlace, problem: str, fix: str
) -> errors.SyntaxTransformError:
    """Make the error for a place in a source file."""
    text = pointed_text(filename, function, place, problem, fix)
    error = errors.SyntaxTransformError(text)
    error.filename, error.lineno, error.offset = filename, place.line, place.column + 1
    return error
