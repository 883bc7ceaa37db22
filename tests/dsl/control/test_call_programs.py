"""Random programs that call methods of instances agree in all modes with Python."""

from __future__ import annotations

import contextlib
import linecache
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as lj
from tests.dsl.programs.modes import Program

from .test_random_programs import INDENT, Writer

Flag = lj.JitFlag
EVALUATED = {
    Flag.SymbolicCalls: False,
    Flag.SymbolicLoops: False,
    Flag.SymbolicConditionals: False,
}
MODES: dict[str, dict[lj.JitFlag, bool]] = {
    "symbolic": {},
    "unmerged": {Flag.MergeFunctions: False},
    "unmoved": {Flag.OptimizeCalls: False},
    "as written": {
        Flag.MergeFunctions: False,
        Flag.OptimizeCalls: False,
        Flag.OptimizeLoops: False,
        Flag.ValueNumbering: False,
        Flag.ConstantPropagation: False,
    },
    "merged only": {
        Flag.OptimizeCalls: False,
        Flag.OptimizeLoops: False,
        Flag.ValueNumbering: False,
        Flag.ConstantPropagation: False,
    },
    "evaluated": EVALUATED,
    "compressed": {**EVALUATED, Flag.CompressLoops: True},
}
LEVELS = 2
METHODS = 3
ARGUMENTS = "a, b, c, zero, table, bins"
_count = 0


class CallWriter(Writer):
    """Writes a program and the methods that it calls.

    Methods are numbered by level and variant. Those of one level call those of the
    next, of other instances of the same class.
    """

    level = -1

    def value(self) -> str:
        if self.level < 0 or self.random.random() < 0.5:
            return super().value()
        a = self.name()
        forms = [f"{a} + self.k", f"{a} * self.v", "self.v - self.k", f"{a} ^ self.w"]
        forms += [f"lj.gather(t.Int, self.tex, {a} & 3)"]
        forms += [f"lj.gather(t.Int, self.tex, self.k & 3) + {a}"]
        return f"(({self.random.choice(forms)}) & 255) - 64"

    def statement(self, depth: int, in_loop: bool, pad: str) -> None:
        if self.level + 1 == LEVELS or self.random.random() < 0.7:
            super().statement(depth, in_loop, pad)
            return
        first, second = self.random.sample("abc", 2)
        index = self.random.choice(["{} & 7", "({} >> 1) & 7", "({} + 3) & 7"])
        active = self.random.choice(["True", "True", self.test()])
        self.lines.append(
            f"{pad}{first}, {second} = call(t, {index.format(self.name())}, "
            f"'m{self.level + 1}', {active}, {ARGUMENTS})"
        )

    def text(self) -> str:
        found = []
        for level in range(LEVELS):
            for variant in range(METHODS):
                self.level = level
                self.lines = [f"def m{level}_{variant}(self, t, {ARGUMENTS}):"]
                self.block(2 - level, False, INDENT)
                first, second = self.random.sample("abc", 2)
                self.lines.append(f"{INDENT}return {first}, {second}")
                found.append("\n".join(self.lines))
        self.level = -1
        self.lines = [f"def program(t, {ARGUMENTS}):"]
        self.lines.append(f"{INDENT}a, b = call(t, b & 7, 'm0', c > 0, {ARGUMENTS})")
        for _ in range(2):
            self.statement(2, False, INDENT)
        self.lines.append(f"{INDENT}return a, b, c")
        return "\n\n".join([*found, "\n".join(self.lines)]) + "\n"


class Instance:
    """One object in both worlds; its variant chooses the methods."""

    def __init__(self, variant: int, numbers: random.Random) -> None:
        self.variant = variant
        self.k = numbers.randint(2, 9)
        self.v = numbers.randint(-60, 60)
        self.w = numbers.choice([5, 9])
        self.tex: Any = [numbers.randint(-60, 190) for _ in range(4)]

    def scalar(self) -> Any:
        found = object.__new__(Instance)
        found.__dict__.update(self.__dict__)
        found.tex = lj.scalar.ArrayXi(*self.tex)
        return found

    def vector(self) -> Any:
        found = self.scalar()
        found.v = lj.opaque(lj.llvm.Int, self.v)
        found.tex = lj.llvm.Int(self.tex)
        return found


def define(text: str) -> dict[str, Any]:
    """Execute source text so that `inspect` finds it."""
    global _count
    _count += 1
    filename = f"<random calls {_count}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": "random_calls", "lj": lj}
    exec(compile(text, filename, "exec"), namespace)
    return namespace


def make(seed: int, size: int, variants: int) -> Program:
    numbers = random.Random(seed)
    space = define(CallWriter(seed).text())
    plain = [
        None
        if numbers.random() < 0.15
        else Instance(numbers.randrange(variants), numbers)
        for _ in range(8)
    ]
    plain[0] = Instance(0, numbers)
    scalars = [p and p.scalar() for p in plain]
    Base = type("Base", (Instance,), {})
    Ptr = lj.instance_array_t(lj.llvm.Int, Base)
    vectors = [p and p.vector() for p in plain]
    for instance in filter(None, vectors):
        instance.__class__ = Base
    pointers = Ptr(vectors)
    functions = {k: f for k, f in space.items() if k[0] == "m" and "_" in k}
    traced = {k: lj.syntax(f) for k, f in functions.items()}

    def call(t: Any, index: Any, name: str, active: Any, *args: Any) -> Any:
        if t is lj.scalar:
            found = scalars[index]
            if found is None or not active:
                return 0, 0
            return functions[f"{name}_{found.variant}"](found, t, *args)
        if isinstance(index, int):
            index = t.Int(index)

        def target(instance: Any, *args: Any, active: Any) -> Any:
            return traced[f"{name}_{instance.variant}"](instance, t, *args)

        chosen = lj.gather(Ptr, pointers, index)
        return lj.dispatch(chosen, target, *args, active=active)

    space.update(call=call, kept_alive=vectors)
    columns = {
        name: ("Int", [numbers.randint(-60, 190) for _ in range(size)])
        for name in ("a", "b", "c")
    }
    columns["zero"] = ("Int", [0] * size)
    shared = {
        "table": ("Int", [numbers.randint(-60, 190) for _ in range(8)]),
        "bins": ("Int", [0, 0, 0, 0]),
    }
    return Program(space["program"], columns, shared)


@contextlib.contextmanager
def flags_of(mode: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for flag, value in MODES[mode].items():
            stack.enter_context(lj.scoped_set_flag(flag, value))
        yield


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1 << 32),
    size=st.sampled_from([1, 3, 9, 17]),
    variants=st.integers(1, METHODS),
)
def test_random_programs(mode: str, seed: int, size: int, variants: int) -> None:
    with flags_of(mode):
        make(seed, size, variants).check(lj.llvm)
