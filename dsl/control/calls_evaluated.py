"""Evaluated calls: each function gets the arrays of the elements that select it.

One that accesses local buffers from outside, which belong to all elements, or that uses
the entries of an argument by index and by element, runs for all of them, under the mask
of those that select it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from lumijit.compiler.derive.isolation import isolated, note_blend
from lumijit.compiler.ir import blends, local_types, trace, vertices
from lumijit.compiler.ir.effects import reduction, wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import AND, LT
from lumijit.compiler.ir.ops.structural import GATHER, LITERAL, SCATTER, WRITTEN
from lumijit.compiler.ir.roles import target_of
from lumijit.compiler.launch.evaluate import data, evaluate, from_numpy
from lumijit.compiler.record import local, memory, reductions, writes
from lumijit.control.callees import Callee, body_numbers, is_selected
from lumijit.control.invocation import Invocation
from lumijit.control.loop_compressed import entries
from lumijit.control.reachability import Reach
from lumijit.control.state import is_array
from lumijit.control.write_rules import versions_in
from lumijit.pytree import Parts
from lumijit.runtime.contexts import apart
from lumijit.runtime.dtypes import BOOL, UINT32
from lumijit.runtime.errors import SizeError

# Up to so many functions, each looks for its elements; for more, they are sorted.
SEARCHED = 8


def run(call: Invocation) -> Any:
    """Call each function that has elements with just these; return the results."""
    arrays = [leaf._node for leaf in call.values if is_array(leaf)]
    evaluate([call.index, call.active, *arrays])
    # If a function raises, what the others wrote is undone, too.
    with writes.watched(), isolated(is_apart=True):
        places = _call_all(call)
        call.check_surroundings()
    nodes = {}
    for entry in call.results.arrays():
        found = [array._node for array in entry.arrays]
        if places:
            nodes[entry.name] = _joined(call, entry.zero(), places, found)
        else:
            nodes[entry.name] = _uncalled(call, entry.zero()._node, found[0])
    return call.results.result(nodes, call.lanes)


def _call_all(call: Invocation) -> list[Node]:
    """Call each function that has elements; return which elements these are."""
    places, called = [], set()
    for callee, chosen in _chosen(call):
        _subset(call, callee, chosen)
        places.append(chosen)
        called.add(id(callee))
    # To learn the types. Arguments may be wider than an index of one entry.
    nobody = trace.literal(UINT32, 0, int(call.lanes == 1))
    if not places:
        _subset(call, call.callees[0], nobody, is_active=False)
        called.add(id(call.callees[0]))
    for callee in call.callees:
        # Which array a number becomes doesn't depend on who is called.
        if id(callee) not in called and call.results.has_open_numbers:
            _subset(call, callee, nobody, is_active=False)
            call.results.forget_last()
    return places


def _chosen(call: Invocation) -> Iterator[tuple[Callee, Node]]:
    """Tell which elements call what; functions without elements are left out."""
    if call.index.op is LITERAL and call.active.op is LITERAL:
        for callee in call.callees:
            is_called = call.index.attr in callee.positions and call.active.attr
            if is_called and call.lanes:
                yield callee, trace.counter(call.lanes)
    elif len(call.callees) <= SEARCHED:
        masks = [_mask(call, callee) for callee in call.callees]
        evaluate(masks)
        for callee, mask in zip(call.callees, masks, strict=True):
            chosen = reductions.compress(mask)
            if chosen.size:
                yield callee, chosen
    else:
        yield from _sorted(call)


def _mask(call: Invocation, callee: Callee) -> Node:
    """Return which elements call a function."""
    inside = trace.emit2(LT, call.index, trace.literal(UINT32, call.count))
    active = trace.emit2(AND, call.active, inside)
    mask = trace.emit2(AND, is_selected(call.index, callee.positions), active)
    return trace.resized(mask, call.lanes)


def _sorted(call: Invocation) -> Iterator[tuple[Callee, Node]]:
    """Sort the elements by function, in one pass for all."""
    index = np.broadcast_to(data(call.index), (call.lanes,))
    active = np.broadcast_to(data(call.active), (call.lanes,))
    numbers = body_numbers(call.callees, call.count)
    found = np.zeros(call.lanes, numbers.dtype)
    inside = active & (index < call.count)
    found[inside] = numbers[index[inside]]
    order = np.argsort(found, kind="stable").astype(np.uint32)
    ends = np.cumsum(np.bincount(found, minlength=len(call.callees) + 1))
    for callee, start, end in zip(call.callees, ends, ends[1:], strict=False):
        if start < end:
            yield callee, from_numpy(order[start:end])


def _joined(
    call: Invocation, zero: Any, chosen: list[Node], arrays: list[Node]
) -> Node:
    """Put the functions' results where the elements are that called them."""
    if len(chosen) == 1 and chosen[0].size == call.lanes:
        return arrays[0]
    holder = zero
    holder._rehouse(trace.resized(holder._node, call.lanes))
    for place, node in zip(chosen, arrays, strict=True):
        writes.write(holder, node, place, trace.make_true(1), "identity", "permute")
    found: Node = holder._node
    note_blend(found, arrays)
    return found


def _uncalled(call: Invocation, zero: Node, found: Node) -> Node:
    """Return zeros where no element has called, `found` being computed for nobody.

    They are tracked as what elements compute would be: whether there are any is data.
    """
    size = found.size if call.lanes == 1 else call.lanes
    zeros = trace.make_root(LITERAL, zero.type, size, zero.attr)
    arguments = (leaf._node for leaf in call.values if is_array(leaf))
    tracked = (node for node in (found, *arguments) if vertices.is_tracked(node))
    value = next(tracked, None) if zero.type.is_float else None
    if value is not None:
        nobody = trace.literal(UINT32, 0), trace.literal(BOOL, False)
        deps = (zeros, trace.cast_to(value, zero.type), *nobody)
        vertices.track(zeros, SCATTER, deps, reduction("identity", "auto"))
    return zeros


