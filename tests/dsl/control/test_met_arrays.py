"""Arrays of others that code may change in place, though nobody walks to them.

Each program is run on all entries at once, and on those of one entry in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Any

import pytest

import lumijit as dr
from lumijit.control.inert import Inert
from lumijit.control.met_arrays import Met
from lumijit.llvm.ad import (
    Array1f64,
    Array2f64,
    Float64,
    TensorXf64,
    Texture1f64,
    UInt32,
)

from ..programs.modes import flags_of

X = [0.5, 1.5, 2.5, 3.5, -1.0]


@dataclass
class Ball:
    radius: Any

    def away(self, x: Any) -> Any:
        return dr.abs(x) - self.radius


class Room:
    """No tree, with trees in a list."""

    def __init__(self, balls: list[Ball]) -> None:
        self.balls = balls
        self.size = 3

    def nearest(self, x: Any) -> Any:
        found = self.balls[0].away(x)
        for ball in self.balls[1:]:
            found = dr.minimum(found, ball.away(x))
        return found


class World:
    """What programs find outside, of as many entries as `x`."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.a, self.b = Float64(x * 2), Float64(x + 1)
        self.v = Array2f64(x, x - 1)
        self.items = [Float64(x)]
        self.ball = Ball(Float64(x * 0.5))
        texels = TensorXf64(Float64(x), (dr.width(x), 1))
        self.texture = Texture1f64(texels)
        self.room = Room([Ball(Float64(x)), Ball(Float64(x * 2))])

    def arrays(self) -> list[Any]:
        balls = [self.ball, *self.room.balls]
        flat = [self.a, self.b, self.texture.value(), *[b.radius for b in balls]]
        return [*flat, *self.v, *self.items]


Program = Callable[[Any], Any]
PROGRAMS: list[Callable[[World], Program]] = []


def program(make: Callable[[World], Program]) -> Callable[[World], Program]:
    PROGRAMS.append(make)
    return make


@program
def reads(w: World) -> Program:
    a = w.a

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            x = x + a
            i += 1
        return x

    return f


@program
def another_name(w: World) -> Program:
    a = w.a

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            y = a
            if x > 1:
                y += x
            i += 1
        return x

    return f


@program
def an_argument_of_a_helper(w: World) -> Program:
    a = w.a

    def add(y: Any, x: Any) -> None:
        y += x

    def f(x: Any) -> Any:
        if x > 1:
            add(a, x)
        return x + a

    return f


@program
def what_a_helper_returns(w: World) -> Program:
    a, b = w.a, w.b

    def which(k: int) -> Any:
        return a if k else b

    def f(x: Any) -> Any:
        while x < 3:
            y = which(1)
            y *= 0.5
            x += 1
        return x + a + b

    return f


@program
def state_that_is_outside_too(w: World) -> Program:
    a = w.a

    def f(x: Any) -> Any:
        y = a
        i = UInt32(0)
        while i < 3:
            y += x + a
            i += 1
        return y

    return f


@program
def in_a_condition(w: World) -> Program:
    a = w.a

    def grown(x: Any) -> Any:
        y = a
        y += 1
        return y

    def f(x: Any) -> Any:
        i = UInt32(0)
        while grown(x) < 5:
            i += 1
        return x + i

    return f


@program
def in_a_branch_of_a_loop(w: World) -> Program:
    a = w.a

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 4:
            if x > 1:
                y = a
                y -= 1
            else:
                x += a
            i += 1
        return x

    return f


@program
def a_vector(w: World) -> Program:
    v = w.v

    def f(x: Any) -> Any:
        if x > 1:
            u = v
            u += x
        return x + v.y

    return f


@program
def a_list_that_grows(w: World) -> Program:
    items = w.items

    def f(x: Any) -> Any:
        y = items[0]
        i = UInt32(0)
        while i < 2:
            y += x
            i += 1
        return x + items[0]

    return f


@program
def an_attribute(w: World) -> Program:
    ball = w.ball

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            r = ball.radius
            if ball.away(x) > 0:
                r += 0.25
            i += 1
        return ball.away(x)

    return f


@program
def objects_that_are_read(w: World) -> Program:
    room = w.room

    def f(x: Any) -> Any:
        i = UInt32(0)
        while (i < 5) & (room.nearest(x) < 4):
            x += dr.abs(room.nearest(x)) * 0.5
            i += 1
        return x

    return f


@program
def objects_in_a_list(w: World) -> Program:
    room = w.room

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 2:
            for ball in room.balls:
                r = ball.radius
                if r > x * 0.5:
                    r *= 0.5
            i += 1
        return room.nearest(x)

    return f


@program
def an_object_that_a_loop_gets(w: World) -> Program:
    found = w.room

    def f(x: Any) -> Any:
        room = found
        i = UInt32(0)
        while i < 2:
            r = room.balls[1].radius
            if x > 1:
                r += room.size
            x += room.nearest(x)
            i += 1
        return x

    return f


@program
def texels(w: World) -> Program:
    texture = w.texture

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            y = texture.value()
            if x > 1:
                y += x
            i += 1
        return x

    return f


@program
def a_tensor(w: World) -> Program:
    tensor = w.texture.tensor()

    def f(x: Any) -> Any:
        y = tensor
        if x > 1:
            y *= 2
        return x + tensor.array

    return f


@program
def a_texture_that_is_replaced(w: World) -> Program:
    texture = w.texture

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            if x > 1:
                texture.set_value(texture.value() + x)
            i += 1
        return x

    return f


