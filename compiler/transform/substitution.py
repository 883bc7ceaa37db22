"""Reading a traced expression at other positions without computing it in full.

`at_positions(node, index)` is `gather(node, index)` for short expressions of the
element's own index: it repeats them with `index` instead. So a grid made of `linspace`
and `meshgrid` needs no memory and no kernel of its own, nor does a slice of a slice.
"""

from __future__ import annotations

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.structural import BITCAST, CAST, COUNTER, GATHER, LITERAL
from lumijit.compiler.ir.roles import source_deps, value_deps

MAX_OPERATIONS = 16


def at_positions(node: Node, index: Node) -> Node | None:
    """Return the entries of `node` at UInt32 positions, or None if it isn't short."""
    order: list[Node] = []
    if not _collect(node, node.size, order):
        return None
    reads = sum([inner.op is GATHER for inner in order])
    if reads > 1 and index.size > node.size:
        # It would be computed several times, where one read finds it.
        return None
    made: dict[int, Node] = {}
    for inner in order:
        made[id(inner)] = _repeat(inner, index, made)
    return made[id(node)]


def _collect(node: Node, size: int, order: list[Node]) -> bool:
    """List the operations below a node; False if one can't be repeated."""
    for known in order:
        if node is known:
            return True
    if node.op is not LITERAL and node.size == size and node.op is not COUNTER:
        is_simple = node.op.lower is not None or node.op in (CAST, BITCAST)
        # (Regions keep account of what they read.)
        is_simple |= node.op is GATHER and trace.state.scope is ROOT
        if not is_simple or trace.is_symbolic(node):
            return False
        for dep in value_deps(node):
            if dep.size == size and size != 1 and not _collect(dep, size, order):
                return False
    order.append(node)
    return len(order) <= MAX_OPERATIONS


def _repeat(node: Node, index: Node, made: dict[int, Node]) -> Node:
    if node.op is COUNTER:
        return index
    if node.op is LITERAL:
        return trace.literal(node.type, node.attr)
    deps = tuple([made.get(id(d), d) for d in value_deps(node)])
    size = trace.broadcast_size(node.op, deps)
    sources = source_deps(node)
    return trace.append(node.op, node.type, sources + deps, node.attr, size)
