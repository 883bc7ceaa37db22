"""Trees that functions of a construct leave as they are, and those that they don't."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

import lumijit as lj
from lumijit.control.inert import Inert, are_still
from lumijit.llvm import Float, Int
from lumijit.llvm.ad import PCG32, Float64

from .by_element import Program, check


@dataclass
class Look:
    radius: Any
    scale: Any = 1.0


@dataclass
class Moving:
    t: Any

    def step(self, by: Any) -> None:
        self.t = self.t + by

    def at(self, x: Any) -> Any:
        return self.t * x


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Counted:
    t: Any

    def __post_init__(self) -> None:
        MADE.append(1)


@dataclass
class Greedy:
    t: Any

    def absorb(self, other: Any) -> Any:
        other += self.t
        return other


@dataclass(init=False)
class Marking:
    t: Any

    def __init__(self, look: Any) -> None:
        self.t = look.radius * 1
        look.radius = look.radius + 1


MADE: list[int] = []


def reads(x: Any, look: Look) -> Any:
    return x * look.scale - look.radius


def writes(x: Any, look: Look) -> Any:
    look.radius = look.radius + x
    return look.radius


def grows(values: list[Any], x: Any) -> None:
    values[0] += x
    values += []


def sets(look: Any, x: Any) -> None:
    setattr(look, "rad" + "ius", x)


def only_read(k: Any, x: Any) -> Any:
    look = Look(x * 2, Float64(x) + 1)
    for _ in range(k):
        x = reads(x, look) * 0.25
    if x > 0:
        x += reads(x, look)
    return x, look.radius, look.scale


def changed_by_a_function(k: Any, x: Any) -> Any:
    look = Look(x * 2)
    for i in range(k):
        if i % 2 == 0:
            x = writes(x, look) * 0.5
        else:
            x = reads(x, look) * 0.5
    return x, look.radius


def changed_by_a_method(k: Any, x: Any) -> Any:
    moving = Moving(x)
    for _ in range(k):
        if moving.at(x) < 3:
            moving.step(x * 0.1)
    return moving.t, moving.at(x)


def read_by_a_method(k: Any, x: Any) -> Any:
    moving = Moving(x)
    total = x * 0
    for i in range(k):
        total += moving.at(i)
    return total, moving.t


def a_list_works_in_place(k: Any, x: Any) -> Any:
    values = [x * 1, x * 2]
    for i in range(k):
        if i > 1:
            grows(values, x)
    return values


def set_by_name(k: Any, x: Any) -> Any:
    look = Look(x)
    if k > 3:
        sets(look, x * 3)
    return look.radius


def set_as_an_item(k: Any, x: Any) -> Any:
    values = [x * 1, x * 2]
    for _ in range(k):
        operator.setitem(values, 0, values[0] * 0.5 + values[1])
    return values


def drawn(rng: Any, x: Any) -> Any:
    return rng.next_float64() * x


def an_array_works_in_place(k: Any, x: Any) -> Any:
    look, pair = Look(x * 1), Pair(x * 2, x * 3)
    for i in range(k):
        nudges(x, look, pair)
        if i == 2:
            nudges(x * 2, look, pair)
    return look.radius, pair.a, pair.b, x


def nudges(x: Any, look: Any, pair: Any) -> None:
    radius, b = look.radius, pair.b
    radius += x
    b *= 0.5


def marked_as_something_is_made(k: Any, x: Any) -> Any:
    look = Look(x)
    total = x * 0
    for _ in range(k):
        total += Marking(look).t
    return look.radius, total


def made_in_each_turn(k: Any, x: Any) -> Any:
    look, pair = Look(x), Pair(x, x * 2)
    for i in range(k):
        look = Look(look.radius * 0.5 + pair.a, look.scale)
        if i % 3 == 0:
            look = replace(look, radius=look.radius - 1)
        pair = Pair(pair.b, pair.a)
    return look.radius, pair.a, pair.b


def in_nested_trees(k: Any, x: Any) -> Any:
    trees: dict[str, Any] = {"a": [Look(x), (x, Look(x * 2))]}
    for _ in range(k):
        x = reads(x, trees["a"][0]) * 0.5 + reads(x, trees["a"][1][1]) * 0.25
        if x < 0:
            writes(x * 0 + 1, trees["a"][1][1])
    return x, trees["a"][0].radius, trees["a"][1][1].radius


def two_names(k: Any, x: Any) -> Any:
    look = Look(x)
    other = look
    for i in range(k):
        x = x * 0.5 + reads(x, other) * 0.1
        if i == 2:
            x = writes(x, look)
    return x, look.radius, other.radius


PROGRAMS = [
    only_read,
    changed_by_a_function,
    changed_by_a_method,
    read_by_a_method,
    a_list_works_in_place,
    set_by_name,
    set_as_an_item,
    marked_as_something_is_made,
    made_in_each_turn,
    in_nested_trees,
    two_names,
]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("symbolic", [True, False])
def test_as_element_by_element(function: Program, symbolic: bool) -> None:
    check(function, symbolic)


@lj.syntax
def passed_on(look: Any, x: Any, k: Any) -> Any:
    i = Int(0)
    while i < k:
        x = reads(x, look)
        i += 1
    if x > 0:
        x = reads(x, look)
    return look, x


def test_what_stays_is_the_very_object() -> None:
    look = Look(Float(1, 2), Float(3))
    held = look.radius, look.scale
    found, _ = passed_on(look, Float(1, 2), Int(1, 2))
    assert found is look
    assert look.radius is held[0]
    assert look.scale is held[1]


@pytest.mark.parametrize("symbolic", [True, False])
def test_arrays_in_trees_change_in_place(symbolic: bool) -> None:
    """Numbers don't, so that this is compared with arrays of one entry."""
    k, x = Int(0, 1, 2, 3, 5), Float64(1, 2, 3, 4, 5)
    function = lj.syntax(an_array_works_in_place)
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = function(k, x)
    for lane in range(5):
        alone = an_array_works_in_place(int(k[lane]), Float64(x[lane]))
        assert [v[lane] for v in found] == [v[0] for v in alone]


