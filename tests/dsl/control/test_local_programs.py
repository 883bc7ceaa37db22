"""Random programs with local memory: kernels, wavefronts and the scalar namespace
against plain Python lists, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit.llvm import UInt
from tests.verifier.interpret import interpret

LENGTH = 5
MASK = (1 << 32) - 1
Stmt = tuple[Any, ...]

# Expressions are functions of a lane's number, the accumulator and a loop counter.
EXPRESSIONS = {
    "zero": lambda x, acc, i: x * 0,
    "three": lambda x, acc, i: x * 0 + 3,
    "lane": lambda x, acc, i: x % LENGTH,
    "turn": lambda x, acc, i: i % LENGTH,
    "sum": lambda x, acc, i: acc % LENGTH,
    "mix": lambda x, acc, i: (x + 2 * i) % LENGTH,
}
# Bounds of loops: the same for all lanes, or different ones.
LIMITS = ("three", "lane", "sum")
places = st.sampled_from([*EXPRESSIONS, 0, 1, LENGTH - 1])
values = st.sampled_from(list(EXPRESSIONS))
masks = st.sampled_from([None, "lane", "mix"])
buffers = st.integers(0, 1)


def statements(depth: int) -> st.SearchStrategy[list[Stmt]]:
    """Return lists of statements with regions up to a depth."""
    simple = st.one_of(
        st.tuples(st.just("write"), buffers, places, values, masks),
        st.tuples(st.just("read"), buffers, places, masks),
        st.tuples(st.just("move"), places, places),
    )
    if depth == 0:
        return st.lists(simple, max_size=3)
    inner = statements(depth - 1)
    nested = st.one_of(
        st.tuples(st.just("loop"), st.sampled_from([*LIMITS]), inner),
        st.tuples(st.just("until"), buffers, st.sampled_from([*LIMITS]), inner),
        st.tuples(st.just("sift"), buffers),
        st.tuples(st.just("if"), values, inner, inner),
        st.tuples(
            st.just("switch"),
            values,
            st.lists(inner, min_size=1, max_size=3),
            st.sampled_from([2, 4, 11]),
        ),
        st.tuples(st.just("copied"), buffers, inner),
        st.tuples(st.just("fresh"), values, inner),
    )
    return st.lists(st.one_of(simple, nested), min_size=1, max_size=4)


class Machine:
    """Runs programs; `x` is the number of a lane, or an array of all of them."""

    def __init__(self, x: Any, make: Any) -> None:
        self.x = x
        self.make = make
        self.wrap = (lambda v: v & MASK) if isinstance(x, int) else (lambda v: v)
        self.buffers = [make(x), make(x)]

    def at(self, place: Any, acc: Any, i: Any) -> Any:
        if isinstance(place, int):
            return place
        return EXPRESSIONS[place](self.x, acc, i)

    def active(self, mask: str | None, acc: Any, i: Any) -> Any:
        if mask is None:
            return True
        return self.at(mask, acc, i) < 2

    def run(self, program: list[Stmt], acc: Any, i: Any) -> Any:
        for name, *args in program:
            acc = getattr(self, name)(acc, i, *args)
        return acc

    def write(self, acc: Any, i: Any, k: int, place: Any, value: str, mask: Any) -> Any:
        entry = self.wrap(self.at(value, acc, i) * 7 + acc)
        active = self.active(mask, acc, i)
        self.store(self.buffers[k], entry, self.at(place, acc, i), active)
        return acc

    def read(self, acc: Any, i: Any, k: int, place: Any, mask: Any) -> Any:
        active = self.active(mask, acc, i)
        found = self.load(self.buffers[k], self.at(place, acc, i), active)
        return self.wrap(acc * 3 + found + 1)

    def move(self, acc: Any, i: Any, source: Any, target: Any) -> Any:
        a, b = self.buffers
        found = self.load(a, self.at(source, acc, i), True)
        self.store(b, found, self.at(target, acc, i), True)
        return acc

    def copied(self, acc: Any, i: Any, k: int, program: list[Stmt]) -> Any:
        outer = self.buffers
        self.buffers = [self.copy(outer[k]), outer[1 - k]]
        try:
            return self.run(program, acc, i)
        finally:
            self.buffers = outer

    def fresh(self, acc: Any, i: Any, value: str, program: list[Stmt]) -> Any:
        outer = self.buffers
        self.buffers = [self.make(self.at(value, acc, i)), outer[1]]
        try:
            return self.run(program, acc, i)
        finally:
            self.buffers = outer

    def load(self, buffer: Any, place: Any, active: Any) -> Any:
        return buffer.read(place, active)

    def store(self, buffer: Any, value: Any, place: Any, active: Any) -> None:
        buffer.write(value, place, active)

    def copy(self, buffer: Any) -> Any:
        return dr.Local(buffer)

    def loop(self, acc: Any, i: Any, count: str, program: list[Stmt]) -> Any:
        end = self.at(count, acc, i)

        def body(acc: Any, j: Any) -> Any:
            return self.run(program, acc, j), j + 1

        return dr.while_loop((acc, end * 0), lambda acc, j: j < end, body)[0]

    def until(self, acc: Any, i: Any, k: int, limit: str, program: list[Stmt]) -> Any:
        """Loop while what is read at the counter allows; read there afterwards."""
        end, buffer = self.at(limit, acc, i), self.buffers[k]

        def goes_on(acc: Any, j: Any) -> Any:
            return (j < end) & (self.load(buffer, j % LENGTH, True) % 4 != 1)

        def body(acc: Any, j: Any) -> Any:
            return self.run(program, acc, j), j + 1

        acc, j = self.repeat((acc, end * 0), goes_on, body)
        return self.wrap(acc * 5 + j + self.load(buffer, j % LENGTH, True))

    def sift(self, acc: Any, i: Any, k: int) -> Any:
        """Move the last entry down to its place, as an insertion sort does."""
        buffer = self.buffers[k]

        def goes_on(j: Any) -> Any:
            # Out of bounds, any entry will do.
            last, before = (self.load(buffer, (j - n) % LENGTH, True) for n in (0, 1))
            return (j > 0) & (last < before)

        def body(j: Any) -> Any:
            last, before = (self.load(buffer, j - n, True) for n in (0, 1))
            self.store(buffer, before, j, True)
            self.store(buffer, last, j - 1, True)
            return (j - 1,)

        (j,) = self.repeat((self.x * 0 + LENGTH - 1,), goes_on, body)
        return self.wrap(acc * 7 + j)

    def repeat(self, state: Any, goes_on: Any, body: Any) -> Any:
        return dr.while_loop(state, goes_on, body)

    def if_(self, acc: Any, i: Any, value: str, yes: Any, no: Any) -> Any:
        return dr.if_stmt(
            (acc,),
            self.at(value, acc, i) < 2,
            lambda acc: self.run(yes, acc, i),
            lambda acc: self.run(no, acc, i),
        )

    def switch(
        self, acc: Any, i: Any, value: str, programs: list[list[Stmt]], count: int
    ) -> Any:
        """Call one of some functions, several of which differ in a number only."""

        def target(k: int) -> Any:
            def call(x: Any, acc: Any, i: Any) -> Any:
                outer, self.x = self.x, x
                try:
                    return self.run(programs[k % len(programs)], acc + k, i)
                finally:
                    self.x = outer

            return call

        index = self.chosen(self.at(value, acc, i), count)
        return dr.switch(index, [target(k) for k in range(count)], self.x, acc, i)

    def chosen(self, value: Any, count: int) -> Any:
        return (value * 3 + self.x) % count


setattr(Machine, "if", Machine.if_)


class Plain(Machine):
    """Runs a program for one lane, on Python lists, without lumijit."""

    def load(self, buffer: Any, place: Any, active: Any) -> Any:
        return buffer[place] if active else 0

    def store(self, buffer: Any, value: Any, place: Any, active: Any) -> None:
        if active:
            buffer[place] = value

    def copy(self, buffer: Any) -> Any:
        return list(buffer)

    def loop(self, acc: Any, i: Any, count: str, program: list[Stmt]) -> Any:
        for j in range(self.at(count, acc, i)):
            acc = self.run(program, acc, j)
        return acc

    def repeat(self, state: Any, goes_on: Any, body: Any) -> Any:
        while goes_on(*state):
            state = body(*state)
        return state

    def if_(self, acc: Any, i: Any, value: str, yes: Any, no: Any) -> Any:
        return self.run(yes if self.at(value, acc, i) < 2 else no, acc, i)

    def switch(
        self, acc: Any, i: Any, value: str, programs: list[list[Stmt]], count: int
    ) -> Any:
        k = self.chosen(self.at(value, acc, i), count)
        return self.run(programs[k % len(programs)], acc + k, i)


setattr(Plain, "if", Plain.if_)


def outcome(machine: Machine, program: list[Stmt]) -> list[Any]:
    """Run a program; return its result and all entries of the buffers."""
    x = machine.x
    acc = machine.run(program, x * 0, x * 0)
    entries = [machine.load(b, k, True) for b in machine.buffers for k in range(LENGTH)]
    return [acc, *entries]


def expected(size: int, program: list[Stmt]) -> np.ndarray[Any, Any]:
    """Return what plain Python computes, lane by lane."""
    rows = [outcome(Plain(n, lambda x: [x] * LENGTH), program) for n in range(size)]
    return np.array(rows, dtype=np.uint32).T


def traced(size: int) -> Machine:
    """Return a machine for all lanes at once."""
    return Machine(
        dr.arange(UInt, size), lambda x: dr.alloc_local(UInt, LENGTH, value=x)
    )


def check(found: list[Any], wanted: np.ndarray[Any, Any]) -> None:
    """Compare arrays with rows."""
    size = wanted.shape[1]
    dr.eval(found)
    for array, row in zip(found, wanted, strict=True):
        assert np.broadcast_to(array.numpy(), size).tolist() == row.tolist()


sizes = st.sampled_from([1, 3, 16, 19, 65])


@settings(max_examples=50, deadline=None)
@given(program=statements(2), size=sizes)
def test_symbolic_programs(program: list[Stmt], size: int) -> None:
    wanted = expected(size, program)
    found = outcome(traced(size), program)
    for row, values in zip(wanted, interpret(f._node for f in found), strict=True):
        assert np.broadcast_to(values, size).tolist() == row.tolist()
    check(found, wanted)


@settings(max_examples=50, deadline=None)
@given(program=statements(2), size=sizes, data=st.data())
def test_results_evaluated_apart(
    program: list[Stmt], size: int, data: st.DataObject
) -> None:
    wanted = expected(size, program)
    found = outcome(traced(size), program)
    for k in data.draw(st.permutations(range(len(found)))):
        check(found[k : k + 1], wanted[k : k + 1])


@settings(max_examples=25, deadline=None)
@given(program=statements(2), size=sizes, compress=st.booleans())
def test_evaluated_programs(program: list[Stmt], size: int, compress: bool) -> None:
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False),
        dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, False),
        dr.scoped_set_flag(dr.JitFlag.CompressLoops, compress),
    ):
        check(outcome(traced(size), program), expected(size, program))


@settings(max_examples=25, deadline=None)
@given(program=statements(1), size=sizes)
def test_evaluated_loops_around_symbolic_code(program: list[Stmt], size: int) -> None:
    around: list[Stmt] = [("loop", "lane", program)]
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        check(outcome(traced(size), around), expected(size, around))


@settings(max_examples=50, deadline=None)
@given(program=statements(2))
def test_scalar_programs(program: list[Stmt]) -> None:
    wanted = expected(4, program)
    for n in range(4):
        machine = Machine(n, lambda x: dr.alloc_local(int, LENGTH, value=x))
        assert outcome(machine, program) == wanted[:, n].tolist()


@pytest.mark.parametrize("size", [1, 21])
def test_buffers_in_memory_go_on(size: int) -> None:
    program: list[Stmt] = [
        ("loop", "lane", [("write", 0, "turn", "mix", None), ("read", 0, "sum", None)]),
        ("if", "mix", [("move", 1, 0)], [("write", 1, 2, "lane", "mix")]),
    ]
    machine, plain = (
        traced(size),
        [Plain(n, lambda x: [x] * LENGTH) for n in range(size)],
    )
    acc: Any = machine.x * 0
    accs: list[Any] = [0] * size
    for _ in range(3):
        acc = machine.run(program, acc, machine.x * 0)
        dr.eval(machine.buffers, acc)
        accs = [m.run(program, a, 0) for m, a in zip(plain, accs, strict=True)]
    assert acc.numpy().tolist() == accs
    for k in range(LENGTH):
        assert machine.buffers[1][k].numpy().tolist() == [
            m.buffers[1][k] for m in plain
        ]
