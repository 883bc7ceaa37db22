"""Attributes that an object gets under a condition: some elements have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt
from lumijit.syntax import UndefinedVariableError


class Plain:
    hit: Any
    inner: Any


class Slots:
    __slots__ = ("hit", "inner")


@dataclass
class Fields:
    hit: Float = field(init=False)


@pytest.fixture(params=["symbolic", "evaluated"])
def mode(request: Any) -> str:
    return str(request.param)


@pytest.fixture(params=[Plain, Slots])
def kind(request: Any) -> Any:
    return request.param


def given() -> Float:
    return Float(0, 2)


def branch(x: Any, o: Any, mode: str) -> Any:
    if dr.hint(x > 1, mode=mode):
        o.hit = x * 10
    return o.hit


def branch_in_a_branch(x: Any, o: Any, mode: str) -> Any:
    if dr.hint(x < 3, mode=mode):
        x = x * 10
        if dr.hint(x > 10, mode=mode):
            o.hit = x
    return o.hit


def turns(x: Any, o: Any, mode: str) -> Any:
    i = Float(x)
    while dr.hint(i > 1, mode=mode):
        o.hit = x * 10
        i -= 1
    return o.hit


def left_by_break(x: Any, o: Any, mode: str) -> Any:
    i = UInt(0)
    while dr.hint(i < 5, mode=mode):
        if x > 1:
            o.hit = x * i
            break
        i += 1
    return o.hit


def inner_object(x: Any, o: Any, mode: str) -> Any:
    o.inner = type(o)()
    if dr.hint(x > 1, mode=mode):
        o.inner.hit = x
    return o.inner.hit


def read_under_the_same_condition(x: Any, o: Any, mode: str) -> Any:
    y = Float(0)
    if dr.hint(x > 1, mode=mode):
        o.hit = x * 10
    if dr.hint(x > 1, mode=mode):
        y = o.hit + 1
    return y


def assigned_under_another_condition(x: Any, o: Any, mode: str) -> Any:
    if dr.hint(x > 1, mode=mode):
        o.hit = x * 10
    if dr.hint(x < 1, mode=mode):
        o.hit = x
    return o.hit


UNSET = [
    branch,
    branch_in_a_branch,
    turns,
    left_by_break,
    inner_object,
    read_under_the_same_condition,
    assigned_under_another_condition,
]


@pytest.mark.parametrize("function", UNSET)
def test_reading_one_that_some_do_not_have(
    function: Callable[..., Any], kind: Any, mode: str
) -> None:
    match = (
        r"attribute 'o(\.inner)?\.hit' is read, but it has no value here: .* leave.*it "
        r"without one \('(if|while)' at .*test_unset_attributes.py:\d+\)\. Fix: assign "
        r"'o(\.inner)?\.hit' before that statement"
    )
    with pytest.raises(UndefinedVariableError, match=match):
        dr.syntax(function)(given(), kind(), mode)


@pytest.mark.parametrize("function", [branch, turns])
def test_fields_are_there_from_the_beginning(function: Any, mode: str) -> None:
    with pytest.raises(AttributeError, match="'Fields' has no attribute 'hit', which"):
        dr.syntax(function)(given(), Fields(), mode)


def both_sides(x: Any, o: Any, mode: str) -> Any:
    if dr.hint(x > 1, mode=mode):
        o.hit = x * 10
    else:
        o.hit = x + 3
    return o.hit


def both_sides_inside(x: Any, o: Any, mode: str) -> Any:
    if dr.hint(x > 1, mode=mode):
        if dr.hint(x > 3, mode=mode):
            o.hit = x
        else:
            o.hit = x * 10
    else:
        o.hit = Float(3)
    return o.hit


def set_before(x: Any, o: Any, mode: str) -> Any:
    o.hit = Float(3)
    if dr.hint(x > 1, mode=mode):
        o.hit = x * 10
    return o.hit


def set_afterwards(x: Any, o: Any, mode: str) -> Any:
    if dr.hint(x > 1, mode=mode):
        o.hit = x
    o.hit = x * 10
    return dr.maximum(o.hit, 3)


def read_inside_only(x: Any, o: Any, mode: str) -> Any:
    y = Float(3)
    if dr.hint(x > 1, mode=mode):
        o.hit = x * 10
        y = o.hit + 0
    return y


def in_each_turn(x: Any, o: Any, mode: str) -> Any:
    i, y = UInt(0), Float(3)
    while dr.hint(i < 4, mode=mode):
        o.hit = x * i
        y = dr.maximum(y, o.hit)
        i += 1
    return dr.select(x > 1, y + 14, y)


def after_turns_of_all(x: Any, o: Any, mode: str) -> Any:
    i = UInt(0)
    while dr.hint(i < 4, mode=mode):
        o.hit = x * 10
        i += 1
    return dr.maximum(o.hit, 3)


def in_a_loop_around(x: Any, o: Any, mode: str) -> Any:
    o.hit = Float(3)
    i = Float(x)
    while dr.hint(i > 1, mode=mode):
        if x > 1:
            o.hit = x * 10
        i -= 1
    return o.hit


SET = [
    both_sides,
    both_sides_inside,
    set_before,
    set_afterwards,
    read_inside_only,
    in_each_turn,
    after_turns_of_all,
    in_a_loop_around,
]


@pytest.mark.parametrize("function", SET)
def test_reading_one_that_all_have(
    function: Callable[..., Any], kind: Any, mode: str
) -> None:
    assert list(dr.syntax(function)(given(), kind(), mode)) == [3, 20]


@dr.syntax
def only_set(x: Float, o: Any, mode: str) -> None:
    if dr.hint(x > 1, mode=mode):
        o.hit = x * 10


def test_what_other_functions_find(kind: Any, mode: str) -> None:
    o = kind()
    only_set(given(), o, mode)
    assert repr(o.hit) == "<undefined attribute 'o.hit'>"
    for use in (lambda: o.hit + 1, lambda: Float(1) * o.hit, lambda: Float(o.hit)):
        with pytest.raises(UndefinedVariableError, match=r"attribute 'o\.hit'"):
            use()
    o.hit = Float(4)
    only_set(given(), o, mode)
    assert list(o.hit) == [4, 20]


def test_what_nobody_sets_is_missing(kind: Any, mode: str) -> None:
    @dr.syntax
    def function(x: Float, o: Any, is_set: bool) -> Float:
        y = Float(0)
        if dr.hint(x > 1, mode=mode):
            if is_set:
                o.hit = x
            y = Float(1)
        return y

    o = kind()
    assert list(function(given(), o, False)) == [0, 1]
    assert not hasattr(o, "hit")


class Source:
    def __init__(self) -> None:
        self.count = UInt(0, 0)

    def next(self) -> UInt:
        self.count = self.count + 1
        return self.count


@pytest.mark.parametrize("is_set", [True, False])
def test_conditions_are_evaluated_once(mode: str, is_set: bool) -> None:
    @dr.syntax
    def function(x: Float, o: Any, source: Source) -> None:
        while dr.hint(source.next() < x, mode=mode):
            o.hit = x * 10
            value = o.hit  # noqa: F841

    o, source = Plain(), Source()
    if is_set:
        o.hit = Float(0)
    function(Float(2, 4), o, source)
    assert list(source.count) == [2, 4]
