"""What instances own: data of calls, its lifetime, and writes to it."""

from __future__ import annotations

import gc
import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.compiler.launch import delivery
from lumijit.llvm import Bool, Float, Float64, Int, UInt
from lumijit.llvm.ad import Float as TrackedFloat
from lumijit.runtime.errors import SizeError

MODES = ("symbolic", "evaluated")
Flag = lj.JitFlag
INDEX = [0, 1, 2, 3, 4, 0, 1]


@pytest.fixture(autouse=True)
def _scope_is_restored() -> Iterator[None]:
    yield
    assert trace.state.scope is ROOT
    assert trace.state.mask is None
    assert trace.state.watched is None
    assert trace.state.guard is None


class Thing:
    """An object with data of each kind."""

    def __init__(self, k: int, size: int = 50) -> None:
        self.k = k
        self.table = Float(np.arange(size) + 100 * k)
        self.value = lj.opaque(Float, 1.5 * k)
        self.place = lj.opaque(UInt, k)


def instances(
    make: Callable[..., Any], count: int, index: Any = INDEX
) -> tuple[list[Any], Any]:
    """Return objects and an array of them, whose type nobody else uses."""
    base = type("Base", (), {})
    objects = [make(k) for k in range(count)]
    cls = type("Own", (type(objects[0]), base), {})
    for found in objects:
        found.__class__ = cls
    pointers = lj.instance_array_t(Float, base)(objects)
    return objects, lj.gather(type(pointers), pointers, UInt(index))


def entries(array: Any) -> list[Any]:
    return list(array.numpy().tolist())


@pytest.mark.parametrize("mode", MODES)
def test_uniform_access_to_larger_arrays(mode: str) -> None:
    """How many entries an array has says nothing of how many elements read it."""
    _keep, things = instances(Thing, 5)
    table = Float(np.arange(64))
    found = lj.dispatch(things, lambda s: lj.gather(Float, table, s.place), mode=mode)
    assert entries(found) == INDEX
    found = lj.dispatch(things, lambda s: lj.gather(Float, s.table, UInt(3)), mode=mode)
    assert entries(found) == [100 * k + 3 for k in INDEX]


def test_uniform_writes_to_larger_arrays() -> None:
    _keep, things = instances(Thing, 5)
    total, counts = lj.zeros(Float, 100), lj.zeros(UInt, 100)
    lj.eval(total, counts)

    def write(s: Thing) -> Any:
        lj.scatter_add(total, s.value, UInt(3))
        return lj.scatter_inc(counts, s.place)

    assert sorted(entries(lj.dispatch(things, write))) == [0, 0, 0, 0, 0, 1, 1]
    assert entries(total)[:5] == [0, 0, 0, 16.5, 0]
    assert entries(counts)[:6] == [2, 2, 1, 1, 1, 0]


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_loops_over_data(mode: str, is_own: bool) -> None:
    """The loop is uniform until its bodies are merged."""
    _keep, things = instances(Thing, 5)
    shared = Float(np.arange(64))

    def total(s: Thing) -> Any:
        table = s.table if is_own else shared

        def body(i: Any, t: Any) -> Any:
            return i + 1, t + lj.gather(Float, table, i)

        return lj.while_loop((UInt(0), Float(0)), lambda i, _: i < s.place, body)[1]

    expected = [sum(range(k)) + 100 * k * k * is_own for k in INDEX]
    with lj.scoped_set_flag(Flag.SymbolicLoops, mode == "symbolic"):
        assert entries(lj.dispatch(things, total, mode=mode)) == expected


def test_one_array_as_value_and_as_table() -> None:
    """Under flag Debug, arrays of one entry are indexed like any other."""
    _keep, things = instances(Thing, 5)

    def total(s: Thing) -> Any:
        def body(i: Any, t: Any) -> Any:
            return i + 1, t + lj.gather(Float, s.value, UInt(0)) + s.value

        return lj.while_loop((UInt(0), Float(0)), lambda i, _: i < 3, body)[1]

    with lj.scoped_set_flag(Flag.Debug):
        found = lj.dispatch(things, total)
        assert entries(found) == [9.0 * k for k in INDEX]


