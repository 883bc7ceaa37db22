"""Every benchmark case, at its tiny size, computes what a reference computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from tests.benchmarks import operations, patterns, table
from tests.benchmarks.declare import Case
from tests.benchmarks.measure import leaves
from tests.benchmarks.programs import CASES
from tests.verifier.interpret import interpret


def flat(result: Any) -> Iterator[Any]:
    """Return the one-dimensional arrays of a result."""
    if isinstance(result, (list, tuple)) or dr.depth_v(result) > 1:
        for part in result:
            yield from flat(part)
    else:
        yield result


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases_agree_with_the_reference_evaluator(case: Case) -> None:
    result = case.setup(case.tiny)()
    if result is None:
        return
    arrays = list(flat(result))
    wanted = [np.array(a) for a in interpret([a._node for a in arrays])]
    dr.eval(result)
    found = list(leaves(arrays))
    widened = [np.broadcast_to(a, b.shape) for a, b in zip(wanted, found, strict=True)]
    assert table.difference(case, found, widened) == ""


def test_operations_are_traced() -> None:
    for text, call in operations.programs("lumijit"):
        assert (call() is None) == text.startswith("dr.scatter"), text


def test_patterns_are_evaluated() -> None:
    for name, call in patterns.programs("lumijit"):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            call()
            assert dr.kernel_history(), name
