"""The `hint` function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def hint(
    arg: T,
    /,
    *,
    mode: str | None = None,
    max_iterations: int | None = None,
    label: str | None = None,
    include: Sequence[object] | None = None,
    exclude: Sequence[object] | None = None,
    strict: bool = True,
    compress: bool | None = None,
) -> T:
    """Return `arg`; around a condition, tell `@syntax` how to vectorize it.

    Args:
        arg: The condition of an `if` or `while`, or the `range(...)` of a `for`.
        mode: "scalar", "symbolic" or "evaluated": how the construct is compiled.
        max_iterations: Upper bound on the number of iterations of a loop.
        label: A name for the construct in the generated code.
        include: Local variables that must be state.
        exclude: Local variables that must not be state.
        strict: Whether state variables are checked for consistency.
        compress: Whether an evaluated loop drops finished elements.

    Returns:
        `arg`, unchanged.

    >>> hint(3 < 4, label="always")
    True
    """
    return arg
