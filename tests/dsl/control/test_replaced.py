"""What called functions replace, take away or change in place: refused, and put back.

What comes where nothing or None was, and holds no arrays, may be a memo and stays.
"""

from __future__ import annotations

import ctypes
import logging
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Float, UInt
from lumijit.runtime.errors import StateError

from . import counting

BOTH = ["symbolic", "evaluated"]
every_mode = pytest.mark.parametrize("mode", BOTH)


class Color(Enum):
    RED = 1
    BLUE = 2


class Buffer:
    def __init__(self, *values: float) -> None:
        self.v = Float(*values)


class Node:
    def __init__(self, value: Any, following: Any = None) -> None:
        self.value = value
        self.next = following


FIRST, SECOND = Buffer(1, 2), Buffer(10, 20)


class Holder:
    """Has all kinds of things in its attributes."""

    v: Any
    x: Any

    def __init__(self) -> None:
        self.a, self.b = Buffer(1, 2), Buffer(10, 20)
        self.list = [self.a, self.b]
        self.table = {"a": self.a, "b": self.b}
        self.numbers, self.named = [1, 2], {"a": 1, "b": 2}
        self.queue: deque[Any] = deque([1, 2])
        self.words = {"a", "b"}
        self.count = 5
        self.nothing = None
        self.state = Node(0)
        self.current = Node(1, Node(10, Node(100)))
        self.sum = Float(0)
        self.callback: Any = max
        self.histogram = np.zeros(3)
        self.raw = array("d", [0, 0])
        self.bytes = bytearray(2)
        self.view = memoryview(array("d", [0, 0, 0, 0]))[1::2]
        self.rows_in_c = (ctypes.c_long * 2 * 2)()

    def contents(self) -> dict[str, Any]:
        found = dict(vars(self))
        found |= {name: str(v) for name, v in vars(self).items() if type(v) is Float}
        found["words"] = sorted(self.words)
        for name in ("list", "numbers", "queue", "histogram", "raw", "bytes", "view"):
            found[name] = list(getattr(self, name))
        found["rows_in_c"] = [list(row) for row in self.rows_in_c]
        for name in ("table", "named"):
            found[name] = list(getattr(self, name).items())
        buffers = [buffer.v.numpy().tolist() for buffer in (self.a, self.b)]
        return {**found, "buffers": buffers}


def _swap(h: Any) -> None:
    h.b.v = h.a.v * 2
    h.a, h.b = h.b, h.a


def _rotate(h: Any) -> None:
    h.list.append(h.list.pop(0))


def _swap_items(h: Any) -> None:
    h.table["a"], h.table["b"] = h.table["b"], h.table["a"]


def _new_object(h: Any) -> None:
    h.state = Node(h.state.value + 1)


def _walk(h: Any) -> None:
    h.sum += h.current.value
    h.current = h.current.next


def _no_callback(h: Any) -> None:
    h.callback = None


def _other_callback(h: Any) -> None:
    h.callback = min


def _known_object(h: Any) -> None:
    h.nothing = h.state


def _pop(h: Any) -> None:
    h.numbers.pop()


def _clear(h: Any) -> None:
    h.named.clear()


def _pop_key(h: Any) -> None:
    h.named.pop("a")


def _pop_left(h: Any) -> None:
    h.queue.popleft()
    h.queue.pop()


def _discard(h: Any) -> None:
    h.words.discard("a")


def _delete(h: Any) -> None:
    del h.count


def _count_in_numpy(h: Any) -> None:
    h.histogram[1] += 1


def _count_in_array(h: Any) -> None:
    h.raw[1] += 1


def _count_in_bytes(h: Any) -> None:
    h.bytes[1] += 1


def _count_in_view(h: Any) -> None:
    h.view[1] += 1


def _count_in_c(h: Any) -> None:
    h.rows_in_c[1][0] += 1


REFUSED: dict[Callable[[Any], None], str] = {
    _swap: r"'h\.[ab]'.*a\.x, b\.x = b\.x, a\.x",
    _rotate: r"'h\.list\[0\]'",
    _swap_items: r"'h\.table\['a'\]'",
    _new_object: r"'h\.state'.*keep the object and change what it holds",
    _walk: r"'h\.current'",
    _no_callback: r"'h\.callback' .*would hold None.*use a number in its place",
    _other_callback: r"'h\.callback'",
    _known_object: r"'h\.nothing' \(it held None.*or assign it before",
    _pop: r"'h\.numbers\[1\]' \(it held Python int 2, and would hold nothing",
    _clear: r"'h\.named\['a'\]'.*would hold nothing",
    _pop_key: r"'h\.named\['a'\]'",
    _pop_left: r"'h\.queue\[[01]\]'",
    _discard: "'h.words'",
    _delete: r"'h\.count'",
    _count_in_numpy: r"'h\.histogram' in place.*lumijit\.scatter",
    _count_in_array: r"'h\.raw' in place",
    _count_in_bytes: r"'h\.bytes' in place",
    _count_in_view: r"'h\.view' in place",
    _count_in_c: r"'h\.rows_in_c' in place",
}


