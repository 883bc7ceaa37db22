"""The order of operations in kernels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumijit as dr
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import GATHER, LOOP
from lumijit.compiler.plan import general
from lumijit.compiler.plan.arrangement import arranged
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.signature import Signature
from lumijit.llvm import PCG32, Float, UInt32


def sampled(turns: int, source: Float, flipped: bool) -> Float:
    rng, total = PCG32(size=4), dr.zeros(Float, 4)
    for _ in range(turns):
        read = dr.gather(Float, source, rng.next_uint32() & 63)
        total = read + total if flipped else total + read
    return total


def most_live(order: list[Node], outputs: list[Node]) -> int:
    """Return how many values of all elements wait for a use at most."""
    last = {dep: k for k, node in enumerate(order) for dep in node.deps}
    live, most = set[Node](), 0
    for k, node in enumerate(order):
        live.add(node)
        live -= {n for n in live if last.get(n, -1) <= k and n not in outputs}
        most = max(most, len(live))
    return most


@pytest.mark.parametrize("flipped", [False, True])
def test_samples_are_used_before_the_next_are_drawn(flipped: bool) -> None:
    source = dr.arange(Float, 64)
    dr.eval(source)
    total = sampled(40, source, flipped)
    program = Program(4, [total._node], [], 0)
    order = list(arranged(program.nodes, program.outputs))
    assert len(order) == len(program.nodes)
    wide = [n for n in order if n.size > 1]
    assert most_live(wide, program.outputs) < 16
    assert sum(n.op is GATHER for n in order) == 40


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=150),
    st.lists(st.integers(0, 400), min_size=1, max_size=4),
)
def test_operands_come_before_what_needs_them(
    steps: list[tuple[int, int]], picks: list[int]
) -> None:
    values = [dr.opaque(Float, k, 3) for k in range(2)]
    for a, b in steps:
        values.append(values[a % len(values)] * 2 + values[b % len(values)])
    outputs = [values[k % len(values)]._node for k in picks]
    program = Program(3, outputs, [], 0)
    order = arranged(program.nodes, program.outputs)
    assert set(order) == set(program.nodes)
    assert len(order) == len(program.nodes)
    places = {node: k for k, node in enumerate(order)}
    for node in order:
        assert all(places[dep] < places[node] for dep in node.deps)


def test_results_are_those_of_plain_python() -> None:
    source = dr.arange(Float, 64)
    found = [sampled(40, source, flipped).numpy() for flipped in (False, True)]
    rng = PCG32(size=4)
    expected = np.zeros(4)
    for _ in range(40):
        expected += rng.next_uint32().numpy() & 63
    for result in found:
        np.testing.assert_array_equal(result, expected)


def test_long_chains_are_put_in_order() -> None:
    x = dr.opaque(Float, 1, 5)
    y = x
    for _ in range(2000):
        y = y * y * x  # weights double with each
    np.testing.assert_array_equal((y + UInt32(0)).numpy(), np.ones(5))


def test_copies_for_lowering_have_the_same_arguments() -> None:
    """Kernels take the arguments of the general form, which lookups compare."""
    source = dr.arange(Float, 64)
    dr.eval(source)

    def body(i: UInt32, x: Float, rng: PCG32) -> tuple[UInt32, Float, PCG32]:
        for k in range(20):
            x = x * (k + 0.5) + dr.gather(Float, source, rng.next_uint32() & 63) * 0.25
        return i + 3, x, rng

    state = UInt32(0), dr.opaque(Float, 2, 4), PCG32(size=4)
    x = dr.while_loop(state, lambda i, x, rng: i < 30, body)[1]
    program = general.generalized(Program(4, [x._node], [], 0)).program
    copy = general.ordered(program)
    assert Signature.of(copy).codes == Signature.of(program).codes
    assert [n.attr for n in copy.arguments] == [n.attr for n in program.arguments]
    (loop,) = (n for n in copy.all_nodes() if n.op is LOOP)
    reads = [k for k, n in enumerate(loop.attr.body.nodes) if n.op is GATHER]
    assert len(reads) == 20
    assert max(b - a for a, b in pairwise(reads)) < 30
