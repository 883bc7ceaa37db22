"""Values as text: arrays, numbers, and PyTrees with indentation and field names."""

from __future__ import annotations

from typing import Any

from lumijit.base import ArrayBase
from lumijit.printing import format_entry
from lumijit.pytree import children, is_container

_STEP = "  "


def pretty(value: Any, limit: int, indent: int = 0, is_top: bool = True) -> str:
    """Write a value the way print does; `indent` is that of the current line.

    >>> print(pretty({"a": 1, "b": (2.5, "text")}, 20))
    {
      'a': 1,
      'b': (
        2.5,
        'text'
      )
    }
    """
    if isinstance(value, ArrayBase):
        return value._text(limit).replace("\n", "\n" + _STEP * indent)
    if isinstance(value, str):
        return value if is_top else repr(value)
    if isinstance(value, float):
        return format_entry(value)
    if not is_container(value):
        return str(value) if is_top else repr(value)
    opening, closing = _brackets(value)
    lines = []
    entries = value.items() if type(value) is dict else children(value)
    for key, child in entries:
        text = pretty(child, limit, indent + 1, False)
        lines.append(_STEP * (indent + 1) + _name(value, key) + text)
    if not lines:
        return opening + closing
    return f"{opening}\n" + ",\n".join(lines) + f"\n{_STEP * indent}{closing}"


def _brackets(value: Any) -> tuple[str, str]:
    cls = type(value)
    plain: dict[type[Any], tuple[str, str]] = {
        list: ("[", "]"),
        tuple: ("(", ")"),
        dict: ("{", "}"),
    }
    if cls in plain:
        return plain[cls]
    if issubclass(cls, tuple):
        return f"{cls.__name__}(", ")"
    return f"{cls.__name__}[", "]"


def _name(container: Any, key: int | str) -> str:
    cls = type(container)
    if cls is dict:
        return f"{key!r}: "
    if cls in (list, tuple):
        return ""
    return f"{container._fields[key]}=" if isinstance(key, int) else f"{key}="
