"""Replays tell objects apart as the function itself does, and give the same ones back.

Two paths may lead to one object in one call and to two in the next; what comes in may
go out; and what is made once may be returned and left elsewhere.
"""

from __future__ import annotations

import ctypes
import datetime
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm.ad import Array2f, Float

CALLS = 4


class Light:
    """What arrays of instances hold."""

    a: Float

    def __init__(self, a: float) -> None:
        self.a = Float(a)

    def of(self, x: Float) -> Float:
        """Scale."""
        return self.a * x


Lights: Any = lj.instance_array_t(Float, Light)


def values(*arrays: Any) -> list[list[float]]:
    return [list(map(float, array)) for array in arrays]


@pytest.mark.parametrize("is_changed", [False, True])
def test_an_argument_is_among_the_instances(is_changed: bool) -> None:
    def run(decorate: Callable[[Any], Any]) -> list[Any]:
        one, other = Light(1), Light(3)
        table = Lights([one, other])

        @decorate
        def f(x: Float, light: Light) -> tuple[Float, Float]:
            if is_changed:
                light.a = light.a + 10
            return table.of(x), light.a

        found = [values(*f(Float(1), v)) for v in (one, one, other, one, other)]
        return [*found, values(one.a, other.a)]

    assert run(lj.kernel) == run(lambda f: f)


def test_an_attribute_is_among_the_instances() -> None:
    def run(decorate: Callable[[Any], Any]) -> list[Any]:
        lights = [Light(1), Light(3)]

        class Scene:
            all = Lights(lights)
            chosen = lights[0]

        scene = Scene()

        @decorate
        def f(x: Float) -> tuple[Float, Float, Light]:
            return scene.all.of(x), scene.chosen.a, scene.chosen

        found: list[Any] = []
        for k in (0, 0, 1, 1, 0):
            scene.chosen = lights[k]
            *arrays, light = f(Float(1))
            found.append((values(*arrays), lights.index(light)))
        return found

    assert run(lj.kernel) == run(lambda f: f)


def test_class_attributes() -> None:
    class Counter:
        count = 0
        total = Float(0)

        @classmethod
        @lj.kernel
        def add(cls, x: Float) -> Float:
            cls.count += 1
            cls.total = cls.total + x
            return x + cls.count

    add: Any = Counter.add
    found = [values(add(Float(0.5)))[0][0] for _ in range(CALLS)]
    assert found == [1.5, 2.5, 3.5, 4.5]
    assert Counter.count == CALLS
    assert values(Counter.total) == [[2.0]]


def test_a_class_among_the_arguments() -> None:
    class Settings:
        scale = Float(1)

    @lj.kernel
    def f(settings: type[Settings], x: Float) -> Float:
        return settings.scale * x

    for scale in (1, 5, 6):
        Settings.scale = Float(scale)
        assert values(f(Settings, Float(2))) == [[2.0 * scale]]


@dataclass
class Pair:
    """A container."""

    x: Float
    y: Any


def _list() -> Any:
    return [Float(0), 1]


def _dict() -> Any:
    return {0: Float(0), 1: 1}


@pytest.mark.parametrize("make", [_list, _dict])
def test_a_container_comes_back(make: Callable[[], Any]) -> None:
    @lj.kernel
    def f(values: Any, x: Float) -> tuple[Any, Any]:
        values[0] = values[0] + x
        values[1] = values[1] + 1
        return values, [values]

    held = make()
    for k in range(CALLS):
        result, (again,) = f(held, Float(2))
        assert result is held
        assert again is held
        assert values(held[0]) == [[2.0 * (k + 1)]]
        assert held[1] == k + 2


def test_other_arguments_come_back() -> None:
    outer: dict[str, Any] = {"n": Float(0)}

    @lj.kernel
    def f(pair: Pair, vector: Array2f, light: Light) -> tuple[Any, ...]:
        pair.x = pair.x + 1
        light.a = light.a + 1
        outer["n"] = outer["n"] + 1
        return pair, vector, light, outer

    pair, vector, light = Pair(Float(1), 2), Array2f(1, 2), Light(1)
    for _ in range(CALLS):
        found = f(pair, vector, light)
        for result, given in zip(found, (pair, vector, light, outer), strict=True):
            assert result is given
    assert values(pair.x, light.a, outer["n"]) == [[5.0], [5.0], [4.0]]


def test_one_array_is_returned_and_left() -> None:
    left: dict[str, Any] = {}

    @lj.kernel
    def f(x: Float) -> tuple[Float, Float]:
        y = x * 2
        left["y"] = y
        left["list"] = left["same"] = [y]
        return y, y

    for k in range(CALLS):
        first, second = f(Float(k))
        assert first is second is left["y"] is left["list"][0]
        assert left["list"] is left["same"]
        first += 100
        assert values(left["y"]) == [[2.0 * k + 100]]


def test_keys_of_a_dictionary() -> None:
    @lj.kernel
    def f(weights: dict[Light, float], x: Float) -> Float:
        for light in weights:
            light.a = light.a + 1
        return sum((v.a * w for v, w in weights.items()), Float(0)) * x

    light = Light(1)
    found = [values(f({light: 2.0}, Float(1)))[0] for _ in range(CALLS)]
    assert found == [[4.0], [6.0], [8.0], [10.0]]


