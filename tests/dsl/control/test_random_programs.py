"""Random nestings of loops and branches agree in all modes."""

from __future__ import annotations

import linecache
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as lj

from ..programs.modes import MODES, Program, flags_of

NAMES = ("a", "b", "c")
INDENT = "    "
_count = 0


class Writer:
    """Writes a program whose loops end and whose numbers stay small."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0

    def name(self) -> str:
        return self.random.choice(NAMES)

    def value(self) -> str:
        a, b, k = self.name(), self.name(), self.random.randint(-3, 5)
        forms = [f"{a} + {k}", f"{a} - {b}", f"{k}", f"{a} ^ {b}", f"{a}"]
        forms += [f"({a} * {k}) & 127", f"({a} if {self.test()} else {b})"]
        forms += [f"lj.gather(t.Int, table, ({a} & 7))"]
        return f"(({self.random.choice(forms)}) & 255) - 64"

    def test(self) -> str:
        a, b, k = self.name(), self.name(), self.random.randint(-20, 60)
        forms = [f"{a} > {k}", f"{a} < {b}", f"{a} & 1 == 0", f"{k} <= {a} < {k + 40}"]
        forms += [f"({a} > {b} and {b} > {k})", f"({a} == {k} or not {b} > 3)"]
        return self.random.choice(forms)

    def block(self, depth: int, loops: bool, pad: str) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, loops, pad)

    def statement(self, depth: int, in_loop: bool, pad: str) -> None:
        kind = self.random.choice(["set", "add", "bins", "if", "if", "while", "jump"])
        if depth == 0 and kind in ("if", "while"):
            kind = "set"
        inner = pad + INDENT
        if kind == "if":
            self.lines.append(f"{pad}if {self.test()}:")
            self.block(depth - 1, in_loop, inner)
            if self.random.random() < 0.6:
                self.lines.append(f"{pad}else:")
                self.block(depth - 1, in_loop, inner)
        elif kind == "while":
            self.counters += 1
            k = f"k{self.counters}"
            start = self.random.choice(["0", "t.Int(0)", f"{self.name()} & 3"])
            self.lines.append(f"{pad}{k} = {start}")
            self.lines.append(f"{pad}while {k} < {self.limit(k)}:")
            self.lines.append(f"{inner}{k} += 1")
            self.block(depth - 1, True, inner)
        elif kind == "jump" and in_loop:
            word = self.random.choice(["break", "continue"])
            self.lines.append(f"{pad}if {self.test()}:")
            self.lines.append(f"{inner}{word}")
        elif kind == "bins":
            a, b = self.name(), self.name()
            # The zero makes it one write per lane even where `b` is a number.
            self.lines.append(f"{pad}lj.scatter_add(bins, {a}, ({b} & 3) + zero)")
        elif kind == "add":
            self.lines.append(f"{pad}{self.name()} += {self.random.randint(1, 3)}")
        else:
            self.lines.append(f"{pad}{self.name()} = {self.value()}")

    def limit(self, counter: str) -> str:
        """Return where a loop's counter ends."""
        return f"({self.name()} & 3) + 2"

    def program(self) -> str:
        self.lines = ["def program(t, a, b, c, zero, table, bins):"]
        for _ in range(3):
            self.statement(3, False, INDENT)
        self.lines.append(f"{INDENT}return a, b, c")
        return "\n".join(self.lines) + "\n"


class CounterWriter(Writer):
    """Also writes what is often the same in all lanes that are in a loop."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # The counters that are there where the next statement is.
        self.known: list[str] = []

    def value(self) -> str:
        if not self.known or self.random.random() < 0.7:
            return super().value()
        k = self.random.choice(self.known)
        return self.random.choice(
            [f"lj.gather(t.Int, table, {k} & 7)", f"({self.name()} + {k}) & 127"]
        )

    def block(self, depth: int, loops: bool, pad: str) -> None:
        count = len(self.known)
        super().block(depth, loops, pad)
        del self.known[count:]

    def limit(self, counter: str) -> str:
        self.known.append(counter)
        limits = [super().limit(counter), "4", "(lj.gather(t.Int, table, 1) & 3)"]
        also = self.random.choice(["", "", f" and {self.test()}"])
        return self.random.choice(limits) + also


def define(text: str) -> Any:
    """Execute source text so that `inspect` finds it."""
    global _count
    _count += 1
    filename = f"<random program {_count}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": "random_programs", "lj": lj}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["program"]


def make(seed: int, writer: type[Writer] = Writer) -> Program:
    numbers = random.Random(seed)
    columns = {
        name: ("Int", [numbers.randint(-60, 190) for _ in range(9)]) for name in NAMES
    }
    columns["zero"] = ("Int", [0] * 9)
    shared = {
        "table": ("Int", [numbers.randint(-60, 190) for _ in range(8)]),
        "bins": ("Int", [0, 0, 0, 0]),
    }
    return Program(define(writer(seed).program()), columns, shared)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 32), writer=st.sampled_from([Writer, CounterWriter]))
def test_random_programs(mode: str, seed: int, writer: type[Writer]) -> None:
    with flags_of(mode):
        make(seed, writer).check(lj.llvm)
