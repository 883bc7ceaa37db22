"""Running a function in plain Python lane by lane and vectorized."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lumijit.syntax import syntax
from tests.dsl.syntax.fake_control import Lanes

_counter = 0


def define(text: str, name: str = "f", **names: Any) -> Callable[..., Any]:
    """Execute source text so that its functions can be found by `inspect`."""
    global _counter
    _counter += 1
    filename = f"<program {_counter}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)
    namespace: dict[str, Any] = {"__name__": "programs", **names}
    exec(compile(text, filename, "exec"), namespace)
    return namespace[name]


def agree(function: Callable[..., Any], *columns: Sequence[Any]) -> None:
    """Check that the vectorized function agrees with plain Python in each lane."""
    vectorized = syntax(function)
    rows = list(zip(*columns, strict=True))
    expected = [function(*row) for row in rows]
    scalar = [vectorized(*row) for row in rows]
    assert scalar == expected, "plain conditions must behave as plain Python"
    got = vectorized(*(Lanes(column) for column in columns))
    for lane, value in enumerate(expected):
        assert lane_of(got, lane) == value, (lane, rows[lane])


def lane_of(value: Any, lane: int) -> Any:
    """Extract one lane of a result."""
    if isinstance(value, Lanes):
        values = (
            np.broadcast_to(value.values, (lane + 1,))
            if (value.values.ndim == 0)
            else value.values
        )
        return values[lane if len(values) > 1 else 0].item()
    if isinstance(value, (list, tuple)):
        return type(value)(lane_of(v, lane) for v in value)
    if isinstance(value, dict):
        return {k: lane_of(v, lane) for k, v in value.items()}
    return value
