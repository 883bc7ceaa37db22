"""Literals that the body of a symbolic loop writes to: what stands in for them.

Where the body reads one, it would be folded to the contents before the loop. Closing
the loop tells whether it is read, and puts the literals back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lumijit.base import ArrayBase
from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import LITERAL, UNDEFINED
from lumijit.compiler.record import regions
from lumijit.compiler.record.writes import rehoused
from lumijit.runtime.contexts import on_error


class StandIns:
    """Arrays by id, with their contents and what stands in for these."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[Any, Node, Node]] = {}

    def put(self, written: Iterable[Any]) -> None:
        """Let others stand in, also for literals in arrays that will be `written`."""
        for array in written:
            # Equal literals are one node, of which each array gets its own.
            before = array._node
            rehoused(array)
            own = array._node
            array._go_back(before)
            self._note(array, own)
        if not self.entries:
            return

        def restore() -> None:
            for holder, node, _ in self.entries.values():
                holder._go_back(node)

        on_error(restore)
        for holder, _, stand_in in self.entries.values():
            holder._rehouse(stand_in)

    def _note(self, holder: Any, node: Node) -> None:
        if id(holder) not in self.entries:
            self.entries[id(holder)] = (holder, node, regions.stand_in(node))

    def note_writes(self, inner: Scope) -> bool:
        """Note literals that a body has written to; tell whether there are any."""
        before = len(self.entries)
        for holder, node in inner.writes.values():
            if node.op in (LITERAL, UNDEFINED) and isinstance(holder, ArrayBase):
                self._note(holder, node)
        return len(self.entries) > before

    def literals(self) -> dict[int, Node]:
        """Return the literals by the ids of what stands in for them."""
        return {id(stand_in): node for _, node, stand_in in self.entries.values()}
