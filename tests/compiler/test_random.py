"""Random programs with nested regions and writes: kernels against the interpreter.

All operations used are rounded correctly or exact on both sides, so the results
must agree bit by bit.
"""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import cast_to, emit1, emit2, emit3
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import memory
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    DType,
)
from tests.compiler.support import (
    Array,
    Holder,
    Nodes,
    array,
    assert_same,
    branch,
    data,
    edge_values,
    flushed,
    lit,
    loop,
    random_values,
)
from tests.tools.printer import format_nodes
from tests.verifier.interpret import interpret

TYPES = (BOOL, INT8, UINT8, UINT16, INT32, UINT32, INT64, FLOAT16, FLOAT32, FLOAT64)
UNARY = (ar.NEG, ar.ABS, ar.SQRT, ar.RCP, ar.FLOOR, ar.CEIL, ar.TRUNC, ar.ROUND) + (
    lo.NOT,
    lo.POPCNT,
    lo.LZCNT,
    lo.TZCNT,
    lo.BREV,
)
BINARY = (ar.ADD, ar.SUB, ar.MUL, ar.DIV, ar.INT_DIV, ar.MULHI, ar.MIN, ar.MAX) + (
    lo.AND,
    lo.OR,
    lo.XOR,
    lo.SHL,
    lo.SHR,
    ar.MOD,
    lo.EQ,
    lo.NE,
    lo.LT,
    lo.GE,
)
REDUCTIONS = {INT32: "add", UINT32: "max"}


def normal_values(t: DType) -> Array:
    """Return edge values without denormals, of which x * 1 makes x or zero."""
    values = edge_values(t)
    return flushed(values) if t.is_float else values


