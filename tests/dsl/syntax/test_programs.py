"""The rewriting alone: programs with NumPy stand-ins for arrays and primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.dsl.programs import idioms, names, statements
from tests.dsl.programs.modes import PLAIN, X, Y
from tests.dsl.syntax.lanes import agree

assert idioms
assert names
assert statements


@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
def test_a_program_agrees_with_plain_python(function: Callable[..., Any]) -> None:
    agree(function, X, Y)


@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
def test_a_program_agrees_in_one_lane(function: Callable[..., Any]) -> None:
    agree(function, [5], [3])
