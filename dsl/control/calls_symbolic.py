"""Symbolic calls: every function is traced into the kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lumijit.compiler import calls, local, regions, trace
from lumijit.compiler.ops.logic import AND, COPY
from lumijit.compiler.ops.structural import LITERAL
from lumijit.compiler.trace import Node, Scope
from lumijit.control.callees import Callee, is_selected
from lumijit.control.invocation import Invocation
from lumijit.control.recursion import left_out
from lumijit.control.results import Entry
from lumijit.control.state import versions_in, with_node
from lumijit.rewriting.recursion import BoundReached
from lumijit.runtime.config import flags
from lumijit.runtime.errors import StateError, message


def run(call: Invocation) -> Any:
    """Trace each function into a body of one region; return the results."""
    if not flags.optimize_calls:
        _hide_literals(call)
    # The arrays among the results that were written by index: entry, callee, array.
    late: list[tuple[Entry, Callee, Any]] = []
    # All in one scope, where equal code gives equal nodes.
    with regions.scope(call.name, call.lanes) as inner, trace.masked_only(None):
        # Made once: tracing many short functions takes as long as what is around.
        versions = partial(versions_in, inner, call.name)
        bodies, missing = [], []
        for k, callee in enumerate(call.callees):
            try:
                bodies.append(_trace(call, callee, inner, versions, late))
            except BoundReached as reached:
                bodies.append(_left_out(callee, inner, reached))
                missing.append(k)
                if len(missing) == len(call.callees):
                    raise
        call.check_surroundings()
        for body in bodies:
            inner.writes.update(body.writes)
    entries = call.results.arrays()
    for k in missing:
        for entry in entries:
            entry.values.insert(k, entry.zero())
    columns = [[array._node for array in entry.arrays] for entry in entries]
    _check_sizes(call, entries, columns)
    for k, body in enumerate(bodies):
        body.outputs = tuple([column[k] for column in columns])
    for entry, callee, _ in late:
        body = bodies[call.callees.index(callee)]
        body.outputs = _without(body.outputs, entries.index(entry))
    found = calls.close_call(
        call.index, call.active, call.count, bodies, inner, call.name
    )
    nodes = {entry.name: node for entry, node in zip(entries, found, strict=True)}
    for entry, callee, array in late:
        mask = trace.emit2(AND, is_selected(call.index, callee), call.active)
        nodes[entry.name] = trace.select(mask, array._node, nodes[entry.name])
    return call.results.result(nodes, call.lanes)


def _check_sizes(
    call: Invocation, entries: list[Entry], columns: list[list[Node]]
) -> None:
    """Refuse results of other sizes; closing the call doesn't see constants."""
    widths = {call.lanes, 1}
    for entry, column in zip(entries, columns, strict=True):
        found = {node.size for node in column}
        if len(widths | found) > 2:
            for callee, node in zip(call.callees, column, strict=True):
                if len(widths) == 2 and node.size not in widths:
                    (expected,) = widths - {1}
                    raise call.wrong_result(callee, entry.name, node.size, expected)
                widths.add(node.size)
        widths |= found


def _hide_literals(call: Invocation) -> None:
    """Keep the functions from seeing that arguments are constant."""
    for leaf in call.leaves:
        if leaf.is_array and leaf.value._node.op is LITERAL:
            node = leaf.value._node
            hidden = trace.make(COPY, node.type, node.size, (node,), None)
            leaf.value = with_node(type(leaf.value), hidden)
    call.values = [leaf.value for leaf in call.leaves]


def _trace(
    call: Invocation,
    callee: Callee,
    inner: Scope,
    versions: Callable[[], dict[int, Node]],
    late: list[tuple[Entry, Callee, Any]],
) -> calls.Body:
    value, written = call.invoke(callee, call.values, versions)
    if not written and call.results.enter_array(value):
        leaves = []
    else:
        leaves = call.results.match(callee, value)
    if written:
        for entry, leaf in zip(call.results.entries, leaves, strict=True):
            if id(leaf.value) in written:
                if inner.parent is not trace.ROOT:
                    raise _written_result(call, callee, entry.name)
                late.append((entry, callee, leaf.value))
    return _closed(callee, inner)


def _left_out(callee: Callee, inner: Scope, reached: BoundReached) -> calls.Body:
    """Report the elements that select a function which recurses too deeply."""
    regions.restore_writes(inner)
    inner.effects, inner.writes, inner.locals = [], {}, {}
    left_out(reached)()
    return _closed(callee, inner)


def _closed(callee: Callee, inner: Scope) -> calls.Body:
    """Make a body of what was traced since the last one."""
    body = calls.Body(
        inner, inner.effects, inner.writes, (), callee.positions, inner.locals
    )
    # The other functions see buffers as they were before this one, too.
    local.suspend(body)
    if inner.writes:
        # The other functions see arrays as they were before this one wrote to them.
        regions.restore_writes(inner)
        inner.claimed.update((k, node) for k, (_, node) in inner.writes.items())
    # What the next function writes belongs to the next body only.
    inner.effects, inner.writes, inner.locals = [], {}, {}
    inner.part += 1
    return body


def _without(outputs: tuple[Node, ...], entry: int) -> tuple[Node, ...]:
    """Replace one result by zero."""
    dtype = outputs[entry].type
    zero = trace.literal(dtype, dtype.wrap(0))
    return (*outputs[:entry], zero, *outputs[entry + 1 :])


def _written_result(call: Invocation, callee: Callee, name: str) -> StateError:
    return StateError(
        message(
            call.name,
            f"{callee} returns as '{name}' an array that it writes by index, "
            "and whose entries aren't known inside of symbolic control flow",
            "don't return it: the array itself shows what was written.",
        )
    )
