"""`verify`: right traces pass, and every rule is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir import effects, trace
from lumijit.compiler.ir.local_types import local_type
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD, FLOOR, MUL
from lumijit.compiler.ir.ops.logic import LT, SELECT, SHL_BY
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    GATHER,
    GATHER_AT,
    LITERAL,
    LOCAL,
    LOCAL_READ,
    PROJECT,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_INC,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.launch import delivery
from lumijit.compiler.plan import schedule
from lumijit.compiler.plan.program import Program
from lumijit.compiler.record import memory, regions
from lumijit.runtime.dtypes import BOOL, FLOAT32, FLOAT64, INT32, UINT32, VOID, DType
from tests.compiler.support import Holder, array, branch, lit, loop
from tests.verifier.grammar import check_node
from tests.verifier.verify import (
    VerificationError,
    verify,
    verify_plan,
    verify_program,
)

TRUE = trace.make_true(1)
ADDS = effects.Reduction("add", "auto")


def floats(size: int = 8) -> Node:
    return array(np.arange(size), FLOAT32)


def made(
    op: object, dtype: object, size: int, *deps: Node, attr: object = None
) -> Node:
    return trace.make(op, dtype, size, deps, attr)  # type: ignore[arg-type]


BROKEN: dict[str, Callable[[], Node]] = {
    "the number of operands is right": lambda: made(ADD, FLOAT32, 8, floats()),
    "the operation takes this type": lambda: made(FLOOR, UINT32, 8, trace.counter(8)),
    "the operand has the right type": lambda: made(
        ADD, FLOAT32, 8, trace.counter(8), floats()
    ),
    "the result has the right type": lambda: made(LT, FLOAT32, 8, floats(), floats()),
    "the mask has the right type": lambda: made(
        SELECT, FLOAT32, 8, floats(), floats(), floats()
    ),
    "operands have one size, or size 1": lambda: made(
        ADD, FLOAT32, 8, floats(8), floats(7)
    ),
    "the size is that of the operands": lambda: made(
        ADD, FLOAT32, 9, floats(), floats()
    ),
    "other operations have no attribute": lambda: made(
        ADD, FLOAT32, 8, floats(), floats(), attr=3
    ),
    "a constant shift stays within the bits": lambda: made(
        SHL_BY, UINT32, 8, trace.counter(8), attr=32
    ),
    "a literal is a number of its type": lambda: made(LITERAL, INT32, 1, attr=1 << 40),
    "a source has no operands": lambda: made(COUNTER, UINT32, 8, floats()),
    "the counter has the right type": lambda: made(COUNTER, INT32, 8),
    "a conversion changes the type": lambda: made(CAST, FLOAT32, 8, floats()),
    "a bitcast keeps the width": lambda: made(BITCAST, FLOAT64, 8, floats()),
    "only values are converted": lambda: made(CAST, VOID, 8, floats()),
    "the index has the right type": lambda: made(
        GATHER, FLOAT32, 8, floats(), floats(), TRUE
    ),
    "a write is a known reduction": lambda: made(
        SCATTER,
        VOID,
        8,
        floats(),
        floats(),
        trace.counter(8),
        TRUE,
        attr=effects.Reduction("xor", "auto"),
    ),
    "a version comes from an effect": lambda: made(WRITTEN, FLOAT32, 8, floats()),
    "a projection is a result of a region": lambda: made(
        PROJECT, FLOAT32, 8, floats(), attr=0
    ),
    "the value has the right type": lambda: made(
        SCATTER, VOID, 8, floats(), trace.counter(8), trace.counter(8), TRUE, attr=ADDS
    ),
    "the address has the right type": lambda: made(
        GATHER_AT, FLOAT32, 8, floats(), trace.counter(8), TRUE
    ),
    "what is added to an index is a number": lambda: made(
        GATHER, FLOAT32, 8, floats(), trace.counter(8), TRUE, attr="1"
    ),
    "local memory has buffers": lambda: made(
        LOCAL_READ, FLOAT32, 8, floats(), trace.counter(8), TRUE, attr=1
    ),
    "its attribute is its serial": lambda: made(LOCAL, local_type(FLOAT32, 4), 8),
    "the size is in range": lambda: made(LITERAL, INT32, -1, attr=0),
    "the memory of an evaluated node holds it": lambda: _too_large(),
    "only evaluated nodes have memory": lambda: _with_memory(),
    "no node depends on itself": lambda: _cycle(),
    "operands are computed before, or captured": lambda: _reordered(),
    "effects follow the order of versions": lambda: _skipped_version(),
    "the next value has the right type": lambda: _changed_type(),
}


def _too_large() -> Node:
    node = floats(8)
    node.size = 1 << 20
    return node


def _with_memory() -> Node:
    node = trace.emit2(ADD, floats(), floats())
    node.buffer = floats().buffer
    return node


def _cycle() -> Node:
    first = trace.emit2(ADD, floats(), floats())
    second = trace.emit2(MUL, first, floats())
    first.deps = (second, second)
    return second


def _loop() -> Node:
    two = lit(FLOAT32, 2)
    (result,) = loop(
        (floats(),),
        lambda x: trace.emit2(LT, x, lit(FLOAT32, 50)),
        lambda x: (trace.emit2(ADD, trace.emit2(MUL, x, two), two),),
    )
    return result


def _reordered() -> Node:
    node = _loop()
    body = node.deps[0].attr.body
    _change_body(node.deps[0], nodes=body.nodes[::-1])
    return node


def _change_body(node: Node, nodes: Any = None, outputs: Any = None) -> None:
    loop = node.attr
    body = Block(nodes or loop.body.nodes, outputs or loop.body.outputs)
    rest = loop.label, loop.operands, loop.key, loop.is_consumed, loop.bound
    node.attr = Region(loop.op, loop.args, (loop.header, body), *rest)


def _changed_type() -> Node:
    node = _loop()
    _change_body(node.deps[0], outputs=node.deps[0].attr.header.outputs)
    node.type = BOOL
    return node


def _skipped_version() -> Node:
    holder = Holder(floats())
    cond = trace.emit2(LT, floats(), lit(FLOAT32, 3))

    def write() -> tuple[Node, ...]:
        for k in range(2):
            value = lit(FLOAT32, k)
            memory.scatter(holder, value, trace.counter(8), TRUE)
        return ()

    branch(cond, write, lambda: (), (holder,))
    region = holder._node.deps[0]
    effects = [n for n in region.attr.true.nodes if n.op is SCATTER]
    effects[1].deps = (effects[0].deps[0], *effects[1].deps[1:])
    return holder._node


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_rule(rule: str) -> None:
    node = BROKEN[rule]()
    with pytest.raises(VerificationError) as caught:
        verify([node])
    # Writes are scheduled as long as their nodes live, which `caught` sees to.
    delivery.waiting().scheduled.clear()
    assert caught.value.rule == rule
    assert caught.value.node.op.name in str(caught.value)


@pytest.mark.parametrize(
    ("op", "type_", "target"),
    [(SCATTER_INC, FLOAT32, FLOAT32), (SCATTER_ERROR, UINT32, UINT32)],
)
def test_counters_are_uint32_and_errors_floats(
    op: Op, type_: DType, target: DType
) -> None:
    value = (array(range(8), target),) if op is SCATTER_ERROR else ()
    node = made(op, type_, 8, array(range(8), target), *value, trace.counter(8), TRUE)
    with pytest.raises(VerificationError, match="the operation takes this type"):
        check_node(node)


def test_values_of_a_region_have_no_entries() -> None:
    with regions.scope():
        arg = regions.argument(FLOAT32, 8, 0)
        with pytest.raises(VerificationError, match="an indexed array has entries"):
            check_node(made(GATHER, FLOAT32, 8, arg, trace.counter(8), TRUE))


def test_results_of_regions() -> None:
    node = _loop()
    node.attr = 1
    with pytest.raises(VerificationError, match="is a result of a region"):
        verify([node])


def test_right_traces() -> None:
    verify([_loop(), floats(), lit(BOOL, True), trace.undefined(FLOAT64, 3)])
    verify([trace.literal(FLOAT32, float("nan"), 9)])


def test_node_of_closed_scope() -> None:
    with regions.scope() as inner:
        arg = regions.argument(FLOAT32, 8, 0)
        total = trace.emit2(ADD, arg, arg)
        verify([total])
    assert inner.depth == 1
    with pytest.raises(VerificationError, match="scope of a node is open"):
        verify([total])
    with pytest.raises(VerificationError, match="come from the node's scope"):
        check_node(made(ADD, FLOAT32, 8, total, total))


def test_plan_and_program() -> None:
    node = trace.emit2(ADD, trace.counter(8), trace.counter(8))
    found = schedule.plan([node])
    verify_plan(found)
    found.groups[0].size = 9
    with pytest.raises(VerificationError, match="a group has one size"):
        verify_plan(found)
    program = Program(8, [node], [], 0)
    verify_program(program)
    program.nodes.reverse()
    with pytest.raises(VerificationError, match="operands come before their uses"):
        verify_program(program)


def test_unstable_key() -> None:
    node = trace.emit2(ADD, trace.counter(8), trace.counter(8))
    program = Program(8, [node], [], 0)
    program.key = (*program.key, "more")
    with pytest.raises(VerificationError, match="the same nodes give the same key"):
        verify_program(program)
    program.key = (object(),)
    with pytest.raises(VerificationError, match="a key holds no addresses"):
        verify_program(program)
