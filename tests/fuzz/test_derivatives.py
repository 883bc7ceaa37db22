"""Some random programs have the derivatives that differences say."""

from __future__ import annotations

import pytest

from tests.fuzz.derivatives import Check
from tests.fuzz.smooth import Writer

COUNT = 12


@pytest.mark.parametrize("is_symbolic", [True, False])
@pytest.mark.parametrize("number", range(COUNT))
def test_derivatives_agree_with_differences(number: int, is_symbolic: bool) -> None:
    check = Check(Writer(f"smooth {number}"))
    assert check.compare(is_symbolic) in (True, False), check.text


def test_a_seed_stands_for_a_program() -> None:
    assert Writer("a").text() == Writer("a").text() != Writer("b").text()
    assert "break" not in Writer("smooth 6", jumps=False).text()
