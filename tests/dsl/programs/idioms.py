"""Small programs, one per Python idiom that has little to do with arrays."""
# ruff: noqa: PT018, RUF018

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from .modes import plain_program as program

_LOG: list[str] = []


@contextlib.contextmanager
def logged(word: str) -> Iterator[list[str]]:
    log = [word]
    try:
        yield log
    finally:
        log.append("done")


def twice(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def wrapper(value: Any) -> Any:
        return function(function(value))

    return wrapper


def check_mode(mode: str) -> int:
    if mode not in ("up", "down"):
        raise ValueError(mode)
    return 1 if mode == "up" else -1


@program
def asserts_that_hold(x, y):
    assert x > -9, "too small"
    while x < 6:
        assert x < 6 and y < 8, f"{x=}, {y}"
        x += 2
        if x > y:
            assert not x <= y, ("x", x)
            assert -9 < y < x, x
            y += 1
    assert x >= 6
    return x, y


@program
def asserts_with_side_effects(x, y):
    while x < 5:
        assert (z := x + 1) > x
        x = z
    if y > 2:
        assert (w := y * 2) > y, "grows"
        y = w
    return x, y


@program
def raise_under_plain_conditions(x, y):
    mode = "up"
    while x < 6:
        if mode == "up":
            x += 1
        elif mode == "down":
            x += 2
        else:
            raise ValueError(f"unknown mode {mode!r}")
        if y > 2:
            if len(mode) > 5:
                raise RuntimeError
            y -= 1
    if not isinstance(mode, str):
        raise TypeError("mode")
    return x, y


@program
def raise_in_a_callee_that_is_caught(x, y):
    def robust(mode, value):
        try:
            return value + check_mode(mode)
        except ValueError:
            return value - 10

    while x < 4:
        x += 2
        if x > y:
            y = robust("sideways", y)
        else:
            y = robust("up", y)
    return x, y


@program
def caught_in_a_vectorized_branch(x, y):
    if x > y:
        try:
            raise KeyError("k")
        except KeyError as error:
            y += len(error.args)
        finally:
            y += 10
    return x, y


@program
def delete_in_loop(x, y):
    while x < 6:
        t = x + 1
        u = [t, y]
        x = t
        del t
        y = u[0] - u[1]
        del u[1], u
    return x, y


@program
def delete_entries(x, y):
    d = {"a": x + 0, "b": y, "c": 3}
    del d["c"]
    while d["a"] < 5:
        d["a"] += 1
    values = [x + 0, y, x + y]
    del values[1:]
    if values[0] > 3:
        values[0] -= 1
    return d, values


@program
def delete_in_one_branch(x, y):
    t = x * 2
    if x > y:
        y = t
        del t
    else:
        t = 5
        y += t
    return y


@program
def imports_in_a_loop(x, y):
    while x < 5:
        import math
        from operator import add as plus

        x = plus(x, 1)
        y = y + math.comb(3, 1)
    return x, y


@program
def prints_in_a_loop(x, y):
    while x < 5:
        print("tracing", end="", file=None if y is None else _Silent())
        x += 2
    return x, y


class _Silent:
    def write(self, text: str) -> None:
        _LOG[:] = [text]


@program
def lambdas_in_a_loop(x, y):
    while x < 6:
        step = lambda v, by=x: v + by + 1  # noqa: E731
        pick = lambda: y + x  # noqa: B023, E731
        y = step(1) + pick()
        x = x + 2
    return x, y


@program
def star_targets(x, y):
    while x < 6:
        first, *rest = x, y, x + y
        *head, last = rest
        x = first + 2
        y = head[0] - last
    first, *middle, last = [x, y, x, y]
    if x > y:
        (a, *b), *c = (first, last), middle
    else:
        (a, *b), *c = (last, first), middle
    return a, b, c


@program
def nested_targets(x, y):
    p, q = 0, 0
    while x < 8:
        (p, [q, (x, y)]) = (x, [y, (x + 2, y - 1)])
        [p, q] = q, p
    return p, q, x, y


@program
def targets_of_all_kinds(x, y):
    a = [0, x]
    d = {"k": y}
    while a[1] < 7:
        a[0], d["k"], (a[1], n) = d["k"], a[0] + 1, (a[1] + 2, 1)
        d["k"] += n
    return a, d


@program
def for_over_lists(x, y):
    n = 0
    while x < 6:
        for v in [1, x, y]:
            n += v
            if v > 4:
                n -= 1
        for a, b in zip((x, y), [y, x], strict=True):
            n = n * 2 - a + b
            n = n & 255
        for k, (a, b) in enumerate([(x, 1), (2, y)]):
            n += k * a - b
        x += 3
    return n


@program
def for_over_dict_items(x, y):
    table = {"a": x, "b": y, "c": 4}
    n = 0
    while x < 4:
        for name, value in table.items():
            if value > 2:
                table[name] = value - 1
            n += len(name) + value
        for name in sorted(table):
            n += table[name]
        x += 1
    return n, table


@program
def for_over_lists_with_jumps(x, y):
    n = 0
    while x < 7:
        for v in (2, 3, 5):
            if v == x:
                continue
            if v > y:
                break
            n += v
        else:
            n += 100
        x += 1
    return n, x


@program
def for_else_over_a_list(x, y):
    for v in (1, 4, 5):
        if v == x:
            break
    else:
        v = -1
    for w in [y, 3]:
        if w == x:
            y = w
            break
    else:
        for w in (7, 5):
            if w > x:
                break
        else:
            w = 0
    return v, w, y


@program
def for_over_generator(x, y):
    n = 0
    for v in (k * k for k in range(5)):
        if v > x:
            break
        n += v + y
    for k, v in enumerate(reversed([x, y])):
        if v > 3:
            n += k
    return n


@program
def for_target_is_a_subscript(x, y):
    d = {"i": 0}
    for d["i"] in range(4):
        if d["i"] == x:
            break
        y += d["i"]
    return d, y


@program
def while_true_with_breaks(x, y):
    n = 0
    while True:
        n += 1
        if x > 8:
            break
        x += 3
        if y > x:
            continue
        if n > 2:
            n += 10
            break
    return n, x


@program
def while_true_in_while_true(x, y):
    n = 0
    while True:
        while True:
            x += 2
            if x > 5:
                break
            n += 1
        y += 3
        if y > 6:
            break
        x = y - 1
    return n, x, y


@program
def while_true_that_returns(x, y):
    n = 0
    while True:
        x += 1
        if x % 5 == 0:
            return n, x
        if y > x:
            n += 1


@program
def walrus_in_conditions(x, y):
    n = 0
    while (d := x - n) > 0 and (e := d * 2) < 30:
        n += 1
        if (f := e - d) > 3 or (f := f + 1) < 0:
            n += f % 2
    return d, n, y


@program
def walrus_in_comprehensions(x, y):
    squares = [(last := v * v) for v in (x, y, 3)]
    if x > y:
        kept = [half for v in squares if (half := v - 1) is not None]
        last = last + kept[0]
    else:
        kept = [last, last, y]  # type: ignore[used-before-def]
    return squares, kept, last


@program
def comprehensions_with_conditions(x, y):
    rows = [x, y, x - y]
    while x < 6:
        rows = [v if v > 0 else -v for v in rows]
        x += sum(1 for v in rows if v is not None)
    named = {k: v for k, v in zip("abc", rows, strict=True) if k != "b"}
    pairs = [(a, b) for a in rows for k, b in enumerate(rows) if k != 1]
    return x, named, pairs


@program
def decorated_inner_function(x, y):
    @twice
    def step(v):
        return v + x

    while y < 6:
        y = abs(step(y)) + y + 4 - y

    if x > 2:

        @twice
        def bump(v):
            return v + 1

        y = bump(y)
    return y


@program
def annotated_assignments(x, y):
    n: int = 0
    limit: int
    limit = 5
    while x < limit:
        step: int = 2
        x += step
        n += 1
    return n, x, y


@program
def inner_class(x, y):
    while x < 5:

        class Step:
            size = 2

            @classmethod
            def apply(cls, v):
                return v + cls.size

        x = Step.apply(x)
    return x, y


@program
def inner_generator(x, y):
    def parts(v):
        yield v
        yield v + y

    n = 0
    while x < 5:
        for part in parts(x):
            n += part
        x += 2
    return n


@program
def with_targets_in_a_loop(x, y):
    while x < 5:
        with logged("one") as (word,), logged("two") as other:
            x += len(word)
            if x > y:
                y += 2
        y -= len([*other, word])
    return x, y


@program
def f_strings_of_plain_values(x, y):
    name = f"{'a' * 3:>5}"
    if x > len(f"{name!r}"):
        y = len(name)
    return y


@program
def slices_and_starred_calls(x, y):
    rows = [x, y, 1, 2]
    while rows[0] < 6:
        rows[1:3] = rows[2:0:-1]
        rows[0] = max(*[3, 4]) + rows[0]
    return [*rows[::2], *rows[1::2]]


@program
def nonlocal_in_a_branch(x, y):
    total = 0

    def add(v):
        nonlocal total
        if v > 2:
            total += v
        else:
            total -= 1

    add(3)
    for v in (1, 2, 5):
        if x > v:
            add(v)
    return total, y


@program
def returns_of_several_shapes(x, y):
    if x > 4:
        return {"a": [x, y], "b": (1, 2.5)}
    if x == y:
        return {"a": [y, y], "b": (2, 0.5)}
    return {"a": [0, x], "b": (3, 1)}


@program
def pass_and_ellipsis(x, y):
    while x < 4:
        pass
        x += 1
    if x > y:
        ...
    elif x == y:
        pass
    else:
        "a string"
    return x


@program
def bitwise_and_shifts(x, y):
    n = x & 15
    while n > 0:
        y ^= n << 1
        n >>= 1
        y |= n & 1
    return y, ~n


@program
def matching_in_a_loop(x, y):
    for shape in (("circle", 2), ["square", 3, 4], {"kind": "dot"}):
        match shape:
            case ("circle", r) if r > 1:  # type: ignore[operator]
                y += r
            case ["square", *sides]:
                if x > 2:
                    y += len(sides)
                    continue
                y += 1
            case {"kind": kind}:
                y -= len(kind)
        y *= 2
    return y


@program
def functions_that_call_each_other(x, y):
    while x < 5:

        def a(v):
            return v + 1

        def b(v):
            return a(v) + a(v - 2)

        x = abs(b(x)) + 1
    return x, y


@program
def recursive_inner_function(x, y):
    while x < 5:

        def power(v, n):
            return v if n == 0 else power(v, n - 1) + v

        x = abs(power(x, 3)) + 1
    return x, y
