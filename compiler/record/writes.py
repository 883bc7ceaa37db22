"""Writes as effects of the trace: new versions of arrays, who may be written in place.

`memory` checks indices before it writes; what is known to fit is written from here.
"""

from __future__ import annotations

import sys
from typing import Any

from lumijit.compiler.ir import trace, value_numbering, vertices
from lumijit.compiler.ir.effects import Holder, reduction
from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.structural import (
    CONSUMED,
    EVALUATED,
    LITERAL,
    OUTER,
    SCATTER,
    TRACKED_WRITES,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.roles import is_returning
from lumijit.compiler.ir.trace import get_watched, set_watched
from lumijit.compiler.launch import evaluate
from lumijit.runtime import contexts, recorders, workers
from lumijit.runtime.config import flags
from lumijit.runtime.contexts import on_error, settle
from lumijit.runtime.dtypes import UINT32, VOID
from lumijit.runtime.errors import SizeError

# So many writes of entries of an array wait to be computed together.
_SEVERAL = 8


class Writes:
    """The writes to one array: its first and its last version.

    `is_mixed` tells whether it was replaced between writes.
    """

    __slots__ = ("first", "holder", "is_mixed", "last")

    def __init__(self, holder: Holder, first: Node, last: Node) -> None:
        self.holder = holder
        self.first = first
        self.last = last
        self.is_mixed = False


class watched:
    """Note the writes outside of regions; if the construct raises, undo them.

    `entries` are the writes to arrays, by the ids of these. `has_single` tells whether
    any was a single write, not one per element, or any gradient was given once.
    `outer`: what was watched when this began.
    """

    __slots__ = ("entries", "has_single", "outer")

    def __init__(self) -> None:
        self.entries: dict[int, Writes] = {}
        self.has_single = False
        self.outer: watched | None = get_watched()

    def __enter__(self) -> watched:
        on_error(self.undo)
        set_watched(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outer = self.outer
        set_watched(outer)
        if kind is not None:
            return
        if outer is not None:
            for key, writes in self.entries.items():
                before = outer.entries.setdefault(key, writes)
                if before is not writes:
                    is_next = before.last is writes.first
                    before.is_mixed |= writes.is_mixed or not is_next
                    before.last = writes.last
            if self.has_single:
                outer.has_single = True
        settle(self.undo)

    def undo(self) -> None:
        """Give arrays what they had before, unless somebody has put it back."""
        for writes in self.entries.values():
            if writes.holder._node is writes.last:
                writes.holder._go_back(writes.first)


def last_versions(found: watched) -> dict[int, Node]:
    """Return the last versions of the arrays that have been written, by their ids."""
    return {key: entry.last for key, entry in found.entries.items()}


def note_write(holder: Holder, before: Node) -> None:
    """Note that an array outside of regions has got another node: a new version."""
    found = get_watched()
    if found is None:
        return
    now = holder._node
    entry = found.entries.get(id(holder))
    if entry is None:
        found.entries[id(holder)] = Writes(holder, before, now)
        return
    if entry.last is not before:
        entry.is_mixed = True
    entry.last = now


def note_single(*operands: Node) -> None:
    """Note an effect of one entry under an evaluated condition of one entry.

    Where a function runs for some elements (`guard`), one entry may be that of one.
    """
    found, mask = trace.state.watched, trace.state.mask
    if found is None or mask is None or trace.state.guard is not None:
        return
    if trace.state.scope is ROOT and all(n.size == 1 for n in (mask, *operands)):
        found.has_single = True


def append_effect(holder: Holder, effect: Node) -> None:
    """Give the holder its new version and note the effect in a region's scope."""
    scope = trace.state.scope
    target = holder._node
    if scope is not ROOT:
        scope.effects.append(effect)
        scope.writes.setdefault(id(holder), (holder, target))
    written = trace.make(WRITTEN, target.type, target.size, (effect,), None)
    holder._advance(written)
    if is_returning(effect):
        # It may run for what it returns, while only later writes need the array.
        value_numbering.note(effect, written)
    if scope is ROOT:
        # (At once: what nobody has noted can't be undone.)
        note_write(holder, target)
        if vertices.variables and effect.op in TRACKED_WRITES:
            _track(written, effect)
        evaluate.note_effect(written, target)


def _track(written: Node, effect: Node) -> None:
    """Have a version remember what it was written of.

    Unless derivatives need the contents of before, something else stands for them: who
    refers to the array would have it copied.
    """
    if effect.op is OUTER:
        deps = (stand_in(effect.deps[0]), *effect.deps[1:])
        vertices.track(written, OUTER, deps, effect.attr)
        return
    target, value, index, mask = effect.deps
    how = effect.attr or reduction("add", "auto")
    if not depends_on_entries(how.op):
        target = stand_in(target)
    vertices.track(written, SCATTER, (target, value, index, mask), how)


def depends_on_entries(op: str) -> bool:
    """Tell whether the derivatives of writes depend on what they are combined with."""
    return op not in ("identity", "add")


def stand_in(target: Node, contents: tuple[Node, ...] = ()) -> Node:
    """Return what has the derivatives of an array, but not its contents.

    Its attribute is the id of the array. If these are needed, it refers to them.
    """
    made = trace.make(CONSUMED, target.type, target.size, contents, id(target))
    made.vertex = target.vertex
    return made


def _references(holder: Holder) -> int:
    """Count who refers to a holder's node, this function included."""
    node = holder._node
    return sys.getrefcount(node)


_UNSHARED = _references(Holder(trace.undefined(UINT32, 1)))


def is_recorded(holder: Holder) -> bool:
    """Tell whether a derivative may refer to the contents of a holder's node."""
    if not vertices.variables:
        return False
    vertex = holder._node.vertex
    is_result = vertex is not None and bool(vertex.inputs)
    return is_result or _references(holder) > _UNSHARED


def claim(holder: Holder) -> None:
    """Give a holder a node of its own before its first write.

    Arrays share nodes (`Float(x)`, equal literals), and what is written to one must
    not show in another. Inside a region, its bookkeeping refers to the nodes, too.
    """
    node = rehoused(holder)
    if node is not None and trace.state.scope is ROOT:
        note_write(holder, node)


def rehoused(holder: Holder) -> Node | None:
    """Give a holder a node of its own; return the one that it shared, if it did.

    (Nobody is told that it will be written to.)
    """
    node = holder._node
    if node.op in (LITERAL, UNDEFINED):
        if _is_claimed(holder, node):
            return None
        if node.op is LITERAL:
            holder._rehouse(trace.make_root(LITERAL, node.type, node.size, node.attr))
        else:
            holder._rehouse(trace.undefined(node.type, node.size))
        _note_renewed(node, holder._node)
        return node
    if trace.state.scope is not ROOT:
        return None
    kept = _times_held(holder, node)
    del node
    if _references(holder) <= _UNSHARED + kept:
        return None
    node = holder._node
    holder._rehouse(trace.copied(node))
    return node


def put(holder: Holder, position: int, value: Any) -> bool:
    """Write a number to an entry in memory at once, if nobody can tell.

    That takes a fraction of a launch's time. Who refers to the contents as they are,
    as what is traced but not computed yet does, has a reference to the node. While
    jobs run, some writes are traced, so that nobody waits.

    Returns:
        Whether it is written; else, it has to be traced.
    """
    state = trace.state
    if state.watched is not None or contexts.is_apart() or not trace.is_unconditional():
        return False
    if _has_several(holder._node):
        evaluate.evaluate((holder._node,))
        workers.sync()
    node = holder._node
    if node.op is not EVALUATED or node.vertex is not None or recorders.is_heard():
        return False
    buffer, dtype, size = node.buffer, node.type, node.size
    assert buffer is not None
    is_own = buffer.device is None and not buffer.is_foreign
    if not is_own or id(buffer) in vertices.exposed or not workers.is_idle():
        return False
    del node
    if _references(holder) > _UNSHARED:
        return False
    buffer.check_intact()
    dtype.write(buffer.address + position * dtype.size_bytes, value)
    # What was computed of the entries of before is known by the node.
    holder._advance(trace.from_buffer(dtype, buffer, size))
    return True


def _has_several(node: Node) -> bool:
    """Tell whether so many writes of an entry wait that there will be more."""
    count = 0
    while node.op is WRITTEN and node.deps[0].op is SCATTER and node.deps[0].size == 1:
        node = node.deps[0].deps[0]
        count += 1
    return count >= _SEVERAL


def _times_held(holder: Holder, node: Node) -> int:
    """Count the references by constructs that only watch.

    These are of `trace.state.held`, and last versions, to which nothing goes back.
    """
    count = sum([other is node for held in trace.state.held for other in held])
    found = trace.state.watched
    while found is not None:
        entry = found.entries.get(id(holder))
        count += entry is not None and entry.last is node
        found = found.outer
    return count


def _note_renewed(node: Node, renewed: Node) -> None:
    """Have open regions that indexed a node have indexed the one in its place."""
    scope: Scope | None = trace.state.scope
    while scope is not None and scope is not ROOT:
        if id(node) in scope.reads:
            scope.reads[id(renewed)] = renewed
        scope = scope.parent


def _is_claimed(holder: Holder, node: Node) -> bool:
    """Tell whether another side of the same region has claimed the node."""
    scope: Scope | None = trace.state.scope
    while scope is not None:
        if scope.claimed.get(id(holder)) is node:
            return True
        scope = scope.parent
    return False


def is_nothing(holder: Holder, size: int, mask: Node, construct: str) -> bool:
    """Tell whether a write by so many elements surely changes nothing.

    Arrays without entries are refused for the elements of a region.
    """
    width = trace.state.scope.width
    if size == 0 and width > 1:
        raise SizeError(
            construct,
            f"arrays without entries are written by {width} elements of a symbolic "
            "loop, branch or call",
            "use arrays of one entry for each element, or of one for all.",
        )
    is_masked = mask.op is LITERAL and not mask.attr
    return size == 0 or holder._node.size == 0 or is_masked


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
    if is_nothing(holder, size, mask, "scatter"):
        return
    if mode == "auto" and op != "identity" and not flags.scatter_reduce_local:
        mode = "apart"
    claim(holder)
    deps = (holder._node, value, index, mask)
    effect = trace.make(SCATTER, VOID, size, deps, reduction(op, mode, group))
    append_effect(holder, effect)
