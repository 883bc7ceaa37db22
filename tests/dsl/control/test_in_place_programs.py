"""Random programs that change arguments in place, against plain Python lane by lane.

The reference is the very function without `@syntax`, called with arrays of one entry.
"""

from __future__ import annotations

import linecache
import random
from dataclasses import dataclass
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Array2i, Int

from ..programs.modes import flags_of

MODES = ("symbolic", "evaluated", "compressed")
LANES = 7
COUNT = 150


class Opaque:
    """An object that is no PyTree."""

    def __init__(self, img: Any) -> None:
        self.img = img

    def add(self, value: Any) -> None:
        self.img += value


@dataclass
class Struct:
    img: Any

    def add(self, value: Any) -> None:
        self.img += value


def bump(v: Any, x: Any) -> None:
    v += x


def twist(v: Any, x: Any) -> None:
    v *= 2
    v[v > 40] = x


class Writer:
    """Writes the source of one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0

    def source(self) -> str:
        self.add(0, "def program(a, b, p, q, l, o, s, x):")
        self.add(1, "t = a * 1", "u = p * 2")
        if self.random.random() < 0.3:
            self.add(1, self.random.choice(["c = a", "c = b", "c = l[0]", "c = s.img"]))
        else:
            self.add(1, "c = x + 3")
        for _ in range(self.random.randint(1, 2)):
            self.construct(1, 2)
        self.block(1, 0, 1)
        self.add(1, "return t, u, c")
        return "\n".join(self.lines) + "\n"

    def add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def array(self) -> str:
        return self.random.choice(
            ["a", "b", "c", "t", "l[0]", "l[1]", "o.img", "s.img", "p.x", "q.y", "u.x"]
        )

    def value(self) -> str:
        one = self.random.choice([self.array(), "x", str(self.random.randint(-5, 9))])
        return self.random.choice([one, f"({one} + x)", f"({one} - {self.array()})"])

    def condition(self) -> str:
        sign = self.random.choice(["<", ">", "=="])
        other = self.random.choice([str(self.random.randint(-5, 9)), self.array()])
        return f"{self.array()} {sign} {other}"

    def block(self, depth: int, nesting: int, least: int) -> None:
        for _ in range(self.random.randint(least, 3)):
            if nesting and self.random.random() < 0.35:
                self.construct(depth, nesting - 1)
            else:
                self.statement(depth)

    def statement(self, depth: int) -> None:
        v, w = self.value(), self.array()
        self.add(
            depth,
            self.random.choice(
                [
                    f"{w} += {v}",
                    f"{w} += {v}",
                    f"{w} -= {v}",
                    f"bump({w}, {v})",
                    f"twist({w}, {v})",
                    f"bump({self.random.choice('pqu')}, {v})",
                    f"{self.random.choice('pqu')} += {v}",
                    f"{w}[{self.condition()}] = {v}",
                    f"p[p > {v}] = {v}",
                    f"q.x = {v} + x",
                    f"{self.random.choice('os')}.add({v})",
                    f"t = {v} + x",
                    f"u = u - {v}",
                    f"t += {v}",
                ]
            ),
        )

    def construct(self, depth: int, nesting: int) -> None:
        kind = self.random.random()
        if kind < 0.55:
            self.add(depth, f"if {self.condition()}:")
            self.block(depth + 1, nesting, 1)
            if self.random.random() < 0.3:
                self.add(depth, f"elif {self.condition()}:")
                self.block(depth + 1, nesting, 1)
            if self.random.random() < 0.5:
                self.add(depth, "else:")
                self.block(depth + 1, nesting, 1)
        else:
            self.counters += 1
            k = f"k{self.counters}"
            self.add(depth, f"{k} = x * 0")
            self.add(depth, f"while {k} < (x & 3):")
            self.block(depth + 1, nesting, 1)
            self.add(depth + 1, f"{k} += 1")
            if kind > 0.85:
                self.add(depth + 1, f"if {self.condition()}:", "    break")


def compiled(source: str, name: str) -> Any:
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"bump": bump, "twist": twist, "__name__": __name__}
    exec(compile(source, name, "exec"), space)
    return space["program"]


def arguments(seed: int, lanes: slice) -> tuple[Any, ...]:
    """Make the arguments, for some of the lanes; some are the same object."""
    numbers = random.Random(seed)
    columns = [[numbers.randint(-6, 12) for _ in range(LANES)] for _ in range(11)]
    arrays = [Int(column[lanes]) for column in columns]
    if numbers.random() < 0.4:
        target, source = numbers.sample(range(5), 2)
        arrays[target] = arrays[source]
    a, b, first, second, img, other = arrays[:6]
    p, q = Array2i(arrays[6], arrays[7]), Array2i(arrays[8], arrays[9])
    if numbers.random() < 0.2:
        q = p
    items = [first, second]
    return a, b, p, q, items, Opaque(other), Struct(img), arrays[10]


def contents(program: Any, given: tuple[Any, ...]) -> list[list[int]]:
    """Run a program; return what its arguments and results hold in the end."""
    results = program(*given)
    a, b, p, q, items, o, s, x = given
    arrays = (a, b, p.x, p.y, q.x, q.y, *items, o.img, s.img, x)
    t, u, c = results
    return [[int(v) for v in array] for array in (*arrays, t, u.x, u.y, c)]


def check(seed: int) -> None:
    source = Writer(seed).source()
    name = f"<in place {seed}>"
    plain = compiled(source, name)
    lanes = [contents(plain, arguments(seed, slice(n, n + 1))) for n in range(LANES)]
    expected = [
        [v for part in parts for v in part] for parts in zip(*lanes, strict=True)
    ]
    for mode in MODES:
        with flags_of(mode):
            found = contents(dr.syntax(plain), arguments(seed, slice(None)))
        found = [v * LANES if len(v) == 1 else v for v in found]
        assert found == expected, f"{mode}, seed {seed}\n{source}"


@pytest.mark.parametrize("start", range(0, COUNT, 25))
def test_random_programs_change_arguments(start: int) -> None:
    for seed in range(start, start + 25):
        check(seed)
