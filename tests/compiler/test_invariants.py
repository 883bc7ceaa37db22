"""What a loop computes alike in each turn is computed before it, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.trace import emit1, emit2, select
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.packet.target import PacketTarget
from lumijit.compiler.plan.program import Program
from lumijit.runtime.dtypes import FLOAT32, UINT32
from tests.compiler.support import array, branch, check, lit, loop

pytestmark = pytest.mark.usefixtures("each_target")

SIZE = 70
X = np.linspace(-3, 3, SIZE, dtype=np.float32)
TURNS = np.arange(SIZE, dtype=np.uint32) % 5


def f(value: float) -> Node:
    return lit(FLOAT32, value)


def u(value: int) -> Node:
    return lit(UINT32, value)


def root(x: Node) -> Node:
    return emit1(ar.SQRT, emit1(ar.ABS, x))


def repeated(*outside: Node, body: Callable[..., Node], turns: Node) -> list[Node]:
    """Return a loop's final number and value; `outside` goes through its state."""

    def step(i: Node, y: Node, *state: Node) -> tuple[Node, ...]:
        return emit2(ar.ADD, i, u(1)), body(y, *state), *state

    inits = (lit(UINT32, 0, SIZE), lit(FLOAT32, 0.5, SIZE), *outside)
    return loop(inits, lambda i, *_: emit2(lo.LT, i, turns), step)


def code(nodes: list[Node]) -> str:
    program = Program(nodes[0].size, nodes, [], 0)
    return PacketTarget().code(program, "kernel", kernels.target()).ir


def roots(text: str) -> int:
    """Count the places where roots are computed."""
    return len(re.findall(r"= call .*llvm\.sqrt", text))


def before_loops(text: str) -> str:
    """Return what comes before the first loop's header."""
    return text[: re.search(r"^loop\d+:", text, re.M).start()]  # type: ignore[union-attr]


def test_operands_from_outside() -> None:
    x = array(X, FLOAT32)
    found = repeated(
        body=lambda y: emit2(ar.ADD, y, root(x)), turns=array(TURNS, UINT32)
    )
    assert "llvm.sqrt" in before_loops(code(found[1:2]))
    check(found[1:2])


def test_state_that_stays() -> None:
    found = repeated(
        array(X, FLOAT32),
        body=lambda y, x: emit2(ar.ADD, y, root(x)),
        turns=array(TURNS, UINT32),
    )
    assert "llvm.sqrt" in before_loops(code(found[1:2]))
    check(found[1:2])


def test_what_changes_stays_inside() -> None:
    found = repeated(
        array(X, FLOAT32),
        body=lambda y, x: root(emit2(ar.ADD, y, x)),
        turns=array(TURNS, UINT32),
    )
    assert "llvm.sqrt" not in before_loops(code(found[1:2]))
    check(found[1:2])


def test_cheap_operations_stay_inside() -> None:
    x = array(X, FLOAT32)
    found = repeated(
        body=lambda y: emit2(ar.MUL, y, emit2(ar.ADD, x, f(3))),
        turns=array(TURNS, UINT32),
    )
    assert "fadd" not in before_loops(code(found[1:2]))
    check(found[1:2])


def test_out_of_both_loops() -> None:
    x, turns = array(X, FLOAT32), array(TURNS, UINT32)

    def inner(y: Node, x: Node) -> Node:
        return repeated(
            x,
            body=lambda z, x: emit2(ar.ADD, emit2(ar.MUL, z, f(0.5)), root(x)),
            turns=turns,
        )[1]

    found = repeated(x, body=lambda y, x: emit2(ar.ADD, y, inner(y, x)), turns=turns)
    text = code(found[1:2])
    assert roots(text) == roots(before_loops(text)) == 1
    check(found[1:2])


def test_out_of_the_inner_loop_only() -> None:
    turns = array(TURNS, UINT32)

    def inner(y: Node) -> Node:
        return repeated(
            body=lambda z: emit2(ar.ADD, emit2(ar.MUL, z, f(0.5)), root(y)), turns=turns
        )[1]

    found = repeated(
        body=lambda y: emit2(ar.MUL, emit2(ar.ADD, y, inner(y)), f(0.1)), turns=turns
    )
    text = code(found[1:2])
    headers = [m.start() for m in re.finditer(r"^loop\d+:", text, re.M)]
    assert headers[0] < text.index("call <", text.index("llvm.sqrt") - 60) < headers[1]
    check(found[1:2])


def test_sides_of_branches_stay_there() -> None:
    x, turns = array(X, FLOAT32), array(TURNS, UINT32)

    def body(y: Node) -> Node:
        return branch(
            emit2(lo.GT, y, f(3)),
            lambda: (emit2(ar.ADD, y, emit1(ma.ERF, root(x))),),
            lambda: (emit2(ar.SUB, y, f(1)),),
        )[0]

    found = repeated(body=body, turns=turns)
    assert "llvm.sqrt" not in before_loops(code(found[1:2]))
    check(found[1:2], 8)


def test_masks() -> None:
    x, turns = array(X, FLOAT32), array(TURNS, UINT32)

    def body(y: Node) -> Node:
        is_large = emit2(lo.GT, root(x), f(1))
        return select(is_large, emit2(ar.ADD, y, f(1)), emit2(ar.MUL, y, f(0.5)))

    found = repeated(body=body, turns=turns)
    assert "llvm.sqrt" in before_loops(code(found[1:2]))
    check(found[1:2])


def test_conditions() -> None:
    x = array(X, FLOAT32)

    def cond(i: Node, y: Node) -> Node:
        return emit2(lo.LT, y, emit2(ar.MUL, root(x), f(4)))

    def step(i: Node, y: Node) -> tuple[Node, ...]:
        return emit2(ar.ADD, i, u(1)), emit2(ar.ADD, y, f(1))

    found = loop((lit(UINT32, 0, SIZE), lit(FLOAT32, 0.5, SIZE)), cond, step)
    assert "llvm.sqrt" in before_loops(code(found))
    check(found)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 2**31))
def test_random_nests(seed: int) -> None:
    """Loops in loops whose bodies mix what stays and what changes."""
    rng = np.random.default_rng(seed)
    turns = array(TURNS, UINT32)

    def value(pool: list[Node], depth: int) -> Node:
        pool = list(pool)
        for _ in range(int(rng.integers(1, 5))):
            a, b = (pool[int(rng.integers(len(pool)))] for _ in range(2))
            kind = int(rng.integers(7 if depth else 6))
            if kind == 6:
                outside = [a] if rng.random() < 0.5 else []
                pool.append(nest(pool, outside, depth - 1))
            elif kind == 5:
                pool.append(
                    select(emit2(lo.LT, root(a), b), a, emit2(ar.MUL, b, f(0.5)))
                )
            elif kind == 4:
                side = emit2(lo.GT, a, b)
                pool.append(
                    branch(
                        side,
                        lambda a=a: (root(a),),
                        lambda b=b: (emit2(ar.SUB, b, f(1)),),
                    )[0]
                )
            else:
                made = (
                    root(a),
                    emit2(ar.ADD, a, b),
                    emit2(ar.MUL, a, f(0.25)),
                    emit2(ar.DIV, a, f(3)),
                )
                pool.append(made[kind])
        return pool[-1]

    def nest(pool: list[Node], outside: list[Node], depth: int) -> Node:
        return repeated(
            *outside,
            body=lambda y, *state: emit2(
                ar.MUL, value([*pool, *state, y], depth), f(0.5)
            ),
            turns=turns,
        )[1]

    check([nest([array(X, FLOAT32), array(X[::-1].copy(), FLOAT32)], [], 2)])
