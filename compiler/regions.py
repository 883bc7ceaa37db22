"""Regions: loops and branches as nodes whose attribute holds their body.

A region is traced in a scope of its own. Closing it puts the body's nodes in
order, finds the outer nodes that the body refers to (its captures) and the
arrays it writes, and makes one region node in the surrounding scope, with
projection nodes for the results. `key` describes the body by local indices, so
that equal bodies compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

from lumijit.compiler import trace
from lumijit.compiler.blocks import (
    Block,
    Branch,
    Call,
    Loop,
    Region,
    attr_key,
    pointer_deps,
    value_deps,
)
from lumijit.compiler.memory import guarded, note_write
from lumijit.compiler.ops.structural import (
    BRANCH,
    CALL,
    EFFECTS,
    LOOP,
    PROJECT,
    REGIONS,
    SYMBOLIC,
    WRITTEN,
)
from lumijit.compiler.trace import Node, Scope
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import VOID, DType
from lumijit.runtime.errors import StateError, SymbolicError, message


@contextmanager
def scope(
    label: str = "", width: int = 1, siblings: Iterable[Scope] = ()
) -> Iterator[Scope]:
    """Trace into a new scope; leaving it returns to the surrounding one.

    `width` is the number of elements, as far as known; `siblings` are the other
    blocks of the same region so far, whose writes have been undone. If the body
    raises, arrays that it wrote to get their former contents back.
    """
    inner = Scope(trace.state.scope, label, width)
    for other in siblings:
        inner.claimed.update((key, node) for key, (_, node) in other.writes.items())
    outer = trace.state.scope
    trace.state.scope = inner
    was_symbolic = flags.symbolic_scope
    flags.symbolic_scope = True
    try:
        yield inner
    except BaseException:
        restore_writes(inner)
        forget(inner)
        raise
    else:
        if outer is not trace.ROOT:
            outer.reads.update(inner.reads)
    finally:
        trace.state.scope = outer
        flags.symbolic_scope = was_symbolic


def restore_writes(inner: Scope) -> None:
    """Undo the new versions that a scope's writes gave to arrays."""
    for holder, original in inner.writes.values():
        holder._node = original


@contextmanager
def undone_on_error(*scopes: Scope) -> Iterator[None]:
    """Undo the scopes' writes if closing their region fails."""
    try:
        yield
    except BaseException:
        for inner in scopes:
            restore_writes(inner)
        raise


@contextmanager
def reopened(inner: Scope) -> Iterator[None]:
    """Trace more into a scope that was left but whose region isn't made yet."""
    outer, was_symbolic = trace.state.scope, flags.symbolic_scope
    trace.state.scope, flags.symbolic_scope = inner, True
    try:
        with trace.masked_only(None), guarded(None):
            yield
    finally:
        trace.state.scope, flags.symbolic_scope = outer, was_symbolic


class Code:
    """The nodes of a scope that some roots need, operands first, and their captures."""

    __slots__ = ("captures", "nodes")

    def __init__(self, roots: Iterable[Node], inner: Scope) -> None:
        self.captures = _Captures()
        self.nodes = _linearize(roots, inner, set(), self.captures)


def argument(dtype: DType, size: int, position: int) -> Node:
    """Make a symbolic argument of the current scope."""
    return trace.make(SYMBOLIC, dtype, size, (), position)


class _Captures:
    """Collects the outer nodes that a body refers to, by their use."""

    def __init__(self) -> None:
        self.values: dict[int, Node] = {}
        self.pointers: dict[int, Node] = {}
        self.targets: dict[int, Node] = {}

    def include(self, other: _Captures) -> None:
        """Add what another body refers to."""
        self.values.update(other.values)
        self.pointers.update(other.pointers)


def _linearize(
    roots: Iterable[Node], inner: Scope, done: set[int], captures: _Captures
) -> tuple[Node, ...]:
    """Order the nodes of a scope that `roots` need; note the outer nodes."""
    order: list[Node] = []
    values = captures.values
    for root in roots:
        if root.scope is not inner:
            values[id(root)] = root
            continue
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in done:
                stack.pop()
                continue
            if node.op.lower is not None:
                deps = node.deps
            else:
                deps = value_deps(node)
                sources, targets = _indexed(node)
                captures.pointers.update((id(dep), dep) for dep in sources)
                stack += [d for d in targets if d.scope is inner and id(d) not in done]
            for dep in deps:
                if dep.scope is not inner:
                    values[id(dep)] = dep
                elif id(dep) not in done:
                    stack.append(dep)
            if stack[-1] is node:
                stack.pop()
                done.add(id(node))
                order.append(node)
    return tuple(order)


