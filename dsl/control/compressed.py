"""The elements of an evaluated loop that are still active, and the others' results.

Owns the compression of the state and finding out what can't be compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lumijit.compiler import memory, reductions, trace
from lumijit.compiler.evaluate import evaluate
from lumijit.compiler.local import is_local
from lumijit.compiler.trace import Node
from lumijit.control.state import Leaf, distinct, is_array, node_of, with_node
from lumijit.runtime.errors import SizeError, message


class ActiveElements:
    """The state of the elements that still iterate, and the results of the others.

    `values` are the current leaves. Those in `full` have one entry per element and
    get compressed; arrays that the body indexes, or that are uniform, do not.
    """

    def __init__(self, leaves: list[Leaf], active: Node) -> None:
        self.active = active
        self.lanes = active.size
        self.index = trace.counter(self.lanes)
        self.values = [f.value for f in distinct(leaves)]
        self.original = list(self.values)
        self.full: dict[int, Any] = {}
        self.changed: set[int] = set()
        self.refused: Node | None = None
        for k, value in enumerate(self.values):
            if is_array(value) and value._node.size == self.lanes:
                self.full[k] = with_node(type(value), value._node)

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
        if not 1 < keep.size < self.index.size:
            return True
        self._put_aside()
        self.index = entries(self.index, keep)
        self.active = entries(self.active, keep)
        for k in self.full:
            value = self.values[k]
            self.values[k] = with_node(type(value), entries(value._node, keep))
        evaluate([self.index, self.active, *(self.values[k]._node for k in self.full)])
        return True

    def _put_aside(self) -> None:
        """Enter the current values into the full arrays."""
        for k in self.full:
            if k in self.changed:
                self._write(self.full[k], self.values[k]._node)

    def _write(self, holder: Any, node: Node) -> None:
        if self.is_smaller:
            memory.write(holder, node, self.index, trace.make_true(1))
        else:
            holder._node = trace.resized(node, self.lanes)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Raise IndexedArgument where an array of active elements is indexed."""
        outer = trace.state.guard
        inner = self._check if self.is_smaller else None

        def check(node: Node) -> None:
            for guard in (inner, outer):
                if guard is not None:
                    guard(node)

        with memory.guarded(check):
            yield

    def _check(self, node: Node) -> None:
        if is_local(node):
            # It has the lanes of all elements, so the loop goes on with these.
            raise SizeError(
                message(
                    "Local",
                    "the buffer belongs to all elements, not to the active ones only",
                    "allocate it inside the loop, or pass compress=False.",
                )
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
                return True
        return False

    def update(self, leaves: list[Leaf]) -> None:
        """Take over the state after an iteration."""
        for k, leaf in enumerate(leaves):
            value, before = leaf.value, self.values[k]
            self.values[k] = value
            if not leaf.is_array or value._node is node_of(before):
                continue
            if k not in self.full:
                node = value._node
                if node.size == 1:
                    node = value._node = trace.resized(node, self.index.size)
                self.full[k] = self._full_size(type(value), before)
            self.changed.add(k)

    def _full_size(self, cls: type[Any], before: Any) -> Any:
        """Return an array of all elements for a leaf that was uniform so far."""
        node = before._node if type(before) is cls else cls(before)._node
        return with_node(cls, trace.resized(node, self.lanes))

    def expand(self) -> list[Any]:
        """Return the leaves of all elements."""
        self._put_aside()
        finals = list(self.values)
        for k in self.full:
            finals[k] = self.full[k] if k in self.changed else self.original[k]
        self.full.clear()
        return finals

    def expanded_mask(self) -> Node:
        """Return the active mask of all elements."""
        node = trace.literal(self.active.type, False, self.lanes)
        holder = _Holder(node)
        self._write(holder, self.active)
        return holder._node


class _Holder:
    """Stands for an array object that nobody sees."""

    def __init__(self, node: Node) -> None:
        self._node = node


def entries(node: Node, positions: Node) -> Node:
    """Gather, whatever restricts the indexing of the body."""
    with trace.masked_only(None), memory.guarded(None):
        return memory.entries(node, positions, trace.make_true(1))
