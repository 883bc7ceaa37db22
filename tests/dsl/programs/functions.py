"""Programs about functions: methods, defaults, closures, calls, switches, tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import lumijit as lj

from .modes import program
from .plain import FLOATS, INTS, MORE, UINTS

T = ModuleType
TABLE = {"table": ("Int", [3, 1, 4, 1, 5, 9, 2, 6])}
BINS = {"bins": ("Int", [0, 10, 20, 30])}
LANES = ("UInt", [0, 1, 2, 3, 4, 5, 6])


class Base:
    """A class whose methods have control flow of their own."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    @lj.syntax
    def climb(self, x: Any, /, y: Any, *, step: Any = 2) -> Any:
        # Not `x += step`, which would change arrays, but not numbers, of the caller.
        while x < self.limit:
            x = x + step
            if x > y:
                y = y + 1
        return x, y

    @staticmethod
    @lj.syntax
    def parity(x: Any) -> Any:
        return 1 if x & 1 == 1 else -1

    @classmethod
    @lj.syntax
    def build(cls, x: Any) -> Any:
        if x > 3:
            x = x * 2
        return cls(9).climb(x, x + 1)


class Derived(Base):
    """A class that calls its base with `super()`."""

    @lj.syntax
    def climb(self, x: Any, /, y: Any, *, step: Any = 3) -> Any:
        if x < y:
            x, y = super().climb(x, y, step=step)
        else:
            y = y - self.parity(x)
        return x, y


@lj.syntax
def summed(first: Any, *rest: Any, scale: Any = 1, **named: Any) -> Any:
    total = first * scale
    for value in rest:
        if value > first:
            total = total + value
    for name, value in named.items():
        if value < 3:
            total = total + len(name)
    return total


@lj.syntax
def collatz_length(n: Any) -> Any:
    count = n - n
    while n > 1:
        n = n >> 1 if n & 1 == 0 else 3 * n + 1
        count += 1
    return count


@contextlib.contextmanager
def named(word: str) -> Iterator[str]:
    yield word


@dataclass
class Ray:
    """A PyTree with a nested array."""

    o: Any
    t: Any


@program(x=INTS, y=MORE)
def methods(t: T, x: Any, y: Any) -> Any:
    return Base(7).climb(x, y), Base.parity(x), Base.build(y)


@program(x=INTS, y=MORE)
def super_methods(t: T, x: Any, y: Any) -> Any:
    thing = Derived(10)
    if x != 4:
        x, y = thing.climb(x, y)
    return thing.climb(y, x, step=1), Derived.build(x)


@program(x=INTS, y=MORE)
def variadic(t: T, x: Any, y: Any) -> Any:
    numbers = [x, y, x - y]
    if x > 0:
        y = summed(*numbers, scale=2, first_name=x, b=y)
    return summed(x, y), summed(y, *numbers[1:], **{"key": x})


@program(n=UINTS)
def decorated_function_in_loop(t: T, n: Any) -> Any:
    total = t.UInt(0)
    for k in range(1, n):
        if k > 3:
            total += collatz_length(k)
    return total, collatz_length(n)


@program(x=INTS, y=MORE)
def switch_in_loop(t: T, x: Any, y: Any) -> Any:
    def double(v: Any) -> Any:
        return v * 2

    @lj.syntax
    def halve(v: Any) -> Any:
        while v > 4:
            v = v >> 1
        return v

    i = t.Int(0)
    while i < 4:
        x = lj.switch((y + i) & 3, [double, halve, lambda v: v + 3, double], x)
        if x > 100:
            x = x - 90
        i += 1
    return x


@program(shared=BINS, x=LANES, y=INTS)
def switch_with_effects(t: T, x: Any, y: Any, bins: Any) -> Any:
    def add(v: Any) -> Any:
        lj.scatter_add(bins, v, 2)
        return v + 1

    @lj.syntax
    def skip(v: Any) -> Any:
        if v > 3:
            lj.scatter_add(bins, 7, 3)
        return v

    if y > 0:
        y = lj.switch(x & 1, [add, skip], y)
    return y


