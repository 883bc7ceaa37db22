"""Runs a program in plain Python and vectorized, and compares."""

from __future__ import annotations

import collections
import contextlib
import linecache
import mmap
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lumijit as lj
import lumijit.llvm
import lumijit.llvm.ad
import lumijit.scalar
from lumijit.runtime.errors import ArrayIndexError, StateError, SymbolicError
from tests.dsl.programs.modes import flags_of
from tests.fuzz import plain
from tests.fuzz.writer import BINS, SLOTS, Program
from tests.targets import DEVICES, standing_in, written_for

#: A program that takes more of the processor's time hangs.
TIMEOUT_SECONDS = 60
MODES = (
    "symbolic",
    "evaluated",
    "unoptimized",
    "unfolded",
    "compressed",
    "scalar",
    "threads",
    "device",
    "exposed",
    "again",
)
Values = dict[str, Any]
_count = 0


class Thing:
    """An object with a number, and another object with one."""

    def __init__(self, make: Callable[[int], Any], number: int, depth: int = 1) -> None:
        self.n = make(number)
        if depth:
            self.child = Thing(make, 10 * number, depth - 1)


class Mismatch(Exception):
    """Results that differ from plain Python's."""


class Refused(Exception):
    """An error of ours that says what can't be done: no wrong number."""


def define(text: str, syntax: Callable[[Any], Any], **names: Any) -> Any:
    """Execute a program's text so that `inspect` finds it."""
    global _count
    _count += 1
    filename = f"<fuzz {_count}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace = {"__name__": "fuzz", "syntax": syntax, **names}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["program"]


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raise an error if what runs inside takes too long, by the processor's clock."""

    def stop(*_unused: object) -> None:
        raise TimeoutError(f"took more than {TIMEOUT_SECONDS} s")

    former = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, TIMEOUT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


def objects(program: Program, make: Callable[[int], Any]) -> list[Any]:
    """Return a list, a dictionary and a deque of objects."""
    count = program.objects
    things = [[Thing(make, k + 100 * j) for k in range(count)] for j in range(3)]
    named = {f"k{k}": thing for k, thing in enumerate(things[1])}
    return [things[0], named, collections.deque(things[2])]


def state(containers: list[Any]) -> Values:
    """Return the numbers of all objects, by their places."""
    objs, named, queue = containers
    found: Values = {}
    for kind, things in (("objs", objs), ("named", named.values()), ("queue", queue)):
        for k, thing in enumerate(things):
            found[f"{kind}[{k}].n"] = thing.n
            found[f"{kind}[{k}].child.n"] = thing.child.n
    return found


def call(
    function: Any,
    space: Any,
    columns: dict[str, Any],
    shared: list[Any],
    program: Program,
    img: Any,
    p: Any,
    make: Callable[[int], Any],
) -> Values:
    """Call a program once; return all that it leaves behind, but for shared arrays."""
    containers = objects(program, make)
    given = dict(columns)
    result = function(
        *space,
        **given,
        **dict(zip(SHARED, shared, strict=True)),
        **dict(zip(CONTAINERS, containers, strict=True)),
        img=img,
        p=p,
    )
    found: Values = {f"result {k}": value for k, value in enumerate(result)}
    if "objects" in program.patterns:
        found |= state(containers)
    if "inplace" in program.patterns:
        found |= {f"caller's {name}": columns[name] for name in "abc"}
        found |= {"img": img, "p.x": p.x, "p.y": p.y}
    return found


SHARED = ("table", "out", "bins")
CONTAINERS = ("objs", "named", "queue")


def fresh(program: Program) -> dict[str, list[int]]:
    """Return the shared arrays' entries at the start."""
    out = [0] * (SLOTS * program.lanes)
    return {"table": program.table, "out": out, "bins": [0] * BINS}


def lanes_of(program: Program) -> list[dict[str, int]]:
    """Return each lane's arguments."""
    columns = program.columns | {"first": [SLOTS * k for k in range(program.lanes)]}
    return [
        {name: v[k if len(v) > 1 else 0] for name, v in columns.items()}
        for k in range(program.lanes)
    ]


