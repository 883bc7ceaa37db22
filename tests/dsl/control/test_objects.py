"""Objects in containers of every kind that constructs change: right, or refused."""

from __future__ import annotations

import threading
import weakref
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.llvm import Float, UInt
from lumijit.runtime.errors import StateError

from ..programs.modes import flags_of

COUNT = 200
Holder = namedtuple("Holder", ["objs"])


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    yield
    assert trace.state.scope is ROOT


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


def in_thread(objs: list[Any]) -> Any:
    space = threading.local()
    space.objs = objs
    return space


def in_context(objs: list[Any]) -> Any:
    variable: ContextVar[list[Any]] = ContextVar("variable")
    variable.set(objs)
    return variable


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
    "thread": (in_thread, lambda c, k: c.objs[k]),
    "context": (in_context, lambda c, k: c.get()[k]),
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


class Counter:
    total = Float(0)
    objs: Any = None

    def __init__(self) -> None:
        self.x = Float(0)

    def add(self) -> None:
        SHARED[0].x += 1

    def rebind(self) -> None:
        global NUMBER
        NUMBER = self.x + 1

    @staticmethod
    def add_to_class() -> None:
        Counter.total += 1

    @property
    def added(self) -> int:
        self.x += 1
        return 1

    def __call__(self) -> None:
        CALLED["it"].x += 1


SHARED = [Counter() for _ in range(3)]
CALLED = {"it": Counter()}
NUMBER: Any = 0


def _in_deque(counter: Any) -> None:
    QUEUE[1] = QUEUE[1] + 1


def _in_place_in_deque(counter: Any) -> None:
    QUEUE[1] += 1


def _in_set(counter: Any) -> None:
    for key in KEYED:
        key.x += 1


def _of_library(counter: Any) -> None:
    SPACE.x += 1


def _in_module(counter: Any) -> None:
    textures.x += 1


def _assigned_in_module(counter: Any) -> None:
    textures.y = counter.x + 1


def _by_weak_reference(counter: Any) -> None:
    WEAK().x += 1


QUEUE: deque[Any] = deque()
KEYED: dict[Any, int] = {}
SPACE = SimpleNamespace()
textures: Any = ModuleType("textures")
WEAK: Any = None


@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
@pytest.mark.parametrize(
    ("change", "get"),
    [
        (lambda c: c.add(), lambda c: SHARED[0].x),
        (lambda c: c.rebind(), lambda c: NUMBER),
        (lambda c: c.add_to_class(), lambda c: Counter.total),
        (lambda c: c.added, lambda c: c.x),
        (lambda c: c(), lambda c: CALLED["it"].x),
        (_in_deque, lambda c: QUEUE[1]),
        (_in_place_in_deque, lambda c: QUEUE[1]),
        (_in_set, lambda c: next(iter(KEYED)).x),
        (_of_library, lambda c: SPACE.x),
        (_in_module, lambda c: textures.x),
        (_assigned_in_module, lambda c: textures.y),
        (_by_weak_reference, lambda c: WEAK().x),
    ],
    ids=lambda f: "".join(f.__code__.co_names) or f.__name__,
)
def test_what_called_code_mentions(change: Any, get: Any, mode: str) -> None:
    """Elsewhere than in what the construct holds: right, or refused."""
    global NUMBER, WEAK
    counter, key = Counter(), Counter()
    KEYED.clear()
    KEYED[key] = 1
    QUEUE.clear()
    QUEUE.extend([Float(0), Float(0)])
    objects: list[Any] = [*SHARED, CALLED["it"], SPACE, textures]
    for obj in objects:
        obj.x = Float(0)
    NUMBER, WEAK, Counter.total = Float(0), weakref.ref(key), Float(0)
    textures.y = Float(0)

    @lj.syntax
    def program(n: Any) -> Any:
        if n > 1:
            change(counter)
        return n

    with flags_of(mode):
        try:
            program(UInt(0, 2))
        except StateError:
            np.testing.assert_array_equal(get(counter).numpy(), [0])
        else:
            np.testing.assert_array_equal(get(counter).numpy(), [0, 1])


def test_more_objects_than_anyone_looks_at_one_by_one() -> None:
    objs = [Plain(Float(0)) for _ in range(5000)]

    @lj.syntax
    def program(n: Any) -> Any:
        i = n - n
        while i < n:
            literal(objs[4321], lj.llvm)
            in_place(objs[-1], lj.llvm)
            i += 1
        return i

    program(UInt(0, 3))
    assert list(objs[4321].x) == [0, 7]
    assert list(objs[-1].x) == [0, 3]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
def test_what_a_loop_inside_toggles(mode: str) -> None:
    """All lanes together toggle it an even number of times; each alone may not."""
    obj = Plain(UInt(0))

    def toggle() -> None:
        obj.x = obj.x ^ 1

    @lj.syntax
    def program(n: Any) -> Any:
        i = n - n
        while i < 1:
            j = n - n
            while j < n:
                toggle()
                j += 1
            i += 1
        return i

    with flags_of(mode):
        program(UInt(1, 2, 3, 4))
    assert list(obj.x) == [1, 0, 1, 0]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
def test_what_a_branch_inside_toggles_back(mode: str) -> None:
    obj = Plain(UInt(0))

    def toggle() -> None:
        obj.x = obj.x ^ 1

    @lj.syntax
    def program(n: Any) -> Any:
        if n > 0:
            toggle()
            if n > 1:
                toggle()
        return n

    with flags_of(mode):
        program(UInt(0, 1, 2))
    assert list(obj.x) == [0, 1, 0]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_keys_of_a_dictionary(mode: str) -> None:
    @lj.syntax
    def add(weights: dict[Any, float], x: Float) -> None:
        if lj.hint(x > 1, mode=mode):
            for (_, key), weight in weights.items():
                key.v = key.v + x * weight

    class Key:
        """Found by its identity."""

        def __init__(self) -> None:
            self.v = Float(0)

    one, other = Key(), Key()
    add({(0, one): 1, (1, other): 2}, Float(1, 2))
    assert [float(v) for v in one.v] == [0, 2]
    assert [float(v) for v in other.v] == [0, 4]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_a_context_variable_holds_differs_by_element(mode: str) -> None:
    count: ContextVar[Any] = ContextVar("count")

    def up() -> Any:
        count.set(count.get() + 1)
        return count.get()

    @lj.syntax
    def total(n: Any) -> Any:
        y, i = Float(0), UInt(0)
        while i < n:
            y += up()
            i += 1
        return y

    @lj.syntax
    def scoped(x: Any) -> Any:
        if x > 1:
            token = count.set(7)
            x = x * count.get()
            count.reset(token)
        return x

    with flags_of(mode):
        count.set(0)
        np.testing.assert_array_equal(total(UInt(1, 3, 0)).numpy(), [1, 6, 0])
        np.testing.assert_array_equal(count.get().numpy(), [1, 3, 0])
        count.set(2)
        np.testing.assert_array_equal(scoped(Float(0, 5)).numpy(), [0, 35])
        assert count.get() == 2
