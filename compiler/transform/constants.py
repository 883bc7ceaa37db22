"""Constants that a region makes: the same ones, made outside of it.

What is computed in a region belongs to it, and mostly that is what one wants: it runs
where it is needed, or not at all. But only what lies outside can be indexed.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT, Node, operands_first
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.compiler.ir.ops.structural import BITCAST, CAST, COUNTER, LITERAL

_GIVEN = (LITERAL, COUNTER)
# What constants of regions are outside, None for what is no constant.
_outside: WeakKeyDictionary[Node, Node | None] = WeakKeyDictionary()


def made_outside(node: Node) -> Node | None:
    """Return a region's node as one of the program, or None if it is no constant.

    Constants are computed of literals and counters alone. (Of what lies in memory, the
    region may write to the one or the other.)
    """
    if node not in _outside:
        _outside[node] = _made(node)
    return _outside[node]


def _made(node: Node) -> Node | None:
    order = operands_first((node,), lambda n: n.deps if _is_repeatable(n) else ())
    if not all(n.op in _GIVEN or _is_repeatable(n) for n in order):
        return None
    made: dict[int, Node] = {}
    with trace.scoped(ROOT):
        for inner in order:
            is_given = inner.op in _GIVEN
            made[id(inner)] = inner if is_given else _repeated(inner, made)
    return made[id(node)]


def _is_repeatable(node: Node) -> bool:
    if node.scope is ROOT or node.vertex:
        return False
    is_simple = node.op.lower is not None and not node.op.is_ordered
    return is_simple or node.op in (CAST, BITCAST, COPY)


def _repeated(node: Node, made: dict[int, Node]) -> Node:
    deps = tuple([made[id(dep)] for dep in node.deps])
    if node.op is COPY:
        return deps[0]
    return trace.append(node.op, node.type, deps, node.attr, node.size)