class Author:
    """Writes a random program; every choice comes from one seed."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.size = size
        self.pool: list[Node] = []
        self.tables = [
            array(random_values(t, 11, seed + k), t) for k, t in enumerate(TYPES)
        ]
        self.holders = [Holder(array(random_values(t, 5, seed), t)) for t in REDUCTIONS]
        rng = np.random.default_rng(seed)
        for t in TYPES:
            values = random_values(t, size, seed)
            edges = rng.choice(normal_values(t), size)
            mixed = np.where(rng.random(size) < 0.3, edges, values)
            self.pool.append(array(mixed, t))
            self.pool.append(array(edges[:1], t))
        self.pool.append(trace.counter(size))

    def pick(self, t: DType) -> Node:
        """Return a value of a type: recent ones are likelier; or a literal."""
        if self.random.random() < 0.2:
            number = self.random.choice(normal_values(t)).item()
            return lit(t, number)
        found = [node for node in self.pool if node.type is t]
        k = int(len(found) * self.random.random() ** 0.5)
        return found[k]

    def step(self, depth: int) -> None:
        """Add one operation or region to the program."""
        kinds = ["unary", "binary", "binary", "binary", "fma", "select", "cast"]
        kinds += ["gather", "write"] + ["loop", "branch"] * (depth > 0)
        kind = self.random.choice(kinds)
        found = getattr(self, kind)(depth)
        self.pool = [*self.pool, *found]

    def number_type(self) -> DType:
        return self.random.choice(TYPES[1:])

    def unary(self, depth: int) -> list[Node]:
        op = self.random.choice(UNARY)
        t = self.random.choice([t for t in TYPES if t in op.accepts])
        return [emit1(op, self.pick(t))]

    def binary(self, depth: int) -> list[Node]:
        op = self.random.choice(BINARY)
        accepted = [t for t in TYPES if t in op.accepts]
        if op is ar.MOD:
            accepted = [t for t in accepted if t.is_int]
        t = self.random.choice(accepted)
        return [emit2(op, self.pick(t), self.pick(t))]

    def fma(self, depth: int) -> list[Node]:
        t = self.random.choice([t for t in TYPES[1:] if t is not FLOAT16])
        return [emit3(ar.FMA, self.pick(t), self.pick(t), self.pick(t))]

    def select(self, depth: int) -> list[Node]:
        t = self.random.choice(TYPES)
        return [trace.select(self.pick(BOOL), self.pick(t), self.pick(t))]

    def cast(self, depth: int) -> list[Node]:
        return [cast_to(self.pick(self.random.choice(TYPES)), self.number_type())]

    def place(self, entries: int) -> Node:
        return emit2(ar.MOD, self.pick(UINT32), lit(UINT32, entries))

    def gather(self, depth: int) -> list[Node]:
        table = self.random.choice(self.tables)
        return [memory.gather(table, self.place(11), self.pick(BOOL))]

    def write(self, depth: int) -> list[Node]:
        holder = self.random.choice(self.holders)
        t = holder._node.type
        args = self.pick(t), self.place(5), self.pick(BOOL)
        mode = self.random.choice(["auto", "direct", "local", "expand"])
        memory.scatter(holder, *args, REDUCTIONS[t], mode)
        return []

    def block(self, steps: int, depth: int, types: list[DType]) -> Nodes:
        """Write the code of a region; the pool is as before afterwards."""
        outer = self.pool
        for _ in range(steps):
            self.step(depth)
        found = tuple(self.pick(t) for t in types)
        self.pool = outer
        return found

    def loop(self, depth: int) -> list[Node]:
        types = [self.random.choice(TYPES) for _ in range(self.random.randint(1, 3))]
        limit = emit2(lo.AND, self.pick(UINT32), lit(UINT32, 3))
        stays = self.pick(BOOL)
        inits = (lit(UINT32, 0, self.size), *[self.pick(t) for t in types])

        def cond(i: Node, *state: Node) -> Node:
            return emit2(lo.AND, emit2(lo.LT, i, limit), stays)

        def body(i: Node, *state: Node) -> Nodes:
            outer = self.pool
            self.pool = [*outer, i, *state]
            found = self.block(self.random.randint(1, 6), depth - 1, types)
            self.pool = outer
            return emit2(ar.ADD, i, lit(UINT32, 1)), *found

        return loop(inits, cond, body, self.size)

    def branch(self, depth: int) -> list[Node]:
        types = [self.random.choice(TYPES) for _ in range(self.random.randint(1, 3))]
        steps = self.random.randint(1, 6)
        return branch(
            self.pick(BOOL),
            lambda: self.block(steps, depth - 1, types),
            lambda: self.block(steps, depth - 1, types),
            tuple(self.holders),
        )


def compare(seed: int, size: int, steps: int) -> None:
    author = Author(seed, size)
    for _ in range(steps):
        author.step(2)
    results = [node for node in author.pool if node.size and node.deps]
    wanted = [*results[-12:], *[holder._node for holder in author.holders]]
    text = format_nodes(wanted)
    expected = interpret(wanted)
    assert format_nodes(wanted) == text
    evaluate.evaluate(wanted)
    for node, right in zip(wanted, expected, strict=True):
        assert_same(data(node), right)


SIZES = st.sampled_from([1, 2, 7, 16, 33, 67, 130])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**9), SIZES, st.integers(3, 25))
def test_random_programs(seed: int, size: int, steps: int) -> None:
    compare(seed, size, steps)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**9), SIZES)
def test_evaluation_in_steps(seed: int, size: int) -> None:
    """The order in which results are asked for, and when, changes nothing."""
    author = Author(seed, size)
    wanted: list[Node] = []
    expected = []
    for _ in range(3):
        for _ in range(author.random.randint(1, 7)):
            author.step(2)
        fresh = [node for node in author.pool if node.deps][-6:]
        fresh += [holder._node for holder in author.holders]
        wanted += fresh
        expected += interpret(fresh)
        evaluate.evaluate(author.random.sample(wanted, len(wanted) // 3))
    order = list(range(len(wanted)))
    author.random.shuffle(order)
    for k in order:
        assert_same(data(wanted[k]), expected[k])
