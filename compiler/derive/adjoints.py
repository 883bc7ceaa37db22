"""Sums of derivatives that arrive at one node, and their size.

An adjoint may be known under a mask only: what comes back through `select` counts
where its operand was taken. Elsewhere it may be anything, also NaN, so masks travel
along and are applied when two adjoints meet, or where one is used otherwise. What has
come back through regions, by index or under a mask before (`is_partial`) counts where
it isn't 0: the rest may belong to elements that were never used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from lumijit.compiler.derive.values import literal
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.local_types import LocalType, is_undefined, local_type_of
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.logic import AND, EQ, NE, NOT
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import local, memory
from lumijit.compiler.record.new_loops import over_entries
from lumijit.compiler.record.reductions import reduce_symbolically
from lumijit.compiler.record.writes import claim
from lumijit.runtime import workers
from lumijit.runtime.dtypes import UINT32, VOID

#: Held while a gradient that a vertex has is added to: other threads may do the same.
adding = threading.RLock()
workers.hold_while_forking(adding)


class Adjoint:
    """A derivative with respect to a node of some type and size, as far as known."""

    __slots__ = ("is_partial", "like", "mask", "size", "value")

    def __init__(self, like: Node | Vertex, value: Node | None = None) -> None:
        self.like = like
        self.size = like.size
        self.value = value
        self.mask: Node | None = None
        self.is_partial = False

    def add(self, value: Node, mask: Node | None = None) -> None:
        """Add a derivative, which counts where the mask is set."""
        if self.value is None:
            self.value, self.mask = value, mask
            return
        if is_zero(value):
            return
        if is_zero(self.value):
            self.value, self.mask = value, mask
            return
        if value is self.value and _are_opposite(mask, self.mask):
            self.mask = None
            return
        if value.size != self.value.size:
            # Of a derivative by one entry for all, each may be a sum of another size.
            self.complete()
            value, mask = self._fitted(value, mask), None
        if mask is not self.mask:
            value = _under(mask, value)
            self.value, self.mask = _under(self.mask, self.value), None
            self.is_partial = True
        self.value = trace.emit2(ADD, self.value, value)

    def scatter(self, value: Node, index: Node, mask: Node, mode: str) -> None:
        """Add a derivative by each element to an entry of this one."""
        total = self.opened()
        memory.update(total, value, index, mask, "add", mode)
        self.close(total)

    def opened(self) -> Holder:
        """Return a holder of the sum so far, to which others may add by index.

        It is handed over until the holder is closed: shared, it would be copied. Who
        else has this derivative by now may read it where this one is added to.
        """
        total = Holder(self.complete())
        self.value = None
        claim(total)
        return total

    def close(self, holder: Holder) -> None:
        """Take what was added to an opened sum."""
        self.value, self.mask = holder._node, None

    def complete(self) -> Node:
        """Return the sum, of the size of what it is with respect to.

        Inside of a region, each element has a part, also of what is one for all.
        """
        if self.value is None:
            return trace.literal(self.like.type, 0.0, self.size)
        self.is_partial = self.is_partial or self.mask is not None
        self.value, self.mask = self._fitted(self.value, self.mask), None
        return self.value

    def where(self) -> Node | None:
        """Return where the derivative counts; None is everywhere.

        What is 0 may have a derivative itself, which counts, too.
        """
        value = self.value
        if not self.is_partial or self.mask is not None or value is None:
            return self.mask
        if value.vertex is not None:
            return None
        return partly(trace.emit2(NE, value, literal(0, value)))

    def _fitted(self, value: Node, mask: Node | None) -> Node:
        """Apply a mask and give a derivative the size of what it is with respect to."""
        value = _under(mask, value)
        if value.size == self.size or trace.state.scope is not ROOT:
            return value
        if self.size == 1:
            return reduce_symbolically("add", value)
        return trace.resized(value, self.size)


class LocalAdjoint:
    """A derivative by the entries of a local buffer: a buffer itself.

    That by a buffer of one entry is the sum of what the elements of this buffer have.
    """

    __slots__ = ("like", "value")

    def __init__(self, like: Node | Vertex) -> None:
        self.like = like
        self.value: Node | None = None

    def add(self, value: Node, mask: Node | None = None) -> None:
        """Add the entries of another buffer."""
        if self.value is None:
            self.value = value
            return
        always = trace.make_true(1)
        width = max(self.value.size, value.size)
        buffer = self._widened(width)

        def step(total: Node, index: Node) -> Node:
            before, more = (local.entry(b, index, always) for b in (total, value))
            total_entry = trace.emit2(ADD, before, self._once(more, width))
            return local.replaced(total, index, total_entry, always)

        length = local_type_of(self.like).length
        self.value = over_entries(length, width, buffer, step)

    def scatter(self, value: Node, index: Node, mask: Node, mode: str) -> None:
        """Add to one entry for each element."""
        width = max(self.like.size, value.size)
        if self.value is not None:
            width = max(width, self.value.size)
        buffer = self._widened(width)
        before = local.entry(buffer, index, mask)
        after = trace.emit2(ADD, before, self._once(value, width))
        self.value = local.replaced(buffer, index, after, mask)

    def _once(self, value: Node, width: int) -> Node:
        """Give a derivative of one entry to the first of so many elements only.

        Inside of a region, each element has a part of its own.
        """
        is_sum = value.size == self.like.size == 1 and trace.state.scope is ROOT
        if not is_sum or width == 1:
            return value
        first = trace.emit2(EQ, trace.counter(width), trace.literal(UINT32, 0))
        return trace.select(first, value, literal(0, value))

    def _widened(self, width: int) -> Node:
        """Return the buffer with so many elements, which have it once."""
        is_inside = trace.state.scope is not ROOT
        if self.value is None:
            self.value = zero(self.like, self.like.size if is_inside else width)
        buffer, always = self.value, trace.make_true(1)
        if buffer.size == width or is_inside:
            return buffer

        def step(total: Node, index: Node) -> Node:
            value = self._once(local.entry(buffer, index, always), width)
            return local.replaced(total, index, value, always)

        return over_entries(local_type_of(self.like).length, width, buffer, step)

    def complete(self) -> Node:
        """Return the buffer."""
        if self.value is None:
            self.value = zero(self.like, self.like.size)
        return self.value

    def total(self) -> Node:
        """Return the sum of all entries."""
        buffer, always = self.complete(), trace.make_true(1)
        dtype = local_type_of(self.like)
        start = trace.literal(dtype.element, 0.0, buffer.size)

        def step(total: Node, index: Node) -> Node:
            return trace.emit2(ADD, total, local.entry(buffer, index, always))

        return over_entries(dtype.length, buffer.size, start, step)


def zero(like: Node | Vertex, size: int = 1) -> Node:
    """Return the derivative 0 by a value."""
    dtype = like.type
    if isinstance(dtype, LocalType):
        element = dtype.element
        start = trace.literal(element, element.wrap(0), max(size, like.size))
        return local.new(dtype, start)
    return trace.literal(dtype, dtype.wrap(0), size)


def unmoved(value: Node) -> Node:
    """Return the forward derivative of a value that has none.

    That is 0; of entries that are undefined, it is undefined.
    """
    if is_undefined(value):
        return local.new(local_type_of(value))
    return zero(value)


def new_adjoint(like: Node | Vertex) -> Any:
    """Return a place for what arrives at a value."""
    if like.type.is_float:
        return Adjoint(like)
    return Bundle() if like.type is VOID else LocalAdjoint(like)


class Bundle:
    """The adjoints of all results of one operation, which has several.

    `targets` are those of arrays that a region writes to, by the ids of these.
    """

    __slots__ = ("parts", "targets")

    def __init__(self) -> None:
        self.parts: dict[int, Any] = {}
        self.targets: dict[int, Any] = {}

    def part(self, position: int, like: Node | Vertex) -> Any:
        """Return the adjoint of one result."""
        if position not in self.parts:
            self.parts[position] = new_adjoint(like)
        return self.parts[position]

    def complete(self) -> Bundle:
        """Return the adjoints themselves."""
        return self


class Places:
    """Where derivatives arrive, and which vertex is the next to pass them on.

    That is the one made last: all that depends on it has been there before.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Vertex, Any]] = {}
        self._waiting: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def at(self, vertex: Vertex) -> Any:
        """Return the adjoint of a vertex, so far."""
        serial = vertex.serial
        known = self._known.get(serial)
        if known is None:
            known = self._known[serial] = vertex, new_adjoint(vertex)
            heappush(self._waiting, -serial)
        return known[1]

    def pop(self) -> tuple[Vertex, Any]:
        """Return the next vertex and its adjoint, which is complete."""
        return self._known.pop(-heappop(self._waiting))


