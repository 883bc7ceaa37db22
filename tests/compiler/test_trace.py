"""The trace: value numbering, scopes, sizes, and very long programs."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

from lumijit.compiler.ir import simplify, trace
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import COUNTER, EVALUATED, LITERAL
from lumijit.compiler.ir.trace import cast_to, emit1, emit2, emit3
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import regions
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import BOOL, FLOAT32, FLOAT64, INT32, UINT32
from lumijit.runtime.errors import SizeError
from tests.compiler.support import array, data, lit


def floats(size: int = 8) -> Node:
    return array(np.arange(size), FLOAT32)


# Value numbering


def test_equal_operations_are_one_node() -> None:
    x, y = floats(), floats()
    assert emit2(ar.ADD, x, y) is not emit2(ar.ADD, y, x)
    held = [
        emit2(ar.SUB, x, y),
        emit1(ar.SQRT, x),
        emit3(ar.FMA, x, y, x),
        cast_to(x, INT32),
        trace.bitcast_to(x, UINT32),
        trace.counter(9),
        lit(FLOAT32, 2.5),
    ]
    again = [
        emit2(ar.SUB, x, y),
        emit1(ar.SQRT, x),
        emit3(ar.FMA, x, y, x),
        cast_to(x, INT32),
        trace.bitcast_to(x, UINT32),
        trace.counter(9),
        lit(FLOAT32, 2.5),
    ]
    assert all(a is b for a, b in zip(held, again, strict=True))


def test_different_operations_are_different_nodes() -> None:
    x, y = floats(), floats()
    ops = (ar.ADD, ar.SUB, ar.MUL, ar.DIV, ar.MIN, ar.MAX, ar.COPYSIGN, lo.LT, lo.LE)
    nodes = [emit2(op, *pair) for op in ops for pair in ((x, y), (y, x), (x, x))]
    distinct = {id(n) for n in nodes}
    assert len(distinct) >= len(nodes) - 2
    casts = [cast_to(x, t) for t in (INT32, UINT32, FLOAT64, BOOL)]
    assert len({id(n) for n in casts}) == 4
    bits = trace.bitcast_to(x, INT32)
    assert bits is not casts[0]
    assert lit(FLOAT32, 1) is not lit(FLOAT64, 1)
    assert lit(FLOAT32, 1) is not lit(FLOAT32, 1, 2)
    assert lit(FLOAT32, 0.0) is not lit(FLOAT32, -0.0)
    assert lit(BOOL, 1) is not lit(INT32, 1)


def test_without_value_numbering() -> None:
    x = floats()
    with scoped_set_flag(JitFlag.ValueNumbering, False):
        assert emit2(ar.MUL, x, x) is not emit2(ar.MUL, x, x)


def test_reused_ids_are_no_hits() -> None:
    """Operands die and others take their addresses; results must not be mixed up."""
    x = floats(1000)
    kept = []
    for k in range(3000):
        operand = emit2(ar.MUL, x, lit(FLOAT32, k + 0.5))
        node = emit2(ar.ADD, operand, x)
        if k % 100 == 0:
            kept.append((k, node))
        del operand, node
    for k, node in kept:
        expected = np.arange(1000, dtype=np.float32)
        expected = expected * np.float32(k + 0.5) + expected
        np.testing.assert_array_equal(data(node), expected)


def test_evaluated_nodes_are_no_hits() -> None:
    """An evaluated node has dropped its operands, whose ids may live on."""
    x = floats()
    first = emit2(ar.ADD, x, x)
    evaluate.evaluate([first])
    assert first.op is EVALUATED
    second = emit2(ar.ADD, x, x)
    assert second is not first
    np.testing.assert_array_equal(data(second), data(first))


def test_nodes_die_with_their_last_user() -> None:
    gc.collect()
    gc.disable()
    try:
        x = floats()
        node = emit2(ar.ADD, emit2(ar.MUL, x, x), x)
        entry = weakref.ref(node.deps[0])
        del node
        assert entry() is None
    finally:
        gc.enable()


# Scopes


def test_scopes_see_outer_nodes() -> None:
    x = floats()
    outer = emit2(ar.ADD, x, x)
    product = emit3(ar.FMA, x, x, outer)
    with regions.scope("outside") as first:
        assert trace.state.scope is first
        assert emit2(ar.ADD, x, x) is outer
        assert emit3(ar.FMA, x, x, outer) is product
        inside = emit2(ar.MUL, x, x)
        assert inside.scope is first
        with regions.scope("inside") as second:
            assert second.depth == 2
            assert emit2(ar.MUL, x, x) is inside
            assert lit(FLOAT32, 3).scope is ROOT
            assert trace.counter(8).scope is ROOT
        assert trace.is_symbolic(inside)
    assert trace.state.scope is ROOT
    after = emit2(ar.MUL, x, x)
    assert after is not inside
    assert not trace.is_symbolic(after)


def test_scope_is_left_after_an_error() -> None:
    def fail() -> None:
        with regions.scope():
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert trace.state.scope is ROOT


# Sizes


def test_broadcasting() -> None:
    one, many = floats(1), floats(8)
    assert emit2(ar.ADD, one, many).size == 8
    assert emit2(ar.ADD, many, one).size == 8
    assert emit2(ar.ADD, one, one).size == 1
    assert emit3(ar.FMA, one, one, many).size == 8
    empty = array([], FLOAT32)
    assert emit2(ar.ADD, empty, one).size == 0
    assert data(emit2(ar.ADD, empty, one)).size == 0


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(SizeError, match=r"add: .*incompatible sizes \(8, 7\)"):
        emit2(ar.ADD, floats(8), floats(7))
    with pytest.raises(SizeError, match=r"fma: .*incompatible sizes \(8, 1, 0\)"):
        emit3(ar.FMA, floats(8), floats(1), array([], FLOAT32))
    with pytest.raises(SizeError, match=r"Fix: use arrays of the same size"):
        trace.select(array([True] * 3, BOOL), floats(2), floats(2))


def test_impossible_sizes() -> None:
    assert trace.check_size(0, "zeros") == 0
    assert trace.check_size((1 << 32) - 1, "zeros") == (1 << 32) - 1
    with pytest.raises(SizeError, match="zeros: the size -1 is negative"):
        trace.check_size(-1, "zeros")
    with pytest.raises(SizeError, match="exceeds the limit of 4294967295 entries"):
        trace.check_size(1 << 32, "zeros")


def test_resized() -> None:
    x = array([3.0], FLOAT32)
    assert trace.resized(x, 1) is x
    assert data(trace.resized(x, 5)).tolist() == [3.0] * 5
    assert trace.resized(lit(FLOAT32, 2), 7).op is LITERAL
    assert data(trace.resized(array([True], BOOL), 3)).tolist() == [True] * 3
    with pytest.raises(SizeError, match="resize: can't resize an array of 3 entries"):
        trace.resized(floats(3), 5)


def test_counter_of_one_entry_is_zero() -> None:
    assert trace.counter(1).op is LITERAL
    assert trace.counter(2).op is COUNTER
    assert data(trace.counter(1)).tolist() == [0]


def test_repr() -> None:
    assert repr(floats(3)) == "<evaluated Float32[3]>"


# Long programs


def test_long_chain() -> None:
    """A chain beyond any recursion limit traces, evaluates and dies."""
    length = 30_000
    assert length > 10 * sys.getrecursionlimit()
    x = array(np.arange(40), UINT32)
    node = x
    for k in range(length):
        operand = x if k % 3 else lit(UINT32, k)
        node = emit2((ar.ADD, lo.XOR, ar.SUB)[k % 3], node, operand)
    expected = np.arange(40, dtype=np.uint32)
    start = expected.copy()
    for k in range(length):
        operand = start if k % 3 else np.uint32(k)
        expected = (np.add, np.bitwise_xor, np.subtract)[k % 3](expected, operand)
    np.testing.assert_array_equal(data(node), expected)


def test_very_long_chain_dies_unevaluated() -> None:
    x = floats(4)
    node = x
    for _ in range(300_000):
        node = emit2(ar.ADD, node, x)
    entry = weakref.ref(node)
    del node
    assert entry() is None


def test_wide_program() -> None:
    """Thousands of results of one size share a kernel."""
    x = array(np.arange(16), INT32)
    nodes = [emit2(ar.MUL, x, lit(INT32, k + 2)) for k in range(500)]
    evaluate.evaluate(nodes)
    for k, node in enumerate(nodes):
        np.testing.assert_array_equal(data(node), np.arange(16) * (k + 2))


def test_simplify_is_reached_through_the_trace() -> None:
    assert simplify.unary(ar.NEG, lit(INT32, 4)) is lit(INT32, -4)