@pytest.mark.parametrize("is_made", [False, True])
def test_a_method_changes_what_it_is_given(is_made: bool) -> None:
    """An array of others, in some elements only."""
    held = Float64(5, 5)

    def absorbs(x: Any, greedy: Any) -> Any:
        return greedy.absorb(held) * x

    def makes(x: Any, _: Any) -> Any:
        return Greedy(x * 0 + 1).absorb(held) * x

    function = makes if is_made else absorbs
    assert not Inert().are_all((function,), (Float64(1), Greedy(Float64(1))))

    @lj.syntax
    def program(x: Any, greedy: Any) -> Any:
        if x > 1:
            x = function(x, greedy)
        return x

    assert list(program(Float64(1, 2), Greedy(Float64(1)))) == [1, 12]
    assert list(held) == [5, 6]


@lj.syntax
def draws(rng: Any, x: Any, k: Any) -> Any:
    i = Int(0)
    while i < k:
        x = x + drawn(rng, x)
        i += 1
    if k > 2:
        x = x + drawn(rng, x)
    return x


@pytest.mark.parametrize("symbolic", [True, False])
def test_generators_move_on(symbolic: bool) -> None:
    """Methods of this package's structs may change them."""
    rng, x = PCG32(size=4), Float64(1, 2, 3, 4)
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = draws(rng, x, Int(0, 1, 2, 3))
    for lane, count in enumerate((0, 1, 2, 4)):
        other, value = PCG32(size=4), Float64(1, 2, 3, 4)
        for _ in range(count):
            value = value + drawn(other, value)
        assert rng.state[lane] == other.state[lane]
        assert found[lane] == value[lane]


def test_what_is_still() -> None:
    def adds(x: Any, look: Any) -> Any:
        x += reads(x, look)
        return x

    def makes(x: Any, look: Any) -> Any:
        return Look(look.radius + x)

    def counts(x: Any, look: Any) -> Any:
        return Counted(look.radius + x).t

    look, moving = Look(Float(1)), Moving(Float(1))
    for function in (reads, adds, makes):
        assert Inert().are_all((function,), (Float(1), look))
        assert are_still((function,), (Float(1), look))
        assert are_still((function,), (Float(1), (look, Pair(look, 1))))
    assert Inert().are_all((writes,), (look,))
    assert not are_still((writes,), (look,))
    # A list may be what works in place, and a method may change its object.
    assert are_still((reads,), ([look],))
    assert not are_still((adds,), ([look],))
    assert not are_still((reads,), (moving,))
    assert Inert().are_all((reads,), (moving,))
    # Something is done where they are made.
    assert not Inert().are_all((counts,), (look,))
    assert not are_still((counts,), (look,))
    # What isn't declared may be anything.
    look.extra = MADE  # type: ignore[attr-defined]
    assert not Inert().are_all((reads,), (look,))


def test_a_class_that_changes_is_looked_at_again() -> None:
    @dataclass
    class Late:
        t: Any

    Late.__qualname__ = "Late"
    late = Late(Float(1))
    assert are_still((reads,), (late,))

    def step(self: Any) -> None:
        self.t = self.t + len(MADE)

    Late.step = step  # type: ignore[attr-defined]
    assert not are_still((reads,), (late,))


def test_methods_of_texts_that_are_run_are_no_dataclass_s() -> None:
    space: dict[str, Any] = {"__name__": __name__}
    text = "class Told:\n DRJIT_STRUCT = {'t': float}\n def move(self): self.t = 1"
    exec(text, space)
    told = space["Told"]()
    told.t = Float(1)
    assert not are_still((reads,), (told,))


def test_a_function_that_is_exchanged_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def calls(x: Any, look: Any) -> Any:
        return reads(x, look)

    look = Look(Float(1))
    assert are_still((calls,), (look,))
    monkeypatch.setitem(globals(), "reads", writes)
    assert not are_still((calls,), (look,))