@lj.syntax
def _branch(h: Any, x: Any, change: Any, mode: str) -> None:
    if lj.hint(x > 1, mode=mode):
        change(h)


@lj.syntax
def _loop(h: Any, x: Any, change: Any, mode: str) -> None:
    i = UInt(0)
    while lj.hint(i < x, mode=mode):
        change(h)
        i += 1


@lj.syntax
def _nested(h: Any, x: Any, change: Any, mode: str) -> None:
    i = UInt(0)
    while lj.hint(i < x, mode=mode):
        if lj.hint(i > 1, mode=mode):
            change(h)
        i += 1


every_program = pytest.mark.parametrize("program", [_branch, _loop, _nested])


@every_mode
@every_program
@pytest.mark.parametrize("change", REFUSED, ids=lambda f: f.__name__)
def test_refused(program: Any, change: Callable[[Any], None], mode: str) -> None:
    holder = Holder()
    before = holder.contents()
    match = rf"{__file__}:\d+ in {change.__name__}: @syntax: .*{REFUSED[change]}"
    with pytest.raises(StateError, match=match):
        program(holder, UInt(1, 3), change, mode)
    assert holder.contents() == before


VALUES: list[tuple[Any, Any]] = [
    (FIRST, SECOND),
    (FIRST, None),
    (FIRST, 5),
    (5, FIRST),
    (int, float),
    (Color.RED, Color.BLUE),
    (Float, UInt),
    (max, min),
    (partial(max, 1), partial(max, 2)),
    ([1], [2, 3]),
    ({"a": 1}, {"b": 2}),
    ({1}, {2}),
    (frozenset({1}), frozenset({2})),
    (range(2), range(3)),
    (slice(1), slice(2)),
    (Fraction(1, 2), Fraction(1, 3)),
    (np.zeros(2), np.ones(2)),
    (SimpleNamespace(n=1), SimpleNamespace(n=2)),
    ([FIRST, SECOND], [SECOND, FIRST]),
    (Node(1), Node(2)),
    (Node(Node(1)), Node(Node(2))),
    (lambda: 1, lambda: 2),
]


@every_mode
@pytest.mark.parametrize("program", [_branch, _loop])
@pytest.mark.parametrize("values", VALUES, ids=lambda pair: type(pair[0]).__name__)
def test_kinds_of_values(program: Any, values: tuple[Any, Any], mode: str) -> None:
    holder = Holder()
    holder.v, other = values

    def change(h: Any) -> None:
        h.v = other

    with pytest.raises(StateError, match=r"h\.v"):
        program(holder, UInt(0, 3), change, mode)
    assert holder.v is values[0]


@every_mode
@pytest.mark.parametrize("program", [_branch, _loop])
@pytest.mark.parametrize("number", [int, float, np.int32, np.float32, np.float64])
def test_numbers_come_to_differ(program: Any, number: Any, mode: str) -> None:
    holder = Holder()
    holder.v = number(1)

    def change(h: Any) -> None:
        h.v = number(2)

    program(holder, UInt(0, 3), change, mode)
    assert list(holder.v) == [1, 2]


class Lazy:
    """Makes what it needs when it needs it."""

    found: Any = None
    answer: Any

    def __init__(self) -> None:
        self.node: Any = None
        self.limits: list[Any] = []
        self.memo: dict[Any, Any] = {}
        self.recent: OrderedDict[str, Any] = OrderedDict(a=1, b=2)
        self.parts = [Node(1), Node(2)]
        self.settings = Node("a", [1, 2])
        self.scale = Fraction(1, 2)
        self.action: Any = self.name_of
        self.hook: Any = self.make_hook()
        self.said: set[str] = set()
        self.log: list[str] = []
        self.known: Any = weakref.WeakKeyDictionary()
        self.weak = Node(0)
        self.known[self.weak] = 1
        self.scratch = np.zeros(2)

    @cached_property
    def tree(self) -> Any:
        return Node(3)

    @cached_property
    def main(self) -> Any:
        return self.parts[0]

    def make_hook(self) -> Any:
        return lambda: self.node

    @lru_cache(4)  # noqa: B019
    def made(self, name: str) -> Any:
        return Node(name)

    def name_of(self, key: Any) -> str:
        return f"part {key}"

    def work(self) -> Any:
        if self.node is None:
            self.node = Node(4)
        if not self.limits:
            self.limits = [1, 2, 3]
        if not hasattr(self, "answer"):
            self.answer = 42
        for key in ("a", "b"):
            if key not in self.memo:
                self.memo[key] = self.name_of(key)
        self.recent.move_to_end("a")
        self.made("x")
        self.log.append("working")
        self.said.add("slow")
        # Made anew, and the same.
        self.settings = Node("a", [1, 2])
        self.scale = Fraction(2, 4)
        self.action = self.name_of
        self.hook = self.make_hook()
        self.scratch[0] = 3
        self.scratch[:] = 0
        self.parts.reverse()
        self.parts.reverse()
        logging.getLogger(__name__).warning("working")
        return self.tree.value + self.main.value + self.node.value


