"""Loops that the compiler makes: of derivatives, and of sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.logic import LT
from lumijit.compiler.record import regions
from lumijit.runtime.dtypes import UINT32

Nodes = Sequence[Node]
# As many steps are written one after the other: what they index stays in registers.
_UNROLLED = 16


def traced_loop(
    label: str,
    width: int,
    inits: Nodes,
    cond: Callable[[Nodes], Node],
    body: Callable[[Nodes], Nodes],
) -> list[Node]:
    """Trace a loop over nodes and return the final state."""
    with regions.scope(label, width, is_loop=True) as inner:
        args = []
        for k, node in enumerate(inits):
            size = width if node.size == 1 else node.size
            args.append(regions.argument(node.type, size, k, node))
        condition = cond(args)
        with trace.unmasked():
            outputs = tuple(body(args))
    _, results = regions.close_loop(
        inner, tuple(inits), tuple(args), condition, outputs
    )
    return results


def counted(
    label: str, width: int, goes_on: Callable[[Node], Node], step: Callable[[Node], Any]
) -> None:
    """Trace a loop that does something for 0, 1, … while a condition of that holds."""

    def turn(state: Nodes) -> Nodes:
        step(state[0])
        return (trace.emit2(ADD, state[0], trace.literal(UINT32, 1)),)

    traced_loop(label, width, [trace.literal(UINT32, 0)], lambda s: goes_on(s[0]), turn)


def over_entries(
    length: int, width: int, start: Node, step: Callable[[Node, Node], Node]
) -> Node:
    """Return what becomes of a value in `step(value, index)` for each index in turn."""
    if length <= _UNROLLED:
        value = start
        for k in range(length):
            value = step(value, trace.literal(UINT32, k))
        return value

    def goes_on(state: Nodes) -> Node:
        return trace.emit2(LT, state[0], trace.literal(UINT32, length))

    def turn(state: Nodes) -> Nodes:
        index, value = state
        return trace.emit2(ADD, index, trace.literal(UINT32, 1)), step(value, index)

    zero = trace.literal(UINT32, 0)
    return traced_loop("entries", width, [zero, start], goes_on, turn)[1]
