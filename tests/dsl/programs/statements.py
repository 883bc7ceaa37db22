"""Small programs, one per construct, compared with plain Python lane by lane."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .modes import plain_program as program


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
        k = x + 0
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
        if x * x % i == 1:
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


NEVER = False


@program
def jump_in_a_plain_branch_beside_nested_jumps(x, y):
    if NEVER:
        return x
    elif x > 2:
        y = y + 1
        if x > 4:
            return x * 10
    return x + y


@program
def jump_in_a_plain_branch_beside_a_loop(x, y):
    z = y
    if not NEVER:
        for i in range(x):
            if i == 3:
                return -i
    else:
        return z
    return x + z


@program
def raise_in_a_plain_branch_beside_nested_jumps(x, y):
    if NEVER:
        raise ValueError
    elif x > 2:
        y = y + 1
        if x > 4:
            return x * 10
    return x + y


@program
def jumps_out_of_unrolled_loops_beside_nested_jumps(x, y):
    s = 0
    for k in range(3):
        if NEVER:
            continue
        elif x > 2:
            y = y + 1
            if y > k:
                break
        s = s + 1
    while s < 9:
        s = s + 2
        if k == 5:
            break
        else:
            if x > y:
                y = y + 1
                if x > 4:
                    continue
        s = s + 1
    return s


@program
def nothing_can_jump(x, y):
    if NEVER:
        return x, 0
    else:
        z = y
        if x > 2:
            z = z + 1
            if NEVER:
                return x, 1
    return x, z


@program
def tuples_after_nested_jumps(x, y):
    with nothing():
        if NEVER:
            return x
        elif x > 2:
            y = y + 1
            if x > 4:
                return x * 10, x
    return x + y, y


@program
def every_path_returns_a_tuple(x, y):
    for _ in (1, 2):
        if x > 3:
            return 1, x
    else:
        try:
            if y > 3:
                return 2, x
            return 3, x
        finally:
            x = x + 1


@program
def jump_in_a_block_that_swallows_exceptions(x, y):
    if x is not None:
        with contextlib.suppress(KeyError):
            return {1: y}[0]
    if x > 3:
        return x
    return y


@program
def control_flow_after_jumps(x, y):
    for k in range(2):
        if x > y:
            y = y + 1
            continue
            if x > 2:
                x = 0
        break
        while x > k:
            x = x - 1
    if x > 3:
        return x
        for _ in range(y):
            x = x + 1
    elif y < 0:
        return y
    else:
        return -x
    with nothing():
        if x > 2:
            z = 3
    return z