@every_mode
@every_program
def test_memos_go_on(program: Any, mode: str) -> None:
    lazy, results = Lazy(), []

    def work(h: Any) -> None:
        results.append(h.work())

    for _ in range(3):
        program(lazy, UInt(0, 3), work, mode)
    assert set(results) == {8}
    assert (lazy.node.value, lazy.answer, lazy.limits) == (4, 42, [1, 2, 3])
    assert lazy.memo == {"a": "part a", "b": "part b"}
    assert list(lazy.recent) == ["b", "a"]
    assert lazy.settings.value == "a"
    assert lazy.scale == Fraction(1, 2)
    assert lazy.said == {"slow"}


@every_mode
def test_memos_of_symbolic_arrays_are_refused(mode: str) -> None:
    @lj.syntax
    def program(lazy: Any, x: Any) -> None:
        if lj.hint(x > 1, mode=mode):
            remember(lazy, x)

    def remember(lazy: Any, x: Any) -> None:
        lazy.node = Node(x * 2)

    lazy = Lazy()
    with pytest.raises(StateError, match=r"'lazy\.node' .*it was put back"):
        program(lazy, Float(1, 3))
    assert lazy.node is None


@every_mode
def test_objects_whose_contents_change_are_state(mode: str) -> None:
    """What the error says to do."""

    def exchange(h: Any) -> None:
        h.b.v = h.a.v * 2
        h.a.v, h.b.v = h.b.v, h.a.v

    holder = Holder()
    _loop(holder, UInt(1, 3), exchange, mode)
    assert list(holder.a.v) == [2, 16]
    assert list(holder.b.v) == [1, 8]


@every_mode
def test_numbers_of_other_modules_are_state(mode: str) -> None:
    def bump(h: Any) -> None:
        counting.count += 1

    @lj.syntax
    def inline(x: Any) -> None:
        if lj.hint(x > 1, mode=mode):
            counting.flag = 7

    counting.count, counting.flag = 0, 0
    _loop(None, UInt(1, 3), bump, mode)
    assert list(counting.count) == [1, 3]
    inline(UInt(1, 3))
    assert list(counting.flag) == [0, 7]


GLOBAL = np.zeros(2)


@every_mode
def test_global_numpy_arrays(mode: str) -> None:
    @lj.syntax
    def program(x: Any) -> None:
        if lj.hint(x > 1, mode=mode):
            GLOBAL[0] += 1

    with pytest.raises(StateError, match=r"changes 'GLOBAL' in place"):
        program(Float(0, 0))
    assert list(GLOBAL) == [0, 0]


@every_mode
@every_program
@pytest.mark.parametrize("show", [lambda c: c, memoryview], ids=["itself", "view"])
def test_arrays_of_c_as_variables(
    program: Any, show: Callable[[Any], Any], mode: str
) -> None:
    def change(h: Any) -> None:
        memoryview(h).cast("B")[0] += 1

    data = (ctypes.c_int * 2)(5)
    with pytest.raises(StateError, match=r"changes 'h' in place"):
        program(show(data), UInt(1, 3), change, mode)
    assert list(data) == [5, 0]


@every_mode
def test_views_of_kernels_memory_may_change(mode: str) -> None:
    class Field:
        def __init__(self) -> None:
            self.values = Float(1, 2, 3)
            self.shown = self.values.numpy()

        def put(self, i: Any) -> None:
            lj.scatter_add(self.values, Float(1), i)

    @lj.syntax
    def program(field: Any, n: Any) -> None:
        i = UInt(0)
        while lj.hint(i < n, mode=mode):
            field.put(i)
            i += 1

    field = Field()
    program(field, UInt(1, 3))
    assert list(field.values) == [3, 3, 4]


@every_mode
@every_program
def test_memory_that_is_not_compared(program: Any, mode: str) -> None:
    """What shows an array's memory, or is no view of numbers any more."""
    x = Float(1, 2, 3)
    shown: Any = x.numpy()
    floats, names = ctypes.c_float * 3, ctypes.py_object * 2
    holder: Any = Node(memoryview(shown), floats.from_buffer(shown))
    holder.gone = memoryview(bytearray(2))
    holder.names = names(ctypes.py_object("a"), ctypes.py_object("b"))

    def change(h: Any) -> None:
        h.value[0] = 9
        h.next[1] = 8
        h.gone.release()
        h.names[0] = "c"

    program(holder, UInt(1, 3), change, mode)
    assert x.numpy().tolist() == [9, 8, 3]
