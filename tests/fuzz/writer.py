"""Draws programs: a tree of statements, and the text that it stands for.

A program is a function of three numbers per lane (`a`, `b`, `c`), a zero as wide as all
lanes, its first entry in `out`, and of what the patterns bring along:

- `local`: a buffer `h`, whose entries loops test; `h[0]` stays below all numbers;
- `apart`: the results are evaluated one by one, in any order (see `check`);
- `indices`: `table` is read and `out` and `bins` are written at any index;
- `objects`: a list, a dictionary and a deque of objects that functions change;
- `inplace`: arguments `img` and `p` that are changed in place;
- `calls`: functions that an index selects.

Every loop ends. A lane writes to its own part of `out`, and adds to `bins`, so that the
order of lanes makes no difference.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

PATTERNS = ("local", "apart", "indices", "objects", "inplace", "calls")
LENGTH = 6
SLOTS = 4
TABLE = 11
BINS = 5
SENTINEL = -(1 << 30)
NAMES = ("a", "b", "c")
#: Functions that programs may call, with what follows their definition.
HELPERS = {
    "bump": """
def bump(o, v):
    o.n += v
""",
    "grow": """
def grow(o, v):
    o.n = o.n + v
    o.child.n = o.child.n ^ 1
""",
    "maybe": """
@syntax
def maybe(o, v):
    if v > 3:
        o.n += v
""",
    "acc": """
@syntax
def acc(img, v):
    if v > 3:
        img += v
""",
    "shift": """
def shift(p, v):
    p.x = p.x + v
    p.y += 1
""",
    "calls": """
calls = [lambda v: v + 1, lambda v: v - 7, lambda v: v ^ 3, lambda v: v + 1]
""",
}
SIGNATURE = """
@syntax
def program(
    dr, t, a, b, c, zero, first, table, out, bins, objs, named, queue, img, p
):"""


@dataclass
class Statement:
    """Lines of which the last may open a block, and what follows that."""

    text: str
    body: list[Statement] = field(default_factory=list)
    other: list[Statement] = field(default_factory=list)
    after: str = ""

    def lines(self, pad: str = "") -> Iterator[str]:
        """Return the statement's lines, indented."""
        inner = pad + "    "
        yield from (pad + line for line in self.text.split("\n"))
        for statement in self.body:
            yield from statement.lines(inner)
        if self.text.endswith(":") and not self.body:
            yield inner + "pass"
        if self.other:
            yield pad + "else:"
        for statement in self.other:
            yield from statement.lines(inner)
        if self.after:
            yield pad + self.after


@dataclass(frozen=True)
class Program:
    """A program with its data; `order` is how its results are evaluated."""

    statements: tuple[Statement, ...]
    patterns: frozenset[str]
    columns: dict[str, list[int]]
    table: list[int]
    objects: int
    order: int
    #: Whether it relies on numbers of 32 bits.
    wraps: bool

    @property
    def lanes(self) -> int:
        """How many lanes there are."""
        return max(len(values) for values in self.columns.values())

    def text(self) -> str:
        """Return the program as Python."""
        opening, closing = [], "return a, b, c"
        if "local" in self.patterns:
            opening = [f"h = dr.alloc_local(t.Int, {LENGTH}, value=zero + 0)"]
            opening += [f"h[0] = {SENTINEL} + zero"]
            entries = [f"{'abc'[k % 3]} ^ {k * 37 % 64}" for k in range(1, LENGTH)]
            opening += [f"h[{k}] = {e}" for k, e in enumerate(entries, 1)]
            closing += "".join(f", h[{k}] + 0" for k in range(1, LENGTH))
        statements = [line for s in self.statements for line in s.lines()]
        body = [f"    {line}" for line in [*opening, *statements, closing]]
        text = "\n".join([SIGNATURE, *body]) + "\n"
        words = set(re.findall(r"\w+", "".join(body)))
        return "".join(t for name, t in HELPERS.items() if name in words) + text

    def without_lanes(self, keep: Sequence[int]) -> Program:
        """Return the program with some of the lanes only."""
        columns = {
            name: [values[k] for k in keep] if len(values) > 1 else values
            for name, values in self.columns.items()
        }
        return replace(self, columns=columns)


