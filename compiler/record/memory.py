"""Indirect reads and writes: gather, scatter, atomic updates.

A write makes a new *version* of its target: the array object then holds a
WRITTEN node that depends on the effect. Nothing is pending besides: whoever
reads the new version depends on the effect, and a target that nobody reads
drops its effect with it. Inside a region the scope collects the effects in
program order, and closing the region makes the versions that its surroundings
see (`regions`).
"""

from __future__ import annotations

from typing import Any

from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder, reduction
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    COUNTER,
    GATHER,
    LITERAL,
    SCATTER_CAS,
    SCATTER_ERROR,
    SCATTER_FETCH,
    SCATTER_INC,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.roles import outermost
from lumijit.compiler.record import bounds, writes
from lumijit.compiler.record.bounds import IndexedArgument as IndexedArgument
from lumijit.compiler.record.writes import (
    append_effect,
    claim,
    is_nothing,
    note_single,
    write,
)
from lumijit.runtime.dtypes import UINT32, DType
from lumijit.runtime.errors import SizeError


def gather(source: Node, index: Node, mask: Node) -> Node:
    """Read `source[index]` where the mask is set, and zero elsewhere and outside."""
    position, mask = place(source, index, mask, "gather")
    return entries(source, position, mask)


def place(
    source: Node,
    index: Node,
    mask: Node,
    construct: str,
    count: int = 1,
    size: int | None = None,
) -> tuple[Node, Node]:
    """Return the UInt32 position of an access to an array, and where it takes place.

    Args:
        source: the array.
        index: integers of any type; negative ones count from the end.
        mask: which accesses are wanted.
        construct: what accesses the array, for messages.
        count: how many neighbouring entries an index stands for.
        size: how many entries there are, if not those of `source`.
    """
    source = bounds.table(source)
    bounds.check_indexable(source, construct)
    if trace.running_lanes and trace.state.lane is not None:
        source = trace.state.lane.array(source, construct)
    if size is None:
        size = source.size
    return _place(construct, size, index, mask, count)


