"""Draws programs to differentiate: numbers, tests that jump, and nested constructs.

A program is a function of three numbers per lane, of one number for all lanes (`w`), of
a table that it reads, and of a whole number per lane (`n`), which only bounds loops and
selects functions. Nothing grows without bound, and every loop ends. Formulas are of few
instructions, as what is looked for is in the nesting. This module knows nothing of
lumijit: the same text runs elsewhere, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

NAMES = ("a", "b", "c")
TABLE = 5
HEAD = """
bend = lambda x: x / (1 + x * x)
calls = [
    lambda x, y: bend(x * 1.7) * y,
    lambda x, y: x * 0.7 + y * y * 0.1,
    lambda x, y: 1 / (1 + x * x) + w * y,
]
"""


class Writer:
    """Draws one program.

    `jumps` tells whether it may `break` and `continue`, `writes` whether it writes to
    the array `img`, of which each lane has two entries, from `at` on, `customs` whether
    it calls `own`, which has a derivative of its own.
    """

    def __init__(
        self, seed: str, jumps: bool = True, writes: bool = False, customs: bool = False
    ) -> None:
        self._random = random.Random(seed)
        self._jumps = jumps
        self._writes = writes
        self._customs = customs
        # In symbolic mode, an array has one reduction, and may be written to besides.
        self._kinds = ["scatter(", "scatter_add(", "scatter_add("]
        if writes and self._random.random() < 0.5:
            op = self._pick("Mul", "Min", "Max")
            self._kinds = [f"scatter_reduce(dr.ReduceOp.{op}, "]
            self._kinds *= self._random.randint(1, 2)
            self._kinds += ["scatter("] * self._random.randint(0, 1)
        self._counters = 0

    def _pick(self, *options: str) -> str:
        return self._random.choice(options)

    def _name(self) -> str:
        return self._pick(*NAMES)

    def _value(self) -> str:
        a, b, c = self._name(), self._name(), self._name()
        k = self._random.randint(0, TABLE - 1)
        if self._customs and self._random.random() < 0.4:
            return f"own({a}, {b} + 0.1) * 0.9"
        return self._pick(
            f"bend({a} * 1.3 + {b}) * 1.8",
            f"{a} * {b} / (1 + {a} * {a} + {b} * {b})",
            f"dr.fma(bend({a}), {b}, w) * 0.5",
            f"bend({a} * {a}) - {b} * 0.3",
            f"dr.select({a} > {b} * 0.9 + 0.03, {a} * 0.8, bend({b} * {c}))",
            f"dr.gather(t.Float64, table, t.UInt32((n + {k}) % {TABLE})) * {a} * 0.6",
            f"dr.sqrt(1 + {a} * {a}) - {b} / (2 + {c} * {c})",
            f"dr.minimum({a}, {b} + 0.11) + {c} * w * 0.2",
            f"dr.switch((n + {k}) % 3, calls, {a}, {b}) * 0.7",
            f"bend({a} + {b} * {c}) - 0.2 * abs({c})",
        )

    def _test(self) -> str:
        a, b, k = self._name(), self._name(), self._random.uniform(-0.9, 0.9)
        return self._pick(
            f"{a} > {k:.2f}", f"{a} < {b} + {k:.2f}", f"n > {self._pick('0', '1', '2')}"
        )

    def _assignment(self) -> Iterator[str]:
        a = self._name()
        if self._writes and self._random.random() < 0.4:
            write = self._pick(*self._kinds)
            index = f"at + t.UInt32((n + {self._pick('0', '1')}) % 2)"
            yield f"dr.{write}img, {self._value()} + s, {index})"
            # No value is written twice: extremes have no derivative at ties.
            yield "s = 0.9 * s + 0.07"
            return
        yield self._pick(f"{a} = {self._value()}", f"{a} += 0.2 * ({self._value()})")

    def _block(self, depth: int, in_loop: bool) -> list[str]:
        count = self._random.randint(1, 3)
        return [s for _ in range(count) for s in self._statement(depth, in_loop)]

    def _statement(self, depth: int, in_loop: bool) -> Iterator[str]:
        kinds = ["assign", "assign"] + ["if", "while", "while", "for"] * (depth > 0)
        kinds += ["jump"] * (in_loop and self._jumps)
        kind = self._random.choice(kinds)
        if kind == "assign":
            yield from self._assignment()
            return
        if kind == "jump":
            yield f"if {self._test()}:"
            yield "    " + self._pick("break", "continue")
            return
        if kind == "if":
            yield f"if {self._test()}:"
            yield from self._indented(self._block(depth - 1, in_loop))
            if self._random.random() < 0.6:
                yield "else:"
                yield from self._indented(self._block(depth - 1, in_loop))
            return
        self._counters += 1
        k = f"k{self._counters}"
        if kind == "for":
            yield f"for {k} in range({self._pick('2', '3')}):"
            yield from self._indented(self._block(depth - 1, False))
            return
        yield f"{k} = t.Int(0)"
        extra = self._pick("", "", f" & (abs({self._name()}) < 3)")
        yield f"while ({k} < {self._pick('n', '3', 'n + 2', '5 - n')}){extra}:"
        yield f"    {k} = {k} + 1"
        yield from self._indented(self._block(depth - 1, True))

    @staticmethod
    def _indented(lines: list[str]) -> Iterator[str]:
        return (f"    {line}" for line in lines)

    def text(self) -> str:
        """Return the program."""
        lines = [*HEAD.strip().split("\n")]
        if self._writes:
            lines += ["s = 0 * a"]
        for _ in range(self._random.randint(2, 4)):
            lines += self._statement(2, False)
        if self._writes:
            lines += ["b = b + dr.gather(t.Float64, img, at)"]
            lines += ["c = c + dr.gather(t.Float64, img, at + 1)"]
        body = "\n".join(f"    {line}" for line in [*lines, "return a, b, c"])
        return f"@syntax\ndef program(dr, t, a, b, c, w, table, n, img, at):\n{body}\n"

    def data(self) -> tuple[dict[str, list[float]], list[int]]:
        """Return the numbers, and the whole numbers."""
        lanes = self._random.choice((1, 3, 5))
        size = {"w": 1, "table": TABLE}
        floats = {
            name: [
                self._random.uniform(-1.2, 1.2) for _ in range(size.get(name, lanes))
            ]
            for name in (*NAMES, "w", "table")
        }
        return floats, [self._random.randint(0, 3) for _ in range(lanes)]
