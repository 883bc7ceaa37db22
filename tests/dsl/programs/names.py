"""Small programs about names and objects: state, closures, patterns, ways out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .modes import plain_program as program


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


@program
def list_state(x, y):
    a = [x, y]
    while a[0] < 6:
        a[0] += 2
        if a[1] > 3:
            a[1] = a[1] - 1
    return a


@program
def list_changed_by_a_function(x, y):
    def bump(a):
        a[0] = a[0] + 1

    a = [x]
    if y > 2:
        bump(a)
    return a[0]


@program
def dict_state(x, y):
    d = {"a": x}
    if x > y:
        d["a"] += 5
    return d["a"]


@program
def first_assigned_inside(x, y):
    s = 0
    while x > 0:
        t = x * 2
        if t > 6:
            u = t
        else:
            u = 1
        s += u
        x -= 1
    return s + y


@program
def assigned_before_a_sure_break(x, y):
    while True:
        r = x + 1
        if r > y:
            break
        x += 2
    return r


@program
def unpacking(x, y):
    while x < y:
        x, y = x + 1, y - 1
    (a, *b), c = [x, y], y
    if a > c:
        a, c = c, a
    return a, b, c


@program
def deleted(x, y):
    t = x
    if x > 2:
        y += t
        del t
        y += 1
    return y


@program
def closure_reads_state(x, y):
    while x < 6:
        add = lambda v: v + x  # noqa: B023, E731
        y = add(y)
        x += 1
    return y


@program
def closure_writes_state(x, y):
    def bump():
        nonlocal y
        y = y + x

    while x < 6:
        bump()
        x += 2
        if y > 9:
            bump()
            break
    return y


@program
def augmented(x, y):
    x = abs(x) + 1
    while x < 9:
        x *= 2
        x += 1
        y -= x
        if y < -20:
            y //= 2
            x ^= 1
            x = abs(x)
    return y


@program
def match_on_plain(x, y):
    for kind in ("a", "b", "c"):
        match kind:
            case "a":
                y += 1
            case "b":
                if x > y:
                    continue
                y += 2
            case _:
                y += 4
    return y


@program
def try_inside(x, y):
    if x > y:
        try:
            k = int("7")
            if k == 7:
                y += 1
        except ValueError:
            y = 0
        else:
            y += 2
    return y


@program
def jump_out_of_else(x, y):
    while x < 8:
        if x > 4:
            y += 1
        else:
            if y > 4:
                break
            x += 1
            if y == 0:
                continue
            y += 1
        x += 1
    return x, y


@program
def return_everywhere(x, y):
    if x > 4:
        if y > 2:
            return 1
        else:
            return 2
    else:
        while x < 3:
            x += 1
            if y > 3:
                return 3
        return x


@program
def none_result(x, y):
    if x > 3:
        y += 1
        return None
    y += 2
    return None


@program
def docstring_and_strings(x, y):
    """Multi-line
    text that is less indented than the code."""
    s = """a
b"""
    if x > len(s):
        y = len(s)
    return y


@program
def unpacking_for_with_break(x, y):
    for (a, b), c in zip([(1, 2), (3, 4), (5, 6)], (7, 8, 9), strict=True):
        if a + b > x:
            break
        y += c
    return a, b, c, y


@program
def consumed_iterator(x, y):
    items = iter([1, 2, 3, 4, 5])
    for i in items:
        if i == y:
            break
        x += i
    return x


@program
def return_inside_try_finally_in_loop(x, y):
    while x < 9:
        try:
            x += 1
            if x == y:
                return -x
            if x % 4 == 3:
                continue
        finally:
            y += 1
    return x + y


@program
def conditional_with_nested_expressions(x, y):
    f = lambda v, w=2: v * w  # noqa: E731
    return [
        f(x, w=(y if y > 0 else 1)) if x > 0 and f(y) < 9 else f(y),
        {k: (v if v > 2 else -v) for k, v in {"a": x, "b": y}.items()},
    ]


@program
def star_arguments(x, y):
    def g(*args, **named):
        return args[0] + named["k"]

    while x < 5:
        args, named = (x,), {"k": 2}
        x = g(*args, **named)
    return x + y


@program
def captured_variables_that_loops_and_branches_only_read(x, y):
    def get():
        return x

    i, j = 0, y
    while i < x:
        i = i + 1
    for _ in range(x):
        if x > 2:
            j = j + 1
    left = x
    if x is None:
        x = 3
    return left, x, get(), i, j


@program
def a_call_says_that_no_element_enters(x, y):
    goes_on = False
    ok = lambda: goes_on  # noqa: E731
    while x < 6 and ok():
        x = x + 1
    return x + y


def adding(step):
    return lambda f: lambda *args: f(*args) + step


@program
def headers_of_inner_functions(x, y):
    f = lambda z, w=(1 if x > 2 else 3): z + w  # noqa: E731
    if x > 3:
        z0 = y
    else:
        z0 = 1

    @adding(1 if y > 2 else 0)
    def g(z, w=7 if x > 2 and x < 4 else z0, *, k=2 if not x > 3 else 5):
        return 2 * z + k + w

    class Held(dict if 0 < 1 < 2 else list):  # type: ignore[misc]
        pass

    adders = [lambda z, s=(step if x > step else 1): z + s for step in (1, 2)]
    return f(x), g(y), len(Held()), [add(y) for add in adders]