def test_two_pieces_of_data_that_one_instance_has_equal() -> None:
    class Range:
        def __init__(self, k: int) -> None:
            self.start, self.step = (3, 3) if k == 0 else (k, k + 2)

    _keep, ranges = instances(Range, 5)

    def total(s: Range) -> Any:
        def body(i: Any, a: Any, b: Any) -> Any:
            return i + 1, a + s.step, b * 2 + s.start

        state = (UInt(0), Int(s.start), Int(s.step))
        _, a, b = lj.while_loop(state, lambda i, *_: i < 3, body)
        return a, b

    def plain(k: int) -> tuple[int, int]:
        a, b = start, step = (3, 3) if k == 0 else (k, k + 2)
        for _ in range(3):
            a, b = a + step, b * 2 + start
        return a, b

    a, b = lj.dispatch(ranges, total)
    assert list(zip(entries(a), entries(b), strict=True)) == [plain(k) for k in INDEX]


@pytest.mark.parametrize("mode", MODES)
def test_effects_of_one_callable_stay_with_it(mode: str) -> None:
    """The first callable writes nothing."""
    total = lj.zeros(Int, 3)

    def write(x: Any) -> Any:
        lj.scatter_add(total, x, UInt(1))
        return x

    targets = [lambda x: x * 2, write, lambda x: -x, lambda x: x + 1, write]
    found = lj.switch(UInt(0, 1, 2, 3, 4), targets, Int(1, 2, 3, 4, 5), mode=mode)
    assert entries(found) == [2, 2, -3, 5, 5]
    assert entries(total) == [0, 7, 0]


@pytest.mark.parametrize("mode", MODES)
def test_nested_calls_with_data(mode: str) -> None:
    _keep, things = instances(Thing, 5)
    others = lj.gather(type(things), things, UInt([6, 5, 4, 3, 2, 1, 0]))

    def outer(s: Thing, others: Any) -> Any:
        def inner(o: Thing) -> Any:
            read = (
                lj.gather(Float, s.table, o.place),
                lj.gather(Float, o.table, s.place),
            )
            return o.value * 10 + s.value + read[0] + read[1]

        return lj.dispatch(others, inner, mode=mode)

    expected = [
        16.5 * 0 + 15 * j + 1.5 * k + (100 * k + j) + (100 * j + k)
        for k, j in zip(INDEX, INDEX[::-1], strict=True)
    ]
    if mode == "symbolic":
        assert entries(lj.dispatch(things, outer, others)) == expected
        again = lj.dispatch(
            things, lambda s: outer(s, lj.gather(type(things), things, UInt(s.k)))
        )
        same = [15 * k + 1.5 * k + 2 * (100 * k + k) for k in INDEX]
        assert entries(again) == same
    else:
        assert entries(lj.dispatch(things, outer, others, mode=mode)) == expected


def test_recursion_with_a_bound() -> None:
    _keep, things = instances(Thing, 5)

    def walk(s: Thing, x: Any, depth: int) -> Any:
        if depth == 0:
            return s.value + x
        following = lj.gather(type(things), things, (s.place + UInt(x)) % 7)
        return lj.dispatch(following, walk, x, depth - 1) * 2 + s.value

    def plain(k: int, x: int, depth: int) -> float:
        if depth == 0:
            return 1.5 * k + x
        return plain(INDEX[(k + x) % 7], x, depth - 1) * 2 + 1.5 * k

    x = [1, 2, 3, 4, 5, 6, 7]
    for depth in (1, 2):
        expected = [plain(k, v, depth) for k, v in zip(INDEX, x, strict=True)]
        assert entries(lj.dispatch(things, walk, Float(x), depth)) == expected


