"""Arrays that callables and bodies leave in objects: refused, and put back."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.control.watching import watch
from lumijit.llvm import Array2f, Float, UInt, UInt32
from lumijit.runtime.errors import StateError

from ..programs.modes import MODES, flags_of

THIS = re.escape(__file__)
BOTH = ["symbolic", "evaluated"]
TOTAL = Float(0)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    yield
    assert trace.state.scope is ROOT
    assert trace.state.watched is None
    assert not trace.state.held


@dataclass
class Hit:
    t: Any
    p: Any


class Base:
    def f(self, x: Any) -> Any:
        raise NotImplementedError


class Lamp(Base):
    shared = Float(1, 2)
    made: Any = None

    def __init__(self, k: float) -> None:
        self.k = Float(k)
        self.last: Any = None
        self.calls = 0
        self.items = [Float(k)]
        self.memo: dict[Any, Any] = {}
        self.hit = Hit(Float(k), Array2f(k))
        self.table = Float([1, 2, 3])
        self.random = lj.llvm.PCG32(4)
        self.action: Callable[[Any, Any], Any] = lambda self, x: x

    def f(self, x: Any) -> Any:
        self.calls += 1
        self.action(self, x)
        return x * self.k


class Slotted:
    __slots__ = ("__weakref__", "last")

    def __init__(self) -> None:
        self.last = Float(3)

    def f(self, x: Any) -> Any:
        self.last = x + 1
        return x


Lamps = lj.instance_array_t(Float, Base)


def _set(lamp: Any, x: Any) -> None:
    lamp.last = x * 2


def _set_to_argument(lamp: Any, x: Any) -> None:
    lamp.last = x


def _add_in_place(lamp: Any, x: Any) -> None:
    lamp.k += x


def _append(lamp: Any, x: Any) -> None:
    lamp.items.append(x + 1)


def _insert(lamp: Any, x: Any) -> None:
    lamp.items.insert(0, x + 1)


def _replace_item(lamp: Any, x: Any) -> None:
    lamp.items[0] = x


def _remember(lamp: Any, x: Any) -> None:
    lamp.memo["x"] = x


def _change_field(lamp: Any, x: Any) -> None:
    lamp.hit.p.x = x


def _new_struct(lamp: Any, x: Any) -> None:
    lamp.hit = Hit(x, Array2f(x))


def _hide_in_object(lamp: Any, x: Any) -> None:
    lamp.last = Lamp(1)
    lamp.last.k = x


def _delete(lamp: Any, x: Any) -> None:
    del lamp.hit


def _set_class(lamp: Any, x: Any) -> None:
    Lamp.shared = x


def _draw(lamp: Any, x: Any) -> None:
    lamp.random.next_float32()


def _set_attribute(lamp: Any, x: Any) -> None:
    setattr(lamp, "last", x)  # noqa: B010


def _private(lamp: Any, x: Any) -> None:
    lamp.__dict__["last"] = x


LEAKS: dict[Callable[[Any, Any], None], str] = {
    _set: "self.last",
    _set_to_argument: "self.last",
    _add_in_place: "self.k",
    _append: "self.items[1]",
    _insert: "self.items[0]",
    _replace_item: "self.items[0]",
    _remember: "self.memo['x']",
    _change_field: "self.hit.p[0]",
    _new_struct: "self.hit",
    _hide_in_object: "self.last",
    _delete: "self.hit",
    _set_class: "Lamp.shared",
    _draw: "self.random.",
    _set_attribute: "self.last",
    _private: "self.last",
}


def _state_of(lamp: Lamp) -> list[Any]:
    random = lamp.random
    return [
        lamp.k.numpy().tolist(),
        lamp.last,
        [list(item) for item in lamp.items],
        list(lamp.memo),
        list(lamp.hit.t),
        lamp.hit.p.numpy().tolist(),
        list(Lamp.shared),
        list(lj.llvm.PCG32(random).next_uint32()),
    ]


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("leak", LEAKS, ids=lambda f: f.__name__)
def test_methods(mode: str, leak: Callable[[Any, Any], None]) -> None:
    lamps = [Lamp(1), Lamp(2)]
    before = [_state_of(lamp) for lamp in lamps]
    lamps[1].action = leak
    array = Lamps([lamps[0], lamps[1], None, lamps[1]])
    line = inspect.getsourcelines(leak)[1] + 1
    path = re.escape(LEAKS[leak])
    match = (
        rf"^{THIS}:\d+ in \w+: Base\.f: (Lamp\.f|a callable) changes '{path}.*"
        r"it was put back\. Fix: return the value instead, or lumijit\.scatter it"
        rf".* \(Construct: {THIS}:\d+ in test_methods\.\)$"
    )
    with flags_of(mode), pytest.raises(StateError, match=match) as caught:
        array.f(Float(1, 2, 3, 4))
    found = re.match(rf"{THIS}:(\d+)", str(caught.value))
    assert found is not None
    if leak not in (_draw, _hide_in_object):
        assert int(found[1]) in (line, line - 1), caught.value
    assert [_state_of(lamp) for lamp in lamps] == before
    lamps[1].action = lambda self, x: None
    with flags_of(mode):
        assert list(array.f(Float(1, 2, 3, 4))) == [1, 4, 0, 8]


@pytest.mark.parametrize("mode", BOTH)
def test_messages_tell_the_types(mode: str) -> None:
    lamp = Lamp(1)
    lamp.action = _set
    text = r"'self\.last' of a 'Lamp' object \(it held None, and would hold llvm\.Float"
    with flags_of(mode), pytest.raises(StateError, match=text):
        Lamps([lamp, lamp]).f(Float(1, 2))


@pytest.mark.parametrize("mode", BOTH)
def test_slots(mode: str) -> None:
    thing = Slotted()
    things = lj.instance_array_t(Float, Slotted)([thing, thing])
    with flags_of(mode), pytest.raises(StateError, match=r"Slotted\.f .*'self\.last'"):
        things.f(Float(1, 2))
    assert list(thing.last) == [3]


@pytest.mark.parametrize("mode", BOTH)
def test_what_may_change(mode: str) -> None:
    lamp, other = Lamp(2), Lamp(3)
    seen: list[Any] = []

    def harmless(self: Any, x: Any) -> None:
        self.k = self.k
        self.k = Float(self.k)
        self.memo["count"] = self.memo.get("count", 0) + 1
        self.last = "text"
        self.owner = other
        seen.append(self)
        self.table = self.table
        lj.scatter_add(self.table, 1, UInt32(0))

    lamp.action = harmless
    with flags_of(mode):
        assert list(Lamps([lamp, lamp, None]).f(Float(1, 2, 3))) == [2, 4, 0]
    assert (lamp.calls, lamp.memo["count"], lamp.last) == (1, 1, "text")
    assert seen == [lamp]
    assert list(lamp.table) == [3, 2, 3]


def test_scalar_mode_is_plain_python() -> None:
    Scalar = lj.instance_array_t(float, Base)
    lamp = Lamp(1)
    lamp.action = _set
    Scalar(lamp).f(3.0)
    assert lamp.last == 6
    lj.switch(0, [partial(_set, lamp)], 4.0)
    assert lamp.last == 8


@pytest.mark.parametrize("mode", BOTH)
def test_callables_of_a_switch(mode: str) -> None:
    kept: list[Any] = []
    held = {"a": Float(1)}
    lamp = Lamp(1)
    count = Float(0)

    def appends(x: Any) -> Any:
        kept.append(x)
        return x

    def counts(x: Any) -> Any:
        nonlocal count
        count = count + x
        return x

    def stores(x: Any) -> Any:
        held["a"] = x
        return x

    def totals(x: Any) -> Any:
        global TOTAL
        TOTAL = TOTAL + x
        return x

    def indirect(x: Any) -> Any:
        return counts(x)

    cases: list[tuple[Callable[..., Any], str]] = [
        (appends, r"kept\[0\]"),
        (counts, "count"),
        (stores, r"held\['a'\]"),
        (totals, "TOTAL"),
        (indirect, "count"),
        (partial(_set, lamp), r"args\[0\]\.last"),
        (lamp.f, r"self\.last"),
    ]
    lamp.action = _set
    for function, path in cases:
        match = rf"{THIS}:\d+ in .*: switch: callable 1 \(.*\) changes '{path}'"
        with flags_of(mode), pytest.raises(StateError, match=match):
            lj.switch(UInt(0, 1, 1), [lambda x: x, function], Float(1, 2, 3))
    assert not kept
    assert [list(v) for v in (count, held["a"], TOTAL)] == [[0], [1], [0]]
    assert lamp.last is None


@pytest.mark.parametrize("mode", BOTH)
def test_one_callable_changes_the_object_of_another(mode: str) -> None:
    first, second = Lamp(1), Lamp(2)
    second.action = lambda self, x: setattr(first, "last", x)
    match = r"Base\.f: (a callable|Lamp\.f) changes '.*last'"
    with flags_of(mode), pytest.raises(StateError, match=match):
        Lamps([first, second]).f(Float(1, 2))
    assert first.last is None


@pytest.mark.parametrize("mode", BOTH)
def test_errors_of_callables_come_through(mode: str) -> None:
    lamp = Lamp(1)

    def fail(self: Any, x: Any) -> None:
        self.last = x
        raise KeyError("mine")

    lamp.action = fail
    with flags_of(mode), pytest.raises(KeyError, match="mine"):
        Lamps([lamp, lamp]).f(Float(1, 2))
    assert lamp.last is None


class Walker:
    def __init__(self) -> None:
        self.count = UInt(0)
        self.steps = 0
        self.seen: list[Any] = []

    def bump(self, i: Any) -> None:
        self.steps += 1
        self.count = self.count + i

    @lj.syntax
    def own(self, n: Any) -> Any:
        i = UInt(0)
        while i < n:
            self.count = self.count + i
            i += 1
        return i

    @lj.syntax
    def in_helper(self, n: Any) -> Any:
        i = UInt(0)
        while i < n:
            self.bump(i)
            i += 1
        return i

    @lj.syntax
    def in_branch(self, n: Any) -> Any:
        if n > 1:
            self.bump(n)
        return n

    @lj.syntax
    def in_condition(self, n: Any) -> Any:
        return self.keep(n) if n > 1 else n

    @lj.syntax
    def in_list(self, n: Any) -> Any:
        i = UInt(0)
        while i < n:
            self.seen.append(i)
            i += 1
        return i

    def keep(self, n: Any) -> Any:
        self.count = n
        return n


@pytest.mark.parametrize("mode", MODES)
def test_attributes_assigned_in_the_function_itself_are_state(mode: str) -> None:
    walker = Walker()
    with flags_of(mode):
        assert list(walker.own(UInt(0, 1, 2, 4))) == [0, 1, 2, 4]
        assert list(walker.count) == [0, 0, 1, 6]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("in_helper", [0, 0, 1, 6]),
        ("in_branch", [0, 0, 2, 4]),
        ("in_condition", [0, 0, 2, 4]),
    ],
)
def test_attributes_assigned_elsewhere_become_state(
    mode: str, name: str, counts: list[int]
) -> None:
    walker = Walker()
    with flags_of(mode):
        assert list(getattr(walker, name)(UInt(0, 1, 2, 4))) == [0, 1, 2, 4]
        assert list(walker.count) == counts


@pytest.mark.parametrize("mode", MODES)
def test_lists_that_grow(mode: str) -> None:
    walker = Walker()
    lines, first = inspect.getsourcelines(Walker)
    (line,) = (first + k for k, text in enumerate(lines) if "seen.append" in text)
    match = (
        rf"^{THIS}:{line} in \w+: @syntax: the body of 'while' \(line \d+\) changes "
        r"'self\.seen\[0\]' of a 'Walker' object .*this isn't state of the construct.*"
        r"it was put back\. Fix: assign it in"
    )
    with flags_of(mode), pytest.raises(StateError, match=match):
        walker.in_list(UInt(0, 1, 2, 4))
    assert walker.seen == []


@pytest.mark.parametrize("mode", BOTH)
def test_functions_given_to_the_primitives(mode: str) -> None:
    lamp = Lamp(1)
    kept: list[Any] = []
    x = Float(1, 2, 3)

    def body(i: Any) -> Any:
        lamp.last = i
        return (i + 1,)

    def branch(x: Any) -> Any:
        kept.append(x)
        return x

    with pytest.raises(StateError, match=r"loop: the body changes 'lamp\.last'"):
        lj.while_loop((x,), lambda i: i < 4, body, label="loop", mode=mode)
    with pytest.raises(StateError, match=r"if_stmt: the false branch changes 'kept\["):
        lj.if_stmt((x,), x > 1, lambda x: x, branch, mode=mode)
    with pytest.raises(StateError, match=r"the condition changes 'kept\[0\]'"):
        lj.while_loop((x,), lambda i: branch(i) < 4, lambda i: (i + 1,), mode=mode)
    assert lamp.last is None
    assert not kept


@pytest.mark.parametrize("mode", BOTH)
def test_opaque_objects_in_the_state(mode: str) -> None:
    lamp = Lamp(1)

    def body(i: Any, lamps: Any) -> Any:
        lamps[0].last = i
        return i + 1, lamps

    match = r"the body changes 'lamps\[0\]\.last' \(it held None"
    with pytest.raises(StateError, match=match):
        lj.while_loop(
            (UInt(0, 1), [lamp]),
            lambda i, _: i < 4,
            body,
            labels=("i", "lamps"),
            mode=mode,
        )
    assert lamp.last is None


def test_plain_loops_are_plain_python() -> None:
    lamp = Lamp(1)

    def body(i: int) -> tuple[int]:
        lamp.last = Float(i)
        return (i + 1,)

    assert lj.while_loop((0,), lambda i: i < 4, body) == (4,)
    assert list(lamp.last) == [3]


@pytest.mark.parametrize("is_held", [False, True])
def test_what_is_remembered_does_not_count_as_shared(is_held: bool) -> None:
    bins = lj.arange(Float, 61) + 0.25
    lj.eval(bins)
    nodes = [bins._node]
    if is_held:
        trace.state.held = (nodes,)
    lj.scatter_add(bins, 1, UInt(3))
    if is_held:
        trace.state.held = ()
    effect = bins._node.deps[0]
    assert any(node.op is COPY for node in effect.deps) is not is_held
    assert list(bins)[:5] == [0.25, 1.25, 2.25, 4.25, 4.25]
    assert nodes


HELD = Float(1)


def _added(values: Any) -> Any:
    values += 1
    return values


def _through(values: Any) -> Any:
    return _added(values)


def _given() -> Any:
    return HELD


def _of_global(x: Any) -> Any:
    return x + _through(HELD)


def _of_result(x: Any) -> Any:
    found = _given()
    found += 1
    return x + found


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("function", [_of_global, _of_result])
def test_helpers_that_change_what_they_are_given(function: Any, mode: str) -> None:
    """Functions that change nothing themselves may pass arrays to others that do."""
    held = Float(1)

    def of_closure(x: Any) -> Any:
        return x + _through(held)

    index, x = UInt(0, 1, 0), Float(1, 2, 3)
    for one in (function, of_closure):
        with flags_of(mode), pytest.raises(StateError, match=r"changes .(HELD|held)."):
            lj.switch(index, [lambda x: x * 2, one], x)
        assert list(held) == list(HELD) == [1]


def test_helpers_that_change_their_own_are_left_alone() -> None:
    def total(x: Any) -> Any:
        found = x * HELD
        return _through(found)

    assert list(lj.switch(UInt(0, 1), [total, lambda x: x], Float(1, 2))) == [2, 2]


@dataclass
class Leading:
    t: Any

    def leads_on(self) -> Any:
        return _through(self.t)


def test_local_buffers_and_what_leads_nowhere_are_not_watched() -> None:
    buffer = lj.alloc_local(Float, 2)

    def fill(x: Any) -> Any:
        buffer[UInt(0)] = Float(x)
        return x

    assert watch((fill,), (Float(1), buffer), ("x", "buffer")) is None
    assert watch((fill,), ([Hit(Float(1), 2), {"a": buffer}],), ("hits",)) is None
    assert watch((fill,), (Leading(Float(1)),), ("hit",)) is not None
    assert watch((fill,), ({"a": [Leading(Float(1))]},), ("hits",)) is not None
