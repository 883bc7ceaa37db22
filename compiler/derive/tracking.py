"""Making nodes variables, and giving values the derivatives of others."""

from __future__ import annotations

from lumijit.compiler.derive.rules import REPLACED
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.compiler.ir.ops.structural import CONSUMED, LITERAL
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record.writes import claim
from lumijit.runtime import buffers, exposure, workers


def enable(holder: Holder) -> None:
    """Make what a holder stands for a variable, for itself alone.

    Literals become a computed value, so that what is made of them isn't folded. Memory
    that NumPy can write to is copied, as that would change what is recorded of it.
    """
    node = holder._node
    if node.vertex is not None:
        return
    if node.op is LITERAL or trace.state.scope is not ROOT:
        holder._rehouse(_copy(node))
    else:
        holder._rehouse(*frozen((node,)))
        del node
        claim(holder)
    vertices.add_variable(holder._node)


def frozen(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return operands of the same contents to whose memory nobody else can write."""
    exposure.forget_unexposed()
    if not buffers.exposed:
        return nodes
    return tuple([_frozen(node) if node.vertex is None else node for node in nodes])


def _frozen(node: Node) -> Node:
    if node.buffer is not None and id(node.buffer) in buffers.exposed:
        node = _copy(node)
        node.scope = ROOT
    elif (
        trace.state.scope is not ROOT or node.op is CONSUMED or not _reads_exposed(node)
    ):
        return node
    # Its memory will be its own.
    evaluate.evaluate((node,))
    workers.sync()
    return node


def _reads_exposed(root: Node) -> bool:
    """Tell whether what isn't computed yet depends on memory that others write to."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if node.buffer is not None and id(node.buffer) in buffers.exposed:
                return True
            stack.extend(node.deps)
    return False


vertices.freeze = frozen


def with_derivatives_of(value: Node, source: Node) -> Node:
    """Return a value with the derivatives of another in place of its own."""
    size = trace.broadcast_size(COPY, (value, source))
    result = _copy(trace.resized(value, size))
    vertices.track(result, REPLACED, (source,))
    return result


def _copy(node: Node) -> Node:
    return trace.make(COPY, node.type, node.size, (node,), None)
