"""Making nodes variables, and giving values the derivatives of others."""

from __future__ import annotations

from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.logic import COPY, REPLACED
from lumijit.compiler.ir.ops.structural import EVALUATED, UNDEFINED, WRITTEN
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import exposed
from lumijit.compiler.record.writes import rehoused
from lumijit.runtime import workers

# Nobody makes the same node of these again.
_ALONE = frozenset({EVALUATED, UNDEFINED, WRITTEN})


def enable(holder: Holder) -> None:
    """Make what a holder stands for a variable, for itself alone.

    What isn't in memory yet is copied: value numbering finds the same operation again,
    and folds literals. So is memory that NumPy can write to, as that would change what
    is recorded of it.
    A value made of a loop's variables passes derivatives on to these, besides, as they
    may turn out to depend on what is tracked.
    """
    node = holder._node
    if node.vertex is not None:
        if vertices.is_tracked(node) and vertices.is_presumed(node):
            holder._rehouse(with_derivatives_of(node, node))
            vertices.keep_gradient(holder._node.vertex)
        return
    if node.op not in _ALONE or trace.state.scope is not ROOT:
        holder._rehouse(_copy(node))
    elif (buffer := node.buffer) is not None and exposed.is_exposed(buffer):
        copy = _copy(node)
        evaluate.evaluate((copy,))
        workers.sync()
        holder._rehouse(copy)
    else:
        del node
        rehoused(holder)
    vertices.add_variable(holder._node)


def with_derivatives_of(value: Node, source: Node) -> Node:
    """Return a value with the derivatives of another in place of its own.

    Inside of a region, the other is an operand: the region's derivative repeats what
    is needed of its code, to be differentiated itself.
    """
    size = trace.broadcast_size(REPLACED, (value, source))
    known = trace.detached(trace.resized(value, size))
    deps = known, source
    if trace.state.scope is ROOT:
        result = trace.make(COPY, value.type, size, (known,), None)
    else:
        result = trace.make(REPLACED, value.type, size, deps, None)
    vertices.track(result, REPLACED, deps)
    return result


def _copy(node: Node) -> Node:
    node = trace.original(node)
    return trace.make(COPY, node.type, node.size, (node,), None)
