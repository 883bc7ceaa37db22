"""`run_lane`: one lane as plain Python agrees with the vectorized program."""

from __future__ import annotations

import bdb
import io
import pdb
import re
import signal
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as lj
from lumijit import pytree
from lumijit.llvm import PCG32, Array3f, Bool, Float, Float64, Int, UInt
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    SizeError,
    SymbolicError,
)

from ..control.test_random_programs import make
from ..programs import functions, names, plain, recursion, statements, structures
from ..programs.modes import PROGRAMS, Program, lane_of

MODULES = (functions, names, plain, recursion, statements, structures)


def run_lanes(program: Program) -> None:
    """Compare every lane by itself with the vectorized program, bit by bit."""
    expected, _ = program.run_vector(lj.llvm)
    arguments = {
        name: getattr(lj.llvm, kind)(values)
        for name, (kind, values) in program.columns.items()
    }
    shared = {
        name: getattr(lj.llvm, kind)(values)
        for name, (kind, values) in program.shared.items()
    }
    before = {name: array.numpy().copy() for name, array in shared.items()}
    function = lj.syntax(program.function)

    def run(**given: Any) -> Any:
        return program.call(function, lj.llvm, given, {})

    for lane in range(program.lanes):
        found = lj.run_lane(run, lane, **arguments, **shared, width=program.lanes)
        same(found, expected, lane)
    for name, array in shared.items():
        assert np.array_equal(array.numpy(), before[name])


def same(found: Any, expected: Any, lane: int) -> None:
    """Compare the result of one lane with that entry of the vectorized result."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    for (name, value), (other, wide) in pairs:
        assert name == other
        if isinstance(wide, lj.ArrayBase):
            wide = lane_of(wide, lane)
        value = lane_of(value, 0)
        np.testing.assert_array_equal(value, wide, err_msg=f"lane {lane}: {name}")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.function.__name__)
def test_every_lane_agrees(program: Program) -> None:
    run_lanes(program)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_random_programs_agree(seed: int) -> None:
    run_lanes(make(seed))


@lj.syntax
def mixture(x: Any, y: Any) -> Any:
    z = lj.sin(x) * lj.exp(y * 0.1) + lj.sqrt(abs(x)) - lj.rcp(y + 3)
    while z < 3:
        z = z + lj.abs(lj.cos(z)) + lj.log2(abs(y) + 1.5)
    return lj.fma(z, x, y), lj.power(abs(x), y), lj.tanh(z), lj.rsqrt(z)


NUMBERS = st.floats(-50, 50, width=32)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=9))
@pytest.mark.parametrize("kind", [Float, Float64])
def test_transcendental_functions_have_the_same_bits(kind: Any, rows: Any) -> None:
    x, y = (kind(list(column)) for column in zip(*rows, strict=True))
    expected = mixture(x, y)
    for lane in range(len(rows)):
        same(lj.run_lane(mixture, lane, x, y), expected, lane)


def test_random_numbers_and_lane_numbers() -> None:
    @lj.syntax
    def estimate(x: Any) -> Any:
        rng = PCG32(initseq=lj.arange(UInt, lj.width(x)))
        hits = UInt(0)
        while rng.next_float32() < 0.7:
            hits += 1
        return hits, rng.next_uint32() + lj.arange(UInt, lj.width(x))

    x = Float([0] * 9)
    expected = estimate(x)
    for lane in range(9):
        same(lj.run_lane(estimate, lane, x), expected, lane)


WIDE = Int(10, 20, 30, 40)


def test_wide_arrays_in_closures_globals_and_objects() -> None:
    inside = Int(1, 2, 3, 4)
    thing = SimpleNamespace(offset=Int(5, 6, 7, 8), hits=Int(0, 0, 0, 0), log=[])

    @lj.syntax
    def program(x: Any, thing: Any) -> Any:
        nonlocal inside
        if x + inside > 3:
            x += WIDE
            inside = inside + 1
        while thing.offset > x:
            x += 1
        if WIDE > 25:
            x = -x
        thing.hits = thing.hits + x
        inside += 100
        return x, inside, thing.hits, WIDE + thing.offset, WIDE

    x = Int(0, 1, 2, 3)
    found = [lj.run_lane(program, k, x, thing) for k in range(4)]
    assert list(x) == [0, 1, 2, 3]
    assert list(inside) == [1, 2, 3, 4]
    assert list(thing.hits) == [0] * 4
    assert thing.log == []
    expected = program(x, thing)
    for lane, row in enumerate(found):
        same(row, expected, lane)


class Counter:
    """An object with state and a slot."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = Int(0, 0)

    @lj.syntax
    def add(self, x: Any) -> Any:
        if x > 1:
            self.total += x
        return self.total