@program(n=UINTS, start=INTS)
def range_of_three_bounds(t: T, n: Any, start: Any) -> Any:
    up = t.Int(0)
    for i in range(start, t.Int(n) * 2, 3):
        up += i
        if up > 50:
            break
    else:
        up = -up
    down = t.Int(0)
    for i in range(t.Int(n), start, -2):
        if i == 3:
            continue
        down = down * 2 + i
    return up, down


@program(x=INTS, y=MORE)
def range_with_steps_per_lane(t: T, x: Any, y: Any) -> Any:
    step = y if y != 0 else 1
    total = t.Int(0)
    for i in range(x, 2 * y, step):
        for j in range(3):
            if i == j:
                break
            total += j
        total += i
    return total


@program(x=INTS, y=MORE)
def jumps_out_of_nested_loops(t: T, x: Any, y: Any) -> Any:
    found = t.Int(-1)
    i = t.Int(0)
    while i < 6:
        j = t.Int(0)
        while True:
            j += 1
            if j > 4:
                break
            if i * j == x:
                return i * 10 + j
            if i + j == y:
                found = j
                continue
            found += 1
        else:
            found = t.Int(1000)
        i += 1
        if found > 20:
            break
    else:
        found = -found
    return found


@program(x=INTS, y=MORE)
def for_else_with_return(t: T, x: Any, y: Any) -> Any:
    for k in range(y):
        if k * k == x:
            return k
        if k > 5:
            break
    else:
        x = x + 50
    return x


@program(x=INTS, y=MORE)
def comprehensions(t: T, x: Any, y: Any) -> Any:
    rows = [[x + k if k > 1 else y for k in range(3)] for _ in range(2)]
    named = {f"v{k}": v for k, v in enumerate(rows[0]) if k != 1}
    total = t.Int(0)
    while total < 30:
        total += sum([v if v > 0 else -v for v in rows[0]]) + 1
        rows[1] = [v + 1 for v in rows[1]]
        if total > x:
            named["v0"] = named["v0"] + sum(v for v in rows[1])
    return total, rows, named


@program(x=INTS, y=MORE)
def walruses(t: T, x: Any, y: Any) -> Any:
    total = t.Int(0)
    while (gap := 12 - x) > 0 and total < 40:
        if (half := gap >> 1) > 3:
            total += half
        x += 2
    return total, gap


@program(x=INTS, y=MORE)
def with_around_control_flow(t: T, x: Any, y: Any) -> Any:
    with named("outer") as word:
        if x > y:
            with named("inner"), named(word):
                x = x - len(word)
        while x < 3:
            x += 1
        if y > 4:
            return x * 7
    return x


@program(x=INTS, y=MORE)
def three_closures(t: T, x: Any, y: Any) -> Any:
    total = t.Int(0)
    count = 0

    def counting(limit: Any) -> Any:
        nonlocal count

        def inner(v: Any, *, by: Any = 1) -> Any:
            nonlocal total
            total = total + by
            return v + by + count

        count += 1
        return lambda v: inner(v, by=limit)

    step = counting(2)
    while x < 8:
        x = step(x)
        if x > y:
            total += 5
    return x, total, count


@program(x=FLOATS, n=UINTS)
def tree_attributes(t: T, x: Any, n: Any) -> Any:
    ray = Ray(t.Array3f(x, 1, 0), t.Float(0))
    i = t.UInt(0)
    while i < n:
        ray.o.x += 0.25
        if ray.o.x > 1:
            ray.t = ray.t + ray.o.x
            ray.o[1] = ray.o[1] * 0.5
        elif ray.o.y > 0.25:
            ray.o.z -= ray.o.y
        i += 1
    return ray


@program(x=INTS, y=MORE)
def nested_subscripts(t: T, x: Any, y: Any) -> Any:
    world: dict[str, Any] = {"cells": [x, y], "at": {"k": [t.Int(0)]}}
    for k in range(2):
        while world["cells"][k] < 10:
            world["cells"][k] += 3
            world["at"]["k"][0] += world["cells"][1 - k]
            if world["at"]["k"][0] > 15:
                world["at"]["k"][0] = t.Int(0)
    return world


