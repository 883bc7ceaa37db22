"""The derivative of a loop is a loop.

Forward mode adds derivatives to the state. In reverse mode there are two ways. Where
a turn passes the derivatives by its results on unchanged, as in sums, the order of the
turns doesn't matter: the derivative repeats the loop. Otherwise turns are undone from
the last to the first, from states that are kept in local memory (`checkpoints`).
Neither needs to know how often the loop runs, so both work inside of other regions.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from lumijit.compiler.derive.adjoints import Bundle, unmoved, zero
from lumijit.compiler.derive.branching import Surroundings
from lumijit.compiler.derive.checkpoints import undo_turns
from lumijit.compiler.derive.recorded import (
    Nodes,
    Recorded,
    State,
    keyed,
    stand_in,
)
from lumijit.compiler.derive.rules import Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.written import Tangents, sinks_of
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.local_types import LocalType
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.ir.vertices import is_tracking


def _push(step: Step, tangents: State) -> Tangents:
    loop = Recorded(step)
    targets = sinks_of(step, tangents)
    deps = step.vertex.deps
    count = len(loop.args)
    known = {deps[k].vertex.serial: t for k, t in tangents.items() if k >= count}
    known |= {v.serial: tangents[k] for k, v in loop.fixed.items() if k in tangents}
    active = loop.changing(known, {k for k in tangents if k in loop.inits}, targets)
    if not active and not targets:
        return Tangents({}, {}, {})
    starts = [tangents.get(k, unmoved(loop.inits[k])) for k in active]

    def body(state: State, moving: Nodes) -> Nodes:
        images = loop.images(state)
        after, changes = loop.forward(images, known, keyed(active, moving), targets)
        tangents = [changes.get(k, zero(loop.args[k])) for k in active]
        return [*after.values(), *tangents]

    primals, moved = loop.along(starts, body)
    return Tangents(keyed(active, moved), primals, targets)


def _pull(step: Step, into: dict[int, Any], by: Bundle) -> None:
    loop = Recorded(step)
    outside = Surroundings(step, into, by, len(loop.args), loop.fixed)
    seeds = {k: part.complete() for k, part in by.parts.items()}
    way = _way(loop, set(seeds), outside)
    starts = {k: seeds.get(k, zero(loop.args[k])) for k in way.active}
    if way.is_sum:
        finals, sums = starts, _repeated_turns(loop, starts, outside)
    else:
        finals, sums = _undone_turns(loop, starts, way.needed, outside)
    outside.leave(sums)
    for k, node in finals.items():
        if k in into:
            into[k].add(node)


class _Way(NamedTuple):
    """How to differentiate a loop.

    Some state has derivatives (`active`), and the values of some are `needed` for
    these. It `is_sum` if each turn passes derivatives on as they are.
    """

    active: list[int]
    needed: set[int]
    is_sum: bool


# Found by tracing the derivative of a turn. A loop inside of another is differentiated
# as often as that one is, so without this it would be traced twice at each level.
_found: WeakKeyDictionary[Region, dict[Any, _Way]] = WeakKeyDictionary()


def _way(loop: Recorded, seeds: set[int], outside: Surroundings) -> _Way:
    """Find out how to differentiate a loop, given which results have derivatives."""
    known = _found.setdefault(loop.region, {})
    key = (loop.step.vertex.serial, is_tracking(), frozenset(seeds), outside.key())
    way = known.get(key)
    if way is None:
        way = known[key] = _analyzed(loop, seeds, outside)
    return way


def _analyzed(loop: Recorded, seeds: set[int], outside: Surroundings) -> _Way:
    active = sorted(loop.depended_on(seeds, outside.targets))
    marks = {k: stand_in(loop.args[k]) for k in active}
    found: State = {}

    def look(state: State) -> Nodes:
        adjoints = loop.reverse(loop.images(state), marks, outside)
        found.update((k, a.complete()) for k, a in adjoints.items())
        return [*found.values(), *filter(None, outside.values())]

    needed = loop.trial(look)
    is_sum = all(found.get(k) is mark for k, mark in marks.items())
    is_sum = is_sum and not any(t.is_replaced for t in outside.targets.values())
    return _Way(active, needed, is_sum)


def _added(sums: Nodes, outside: Surroundings) -> list[Node]:
    """Return the derivatives by values outside, with what the present turn adds."""
    found = []
    for total, value in zip(sums, outside.values(), strict=True):
        if value is None or isinstance(total.type, LocalType):
            # Buffers have been added to in place.
            found.append(total if value is None else value)
        else:
            found.append(trace.emit2(ADD, total, value))
    return found


def _repeated_turns(loop: Recorded, by: State, outside: Surroundings) -> list[Node]:
    """Differentiate a loop that sums up, in the order of its turns."""

    def body(state: State, sums: Nodes) -> Nodes:
        images = loop.images(state)
        loop.reverse(images, by, outside, sums)
        added = _added(sums, outside)
        return [*loop.turn(state, images).values(), *added]

    return loop.along([*map(zero, outside.vertices)], body)[1]


def _undone_turns(
    loop: Recorded, starts: State, needed: set[int], outside: Surroundings
) -> tuple[State, list[Node]]:
    """Differentiate a loop from its last turn to the first."""
    count = len(starts)

    def undo(state: State, args: Nodes) -> Nodes:
        by = keyed(starts, args[:count])
        found = loop.reverse(loop.images(state), by, outside, args[count:])
        passed = [
            found[k].complete() if k in found else zero(loop.args[k]) for k in starts
        ]
        return [*passed, *_added(args[count:], outside)]

    carried = [*starts.values(), *map(zero, outside.vertices)]
    results = undo_turns(loop, needed, carried, undo)
    return keyed(starts, results[:count]), results[count:]


RULE = Rule(_pull, _push)