def under_both(first: Node | None, second: Node | None) -> Node | None:
    """Combine two masks, of which None is everywhere."""
    if first is None or second is None:
        return first or second
    return trace.emit2(AND, first, second)


def mark_partial(adjoints: Iterable[Any]) -> None:
    """Note that of what has arrived, some elements may never have been used."""
    for adjoint in adjoints:
        if type(adjoint) is Adjoint:
            adjoint.is_partial = True


def partly(mask: Node) -> Node | None:
    """Return a mask of an access as one of an adjoint, where None is everywhere.

    What isn't written counts nowhere: a NaN or infinity of it must not come back.
    """
    return None if mask.op is LITERAL and mask.attr else mask


def _are_opposite(first: Node | None, second: Node | None) -> bool:
    """Tell whether of two masks one is set where the other isn't."""
    if first is None or second is None:
        return False
    if first.op is NOT and first.deps[0] is second:
        return True
    return second.op is NOT and second.deps[0] is first


def _under(mask: Node | None, value: Node) -> Node:
    if mask is None or (mask.op is NE and mask.deps == (value, literal(0, value))):
        return value
    return trace.select(mask, value, literal(0, value))


def is_zero(value: Node) -> bool:
    """Tell whether a derivative is known to be 0."""
    return value.op is LITERAL and not value.attr
