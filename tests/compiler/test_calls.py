"""Calls: kernels against the interpreter, and merged bodies against separate ones.

The interpreter runs the trace as merging left it, so it can't see a body that reads
another instance's data. A second trace of the same program with neither merging nor
moved results is the reference for that.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.structural import CALL, PROJECT
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import calls, memory, regions
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import ARITHMETIC, BOOL, FLOAT32, UINT32, DType
from tests.compiler.support import (
    Holder,
    array,
    assert_same,
    check,
    data,
    edge_values,
    lit,
    random_values,
)
from tests.compiler.test_random import TYPES, Author
from tests.verifier.interpret import interpret

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
            # A result that is the same for all may have one entry.
            for found in (merged, data(node)):
                both = np.broadcast_arrays(found, right)
                assert_same(both[0], both[1])


def leaf(t: DType, k: int) -> Node:
    return array([k + 1], t)


def calls_of(nodes: list[Node]) -> list[Node]:
    """Return the call regions behind nodes."""
    return [n.deps[0] for n in nodes if n.op is PROJECT and n.deps[0].op is CALL]


@pytest.mark.parametrize("t", ARITHMETIC, ids=lambda t: t.short)
@pytest.mark.parametrize("count", [2, 9, 40])
@pytest.mark.parametrize("size", [1, 3, 17, 100])
def test_data_of_every_type(t: DType, count: int, size: int) -> None:
    x = array(np.arange(size) % 7, t)
    index = array(np.arange(size) * 5 % (count + 1), UINT32)

    def body(k: int) -> Any:
        return lambda: (emit2(ar.ADD, x, leaf(t, k % 9)), leaf(t, k), lit(t, k % 5))

    found = call(index, [body(k) for k in range(count)], size)
    total, passed, literal = check(found)
    k = np.arange(size) * 5 % (count + 1)
    is_called = k < count
    dtype = t.numpy
    with np.errstate(all="ignore"):
        goal = (np.arange(size) % 7).astype(dtype) + (k % 9 + 1).astype(dtype)
        assert_same(total, np.where(is_called, goal, 0).astype(dtype))
        assert_same(passed, np.where(is_called, (k + 1).astype(dtype), 0).astype(dtype))
    assert_same(literal, np.where(is_called, k % 5, 0).astype(dtype))


@pytest.mark.parametrize("is_merging", [False, True])
def test_flag_merge_functions(is_merging: bool) -> None:
    x, index = array(np.arange(20), FLOAT32), array(np.arange(20) % 3, UINT32)
    bodies = [
        lambda k=k: (emit2(ar.MUL, emit2(ar.ADD, x, leaf(FLOAT32, k)), x),)
        for k in range(3)
    ]
    with scoped_set_flag(JitFlag.MergeFunctions, is_merging):
        found = call(index, bodies, 20)
    assert [len(n.attr.bodies) for n in calls_of(found)] == ([] if is_merging else [3])
    (result,) = check(found)
    numbers = np.arange(20)
    assert result.tolist() == ((numbers + numbers % 3 + 1) * numbers).tolist()


@pytest.mark.parametrize("is_optimizing", [False, True])
def test_flag_optimize_calls(is_optimizing: bool) -> None:
    """Results that all bodies compute alike need no call."""
    x, index = array(np.arange(20), FLOAT32), array(np.arange(20) % 4, UINT32)

    def body(op: Any) -> Any:
        return lambda: (emit2(ar.MUL, x, x), emit2(op, x, lit(FLOAT32, 3)))

    with scoped_set_flag(JitFlag.OptimizeCalls, is_optimizing):
        found = call(index, [body(ar.ADD), body(ar.MUL), body(ar.SUB)], 20)
    assert len(calls_of(found)) == 2 - is_optimizing
    common, _ = check(found)
    numbers = np.arange(20)
    assert common.tolist() == np.where(numbers % 4 < 3, numbers**2, 0).tolist()


@pytest.mark.parametrize("count", [3, 12])
def test_inactive_and_out_of_range(count: int) -> None:
    size = 100
    index = np.random.default_rng(1).integers(0, 1 << 32, size, np.uint32)
    index[::2] = np.arange(50) % count
    active = np.arange(size) % 3 > 0
    x = array(np.arange(size), FLOAT32)
    ops = (ar.ADD, ar.MUL, ar.SUB, ar.MIN)
    bodies = [
        lambda k=k: (emit2(ops[k % 4], x, lit(FLOAT32, 10 + k)),) for k in range(count)
    ]
    with scoped_set_flag(JitFlag.MergeFunctions, False):
        found = call(array(index, UINT32), bodies, size, array(active, BOOL))
    (result,) = check(found)
    plain: list[Any] = [np.add, np.multiply, np.subtract, np.minimum]
    expected = [
        float(plain[k % 4](v, 10 + k)) if k < count and on else 0.0
        for v, (k, on) in enumerate(zip(index.tolist(), active, strict=True))
    ]
    assert result.tolist() == expected


def test_writes_of_bodies_that_share_their_operands() -> None:
    """Each body adds another expression of the same nodes, to the same array."""
    size, count = 64, 12
    x = array(np.arange(size), UINT32)
    index = array(np.arange(size) % count, UINT32)
    holder = Holder(array([0, 0, 0], UINT32))
    bodies = []
    with regions.scope("call", size) as inner:
        for k in range(count):
            common = emit2(ar.MUL, x, lit(UINT32, 3))
            if k % 3:
                value = emit2(ar.ADD, common, lit(UINT32, k))
                place = lit(UINT32, k % 3)
                memory.scatter(holder, value, place, TRUE, "add")
            outputs = (emit2(ar.ADD, common, x),)
            bodies.append(calls.Body(inner, inner.effects, inner.writes, outputs, [k]))
            regions.restore_writes(inner)
            inner.effects, inner.writes = [], {}
    for body in bodies:
        inner.writes.update(body.writes)
    found = calls.close_call(index, TRUE, count, bodies, inner, "call")
    check([holder._node, *found])
    number = np.arange(size) % count
    terms = np.arange(size) * 3 + number
    sums = [int((terms * (number % 3 == r)).sum()) for r in (1, 2)]
    assert data(holder._node).tolist() == [0, *sums]
    assert data(found[0]).tolist() == (np.arange(size) * 4).tolist()
