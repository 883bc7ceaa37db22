"""Programs over nested arrays, PyTrees, random numbers and indexed arrays."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import lumijit as lj

from .modes import program
from .plain import FLOATS, INTS, MORE, UINTS

T = ModuleType
LANES = ("UInt", [0, 1, 2, 3, 4, 5, 6])
TABLE = {"table": ("Int", [3, 1, 4, 1, 5, 9, 2, 6])}
BINS = {"bins": ("Int", [0, 10, 20, 30])}
SAME_SIZE = {"table": ("Int", [3, 1, 4, 1, 5, 9, 2])}


@dataclass
class Pair:
    first: Any
    second: Any


@dataclass(frozen=True)
class Frozen:
    value: Any
    name: str = "frozen"


class Struct:
    DRJIT_STRUCT = {"a": object, "b": object}

    def __init__(self, a: Any = None, b: Any = None) -> None:
        self.a = a
        self.b = b


@program(x=FLOATS, n=UINTS)
def vectors(t: T, x: Any, n: Any) -> Any:
    v = t.Array3f(x, 1, 2)
    i = t.UInt(0)
    while i < n:
        v = v * 0.5 + t.Array3f(1, x, 0)
        if v.x > 1:
            v = t.Array3f(v.z, v.x, v.y)
        i += 1
    return v


@program(x=FLOATS, n=UINTS)
def component_assignment(t: T, x: Any, n: Any) -> Any:
    v = t.Array2f(x, 0)
    i = t.UInt(0)
    while i < n:
        if v.x > 0:
            v.y = v.y + 1
        else:
            v[0] = v[0] + 0.5
        i += 1
    return v


@program(x=INTS, y=MORE)
def dictionaries(t: T, x: Any, y: Any) -> Any:
    state = {"x": x, "rest": [y, (x, y)]}
    while state["x"] < 9:
        state["x"] = state["x"] + 2
        state["rest"][0] = state["rest"][0] - state["x"]
    if state["rest"][0] < 0:
        state["x"] = -state["x"]
    return state


@program(x=INTS, y=MORE)
def dataclasses(t: T, x: Any, y: Any) -> Any:
    pair = Pair(x, y)
    while pair.first < 9:
        pair.first = pair.first + 3
        if pair.second < pair.first:
            pair.second = pair.second + 1
    return pair


@program(x=INTS, y=MORE)
def frozen_dataclasses(t: T, x: Any, y: Any) -> Any:
    state = Frozen(x)
    other = Frozen(y, "other")
    while state.value < 9:
        state = Frozen(state.value + 3)
        if other.value > 2:
            state = Frozen(state.value + 1)
    return state, other


@program(x=INTS, y=MORE)
def structs(t: T, x: Any, y: Any) -> Any:
    s = Struct(x, y)
    while s.a < 9:
        s.a += 2
        if s.b > 1:
            s.b -= 1
    return s


@program(x=INTS)
def opaque_object(t: T, x: Any) -> Any:
    box = SimpleNamespace(value=x, hits=t.Int(0))
    while box.value < 9:
        box.value = box.value + 2
        if box.value > 3:
            box.hits += 1
    return box.value, box.hits


@program(n=UINTS, lane=LANES)
def random_numbers(t: T, n: Any, lane: Any) -> Any:
    rng = t.PCG32(1, 7, lane)
    total = t.UInt(0)
    i = t.UInt(0)
    while i < n:
        if rng.next_uint32() & 1 == 0:
            total += 1
        i += 1
    return total, rng.next_uint32()


@program(shared=TABLE, x=INTS)
def gather_in_loop(t: T, x: Any, table: Any) -> Any:
    i = t.UInt(0)
    total = t.Int(0)
    while i < 8:
        total += lj.gather(t.Int, table, i)
        if total > x:
            total -= lj.gather(t.Int, table, 7 - i)
        i += 1
    return total


@program(shared=SAME_SIZE, x=LANES)
def gather_with_the_size_of_the_loop(t: T, x: Any, table: Any) -> Any:
    total = t.Int(0)
    while x < 7:
        total += lj.gather(t.Int, table, x)
        x += 1
    return total


@program(shared=SAME_SIZE, x=LANES)
def gather_late(t: T, x: Any, table: Any) -> Any:
    total = t.Int(0)
    i = t.UInt(0)
    while i < x:
        k = t.UInt(0)
        while k < i:
            total += lj.gather(t.Int, table, k)
            k += 1
        i += 1
    return total


@program(shared=BINS, x=LANES, y=INTS)
def scatter_add_in_loop(t: T, x: Any, y: Any, bins: Any) -> Any:
    while x < 9:
        lj.scatter_add(bins, y, x % 4)
        x += 1
    return x


@program(shared=BINS, x=LANES, y=INTS)
def scatter_in_branches(t: T, x: Any, y: Any, bins: Any) -> Any:
    if x % 2 == 0:
        lj.scatter_add(bins, 1, x % 4)
        if y > 0:
            lj.scatter_add(bins, 100, 3)
    else:
        lj.scatter_add(bins, y, 1)
    return x


@program(shared=BINS, x=LANES, y=INTS)
def scatter_in_nested_loops(t: T, x: Any, y: Any, bins: Any) -> Any:
    i = t.UInt(0)
    while i < x:
        if i % 2 == 1:
            k = t.UInt(0)
            while k < i:
                lj.scatter_add(bins, y, k % 4)
                k += 1
        i += 1
    return i


@program(shared={"cells": ("Int", [0] * 7)}, x=LANES, y=INTS)
def scatter_own_cell(t: T, x: Any, y: Any, cells: Any) -> Any:
    i = t.Int(0)
    while i < y:
        lj.scatter(cells, i * 10, x)
        i += 1
    return i


@program(shared={"counter": ("UInt", [5])}, x=LANES, y=INTS)
def counting_lanes(t: T, x: Any, y: Any, counter: Any) -> Any:
    while x < 6:
        if y > 0:
            lj.scatter_inc(counter, 0)
        x += 1
    return x


@program(shared={"table": ("Int", [3, 1, 4, 1]), "bins": ("Int", [0] * 4)}, x=LANES)
def gather_and_scatter(t: T, x: Any, table: Any, bins: Any) -> Any:
    k = t.UInt(0)
    while k < x % 4:
        lj.scatter_add(bins, lj.gather(t.Int, table, k), 3 - k)
        k += 1
    return k


@program(x=INTS, y=MORE)
def list_of_arrays(t: T, x: Any, y: Any) -> Any:
    values = [x, y, x + y]
    while values[0] < 10:
        values = [v + k for k, v in enumerate(values, 1)]
        if values[1] > 5:
            values[2] = values[2] - values[1]
    return values


@program(x=INTS, y=MORE)
def augmented_items(t: T, x: Any, y: Any) -> Any:
    values = {"a": x, "b": y}
    k = t.Int(0)
    while k < 4:
        values["a"] += k
        if values["a"] > values["b"]:
            values["b"] *= 2
        k += 1
    return values


@program(x=INTS)
def aliases(t: T, x: Any) -> Any:
    a = x
    b = x
    k = t.Int(0)
    while k < 3:
        a = a + b
        k += 1
    return a, b, x


@program(x=INTS)
def helper_functions(t: T, x: Any) -> Any:
    def step(value: Any, by: Any = 2) -> Any:
        return value + by

    scale = [1, 2, 3]
    while x < 9:
        x = step(x, by=scale[1])
    return x, scale
