"""Loops in evaluated mode: wavefronts, one kernel per iteration.

The elements that are still active advance one step per kernel; the state lies in
memory in between. `loop` chooses between this and the symbolic mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lumijit.compiler import memory, reductions, trace
from lumijit.compiler.evaluate import data, evaluate
from lumijit.compiler.ops.logic import AND, NOT
from lumijit.compiler.ops.structural import WRITTEN
from lumijit.control.state import (
    Leaf,
    call,
    common_type,
    condition_node,
    flatten,
    inconsistent,
    is_late,
    rebuild,
    same_structure,
    same_value,
    select_leaf,
    with_node,
    zeros_like,
)
from lumijit.runtime.errors import StateError, message

State = tuple[Any, ...]


class EvaluatedLoop:
    """Runs one loop as a sequence of kernels, one per iteration."""

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

    def _step(self, state: State, active: Any) -> State:
        """Run the body for the active elements."""
        old = flatten(state, self.labels)
        copies = [
            with_node(type(f.value), f.value._node) if f.is_array else f.value
            for f in old
        ]
        with trace.masked(active._node):
            returned = call(self.body, rebuild(state, copies), self.name)
        state = tuple(
            zeros_like(new) if is_late(entry, new) else entry
            for entry, new in zip(state, returned, strict=True)
        )
        old = flatten(state, self.labels)
        new = flatten(returned, self.labels)
        if not same_structure(old, new):
            raise StateError(
                message(
                    self.name,
                    "the structure of the loop state changed",
                    "let the body return PyTrees of the structure they had before.",
                )
            )
        merged = [
            self._merge(active, f, g.value) for f, g in zip(old, new, strict=True)
        ]
        return rebuild(state, merged)

    def _merge(self, active: Any, old: Leaf, new: Any) -> Any:
        before = old.value
        if new is before:
            return before
        if not old.is_array and (same_value(before, new) or not self.strict):
            return new
        cls = type(before)
        if type(new) is not cls or not old.is_array:
            common = common_type(before, new, type(active))
            if common is None:
                raise inconsistent(self.name, old.name, before, new)
            before = before if type(before) is common else common(before)
            new = new if type(new) is common else common(new)
        if new._node.op is WRITTEN and new._node.size != active._node.size:
            return new
        return select_leaf(active, new, before)

    def _condition(self, state: State) -> Any:
        condition = self.cond(*state)
        condition_node(condition, self.name)
        return condition

    def run(self, state: State) -> State:
        """Iterate until no element is active."""
        active: Any = None
        while True:
            condition = self._condition(state)
            if active is not None:
                node = trace.emit2(AND, active._node, condition._node)
                condition = with_node(type(condition), node)
            active = condition
            nodes = [f.value._node for f in flatten(state, self.labels) if f.is_array]
            evaluate([active._node, *nodes])
            if not data(reductions.reduce("or", active._node))[0]:
                return state
            state = self._step(state, active)

    def run_compressed(self, state: State) -> State:
        """Iterate over the active elements only; finished ones are put aside."""
        condition = self._condition(state)
        leaves = flatten(state, self.labels)
        arrays = [k for k, f in enumerate(leaves) if f.is_array]
        size = max([leaves[k].value._node.size for k in arrays], default=1)
        size = max(size, condition._node.size)
        results = {}
        for k in arrays:
            value = leaves[k].value
            node = trace.resized(value._node, size)
            results[k] = with_node(type(value), node)
            leaves[k].value = with_node(type(value), node)
        state = rebuild(state, [f.value for f in leaves])
        index = trace.counter(size)
        while True:
            active = trace.resized(condition._node, index.size)
            leaves = flatten(state, self.labels)
            done = trace.emit1(NOT, active)
            for k in results:
                memory.scatter(results[k], leaves[k].value._node, index, done)
            evaluate([r._node for r in results.values()])
            keep = reductions.compress(active)
            if keep.size == 0:
                finals = [results.get(k, f.value) for k, f in enumerate(leaves)]
                return rebuild(state, finals)
            always = trace.make_true(1)
            index = memory.gather(index, keep, always)
            for k in results:
                value = leaves[k].value
                node = memory.gather(value._node, keep, always)
                leaves[k].value = with_node(type(value), node)
            evaluate([index, *(leaves[k].value._node for k in results)])
            state = rebuild(state, [f.value for f in leaves])
            everything = with_node(type(condition), trace.make_true(max(1, index.size)))
            state = self._step(state, everything)
            condition = self._condition(state)
