"""`printer`: the listing of a trace."""

from __future__ import annotations

import numpy as np

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD, MUL
from lumijit.compiler.ir.ops.logic import LT
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import memory
from lumijit.runtime.dtypes import FLOAT32, UINT32
from tests.compiler.support import Holder, array, branch, lit, loop, shareable
from tests.tools.printer import format_nodes


def test_memory_and_effects() -> None:
    foreign = evaluate.from_numpy(shareable(1000))
    holder = Holder(array(np.zeros(4), FLOAT32))
    mask = trace.emit2(LT, foreign, lit(FLOAT32, 2.5))
    memory.scatter(holder, foreign, trace.counter(1000), mask, "add")
    assert format_nodes([holder._node]).splitlines() == [
        "%0 = evaluated f32[4]",
        "%1 = evaluated f32[1000] (foreign memory)",
        "%2 = counter u32[1000]",
        "%3 = lt b[1000] %1, 2.5",
        "%4 = inside b[1000] %2, 4",
        "%5 = and b[1000] %3, %4",
        "%6 = scatter [1000] %0, %1, %2, %5 (add, auto)",
        "%7 = written f32[4] %6",
        "return %7",
    ]


def test_regions() -> None:
    start = trace.counter(8)
    offset = array(np.arange(8), UINT32)
    holder = Holder(array(np.zeros(8), UINT32))
    one = lit(UINT32, 1)

    def body(i: Node) -> tuple[Node, ...]:
        def yes() -> tuple[Node, ...]:
            memory.scatter(holder, i, start, trace.make_true(1))
            return (trace.emit2(ADD, i, offset),)

        odd = trace.emit2(LT, i, offset)
        (found,) = branch(odd, yes, lambda: (i,), (holder,))
        return (trace.emit2(ADD, found, one),)

    (result,) = loop((start,), lambda i: trace.emit2(LT, i, lit(UINT32, 9)), body)
    text = format_nodes([result, holder._node])
    assert text == format_nodes([result, holder._node])
    assert text.splitlines() == [
        "%0 = counter u32[8]",
        "%1 = evaluated u32[8]",
        "%2 = evaluated u32[8]",
        '%3 = loop [8] "loop" {',
        "  %4 = argument u32[8] from %0",
        "  captures 9, true, %1, 1",
        "  writes %2",
        "  while:",
        "    %5 = lt b[8] %4, 9",
        "    yield %5",
        "  body:",
        "    %6 = lt b[8] %4, %1",
        '    %7 = branch [8] "yes" {',
        "      if %6",
        "      captures %4, %0, true, %1",
        "      writes %2",
        "      true:",
        "        %8 = scatter [8] %2, %4, %0, true (identity, auto)",
        "        %9 = add u32[8] %4, %1",
        "        yield %9",
        "      false:",
        "        yield %4",
        "    }",
        "    %10 = project u32[8] %7 (0)",
        "    %11 = add u32[8] %10, 1",
        "    yield %11",
        "}",
        "%12 = project u32[8] %3 (0)",
        "%13 = written u32[8] %3 (0)",
        "return %12, %13",
    ]


def test_literals_with_a_size() -> None:
    node = trace.emit2(MUL, trace.undefined(FLOAT32, 3), lit(FLOAT32, 2, 3))
    assert "mul f32[3] %0, 2.0[3]" in format_nodes([node])
