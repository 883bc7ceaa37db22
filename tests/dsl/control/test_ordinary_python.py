"""Functions in ordinary Python, vectorized, against the same run element by element.

Objects, closures and containers change under conditions and in loops, by methods and
functions that know nothing of arrays. Gradients are compared with differences.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm.ad import Float64, Int

from .by_element import K, Program, X, check, expected

PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


class Counter:
    """Counts in a plain number, as a sampler counts dimensions."""

    def __init__(self, seed: Any) -> None:
        self.seed = seed
        self.calls = 0

    def next(self) -> Any:
        self.calls += 1
        return (self.seed * 75 + self.calls * 74) % 97


class Path:
    def __init__(self, x: Any) -> None:
        self.throughput = x + 0
        self.depth = 0
        self.hits = [0, 0]

    @property
    def alive(self) -> Any:
        return self.depth < 4

    @lj.syntax
    def bounce(self, k: Any) -> None:
        if k % 2 == 0:
            self.throughput *= 0.5
            self.hits[0] += 1
        else:
            self.throughput = self.throughput + 1
            self.hits[1] = self.hits[1] + 1
        self.depth += 1


@program
def methods_that_change_numbers_and_lists(k: Any, x: Any) -> Any:
    path = Path(x)
    i = k * 0
    while i < k and path.alive:
        path.bounce(i)
        i += 1
    return path.throughput, path.depth, *path.hits, i


@program
def dictionaries_that_objects_of_python_have(k: Any, x: Any) -> Any:
    space = SimpleNamespace(a=x + 0, b=0)
    call: Any = partial(dict, c=x + 0)
    for i in range(k):
        space.__dict__["a"] = space.a * 0.5 + i
        call.keywords["c"] = call.keywords["c"] + x
    if x > 1:
        space.__dict__["b"] = k + 1
    return space.a, space.b, call()["c"]


@dataclass
class Compared:
    a: Any
    b: Any

    def __eq__(self, other: Any) -> Any:
        return self.a == other.a


@program
def structs_that_compare_with_their_like_only(k: Any, x: Any) -> Any:
    pair, low = Compared(x + 0, 1), Compared(x * 0, 2)
    for i in range(k):
        for field in fields(pair):
            setattr(pair, field.name, getattr(pair, field.name) * 0.5 + i)
        if pair == low:
            break
    return pair.a, pair.b


@program
def numbers_of_numpy_that_come_to_differ(k: Any, x: Any) -> Any:
    space = SimpleNamespace(count=np.int64(1), weights=[np.float32(0.5)])
    total, i, is_low, last = np.float64(0), np.int32(0), np.bool_(False), 0
    while i < k:
        last = space.count
        space.count += i
        space.weights[0] *= 2
        total = total + x
        if total < 0:
            is_low = np.bool_(True)
        i += 1
    for j in range(np.int32(1), k, np.int8(2)):
        total = total + j
    return total * space.weights[0], space.count, last, is_low


@lj.syntax
def returned_before_loops(k: Any, x: Any, turns: list[Any]) -> Any:
    try:
        if x > 0:
            return x * 2
    finally:
        for i in range(k):
            if i == 2:
                break
            turns[0] += 1
    return x - 100


@program
def a_return_on_its_way_through_a_loop_with_a_break(k: Any, x: Any) -> Any:
    turns = [k * 0]
    return returned_before_loops(k, x, turns), *turns


@program
def jumps_on_their_way_through_loops_with_jumps(k: Any, x: Any) -> Any:
    total, count = x * 0, k * 0
    for i in range(4):
        try:
            try:
                if x * i > 3:
                    break
                if k == i:
                    continue
            finally:
                for j in range(3):
                    if j > k:
                        continue
                    if x < j:
                        break
                    count += 1
            total = total + x
        finally:
            i = 0
            while True:
                i += 1
                if i > k:
                    break
                total = total * 0.5 + 1
    return total, count


@program
def a_list_that_a_function_replaces(k: Any, x: Any) -> Any:
    path = Path(x)

    def note(i: Any) -> None:
        path.hits = [path.hits[0] + i, path.hits[1] + 1]

    for i in range(k):
        note(i)
    return path.hits


class Node:
    def __init__(self, depth: int) -> None:
        self.value = depth
        self.visits = 0
        self.kids = [Node(depth - 1), Node(depth - 1)] if depth else []

    @lj.syntax
    def walk(self, k: Any) -> Any:
        self.visits += 1
        result = self.value
        if k > self.value:
            for kid in self.kids:
                result += kid.walk(k - 1)
        return result


@program
def trees_that_count_visits(k: Any, x: Any) -> Any:
    tree = Node(2)
    return tree.walk(k), tree.visits, tree.kids[0].visits, tree.kids[1].kids[0].visits


class Base:
    def __init__(self) -> None:
        self.steps = 1

    def step(self, k: Any) -> None:
        self.steps += 1

    def run(self, k: Any) -> Any:
        self.step(k)
        return self.steps


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.sum = 0

    @lj.syntax
    def step(self, k: Any) -> None:
        if k > 3:
            super().step(k)
            self.sum += k
        else:
            self.sum -= 1


@program
def class_hierarchies(k: Any, x: Any) -> Any:
    derived = Derived()
    result = 0
    for i in range(k):
        result += derived.run(i)
    return result, derived.steps, derived.sum


class Guard:
    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Guard:
        self.count += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.count += 10


@program
def with_statements(k: Any, x: Any) -> Any:
    guard = Guard()
    i = 0
    while i < k:
        with guard as entered:
            entered.count += 100
            if i > 5:
                break
            i += 2
    return i, guard.count


@program
def operators_of_a_class(k: Any, x: Any) -> Any:
    class Vector:
        def __init__(self, a: Any) -> None:
            self.a, self.changes = a, 0

        def __iadd__(self, other: Any) -> Any:
            self.a = self.a + other
            self.changes += 1
            return self

    v = Vector(x)
    i = 0
    while i < k and v.a < 5:
        v += 1.5
        i += 1
    return v.a, v.changes


@program
def objects_in_containers(k: Any, x: Any) -> Any:
    counters = {"one": Counter(k), "two": Counter(k + 1)}
    total = 0
    for i in range(k):
        for j, counter in enumerate(counters.values()):
            if (i + j) % 3 == 0:
                total += counter.next()
    return total, counters["one"].calls, counters["two"].calls


@program
def dictionaries_that_an_inner_function_changes(k: Any, x: Any) -> Any:
    counts = {"even": 0, "odd": x * 1}

    def note() -> None:
        counts["even"] += 1

    for i in range(k):
        if i % 2 == 0:
            note()
        else:
            counts["odd"] = counts["odd"] + i
    i = 0
    while i < 9 and counts["even"] < 5:
        note()
        i += 1
    return counts["even"], counts["odd"], i


@dataclass
class Pair:
    a: Any
    b: Any


@program
def structs_that_an_inner_function_changes(k: Any, x: Any) -> Any:
    pair = Pair(x + 0, x * 2)
    other = pair

    def step() -> None:
        other.a = other.a + 1
        pair.b *= 0.5

    i = 0
    while i < k and pair.a < 5:
        step()
        i += 1
    return pair.a, pair.b, other.b, i


@program
def conditions_that_bind(k: Any, x: Any) -> Any:
    counter, u = Counter(k), 100
    result = 0
    if k > 5 or (v := counter.next()) % 2 == 0:
        result = 1
    else:
        result = v
    if k > 3 and (u := k * 2) > 10:
        result += u
    w = 5
    both = (w := k * 3) if k > 4 else w + 1
    return result, counter.calls, u, w, both


@program
def loops_whose_conditions_bind(k: Any, x: Any) -> Any:
    counter = Counter(k)
    total = 0
    i = 0
    while i < 5 and ((u := counter.next()) < 80 or k > 6):
        total += u
        i += 1
    return total, i, counter.calls


@program
def long_chains_of_comparisons(k: Any, x: Any) -> Any:
    counter = Counter(k)
    four = 0 < k < counter.next() % 10 < counter.next() % 20
    five = 1 < k < counter.next() % 30 + 2 < counter.next() % 70 < counter.next()
    return (1 if four else 0), (1 if five else 0), counter.calls


@program
def comprehensions_with_conditions(k: Any, x: Any) -> Any:
    counter = Counter(k)
    first = [1 if k > j and counter.next() % 2 == 0 else 0 for j in range(4)]
    values = [v for v in [k > 4 and counter.next() > 50, k < 2 or counter.next() > 9]]
    return first, [1 if v else 0 for v in values], counter.calls


@program
def conditions_in_what_a_comprehension_iterates_over(k: Any, x: Any) -> Any:
    counter = Counter(k)
    found = [v for v in (k > 4 and counter.next() > 5, k < 2 or counter.next() > 9)]
    return [1 if v else 0 for v in found], counter.calls


@program
def rays_through_spheres(k: Any, x: Any) -> Any:
    class Sphere:
        def __init__(self, center: float, radius: float) -> None:
            self.center, self.radius = center, radius
            self.tests = 0

        @lj.syntax
        def hit(self, origin: Any) -> Any:
            self.tests += 1
            d = origin - self.center
            inside = self.radius * self.radius - d * d
            if inside < 0:
                return x * 0 - 1
            return d * d + inside * 0.5

    scene = [Sphere(0.0, 1.0), Sphere(1.0, 2.0), Sphere(-2.0, 0.5)]
    total, origin = x * 0, x * 1
    i = 0
    while i < k:
        best = x * 0 + 100
        for sphere in scene:
            t = sphere.hit(origin)
            if t > 0 and t < best:
                best = t
        if best > 99:
            break
        total += best
        origin = origin * 0.7 + best * 0.1
        i += 1
    return total, i, [sphere.tests for sphere in scene]


@program
def arrays_that_share_an_attribute(k: Any, x: Any) -> Any:
    class Two:
        def __init__(self) -> None:
            self.a = self.b = x * 1

    two = Two()
    for _ in range(k):
        two.a = two.a * 0.5 + two.b
        if two.a > 6:
            break
    return two.a, two.b


class Measured:
    """Its attribute is a property, whose setter counts."""

    def __init__(self) -> None:
        self.inner, self.sets = 1, 0

    @property
    def value(self) -> Any:
        return self.inner

    @value.setter
    def value(self, new: Any) -> None:
        self.sets += 1
        self.inner = new


@program
def properties_that_count(k: Any, x: Any) -> Any:
    measured = Measured()
    for i in range(k):
        if i % 3 == 1:
            measured.value = measured.value * 2
        measured.value += 1
    return measured.value, measured.sets


class Recorded:
    """Assigning an attribute runs code."""

    def __init__(self) -> None:
        object.__setattr__(self, "held", {"v": 1, "sets": 0})

    def __setattr__(self, name: str, value: Any) -> None:
        self.held[name] = value
        self.held["sets"] += 1

    def __getattr__(self, name: str) -> Any:
        return object.__getattribute__(self, "held")[name]


@program
def attributes_that_run_code(k: Any, x: Any) -> Any:
    recorded = Recorded()
    for i in range(k):
        recorded.v = recorded.v + i
        if i > 3:
            recorded.v += 1
    return recorded.v, recorded.sets


@program
def lists_of_lists(k: Any, x: Any) -> Any:
    grid = [[0, 0], [0, 0]]
    row = grid[1]

    def mark(i: int, j: int, value: Any) -> None:
        grid[i][j] = value

    for i in range(k):
        row[0] += 1
        if i > 3:
            mark(0, 1, i)
    return grid, row


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_element_by_element(function: Program, symbolic: bool) -> None:
    check(function, symbolic)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_of_numbers_it_is_plain_python(function: Program) -> None:
    decorated = lj.syntax(function)
    for k, y in zip(K, X, strict=True):
        assert expected(decorated, k, y) == expected(function, k, y)


@pytest.mark.parametrize("symbolic", [True, False])
def test_an_array_in_two_attributes(symbolic: bool) -> None:
    """In place, both change, in each turn."""

    class Two:
        def __init__(self, x: Any) -> None:
            self.a = self.b = x

    @lj.syntax
    def attributes(k: Any, two: Any) -> None:
        for _ in range(k):
            two.a -= 1
            two.a += two.b

    @lj.syntax
    def variable(k: Any, two: Any) -> None:
        a = two.a
        for _ in range(k):
            a -= 1
            a += two.b

    for function in (attributes, variable):
        two = Two(Float64(1, 2, 3, 4))
        with lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic):
            function(Int(0, 1, 2, 3), two)
        assert two.a is two.b
        assert list(two.a) == [1, 2, 6, 18]


def test_other_values_that_functions_change_for_some_elements() -> None:
    class Light:
        mode = "off"

        def switch(self) -> None:
            self.mode = "on"

    @lj.syntax
    def program(x: Any, light: Any) -> None:
        if x > 1:
            light.switch()

    light = Light()
    light.mode = "off"
    match = r"changes 'light.mode' \(it held .*off.*use a number in its place"
    with pytest.raises(RuntimeError, match=match):
        program(Float64(1, 2), light)
    assert light.mode == "off"
    program(Float64(2), light)
    assert light.mode == "on"


def test_a_deque_that_is_changed_for_some_elements() -> None:
    @lj.syntax
    def program(k: Any, x: Any) -> Any:
        items = deque([x, x + 1])
        if k > 1:
            items[0] = items[0] + 1
        return items[0]

    with pytest.raises(RuntimeError, match=r"'items' .of type deque. was changed in"):
        program(Int(1, 2), Float64(1, 2))