@pytest.mark.parametrize(
    "value",
    [
        re.compile("a"),
        slice(0, 2),
        np.s_[0:2, 1],
        datetime.timedelta(1),
        np.dtype("f4"),
        operator.itemgetter(1),
        ctypes.c_int(3),
        (lambda: 0).__code__,
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_of_c_types(value: Any) -> None:
    """Their members can't be assigned, and are no inputs."""

    @lj.kernel
    def outside(x: Float) -> Float:
        return x * (2 if value else 3)

    @lj.kernel
    def given(x: Float, value: Any) -> Float:
        return x * (2 if value else 3)

    for k in range(3):
        assert values(outside(Float(k)), given(Float(k), value)) == [[2.0 * k]] * 2


def numpy_pair(is_one: bool) -> tuple[Any, Any]:
    """Return arrays of memory that can be shared; the two are one array or not."""
    room = np.zeros(4096, np.float32)
    start = -room.ctypes.data % 4096 // 4
    one, other = room[start : start + 64], room[start + 64 : start + 128]
    one[:], other[:] = np.arange(64), 5
    return (one, one) if is_one else (one, other)


@pytest.mark.host("shares the memory of NumPy")
@pytest.mark.parametrize("decorate", [lj.kernel, lj.freeze])
@pytest.mark.parametrize("first", [False, True])
def test_inputs_of_one_numpy_array(decorate: Any, first: bool) -> None:
    @decorate
    def difference(a: Float, b: Float) -> Float:
        return a * 2 - b

    @decorate
    def update(a: Float, b: Float) -> None:
        a += b

    for is_one in (first, not first, first, not first):
        a, b = numpy_pair(is_one)
        assert np.array_equal(difference(Float(a), Float(b)).numpy(), a * 2 - b)
        changed = Float(a)
        update(changed, Float(b))
        assert np.array_equal(changed.numpy(), a + b)
    assert difference.n_recordings == 2


def test_an_input_of_the_numpy_array_that_is_used_inside() -> None:
    constant, other = numpy_pair(False)

    @lj.kernel
    def f(a: Float) -> Float:
        return a * 2 + Float(constant)

    for entries in (constant, other, constant):
        assert np.array_equal(f(Float(entries)).numpy(), entries * 2 + constant)


@pytest.mark.parametrize("first", [False, True])
def test_a_gradient_is_another_input(first: bool) -> None:
    @lj.kernel
    def f(x: Float, y: Float) -> Float:
        return lj.grad(x) * 2 + y

    y = Float(3, 4)
    for is_one in (first, not first, first, not first):
        x = Float(1, 2)
        lj.enable_grad(x)
        lj.set_grad(x, y if is_one else Float(7, 8))
        assert values(f(x, y)) == [[9, 12] if is_one else [17, 20]]


def test_one_array_is_not_two_of_one_memory() -> None:
    @lj.kernel
    def f(a: Float, b: Float) -> Float:
        a += 1
        return a + b

    for is_one in (True, False, True):
        a = Float(1, 2)
        lj.eval(a)
        assert values(f(a, a if is_one else Float(a))) == [[4, 6] if is_one else [3, 5]]


@dataclass
class Counted:
    a: Any
    n: int = 0


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("is_counted", [True, False])
def test_an_object_with_numbers_is_there_twice(is_same: bool, is_counted: bool) -> None:
    def run(decorate: Callable[[Any], Any]) -> list[Any]:
        one = Counted(Float(1, 2), 3)
        two = one if is_same else Counted(Float(3, 4), 5)

        @decorate
        def step(items: list[Any], named: dict[str, Any], x: Float) -> Any:
            named["one"].a = items[0].a * items[1].n + x
            if is_counted:
                items[1].n += 1
            return items[1].a + named["one"].n

        found: list[Any] = []
        for k in range(CALLS):
            result = step([one, two], {"one": one}, Float(k, 1))
            found += [*values(result, one.a, two.a), one.n, two.n]
            two.n += k
        assert [type(c.n) for c in (one, two)] == [int, int]
        return found

    assert run(lj.kernel) == run(lambda f: f)


class Adding:
    """An object whose class has an array."""

    total: Any = None

    def __init__(self) -> None:
        self.a = Float(1, 2, 3) * 1


@lj.kernel
def adding(o: Any, x: Float, k: int) -> Any:
    if x > 1.5:
        if k == 0:
            o.a = o.a + x
        if k == 1:
            Adding.total = Adding.total + x
    return o.a * 1


@pytest.mark.parametrize("width", [1, 3])
def test_arrays_of_the_class_of_an_argument(width: int) -> None:
    adding.clear()
    for k, expected in ((1, [1, 2, 3]), (2, [1, 2, 3]), (0, [1, 4, 6])):
        Adding.total = lj.opaque(Float, 2, width)
        found = adding(Adding(), Float(1, 2, 3) * 1, k)
        assert list(found) == expected
        total = [2, 4, 5] if k == 1 else [2] * width
        assert list(Adding.total) == total