def _place(
    construct: str, size: int, index: Node, mask: Node, count: int
) -> tuple[Node, Node]:
    if trace.running_lanes and trace.state.lane is not None:
        index, mask = trace.state.lane.place(index, mask, size // count, construct)
    return bounds.place(construct, size, index, _masked(construct, index, mask), count)


def _masked(construct: str, index: Node, mask: Node) -> Node:
    """Combine the mask of an access with that of the evaluated control flow around."""
    outer = trace.state.mask
    if outer is None:
        return mask
    width = max(index.size, mask.size)
    if outer.size != width and 1 not in (outer.size, width):
        raise SizeError(
            construct,
            f"{width} entries are accessed where the evaluated loop, branch or call "
            f"around has {outer.size} elements",
            "access one entry for each element, or do it outside.",
        )
    return trace.under_mask(mask)


def entries(source: Node, index: Node, mask: Node, offset: int = 0) -> Node:
    """Read `source[index + offset]`, where `place` has checked the index.

    Gathers that differ in their offset only are read together.
    """
    source = bounds.table(source)
    scope = trace.state.scope
    if scope is not ROOT:
        scope.reads[id(source)] = source
    if trace.running_lanes and trace.state.lane is not None:
        entry: Node | None = trace.state.lane.gather(source, index, mask, offset)
        if entry is not None:
            return entry
    size = trace.broadcast_size(GATHER, (index, mask))
    if source.size == 0 or (mask.op is LITERAL and not mask.attr):
        return trace.literal(source.type, source.type.wrap(0), size)
    if source.op is LITERAL:
        value = trace.literal(source.type, source.attr, size)
        return trace.select(mask, value, _zero(source.type))
    if source.op is UNDEFINED:
        value = trace.undefined(source.type, size)
        return trace.select(mask, value, _zero(source.type))
    is_all = mask.op is LITERAL and bool(mask.attr)
    if source.size == 1:
        if is_all and size == 1:
            return trace.unchanged(source)
        return trace.select(trace.resized(mask, size), source, _zero(source.type))
    is_identity = index.op is COUNTER and index.size == source.size and not offset
    if is_all and is_identity:
        return trace.unchanged(source)
    if not offset and source.type.size_bytes >= 4:
        index, offset = bounds.neighbour(index)
    return read(source, index, mask, offset)


def read_inside(source: Node, index: Node, offset: int = 0) -> Node:
    """Read `source[index + offset]` at positions inside, whoever takes part.

    For what rearranges arrays: their entries have nothing to do with the elements of
    the evaluated branch around, under whose mask `gather` reads.
    """
    everywhere = trace.make_true(1)
    index = trace.cast_to(index, UINT32)
    if trace.running_lanes and trace.state.lane is not None:
        if offset:
            index = trace.emit2(ADD, index, trace.literal(UINT32, offset))
        return gather(source, index, everywhere)
    source = bounds.table(source)
    bounds.check_indexable(source, "gather")
    return entries(source, index, everywhere, offset)


def read(source: Node, index: Node, mask: Node, offset: int = 0) -> Node:
    """Append a gather without checks: of an array in memory, inside its bounds."""
    size = trace.broadcast_size(GATHER, (index, mask))
    deps = (source, index, mask)
    return trace.append(GATHER, source.type, deps, offset or None, size=size)


def _zero(dtype: DType) -> Node:
    return trace.literal(dtype, dtype.wrap(0))


def _check_target(holder: Holder, construct: str) -> None:
    target = holder._node
    mine = target.op is WRITTEN and target.scope is not ROOT
    if not mine:
        bounds.check_indexable(target, construct)


def aim(
    holder: Holder,
    index: Node,
    mask: Node,
    construct: str,
    count: int = 1,
    is_inside: bool = False,
) -> tuple[Node, Node]:
    """Return the position of a write to an array and where it takes place: `place`.

    Positions that are `is_inside` for sure aren't checked.
    """
    _check_target(holder, construct)
    if trace.running_lanes and trace.state.lane is not None:
        trace.state.lane.give_back(holder)
    elif is_inside:
        return index, _masked(construct, index, mask)
    return _place(construct, holder._node.size, index, mask, count)


def scatter(
    holder: Holder,
    value: Node,
    index: Node,
    mask: Node,
    op: str = "identity",
    mode: str = "auto",
) -> None:
    """Combine `value` into `holder[index]` where the mask is set."""
    position, mask = aim(holder, index, mask, "scatter")
    update(holder, value, position, mask, op, mode)


def update(
    holder: Holder,
    value: Node,
    index: Node,
    mask: Node,
    op: str = "identity",
    mode: str = "auto",
    group: int = 0,
) -> None:
    """Combine `value` into `holder[index]`, where `aim` has checked the index."""
    if trace.running_lanes and trace.state.lane is not None:
        value = trace.state.lane.known(value)
    write(holder, value, index, mask, op, mode, group)
    note_single(value, index, mask)


def scatter_inc(holder: Holder, index: Node, mask: Node) -> Node:
    """Add 1 to `holder[index]` where the mask is set; return the entries before.

    Elsewhere and outside, that is zero.
    """
    index, mask = aim(holder, index, mask, "scatter_inc")
    return _known(_atomic(SCATTER_INC, holder, (index, mask)))


def fetch(holder: Holder, value: Node, index: Node, mask: Node, op: str) -> Node:
    """Update `holder[index]`, where `aim` has checked the index; return what it was.

    Elsewhere, that is zero.
    """
    how = reduction(op, "auto")
    return _atomic(SCATTER_FETCH, holder, (value, index, mask), how)


def exchange(holder: Holder, value: Node, index: Node, mask: Node) -> Node:
    """Write `holder[index]`, where `aim` has checked the index; return what it was."""
    return _known(fetch(holder, value, index, mask, "identity"))


def exchange_if(
    holder: Holder, value: Node, expected: Node, index: Node, mask: Node
) -> Node:
    """Do what `exchange` does, but write entries with the expected bits only."""
    return _known(_atomic(SCATTER_CAS, holder, (value, expected, index, mask)))


def _atomic(
    op: Op, holder: Holder, operands: tuple[Node, ...], attr: Any = None
) -> Node:
    """Append an update of entries; return what they were, and zero elsewhere.

    The last operand is the mask.
    """
    size = trace.broadcast_size(op, operands)
    t = holder._node.type
    if is_nothing(holder, size, operands[-1], op.name):
        return trace.literal(t, t.wrap(0), size)
    claim(holder)
    target = holder._node
    effect = trace.make(op, t, size, (target, *operands), attr)
    if op is SCATTER_FETCH and vertices.variables:
        known = writes.stand_in(outermost(target))
        vertices.track(effect, op, (known, *operands), attr)
    append_effect(holder, effect)
    note_single(*operands)
    return effect


def _known(found: Node) -> Node:
    """Return what an update has found, at once if a lane runs."""
    lane = trace.state.lane
    return found if lane is None or found.op is LITERAL else lane.count(found)


def scatter_kahan(
    sums: Holder, errors: Holder, value: Node, index: Node, mask: Node
) -> None:
    """Add `value` to `sums[index]`, and what rounding took away to `errors[index]`."""
    _check_target(errors, "scatter_add_kahan")
    index, mask = aim(sums, index, mask, "scatter_add_kahan")
    size = trace.broadcast_size(SCATTER_ERROR, (value, index, mask))
    if is_nothing(sums, size, mask, "scatter_add_kahan"):
        return
    claim(sums)
    deps = (sums._node, value, index, mask)
    effect = trace.make(SCATTER_ERROR, value.type, size, deps, None)
    append_effect(sums, effect)
    write(errors, effect, index, mask, "add", "direct")
