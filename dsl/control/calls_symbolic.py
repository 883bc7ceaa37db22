"""Symbolic calls: every function is traced into the kernel."""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import Any

from lumijit.compiler.derive.isolation import resume
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.logic import AND
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.record import calls, regions
from lumijit.compiler.record.bodies import Body
from lumijit.control.callees import Callee, is_selected
from lumijit.control.invocation import Invocation
from lumijit.control.results import Entry
from lumijit.control.state import is_array
from lumijit.control.write_rules import versions_in
from lumijit.runtime.config import flags
from lumijit.runtime.errors import StateError


def run(call: Invocation) -> Any:
    """Trace each function into a body of one region; return the results."""
    if not flags.optimize_calls:
        _hide_literals(call)
    resume()
    # All in one scope, where equal code gives equal nodes.
    with regions.scope(call.name, call.lanes) as inner, trace.unmasked():
        tracer = _Tracer(call, inner)
        for callee in call.callees:
            tracer.trace(callee)
        call.check_surroundings()
        bodies = tracer.bodies
        for body in bodies:
            inner.writes.update(body.writes)
    entries = call.results.arrays()
    columns = [[array._node for array in entry.arrays] for entry in entries]
    _check_sizes(call, tracer.callees, entries, columns)
    for k, body in enumerate(bodies):
        body.outputs = tuple([column[k] for column in columns])
    for entry, body, _ in tracer.late:
        body.outputs = _without(body.outputs, entries.index(entry))
    found = calls.close_call(
        call.index, call.active, call.count, bodies, inner, call.name
    )
    nodes = {entry.name: node for entry, node in zip(entries, found, strict=True)}
    for entry, body, array in tracer.late:
        mask = trace.emit2(AND, is_selected(call.index, body.positions), call.active)
        nodes[entry.name] = trace.select(mask, array._node, nodes[entry.name])
    return call.results.result(nodes, call.lanes)


def _check_sizes(
    call: Invocation,
    callees: list[Callee],
    entries: list[Entry],
    columns: list[list[Node]],
) -> None:
    """Refuse results of other sizes; closing the call doesn't see constants."""
    widths = {call.lanes, 1}
    for entry, column in zip(entries, columns, strict=True):
        found = {node.size for node in column}
        if len(widths | found) > 2:
            for callee, node in zip(callees, column, strict=True):
                if len(widths) == 2 and node.size not in widths:
                    (expected,) = widths - {1}
                    raise call.wrong_result(callee, entry.name, node.size, expected)
                widths.add(node.size)
        widths |= found


def _hide_literals(call: Invocation) -> None:
    """Keep the functions from seeing that arguments are constant."""
    for k, leaf in enumerate(call.values):
        if is_array(leaf) and leaf._node.op is LITERAL:
            node = leaf._node
            hidden = trace.copied(node)
            call.values[k] = wrap(type(leaf), hidden)


class _Tracer:
    """Traces the functions of one call in one scope, each into a body.

    Many are short, and what is done around each takes as long as tracing it: one that
    returns an array which another has returned, and does nothing else, is that one.
    """

    __slots__ = (
        "_is_merging",
        "_pure",
        "_versions",
        "bodies",
        "call",
        "callees",
        "inner",
        "late",
    )

    def __init__(self, call: Invocation, inner: Scope) -> None:
        self.call = call
        self.inner = inner
        self.bodies: list[Body] = []
        # The first callee of each body.
        self.callees: list[Callee] = []
        # The results that were written by index: entry, body, array.
        self.late: list[tuple[Entry, Body, Any]] = []
        # The bodies that do nothing but return one array, by its node.
        self._pure: dict[Node, Body] = {}
        self._versions = partial(versions_in, inner, call.name)
        self._is_merging = flags.merge_functions

    def trace(self, callee: Callee) -> None:
        """Trace a function."""
        call, inner = self.call, self.inner
        # Local buffers that a function makes end with it.
        inner.part += 1
        value, written = call.invoke(callee, call.parts.leaves, self._versions)
        regions.before_the_end()
        results = call.results
        is_pure = not (inner.effects or inner.writes or inner.locals)
        is_alike = not written and results.is_like(value)
        if is_pure and is_alike:
            known = self._pure.get(value._node)
            if known is not None:
                known.positions += callee.positions
                return
        effects, writes, buffers = inner.effects, inner.writes, inner.locals
        body = Body(inner, effects, writes, (), [*callee.positions], buffers)
        self.bodies.append(body)
        self.callees.append(callee)
        if is_alike:
            results.enter_array(value)
        else:
            self._match(callee, body, value, written)
        calls.separate(body)
        if is_pure and self._is_merging and results.is_like(value):
            self._pure[value._node] = body

    def _match(self, callee: Callee, body: Body, value: Any, written: Set[int]) -> None:
        """Enter results of any structure."""
        leaves = self.call.results.match(callee, value)
        if not written:
            return
        for entry, leaf in zip(self.call.results.entries, leaves, strict=True):
            if id(leaf) in written:
                if self.inner.parent is not ROOT:
                    raise StateError(
                        self.call.name,
                        f"{callee} returns as '{entry.name}' an array that it writes "
                        "by index, and whose entries aren't known inside of symbolic "
                        "control flow",
                        "don't return it: the array itself shows what was written.",
                    )
                self.late.append((entry, body, leaf))


def _without(outputs: tuple[Node, ...], entry: int) -> tuple[Node, ...]:
    """Replace one result by zero."""
    dtype = outputs[entry].type
    zero = trace.literal(dtype, dtype.wrap(0))
    return (*outputs[:entry], zero, *outputs[entry + 1 :])
