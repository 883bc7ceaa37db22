"""Regions: loops and branches as nodes whose attribute holds their body.

A region is traced in a scope of its own. Closing it puts the body's nodes in
order, finds the outer nodes that the body refers to (its captures) and the
arrays it writes, and makes one region node in the surrounding scope, with
projection nodes for the results. `key` describes the body by local indices, so
that equal bodies compare equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lumijit.compiler.ir import blends, trace, value_numbering, vertices
from lumijit.compiler.ir.captures import Captures, Code, in_order
from lumijit.compiler.ir.nodes import ROOT, Node, Scope, begin_walk, begin_walk_after
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    BRANCH,
    CALL,
    LOOP,
    PROJECT,
    SYMBOLIC,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block, Nodes, make_region
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.ir.trace import current_scope, enter_scope, make
from lumijit.compiler.ir.vertices import variables
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import local, writes
from lumijit.compiler.record.block_writes import (
    all_writes_to,
    check_unread,
    operation,
    tracked_writes,
)
from lumijit.compiler.record.lost_gradients import check_isolated
from lumijit.compiler.record.shared_contents import ReadError, check_single_version
from lumijit.compiler.record.writes import note_write
from lumijit.compiler.transform import hidden
from lumijit.compiler.transform.rewriting import Rewriter, without_effects
from lumijit.runtime import config
from lumijit.runtime.contexts import on_error
from lumijit.runtime.dtypes import VOID, DType


def _nothing() -> None:
    """Stand for what `derive.traversal` does."""


# Called when all code of a block has been traced, where others may follow.
before_the_end: Callable[[], None] = _nothing


class scope:
    """Trace into a new scope; leaving it returns to the surrounding one.

    `width` is the number of elements, as far as known; `siblings` are the other
    blocks of the same region so far, whose writes have been undone; `is_loop`: the
    code will be repeated, `bound` times at most if that is known. If the construct
    raises, also while its region is made, arrays that the body wrote to get their
    former contents back.
    """

    __slots__ = ("_inner",)

    def __init__(
        self,
        label: str = "",
        width: int = 1,
        siblings: Sequence[Scope] = (),
        is_loop: bool = False,
        bound: int | None = None,
    ) -> None:
        parent = siblings[0].parent if siblings else current_scope()
        inner = self._inner = Scope(parent, label, width)
        inner.is_loop = is_loop
        inner.bound = bound
        for other in siblings:
            for key, (_, node) in other.writes.items():
                inner.claimed[key] = node

    def __enter__(self) -> Scope:
        on_error(self._undo)
        _enter(self._inner)
        return self._inner

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        inner = self._inner
        outer = inner.parent or ROOT
        if kind is None:
            if current_scope() is inner:
                before_the_end()
            if inner.locals:
                local.suspend(inner)
            if outer is not ROOT:
                outer.reads.update(inner.reads)
        _enter(outer)

    def _undo(self) -> None:
        restore_writes(self._inner)
        forget(self._inner)


def _enter(inner: Scope) -> None:
    if current_scope() is not inner:
        enter_scope(inner)


def restore_writes(inner: Scope) -> None:
    """Undo the new versions by writes in a scope, unless somebody has done so."""
    if inner.locals:
        local.suspend(inner)
    for holder, original in inner.writes.values():
        if holder._node.scope.depth >= inner.depth:
            holder._go_back(original)


config.is_in_region = lambda: current_scope() is not ROOT


class reopened:
    """Trace more into a scope that was left but whose region isn't made yet."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, inner: Scope) -> None:
        self._inner = inner

    def __enter__(self) -> None:
        self._outer = current_scope()
        _enter(self._inner)

    def __exit__(self, *_: object) -> None:
        _enter(self._outer)


def argument(
    dtype: DType, size: int, position: int, initial: Node | None = None
) -> Node:
    """Make a symbolic argument of the current scope, which begins as `initial`."""
    made = make(SYMBOLIC, dtype, size, (), position)
    if variables and dtype.is_differentiable:
        vertices.add_argument(made, initial)
    return made


def _note_targets(inner: Scope, captures: Captures) -> None:
    if inner.writes:
        for _, original in inner.writes.values():
            captures.targets[original] = None


def _finish(
    op: Op,
    args: tuple[Node, ...],
    blocks: Sequence[Block],
    heads: tuple[Node, ...],
    captures: Captures,
    scopes: Sequence[Scope],
    label: str,
) -> Node:
    """Make the region node in the current scope and publish its writes."""
    if captures.targets:
        check_unread(label, blocks, scopes)
    known = set(heads)
    values = [*heads, *[n for n in captures.values if n not in known]]
    sources, targets = [*captures.pointers], [*captures.targets]
    size = _width(op, blocks, values, scopes[0].elements)
    operands = values, sources, targets
    bound = scopes[0].bound
    region, deps = make_region(op, args, blocks, label, operands, False, bound)
    node = make(op, VOID, size, deps, region)
    if variables:
        _track(node, heads, blocks, targets)
    if node.size:
        _publish(node, scopes, targets)
    else:
        _drop_effects(node, scopes)
    return node


