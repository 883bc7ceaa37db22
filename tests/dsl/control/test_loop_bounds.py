"""`max_iterations`: a bound for derivatives, which nothing else needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import UInt


@pytest.mark.parametrize("bound", [1.5, "3", True, -2])
def test_a_bound_is_a_number_of_iterations(bound: Any) -> None:
    with pytest.raises(ValueError, match="while_loop: max_iterations is"):
        dr.while_loop((1,), lambda i: i < 3, lambda i: (i + 1,), max_iterations=bound)


@pytest.mark.parametrize("bound", [None, -1, 0, 2, np.int64(2)])
def test_nothing_enforces_a_bound(bound: Any) -> None:
    (x,) = dr.while_loop(
        (UInt(1, 2),), lambda i: i < 9, lambda i: (i + 1,), max_iterations=bound
    )
    assert list(x) == [9, 9]
