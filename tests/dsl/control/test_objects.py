"""Objects in containers of every kind that constructs change: right, or refused."""

from __future__ import annotations

from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.compiler import trace
from lumijit.llvm import Float, UInt

from ..programs.modes import flags_of

COUNT = 200
Holder = namedtuple("Holder", ["objs"])


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    yield
    assert trace.state.scope is trace.ROOT


class Plain:
    def __init__(self, x: Any, y: Any = None) -> None:
        self.x, self.y = x, y


class Slotted:
    __slots__ = ("__weakref__", "x", "y")

    def __init__(self, x: Any, y: Any = None) -> None:
        self.x, self.y = x, y


def in_place(obj: Any, t: Any) -> None:
    obj.x += 1


def anew(obj: Any, t: Any) -> None:
    obj.x = obj.x + 1


def literal(obj: Any, t: Any) -> None:
    obj.x = t.Float(7)


def number(obj: Any, t: Any) -> None:
    obj.x = 7.0


def other(obj: Any, t: Any) -> None:
    obj.x = obj.y


CONTAINERS: dict[str, tuple[Callable[[list[Any]], Any], Callable[[Any, int], Any]]] = {
    "list": (list, lambda c, k: c[k]),
    "dict": (lambda objs: dict(enumerate(objs)), lambda c, k: c[k]),
    "deque": (deque, lambda c, k: c[k]),
    "tuple": (tuple, lambda c, k: c[k]),
    "named tuple": (lambda objs: Holder(objs), lambda c, k: c.objs[k]),
    "set": (
        lambda objs: {(k, obj) for k, obj in enumerate(objs)},
        lambda c, k: next(obj for j, obj in c if j == k),
    ),
    "partial": (
        lambda objs: partial(lambda objs, k: objs[k], objs),
        lambda c, k: c(k),
    ),
    "object array": (lambda objs: np.array(objs, object), lambda c, k: c[k]),
    "closure": (lambda objs: lambda k: objs[k], lambda c, k: c(k)),
}


def in_loop(c: Any, get: Any, k: int, n: Any, change: Any, t: Any) -> Any:
    i = n - n
    while i < n:
        change(get(c, k), t)
        i += 1
    return i


def in_branch(c: Any, get: Any, k: int, n: Any, change: Any, t: Any) -> Any:
    if n > 1:
        change(get(c, k), t)
    return n


def in_nobody_s_branch(c: Any, get: Any, k: int, n: Any, change: Any, t: Any) -> Any:
    if n > 100:
        change(get(c, k), t)
    return n


def in_both(c: Any, get: Any, k: int, n: Any, change: Any, t: Any) -> Any:
    i = n - n
    while i < n:
        if i > 0:
            change(get(c, k), t)
        i += 1
    return i


@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("cls", [Plain, Slotted])
def test_one_of_many(cls: Any, kind: str, mode: str) -> None:
    """Each lane gets what plain Python gives for it alone."""
    make, get = CONTAINERS[kind]
    lanes = [0, 1, 3]
    random = Random(kind)
    for program in (in_loop, in_branch, in_nobody_s_branch, in_both):
        for change in (in_place, anew, literal, number, other):
            k, expected = random.choice([0, 61, COUNT - 1]), []
            for n in lanes:
                objs = [cls(float(j), -1.0) for j in range(COUNT)]
                program(make(objs), get, k, n, change, lj.scalar)
                expected.append(objs[k].x)
            objs = [cls(Float(j), Float(-1)) for j in range(COUNT)]
            before = [obj.x for obj in objs]
            with flags_of(mode):
                lj.syntax(program)(make(objs), get, k, UInt(lanes), change, lj.llvm)
            for j, obj in enumerate(objs):
                assert j == k or (obj.x is before[j] and obj.x[0] == j)
            found = np.broadcast_to(objs[k].x.numpy(), len(lanes))
            np.testing.assert_array_equal(found, expected)
