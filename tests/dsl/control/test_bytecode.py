"""What is told of functions by their code, in all versions of Python."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

import pytest

from lumijit.control import bytecode


def reads(x: Any) -> Any:
    return x[0] + x[1:] - x.entry * -x


def adds(x: Any) -> Any:
    x += 1
    return x


def fills(x: Any) -> Any:
    x[0] = 1


def names(x: Any) -> Any:
    x.entry = 1


def rebinds_its_own(x: Any) -> Any:
    def inner() -> None:
        nonlocal x
        x = 1

    return inner


rebinds = rebinds_its_own(0)


@pytest.mark.parametrize(
    ("function", "changes"),
    [(reads, False), (adds, True), (fills, True), (names, True), (rebinds, True)]
    + [(rebinds_its_own, False)],
)
def test_what_changes(function: Callable[..., Any], changes: bool) -> None:
    facts = bytecode.facts_of(function.__code__)
    assert facts.changes is changes
    assert facts.rebinds is (function is rebinds)
    assert facts.attributes == ({"entry"} if function is names else set())


def test_attributes_that_are_asked_for() -> None:
    def f(x: Any) -> Any:
        return x.a.b(1).c(dis.opmap, 2)

    found = [name for name, _ in bytecode.attributes_of(f.__code__)]
    assert sorted(found) == ["a", "b", "c", "opmap"]