def _track(
    node: Node, heads: Nodes, blocks: Sequence[Block], targets: Iterable[Node]
) -> None:
    """Have a region's node remember what its results depend on.

    That is the heads of its operands and tracked nodes outside, which may be others
    than its captures: a value can have the derivatives of another. Of the arrays that
    it writes to, only the outermost region's derivative has to know.
    """
    outputs = [out for block in blocks for out in block.outputs]
    written = [dep for block in blocks for dep in tracked_writes(block.nodes)]
    found = vertices.outside([*outputs, *written], node.scope.depth)
    if node.scope is ROOT:
        floats = [target for target in targets if target.type.is_float]
        found += [_stand_in(target, blocks) for target in floats]
    elif found or any([head.vertex is not None for head in heads]):
        found += hidden.outside(blocks, node.scope.depth)
    vertices.track(node, node.op, (*heads, *found), node.attr)


def _stand_in(target: Node, blocks: Sequence[Block]) -> Node:
    """Return what stands for an array that a region writes to."""
    found = map(operation, all_writes_to(blocks, id(target)))
    is_needed = any(map(writes.depends_on_entries, found))
    return writes.stand_in(target, (target,) if is_needed else ())


def _drop_effects(node: Node, scopes: Sequence[Scope]) -> None:
    """Undo the writes of a region that runs over no elements."""
    node.attr, node.deps = without_effects(node)
    for inner in scopes:
        restore_writes(inner)
        forget(inner)


def _width(op: Op, blocks: Sequence[Block], values: list[Node], least: int) -> int:
    """Return over how many elements a region runs: all that it reads agree."""
    size, is_mixed = 1, False
    found = [*values, *[n for block in blocks for n in block.nodes]]
    for n in found:
        # A version has the size of its array, however many elements write to it.
        if n.size != size and n.size != 1 and n.op is not WRITTEN:
            is_mixed |= size != 1
            size = n.size
    if is_mixed:
        mixed = [n for n in found if n.size != 1 and n.op is not WRITTEN]
        raise trace.size_mismatch(op, tuple(mixed[:8]))
    return max(size, least) if size and least else 0


def _publish(node: Node, scopes: Sequence[Scope], targets: list[Node]) -> None:
    """Replace the versions made inside by one that depends on the region."""
    current = current_scope()
    holders: dict[int, tuple[Any, Node]] = {}
    if targets:
        for inner in scopes:
            holders.update(inner.writes)
    if not holders:
        for inner in scopes:
            forget(inner)
        return
    positions = {id(t): k for k, t in enumerate(targets)}
    blocks = node.attr.blocks if node.vertex is not None else ()
    is_tracked = any([tracked_writes(block.nodes) for block in blocks])
    if current is not ROOT:
        current.effects.append(node)
    writes.note_single(node)
    for key, (holder, original) in holders.items():
        position = positions[id(original)]
        written = make(WRITTEN, original.type, original.size, (node,), position)
        holder._advance(written)
        value_numbering.note(node, written)
        if current is ROOT:
            if original.type.is_float and (is_tracked or original.vertex is not None):
                deps = (node,)
                vertices.track(written, vertices.REGION_WRITE, deps, id(original))
            evaluate.note_effect(written, original)
            note_write(holder, original)
        else:
            current.writes.setdefault(key, (holder, original))
    for inner in scopes:
        forget(inner)


def forget(inner: Scope) -> None:
    """Drop what a closed scope refers to: its nodes refer to the scope."""
    if inner.effects:
        inner.effects = []
    if inner.writes:
        inner.writes = {}
    if inner.locals:
        inner.locals = {}
    if inner.reads:
        inner.reads = {}
    if inner.claimed:
        inner.claimed = {}


def _check_reads(inner: Scope, values: dict[Node, None]) -> None:
    """Refuse a loop that reads an array which its iterations before have written.

    The body refers to the contents before the loop, so it would miss the writes.
    """
    for holder, original in inner.writes.values():
        if id(original) in inner.reads or original in values:
            raise ReadError(
                holder,
                inner.label or "while_loop",
                "the body reads an array that it also writes to by index, so an "
                "iteration would have to see what those before have written",
                "use lumijit.alloc_local, or evaluated mode (mode='evaluated'); if "
                "it reads what was there before the loop, make a copy of that with "
                "lumijit.copy.",
            )


def stand_in(node: Node) -> Node:
    """Return a node of the program that can't be folded, for a literal that can."""
    made = make(COPY, node.type, node.size, (node,), None)
    made.scope = ROOT
    return made


