"""Evaluated loops: one kernel per iteration, for all elements or the active ones.

A body sees the very arrays of the state, so that its writes by index reach them.
What it changes otherwise counts for the active elements only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lumijit.compiler import memory, reductions, trace
from lumijit.compiler.evaluate import data, evaluate, opaque
from lumijit.compiler.ops.logic import AND
from lumijit.compiler.trace import Node
from lumijit.control.compressed import ActiveElements
from lumijit.control.state import (
    Leaf,
    State,
    call,
    check_contents,
    check_sizes,
    check_writes,
    common_type,
    condition_node,
    contents,
    distinct,
    flatten,
    inconsistent,
    is_array,
    is_late,
    never_ends,
    node_of,
    rebuild,
    same_object,
    same_structure,
    structure_changed,
    with_node,
    wrong_width,
    zeros_like,
)
from lumijit.rewriting.undefined import Undefined
from lumijit.runtime.errors import SizeError, StateError

#: A body may change what the condition depends on after some iterations, by means of
#: Python; not after as many as these.
MAX_REPEATED = 1000


class EvaluatedLoop:
    """Runs one loop as a sequence of kernels."""

    def __init__(
        self,
        cond: Callable[..., Any],
        body: Callable[..., State],
        labels: Sequence[str],
        name: str,
        strict: bool,
    ) -> None:
        self.cond = cond
        self.body = body
        self.labels = labels
        self.name = name
        self.strict = strict
        self.mask_type: type[Any] = object
        # What the condition was computed from, and how often it was the same.
        self.sources: dict[int, Node] = {}
        self.repeated = 0

    def run(self, state: State, is_compressed: bool) -> State:
        """Iterate until no element is active; if the body raises, undo its writes."""
        with memory.watched():
            active = trace.under_mask(self._condition(state))
            evaluate([active])
            self._materialize(state, active.size)
            if is_compressed and active.size > 1:
                return self._run_compressed(state, active)
            return self._run_masked(state, active)

    def _condition(self, state: State) -> Node:
        condition = self.cond(*state)
        node = condition_node(condition, self.name)
        self.mask_type = type(condition)
        self._check_progress(node)
        return node

    def _check_progress(self, condition: Node) -> None:
        """Refuse a loop whose condition is computed from the same data for ever."""
        sources = _sources(condition, trace.state.mask)
        self.repeated = self.repeated + 1 if sources == self.sources else 0
        self.sources = sources
        if self.repeated >= MAX_REPEATED:
            reason = f"hasn't depended on anything new for {MAX_REPEATED} iterations"
            raise never_ends(self.name, reason)

    def _materialize(self, state: State, size: int) -> None:
        """Put literals into memory: later iterations then reuse the first's kernel."""
        for leaf in flatten(state, self.labels):
            if leaf.is_array and leaf.value._node.size == size:
                leaf.value._node = opaque(leaf.value._node)

    def _next_active(self, state: State, active: Node) -> Node:
        with trace.masked_only(active):
            condition = self._condition(state)
        return trace.emit2(AND, active, condition)

    def _evaluate(self, state: State, active: Node) -> None:
        leaves = flatten(state, self.labels)
        evaluate([active, *(f.value._node for f in leaves if f.is_array)])

    def _run_masked(self, state: State, active: Node) -> State:
        """Iterate over all elements."""
        while True:
            self._evaluate(state, active)
            if not data(reductions.reduce("or", active))[0]:
                return state
            state = self._step(state, active)
            active = self._next_active(state, active)

    def _run_compressed(self, state: State, active: Node) -> State:
        """Iterate over the active elements, as long as no array gets in the way."""
        self._evaluate(state, active)
        if not data(reductions.reduce("or", active))[0]:
            return state
        state = self._step(state, active)
        active = self._next_active(state, active)
        if any(type(entry) is Undefined for entry in state):
            return self._run_masked(state, active)
        rest = ActiveElements(flatten(state, self.labels), active)
        while True:
            self._evaluate(state, rest.active)
            if not rest.compress():
                return rebuild(state, rest.expand())
            state = rebuild(state, rest.values)
            try:
                with rest.guarded():
                    stepped = self._step(state, rest.active)
                    active = self._next_active(stepped, rest.active)
                rest.update(flatten(stepped, self.labels))
                rest.active, state = active, stepped
                continue
            except memory.IndexedArgument as used:
                if used.node is not rest.refused:
                    raise
                if rest.release(used.node):
                    state = rebuild(state, rest.values)
                    continue
            except (SizeError, StateError):
                if not rest.is_smaller:
                    raise
            # The body needs all elements: go on with all of them.
            mask = rest.expanded_mask()
            return self._run_masked(rebuild(state, rest.expand()), mask)

    def _step(self, state: State, active: Node) -> State:
        """Run the body for the active elements."""
        arrays = distinct(flatten(state, self.labels))
        given = rebuild(state, [f.value for f in arrays])
        objects = contents(arrays)
        before = {id(f.value): f.value._node for f in arrays if f.is_array}
        holders = [f.value for f in arrays if f.is_array]
        try:
            with memory.watched() as writes, trace.masked_only(active):
                returned = call(self.body, given, self.name)
                new = flatten(returned, self.labels)
                nodes = [node_of(f.value) for f in new]
                before.update((k, w.last) for k, w in writes.items() if k in before)
            check_contents(self.name, objects)
        finally:
            for holder in holders:
                holder._node = before[id(holder)]
        # The body may have replaced entries of the containers that it was given.
        given = tuple(
            zeros_like(value) if is_late(entry, value) else entry
            for entry, value in zip(
                rebuild(state, [f.value for f in arrays]), returned, strict=True
            )
        )
        old = flatten(given, self.labels)
        if not same_structure(old, new):
            raise structure_changed(self.name, old, new)
        merged = [
            self._merge(active, f, g.value, node)
            for f, g, node in zip(old, new, nodes, strict=True)
        ]
        changed = [
            (f.name, value._node)
            for f, value in zip(old, merged, strict=True)
            if value is not f.value and is_array(value)
        ]
        check_writes(self.name, active, writes.values(), changed)
        return rebuild(given, merged)

    def _merge(self, active: Node, old: Leaf, value: Any, node: Node | None) -> Any:
        """Return a leaf's next value; `node` is that of `value` after the body."""
        before = old.value
        if node is None and not old.is_array:
            if same_object(before, value):
                return before
            if common_type(before, value, self.mask_type) is None:
                if self.strict:
                    raise inconsistent(self.name, old.name, before, value)
                return value
        elif node is not None and type(value) is type(before):
            if node is before._node:
                return before
            value = with_node(type(value), node)
        if type(value) is not type(before) or not old.is_array:
            common = common_type(before, value, self.mask_type)
            if common is None:
                raise inconsistent(self.name, old.name, before, value)
            before = before if type(before) is common else common(before)
            value = value if type(value) is common else common(value)
        check_sizes(self.name, old.name, before, value)
        if value._node.size not in (1, active.size) and active.size != 1:
            raise wrong_width(self.name, old.name, before, value, active.size)
        blended = trace.select(active, value._node, before._node)
        return with_node(type(value), blended)


def _sources(root: Node, mask: Node | None) -> dict[int, Node]:
    """Return the data that a node is computed from, by id; this keeps it alive.

    The mask of the active elements, which indexing takes part in, doesn't count.
    """
    found: dict[int, Node] = {}
    seen: dict[int, Node] = {} if mask is None else {id(mask): mask}
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if not node.deps:
            found[id(node)] = node
        pending.extend(node.deps)
    return found