@program(shared={"counter": ("UInt", [0]), **BINS}, x=INTS, y=MORE)
def counters_in_nests(t: T, x: Any, y: Any, counter: Any, bins: Any) -> Any:
    for k in range(y):
        if x > k:
            lj.scatter_inc(counter, 0)
            while x > 5:
                x -= 1
                lj.scatter_add(bins, x, t.UInt(x) & 3)
            else:
                lj.scatter_add(bins, 1, 0)
    return x


@program(shared=TABLE, x=INTS)
def list_in_a_table(t: T, x: Any, table: Any) -> Any:
    at = t.UInt(x) & 7
    hops = t.Int(0)
    while hops < 6:
        at = t.UInt(lj.gather(t.Int, table, at)) & 7
        hops += 1
        if at == 4:
            break
        hops = hops + (1 if 0 < at <= 2 else 0)
    return at, hops


@program(x=INTS, y=MORE)
def conditions_of_all_kinds(t: T, x: Any, y: Any) -> Any:
    big = x > 3 and y > 0
    odd = not (x + 1) & 1
    between = -2 < x <= y < 8
    mixed = (big or odd) and not (between or x == y)
    r = t.Int(0)
    if mixed:
        r = 1 if big else 2 if odd else 3
    if not between and (x != 1 or y > 2):
        r += 10
    return r, big, odd, between


@program(x=INTS, y=MORE)
def plain_and_vectorized(t: T, x: Any, y: Any) -> Any:
    todo = [5, 3, 2]
    while len(todo) < 5:
        todo.append(len(todo))
    for k in reversed(todo):
        if k == 3:
            continue
        if x > k:
            x -= k
            if k == 5 and y > 0:
                return x
    return x + y


@program(x=INTS, y=MORE)
def higher_order(t: T, x: Any, y: Any) -> Any:
    def repeat(f: Callable[[Any], Any], n: int) -> Callable[[Any], Any]:
        def run(v: Any) -> Any:
            for _ in range(n):
                v = f(v)
            return v

        return run

    @lj.syntax
    def bounce(v: Any) -> Any:
        return v - 7 if v > 9 else v + 4

    if x > y:
        x = repeat(bounce, 3)(x)
    return repeat(bounce, 2)(y) + x


def counting(_: T) -> Any:
    n = 0

    def read() -> Any:
        return n

    def count() -> Any:
        nonlocal n
        n += 1
        return n

    return read, count


@program(x=INTS, y=MORE)
def variables_of_one_name_in_two_functions(t: T, x: Any, y: Any) -> Any:
    read, count = counting(t)
    n = t.Int(x)
    while n < 6:
        n = n + count()
    if y > 2:
        count()
        n = n - 1
    return n, read()


@program(x=INTS, y=MORE)
def one_function_reads_what_another_assigns(t: T, x: Any, y: Any) -> Any:
    read, count = counting(t)
    while x < 6:
        x = x + 2 + read() * 0
        count()
    if y > 2:
        x = x + read()
        count()
    return x, read()


@program(x=INTS, y=MORE)
def numbers_that_functions_inside_assign(t: T, x: Any, y: Any) -> Any:
    n = 0

    def count() -> Any:
        nonlocal n
        n += 1
        return n

    total = 0
    if x > 2:
        total += count() * 10 + count()
    if y > 2:
        total += count() * 10 + count()
    before = count()
    return x * total, before, count(), n


class Counter:
    def __init__(self, step: Any) -> None:
        self.step = step

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


@program(x=INTS, y=MORE)
def objects_that_statements_name(t: T, x: Any, y: Any) -> Any:
    i = t.Int(0)
    while i < y:
        with Counter(1) as a, Counter(a.step + 1) as b:
            x = x + a.step
        match Counter(2):
            case Counter(step=2) as c:
                x = x + c.step
            case Counter() as d:
                x = x - d.step
        if (e := Counter(3)).step > 2:
            x = x * 2 + e.step + b.step
        f = (g := Counter(4)).step
        x = x + f + g.step
        i += 1
    return x