def close_loop(
    inner: Scope,
    inits: tuple[Node, ...],
    args: tuple[Node, ...],
    cond: Node,
    outputs: tuple[Node, ...],
    stand_ins: dict[int, Node] | None = None,
) -> tuple[Node, list[Node]]:
    """Make the loop node; return it and the final value of every argument.

    Arguments that the body hands through unchanged are no state: their final
    value is the initial one. Those that it doesn't read either are dropped.
    `stand_ins` are the nodes, by id, for which others stood in while tracing.
    """
    if inner.writes:
        check_single_version([inner])
    buffers = local.loop_state(inner) if inner.locals else []
    count = len(args)
    if buffers:
        inits = (*inits, *[b.initial for b in buffers])
        args = (*args, *[b.argument for b in buffers])
        outputs = (*outputs, *[b.output for b in buffers])
    if variables:
        check_isolated(args, outputs, inner)
    captures = Captures()
    walk = begin_walk_after(args)
    header = Block(in_order([cond], inner, walk, captures), (cond,))
    nodes = in_order((*inner.effects, *outputs), inner, walk, captures)
    if inner.writes:
        _check_reads(inner, captures.values)
    if stand_ins:
        # These are targets of writes only. The header stays as it is.
        images = {id(own): own for own in header.nodes} | stand_ins
        rewriter = Rewriter(images, is_tracking=True)
        nodes = tuple(rewriter.copy(nodes, inner))
        outputs = tuple(map(rewriter.image, outputs))
        inner.writes = {
            key: (holder, rewriter.image(original))
            for key, (holder, original) in inner.writes.items()
        }
    _note_targets(inner, captures)
    used: set[Node] = set()
    changed = [k for k, arg in enumerate(args) if outputs[k] is not arg]
    if len(changed) < len(args):
        # Which of those that are passed on as they are somebody reads.
        used.add(cond)
        for found in (header.nodes, nodes):
            for node in found:
                used.update(node.deps)
            if variables:
                used.update(hidden.references(found))
        used.update([outputs[k] for k in changed])
    kept = [k for k, arg in enumerate(args) if outputs[k] is not arg or arg in used]
    body = Block(nodes, tuple([outputs[k] for k in kept]))
    heads = tuple([inits[k] for k in kept])
    phis = tuple([args[k] for k in kept])
    node = _finish(LOOP, phis, (header, body), heads, captures, [inner], inner.label)
    results = list(inits)
    for position, k in enumerate(kept):
        if outputs[k] is not args[k]:
            depends = (inits[k], outputs[k])
            results[k] = project(node, args[k].type, position, depends)
    if buffers:
        local.enter_results(buffers, results[count:])
    return node, results[:count]


def close_branch(
    cond: Node,
    scopes: tuple[Scope, Scope],
    outputs: tuple[tuple[Node, ...], tuple[Node, ...]],
) -> tuple[Node, list[Node]]:
    """Make the branch node; return it and one result per pair of outputs."""
    first, second = scopes
    if first.writes or second.writes:
        check_single_version(scopes)
    buffers = local.side_versions(scopes) if first.locals or second.locals else []
    count = len(outputs[0])
    if buffers:
        yes, no = outputs
        outputs = (
            (*yes, *[versions[0] for _, versions in buffers]),
            (*no, *[versions[1] for _, versions in buffers]),
        )
    captures = Captures()
    blocks = []
    for inner, outs in ((first, outputs[0]), (second, outputs[1])):
        nodes = in_order((*inner.effects, *outs), inner, begin_walk(), captures)
        _note_targets(inner, captures)
        blocks.append(Block(nodes, outs))
    node = _finish(BRANCH, (), blocks, (cond,), captures, scopes, first.label)
    results = []
    others = outputs[1]
    for k, a in enumerate(outputs[0]):
        b = others[k]
        results.append(a if a is b else project(node, a.type, k, (a, b)))
    if buffers:
        local.enter_versions(buffers, results[count:])
    return node, results[:count]


def close_call(
    selector: Node,
    bodies: Sequence[tuple[Code, tuple[Node, ...]]],
    written: Scope,
    label: str,
) -> list[Node]:
    """Make a call node; return one node per result.

    `selector` is a UInt32: the position of the body that an element runs plus 1.
    Elements that run none get zeros. A body is given by its code and its results.
    Bodies may share nodes. `written` holds the writes of all.
    """
    check_single_version([written])
    captures = Captures()
    blocks = []
    for code, outs in bodies:
        captures.include(code.captures)
        blocks.append(Block(code.nodes, outs))
    _note_targets(written, captures)
    node = _finish(CALL, (), blocks, (selector,), captures, [written], label)
    columns = enumerate(zip(*(block.outputs for block in blocks), strict=True))
    return [project(node, outs[0].type, k, outs) for k, outs in columns]


def project(region: Node, dtype: DType, position: int, values: Nodes) -> Node:
    """Make the node for one result of a region, by which one that writes is found.

    `values` are what the result may be.
    """
    made = make(PROJECT, dtype, region.size, (region,), position)
    if region.vertex is not None and dtype.is_differentiable:
        for value in values:
            if value.vertex is not None:
                vertices.track(made, vertices.RESULT, (region,), position)
                break
    if variables:
        blends.note(made, values)
    if is_effect(region):
        value_numbering.note(region, made)
    return made
