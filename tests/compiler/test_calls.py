"""Calls: kernels against the interpreter, and merged bodies against separate ones.

The interpreter runs the trace as merging left it, so it can't see a body that reads
another instance's data. A second trace of the same program with neither merging nor
moved results is the reference for that.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler import calls, evaluate, memory, regions, trace
from lumijit.compiler.interpret import interpret
from lumijit.compiler.ops import arithmetic as ar
from lumijit.compiler.trace import Node, emit2
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import BOOL, UINT32
from tests.compiler.support import (
    array,
    assert_same,
    data,
    edge_values,
    lit,
    random_values,
)
from tests.compiler.test_random import TYPES, Author

TRUE = trace.make_true(1)
FLAGS = (
    JitFlag.OptimizeCalls,
    JitFlag.MergeFunctions,
    JitFlag.ValueNumbering,
    JitFlag.ConstantPropagation,
    JitFlag.OptimizeLoops,
)


def call(index: Node, bodies: list[Any], size: int, active: Node = TRUE) -> list[Node]:
    """Trace functions that return tuples of nodes, and call them by index."""
    with regions.scope("call", size) as inner:
        traced = [
            calls.Body(inner, [], {}, tuple(body()), [k])
            for k, body in enumerate(bodies)
        ]
    return calls.close_call(index, active, len(bodies), traced, inner, "call")


class Caller(Author):
    """Writes programs with calls.

    A call has some templates, each a seed from which bodies are written, and
    instances of them, which differ in literals, uniform values and tables.
    """

    def __init__(self, seed: int, size: int) -> None:
        super().__init__(seed, size)
        self.numbers = np.random.default_rng(seed)
        self.max_bodies = 1 << self.random.randint(1, 5)

    def step(self, depth: int) -> None:
        if depth and self.random.random() < 0.25:
            self.pool = [*self.pool, *self.call(depth)]
        else:
            super().step(depth)

    def instance(self) -> list[Node]:
        """Return the uniform data of an instance; one in three pieces is common."""
        found = []
        for t in TYPES:
            value = self.numbers.choice(edge_values(t))
            found.append(lit(t, value.item()))
            value = self.numbers.choice(random_values(t, 5, 7))
            found.append(array([value], t))
        return found

    def gather(self, depth: int) -> list[Node]:
        table = self.random.choice(self.tables)
        places = self.place(11 if table.size == 11 else 3)
        return [memory.gather(table, places, self.pick(BOOL))]

    def call(self, depth: int) -> list[Node]:
        count = self.random.randint(1, self.max_bodies)
        seeds = [self.random.randrange(1 << 30) for _ in range(3)]
        chosen = [self.random.choice(seeds) for _ in range(count)]
        types = [self.random.choice(TYPES) for _ in range(self.random.randint(1, 3))]
        steps = self.random.randint(1, 6)
        limit = lit(UINT32, count + self.random.randint(0, 2))
        index = emit2(ar.MOD, self.pick(UINT32), limit)
        active = self.pick(BOOL)
        outer, tables, numbers = self.pool, self.tables, self.random
        bodies = []
        with regions.scope("call", self.size) as inner:
            for k, seed in enumerate(chosen):
                self.random = type(numbers)(seed)
                self.pool = [*outer, *self.instance()]
                own = [
                    array(random_values(t, 3, int(self.numbers.integers(1000))), t)
                    for t in self.random.sample(TYPES, 4)
                ]
                self.tables = [*tables[:4], *own]
                outputs = self.block(steps, depth - 1, types)
                body = calls.Body(inner, inner.effects, inner.writes, outputs, [k])
                bodies.append(body)
                regions.restore_writes(inner)
                claims = {key: node for key, (_, node) in inner.writes.items()}
                inner.claimed.update(claims)
                inner.effects, inner.writes = [], {}
        self.pool, self.tables, self.random = outer, tables, numbers
        for body in bodies:
            inner.writes.update(body.writes)
        return calls.close_call(index, active, count, bodies, inner, "call")


def results(seed: int, size: int, steps: int) -> list[Node]:
    author = Caller(seed, size)
    for _ in range(steps):
        author.step(2)
    found = [node for node in author.pool[-10:] if node.size]
    return [*found, *[holder._node for holder in author.holders]]


def set_flags(stack: ExitStack, flags: dict[JitFlag, bool]) -> None:
    for flag, value in flags.items():
        stack.enter_context(scoped_set_flag(flag, value))


@settings(max_examples=70, deadline=None, derandomize=True)
@given(
    st.integers(0, 10**9),
    st.sampled_from([1, 2, 7, 17, 67, 130]),
    st.integers(1, 8),
    st.tuples(*[st.booleans()] * len(FLAGS)),
)
def test_random_programs(
    seed: int, size: int, steps: int, values: tuple[bool, ...]
) -> None:
    flags = dict(zip(FLAGS, values, strict=True))
    plain = {**flags, JitFlag.OptimizeCalls: False, JitFlag.MergeFunctions: False}
    with ExitStack() as stack:
        set_flags(stack, plain)
        expected = interpret(results(seed, size, steps))
    with ExitStack() as stack:
        set_flags(stack, flags)
        wanted = results(seed, size, steps)
        again = interpret(wanted)
        evaluate.evaluate(wanted)
        for node, merged, right in zip(wanted, again, expected, strict=True):
            assert_same(merged, right)
            assert_same(data(node), right)