class Writer:
    """Draws one program."""

    def __init__(self, seed: str, patterns: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self.patterns = frozenset(patterns)
        self.counters = 0
        self.size = self.random.choice((1, 3, 9, 17, 40))
        self.wraps = self.random.random() < 0.5

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def name(self) -> str:
        return self.pick(*NAMES)

    def has(self, pattern: str, chance: float = 0.5) -> bool:
        return pattern in self.patterns and self.random.random() < chance

    def number(self) -> str:
        """Return a small number of a lane, as a new value."""
        a, b, k = self.name(), self.name(), self.random.randint(-3, 5)
        forms = [f"{a} + {k}", f"{a} - {b}", f"{a} ^ {b}", f"{k} + zero"]
        forms += [f"({a} * {k}) & 127", f"(({a} if {self.test()} else {b}) + 0)"]
        forms += [f"dr.select({self.test()}, {a}, {b})", f"dr.minimum({a}, {b})"]
        if self.has("local", 0.4):
            forms = [f"h[{self.slot()}] + 0", f"h.read({self.slot()}, {self.test()})"]
        if self.has("indices", 0.4):
            forms = [
                f"table[{self.index()}]",
                f"dr.gather(t.Int, table, {self.index()})",
            ]
            active = f"{self.index()}, {self.test()}"
            forms += [f"dr.gather(t.Int, table, {active})"]
        if self.has("objects", 0.3):
            forms = [f"{self.object()}.n + 0"]
        if self.has("inplace", 0.3):
            forms = ["img + 0", "p.x + 0", "p.y - 1"]
        if self.has("calls", 0.15):
            forms = [f"dr.switch({a} & 3, calls, {b})"]
        return f"((({self.random.choice(forms)}) & 255) - 64)"

    def test(self) -> str:
        a, b, k = self.name(), self.name(), self.random.randint(-20, 60)
        forms = [f"{a} > {k}", f"{a} < {b}", f"({a} & 1) == 0", f"{a} != {b}"]
        forms += [f"({a} > {b} and {b} > {k})", f"({a} == {k} or not {b} > 3)"]
        if self.has("local", 0.3):
            forms += [f"h[{self.slot()}] > {self.name()}"] * 3
        return f"({self.random.choice(forms)})"

    def slot(self) -> str:
        """Return an index of the buffer, not that of the sentinel."""
        a, k = self.name(), self.random.randint(1, LENGTH - 1)
        return self.pick(f"{k}", f"({a} & 3) + 1", f"(({a} & 7) % 5) + 1")

    def index(self) -> str:
        """Return an index of any kind."""
        a, k = self.name(), self.random.randint(-15, 15)
        forms = [f"{a}", f"{a} - 100", f"({a} & 7) - 9", f"({a} & 15) + {k}"]
        forms += [f"{a} * 1000003", f"{k} + zero"]
        if self.wraps:
            forms += [f"t.UInt({a})", f"({a} | 2147483640)", f"{a} * 67108864"]
            forms += [f"({a} ^ -2147483648)"]
        return self.random.choice(forms)

    def own(self) -> str:
        """Return an index of an entry of the lane's own, or of none."""
        a, k = self.name(), self.random.randint(0, SLOTS - 1)
        inside = self.pick(f"first + {k}", f"first + ({a} & 3)")
        total = SLOTS * self.size
        beyond = self.pick(f"{2 * total}", f"{total}", "1000000", "536870912")
        forms = [inside, inside, f"{inside} - {total}", f"{inside} + {beyond}"]
        forms += [f"t.UInt({inside})"] * self.wraps
        forms += [f"{inside} - {total} - {beyond}"]
        forms += [f"{inside} - {total} * ({a} & 3)"]
        return self.random.choice(forms)

    def object(self) -> str:
        """Return an expression for one of the objects."""
        place = self.pick("objs[{}]", "named['k{}']", "queue[{}]", "objs[{}].child")
        return place.format(self.random.choice((0, 1, 1, 2, self.objects - 1)))

    def effect(self) -> str:
        """Return a statement of one of the patterns."""
        found = [p for p in ("local", "indices", "objects", "inplace") if self.has(p)]
        kind = self.random.choice(found) if found else "assign"
        value, test = self.number(), self.test()
        if kind == "local":
            slot = self.slot()
            return self.pick(
                f"h[{slot}] = {value}", f"h.write({value}, {slot}, {test})"
            )
        if kind == "indices":
            forms = [f"out[{self.own()}] = {value}"]
            forms += [f"dr.scatter(out, {value}, {self.own()}, {test})"]
            wild = f"{self.index()} + zero"
            forms += [f"dr.scatter_add(bins, {value}, {wild})"] * 2
            forms += [f"dr.scatter_add(bins, {value}, {wild}, {test})"]
            return self.random.choice(forms)
        if kind == "objects":
            o = self.object()
            whole = o.removesuffix(".child")
            forms = [f"bump({o}, {value})", f"{o}.n += {value}", f"maybe({o}, {value})"]
            forms += [f"{o}.n = {value}", f"grow({whole}, {value})"]
            return self.random.choice(forms)
        if kind == "inplace":
            forms = [f"acc(img, {value})", f"img += {value}", f"img[{test}] = {value}"]
            forms += [f"p.x = {value}", f"p.y += {value}", f"shift(p, {value})"]
            # Not `a`, `b`, `c`: some lanes may have bound these anew, and arrays can't
            # be the caller's for the others only.
            forms += [f"p[{test}] = {value}"]
            return self.random.choice(forms)
        name = self.name()
        return f"{name} = {value}"

    def block(self, depth: int, in_loop: bool) -> list[Statement]:
        count = self.random.randint(1, 3)
        return [self.statement(depth, in_loop) for _ in range(count)]

    def statement(self, depth: int, in_loop: bool) -> Statement:
        kinds = ["assign", "effect", "effect", "effect"]
        if depth:
            kinds += ["if", "if", "while", "for"]
            kinds += ["descend", "insert"] if "local" in self.patterns else []
        if in_loop:
            kinds += ["jump"]
        kind = self.random.choice(kinds)
        if kind == "effect":
            return Statement(self.effect())
        if kind == "assign":
            return Statement(f"{self.name()} = {self.number()}")
        if kind == "jump":
            return Statement(f"if {self.test()}:\n    {self.pick('break', 'continue')}")
        if kind == "if":
            other = self.block(depth - 1, in_loop) if self.random.random() < 0.5 else []
            body = self.block(depth - 1, in_loop)
            return Statement(f"if {self.test()}:", body, other)
        return getattr(self, f"{kind}_loop")(depth)

    def counter(self) -> str:
        self.counters += 1
        return f"k{self.counters}"

    def while_loop(self, depth: int) -> Statement:
        k = self.counter()
        start = self.pick("0", "t.Int(0)", f"({self.name()} & 3)", "0 + zero")
        bound = self.pick(f"({self.name()} & 3) + 2", "3", "4")
        test = f"{k} < {bound}"
        if self.has("local", 0.6):
            entry = f"h[{self.pick(f'({k} & 3) + 1', self.slot())}]"
            test = f"({test}) and ({entry} {self.pick('>', '<', '!=')} {self.name()})"
        body = self.block(depth - 1, True)
        # Before what may `continue`.
        head = (
            f"{k} = {start}\nwhile {test}:\n    {k} {self.pick('+= 1', f'= {k} + 1')}"
        )
        return Statement(head, body)

    def for_loop(self, depth: int) -> Statement:
        k = self.counter()
        bounds = self.pick("3", f"{self.name()} & 3", f"1, ({self.name()} & 3) + 2")
        body = self.block(depth - 1, True)
        if self.random.random() < 0.5:
            body.append(Statement(f"{self.name()} = (({self.name()} + {k}) & 127)"))
        return Statement(f"for {k} in range({bounds}):", body)

    def descend_loop(self, depth: int) -> Statement:
        """Walk down the buffer while its entries are large."""
        j = self.counter()
        start = self.pick("5", "t.Int(5)", f"({self.name()} & 3) + 2", "5 + zero")
        limit = self.pick(self.name(), "10", f"{self.name()} + 3")
        body = self.block(depth - 1, True) if self.random.random() < 0.4 else []
        # The way back up ends where the numbers do.
        head = f"{j} = {start}\nwhile h[{j}] > {limit}:\n    {j} -= 1"
        use = self.pick(f"{self.name()} = {j} + 0", f"h[{j} & 3 | 1] = {j} + 0")
        return Statement(head, body, after=use)

    def insert_loop(self, depth: int) -> Statement:
        """Sort the buffer by insertion."""
        i, j, item = self.counter(), self.counter(), self.counter()
        first, last = (
            self.pick("2", "t.Int(2)"),
            self.pick("6", f"({self.name()} & 3) + 3"),
        )
        text = f"""{i} = {first}
while {i} < {last}:
    {item} = h[{i}] + 0
    {j} = {i} + {self.pick("0", "zero")}
    while h[{j} - 1] > {item}:
        h[{j}] = h[{j} - 1]
        {j} = {j} - 1
    h[{j}] = {item}
    {i} = {i} + 1"""
        return Statement(text)

    def program(self) -> Program:
        r = self.random
        self.objects = r.choice((3, 4, 8, 70, 120)) if "objects" in self.patterns else 3
        columns = {}
        for name in NAMES:
            size = (
                1 if r.random() < 0.1 and "inplace" not in self.patterns else self.size
            )
            columns[name] = [r.randint(-60, 190) for _ in range(size)]
        statements = [self.statement(3, False) for _ in range(r.randint(2, 4))]
        return Program(
            tuple(statements),
            self.patterns,
            columns | {"zero": [0] * self.size},
            [r.randint(-60, 190) for _ in range(TABLE)],
            self.objects,
            r.randrange(1 << 30),
            self.wraps,
        )
