"""Names that a block gives other objects, after or before it changes these.

Each function is compared with itself run element by element, as plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import lumijit as lj
from lumijit.llvm.ad import Float64, Int
from lumijit.runtime.errors import SyntaxTransformError

from .by_element import K, Program, X, check, expected

PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


@dataclass
class Ball:
    x: Any
    y: Any = 0

    def bump(self) -> Ball:
        self.x = self.x + 1
        return self


class Two(NamedTuple):
    first: Any
    second: Any


class Holder:
    """An object that is no PyTree."""

    def __init__(self, held: Any) -> None:
        self.held = held


@program
def changed_then_replaced(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    old = a
    if k > 2:
        a.x = a.x + 1
        a = b
    return a.x, b.x, old.x


@program
def changed_on_one_side_and_replaced_on_the_other(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    old = a
    if k > 2:
        a.bump()
    else:
        a = b
    return a.x, b.x, old.x


@program
def exchanged(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    first, second = a, b
    if k > 2:
        a.x = a.x + 1
        a, b = b, a
        a.x = a.x * 3
    return a.x, b.x, first.x, second.x


@program
def entries_of_lists_and_dictionaries(k: Any, x: Any) -> Any:
    balls, table = [Ball(x * 1), Ball(x * 2)], {"ball": Ball(x * 3)}
    a, c = balls[0], table["ball"]
    if k > 2:
        balls[0].x = balls[0].x + 1
        balls[0] = balls[1]
        table["ball"].bump()
        table["ball"] = Ball(x)
    return balls[0].x, balls[1].x, a.x, c.x, table["ball"].x


@program
def lists_and_dictionaries(k: Any, x: Any) -> Any:
    values, table = [x * 1, x * 2], {"a": x * 1}
    old, old_table = values, table
    if k > 2:
        values[0] = values[0] + 1
        values = [x * 7, x * 8]
        table["a"] = table["a"] + 1
        table = {"a": x * 3}
    return values, old, old_table["a"], table["a"]


@program
def a_list_made_anew_with_the_same_objects(k: Any, x: Any) -> Any:
    balls = [Ball(x * 1), Ball(x * 2)]
    a, b = balls
    if k > 2:
        balls[0].bump()
        balls = [balls[0], Ball(x)]
    else:
        balls = [balls[0], balls[1]]
    balls[0].bump()
    return [ball.x for ball in balls], a.x, b.x


@program
def attributes_of_objects(k: Any, x: Any) -> Any:
    holder, b = Holder(Ball(x * 1)), Ball(x * 3)
    a = holder.held
    if k > 2:
        holder.held.x = holder.held.x + 1
        holder.held = b
    return holder.held.x, a.x, b.x


@program
def nested_blocks(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    old = a
    if k > 2:
        a.bump()
        if k > 4:
            a.bump()
            a = b
            a.bump()
        else:
            b.x = b.x * 2
    return a.x, b.x, old.x


@program
def try_and_finally(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    old = a
    if k > 2:
        try:
            a.x = a.x + 1
        finally:
            a = b
        a.x = a.x + 5
    return a.x, b.x, old.x


@program
def early_returns(k: Any, x: Any) -> Any:
    a = Ball(x * 1)

    @lj.syntax
    def inner() -> Any:
        b = a
        if k > 2:
            b.x = b.x + 1
            return b.x
        b = Ball(x)
        b.x = b.x + 2
        return b.x

    return inner(), a.x


@program
def structs_in_tuples(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    pair, named = (a, b), Two(a, [b])
    if k > 2:
        pair[0].x = pair[0].x + 1
        named.first.x = named.first.x + 1
        named.second[0].bump()
    i = 0
    while i < k:
        for ball in pair:
            ball.bump()
        i += 1
    return a.x, b.x


@program
def a_loop_that_goes_on_with_another_object(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    old = a
    i = 0
    while i < k:
        a.x = a.x + 1
        a = b
        i += 1
    return a.x, b.x, old.x


@program
def a_loop_that_goes_on_with_a_new_object(k: Any, x: Any) -> Any:
    a, balls = Ball(x * 1), [Ball(x * 1), Ball(x * 2)]
    old, first = a, balls[0]
    for _ in range(k):
        a.x = a.x + 1
        a = Ball(a.x * 0.5)
        balls[0].bump()
        balls[0] = Ball(balls[0].x * 0.5)
    return a.x, old.x, balls[0].x, first.x


@program
def a_loop_that_reads_before_it_joins_names(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    total = x * 0
    i = 0
    while i < k:
        b.x = b.x + 1
        total = total + a.x
        a = b
        i += 1
    return a.x, b.x, total


@program
def replaced_in_some_elements(k: Any, x: Any) -> Any:
    a = Ball(x * 1)
    old = a
    for i in range(k):
        a.x = a.x + 1
        if i == 1:
            a = Ball(x * 5)
    return a.x, old.x


@program
def a_loop_that_parts_names(k: Any, x: Any) -> Any:
    a = b = Ball(x * 1)
    i = 0
    while i < k:
        b.x = b.x + 1
        b = Ball(b.x * 0.5)
        i += 1
    return a.x, b.x


@program
def a_loop_that_hands_objects_on(k: Any, x: Any) -> Any:
    before, now = Ball(x * 1), Ball(x * 2)
    first, second = before, now
    i = 0
    while i < k:
        before.x = before.x + 1
        before = now
        now = Ball(now.x * 0.5)
        i += 1
    return before.x, now.x, first.x, second.x


@program
def a_loop_in_a_loop(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    old = a
    for i in range(k):
        c = b
        for j in range(i):
            c.bump()
            c = a
            if j > 2:
                break
    return a.x, b.x, old.x


@program
def a_loop_on_an_object_that_is_no_tree(k: Any, x: Any) -> Any:
    holder, b = Holder(Ball(x * 1)), Ball(x * 2)
    old = holder.held
    i = 0
    while i < k:
        holder.held.bump()
        holder.held = b
        i += 1
    return holder.held.x, b.x, old.x


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_element_by_element(function: Program, symbolic: bool) -> None:
    """Changes were lost, and loops computed with the object of another turn."""
    check(function, symbolic)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_of_numbers_it_is_plain_python(function: Program) -> None:
    decorated = lj.syntax(function)
    for k, y in zip(K, X, strict=True):
        assert expected(decorated, k, y) == expected(function, k, y)


def in_turns(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    i = 0
    while i < k:
        a.x = a.x + 1
        a, b = b, a
        i += 1
    return a.x, b.x


def in_some_elements(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    i = 0
    while i < k:
        a.x = a.x + 1
        if i == 1:
            a = b
        i += 1
    return a.x, b.x


def in_elements_that_go_on(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    for i in range(k):
        a.x = a.x + 1
        if i == 2:
            break
        a = b
    return a.x, b.x


def after_a_branch(k: Any, x: Any) -> Any:
    a, b = Ball(x * 1), Ball(x * 2)
    if k > 2:
        a = b
    if k > 3:
        a.x = a.x + b.x
    return a.x, b.x


SHARED: dict[Program, str] = {
    in_some_elements: r"'a' and 'b' are one object in some.*'while' here changes it",
    in_elements_that_go_on: r"'a' and 'b' are one object in some elements.*'for' here",
    after_a_branch: r"'a' and 'b' are one object in some elements.*'if' here changes",
    in_turns: r"variables of this loop exchange objects in each turn.*Fix: assign",
}


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("function", SHARED, ids=lambda f: f.__name__)
def test_what_differs_between_elements_or_turns_is_refused(
    function: Program, symbolic: bool
) -> None:
    """The object of some elements, or of every other turn, would be changed."""
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
        pytest.raises(SyntaxTransformError, match=SHARED[function]),
    ):
        lj.syntax(function)(Int(K), Float64(X))


def test_what_nobody_else_names_may_be_changed() -> None:
    """As where the nearest of several hits is kept, and then completed."""

    @lj.syntax
    def nearest(k: Any, x: Any) -> Any:
        best = Ball(x * 0 + 10)
        for center in (1.0, 2.25, 3.75):
            hit = Ball((x - center) * (x - center))
            if hit.x < best.x:
                hit.y = center
                best = hit
        if best.x < 10:
            best.y = best.y * 2
        best.x = best.x + 1
        return best.x, best.y

    check(nearest, True)
    check(nearest, False)
