"""Where an indexed access goes, and which of them stay inside of the array.

`place` is the one rule for reads, writes and atomic updates: negative entries of
signed indices count from the end, and what lies beyond the ends is taken out of the
mask, so that it reads zero and writes nothing. The size is a number among the
kernel's arguments. An index that surely fits (`ranges`) costs nothing. Under flag
`Debug`, `checks` reports what was taken out. Which arrays have entries that can be
indexed is asked here, too.
"""

from __future__ import annotations

from lumijit.compiler.ir import ranges, trace
from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.arithmetic import ADD, MUL
from lumijit.compiler.ir.ops.logic import AND, COPY, INSIDE, LT
from lumijit.compiler.ir.ops.structural import CAST, LITERAL, SYMBOLIC, WRITTEN
from lumijit.compiler.record import checks
from lumijit.compiler.transform.constants import made_outside
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.dtypes import INT32, UINT32, DType, same_bits
from lumijit.runtime.errors import SizeError, SymbolicError

MAX_INDEXED = (1 << 31) - 1


class IndexedArgument(BaseException):
    """A region's argument is indexed, so it can't be one; `control` handles it.

    No `Exception`, so that a body's own handlers don't swallow it.
    """

    def __init__(self, node: Node) -> None:
        super().__init__("a region's argument is indexed")
        self.node = node


def _is_open(scope: Scope) -> bool:
    """Tell whether a scope is the current one or surrounds it."""
    current: Scope | None = trace.state.scope
    while current is not None and current is not scope:
        current = current.parent
    return current is not None


def table(node: Node) -> Node:
    """Return the array with the entries of another: of an argument, what it stands for.

    That holds if the region doesn't change it, so it notes that it was indexed. A copy
    that was made inside, to detach it, has the same entries. A constant that was made
    inside is made outside.
    """
    origin = _origin(node)
    if origin is not node:
        entries = table(origin)
        return node if entries.scope is not ROOT else trace.detached(entries)
    while node.op is SYMBOLIC:
        scope = node.scope
        found = scope.tables.get(id(node))
        if found is None or not _is_open(scope):
            break
        scope.indexed.add(id(node))
        node = found
    if node.scope is not ROOT and node.op is not SYMBOLIC:
        found = made_outside(node)
        if found is not None:
            return found
    return node


def _origin(node: Node) -> Node:
    """Return what a copy was made of in a region."""
    while node.op is COPY and node.scope is not ROOT:
        node = node.deps[0]
    return node


def check_indexable(node: Node, construct: str) -> None:
    """Refuse arrays that have no entries yet, or too many."""
    if node.scope is not ROOT:
        origin = _origin(node)
        if origin.op is SYMBOLIC and _is_open(origin.scope):
            raise IndexedArgument(origin)
        written = node.op is WRITTEN
        problem = (
            "the array was written to inside this symbolic region, so reading it "
            "there would need its evaluation"
            if written
            else "the array is symbolic, so it has no entries that could be indexed"
        )
        raise SymbolicError(
            construct,
            problem,
            "use lumijit.alloc_local, or evaluated mode (mode='evaluated').",
        )
    guard = trace.state.guard
    if guard is not None:
        guard(node)
    if node.size > MAX_INDEXED:
        raise SizeError(
            construct,
            f"arrays of more than {MAX_INDEXED} entries can't be indexed "
            f"(got {node.size})",
            "split the array.",
        )


def place(
    construct: str, size: int, index: Node, mask: Node, count: int = 1
) -> tuple[Node, Node]:
    """Return the UInt32 position where an access begins, and the mask of those inside.

    Args:
        construct: what accesses the array, for messages.
        size: how many entries the array has.
        index: integers of any type.
        mask: which accesses take place.
        count: how many neighbouring entries an access takes; it begins at
            `index * count`.
    """
    rows = size // count
    place, lowest, highest = _from_the_end(_wide(index), rows)
    if (lowest < 0 or highest >= rows) and _is_checked():
        inside = trace.emit2(INSIDE, place, _number(place.type, rows))
        if unusual and flags.debug:
            checks.note(construct, size, count, _wide(index), mask, inside)
        # Most accesses have no mask.
        is_all = mask.op is LITERAL and mask.attr and mask.size == 1
        mask = inside if is_all else trace.emit2(AND, mask, inside)
    position = trace.cast_to(place, UINT32)
    if count > 1:
        position = trace.emit2(MUL, position, _number(UINT32, count))
    return position, mask


def _is_checked() -> bool:
    """Tell whether flags ask for what is out of bounds to be found."""
    return not unusual or flags.check_bounds or flags.debug


def neighbour(index: Node) -> tuple[Node, int]:
    """Write a UInt32 index as another one and what is added to it.

    Entries at `b` and `b + 1` are read together.
    """
    inner = index.deps[0] if index.op is CAST else index
    if inner.op is ADD and inner.type.bits == 32:
        for base, step in (inner.deps, inner.deps[::-1]):
            if step.op is LITERAL and step.attr == 1 and base.size == inner.size:
                return trace.cast_to(base, UINT32), 1
    return index, 0


def _wide(index: Node) -> Node:
    """Return an index in at least 32 bits."""
    if index.type.bits >= 32:
        return index
    return trace.cast_to(index, INT32 if index.type.is_signed else UINT32)


def _from_the_end(index: Node, rows: int) -> tuple[Node, int, int]:
    """Return an unsigned index in which nothing counts from the end, and its range.

    What lies before the beginning is large in it.
    """
    t = index.type
    lowest, highest = ranges.limits(index)
    if not t.is_signed:
        return index, lowest, highest
    unsigned = same_bits(t, "u")
    if lowest >= 0:
        return trace.cast_to(index, unsigned), lowest, highest
    shifted = trace.emit2(ADD, index, _number(t, rows))
    if highest >= 0:
        is_negative = trace.emit2(LT, index, _number(t, 0))
        shifted = trace.select(is_negative, shifted, index)
    else:
        highest += rows
    return trace.cast_to(shifted, unsigned), min(lowest + rows, 0), highest


def _number(dtype: DType, value: int) -> Node:
    return trace.literal(dtype, value)
