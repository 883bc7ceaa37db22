"""The derivative of a loop is a loop.

Forward mode adds derivatives to the state. In reverse mode there are two ways. Where
a turn passes the derivatives by its results on unchanged, as in sums, the order of the
turns doesn't matter: the derivative repeats the loop. Otherwise turns are undone from
the last to the first, from states that are kept in local memory (`checkpoints`).
Neither needs to know how often the loop runs, so both work inside of other regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumijit.compiler.derive import blocks
from lumijit.compiler.derive.adjoints import Adjoint, Bundle
from lumijit.compiler.derive.branching import Surroundings
from lumijit.compiler.derive.checkpoints import Checkpoints
from lumijit.compiler.derive.recorded import Recorded, traced_loop
from lumijit.compiler.derive.rules import Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.trace import Node

Nodes = Sequence[Node]


def _zero(like: Any, size: int = 1) -> Node:
    return trace.literal(like.type, like.type.wrap(0), size)


def _push(step: Step, tangents: dict[int, Node]) -> dict[int, Node]:
    loop = Recorded(step)
    deps = step.vertex.deps
    count = len(loop.args)
    outer = {deps[k].vertex.serial: t for k, t in tangents.items() if k >= count}
    active = {k for k in tangents if k < count}
    while True:
        chosen = sorted(active)
        found: set[int] = set()

        def differentiate(args: Nodes, chosen: list[int] = chosen) -> dict[int, Node]:
            """Return the tangents of a turn's results."""
            mine = dict(zip(chosen, args[count:], strict=True))
            known = {loop.args[k].vertex.serial: t for k, t in mine.items()}
            images = loop.images(dict(enumerate(args[:count])))
            return blocks.forward(
                loop.outputs, {**outer, **known}, loop.args, loop.depth, images
            )

        def look(
            args: dict[int, Node],
            chosen: list[int] = chosen,
            found: set[int] = found,
        ) -> Nodes:
            stand_ins = [
                trace.make(args[k].op, args[k].type, args[k].size, (), count)
                for k in chosen
            ]
            results = differentiate([*args.values(), *stand_ins], chosen)
            found.update(results)
            return list(results.values())

        loop.trial(look)
        if found <= active:
            break
        active |= found
    if not active:
        return {}

    def body(args: Nodes) -> Nodes:
        after = loop.turn(dict(enumerate(args[:count])))
        changes = differentiate(args)
        return [
            *after.values(),
            *(changes.get(k, _zero(loop.args[k])) for k in chosen),
        ]

    starts = [tangents.get(k, _zero(loop.args[k])) for k in chosen]
    results = traced_loop(
        loop.label,
        loop.width,
        [*loop.inits, *starts],
        lambda args: loop.condition(args[:count]),
        body,
    )
    return dict(zip(chosen, results[count:], strict=True))


def _pull(step: Step, into: dict[int, Any], by: Bundle) -> None:
    loop = Recorded(step)
    seeds = {k: part.complete() for k, part in by.parts.items()}
    outside = Surroundings(step, into, len(loop.args), by)
    active, needed, is_sum = _analyzed(loop, seeds, outside)
    starts = {k: seeds.get(k, _zero(loop.args[k])) for k in active}
    if is_sum:
        finals, sums = _repeated_turns(loop, starts, outside)
    else:
        finals, sums = _undone_turns(loop, starts, needed, outside)
    outside.leave(sums)
    for k, node in finals.items():
        if k in into:
            into[k].add(node)


def _analyzed(
    loop: Recorded, seeds: dict[int, Node], outside: Surroundings
) -> tuple[list[int], set[int], bool]:
    """Find out which state has derivatives, which state these need, and the way.

    The way is that of sums if each turn passes derivatives on as they are.
    """
    active = set(seeds)
    while True:
        found: dict[int, Adjoint] = {}
        marks: dict[int, Node] = {}

        def look(
            args: dict[int, Node],
            found: dict[int, Adjoint] = found,
            marks: dict[int, Node] = marks,
            active: set[int] = active,
        ) -> Nodes:
            for k in active:
                like = args[k]
                marks[k] = trace.make(like.op, like.type, like.size, (), len(args))
            found.update(loop.reverse(args, marks, outside))
            changes = [a.complete() for a in found.values()]
            return [*changes, *(v for v in outside.values() if v is not None)]

        needed, _ = loop.trial(look)
        if set(found) <= active:
            break
        active = active | set(found)
    is_sum = all(k in found and found[k].value is marks[k] for k in active)
    return sorted(active), needed, is_sum


class _Sums:
    """The derivatives by values outside, which grow from turn to turn."""

    def __init__(self, outside: Surroundings) -> None:
        self._outside = outside
        self.starts = [_zero(vertex) for vertex in outside.vertices]

    def added(self, sums: Nodes) -> list[Node]:
        """Return the sums with what the present turn adds to each."""
        pairs = zip(sums, self._outside.values(), strict=True)
        return [s if v is None else trace.emit2(ADD, s, v) for s, v in pairs]


def _repeated_turns(
    loop: Recorded, starts: dict[int, Node], outside: Surroundings
) -> tuple[dict[int, Node], list[Node]]:
    """Differentiate a loop that sums up, in the order of its turns."""
    sums = _Sums(outside)
    count = len(loop.args)

    def body(args: Nodes) -> Nodes:
        state = dict(enumerate(args[:count]))
        after = loop.turn(state)
        loop.reverse(state, starts, outside)
        return [*after.values(), *sums.added(args[count:])]

    results = traced_loop(
        loop.label,
        loop.width,
        [*loop.inits, *sums.starts],
        lambda args: loop.condition(args[:count]),
        body,
    )
    return starts, results[count:]


def _undone_turns(
    loop: Recorded, starts: dict[int, Node], needed: set[int], outside: Surroundings
) -> tuple[dict[int, Node], list[Node]]:
    """Differentiate a loop from its last turn to the first."""
    sums = _Sums(outside)
    active = list(starts)
    count = len(active)
    checkpoints = Checkpoints(loop, loop.closure(needed))

    def undo(state: dict[int, Node], args: Nodes) -> Nodes:
        seeds = dict(zip(active, args[:count], strict=True))
        found = loop.reverse(state, seeds, outside)
        passed = [
            found[k].complete() if k in found else _zero(loop.args[k]) for k in active
        ]
        return [*passed, *sums.added(args[count:])]

    results = checkpoints.undo([*starts.values(), *sums.starts], undo)
    return dict(zip(active, results[:count], strict=True)), results[count:]


RULE = Rule(_pull, _push)