def test_data_that_was_not_computed_yet() -> None:
    class Lazy:
        def __init__(self, k: int) -> None:
            self.table = lj.arange(Float, 10) + lj.opaque(Float, k)
            self.value = lj.opaque(Float, k) * 2 + 1
            self.written, self.one = lj.zeros(Float, 10), lj.opaque(Float, 0)
            lj.scatter(self.written, Float(k), UInt(2))
            lj.scatter_add(self.one, Float(k), UInt(0))

    def read(s: Lazy) -> Any:
        first = lj.gather(Float, s.table, UInt(1)) + 10 * s.value
        return first + 100 * lj.gather(Float, s.written, UInt(2)) + 1000 * s.one

    for mode in MODES:
        _keep, lazy = instances(Lazy, 5)
        found = entries(lj.dispatch(lazy, read, mode=mode))
        assert found == [1 + k + 10 * (2 * k + 1) + 1100 * k for k in INDEX]


def test_data_written_after_the_call() -> None:
    things, array = instances(Thing, 5)
    read = [lambda s: lj.gather(Float, s.table, UInt(1)) + s.value]
    before = lj.dispatch(array, read[0])
    for thing in things:
        lj.scatter(thing.table, Float(-1), UInt(1))
        lj.scatter(thing.value, Float(-2), UInt(0))
    lj.eval([(thing.table, thing.value) for thing in things])
    assert entries(before) == [1 + 101.5 * k for k in INDEX]
    assert entries(lj.dispatch(array, read[0])) == [-3] * 7


@pytest.mark.parametrize("is_tracked", [False, True])
@pytest.mark.parametrize("is_launched", [False, True])
def test_data_freed_after_the_call(is_launched: bool, is_tracked: bool) -> None:
    """Whatever is tracked elsewhere, which has NumPy's memory copied."""
    n, size = 100_000, 5000
    tracked = TrackedFloat(1)
    lj.set_grad_enabled(tracked, is_tracked)
    i = np.arange(n) % 6
    for repetition in range(3):
        things, array = instances(lambda k, r=repetition: Thing(k + r, size), 6, i)
        j = lj.arange(UInt, n) % size
        found = lj.dispatch(
            array, lambda s, j: lj.gather(Float, s.table, j) + s.value, j
        )
        if is_launched:
            lj.eval(found)
        del things, array
        gc.collect()
        lj.eval([lj.arange(Float, size) * 0 - 7 for _ in range(20)])
        expected = np.arange(n) % size + 101.5 * (i + repetition)
        np.testing.assert_array_equal(found.numpy(), expected.astype(np.float32))


def test_instances_that_write_to_themselves() -> None:
    class Counter:
        def __init__(self, k: int) -> None:
            self.count = lj.zeros(UInt, 1)

    for mode in MODES:
        counters, array = instances(Counter, 5)
        found = lj.dispatch(
            array, lambda s: lj.scatter_inc(s.count, UInt(0)), mode=mode
        )
        assert entries(found) == [0, 0, 0, 0, 0, 1, 1]
        assert [entries(c.count) for c in counters] == [[2], [2], [1], [1], [1]]


@pytest.mark.parametrize("mode", MODES)
def test_exceptions_undo_all(mode: str) -> None:
    things, array = instances(Thing, 5)
    total, x = lj.zeros(Float, 3), Float(1, 2, 3, 4, 5, 6, 7)
    lj.eval(total)

    def fail(s: Thing, x: Any) -> Any:
        lj.scatter_add(total, x, UInt(0))
        x += 1
        lj.scatter_add(s.table, x, UInt(0))
        if s.k == 2:
            raise KeyError("half-way")
        return x

    with pytest.raises(KeyError, match="half-way"):
        lj.dispatch(array, fail, x, mode=mode)
    assert entries(total) == [0, 0, 0]
    assert entries(x) == [1, 2, 3, 4, 5, 6, 7]
    assert [s.table[0] for s in things] == [0, 100, 200, 300, 400]


def test_endless_recursion_leaves_no_scope_open() -> None:
    class Mirror:
        def __init__(self, k: int) -> None: ...

        def look(self, x: Any) -> Any:
            return lj.dispatch(array, type(self).look, x)

    _keep, array = instances(Mirror, 1, [0, 0])
    with pytest.raises(RecursionError):
        lj.dispatch(array, Mirror.look, Float(1, 2))


KEPT: list[Any] = []


