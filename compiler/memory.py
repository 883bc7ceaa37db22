"""Indirect reads and writes: gather, scatter, atomic updates.

A write makes a new *version* of its target: the array object then holds a
WRITTEN node that depends on the effect. Nothing is pending besides: whoever
reads the new version depends on the effect, and a target that nobody reads
drops its effect with it. Inside a region the scope collects the effects in
program order, and closing the region makes the versions that its surroundings
see (`regions`).
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from typing import Protocol

from lumijit.compiler import bounds, trace
from lumijit.compiler.bounds import IndexedArgument as IndexedArgument
from lumijit.compiler.ops.logic import COPY
from lumijit.compiler.ops.structural import (
    COUNTER,
    GATHER,
    LITERAL,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_INC,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.trace import ROOT, Node
from lumijit.runtime.config import flags
from lumijit.runtime.contexts import on_error, settle
from lumijit.runtime.dtypes import UINT32, VOID, DType

OPERATIONS = ("identity", "add", "mul", "min", "max", "and", "or")
# "apart" is "auto" without flag ScatterReduceLocal: lanes aren't combined.
MODES = ("auto", "apart", "direct", "local", "no_conflicts", "permute", "expand")
CONSUMED = "consumed"


class Holder(Protocol):
    """An array object whose contents a scatter replaces by a new version."""

    _node: Node


@dataclass(frozen=True)
class Reduction:
    """What a scatter does with the entry it finds, and how.

    Scatters of one non-zero `group` are promised to hit different entries, so
    they may share a kernel, and run at once in it where they are neighbours (`joins`).
    """

    op: str
    mode: str
    group: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """What matters for the generated code."""
        return (self.op, self.mode)


def joins(node: Node) -> bool:
    """Tell whether a scatter hits other entries than the write before it does."""
    before = node.deps[0]
    if before.op is not WRITTEN or before.deps[0].op is not SCATTER:
        return False
    group: int = node.attr.group
    return group != 0 and before.deps[0].attr.group == group


_groups = itertools.count(1)


def new_group() -> int:
    """Return a number for scatters that are promised to hit different entries."""
    return next(_groups)


class Writes:
    """The writes to one array: its first and its last version.

    `is_single` tells whether one of them was a single write, not one per element.
    """

    __slots__ = ("first", "holder", "is_single", "last")

    def __init__(self, holder: Holder, first: Node, last: Node) -> None:
        self.holder = holder
        self.first = first
        self.last = last
        self.is_single = False


class watched:
    """Note the writes outside of regions; if the construct raises, undo them."""

    __slots__ = ("_found", "_outer")

    def __enter__(self) -> dict[int, Writes]:
        self._outer = trace.state.watched
        self._found: dict[int, Writes] = {}
        on_error(self._undo)
        trace.state.watched = self._found
        return self._found

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outer, found = self._outer, self._found
        trace.state.watched = outer
        if kind is not None:
            return
        if outer is not None:
            for key, writes in found.items():
                before = outer.setdefault(key, writes)
                before.last = writes.last
                before.is_single |= writes.is_single
        settle(self._undo)

    def _undo(self) -> None:
        for writes in self._found.values():
            writes.holder._node = writes.first


def note_write(holder: Holder, before: Node) -> None:
    """Note that an array outside of regions has got a new version."""
    found = trace.state.watched
    if found is not None:
        entry = found.setdefault(id(holder), Writes(holder, before, before))
        entry.last = holder._node


def _note_single(holder: Holder, *operands: Node) -> None:
    """Note a write of one entry under an evaluated condition of one entry."""
    found, mask = trace.state.watched, trace.state.mask
    if found and mask is not None and mask.op is not LITERAL:
        entry = found.get(id(holder))
        if entry is not None and all(node.size == 1 for node in operands):
            entry.is_single = True


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
    return _place(construct, size or source.size, index, mask, count)


def _place(
    construct: str, size: int, index: Node, mask: Node, count: int
) -> tuple[Node, Node]:
    if trace.running_lanes and trace.state.lane is not None:
        index, mask = trace.state.lane.place(index, mask, size // count, construct)
    return bounds.place(construct, size, index, trace.under_mask(mask), count)


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
            return source
        return trace.select(trace.resized(mask, size), source, _zero(source.type))
    is_identity = index.op is COUNTER and index.size == source.size and not offset
    if is_all and is_identity:
        return source
    if not offset and source.type.size_bytes >= 4:
        index, offset = bounds.neighbour(index)
    return read(source, index, mask, offset)


def read(source: Node, index: Node, mask: Node, offset: int = 0) -> Node:
    """Append a gather without checks: of an array in memory, inside its bounds."""
    size = trace.broadcast_size(GATHER, (index, mask))
    deps = (source, index, mask)
    return trace.append(GATHER, source.type, deps, offset or None, size=size)


def _zero(dtype: DType) -> Node:
    return trace.literal(dtype, dtype.wrap(0))


def _write(holder: Holder, effect: Node) -> None:
    """Give the holder its new version and note the effect in a region's scope."""
    scope = trace.state.scope
    target = holder._node
    if scope is not ROOT:
        scope.effects.append(effect)
        scope.writes.setdefault(id(holder), (holder, target))
    written = trace.make(WRITTEN, target.type, target.size, (effect,), None)
    holder._node = written
    if scope is ROOT:
        from lumijit.compiler import evaluate

        evaluate.note_effect(written, target)
        note_write(holder, target)


