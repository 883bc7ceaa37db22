"""Format strings: the subset of Python's mini language that print and format take.

Owns parsing and the look-up of arguments; how a value becomes text is in `text`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lumijit.runtime.errors import ArrayTypeError, ArrayValueError

THREAD_ID = "thread_id"


class Field(NamedTuple):
    """One replacement field: the argument's key, and text to write before it."""

    key: int | str
    prefix: str


Template = list[str | Field]


def parse(text: str, construct: str) -> Template:
    """Split a format string into literal text and fields.

    >>> parse("{a=} {{}}", "format")
    [Field(key='a', prefix='a='), ' ', '{', '}']
    """
    parts: Template = []
    position, automatic = 0, 0
    is_explicit: bool | None = None
    while position < len(text):
        ends = [k for k in (text.find(c, position) for c in "{}") if k >= 0]
        end = min(ends, default=len(text))
        if end > position:
            parts.append(text[position:end])
        if end == len(text):
            break
        if text[end : end + 2] in ("{{", "}}"):
            parts.append(text[end])
            position = end + 2
            continue
        close = text.find("}", end)
        if text[end] == "}" or close < 0:
            raise _invalid(construct, text, f"the brace at position {end} is unmatched")
        inside = text[end + 1 : close]
        name = inside.removesuffix("=").strip()
        position = close + 1
        if name == "" or name.isdecimal():
            if is_explicit is not None and is_explicit is not (name != ""):
                raise _invalid(construct, text, "it mixes {} and numbered fields")
            is_explicit = name != ""
        if name == "":
            parts.append(Field(automatic, "=" if inside else ""))
            automatic += 1
        elif name.isdecimal() or name.isidentifier():
            key = int(name) if name.isdecimal() else name
            parts.append(Field(key, inside if inside.endswith("=") else ""))
        else:
            raise _invalid(construct, text, f"the field {{{inside}}} isn't supported")
    return parts


def _invalid(construct: str, text: str, problem: str) -> ArrayValueError:
    return ArrayValueError(
        construct,
        f"the format string {text!r} can't be used: {problem}",
        "use {}, {0}, {name} or {name=}; write {{ and }} for braces.",
    )


def split(
    value: Any, args: tuple[Any, ...], construct: str
) -> tuple[Template, tuple[Any, ...]]:
    """Return the template and positional arguments of a call of print or format."""
    if isinstance(value, str):
        return parse(value, construct), args
    if args:
        raise ArrayTypeError(
            construct,
            f"several values were given, but the first one is no format string "
            f"(expected str, got {type(value).__name__})",
            'put a format string in front, such as "{} {}".',
        )
    return [Field(0, "")], (value,)


def referenced(
    template: Template,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    construct: str,
) -> dict[int | str, Any]:
    """Return the arguments that a template refers to, by their key.

    `thread_id` may be missing: whoever prints fills it in.
    """
    found: dict[int | str, Any] = {}
    for part in template:
        if isinstance(part, str):
            continue
        key = part.key
        if isinstance(key, int) and key < len(args):
            found[key] = args[key]
        elif isinstance(key, str) and key in kwargs:
            found[key] = kwargs[key]
        elif key != THREAD_ID:
            kind = "positional" if isinstance(key, int) else "keyword"
            raise ArrayValueError(
                construct,
                f"the format string refers to the {kind} argument {key!r}, "
                "which is missing",
                "pass it.",
            )
    return found


def fill(template: Template, write: Callable[[int | str], str]) -> str:
    """Put the text of each field in place; `write` makes it from the field's key."""
    parts = []
    for part in template:
        if isinstance(part, str):
            parts.append(part)
        else:
            parts.append(part.prefix + write(part.key))
    return "".join(parts)
