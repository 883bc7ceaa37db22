"""Value numbering: every equal node alive is found, and none that is not equal."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir import trace, value_numbering
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import CAST, EVALUATED
from lumijit.compiler.ir.trace import append, emit1, emit2, emit3
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import regions
from lumijit.runtime.dtypes import FLOAT32, INT32, UINT32
from tests.compiler.support import array, data, lit

BINARY = (ar.ADD, ar.SUB, ar.MUL, ar.MIN, lo.LT)


@pytest.fixture(autouse=True)
def _no_garbage() -> Iterator[None]:
    """Keep the collector out of what is said about reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def floats(size: int = 8) -> Node:
    return array(np.arange(size), FLOAT32)


def many_uses(x: Node, count: int) -> list[Node]:
    return [emit2(ar.SUB, x, lit(FLOAT32, k + 0.5)) for k in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 63, 64, 65, 200])
def test_uses_are_found_however_many_there_are(count: int) -> None:
    x = floats()
    first = many_uses(x, count)
    assert len({id(n) for n in first}) == count
    again = many_uses(x, count)
    assert all(a is b for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("count", [0, 3, 100])
def test_literals_as_first_operand(count: int) -> None:
    """The other operand keeps them; which side it is on makes a difference."""
    # No other test has used this number.
    x, two = floats(), lit(FLOAT32, 2.5 + 2**-15)
    others = many_uses(x, count)
    nodes = [
        emit2(ar.SUB, two, x),
        emit2(ar.SUB, x, two),
        emit3(ar.FMA, two, x, lit(FLOAT32, 3.5)),
        emit3(ar.FMA, x, two, lit(FLOAT32, 3.5)),
        emit3(ar.FMA, two, lit(FLOAT32, 3.5), x),
    ]
    assert len({id(n) for n in nodes}) == 5
    assert two.uses is None
    assert emit2(ar.SUB, two, x) is nodes[0]
    assert emit2(ar.SUB, x, two) is nodes[1]
    assert emit3(ar.FMA, two, x, lit(FLOAT32, 3.5)) is nodes[2]
    assert len(others) == count


def test_attribute_and_type_tell_operations_apart() -> None:
    x = array(np.arange(8), UINT32)
    kept = many_uses(trace.cast_to(x, FLOAT32), 10)
    nodes: list[Node] = []
    for _ in range(2):
        nodes += [append(lo.SHL_BY, UINT32, (x,), k) for k in range(1, 9)]
        nodes += [append(CAST, t, (x,)) for t in (INT32, FLOAT32)]
    assert len({id(n) for n in nodes}) == 10
    assert all(nodes[k] is nodes[k + 10] for k in range(10))
    assert kept


def operation(kind: int, a: Node, b: Node) -> tuple[Any, ...]:
    if kind < 5:
        return BINARY[kind], a, b
    return (ar.SQRT, a) if kind == 5 else (ar.FMA, a, b, a)


def emit(op: Op, deps: list[Node]) -> Node:
    made: Node = (emit1, emit2, emit3)[op.arity - 1](op, *deps)
    return made


Step = tuple[int, int, int, bool]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 6), st.integers(0, 99), st.integers(0, 99), st.booleans()
        ),
        min_size=1,
        max_size=120,
    )
)
def test_against_a_table_of_everything(steps: list[Step]) -> None:
    """A table that keeps its nodes knows which operations are equal."""
    leaves = [floats(), floats(), lit(FLOAT32, 2.5)]
    held: list[Node] = list(leaves)
    known: dict[Any, weakref.ref[Node]] = {}
    for kind, i, j, is_dropped in steps:
        a, b = held[i % len(held)], held[j % len(held)]
        if a is b or a.type is not FLOAT32 or b.type is not FLOAT32:
            continue
        op, *deps = operation(kind, a, b)
        node = emit(op, deps)
        if node.op is not op or node.deps != tuple(deps):
            continue
        key = (op, *map(id, deps))
        entry = known.get(key)
        before = entry() if entry is not None else None
        if before is not None and before.op is op and before.deps == tuple(deps):
            assert node is before
        known[key] = weakref.ref(node)
        assert emit(op, deps) is node
        if not is_dropped:
            held.append(node)


# Nothing is kept


