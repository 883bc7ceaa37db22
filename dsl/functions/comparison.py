"""`assert_allclose`: an error that says by how much arrays differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit.functions.selection import comparable


def assert_allclose(
    actual: Any,
    desired: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    err_msg: str = "",
) -> None:
    """Raise unless |actual - desired| <= |desired| rtol + atol everywhere.

    Args:
        actual: number, sequence or array; sequences as in `allclose`.
        desired: number, sequence or array.
        rtol: relative tolerance, by default that of `allclose`.
        atol: absolute tolerance, by default that of `allclose`.
        equal_nan: whether two NaNs agree.
        err_msg: what the message begins with.

    Raises:
        AssertionError: if they differ.

    >>> import lumijit as dr
    >>> dr.assert_allclose(dr.llvm.Float(1, 2), [1.00001, 2])
    """
    construct = "lumijit.assert_allclose"
    for compared in comparable(construct, actual, desired, rtol, atol):
        first, second, rtol, atol, path = compared
        wrong = ~np.isclose(first, second, rtol, atol, equal_nan)
        if wrong.any():
            break
    else:
        return
    with np.errstate(all="ignore"):
        distances = np.abs(first - second)[wrong]
        ratios = distances / np.abs(second)[wrong]
    count = int(wrong.sum())
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    place = f" of item {list(path)}" if path else ""
    lines = [
        *([err_msg] if err_msg else []),
        f"Arrays differ by more than rtol={rtol}, atol={atol}",
        f"Mismatched elements{place}: {count} of {wrong.size}",
        f"Largest absolute difference: {_largest(distances):.6g}",
        f"Largest relative difference: {_largest(ratios):.6g}",
        f"First at {list(at)}: {first[at]!r} (expected {second[at]!r})",
        f"actual: {actual}",
        f"desired: {desired}",
    ]
    raise AssertionError("\n".join(lines))


def _largest(values: Any) -> float:
    return float(np.nanmax(values)) if not np.isnan(values).all() else float("nan")