def _subset(
    call: Invocation, callee: Callee, chosen: Node, is_active: bool = True
) -> None:
    """Call a function with the entries at some positions; enter its results."""
    # Arrays that the callable indexes: it gets all of their entries.
    tables: set[int] = set()
    mask = trace.literal(BOOL, is_active and chosen.size > 0, chosen.size)
    needs_all = False
    while True:
        if needs_all or _has_misleading_sizes(call, callee, chosen.size):
            value = _masked(call, callee, chosen)
            break
        values, compressed = _entries(call, chosen, tables)
        try:
            value = apart(_invoke, (call, callee, values, compressed, mask))
            break
        except memory.IndexedArgument as used:
            if id(used.node) not in compressed:
                raise
            tables.add(compressed[id(used.node)])
            # All entries would pass for what one element computes.
            needs_all = chosen.size == 1
        except local.NeedsAllLanes:
            needs_all = True
        except SizeError:
            # One of the tables is used element by element, too, or an array that the
            # function finds outside. (With all elements, it is an error again.)
            needs_all = True
    is_whole = chosen.size == call.lanes
    leaves = call.results.match(callee, value)
    for entry, leaf in zip(call.results.entries, leaves, strict=True):
        if not is_array(leaf):
            continue
        size = leaf._node.size
        if size not in (1, chosen.size) and not (is_whole and chosen.size == 1):
            raise call.wrong_size(callee, f"'{entry.name}'", size, chosen.size)


def _has_misleading_sizes(call: Invocation, callee: Callee, size: int) -> bool:
    """Tell whether an array that isn't wide enough would fit a part of the lanes.

    It may be an argument, or what a function reaches otherwise. Functions may index
    such an array, but must not take its entries for elements.
    """
    if not 1 < size < call.lanes:
        return False
    if any(is_array(leaf) and leaf._node.size == size for leaf in call.values):
        return True
    reach = Reach()
    for root in callee.roots:
        reach.follow(root)
    return any(array._node.size == size for array in reach.arrays)


def _masked(call: Invocation, callee: Callee, chosen: Node) -> Any:
    """Call a function with all entries; return its results at some positions."""
    with writes.watched() as found, trace.masked_only(_mask(call, callee)):
        written = partial(versions_in, found, call.name)
        value, _ = call.invoke(callee, call.values, written)
    parts = Parts((value,), ("result",))
    kept = list(parts.leaves)
    for k, leaf in enumerate(kept):
        size = leaf._node.size if is_array(leaf) else 1
        if size not in (1, call.lanes):
            raise call.wrong_result(callee, parts.names[k], size, call.lanes)
        if size == call.lanes > 1:
            kept[k] = wrap(type(leaf), _taken(leaf._node, chosen))
    return parts.together(kept)[0]


def _entries(
    call: Invocation, chosen: Node, tables: set[int]
) -> tuple[list[Any], dict[int, int]]:
    """Return the arguments at some positions, and which leaf a new node is."""
    compressed: dict[int, int] = {}
    values = list(call.values)
    for k, value in enumerate(values):
        is_full = is_array(value) and value._node.size == call.lanes > 1
        if is_full and chosen.size < call.lanes and k not in tables:
            values[k] = wrap(
                type(value), blends.standing_for(value._node, partial(_own, chosen))
            )
            compressed[id(values[k]._node)] = k
    return values, compressed


def _invoke(
    call: Invocation,
    callee: Callee,
    values: list[Any],
    compressed: dict[int, int],
    mask: Node,
) -> Any:
    outer, size = trace.state.guard, mask.size

    def check(node: Node) -> None:
        if id(node) in compressed:
            raise memory.IndexedArgument(node)
        if local_types.is_local(node) and size < call.lanes:
            raise local.NeedsAllLanes
        if outer is not None:
            outer(node)

    # Uniform effects happen once per element, as in symbolic mode: the mask is wide.
    with (
        writes.watched() as found,
        trace.guarded(check),
        trace.masked_only(mask),
    ):
        value, _ = call.invoke(callee, values, partial(versions_in, found, call.name))
        for effect in _effects(found.entries.values()) if size < call.lanes else ():
            # With more elements, the mask itself refuses what doesn't fit.
            if effect.size > size == 1:
                raise call.wrong_size(callee, "a write", effect.size, size)
        return value


def _own(chosen: Node, node: Node) -> Node:
    """Return the entries at some positions as a node that stands for nothing else."""
    node = _taken(node, chosen)
    if node.op is LITERAL:
        return trace.make_root(LITERAL, node.type, node.size, node.attr)
    return trace.copied(node)


def _taken(node: Node, chosen: Node) -> Node:
    """Return the entries that some elements have."""
    found = entries(node, chosen)
    vertex = found.vertex
    if vertex is not None and found is not node and vertex.op is GATHER:
        vertex.op = vertices.ELEMENTS
    return found


def _effects(found: Iterable[writes.Writes]) -> Iterator[Node]:
    """List the effects behind the last versions, as far as not yet evaluated."""
    for entry in found:
        version = entry.last
        while version.op is WRITTEN and version is not entry.first:
            effect = version.deps[0]
            yield effect
            version = target_of(version)
