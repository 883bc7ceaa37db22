"""A Ctrl-C between any two instructions leaves its thread as it was.

A tracer counts how often a program gets to each place in this package where Python
answers signals, and raises KeyboardInterrupt at one. The test takes a sample of these.
Run as a module, it takes all: `python -m tests.dsl.test_interrupts [one in how many]`.
"""

from __future__ import annotations

import contextlib
import dis
import random
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest

import lumijit as dr
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.structural import EVALUATED
from lumijit.llvm import UInt
from lumijit.runtime import contexts
from lumijit.runtime.errors import is_internal

# Python drops what is raised while it calls back about an object that has died.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
#: The place of an instruction in the package, and the turn in which it is run.
Place = tuple[CodeType, int, int]
#: The instructions after which Python answers signals; nothing does so in between.
ANSWERING = {
    op
    for name, op in dis.opmap.items()
    if "CALL" in name or ("JUMP" in name and "FORWARD" not in name)
}
Program = Callable[[UInt, UInt], list[UInt]]
PROGRAMS: list[Program] = []


class Tracer:
    """Notes where Python may answer a signal; raises at one of these places.

    That is before the first instruction of a function (-1), after calls and jumps back.
    """

    def __init__(self, at: Place | None = None) -> None:
        self.at = at
        self.turns: dict[tuple[CodeType, int], int] = {}

    def run(self, program: Callable[[], Any]) -> Any:
        """Run a program."""
        sys.settrace(self._on_call)
        try:
            return program()
        finally:
            sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not is_internal(code.co_filename):
            return None
        if self.at is not None and code is not self.at[0]:
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        self._reach(code, -1)
        before = 0

        def on_opcode(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if event == "opcode":
                if code.co_code[before] in ANSWERING:
                    self._reach(code, frame.f_lasti)
                before = frame.f_lasti
            return on_opcode

        return on_opcode

    def _reach(self, code: CodeType, offset: int) -> None:
        key = code, offset
        turn = self.turns[key] = self.turns.get(key, 0) + 1
        if self.at == (*key, turn):
            raise KeyboardInterrupt

    def places(self) -> list[Place]:
        """List the first and the last turn of each place."""
        return [
            (*key, turn)
            for key, turns in self.turns.items()
            for turn in sorted({1, turns})
        ]


class Failure(Exception):
    """Raised on purpose."""


@dr.syntax
def _collatz(x: UInt, table: UInt, limit: int, fails: bool) -> tuple[UInt, UInt]:
    count = UInt(0)
    while (x > 1) & (count < limit):
        if x % 2 == 0:
            x //= 2
            dr.scatter_add(table, UInt(1), x % 4)
        else:
            x = 3 * x + 1
            _fail(fails)
        count += 1
    return x, count


def _fail(fails: bool) -> None:
    if fails:
        raise Failure


def in_modes(program: Program) -> Program:
    """Register a program for symbolic and for evaluated control flow."""

    def run(is_symbolic: bool) -> Program:
        which = dr.JitFlag.SymbolicLoops | dr.JitFlag.SymbolicConditionals
        which |= dr.JitFlag.SymbolicCalls

        def chosen(x: UInt, table: UInt) -> list[UInt]:
            with dr.scoped_set_flag(which, is_symbolic):
                return program(x, table)

        return chosen

    PROGRAMS.extend((run(True), run(False)))
    return program


@in_modes
def loop(x: UInt, table: UInt) -> list[UInt]:
    """A branch in a loop, which writes by index."""
    return [*_collatz(x, table, 3, False)]


@in_modes
def failure(x: UInt, table: UInt) -> list[UInt]:
    """A loop whose body raises."""
    try:
        _collatz(x, table, 3, True)
    except Failure:
        return [x + 1]
    return []


@in_modes
def call(x: UInt, table: UInt) -> list[UInt]:
    """A call, one of whose functions has a branch and writes by index."""

    def writing(x: UInt) -> UInt:
        dr.scatter_add(table, x, x % 4)
        doubled: UInt = dr.if_stmt((x,), x > 5, lambda x: x * 2, lambda x: x + 1)
        return doubled

    return [dr.switch(x % 3, [lambda x: x, writing, lambda x: x + 1], x)]


def one_lane(x: UInt, table: UInt) -> list[UInt]:
    """One lane alone, and a compressed loop."""
    lane = dr.run_lane(lambda x: _collatz(x, table, 3, False)[0], 1, x)
    loop = dr.while_loop(
        (x,), lambda x: x > 1, lambda x: (x // 2,), mode="evaluated", compress=True
    )
    return [lane, *loop]


PROGRAMS.append(one_lane)


def arrays() -> tuple[UInt, UInt]:
    """Return the arguments of the programs."""
    x, table = UInt(3, 8, 1, 6, 27), UInt(0, 0, 0, 0)
    dr.eval(x, table)
    return x, table


def state() -> dict[str, Any]:
    """Return what restricts tracing in this thread."""
    found = {variable.name: variable.get() for variable in contexts._own}
    return {"lanes": list(trace.running_lanes), **found}


def listed(*found: UInt) -> list[Any]:
    """Return what arrays hold."""
    return [array.numpy().tolist() for array in found]


class Experiment:
    """Interrupts one program, and looks at what is left."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.clean = state()
        for _ in range(3):
            x, table = arrays()
            self.before = listed(x, table)
            results = program(x, table)
            self.results, self.after = listed(*results), listed(x, table)

    def places(self) -> list[Place]:
        """List where it can be interrupted."""
        tracer, (x, table) = Tracer(), arrays()
        tracer.run(lambda: self.program(x, table))
        return tracer.places()

    def faults(self, at: Place) -> list[str]:
        """Interrupt the program at a place; tell what is wrong after that."""
        x, table = arrays()
        with contextlib.suppress(KeyboardInterrupt):
            Tracer(at).run(lambda: self.program(x, table))
        now = state()
        found = [name for name, value in now.items() if value != self.clean[name]]
        try:
            given = zip(listed(x, table), self.before, self.after, strict=True)
            if any(value not in allowed for value, *allowed in given):
                found.append(f"the arguments are {listed(x, table)}")
            if listed(*self.program(*arrays())) != self.results:
                found.append("another result")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        return found


def named(at: Place) -> str:
    """Return a place as text."""
    code, offset, turn = at
    lines = [
        line for start, end, line in code.co_lines() if start <= max(offset, 0) < end
    ]
    name = code.co_filename.rsplit("/lumijit/")[-1]
    return f"{name}:{lines[0]} {code.co_name}+{offset} (turn {turn})"


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_interrupts_leave_nothing_behind(number: int) -> None:
    experiment = Experiment(PROGRAMS[number])
    places = experiment.places()
    for at in random.Random(number).sample(places, min(12, len(places))):
        assert not experiment.faults(at), named(at)


def scheduled() -> list[UInt]:
    """Schedule several kernels, among them some that write."""
    x = UInt(range(100_000))
    few, bins, small = (dr.zeros(UInt, size) for size in (2, 61, 3))
    dr.eval(x, few, bins, small)
    dr.scatter_add(bins, UInt(1), x % 61)
    dr.scatter_add(small, UInt(1, 2, 3), UInt(0, 1, 1))
    found = dr.scatter_inc(few, UInt(0, 1, 0))
    made = [x + 1, dr.arange(UInt, 7) * 2, found]
    dr.schedule(made)
    return [*made, few, bins, small]


def test_an_interrupted_evaluation_is_taken_up_once_more() -> None:
    for _ in range(3):
        expected = scheduled()
        dr.eval()
    wanted = [sorted(values) for values in listed(*expected)]
    tracer = Tracer()
    expected = scheduled()
    tracer.run(dr.eval)
    places = tracer.places()
    for at in random.Random(1).sample(places, min(60, len(places))):
        arrays = scheduled()
        with contextlib.suppress(KeyboardInterrupt):
            Tracer(at).run(dr.eval)
        dr.eval()
        assert all(array._node.op is EVALUATED for array in arrays), named(at)
        assert [sorted(values) for values in listed(*arrays)] == wanted, named(at)


def main() -> None:
    """Try all places, or one in so many."""
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    seen = set()
    count = bad = 0
    for number, program in enumerate(PROGRAMS):
        experiment = Experiment(program)
        places = [p for p in experiment.places() if p not in seen]
        seen.update(places)
        print(f"program {number}: {len(places)} places", flush=True)
        for at in places[number % step :: step]:
            count += 1
            faults = experiment.faults(at)
            if faults:
                bad += 1
                print(named(at), "; ".join(faults)[:300], flush=True)
    print(f"{count} interrupts, {bad} of them left something behind")


if __name__ == "__main__":
    main()