def test_results_kept_between_callables() -> None:
    """Callables share a scope, so one may use what another has computed.

    Nothing that is found may keep it; names that are computed aren't.
    """
    _keep, things = instances(Thing, 5)
    KEPT.clear()

    def both(s: Thing, x: Any) -> Any:
        kept = globals()["".join(("KE", "PT"))]
        if not kept:
            state = (UInt(0), x)
            kept.append(
                lj.while_loop(state, lambda i, _: i < 3, lambda i, x: (i + 1, x + 1))
            )
        return kept[0][1], s.value if s.k % 2 else s.value * x + 1

    x = [1, 2, 3, 4, 5, 6, 7]
    first, second = lj.dispatch(things, both, Float(x))
    assert entries(first) == [v + 3 for v in x]
    rows = zip(INDEX, x, strict=True)
    assert entries(second) == [1.5 * k if k % 2 else 1.5 * k * v + 1 for k, v in rows]


def test_threads() -> None:
    failed = []

    def work(t: int) -> None:
        for repetition in range(5):
            i = (np.arange(500) + repetition) % 4
            _keep, array = instances(lambda k: Thing(k + t), 4, i)
            found = lj.dispatch(
                array,
                lambda s, j: lj.gather(Float, s.table, j) + s.value,
                lj.arange(UInt, 500) % 50,
            )
            expected = np.arange(500) % 50 + 101.5 * (i + t)
            if not np.array_equal(found.numpy(), expected):
                failed.append((t, repetition))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_arrays_of_objects() -> None:
    things, array = instances(Thing, 2, [0, 1])
    found = type(array)(np.array([things[1], None, things[0]], dtype=object))
    assert list(found) == [things[1], None, things[0]]


@pytest.mark.parametrize("mode", MODES)
def test_prints_of_callables(mode: str) -> None:
    file = io.StringIO()
    _keep, things = instances(Thing, 3, [0, 1, 2, 0])

    def show(s: Thing, x: Any) -> Any:
        lj.print("{k}: {} {}", x, s.value, k=s.k, file=file)
        return x * s.value

    found = lj.dispatch(things, show, Float(1, 2, 3, 4), mode=mode)
    assert entries(found) == [0, 3, 9, 0]
    lines = [line.split(":")[0] for line in file.getvalue().splitlines()]
    assert lines == ["0", "1", "2"]
    assert file.getvalue().startswith("0: [1, 4] [0")
    assert "\n2: [3] [3]\n" in file.getvalue()


def test_print_before_a_call_with_data_in_a_loop() -> None:
    """The data is computed while the loop is being traced."""
    file = io.StringIO()
    _keep, things = instances(Thing, 3, [0, 1, 2])

    @lj.syntax
    def run(i: Any) -> Any:
        total = Float(0)
        while i < 2:
            lj.print("{}", i, file=file)
            total += lj.dispatch(things, lambda s: s.value)
            i += 1
        return total

    assert entries(run(UInt(0, 1, 2))) == [0, 1.5, 0]
    assert file.getvalue() == "[0, 1, 1]\n"


@pytest.mark.parametrize("mode", MODES)
def test_assertions_in_callables(mode: str, capsys: Any) -> None:
    _keep, things = instances(Thing, 3, [0, 1, 2, 0])

    def check(s: Thing, x: Any) -> Any:
        lj.assert_true(x < 3, "object {k} got {}", x, k=s.k)
        return x

    def run() -> None:
        lj.eval(lj.dispatch(things, check, Float(1, 2, 3, 4), mode=mode))

    with lj.scoped_set_flag(Flag.Debug):
        if mode == "symbolic":
            run()
            text = capsys.readouterr().err
            assert "failure: object 0 got [4]" in text
            assert "failure: object 2 got [3]" in text
            assert "object 1" not in text
        else:
            with pytest.raises(AssertionError, match=r"object 0 got \[4\]"):
                run()


