"""Calls that can't leave anything behind, which nobody watches; and those that can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.control.callees import Callee, Member, of_object
from lumijit.control.inert import Inert
from lumijit.llvm import Float, UInt
from lumijit.runtime.errors import StateError

_CALLS: list[Any] = []


class Shape:
    """Methods compute."""

    def __init__(self, size: Float, inner: Any = None) -> None:
        self.size = size
        self.inner = inner

    def area(self, x: Any) -> Any:
        """Ask what is inside, too."""
        return x * self.size if self.inner is None else self.inner.area(x)

    @property
    def double(self) -> Any:
        """A property."""
        return self.size * 2


class Square(Shape):
    """Calls what it is derived from."""

    def area(self, x: Any) -> Any:
        """Add to that."""
        return super().area(x) + x


class Counting(Shape):
    """A method assigns."""

    def area(self, x: Any) -> Any:
        """Count."""
        self.size = self.size + 1
        return x


class Growing(Shape):
    """A method works in place."""

    def area(self, x: Any) -> Any:
        """Grow."""
        size = self.size
        size += 1
        return x * size


class Making(Shape):
    """Another one's attribute changes as one is made."""

    def __init__(self, size: Float, inner: Any = None) -> None:
        super().__init__(size, inner)
        if inner is not None:
            inner.size = size

    def area(self, x: Any) -> Any:
        """Make one."""
        return type(self)(x, self.inner).size


class Naming(Making):
    """Makes one by name."""

    def area(self, x: Any) -> Any:
        """Make one."""
        return Naming(x, self.inner).size


class Noting(Shape):
    """A method changes something global."""

    def area(self, x: Any) -> Any:
        """Note what is given."""
        _CALLS.append(x)
        return x


def _call(shape: Any, x: Any) -> Any:
    return shape.area(x)


def _assign(shape: Any, x: Any) -> Any:
    shape.size = x
    return x


def _add(shape: Any, x: Any) -> Any:
    size = shape.size
    size += x
    return size


AREA = Member("area", True)


@pytest.mark.parametrize(
    ("cls", "function", "is_watched"),
    [
        (Shape, _call, False),
        (Shape, AREA, False),
        (Shape, Member("double", False), False),
        (Square, _call, False),
        (Square, AREA, False),
        (Counting, AREA, True),
        (Growing, AREA, True),
        (Making, AREA, True),
        (Naming, AREA, True),
        (Noting, AREA, True),
        (Counting, _call, True),
        (Shape, _assign, True),
        (Shape, _add, True),
    ],
)
def test_methods_of_instances(cls: Any, function: Any, is_watched: bool) -> None:
    callee = of_object(function, cls(Float(2)))
    assert bool(Inert().others([callee], [Float(1)])) == is_watched
    around = of_object(function, Shape(Float(2), cls(Float(1))))
    if function is AREA or function is _call:
        assert bool(Inert().others([around], [Float(1)])) == is_watched


def test_what_instances_lead_to() -> None:
    def is_watched(*values: Any) -> bool:
        callee = of_object(AREA, Shape(*values))
        return bool(Inert().others([callee], [Float(1)]))

    a, b = Shape(Float(1)), Shape(Float(2))
    a.inner, b.inner = b, a
    assert not is_watched(Float(1), a)
    assert is_watched(Float(1), [dr.rng()])
    assert is_watched(Float(1), lambda: _CALLS)
    shapes = Shape(Float(1))
    for _ in range(100):
        shapes = Shape(Float(1), shapes)
    assert is_watched(Float(1), shapes)


@pytest.mark.parametrize("function", [dr.sin, dr.maximum, dr.norm, dr.gather])
def test_functions_of_this_package(function: Callable[..., Any]) -> None:
    assert not Inert().others([Callee(function, [0])], [Float(1)])


@dataclass
class Disk:
    """A tree."""

    size: Any

    def area(self, x: Any) -> Any:
        """Compute."""
        return x * self.size

    def grow(self, x: Any) -> Any:
        """Assign."""
        self.size = x
        return x


