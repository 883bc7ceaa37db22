"""Containers of a construct's state that functions reach in another way, too.

Through objects, closures, methods, arguments that are bound, tuples. Each function is
compared with itself run element by element, as plain Python.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm.ad import Float64

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


class Slotted:
    DRJIT_STRUCT = {"x": Float64}
    __slots__ = ("extra", "x")

    def __init__(self, x: Any = 0.0) -> None:
        self.x = x

    def bump(self) -> None:
        self.x = self.x + 1


@dataclass(frozen=True)
class Frozen:
    inner: Any


class Holder:
    def __init__(self, ball: Any) -> None:
        self.ball = ball
        self.balls = [ball]

    def go(self) -> None:
        self.ball.x = self.ball.x + 1

    def go_on(self) -> None:
        self.balls[0].bump()


class Tight:
    __slots__ = ("ball",)

    def __init__(self, ball: Any) -> None:
        self.ball = ball


@program
def method_before(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    m = ball.bump
    i = 0
    while i < k:
        m()
        ball.bump()
        i += 1
    return ball.x


@program
def held_by_object(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    i = 0
    while i < k:
        holder.go()
        ball.bump()
        i += 1
    return ball.x, holder.ball.x


@program
def held_by_object_list(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    i = 0
    while i < k:
        holder.go_on()
        ball.bump()
        if k > 3:
            holder.balls[0].bump()
        i += 1
    return ball.x, holder.ball.x


@program
def held_branch(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    if k > 2:
        holder.go()
        ball.bump()
        holder.go_on()
    return ball.x, holder.ball.x


@program
def held_by_closure(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)

    def make(e):
        def f():
            e.bump()

        return f

    f = make(ball)
    i = 0
    while i < k:
        f()
        ball.bump()
        i += 1
    return ball.x


@program
def held_by_default(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)

    def f(e=ball):
        e.bump()

    i = 0
    while i < k:
        f()
        ball.bump()
        i += 1
    return ball.x


@program
def held_by_partial(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    p = functools.partial(Ball.bump, ball)
    i = 0
    while i < k:
        p()
        ball.bump()
        i += 1
    return ball.x


@program
def held_by_default_list(k: Any, x: Any) -> Any:
    acc = [x * 1]

    def f(v, a=acc):
        a[0] = a[0] + v

    i = 0
    while i < k:
        f(i)
        acc[0] = acc[0] * 2
        i += 1
    return acc[0]


@program
def read_only_elsewhere(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    t = x * 0
    i = 0
    while i < k:
        ball.bump()
        t += holder.ball.x
        i += 1
    return ball.x, holder.ball.x, t


@program
def read_by_method(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)

    class R:
        def __init__(s):
            s.ball = ball

        def get(s):
            return s.ball.x

    r = R()
    t = x * 0
    i = 0
    while i < k:
        ball.bump()
        t += r.get()
        i += 1
    return ball.x, t


@program
def read_by_method_branch(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)

    class R:
        def __init__(s):
            s.ball = ball

        def get(s):
            return s.ball.x

    r = R()
    t = x * 0
    if k > 2:
        ball.bump()
        t += r.get()
    return ball.x, t


@program
def read_by_closure(k: Any, x: Any) -> Any:
    ball = [x * 1]

    def make(e):
        return lambda: e[0]

    get = make(ball)
    t = x * 0
    i = 0
    while i < k:
        ball[0] = ball[0] + 1
        t += get()
        i += 1
    return ball[0], t


@program
def read_by_partial(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    get = functools.partial(getattr, ball, "x")
    t = x * 0
    i = 0
    while i < k:
        ball.bump()
        t += get()
        i += 1
    return ball.x, t


@program
def read_by_bound(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    g = ball.__class__.bump.__get__(ball)
    t = x * 0
    if k > 2:
        ball.x = ball.x * 2
        t += g().x
    return ball.x, t


@program
def numbers_read_by_method(k: Any, x: Any) -> Any:
    class R:
        def __init__(s):
            s.n = 0

        def get(s):
            return s.n

    r = R()
    t = x * 0
    for _i in range(k):
        r.n += 1
        t += r.get()
    return r.n, t


@program
def nested_struct_shared(k: Any, x: Any) -> Any:
    inner = Ball(x * 1)
    a, b = Ball(inner), Ball(inner)
    i = 0
    while i < k:
        a.x.bump()
        b.x.x = b.x.x * 0.5
        i += 1
    return inner.x, a.x.x, b.x.x


@program
def iterator_before(k: Any, x: Any) -> Any:
    ds = [Ball(x * 1), Ball(x * 2)]
    it = iter(ds)
    if k > 2:
        next(it).bump()
        ds[0].bump()
    return ds[0].x, ds[1].x


@program
def dict_view_before(k: Any, x: Any) -> Any:
    ds = {"a": Ball(x * 1)}
    v = ds.values()
    if k > 2:
        for ball in v:
            ball.bump()
        ds["a"].bump()
    return ds["a"].x


@program
def replaced_elsewhere(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    e = Ball(x * 2)
    i = 0
    while i < k:
        holder.go()
        ball.bump()
        holder.ball = e
        i += 1
    return ball.x, holder.ball.x, e.x


@program
def held_rebinds_var(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    if k > 2:
        holder.go()
        ball.bump()
        ball = Ball(x * 5)
        holder.go()
        ball.bump()
    return ball.x, holder.ball.x


@program
def held_slots_object(k: Any, x: Any) -> Any:
    ball: Any = Slotted(x * 1)
    holder = Tight(ball)
    ball.extra = 5
    i = 0
    while i < k:
        holder.ball.bump()
        ball.bump()
        if k > 3:
            holder.ball.x = holder.ball.x * 2
        i += 1
    return ball.x, holder.ball.x, ball.extra


@program
def held_nested_lists(k: Any, x: Any) -> Any:
    rows = [[x * 1, 0], [x * 2, 0]]

    class G:
        def __init__(s):
            s.rows = rows
            s.first = rows[0]

        def hit(s, v):
            s.first[1] = s.first[1] + v
            s.rows[1][1] += 1

    g = G()
    for i in range(k):
        g.hit(i)
        rows[0][0] = rows[0][0] + g.first[1]
        if i > 2:
            rows[1][0] = g.rows[0][0]
    return rows, g.first


@program
def nested_loops_shared(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    for i in range(k):
        j = 0
        while j < i:
            holder.go()
            if j == 1:
                ball.bump()
            else:
                holder.balls[0].y += 1
            j += 1
        ball.x = ball.x * 0.5
    return ball.x, ball.y, holder.ball.x


@program
def frozen_shared(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    f = Frozen(ball)
    g = (f, {"ball": ball})

    def get():
        return g[1]["ball"]

    i = 0
    while i < k:
        f.inner.bump()
        get().bump()
        g[0].inner.y += 1
        i += 1
    return ball.x, ball.y


@program
def break_shared(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    for i in range(k):
        holder.go()
        if ball.x > 4:
            break
        if i == 2:
            continue
        ball.x = ball.x + holder.ball.x * 0.1
    return ball.x, holder.ball.x


@program
def array_in_shared(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    i = k * 0
    while i < k:
        ball.x += 1
        holder.ball.x += 0.5
        i += 1
    if k > 3:
        holder.ball.x *= 2
        ball.x -= 1
    return ball.x, holder.ball.x


@program
def choice_shared(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)

    def g():
        holder.go()
        return ball.x

    a = g() if k > 2 else ball.bump().x
    b = k > 3 and g() > 2
    return a, ball.x, (1 if b else 0)


@program
def cond_shared(k: Any, x: Any) -> Any:
    ball = Ball(k * 1)
    holder = Holder(ball)

    def left():
        return holder.ball.x > 0

    n = 0
    while left():
        ball.x = ball.x - 1
        n += 1
    return n, ball.x


@program
def cond_changes_shared(k: Any, x: Any) -> Any:
    ball = Ball(k * 1)
    holder = Holder(ball)

    def left():
        holder.ball.x = holder.ball.x - 1
        return holder.ball.x > 0

    n = 0
    while left():
        ball.y += ball.x
        n += 1
    return n, ball.x, ball.y


@program
def cond_changes_struct(k: Any, x: Any) -> Any:
    ball = Ball(k * 1)

    def left(e):
        e.x = e.x - 1
        return e.x > 0

    n = 0
    while left(ball):
        ball.y += ball.x
        n += 1
    return n, ball.x, ball.y


@program
def displaced_shared(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)
    holder = Holder(ball)
    b = Ball(x * 2)
    for _i in range(k):
        holder.go()
        ball.bump()
        ball = b
    return ball.x, holder.ball.x, b.x


@program
def func_attr(k: Any, x: Any) -> Any:
    ball = Ball(x * 1)

    def f() -> Any:
        return vars(f)["ball"].bump()

    vars(f)["ball"] = ball
    for _i in range(k):
        f()
        ball.bump()
    return ball.x


@program
def class_attr(k: Any, x: Any) -> Any:
    class C:
        ball = Ball(x * 1)

    ball = C.ball
    for i in range(k):
        C.ball.bump()
        ball.bump()
        if i > 2:
            C.ball.y += 1
            ball.y += 1
    return ball.x, ball.y


@program
def list_append_bound(k: Any, x: Any) -> Any:
    values = [x * 1, x * 2]
    s = values.__setitem__
    for _i in range(k):
        s(0, values[0] + 1)
        values[1] = values[1] + values[0]
    return values


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_element_by_element(function: Program, symbolic: bool) -> None:
    """There were two of each container, of which the other one was changed or read."""
    check(function, symbolic)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_of_numbers_it_is_plain_python(function: Program) -> None:
    decorated = lj.syntax(function)
    for k, y in zip(K, X, strict=True):
        assert expected(decorated, k, y) == expected(function, k, y)