def test_methods_of_objects() -> None:
    counter = Counter()
    before = counter.total
    assert lj.run_lane(counter.add, 1, Int(1, 2))[0] == 2
    assert counter.total is before
    assert list(before) == [0, 0]
    assert list(counter.add(Int(1, 2))) == [0, 2]


def test_tables_of_the_lanes_size() -> None:
    @lj.syntax
    def chain(x: Any, table: Any) -> Any:
        at = x
        for _ in range(3):
            at = lj.gather(UInt, table, at)
            if at > 2:
                at = lj.gather(UInt, x, 3 - at)
        lj.scatter(table, at + 10, x)
        return at, lj.gather(UInt, table, x), table + x

    x, table = UInt(0, 1, 2, 3), UInt(2, 3, 0, 1)
    found = [lj.run_lane(chain, k, x, table) for k in range(4)]
    assert list(table) == [2, 3, 0, 1]
    expected = chain(x, table)
    for lane, row in enumerate(found):
        same(row[:2], expected[:2], lane)


def test_counting_in_an_array_of_one_entry() -> None:
    @lj.syntax
    def take(n: Any, counter: Any) -> Any:
        first = UInt(100)
        for _ in range(n):
            slot = lj.scatter_inc(counter, 0)
            first = lj.minimum(first, slot)
        return first, lj.gather(UInt, counter, 0)

    counter = UInt(5)
    first, last = lj.run_lane(take, 2, UInt(1, 2, 3), counter)
    assert (first[0], last[0], counter[0]) == (5, 8, 5)


def test_switches_with_masks_and_bad_indices() -> None:
    def target(x: Any, active: Any) -> Any:
        assert bool(active)
        return x + 1, Array3f(x)

    def program(x: Any, at: Any) -> Any:
        return lj.switch(at, [target, lambda x, m: (x * 5, Array3f(x, 1, 2))], x, x > 1)

    x, at = Float(1, 2, 3, 4), UInt(0, 1, 0, 7)
    expected = program(x, at)
    for lane in range(4):
        same(lj.run_lane(program, lane, x, at), expected, lane)


