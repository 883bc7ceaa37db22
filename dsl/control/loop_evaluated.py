"""Evaluated loops: one kernel per iteration, for all elements or the active ones.

A body sees the very arrays of the state, so that its writes by index reach them.
What it changes otherwise counts for the active elements only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import and_
from typing import Any

from lumijit.base import ArrayBase
from lumijit.compiler.derive.isolation import select_tracked
from lumijit.compiler.ir import blends, trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node, reached
from lumijit.compiler.ir.ops.logic import AND
from lumijit.compiler.ir.trace import current_mask, emit2, set_mask
from lumijit.compiler.launch.evaluate import evaluate
from lumijit.compiler.record import local, memory, writes
from lumijit.compiler.record.reductions import is_any_set
from lumijit.control.held_arrays import Held
from lumijit.control.loop_compressed import ActiveElements
from lumijit.control.owners import check_sharing, owners_of
from lumijit.control.state import (
    State,
    as_arrays,
    call,
    check_contents,
    check_loose,
    check_sizes,
    common_type,
    condition_node,
    contents,
    inconsistent,
    is_array,
    is_late,
    loose,
    name_at,
    never_ends,
    node_in,
    node_of,
    of_entries,
    same_object,
    wrong_width,
    zeros_like,
)
from lumijit.control.structure import are_alike, structure_changed
from lumijit.control.twins import common_twins
from lumijit.control.write_rules import Narrow, check_writes, versions_in
from lumijit.instance_registry import opaque
from lumijit.pytree import Parts, copied
from lumijit.runtime.contexts import apart, on_error
from lumijit.runtime.errors import SizeError, StateError
from lumijit.standing import are_numbers, like, stand
from lumijit.syntax.undefined import Undefined

#: A body may change what the condition depends on after some iterations, by means of
#: Python; not after as many as these. What it depends on is looked at now and then.
MAX_REPEATED = 1000
_LOOKED_AT = 8


Name = Callable[[], str]
Result = tuple[Name, Node]
_CONDITION: Name = partial(str, "the condition")


class EvaluatedLoop:
    """Runs one loop as a sequence of kernels."""

    def __init__(
        self,
        cond: Callable[..., Any],
        body: Callable[..., State],
        labels: Sequence[str],
        name: str,
        strict: bool,
        size: int,
    ) -> None:
        self.cond = cond
        self.body = body
        self.labels = labels
        self.name = name
        self.strict = strict
        # How many elements there are at least, and whether anything was written once
        # while there was one.
        self.size = size
        self.has_single = False
        self.mask_type: type[Any] = object
        # What the condition was computed from, and how often it was the same; what
        # active elements have of the state that the last turn changed.
        self.sources: dict[int, Node] = {}
        self.returned: dict[int, Node] = {}
        self.repeated = 0
        self.iteration = 0
        # The arrays that the last iteration changed in place, by id.
        self.changed: set[int] = set()
        # What the names have for active elements; which these are, if not all.
        self.flat = self.nested = owners_of(())
        self.rest: ActiveElements | None = None

    def run(self, state: State, is_compressed: bool) -> State:
        """Iterate until no element is active; if the body raises, undo its writes."""
        with self._undone_on_error(state):
            active = trace.under_mask(self._condition(state))
            if active.size == 1 < self.size:
                active = opaque(trace.resized(active, self.size))
            evaluate([active])
            self._materialize(state, active.size)
            is_compressed &= active.size > 1
            run = self._run_compressed if is_compressed else self._run_masked
            final = run(state, active)
        return final

    def _undone_on_error(self, state: State) -> writes.watched:
        """Have writes, and changes of the state in place, undone on an error."""
        names = self.flat, self.nested

        def restore() -> None:
            self.flat, self.nested = names

        on_error(restore)
        on_error(Held(Parts(state, self.labels)).restore)
        return writes.watched()

    def _condition(self, state: State) -> Node:
        condition = of_entries(self.cond(*state))
        node = condition_node(condition, self.name)
        self.mask_type = type(condition)
        self._check_progress(node)
        return node

    def _check_progress(self, condition: Node) -> None:
        """Refuse a loop whose condition is computed from the same data for ever."""
        self.iteration += 1
        if self.iteration % _LOOKED_AT != 1:
            return
        sources = _sources(condition, trace.state.mask, self.returned)
        self.repeated = self.repeated + _LOOKED_AT if sources == self.sources else 0
        self.sources = sources
        if self.repeated >= MAX_REPEATED:
            reason = f"hasn't depended on anything new for {MAX_REPEATED} iterations"
            raise never_ends(self.name, reason)

    def _materialize(self, state: State, size: int) -> None:
        """Put literals into memory: later iterations then reuse the first's kernel."""
        parts = Parts(state)
        for leaf in parts.leaves:
            if is_array(leaf) and leaf._node.size == size:
                leaf._rehouse(opaque(leaf._node, leaf._spec.backend.device))

    def _turn(self, state: State, active: Node) -> tuple[State, Node]:
        """Run the body, then the condition."""
        outer = current_mask()
        set_mask(active)
        state = self._step(state, active)
        following = self._next_active(state, active)
        # (If one raises, the construct ends, and its variables with it.)
        set_mask(outer)
        return state, following

    def _next_active(self, state: State, active: Node) -> Node:
        condition = self._condition(state)
        following = emit2(AND, active, condition)
        check_writes(self.name, active, self.has_single, [(_CONDITION, following)])
        return following

    def _evaluate(self, state: State, active: Node) -> None:
        parts = Parts(state)
        found = [node_in(leaf) for leaf in parts.leaves if is_array(leaf)]
        evaluate([active, *found])

    def _iterate(self, state: State, active: Node) -> tuple[State, Node]:
        """Run the body, then the condition; neither has run if one raises."""
        with self._undone_on_error(state):
            return self._turn(state, active)

    def _run_masked(self, state: State, active: Node) -> State:
        """Iterate over all elements."""
        while True:
            self._evaluate(state, active)
            if not is_any_set(active):
                return state
            state, active = self._turn(state, active)

    def _run_compressed(self, state: State, active: Node) -> State:
        """Iterate over the active elements, as long as no array gets in the way."""
        self._evaluate(state, active)
        if not is_any_set(active):
            return state
        state, active = self._turn(state, active)
        given = Parts(state, self.labels)
        arrays = [v for v in given.leaves if isinstance(v, ArrayBase)] + given.nested
        are_distinct = len(set(map(id, arrays))) == len(arrays)
        if not are_distinct or Undefined in map(type, given.leaves):
            return self._run_masked(state, active)
        rest = self.rest = ActiveElements(given.leaves, active)
        kept = [True] * len(given.nested)
        while True:
            self._evaluate(state, rest.active)
            if not rest.compress():
                return given.together(rest.expand(), kept)
            state = given.together(rest.values)
            try:
                with rest.guarded():
                    stepped, active = apart(self._iterate, (state, rest.active))
                before, after = Parts(state), Parts(stepped)
                rest.update(after.leaves, self.changed)
                kept = list(map(and_, kept, before.same_nested(after)))
                rest.active, state = active, stepped
                continue
            except memory.IndexedArgument as used:
                if used.node is not rest.refused:
                    raise
                if rest.release(used.node):
                    state = given.together(rest.values)
                    continue
            except (SizeError, StateError, Narrow, local.NeedsAllLanes):
                if not rest.is_smaller:
                    raise
            # The body needs all elements: go on with all of them.
            self.rest = None
            mask = rest.expanded_mask()
            return self._run_masked(given.together(rest.expand(), kept), mask)

    def _step(self, state: State, active: Node) -> State:
        """Run the body for the active elements.

        Arrays that it changes in place stay the objects that they are.
        """
        old = Parts(state, self.labels)
        held, objects, others = Held(old), contents(old), loose(old)
        self.returned.clear()
        try:
            with writes.watched() as found:
                given = copied(state)
                copies = Parts(given) if others else old
                returned = call(self.body, given, self.name)
                new = Parts(returned, self.labels)
                nodes = [node_of(leaf) for leaf in new.leaves]
                if found.entries:
                    held.follow(versions_in(found, self.name, *held.before()))
                left, items = held.current_nodes(), held.current_items()
                check_loose(self.name, old, copies, others)
            check_contents(self.name, old, objects)
        finally:
            held.restore()
        if Undefined in map(type, state):
            begun = tuple(map(_begun, state, returned))
            self._widen(state, begun)
            old, state = Parts(begun, self.labels), begun
        if not are_alike(old, new):
            raise structure_changed(self.name, old, new)
        merged: list[Any] = []
        results: list[Result] = []
        known: dict[tuple[int, int], Any] = {}
        twins = common_twins(old, new)
        for k, before in enumerate(old.leaves):
            value = new.leaves[k]
            if k in twins:
                value = merged[twins[k]]
            elif value is not before:
                # One array under two names stays one. (Equal numbers are none.)
                pair = id(before), id(value)
                joined = known.get(pair)
                if joined is None:
                    name = partial(name_at, old, k)
                    joined = self._merge(active, name, before, value, nodes[k])
                    if is_array(before) and is_array(value):
                        known[pair] = joined
                    node = node_of(joined)
                    if node is not None and node is not node_of(before):
                        results.append((name, node))
                value = joined
            merged.append(value)
        if not self.flat.own and not self.nested.own:
            self.flat, self.nested = owners_of(old.leaves), owners_of(old.nested)
        self.changed = held.changed(left, items)
        if self.changed or self.rest is not None:
            self._check_names(old, new, nodes, found)
        if self.changed:
            results += self._change(active, held, left, items)
        self.flat = self.flat.after(old.leaves, new.leaves)
        if old.nested:
            self.nested = self.nested.after(old.nested, new.nested)
        self.has_single |= found.has_single
        check_writes(self.name, active, self.has_single, results)
        return old.together(merged, old.same_nested(new))

    def _change(
        self,
        active: Node,
        held: Held,
        nodes: dict[int, Node],
        items: dict[int, list[Any]],
    ) -> list[Result]:
        """Change arrays in place as the body did, where elements are active."""
        results: list[Result] = []
        for key, array in held.nested.items():
            if key in self.changed:
                name = partial(held.parts.name_of, array)
                for place in (array, *self.nested.moved_from(array)):
                    old = held.items[key] if place is array else place._items
                    values = self._merged_items(active, name, old, items[key], nodes)
                    place._items[:] = values
                    leaves = Parts((values,)).leaves
                    results += [(name, leaf._node) for leaf in leaves]
        for key, array in held.flat.items():
            if key in self.changed:
                name = partial(held.parts.name_of, array)
                node = nodes[key]
                value = wrap(type(array), node)
                for place in (array, *self.flat.moved_from(array)):
                    merged = self._merge(active, name, place, value, node)._node
                    if merged is not node:
                        blends.note(merged, (place._node,), 0)
                    place._become(merged)
                    results.append((name, merged))
        return results

    def _merged_items(
        self,
        active: Node,
        name: Name,
        before: Sequence[Any],
        after: Sequence[Any],
        nodes: dict[int, Node],
    ) -> list[Any]:
        """Return the next items of a nested array that the body gave others."""
        old, new = Parts((before,), (name(),)), Parts((after,), (name(),))
        if not are_alike(old, new):
            raise structure_changed(self.name, old, new)
        values = [
            one
            if one is other
            else self._merge(
                active, name, one, other, nodes.get(id(other), other._node)
            )
            for one, other in zip(old.leaves, new.leaves, strict=True)
        ]
        found: list[Any] = old.together(values, old.same_nested(new))[0]
        return found

    def _widen(self, before: State, begun: State) -> None:
        """Note names for variables that had no value before."""
        pairs = [(Parts((a,)), Parts((b,))) for a, b in zip(before, begun, strict=True)]
        leaves = [(len(a.leaves), len(b.leaves)) for a, b in pairs]
        nested = [(len(a.nested), len(b.nested)) for a, b in pairs]
        self.flat = self.flat.widened(leaves)
        self.nested = self.nested.widened(nested)

    def _check_names(
        self, old: Parts, new: Parts, nodes: list[Any], found: writes.watched
    ) -> None:
        """Refuse changes that other names see; `nodes` are what a turn computes."""
        is_smaller = self.rest is not None and self.rest.is_smaller
        levels = (
            (self.flat, old.leaves, new.leaves),
            (self.nested, old.nested, new.nested),
        )
        for names, given, after in levels:
            if self.rest is None and names.pattern is not None and not names.has_moved:
                # Each has the array that it was given, and nobody else has it.
                continue
            pairs = names.note(given, self.changed)
            if pairs:
                written = writes.last_versions(found).values()
                computed = *filter(None, nodes), *written
                check_sharing(self.name, old, pairs, after, computed)
            if is_smaller and (names.moved or names.are_leaving(given, after)):
                raise local.NeedsAllLanes

    def _merge(
        self, active: Node, name: Name, before: Any, value: Any, node: Node | None
    ) -> Any:
        """Return a leaf's next value; `node` is that of `value` after the body."""
        is_plain = node is None and not is_array(before)
        if is_plain and same_object(before, value):
            return before
        if node is not None:
            value = like(value, node)
            if node is node_of(before):
                return value
        # As in symbolic loops: what begins as a number is one in all turns.
        is_number = are_numbers(before)
        if is_plain or type(value) is not type(before):
            cls = common_type(before, value, self.mask_type)
            if cls is None:
                if self.strict or not is_plain:
                    raise inconsistent(self.name, name(), before, value)
                return value
            before, value = as_arrays(cls, (before, value))
        check_sizes(self.name, name, before, value)
        new, old = node_in(value), node_in(before)
        if new.size != 1 != active.size != new.size:
            raise wrong_width(self.name, name(), before, value, active.size)
        blended = select_tracked(active, new, old)
        if blended is not new:
            self.returned[id(blended)] = new
        merged = wrap(type(value), blended)
        return stand(merged) if is_number else merged


def _begun(entry: Any, value: Any) -> Any:
    """Return what a variable was before a turn, of zeros if it gets a value there."""
    return zeros_like(value) if is_late(entry, value) else entry


def _sources(
    root: Node, mask: Node | None, returned: dict[int, Node]
) -> dict[int, Node]:
    """Return the data that a node is computed from, by id; this keeps it alive.

    The mask of the active elements, which indexing takes part in, doesn't count, nor
    does what others have than was `returned` by the body.
    """

    def operands(node: Node) -> list[Node]:
        found = returned.get(id(node))
        return [found] if found else [dep for dep in node.deps if dep is not mask]

    found = reached([] if root is mask else [root], operands)
    return {
        id(node): node for node in found if not node.deps and id(node) not in returned
    }