@pytest.mark.parametrize("mode", MODES)
def test_bounds_under_debug(mode: str) -> None:
    _keep, things = instances(Thing, 5)
    j = UInt(1, 2, 3, 4, 5, 999, 7)
    with (
        lj.scoped_set_flag(Flag.Debug),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        found = lj.dispatch(
            things, lambda s, j: lj.gather(Float, s.table, j) + s.value, j, mode=mode
        )
        assert entries(found) == [1, 103.5, 206, 308.5, 411, 0, 108.5]
        found = lj.switch(
            UInt(0, 1, 7), [lambda x: x, lambda x: x + 1], Float(1, 2, 3), mode=mode
        )
        assert entries(found) == [1, 3, 0]
    assert not delivery.waiting().reports
    first, second = (str(w.message) for w in caught)
    here = re.escape(__file__)
    problem = r"gather\(\): out-of-bounds read from position 999 in an array of size 50"
    assert re.match(rf"{here}:\d+ in <lambda>: lumijit\.{problem}", first)
    problem = r"switch\(\): Attempted to invoke callable with index 7, .*smaller than 2"
    assert re.match(rf"{here}:\d+ in test_bounds\w+: lumijit\.{problem}", second)


TYPES = [
    *("Bool", "Int8", "UInt8", "Int16", "UInt16", "Int", "UInt", "Int64", "UInt64"),
    *("Float16", "Float", "Float64"),
]


@pytest.mark.parametrize("kind", ["literal", "evaluated", "table"])
@pytest.mark.parametrize("name", TYPES)
def test_data_of_every_type(name: str, kind: str) -> None:
    cls = getattr(lj.llvm, name)
    values: list[Any]
    if name == "Bool":
        values = [True, False, True, True, False]
    elif "Int" in name:
        info = np.iinfo(cls(0).numpy().dtype)
        values = [info.min, info.max, 3, info.max // 3, 5]
    else:
        values = [0.5, -1.25, float("inf"), -0.0, 65504.0]

    class Owner:
        def __init__(self, k: int) -> None:
            item = values[k].item() if hasattr(values[k], "item") else values[k]
            if kind == "literal":
                self.value = cls(item)
            elif kind == "evaluated":
                self.value = lj.opaque(cls, item)
            else:
                self.value = cls([values[k - 1], item])

    _keep, owners = instances(Owner, 5)

    def get(s: Owner, x: Any, active: Any) -> Any:
        value = s.value
        if kind == "table":
            value = lj.gather(cls, value, UInt(1))
        return value, lj.select(x > 3, value, cls(0)), Float64(x)

    mask = [True, True, True, True, True, False, True]
    arguments = (Float(1, 2, 3, 4, 5, 6, 7), Bool(mask))
    results = [lj.dispatch(owners, get, *arguments, mode=mode) for mode in MODES]
    expected = np.array(values, cls(0).numpy().dtype)[INDEX]
    expected[5] = 0
    for first, second, third in results:
        assert type(first) is type(second) is cls
        np.testing.assert_array_equal(first.numpy(), expected)
        late = np.where(np.arange(7) > 2, expected, np.zeros_like(expected))
        np.testing.assert_array_equal(second.numpy(), late)
        assert entries(third) == [1, 2, 3, 4, 5, 0, 7]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_wide_arrays_that_callables_find_outside(mode: str) -> None:
    """Each element takes its entry, as of an argument; other sizes are refused."""
    found = Float(10, 20, 30, 40)
    index, x = UInt(0, 1, 0, 1), Float(1, 2, 3, 4)
    result = lj.switch(index, [lambda x: x + found, lambda x: x], x, mode=mode)
    assert list(result) == [11, 2, 33, 4]
    found = Float(10, 20)
    with pytest.raises(SizeError, match="incompatible sizes"):
        lj.switch(index, [lambda x: x + found, lambda x: x], x, mode=mode)


@pytest.mark.parametrize("index", [UInt(0, 0), UInt(1, 0), UInt(1, 1), UInt(5, 5)])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_numbers_become_what_other_callables_return(mode: str, index: Any) -> None:
    """Whoever is called: types don't depend on data."""
    x = Float64(1.5, 2)
    found = lj.switch(index, [lambda _: 0.1, lambda x: x], x, mode=mode)
    assert type(found) is Float64
    expected = [[0.1, x[k], 0][min(i, 2)] for k, i in enumerate(index)]
    assert list(found) == expected
