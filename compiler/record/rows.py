"""Rows of entries: those of a few rows one by one, or columns side by side."""

from __future__ import annotations

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.trace import literal
from lumijit.compiler.record import memory
from lumijit.runtime.dtypes import UINT32

# So few entries are read and combined by a program.
FEW = 8


def few(node: Node, count: int, inner: int) -> list[Node]:
    """Return the entries of each run of so many, `inner` apart, one after the other."""
    place = trace.counter(node.size // count)
    if inner == 1:
        place = trace.emit2(ar.MUL, place, literal(UINT32, count))
    elif node.size > count * inner:
        run, column = parts(place, inner)
        first = literal(UINT32, count * inner)
        place = trace.emit3(ar.FMA, run, first, column)
    is_read = trace.make_true(1)
    return [memory.entries(node, place, is_read, k * inner) for k in range(count)]


def side_by_side(node: Node, count: int, inner: int) -> Node:
    """Put the entries of each run of so many, `inner` apart before, side by side."""
    if inner == 1:
        return node
    run, place = parts(trace.counter(node.size), count)
    run, column = parts(run, inner)
    place = trace.emit3(ar.FMA, run, literal(UINT32, count), place)
    place = trace.emit3(ar.FMA, place, literal(UINT32, inner), column)
    return memory.entries(node, place, trace.make_true(1))


def parts(number: Node, size: int) -> tuple[Node, Node]:
    """Return quotient and remainder."""
    divisor = literal(UINT32, size)
    return trace.emit2(ar.INT_DIV, number, divisor), trace.emit2(
        ar.MOD, number, divisor
    )