def run_plain(program: Program) -> Values:
    """Run a program lane by lane without lumijit; return columns and shared arrays."""
    function = define(program.text(), lambda f: f, range=plain.range_)
    shared = [plain.Shared(list(values)) for values in fresh(program).values()]
    rows = [
        call(
            function,
            (plain.Dr, plain.Types),
            {name: plain.Number(v) for name, v in lane.items()},
            shared,
            program,
            plain.Number(3),
            plain.Pair(1, 2),
            plain.Number,
        )
        for lane in lanes_of(program)
    ]
    columns = {name: [int(row[name]) for row in rows] for name in rows[0]}
    return columns | {n: s.values for n, s in zip(SHARED, shared, strict=True)}


def run_scalar(program: Program) -> Values:
    """Run a program lane by lane in the `scalar` namespace."""
    function = define(program.text(), lj.syntax)
    shared = [lj.scalar.ArrayXi(*values) for values in fresh(program).values()]
    rows = [
        call(function, (lj, lj.scalar), lane, shared, program, 3, None, int)
        for lane in lanes_of(program)
    ]
    columns = {name: [int(row[name]) for row in rows] for name in rows[0]}
    arrays = {n: s.numpy().tolist() for n, s in zip(SHARED, shared, strict=True)}
    return columns | arrays


def exposed(values: Any) -> Any:
    """Return an array that reads NumPy's memory where it is."""
    raw = np.empty(2 * mmap.PAGESIZE // 4, np.int32)
    first = -raw.ctypes.data % mmap.PAGESIZE // 4
    entries = raw[first:][: np.size(values)]
    entries[:] = values
    return lj.llvm.Int(entries)


def run_vectorized(
    program: Program, make: Any = lj.llvm.Int, function: Any = None
) -> Values:
    """Run a program on arrays of all lanes, in the mode that the flags say."""
    t = lj.llvm
    function = function or define(program.text(), lj.syntax)
    first = [SLOTS * k for k in range(program.lanes)]
    columns = program.columns | {"first": first}
    # Of numbers that are known while tracing, indices beyond the ends are errors.
    columns = {n: make(v) for n, v in columns.items()}
    lj.make_opaque(columns)
    shared = [make(values) for values in fresh(program).values()]
    img = make([3] * program.lanes)
    p = t.Array2i(make([1] * program.lanes), make([2] * program.lanes))
    found = call(function, (lj, t), columns, shared, program, img, p, make)
    found |= dict(zip(SHARED, shared, strict=True))
    if "apart" in program.patterns:
        names = list(found)
        order = random.Random(program.order)
        order.shuffle(names)
        while names:
            count = order.choice((1, 1, 2, 5))
            lj.eval([found[name] for name in names[:count]])
            del names[:count]
    lj.eval(found)
    return {
        name: np.broadcast_to(
            value.numpy() if isinstance(value, lj.ArrayBase) else value,
            program.lanes if name not in SHARED else len(shared[SHARED.index(name)]),
        ).tolist()
        for name, value in found.items()
    }


def modes_of(program: Program, modes: tuple[str, ...]) -> list[str]:
    """Return those modes that a program can run in."""
    is_plain = not program.wraps and "inplace" not in program.patterns
    return [mode for mode in modes if mode != "scalar" or is_plain]


def check(program: Program, mode: str) -> None:
    """Raise an error if a program's results in a mode differ from plain Python's."""
    expected = run_plain(program)
    with bounded():
        try:
            if mode == "scalar":
                found = run_scalar(program)
            elif mode == "threads":
                with written_for("thread"):
                    found = run_vectorized(program)
            elif mode in DEVICES:
                with standing_in(mode):
                    found = run_vectorized(program)
            elif mode == "exposed":
                # While anything is tracked, what NumPy can write to is copied.
                tracked = lj.llvm.ad.Float(1)
                lj.enable_grad(tracked)
                found = run_vectorized(program, exposed)
            elif mode == "again":
                # A loop begins with what its last run found out.
                function = define(program.text(), lj.syntax)
                few = program.without_lanes(range(min(3, program.lanes)))
                for other in (program.without_lanes([0]), few, program):
                    run_vectorized(other, function=function)
                found = run_vectorized(program, function=function)
            else:
                with flags_of(mode):
                    found = run_vectorized(program)
        except (StateError, SymbolicError) as error:
            if "objects" in program.patterns:
                raise Refused(str(error)) from error
            raise
        except ArrayIndexError as error:
            # It is known while tracing: of one lane, of an object's number, of `c ^ c`.
            raise Refused(str(error)) from error
    for name, values in expected.items():
        if found[name] != values:
            raise Mismatch(f"{name}: expected {values}, got {found[name]}")
