"""Programs over plain numbers: loops, branches, jumps, kinds of state."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import lumijit as lj

from .modes import program

INTS = ("Int", [-3, 0, 1, 4, 5, 8, 13])
MORE = ("Int", [2, -1, 7, 0, 5, 3, 1])
UINTS = ("UInt", [0, 1, 2, 7, 27, 6, 9])
FLOATS = ("Float", [0.5, -2.0, 3.25, 0.0, 9.0, 1.5, -0.25])
DOUBLES = ("Float64", [0.5, 2.0, 3.25, 0.1, 9.0, 1.5, 0.25])
HALVES = ("Float16", [0.5, 2.0, 3.25, 0.125, 9.0, 1.5, 0.25])
LONGS = ("Int64", [1 << 40, -5, 3, 0, -(1 << 35), 17, 2])
MASKS = ("Bool", [True, False, True, True, False, False, True])
STRANGE = ("Float", [float("nan"), 1.0, float("inf"), -float("inf"), -0.0, 4.0, 2.0])

T = ModuleType


@program(x=INTS, y=MORE)
def counting(t: T, x: Any, y: Any) -> Any:
    while x < 10:
        x += 2
        y = y + x
    return x, y


@program(n=UINTS)
def collatz(t: T, n: Any) -> Any:
    steps = t.UInt(0)
    while n > 1:
        if n & 1 == 0:
            n = n >> 1
        else:
            n = n * 3 + 1
        steps += 1
    return steps


@program(n=UINTS)
def literal_counter(t: T, n: Any) -> Any:
    i = 0
    total = t.UInt(0)
    while i < n:
        total += i * i
        i += 1
    return i, total


@program(n=UINTS)
def python_float_state(t: T, n: Any) -> Any:
    total = 0.0
    i = t.UInt(0)
    while i < n:
        total = total + 0.5
        i += 1
    return total


@program(n=UINTS, x=FLOATS)
def grows_from_one(t: T, n: Any, x: Any) -> Any:
    acc = t.Float(1)
    i = t.UInt(0)
    while i < n:
        acc = acc * 0.5 + x
        i += 1
    return acc


@program(x=INTS, y=MORE)
def invariant_and_unused(t: T, x: Any, y: Any) -> Any:
    unused = x * 3
    while x < 6:
        y = y
        x = x + 1
    return x, y, unused


@program(x=INTS)
def never_entered(t: T, x: Any) -> Any:
    y = x + 1
    while x > 100:
        x -= 1
        y = x
    return x, y


@program(x=INTS, y=MORE)
def jumps(t: T, x: Any, y: Any) -> Any:
    count = t.Int(0)
    while x < 20:
        x += 1
        if x % 3 == 0:
            continue
        if x > 9 + y:
            break
        count += x
    return x, count


@program(x=INTS, y=MORE)
def loop_else(t: T, x: Any, y: Any) -> Any:
    while x < 6:
        x += 1
        if x == y:
            break
    else:
        y = y + 100
    return x, y


@program(x=INTS, y=MORE)
def return_from_branch_and_loop(t: T, x: Any, y: Any) -> Any:
    if x > y:
        return x
    while x < y:
        x += 2
        if x == 3:
            return x * 100
    return -x


@program(x=INTS, y=MORE)
def elif_chain(t: T, x: Any, y: Any) -> Any:
    if x > 5:
        r = x
    elif x > 3:
        r = y * 2
    elif x == y:
        r = x - y
    else:
        r = -x
    return r


@program(x=INTS, y=MORE)
def loop_in_branch_in_loop(t: T, x: Any, y: Any) -> Any:
    total = t.Int(0)
    while x < 12:
        if x > y:
            k = t.Int(0)
            while k < x:
                total += k
                k += 3
        else:
            total -= 1
        x += 1
    return total


@program(x=INTS, y=MORE)
def branch_in_branch(t: T, x: Any, y: Any) -> Any:
    r = t.Int(0)
    if x > 0:
        if y > 0:
            r = x * y
        else:
            r = x - y
            if r > 5:
                r += 1
    return r


@program(n=UINTS)
def for_range(t: T, n: Any) -> Any:
    total = t.UInt(0)
    for i in range(n):
        total += i * i
    return total


@program(x=INTS, y=MORE)
def for_range_steps(t: T, x: Any, y: Any) -> Any:
    total = t.Int(0)
    for i in range(y, x, 2):
        for j in range(i):
            total += j
    return total


@program(x=INTS, m=MASKS)
def mask_state(t: T, x: Any, m: Any) -> Any:
    odd = t.Bool(False)
    while (x > 0) & m:
        odd = not odd
        x -= 1
    return odd, m


@program(x=DOUBLES)
def newton(t: T, x: Any) -> Any:
    guess = t.Float64(1)
    while abs(guess * guess - x) > 1e-9:
        guess = 0.5 * (guess + x / guess)
    return guess


@program(x=HALVES, rtol=1e-2)
def half_precision(t: T, x: Any) -> Any:
    s = t.Float16(0)
    while s < 4:
        s = s + x
    return s


@program(x=LONGS)
def wide_integers(t: T, x: Any) -> Any:
    count = t.Int64(0)
    while abs(x) > 1000:
        x = x // 3 if x > 0 else x + (1 << 33)
        count += 1
    return x, count


@program(x=STRANGE)
def not_a_number(t: T, x: Any) -> Any:
    n = t.Int(0)
    while x < 10:
        x = x + 3 if x > -100 else x - x
        n += 1
    if x != x:
        n = n + 50
    elif x > 0:
        n = n + 7
    return n


@program(x=INTS, y=MORE)
def conditional_expressions(t: T, x: Any, y: Any) -> Any:
    z = x if x > y else y if y > 2 else -y
    return z, (1 if x > 3 else 2)


@program(x=INTS, y=MORE)
def conjunctions(t: T, x: Any, y: Any) -> Any:
    n = t.Int(0)
    while x < 10 and not (y > 5 and x > 2):
        x += 1
        if 0 < x < 7 or y == 3:
            n += x
    return n


@program(x=INTS, y=MORE)
def swapped(t: T, x: Any, y: Any) -> Any:
    k = t.Int(0)
    while k < 3:
        x, y = y, x + y
        k += 1
    return x, y


@program(x=INTS, y=MORE)
def chained_assignment(t: T, x: Any, y: Any) -> Any:
    while x < 9:
        a = b = x + 1
        (x, (y, c)) = (a + 1, (b + y, a))
        y = y + c
    return x, y


@program(x=INTS)
def late_variable(t: T, x: Any) -> Any:
    last = t.Int(0)
    while x < 7:
        square = x * x
        if square > 4:
            last = square
        x += 1
    return last


@program(x=INTS)
def closure(t: T, x: Any) -> Any:
    step = 2
    total = t.Int(0)

    def advance(value: Any) -> Any:
        nonlocal total
        total = total + value
        return value + step

    while x < 10:
        x = advance(x)
    return x, total


@program(x=INTS)
def python_condition(t: T, x: Any) -> Any:
    for k in range(4):
        if k % 2 == 0:
            x = x + k
        while k > 2:
            x = x * 2
            k -= 1
    return x


@program(x=INTS)
def promoted_in_branch(t: T, x: Any) -> Any:
    n = 0
    scale = 1.5
    if x > 2:
        n = 3
        scale = 2
    return n, scale


@program(x=INTS, m=MASKS)
def python_flag(t: T, x: Any, m: Any) -> Any:
    found = False
    while x < 9:
        x += 1
        if x == 5:
            found = True
    return found, found & m


@program(x=INTS)
def size_one_condition(t: T, x: Any) -> Any:
    k = t.UInt(0)
    limit = lj.opaque(t.UInt, 4)
    while k < limit:
        x = x + 2
        k += 1
    if k == limit:
        x = -x
    return x, k


@program(x=INTS)
def hinted(t: T, x: Any) -> Any:
    y = x
    while lj.hint(x < 10, label="my loop", max_iterations=30):
        x = x + 3
    if lj.hint(x > 11, label="my branch", strict=False):
        y = x
    return x, y


@program(x=INTS, y=MORE)
def loop_in_both_sides(t: T, x: Any, y: Any) -> Any:
    if x > y:
        while x > 0:
            x -= 2
            y += 1
    else:
        while y > x:
            y -= 3
    return x, y


@program(n=UINTS)
def fixed_iterations(t: T, n: Any) -> Any:
    i = t.UInt(0)
    while i < 5:
        n = n + i
        i += 1
    return n, i