@dataclass
class Ring:
    """A tree whose class runs code when one is made."""

    size: Any

    def __post_init__(self) -> None:
        if isinstance(self.size, Ring):
            self.size.size = self.size.size + 1

    def area(self, x: Any) -> Any:
        """Make one."""
        return type(self)(self).size.size * x


@dataclass
class Plain:
    """A tree with nothing to call."""

    size: Any


def _size(shape: Any, x: Any) -> Any:
    return shape.size * x


def test_trees_are_not_copied_if_they_are_instances() -> None:
    def is_watched(instance: Any, function: Any) -> bool:
        return bool(Inert().others([of_object(function, instance)], [Float(1)]))

    assert not is_watched(Plain(Float(1)), _size)
    assert is_watched(Plain(Float(1)), _assign)
    assert is_watched(Plain(Float(1)), _add)
    assert is_watched(Disk(Float(1)), Member("grow", True))
    assert is_watched(Ring(Float(1)), AREA)
    assert is_watched(Shape(Float(1), Ring(Float(1))), AREA)
    assert is_watched(Shape(Float(1), Disk(Float(1))), AREA)


def test_functions_that_hold_a_users() -> None:
    held = partial(_call, Shape(Float(1)))
    assert Inert().others([Callee(held, [0])], [Float(1)])


@pytest.mark.parametrize("cls", [Counting, Growing, Making, Naming])
def test_changes_are_refused(cls: Any) -> None:
    kind = dr.instance_array_t(Float, Shape)
    objects = [Shape(Float(3)), cls(Float(2), Shape(Float(1)))]
    with pytest.raises(StateError, match=r"size"):
        dr.dispatch(kind(objects), _call, Float(1, 2))


def test_results() -> None:
    kind = dr.instance_array_t(Float, Shape)
    objects = [Shape(Float(3)), Square(Float(2))]
    found = dr.dispatch(kind([*objects, *objects]), _call, Float(1, 2, 3, 4))
    assert np.array_equal(found, [3, 6, 9, 12])
    found = dr.switch(UInt(0, 1, 1), [dr.sqrt, dr.square], Float(4, 5, 6))
    assert np.array_equal(found, [2, 25, 36])


SUMS = {"x": Float(0)}


@dataclass
class Meter:
    gain: Float

    def read(self, x: Float) -> Float:
        SUMS["x"] = SUMS["x"] + x
        return self.gain * x


@dataclass
class Wrapped:
    meter: Meter
    offset: Float


class Reader:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def take(self, meter: Meter, x: Float) -> Float:
        return meter.read(x) * self.scale


def reads(meter: Meter, x: Float) -> Float:
    return meter.read(x)


def reads_inner(wrapped: Wrapped, x: Float) -> Float:
    return wrapped.meter.read(x) + wrapped.offset


def ignores(_: Any, x: Float) -> Float:
    return x


@pytest.mark.parametrize("is_symbolic", [True, False])
def test_methods_of_struct_arguments_that_change_something_else(
    is_symbolic: bool,
) -> None:
    """Nothing mentions what these change but the struct's class."""
    x, which = Float(5, 6, 7, 8), UInt(0, 1, 0, 1)
    meter = Meter(Float(1, 2, 3, 4))
    SUMS["x"] = Float(0)
    calls: list[Any] = [
        lambda: dr.switch(which, [reads, ignores], meter, x),
        lambda: dr.switch(which, [reads, ignores], meter, x=x),
        lambda: dr.switch(which, [reads_inner, ignores], Wrapped(meter, x), x),
        lambda: dr.switch(which, [Reader(1).take, Reader(2).take], meter, x),
        lambda: dr.switch(which, [lambda m, x: m[0].read(x), ignores], [meter], x),
    ]
    for call in calls:
        with (
            dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, is_symbolic),
            pytest.raises(StateError, match=r"changes 'SUMS\['x'\]'"),
        ):
            dr.eval(call())
        assert SUMS["x"].numpy().tolist() == [0]
