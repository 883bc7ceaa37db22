"""Small programs, one per construct, compared with plain Python lane by lane."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lanes import agree

PROGRAMS: list[Callable[..., Any]] = []
X = [-3, 0, 1, 4, 5, 8, 13]
Y = [2, -1, 7, 0, 5, 3, 1]


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(function)
    return function


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


@program
def branch_without_else(x, y):
    if x > y:
        x = x - y
    return x


@program
def branch_chain(x, y):
    if x > 5:
        r = x
    elif x > 3:
        r = y
    elif x == y:
        r = 0
    else:
        r = -x
    return r


@program
def nested_branches(x, y):
    r = 0
    if x > 0:
        if y > 0:
            r = x * y
        else:
            r = x - y
            if r > 5:
                r = 5
    return r


@program
def while_loop(x, y):
    while x < 10:
        x += 2
        y = y + x
    return x, y


@program
def while_else(x, y):
    while x < 6:
        x += 1
        if x == 5:
            break
    else:
        y = 100
    return x, y


@program
def while_true(x, y):
    while True:
        x += 1
        if x % 7 == 0:
            break
        y += x
    return x, y


@program
def nested_loops(x, y):
    n = 0
    while x > 0:
        k = x
        while k > y:
            k -= 2
            n += 1
            if n > 20:
                break
        x -= 3
    return n


@program
def continue_in_while(x, y):
    s = 0
    while x < 9:
        x += 1
        if x % 2 == 0:
            continue
        s += x
    return s + y


@program
def break_in_plain_while(x, y):
    i = 0
    while i < 6:
        if i == x:
            break
        i += 1
        y += i
    else:
        y = -y
    return i, y


@program
def continue_in_plain_while(x, y):
    i = 0
    while i < 6:
        i += 1
        if i < x:
            continue
        y += i
    return i, y


@program
def break_in_plain_for(x, y):
    last = -1
    for i in (1, 4, 5, 9):
        last = i
        if i > x:
            break
        y += i
    else:
        y = -y
    return last, i, y


@program
def continue_in_plain_for(x, y):
    for i in [1, 2, 3]:
        if x % i == 1:
            continue
        y = y * 2 + i
    return y


@program
def return_in_plain_for(x, y):
    for i in range(4):
        if i == x:
            return 100 + i
        for j in range(2):
            if j + i == y:
                return -j
    return y


@program
def return_in_nested_plain_loops(x, y):
    i = 0
    while i < 3:
        j = 0
        while j < 3:
            if i + j == x:
                return i, j
            if j == y:
                break
            j += 1
        i += 1
    return -1, -1


@program
def early_return(x, y):
    if x < 0:
        return 0
    y = x + y
    if y > 8:
        return y
    return -y


@program
def return_in_branch_of_branch(x, y):
    if x > 0:
        if y > 2:
            return 1
        x = x + 1
    else:
        y = 9
    return x * 10 + y


@program
def return_in_while(x, y):
    while x < 12:
        if x == y:
            return 50
        if x > 9:
            return x
        x += 1
    return y


@program
def return_from_with(x, y):
    with nothing():
        if x > 3:
            return y
        y += 1
    with nothing():
        if y > 3:
            x = 2
    return x + y


@program
def return_from_try_finally(x, y):
    log = []
    try:
        if x > 3:
            return y + 1
        y += 2
    finally:
        log.append(1)
    return y * len(log)


@program
def range_to_array(x, y):
    s = 0
    for i in range(x):
        s += i * y
    return s


@program
def range_with_start(x, y):
    s = 0
    for i in range(y, x):
        s = s * 2 + i
    return s


@program
def range_with_step(x, y):
    s = 0
    for i in range(y, x, 3):
        s += i
    return s


@program
def range_downwards(x, y):
    s = 0
    for i in range(x, y, -2):
        s = s * 3 + i
    return s


@program
def range_with_array_step(x, y):
    s = 0
    step = y if y != 0 else 1
    for i in range(0, x, step):
        s = s + i + 1
    return s


@program
def range_variable_after_loop(x, y):
    i = 77
    for i in range(x):
        if i == y:
            break
    return i


@program
def range_else(x, y):
    for i in range(x):
        if i == y:
            r = i
            break
    else:
        r = -1
    return r


@program
def range_nested(x, y):
    n = 0
    for i in range(x):
        for j in range(i, y):
            if j == 2:
                continue
            n += i + j
        for j in range(2):
            n += j
    return n


@program
def conditional_expression(x, y):
    return (x if x > y else y) + (1 if x == 4 else 2 if y == 3 else 3)


@program
def conditional_expression_in_comprehension(x, y):
    return [(x if x > k else k + y) for k in range(3) if k != 1]


@program
def conditional_in_comprehension_iterable(x, y):
    return [k + 1 for k in [x if x > y else y, 1 if 0 < x < y else 2]]


@program
def boolean_operators(x, y):
    a = x > 2 and y > 2
    b = x > 2 or y > 2
    c = not x > 2
    d = x > 0 and y > 0 and x != y
    return [1 if v else 0 for v in (a, b, c, d)]


@program
def chained_comparison(x, y):
    if -1 <= x < y + 3 < 9:
        return 1
    return 2 if 0 < x != y else 3


@program
def mixed_conditions(x, y):
    on = True
    off = False
    if on and x > 2:
        y += 1
    if off or x > 2:
        y += 2
    if off and x > 2:
        y += 4
    if x > 2 and on:
        y += 8
    if x > 2 or on:
        y += 16
    return y


@program
def long_operands(x, y):
    if (x > 0 and (x + y * 3 - 2 + x * x > 4 or y - x * 2 + 1 < 3)) and (
        y + 1 > x or (x - y * y + 3 > 2 and x + x * y > 4)
    ):
        return 1
    return 0


@program
def walrus_in_while(x, y):
    n = 0
    while (z := x + n) < 6:
        n += 1
    return z, n + y


@program
def walrus_in_if(x, y):
    if (z := x - y) > 2:
        return z
    return z + 100


@program
def impure_condition(x, y):
    counter = [0]

    def step():
        counter[0] += 1
        return counter[0]

    n = 0
    while step() < 4:
        n += x
    return n, counter[0]


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


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_agrees_with_plain_python(function: Callable[..., Any]) -> None:
    agree(function, X, Y)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_agrees_in_one_lane(function: Callable[..., Any]) -> None:
    agree(function, [5], [3])