@pytest.mark.parametrize("count", [1, 2, 4, 5, 100])
def test_uses_keep_nothing_alive(count: int) -> None:
    x = floats()
    entries = [weakref.ref(n) for n in many_uses(x, count)]
    assert all(entry() is None for entry in entries)
    host = weakref.ref(x)
    nodes = many_uses(x, count)
    del nodes, x
    assert host() is None


def test_dead_uses_are_forgotten() -> None:
    x = floats()
    for k in range(5000):
        emit2(ar.MUL, x, lit(FLOAT32, k + 0.25))
    assert x.uses() is None
    kept = many_uses(x, 100)
    assert isinstance(x.uses, value_numbering.Table)
    for k in range(5000):
        emit2(ar.MUL, x, lit(FLOAT32, k + 0.25))
        assert len(x.uses.entries) <= 300
    x.uses.sweep()
    assert len(x.uses.entries) == 100
    assert many_uses(x, 100)[50] is kept[50]


def test_literals_are_swept() -> None:
    for k in range(5000):
        lit(FLOAT32, k + 0.25)
    value_numbering.roots.sweep()
    entries = value_numbering.roots.entries
    assert len(entries) < 2500
    assert all(entry() is not None for entry in entries.values())


def test_evaluated_uses_make_room() -> None:
    x = floats()
    results = []
    for k in range(20):
        node = emit2(ar.MUL, x, lit(FLOAT32, k + 2.5))
        evaluate.evaluate([node])
        assert node.op is EVALUATED
        results.append(node)
        assert not isinstance(x.uses, value_numbering.Table)
    again = emit2(ar.MUL, x, lit(FLOAT32, 2.5))
    assert again is not results[0]
    np.testing.assert_array_equal(data(again), data(results[0]))


# Scopes


@pytest.mark.parametrize("count", [0, 1, 3, 4, 50])
def test_siblings_do_not_see_each_other(count: int) -> None:
    x = floats()
    outside = many_uses(x, count)
    kept: list[Node] = []
    for _ in range(8):
        with regions.scope("side") as side:
            assert many_uses(x, count) == outside
            made = emit2(ar.ADD, x, x)
            assert made.scope is side
            assert all(made is not other for other in kept)
            with regions.scope("inner"):
                assert emit2(ar.ADD, x, x) is made
            assert emit2(ar.ADD, x, x) is made
            kept.append(made)
    after = emit2(ar.ADD, x, x)
    assert not trace.is_symbolic(after)
    assert emit2(ar.ADD, x, x) is after
    with regions.scope("later"):
        assert emit2(ar.ADD, x, x) is after


def test_a_thread_begins_outside() -> None:
    x = floats()
    found: list[Node] = []
    with regions.scope("mine"):
        mine = emit2(ar.ADD, x, x)
        thread = threading.Thread(target=lambda: found.append(emit2(ar.ADD, x, x)))
        thread.start()
        thread.join()
        assert found[0] is not mine
        assert found[0].scope is ROOT
        assert trace.state.scope is not ROOT
    assert trace.state.scope is ROOT


def test_threads_share_operands() -> None:
    """Threads that use the same operands at once get right results."""
    x, y = floats(64), array(np.linspace(1, 2, 64), FLOAT32)
    failures: list[BaseException] = []
    expected = np.arange(64, dtype=np.float32)
    other = np.linspace(1, 2, 64).astype(np.float32)

    def work(seed: int) -> None:
        choose = random.Random(seed)
        try:
            for _ in range(200):
                k = choose.randrange(40)
                node = emit2(ar.MUL, emit2(ar.ADD, x, lit(FLOAT32, k + 0.5)), y)
                if k == 0:
                    wanted = (expected + np.float32(0.5)) * other
                    np.testing.assert_array_equal(data(node), wanted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_operations_of_one_key_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are mixed of addresses, so that two operations may have the same."""
    monkeypatch.setattr(value_numbering, "_key", lambda *_: 7, raising=False)
    x, y, z = floats(), floats(), floats()
    kept = many_uses(z, 20)
    first = [emit3(ar.FMA, a, b, z) for a in (x, y) for b in (x, y)]
    assert [n.deps[:2] for n in first] == [(x, x), (x, y), (y, x), (y, y)]
    assert emit3(ar.FMA, y, y, z) is first[-1]
    assert emit3(ar.FMA, x, y, z).deps == (x, y, z)
    assert emit1(ar.NEG, z).deps == (z,)
    assert len(kept) == 20