class _Sample:
    """A holder whose node nobody else refers to."""

    def __init__(self) -> None:
        self._node = trace.undefined(UINT32, 1)


def _references(holder: Holder) -> int:
    """Count who refers to a holder's node, this function included."""
    node = holder._node
    return sys.getrefcount(node)


_UNSHARED = _references(_Sample())


def _claim(holder: Holder) -> None:
    """Give a holder a node of its own before its first write.

    Arrays share nodes (`Float(x)`, equal literals), and what is written to one must
    not show in another. Inside a region, its bookkeeping refers to the nodes, too.
    """
    node = holder._node
    if node.op in (LITERAL, UNDEFINED) and _is_claimed(holder, node):
        return
    if node.op is LITERAL:
        holder._node = trace.make_root(LITERAL, node.type, node.size, node.attr)
        _note_renewed(node, holder._node)
    elif node.op is UNDEFINED:
        holder._node = trace.undefined(node.type, node.size)
        _note_renewed(node, holder._node)
    elif trace.state.scope is ROOT:
        kept = sum(other is node for held in trace.state.held for other in held)
        del node
        if _references(holder) > _UNSHARED + kept:
            node = holder._node
            holder._node = trace.make(COPY, node.type, node.size, (node,), None)


def _note_renewed(node: Node, renewed: Node) -> None:
    """Have open regions that indexed a node have indexed the one in its place."""
    scope: trace.Scope | None = trace.state.scope
    while scope is not None and scope is not ROOT:
        if id(node) in scope.reads:
            scope.reads[id(renewed)] = renewed
        scope = scope.parent


def _is_claimed(holder: Holder, node: Node) -> bool:
    """Tell whether another side of the same region has claimed the node."""
    scope: trace.Scope | None = trace.state.scope
    while scope is not None:
        if scope.claimed.get(id(holder)) is node:
            return True
        scope = scope.parent
    return False


def _check_target(holder: Holder, construct: str) -> None:
    target = holder._node
    mine = target.op is WRITTEN and target.scope is not ROOT
    if not mine:
        bounds.check_indexable(target, construct)


def aim(
    holder: Holder, index: Node, mask: Node, construct: str, count: int = 1
) -> tuple[Node, Node]:
    """Return the position of a write to an array and where it takes place: `place`."""
    _check_target(holder, construct)
    if trace.running_lanes and trace.state.lane is not None:
        trace.state.lane.give_back(holder)
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
    _note_single(holder, value, index, mask)


def write(
    holder: Holder,
    value: Node,
    index: Node,
    mask: Node,
    op: str = "identity",
    mode: str = "auto",
    group: int = 0,
) -> None:
    """Append a write without checks."""
    size = trace.broadcast_size(SCATTER, (value, index, mask))
    is_masked = mask.op is LITERAL and not mask.attr
    if size == 0 or holder._node.size == 0 or is_masked:
        return
    if mode == "auto" and op != "identity" and not flags.scatter_reduce_local:
        mode = "apart"
    _claim(holder)
    deps = (holder._node, value, index, mask)
    effect = trace.make(SCATTER, VOID, size, deps, Reduction(op, mode, group))
    _write(holder, effect)


def scatter_inc(holder: Holder, index: Node, mask: Node) -> Node:
    """Add 1 to `holder[index]` where the mask is set; return the entries before.

    Elsewhere and outside, that is zero.
    """
    index, mask = aim(holder, index, mask, "scatter_inc")
    lane = trace.state.lane
    size = trace.broadcast_size(SCATTER_INC, (index, mask))
    if size == 0 or holder._node.size == 0 or (mask.op is LITERAL and not mask.attr):
        return trace.literal(UINT32, 0, size)
    _claim(holder)
    deps = (holder._node, index, mask)
    effect = trace.make(SCATTER_INC, UINT32, size, deps, None)
    _write(holder, effect)
    _note_single(holder, index, mask)
    return effect if lane is None else lane.count(effect)


def scatter_kahan(
    sums: Holder, errors: Holder, value: Node, index: Node, mask: Node
) -> None:
    """Add `value` to `sums[index]`, and what rounding took away to `errors[index]`."""
    _check_target(errors, "scatter_add_kahan")
    index, mask = aim(sums, index, mask, "scatter_add_kahan")
    size = trace.broadcast_size(SCATTER_ERROR, (value, index, mask))
    is_masked = mask.op is LITERAL and not mask.attr
    if size == 0 or sums._node.size == 0 or is_masked:
        return
    _claim(sums)
    deps = (sums._node, value, index, mask)
    effect = trace.make(SCATTER_ERROR, value.type, size, deps, None)
    _write(sums, effect)
    write(errors, effect, index, mask, "add", "direct")
