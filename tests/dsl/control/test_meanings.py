"""Which functions in conditions are taken to change nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm.ad import Int, UInt
from lumijit.syntax.meanings import Meanings

ACTING = """
accum_grad assert_true backward backward_from backward_to binary_search clear_grad
custom dispatch enable_grad forward forward_from forward_to gradcheck if_stmt jvp
print run_lane scatter scatter_add scatter_cas scatter_exch scatter_inc set_flag
set_grad switch value_and_grad vjp while_loop
"""
HARMLESS = "abs all any dot eval gather grad maximum norm select sin sum width zeros"


class Drawing:
    def __init__(self, source: Any) -> None:
        self.value = source.next()


@dataclass
class Fields:
    value: Any
    others: list[Any] = field(default_factory=list)


def user() -> int:
    return 1


def answers(*paths: str) -> list[bool]:
    meanings = Meanings(answers)  # type: ignore[arg-type]
    return [meanings.is_harmless(tuple(path.split("."))) for path in paths]


def test_what_changes_something() -> None:
    names = [name for name in ACTING.split() if hasattr(lj, name)]
    assert len(names) > 20
    assert not any(answers(*(f"lj.{name}" for name in names)))
    assert not any(answers("user", "Drawing", "next", "setattr", "print", "map"))


def test_what_changes_nothing() -> None:
    assert all(answers(*(f"lj.{name}" for name in HARMLESS.split())))
    assert all(answers("Int", "Fields", "Fields.__class__", "len", "max", "isinstance"))


class Source:
    def __init__(self) -> None:
        self.count = 0

    def next(self) -> Any:
        self.count += 1
        return self.count


@pytest.mark.parametrize("symbolic", [True, False])
def test_they_run_for_those_who_get_there(symbolic: bool) -> None:
    @lj.syntax
    def made(k: Any, source: Source) -> Any:
        return k > 1 and Drawing(source).value > 0

    @lj.syntax
    def counted(k: Any, bins: Any) -> Any:
        return k > 1 and lj.scatter_inc(bins, UInt(0)) < 2

    with lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic):
        source = Source()
        assert list(made(Int(0, 1, 2, 3), source)) == [False, False, True, True]
        assert list(source.count) == [0, 0, 1, 1]  # type: ignore[call-overload]
        bins = UInt(0)
        np.testing.assert_array_equal(counted(Int(0, 1, 2, 3), bins), [0, 0, 1, 1])
        assert list(bins) == [2]