def recapture(node: Node) -> None:
    """Find anew what a region refers to, after its nodes got other operands.

    The arrays that it writes stay the same.
    """
    region = node.attr
    heads = len(region.args) if isinstance(region, Loop) else 1
    inside = {id(n) for block in region.blocks for n in block.nodes}
    if isinstance(region, Loop):
        inside.update(map(id, region.args))
    values: dict[int, Node] = {}
    pointers: dict[int, Node] = {}
    for block in region.blocks:
        for inner in block.nodes:
            values.update((id(d), d) for d in value_deps(inner))
            pointers.update((id(d), d) for d in _indexed(inner)[0])
        values.update((id(out), out) for out in block.outputs)
    known = inside | set(map(id, node.deps[:heads]))
    found = [n for key, n in values.items() if key not in known]
    read = [n for key, n in pointers.items() if key not in inside]
    targets = node.deps[region.targets :]
    region.pointers = heads + len(found)
    region.targets = region.pointers + len(read)
    node.deps = (*node.deps[:heads], *found, *read, *targets)
    region.key = structure(region, node.deps)


def _indexed(node: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return the arrays that a node reads by index, and those that it writes.

    The latter are captured by the scope's writes; only versions made inside belong
    to the body.
    """
    deps = pointer_deps(node)
    if node.op in EFFECTS:
        return (), deps
    if node.op in REGIONS:
        count = node.attr.targets - node.attr.pointers
        return deps[:count], deps[count:]
    return deps, ()


def _note_targets(inner: Scope, captures: _Captures) -> None:
    for _, original in inner.writes.values():
        captures.targets[id(original)] = original


def _finish(
    region: Any,
    op: Any,
    heads: tuple[Node, ...],
    captures: _Captures,
    scopes: Sequence[Scope],
) -> Node:
    """Make the region node in the current scope and publish its writes."""
    heads_ids = set(map(id, heads))
    values = [n for k, n in captures.values.items() if k not in heads_ids]
    pointers = list(captures.pointers.values())
    targets = list(captures.targets.values())
    region.pointers = len(heads) + len(values)
    region.targets = region.pointers + len(pointers)
    deps = (*heads, *values, *pointers, *targets)
    region.key = structure(region, deps)
    region.written = []
    node = trace.make(op, VOID, _region_size(op, region, heads, values), deps, region)
    if node.size:
        _publish(node, scopes, targets)
    else:
        _drop_effects(node, scopes)
    return node


def _drop_effects(node: Node, scopes: Sequence[Scope]) -> None:
    """Undo the writes of a region that runs over no elements."""
    node.attr = node.attr.without_effects()
    node.deps = node.deps[: node.attr.targets]
    for inner in scopes:
        restore_writes(inner)
        forget(inner)


def _region_size(op: Any, region: Region, heads: Any, values: list[Node]) -> int:
    """Return over how many elements a region runs: all that it reads agree."""
    nodes = [n for block in region.blocks for n in block.nodes]
    # A version has the size of its array, however many elements write to it.
    inside = [n for n in nodes if n.op is not WRITTEN]
    seen = {n.size for n in (*heads, *values, *inside)} - {1}
    if len(seen) > 1:
        mixed = tuple(n for n in (*heads, *values, *inside) if n.size != 1)
        raise trace.size_mismatch(op, mixed[:8])
    return seen.pop() if seen else 1


def _publish(node: Node, scopes: Sequence[Scope], targets: list[Node]) -> None:
    """Replace the versions made inside by one that depends on the region."""
    current = trace.state.scope
    positions = {id(t): k for k, t in enumerate(targets)}
    holders: dict[int, tuple[Any, Node]] = {}
    for inner in scopes:
        holders.update(inner.writes)
    if holders and current is not trace.ROOT:
        current.effects.append(node)
    for key, (holder, original) in holders.items():
        position = positions[id(original)]
        written = trace.make(WRITTEN, original.type, original.size, (node,), position)
        holder._node = written
        node.attr.written.append(ref(written))
        if current is trace.ROOT:
            from lumijit.compiler import evaluate

            evaluate.note_effect(written, original)
            note_write(holder, original)
        else:
            current.writes.setdefault(key, (holder, original))
    for inner in scopes:
        forget(inner)


def forget(inner: Scope) -> None:
    """Drop what a closed scope refers to: its nodes refer to the scope."""
    inner.effects = []
    inner.writes = {}
    inner.reads = {}


def _check_single_version(scopes: Sequence[Scope]) -> None:
    """Refuse two array objects that share contents and are both written."""
    seen: dict[int, int] = {}
    for inner in scopes:
        for key, (_, original) in inner.writes.items():
            if seen.setdefault(id(original), key) != key:
                raise StateError(
                    message(
                        "scatter",
                        "two arrays that share their contents are both written "
                        "inside one symbolic region",
                        "make a copy of one with lumijit.copy or opaque first.",
                    )
                )


def _check_reads(inner: Scope, values: dict[int, Node]) -> None:
    """Refuse a loop that reads an array which its iterations before have written.

    The body refers to the contents before the loop, so it would miss the writes.
    """
    for _, original in inner.writes.values():
        if id(original) in inner.reads or id(original) in values:
            raise SymbolicError(
                message(
                    inner.label or "while_loop",
                    "the body reads an array that it also writes to by index, so an "
                    "iteration would have to see what those before have written",
                    "use lumijit.alloc_local, or evaluated mode (mode='evaluated').",
                )
            )


def close_loop(
    inner: Scope,
    inits: tuple[Node, ...],
    args: tuple[Node, ...],
    cond: Node,
    outputs: tuple[Node, ...],
) -> tuple[Node, list[Node]]:
    """Make the loop node; return it and the final value of every argument.

    Arguments that the body hands through unchanged are no state: their final
    value is the initial one. Those that it doesn't read either are dropped.
    """
    _check_single_version([inner])
    captures = _Captures()
    done: set[int] = set()
    for arg in args:
        done.add(id(arg))
    header = Block(_linearize([cond], inner, done, captures), (cond,))
    nodes = _linearize((*inner.effects, *outputs), inner, done, captures)
    _check_reads(inner, captures.values)
    _note_targets(inner, captures)
    used = {id(d) for node in (*header.nodes, *nodes) for d in node.deps}
    used.update(id(o) for a, o in zip(args, outputs, strict=True) if o is not a)
    used.add(id(cond))
    kept = [k for k, arg in enumerate(args) if outputs[k] is not arg or id(arg) in used]
    loop = Loop()
    loop.args, loop.header = tuple(args[k] for k in kept), header
    loop.body = Block(nodes, tuple(outputs[k] for k in kept))
    loop.label = inner.label
    heads = tuple(inits[k] for k in kept)
    node = _finish(loop, LOOP, heads, captures, [inner])
    results = list(inits)
    for position, k in enumerate(kept):
        if outputs[k] is not args[k]:
            results[k] = project(node, args[k].type, position)
    return node, results


def close_branch(
    cond: Node,
    scopes: tuple[Scope, Scope],
    outputs: tuple[tuple[Node, ...], tuple[Node, ...]],
) -> tuple[Node, list[Node]]:
    """Make the branch node; return it and one result per pair of outputs."""
    _check_single_version(scopes)
    captures = _Captures()
    blocks = []
    for inner, outs in zip(scopes, outputs, strict=True):
        nodes = _linearize((*inner.effects, *outs), inner, set(), captures)
        _note_targets(inner, captures)
        blocks.append(Block(nodes, outs))
    branch = Branch()
    branch.true, branch.false = blocks
    branch.label = scopes[0].label
    node = _finish(branch, BRANCH, (cond,), captures, scopes)
    results = []
    for k, (yes, no) in enumerate(zip(*outputs, strict=True)):
        results.append(yes if yes is no else project(node, yes.type, k))
    return node, results


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
    _check_single_version([written])
    captures = _Captures()
    call = Call()
    blocks = []
    for code, outs in bodies:
        captures.include(code.captures)
        blocks.append(Block(code.nodes, outs))
    _note_targets(written, captures)
    call.bodies = tuple(blocks)
    call.label = label
    node = _finish(call, CALL, (selector,), captures, [written])
    first = blocks[0].outputs
    return [project(node, out.type, k) for k, out in enumerate(first)]


def project(region: Node, dtype: DType, position: int) -> Node:
    """Make the node for one result of a region."""
    return trace.make(PROJECT, dtype, region.size, (region,), position)


def structure(region: Region, deps: tuple[Node, ...]) -> Any:
    """Describe a region's code by local indices; captures count from -1 down."""
    local: dict[int, int] = {id(d): -1 - k for k, d in enumerate(deps)}
    count = 0
    if isinstance(region, Loop):
        for arg in region.args:
            local[id(arg)] = count
            count += 1
    rows: list[Any] = [type(region).__name__]
    for block in region.blocks:
        for node in block.nodes:
            local[id(node)] = count
            count += 1
            refs = tuple(local[id(d)] for d in node.deps)
            rows.append((node.op.index, node.type.index, attr_key(node), refs))
        rows.append(tuple(local[id(n)] for n in block.outputs))
    return tuple(rows)