def test_primitives_run_as_plain_python() -> None:
    seen: list[Any] = []

    def program(x: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            seen.append((i[0], x[0]))
            return i + 1, x * 2

        _, x = lj.while_loop((Int(0), x), lambda i, x: i < 3, body, mode="symbolic")
        return lj.if_stmt((x,), x > 10, lambda x: -x, lambda x: x, mode="evaluated")

    assert lj.run_lane(program, 1, Int(1, 2))[0] == -16
    assert seen == [(0, 2), (1, 4), (2, 8)]


def test_hints_and_undecorated_functions() -> None:
    @lj.syntax
    def hinted(x: Any) -> Any:
        while lj.hint(x < 9, mode="symbolic", label="loop"):
            x = x + 2
        return x

    def plain(x: Any) -> Any:
        return x if x > 3 else hinted(x)

    assert lj.run_lane(plain, 1, Int(0, 2))[0] == 10
    assert lj.run_lane(plain, 0, Int(7, 2))[0] == 7


@pytest.fixture(autouse=True)
def _no_breakpoint_is_left() -> Any:
    """Breakpoints are kept by a class, for all debuggers."""
    yield
    for breakpoint_ in [b for b in bdb.Breakpoint.bpbynumber if b]:
        breakpoint_.deleteMe()


def session(commands: str, function: Any, lane: int, *args: Any) -> tuple[Any, str]:
    """Run a lane under pdb with scripted input; return the result and the output."""
    output = io.StringIO()
    debugger = pdb.Pdb(
        stdin=io.StringIO(commands),
        stdout=output,
        skip=lj.debug.run_lane.LIBRARY,
        nosigint=True,
    )
    debugger.use_rawinput = False
    result = lj.run_lane(function, lane, *args, debugger=debugger)
    return result, output.getvalue()


@lj.syntax
def inner(v: Any) -> Any:
    if v > 100:
        v = v - 1
    return v * 2


@lj.syntax
def debugged(x: Any, y: Any) -> Any:
    total = Int(0)
    while x < 20:
        x += y
        total = total + inner(x)
        if total > 50 and y > 1:
            break
    return total


def line_of(text: str) -> int:
    """Return the number of the line in this file that has a text."""
    with open(__file__, encoding="utf-8") as file:
        return [text in line for line in file].index(True) + 1


def test_pdb_steps_through_the_users_lines() -> None:
    x, y = Int(1, 2, 3), Int(10, 5, 1)
    expected = debugged(Int(x), y)
    result, text = session("n\nn\nn\np x, y\nn\nc\n", debugged, 1, x, y)
    assert list(result) == [expected[1]]
    assert "([7], [5])" in text
    shown = re.findall(r"test_lane\.py\((\d+)\)debugged\(\)", text)
    first = line_of("def debugged(")
    assert [int(line) - first for line in shown] == [1, 2, 3, 4, 5]
    assert "-> x += y" in text


def test_pdb_stops_at_breakpoints_in_inner_functions() -> None:
    line = line_of("return v * 2")
    commands = f"b {__file__}:{line}\nc\np v\nup\np total\nc\nc\ncl 1\nc\n"
    result, text = session(commands, debugged, 0, Int(1, 2), Int(10, 5))
    assert list(result) == [int(debugged(Int(1), Int(10))[0])]
    assert "-> return v * 2" in text
    assert "[11]" in text
    assert "inner()" in text


def test_pdb_steps_into_functions_but_not_into_the_library() -> None:
    _, text = session("s\n" * 9 + "w\nc\n", debugged, 0, Int(1, 2), Int(10, 5))
    assert "inner()" in text
    places = set(re.findall(r"> (\S+?)\(\d+\)", text))
    assert places == {__file__}


def test_pdb_of_the_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\np 2 * v\nc\n"))
    assert lj.run_lane(inner, 1, Int(1, 101), debugger=True)[0] == 200
    text = capsys.readouterr().out
    assert "-> if v > 100:" in text
    assert "[202]" in text
    assert signal.getsignal(signal.SIGINT) is before


def test_the_debugger_of_breakpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @lj.syntax
    def program(x: Any) -> Any:
        while x < 5:
            if x == 3:
                breakpoint()
            x += 1
        return x

    def hook() -> None:
        frame = __import__("sys")._getframe(1)
        seen.append((frame.f_lineno, frame.f_locals["x"][0]))

    monkeypatch.setattr("sys.breakpointhook", hook)
    assert lj.run_lane(program, 1, Int(9, 2))[0] == 5
    assert seen == [(line_of(" breakpoint()"), 3)]


class Tally:
    """A class that counts the calls of a method, and what these have left where."""

    calls = 0
    total = Int(0, 0)

    def __init__(self) -> None:
        self.queue = deque([Int(1, 1)])
        self.kinds = {"old", "older"}
        self.entries: list[Any] = [Int(2, 2), "first"]

    def note(self, x: Any) -> None:
        """Change all of it."""
        Tally.calls += 1
        Tally.total = Tally.total + x
        self.queue[0] = self.queue[0] + x
        self.queue.append(x)
        self.kinds.remove("old")
        self.entries[0] += x
        self.entries[1] = "second"
        self.entries.append("added")


def test_what_is_added_stays_and_the_rest_is_as_it_was() -> None:
    tally = Tally()
    (queued,), first = tally.queue, tally.entries[0]
    lj.run_lane(lambda x: tally.note(x), 1, Int(5, 6))
    assert (Tally.calls, list(Tally.total)) == (0, [0, 0])
    assert tally.queue[0] is queued
    assert len(tally.queue) == 2
    assert list(queued) == [1, 1]
    assert tally.kinds == {"old", "older"}
    assert tally.entries[0] is first
    assert tally.entries[1:] == ["first", "added"]
    assert list(first) == [2, 2]


def test_errors_of_the_program_leave_everything_as_it_was() -> None:
    bins = Int(1, 2, 3)

    @lj.syntax
    def program(x: Any, bins: Any) -> Any:
        lj.scatter_add(bins, x, 0)
        if x > 1:
            raise KeyError("mine")
        return x

    with pytest.raises(KeyError, match="mine"):
        lj.run_lane(program, 1, Int(1, 2), bins, width=2)
    assert list(bins) == [1, 2, 3]
    assert list(Int(1, 2) + Int(3, 4)) == [4, 6]


THIS = re.escape(__file__)


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (
            ArrayIndexError,
            "no lane 2: the arguments have 2 lanes.*from 0 to 1.*width=",
            lambda: lj.run_lane(inner, 2, Int(1, 2)),
        ),
        (ArrayIndexError, "no lane -1", lambda: lj.run_lane(inner, -1, Int(1, 2))),
        (
            ArrayTypeError,
            "the lane is .* .expected an int",
            lambda: lj.run_lane(inner, 1.0, Int(1)),  # type: ignore[arg-type]
        ),
        (
            SizeError,
            r"differ in size.*args\[0\]: 2, args\[1\]: 3.*width=2",
            lambda: lj.run_lane(debugged, 0, Int(1, 2), Int(1, 2, 3)),
        ),
        (
            ArrayTypeError,
            r"no method runcall \(got int\).*pass True",
            lambda: lj.run_lane(inner, 0, Int(1), debugger=3),  # type: ignore[arg-type]
        ),
        (
            ArrayValueError,
            "combines the entries of all 3 lanes, but only lane 1 runs",
            lambda: lj.run_lane(lj.sum, 1, Int(1, 2, 3)),
        ),
        (
            ArrayValueError,
            "compress: this combines",
            lambda: lj.run_lane(lj.compress, 1, Bool(True, False)),
        ),
        (
            ArrayValueError,
            "prefix_sum: this combines",
            lambda: lj.run_lane(lj.cumsum, 1, Int(1, 2)),
        ),
        (
            ArrayIndexError,
            "gather: lane 1 accesses entry 9 of an array of 2 entries",
            lambda: lj.run_lane(
                lambda i, t: lj.gather(Int, t, i), 1, UInt(0, 9), Int(1, 2)
            ),
        ),
        (
            ArrayIndexError,
            "scatter: lane 0 accesses entry 7 of an array of 2 entries",
            lambda: lj.run_lane(
                lambda i, t: lj.scatter(t, 5, i), 0, UInt(7, 1), Int(1, 2)
            ),
        ),
        (
            ArrayValueError,
            "the indexed array has one entry while lane 1 runs.*compute it before",
            lambda: lj.run_lane(lambda t: lj.gather(Int, t + t, 0), 1, Int(1, 2)),
        ),
        (
            SymbolicError,
            "a lane runs already",
            lambda: lj.run_lane(lambda x: lj.run_lane(inner, 0, x), 1, Int(1, 2)),
        ),
        (
            SymbolicError,
            "can't run inside of vectorized control flow",
            lambda: lj.while_loop(
                (Int(1, 2),), lambda i: i < 3, lambda i: lj.run_lane(inner, 0, i)
            ),
        ),
    ],
)
def test_refusals(error: Any, match: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=rf"(?s)^{THIS}:\d+.*{match}"):
        call()
