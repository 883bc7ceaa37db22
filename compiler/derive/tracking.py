"""Making nodes variables, and giving values the derivatives of others."""

from __future__ import annotations

import sys

from lumijit.compiler.derive.rules import REPLACED
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record.writes import claim
from lumijit.runtime import buffers, recorders, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import UINT32


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
    elif node.buffer is not None and _is_exposed(node.buffer):
        copy = _copy(node)
        evaluate.evaluate((copy,))
        workers.sync()
        holder._rehouse(copy)
    else:
        del node
        claim(holder)
    vertices.add_variable(holder._node)


def _is_exposed(buffer: Buffer) -> bool:
    """Tell whether somebody outside may write to an array's memory."""
    if buffer.is_foreign:
        return not buffer.is_read_only
    known = recorders.present().references(buffer) if recorders.listening else 0
    return sys.getrefcount(buffer) - known > _UNEXPOSED


def _count_references() -> int:
    node = trace.from_buffer(UINT32, buffers.allocate(4), 1)
    return _references(node.buffer)


def _references(buffer: Buffer | None) -> int:
    return sys.getrefcount(buffer)


# A view refers to the buffer, too.
_UNEXPOSED = _count_references()


def with_derivatives_of(value: Node, source: Node) -> Node:
    """Return a value with the derivatives of another in place of its own."""
    size = trace.broadcast_size(COPY, (value, source))
    result = _copy(trace.resized(value, size))
    vertices.track(result, REPLACED, (source,))
    return result


def _copy(node: Node) -> Node:
    return trace.make(COPY, node.type, node.size, (node,), None)
