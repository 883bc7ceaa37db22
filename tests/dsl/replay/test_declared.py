"""`@kernel`: what classes and functions are declared with may be replaced."""

from __future__ import annotations

from typing import Any

import lumijit as dr
from lumijit.llvm.ad import Float
from tests.dsl.replay.support import assert_equal


def _is_seen(read: Any, change: Any, *expected: float) -> None:
    f = dr.kernel(lambda x: x * read())
    for value in expected:
        for _ in range(2):
            assert_equal(f(Float(1, 2)), Float(value, 2 * value))
        change()


class First:
    gain = 2.0


class Second:
    gain = 3.0


class Derived(First):
    pass


def test_defaults() -> None:
    def scale(by: Any = 2.0) -> Any:
        return by

    def change() -> None:
        scale.__defaults__ = (3.0,)

    _is_seen(scale, change, 2, 3)


def test_defaults_that_are_arrays() -> None:
    def scale(by: Any = Float(2)) -> Any:  # noqa: B008
        return by

    def change() -> None:
        scale.__defaults__ = (Float(3),)

    _is_seen(scale, change, 2, 3)


def test_defaults_that_the_function_replaces() -> None:
    def scale(by: Any = 2.0) -> Any:
        return by

    @dr.kernel
    def f(x: Float) -> Any:
        result = x * scale()
        scale.__defaults__ = (3.0,)
        return result

    assert_equal(f(Float(1)), Float(2))
    assert_equal(f(Float(1)), Float(3))
    scale.__defaults__ = (2.0,)
    assert_equal(f(Float(1)), Float(2))
    assert_equal(f(Float(1)), Float(3))


def test_bases() -> None:
    made = Derived()

    def change() -> None:
        Derived.__bases__ = (Second,)

    try:
        _is_seen(lambda: made.gain, change, 2, 3)
    finally:
        Derived.__bases__ = (First,)


def test_metaclasses() -> None:
    class Meta(type):
        gain = 2.0

    class Made(metaclass=Meta):
        pass

    def change() -> None:
        Meta.gain = 3.0

    _is_seen(lambda: Made.gain, change, 2, 3)


def test_the_class_of_an_object() -> None:
    made: Any = First()

    def change() -> None:
        made.__class__ = Second

    _is_seen(lambda: made.gain, change, 2, 3)


def test_the_class_of_an_argument() -> None:
    made: Any = First()

    @dr.kernel
    def f(x: Float, given: Any) -> Any:
        return x * given.gain

    assert_equal(f(Float(1), made), Float(2))
    made.__class__ = Second
    assert_equal(f(Float(1), made), Float(3))