@program
def a_write_by_index(w: World) -> Program:
    a, b = w.a, w.b

    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 2:
            if x > 1:
                dr.scatter_add(a, x, dr.arange(UInt32, dr.width(x)))
            y = b
            y += 1
            i += 1
        return x

    return f


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda p: p.__name__)
def test_changes_are_those_of_plain_python(
    make: Callable[[World], Program], mode: str
) -> None:
    world = World(Float64(X))
    with flags_of(mode):
        found = dr.syntax(make(world))(Float64(X))
    rows = []
    for x in X:
        alone = World(Float64(x))
        result = make(alone)(Float64(x))
        rows.append([v[0] for v in (result, *alone.arrays())])
    for value, want in zip(
        (found, *world.arrays()), zip(*rows, strict=True), strict=True
    ):
        assert list(value + dr.zeros(Float64, len(X))) == pytest.approx(list(want))


put, parts_of, look_up = setattr, vars, getattr
method_of, attribute_of = methodcaller, attrgetter
set_texels = Texture1f64.set_value


def replaced(ball: Any, x: Any) -> None:
    put(ball, "radius", x)


def replaced_by_name(ball: Any, x: Any) -> None:
    getattr(ball, "__setattr__")("radius", x)  # noqa: B009


def replaced_by_another_name(ball: Any, x: Any) -> None:
    look_up(ball, "__setattr__")("radius", x)


def replaced_by_a_call(ball: Any, x: Any) -> None:
    method_of("__setattr__", "radius", x)(ball)


def made_again(ball: Any, x: Any) -> None:
    ball.__init__(x)


def made_again_by_its_class(ball: Any, x: Any) -> None:
    Ball.__init__(ball, x)


def merged(ball: Any, x: Any) -> None:
    entries = vars(ball)
    entries |= {"radius": x}


def merged_by_another_name(ball: Any, x: Any) -> None:
    entries = parts_of(ball)
    entries |= {"radius": x}


def merged_as_attribute(ball: Any, x: Any) -> None:
    entries = attribute_of("__dict__")(ball)
    entries |= {"radius": x}


def texels_replaced_by_name(texture: Any, x: Any) -> None:
    getattr(texture, "set_value")(x)  # noqa: B009


def texels_replaced_by_another_name(texture: Any, x: Any) -> None:
    set_texels(texture, x)


CHANGES = [
    *[replaced, replaced_by_name, replaced_by_another_name, replaced_by_a_call],
    *[made_again, made_again_by_its_class],
    *[merged, merged_by_another_name, merged_as_attribute],
    *[texels_replaced_by_name, texels_replaced_by_another_name],
]


#: Set by the test.
act: Any = None


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("is_state", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_changes_by_computed_or_other_names_are_found(
    change: Callable[[Any, Any], None],
    is_state: bool,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(Float64(X))
    is_texture = change.__name__.startswith("texels")
    found = world.texture if is_texture else world.ball
    before = list(world.texture.value() if is_texture else world.ball.radius)
    # (As a global function it is none of the values that a construct gets.)
    monkeypatch.setitem(globals(), "act", change)

    def outside(x: Any) -> Any:
        i = UInt32(0)
        while i < 2:
            if x > 1:
                act(found, x + i)
            i += 1
        return x

    def state(x: Any, value: Any) -> Any:
        i = UInt32(0)
        while i < 2:
            if x > 1:
                act(value, x + i)
            i += 1
        return x

    with flags_of(mode):
        if is_state:
            dr.syntax(state)(Float64(X), found)
        else:
            dr.syntax(outside)(Float64(X))
    got = list(world.texture.value() if is_texture else world.ball.radius)
    assert got == [v + 1 if v > 1 else b for v, b in zip(X, before, strict=True)]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_an_error_leaves_arrays_as_they_were(mode: str) -> None:
    a = Float64(1, 2, 3)

    @dr.syntax
    def f(x: Any) -> Any:
        if x > 1:
            y = a
            y += x
            raise_it(x)
        return x

    def raise_it(x: Any) -> None:
        raise KeyError("x")

    with flags_of(mode), pytest.raises(KeyError):
        f(Float64(1, 2, 3))
    assert list(a) == [1, 2, 3]


def test_what_only_changes_in_place_is_compared() -> None:
    a, ball, table = Float64(1), Ball(Float64(1)), [Float64(2)]

    def adds(x: Any) -> None:
        x += a + ball.away(x) + table[0]

    def stores(x: Any) -> None:
        x += a
        ball.radius = x

    def appends(x: Any) -> None:
        x += a
        table.append(x)

    texture = World(Float64(1)).texture

    def looks_up(x: Any) -> None:
        x += texture.eval(Array1f64(x))[0]

    inert = Inert()
    assert not inert.are_all((looks_up,), (Float64(1),))
    met = inert.met_only((looks_up,), (Float64(1),))
    assert met is not None
    assert {id(v) for v in met.arrays} == {id(texture.value())}
    inert = Inert()
    assert not inert.are_all((adds,), (Float64(1),))
    met = inert.met_only((adds,), (Float64(1),))
    assert isinstance(met, Met)
    assert {id(v) for v in met.arrays} == {id(v) for v in (a, ball.radius, table[0])}
    assert Inert().met_only((adds,), (a,)) is None
    for function in (stores, appends):
        inert = Inert()
        assert not inert.are_all((function,), (Float64(1),))
        assert inert.met_only((function,), (Float64(1),)) is None


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_gradients_pass_through_arrays_that_are_compared(mode: str) -> None:
    a = Float64(1, 2, 3)
    dr.enable_grad(a)

    @dr.syntax
    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            x += a * x
            i += 1
        return x

    with flags_of(mode):
        dr.backward(f(Float64(1, 1, 1)))
    assert list(a.grad) == pytest.approx([3 * (1 + v) ** 2 for v in (1, 2, 3)])
