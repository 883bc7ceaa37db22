"""The derivative of a branch is a branch, that of a call a call.

Each side is repeated and differentiated in a side of its own. What lies outside gets
the derivatives by values as results, and those by entries of arrays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lumijit.compiler.derive import blocks
from lumijit.compiler.derive.adjoints import Bundle, is_zero, zero
from lumijit.compiler.derive.blocks import Outer
from lumijit.compiler.derive.rules import Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.written import Tangents, places_of_targets, sinks_of
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.local_types import LocalType
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import BRANCH, REGIONS
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.ir.roles import source_deps
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import calls, regions
from lumijit.compiler.record.calls import Body

Results = list[Node | None]


class Surroundings:
    """What a region depends on outside, while its derivative is traced.

    `into` are the adjoints of operands, by position. Of the first operands, the heads,
    those count that stand for an argument which never changes (`fixed`, by position).
    `targets` are the derivatives by arrays that the region writes to, by their ids.
    """

    def __init__(
        self,
        step: Step,
        into: dict[int, Any],
        by: Bundle,
        heads: int = 1,
        fixed: dict[int, Vertex] | None = None,
    ) -> None:
        self._depth = step.vertex.scope.depth
        self.targets = by.targets
        deps = step.vertex.deps
        written = places_of_targets(step.vertex)
        self._before = {key: into[k] for key, k in written.items() if k in into}
        places = set(written.values())
        known = {k: deps[k].vertex for k in into if k >= heads and k not in places}
        known |= {k: vertex for k, vertex in (fixed or {}).items() if k in into}
        self._fixed = {vertex.serial for vertex in (fixed or {}).values()}
        # (Operands may be one value: an array that is read as a whole, and by index.)
        self.vertices = list({v.serial: v for v in known.values()}.values())
        self.into = {vertex.serial: into[k] for k, vertex in known.items()}
        indexed = _indexed(step.attr)
        self._holders: dict[int, Holder] = {
            serial: holder
            for serial, adjoint in self.into.items()
            if serial in indexed and (holder := adjoint.opened()) is not None
        }
        self._outer: dict[int, Outer] = {}

    def key(self) -> tuple[Any, ...]:
        """Return what decides which code a region's derivative consists of."""
        targets = [(key, t.is_replaced) for key, t in self.targets.items()]
        return (frozenset(self.into), frozenset(self._holders), frozenset(targets))

    def has(self, vertex: Vertex) -> bool:
        """Tell whether a vertex lies outside, or stays the same."""
        return vertex.scope.depth <= self._depth or vertex.serial in self._fixed

    def enter(self, sums: Iterable[Node] = ()) -> None:
        """Begin with another block. Those of `sums` that are buffers it adds to."""
        self._outer = {}
        for vertex, total in zip(self.vertices, sums, strict=False):
            if isinstance(total.type, LocalType):
                self.at(vertex).add(total)

    def at(self, vertex: Vertex) -> Outer:
        """Return the adjoint of a vertex, for the present block."""
        holder = self._holders.get(vertex.serial)
        return self._outer.setdefault(vertex.serial, Outer(vertex, holder))

    def values(self) -> Results:
        """Return what the present block adds to each vertex by values."""
        outer = (self._outer.get(vertex.serial) for vertex in self.vertices)
        return [None if found is None else found.value for found in outer]

    def leave(self, results: Iterable[Node | None]) -> None:
        """Hand over the sums, and what was added in memory."""
        for serial, holder in self._holders.items():
            self.into[serial].close(holder)
        for vertex, result in zip(self.vertices, results, strict=True):
            if result is not None and not is_zero(result):
                self.into[vertex.serial].add(result)
        for key, adjoint in self._before.items():
            if key in self.targets:
                adjoint.add(self.targets[key].rest)


def _indexed(region: Region) -> set[int]:
    """Return the vertices of arrays that a region reads by index."""
    found: set[int] = set()
    for block in region.blocks:
        for node in block.nodes:
            if node.op in REGIONS:
                found |= _indexed(node.attr)
                continue
            arrays = (dep.vertex for dep in source_deps(node))
            found.update(vertex.serial for vertex in arrays if vertex is not None)
    return found


