"""The elements of an evaluated loop that are still active, and the others' results.

Owns the compression of the state and finding out what can't be compressed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from lumijit.compiler.derive import isolation
from lumijit.compiler.ir import blends, trace
from lumijit.compiler.ir.effects import Holder, wrap
from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import NOT
from lumijit.compiler.launch.evaluate import evaluate
from lumijit.compiler.record import memory, reductions, writes
from lumijit.control.state import is_array, node_of
from lumijit.runtime.errors import SizeError
from lumijit.standing import like


class ActiveElements:
    """The state of the elements that still iterate, and the results of the others.

    `values` are the current leaves. Those in `full` have one entry per element and
    get compressed; arrays that the body indexes, or that are uniform, do not.
    """

    def __init__(self, leaves: list[Any], active: Node) -> None:
        self.active = active
        self.lanes = active.size
        self.index = trace.counter(self.lanes)
        self.values = list(leaves)
        self.nodes = [node_of(value) for value in self.values]
        self.original = list(self.values)
        # Leaves that are still the arrays that they were before the loop.
        self.same = set(range(len(leaves)))
        self.full: dict[int, Any] = {}
        self.changed: set[int] = set()
        self.refused: Node | None = None
        for k, value in enumerate(self.values):
            if is_array(value) and value._node.size == self.lanes:
                self.full[k] = like(value, value._node)

    @property
    def is_smaller(self) -> bool:
        """Whether elements have been dropped."""
        return self.index.size < self.lanes

    def compress(self) -> bool:
        """Drop finished elements; tell whether any is left.

        At least two are kept: arrays of size 1 would broadcast, and take kernels
        of their own.
        """
        keep = reductions.compress(self.active)
        if keep.size == 0:
            return False
        active, size = self.active, self.index.size
        if not 1 < keep.size < size:
            if keep.size == size:
                self.active = trace.make_true(size)
            return True
        self._put_aside(trace.emit1(NOT, active))
        self.index = entries(self.index, keep)
        self.active = trace.make_true(keep.size)
        for k in self.full:
            value = self.values[k]
            node = blends.standing_for(value._node, partial(entries, positions=keep))
            self.values[k] = like(value, node)
        evaluate([self.index, *(self.values[k]._node for k in self.full)])
        self.nodes = [node_of(value) for value in self.values]
        return True

    def _put_aside(self, mask: Node) -> None:
        """Enter current values into the full arrays: those of elements in a mask."""
        for k in self.full:
            if k in self.changed:
                self._write(self.full[k], self.values[k]._node, mask)

    def _write(self, holder: Any, node: Node, mask: Node) -> None:
        if self.is_smaller:
            # (Who refers to what was there before makes the write copy all of it.)
            before = (holder._node,) if holder._node.vertex is not None else ()
            writes.write(holder, node, self.index, mask)
            isolation.note_blend(holder._node, (*before, node))
        else:
            holder._rehouse(trace.resized(node, self.lanes))

    def guarded(self) -> AbstractContextManager[None]:
        """Raise IndexedArgument where an array of active elements is indexed."""
        outer = trace.state.guard
        inner = self._check if self.is_smaller else None

        def check(node: Node) -> None:
            for guard in (inner, outer):
                if guard is not None:
                    guard(node)

        return trace.guarded(check)

    def _check(self, node: Node) -> None:
        if is_local(node):
            # It has the lanes of all elements, so the loop goes on with these.
            raise SizeError(
                "Local",
                "the buffer belongs to all elements, not to the active ones only",
                "allocate it inside the loop, or pass compress=False.",
            )
        tables = (v for k, v in enumerate(self.values) if k not in self.full)
        if node.size == self.index.size and not any(node_of(v) is node for v in tables):
            self.refused = node
            raise memory.IndexedArgument(node)

    def release(self, node: Node) -> bool:
        """Take an indexed array out of the compressed ones if it never changed."""
        for k in self.full:
            value = self.values[k]
            if value._node is node and k not in self.changed:
                del self.full[k]
                self.values[k] = self.original[k]
                self.nodes[k] = node_of(self.original[k])
                return True
        return False

    def update(self, leaves: list[Any], changed: set[int]) -> None:
        """Take over the state after an iteration.

        `changed` are the ids of arrays that it changed in place, not by index.
        """
        for k, value in enumerate(leaves):
            given, before = self.values[k], self.nodes[k]
            if value is not given:
                self.same.discard(k)
            self.values[k], self.nodes[k] = value, node_of(value)
            is_kept = value is given and id(value) not in changed
            if is_kept or not is_array(value) or value._node is before:
                continue
            if k not in self.full:
                node = value._node
                if node.size == 1:
                    node = trace.resized(node, self.index.size)
                self.full[k] = self._full_size(type(value), given, before)
                if value is given:
                    value._go_back(before)
                self.values[k], self.nodes[k] = like(value, node), node
            self.changed.add(k)

    def _full_size(self, cls: type[Any], given: Any, before: Node | None) -> Any:
        """Return an array of all elements for a leaf that was uniform so far."""
        if before is None or type(given) is not cls:
            before = cls(given)._node
        return wrap(cls, trace.resized(before, self.lanes))

    def expand(self) -> list[Any]:
        """Return the leaves of all elements; arrays that stayed are the caller's."""
        self._put_aside(trace.make_true(1))
        finals = list(self.values)
        for k in self.full:
            full, original = self.full[k], self.original[k]
            if k in self.same and k in self.changed:
                original._become(full._node)
            finals[k] = full if k not in self.same else original
        self.full.clear()
        return finals

    def expanded_mask(self) -> Node:
        """Return the active mask of all elements."""
        node = trace.literal(self.active.type, False, self.lanes)
        holder = Holder(node)
        self._write(holder, self.active, trace.make_true(1))
        return holder._node


def entries(node: Node, positions: Node) -> Node:
    """Gather, whatever restricts the indexing of the body."""
    with trace.unmasked(), trace.guarded(None):
        return memory.entries(node, positions, trace.make_true(1))
