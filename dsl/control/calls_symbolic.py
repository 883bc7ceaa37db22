"""Symbolic calls: every function is traced into the kernel."""

from __future__ import annotations

from typing import Any

from lumijit.compiler import calls, regions, trace
from lumijit.compiler.ops.logic import AND, COPY
from lumijit.compiler.ops.structural import LITERAL
from lumijit.compiler.trace import Node, Scope
from lumijit.control.callees import Callee, is_selected
from lumijit.control.invocation import Invocation
from lumijit.control.results import Entry
from lumijit.control.state import versions_in, with_node
from lumijit.runtime.config import flags
from lumijit.runtime.errors import StateError, message


def run(call: Invocation) -> Any:
    """Trace each function into a body of one region; return the results."""
    if not flags.optimize_calls:
        _hide_literals(call)
    scopes: list[Scope] = []
    # The arrays among the results that were written by index: entry, callee, array.
    late: list[tuple[Entry, Callee, Any]] = []
    for callee in call.callees:
        scopes.append(_trace(call, callee, scopes, late))
    entries = call.results.arrays()
    outputs = [tuple(e.arrays[k]._node for e in entries) for k in range(len(scopes))]
    for entry, callee, _ in late:
        outputs = _without(outputs, entries.index(entry), call.callees.index(callee))
    bodies = [
        calls.Body(scope, outs, callee.positions)
        for scope, outs, callee in zip(scopes, outputs, call.callees, strict=True)
    ]
    found = calls.close_call(call.index, call.active, call.count, bodies, call.name)
    nodes = {entry.name: node for entry, node in zip(entries, found, strict=True)}
    for entry, callee, array in late:
        mask = trace.emit2(AND, is_selected(call.index, callee), call.active)
        nodes[entry.name] = trace.select(mask, array._node, nodes[entry.name])
    return call.results.result(nodes, call.lanes)


def _hide_literals(call: Invocation) -> None:
    """Keep the functions from seeing that arguments are constant."""
    for leaf in call.leaves:
        if leaf.is_array and leaf.value._node.op is LITERAL:
            node = leaf.value._node
            hidden = trace.make(COPY, node.type, node.size, (node,), None)
            leaf.value = with_node(type(leaf.value), hidden)


def _trace(
    call: Invocation,
    callee: Callee,
    earlier: list[Scope],
    late: list[tuple[Entry, Callee, Any]],
) -> Scope:
    # The condition of the region includes what masks indexing around it.
    with (
        regions.scope(call.name, call.lanes, earlier) as inner,
        trace.masked_only(None),
    ):
        values = [leaf.value for leaf in call.leaves]
        value, written = call.invoke(
            callee, values, lambda: versions_in(inner, call.name)
        )
        leaves = call.results.match(callee, value)
        for entry, leaf in zip(call.results.entries, leaves, strict=True):
            if id(leaf.value) in written:
                if inner.parent is not trace.ROOT:
                    raise _written_result(call, callee, entry.name)
                late.append((entry, callee, leaf.value))
    # The other functions see arrays as they were before this one wrote to them.
    regions.restore_writes(inner)
    return inner


def _without(
    outputs: list[tuple[Node, ...]], entry: int, callee: int
) -> list[tuple[Node, ...]]:
    """Replace one result of one callable by zero."""
    row = list(outputs[callee])
    dtype = row[entry].type
    row[entry] = trace.literal(dtype, dtype.wrap(0))
    return [*outputs[:callee], tuple(row), *outputs[callee + 1 :]]


def _written_result(call: Invocation, callee: Callee, name: str) -> StateError:
    return StateError(
        message(
            call.name,
            f"{callee} returns as '{name}' an array that it writes by index, "
            "and whose entries aren't known inside of symbolic control flow",
            "don't return it: the array itself shows what was written.",
        )
    )
