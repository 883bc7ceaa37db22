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


def counting(
    label: str,
    width: int,
    first: Node,
    goes_on: Callable[[Node], Node],
    starts: Nodes,
    step: Callable[[Node, Nodes], Nodes],
) -> list[Node]:
    """Trace a loop that counts from a number while a condition of it holds.

    Returns what becomes of `starts` in `step(number, carried)`.
    """

    def turn(state: Nodes) -> Nodes:
        carried = step(state[0], state[1:])
        return (trace.emit2(ADD, state[0], trace.literal(UINT32, 1)), *carried)

    inits = [first, *starts]
    return traced_loop(label, width, inits, lambda s: goes_on(s[0]), turn)[1:]


def counted(
    label: str,
    width: int,
    goes_on: Callable[[Node], Node],
    step: Callable[[Node], Any],
    first: Node | None = None,
) -> None:
    """Trace a loop that does something for 0, 1, … while a condition of that holds."""

    def turn(number: Node, nothing: Nodes) -> Nodes:
        step(number)
        return nothing

    first = trace.literal(UINT32, 0) if first is None else first
    counting(label, width, first, goes_on, (), turn)


def over_entries(
    length: int, width: int, start: Node, step: Callable[[Node, Node], Node]
) -> Node:
    """Return what becomes of a value in `step(value, index)` for each index in turn."""
    if length <= _UNROLLED:
        value = start
        for k in range(length):
            value = step(value, trace.literal(UINT32, k))
        return value

    def goes_on(index: Node) -> Node:
        return trace.emit2(LT, index, trace.literal(UINT32, length))

    def turn(index: Node, values: Nodes) -> Nodes:
        return (step(values[0], index),)

    zero = trace.literal(UINT32, 0)
    return counting("entries", width, zero, goes_on, (start,), turn)[0]