def filled(columns: list[Results], like: list[Any]) -> tuple[list[int], list[Any]]:
    """Return which results some block has, and these of each block, 0 for none.

    Local buffers are the last of them. The last row is 0 for all.
    """
    kept = [k for k in range(len(like)) if any(c[k] is not None for c in columns)]
    kept.sort(key=lambda k: isinstance(like[k].type, LocalType))
    zeros = [zero(like[k]) for k in kept]
    rows = [
        tuple(column[k] or none for k, none in zip(kept, zeros, strict=True))
        for column in columns
    ]
    return kept, [*rows, tuple(zeros)]


def spread(kept: list[int], results: Iterable[Node], count: int) -> Results:
    """Put results at their positions again."""
    found: Results = [None] * count
    for k, node in zip(kept, results, strict=True):
        found[k] = node
    return found


Differentiate = Callable[[Block], Results]


def trace_sides(step: Step, like: list[Any], differentiate: Differentiate) -> Results:
    """Trace the derivative of each block of a branch or a call; return the results."""
    if step.op is BRANCH:
        return _branch(step, like, differentiate)
    return _call(step, like, differentiate)


def _branch(step: Step, like: list[Any], differentiate: Differentiate) -> Results:
    region: Region = step.attr
    cond = step.deps[0]
    label = f"derivative of {region.label or 'if_stmt'}"
    with regions.scope(label, step.size) as first:
        # (Writes of one entry are done as often as before.)
        first.elements = step.size
        yes = differentiate(region.true)
    regions.restore_writes(first)
    with regions.scope(label, step.size, [first]) as second:
        no = differentiate(region.false)
    regions.restore_writes(second)
    kept, rows = filled([yes, no], like)
    if not kept and not any(side.writes or side.locals for side in (first, second)):
        return [None] * len(like)
    _, results = regions.close_branch(cond, (first, second), (rows[0], rows[1]))
    return spread(kept, results, len(like))


def _call(step: Step, like: list[Any], differentiate: Differentiate) -> Results:
    region: Region = step.attr
    label = f"derivative of {region.label or 'call'}"
    bodies: list[Body] = []
    columns = []
    with regions.scope(label, step.size) as inner:
        inner.elements = step.size
        for block in region.bodies:
            inner.part += 1
            columns.append(differentiate(block))
            body = Body(inner, inner.effects, inner.writes, (), [], inner.locals)
            calls.separate(body)
            bodies.append(body)
    kept, (*rows, zeros) = filled(columns, like)
    for body, row in zip(bodies, rows, strict=True):
        body.outputs = row
        inner.writes.update(body.writes)
    # Elements that run no body have what the last one leaves as it was.
    is_changed = any(
        isinstance(n.type, LocalType) and n.scope is inner for n in rows[-1]
    )
    before = [n for n in zeros if is_changed and isinstance(n.type, LocalType)]
    made = calls.close_bodies(step.deps[0], bodies, inner, label, before)
    return spread(kept, made, len(like))


def _pull(step: Step, into: dict[int, Any], by: Bundle) -> None:
    seeds = blocks.Seeds.of(by)
    outside = Surroundings(step, into, by)
    depth = step.vertex.scope.depth

    def differentiate(block: Block) -> Results:
        outside.enter()
        images = dict(step.images)
        blocks.reverse(block, seeds, (), depth, images, outside)
        return outside.values()

    outside.leave(trace_sides(step, outside.vertices, differentiate))


def _push(step: Step, tangents: dict[int, Node]) -> Tangents:
    deps = step.vertex.deps
    targets = sinks_of(step, tangents)
    known = {deps[k].vertex.serial: t for k, t in tangents.items()}
    depth = step.vertex.scope.depth
    outputs = step.attr.blocks[0].outputs
    count = len(outputs)

    def differentiate(block: Block) -> Results:
        images = dict(step.images)
        wanted = [block.outputs[k] for k in step.wanted]
        found = blocks.forward(block, known, targets, (), depth, images, wanted)
        primals = [images.get(id(node), node) for node in wanted]
        return [*map(found.get, range(count)), *primals]

    like = [*outputs, *(outputs[k] for k in step.wanted)]
    results = trace_sides(step, like, differentiate)
    found = {k: node for k, node in enumerate(results[:count]) if node is not None}
    primals = dict(zip(step.wanted, filter(None, results[count:]), strict=True))
    return Tangents(found, primals, targets)


RULE = Rule(_pull, _push)
