"""Derivatives of straight-line code that a region has recorded.

The code is repeated in the scope where its derivative is being traced, with other
nodes (`images`) for arguments and captured values; then derivatives pass along the
vertices that were recorded. What lies outside of the code is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from lumijit.compiler.derive import rules
from lumijit.compiler.derive.adjoints import (
    Adjoint,
    Bundle,
    LocalAdjoint,
    Places,
    new_adjoint,
)
from lumijit.compiler.derive.repetition import (
    Code,
    Images,
    inner_vertices,
    inside,
    repeat,
)
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.written import Sink, Target, Write, writes_to
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import REGIONS
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.ir.roles import read_deps
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import memory
from lumijit.runtime.dtypes import VOID
from lumijit.runtime.errors import DerivativeError


class Outside(Protocol):
    """The surroundings of a region."""

    def has(self, vertex: Vertex) -> bool:
        """Tell whether a vertex isn't computed in the region."""

    def at(self, vertex: Vertex) -> Any:
        """Return its adjoint."""


class Outer:
    """The adjoint of what lies outside of a region, as its code adds to it.

    Values are known element by element; what is read by index is added to in memory
    (`holder`, None if nobody asks for it).
    """

    def __init__(self, like: Vertex, holder: Holder | None) -> None:
        self._sum = new_adjoint(like)
        self._holder = holder

    def add(self, value: Node, mask: Node | None = None) -> None:
        """Add a derivative by a value."""
        self._sum.add(value, mask)

    def scatter(self, value: Node, index: Node, mask: Node, mode: str) -> None:
        """Add a derivative by entries."""
        if isinstance(self._sum, LocalAdjoint):
            self._sum.scatter(value, index, mask, mode)
        elif self._holder is not None:
            memory.update(self._holder, value, index, mask, "add", mode)

    def opened(self) -> Holder | None:
        """Return what regions inside add to."""
        return self._holder

    def close(self, holder: Holder) -> None:
        """End what `opened` began."""

    @property
    def value(self) -> Node | None:
        """The sum over values so far; None if there is none."""
        return None if self._sum.value is None else self._sum.complete()


def _operands(found: Iterable[Vertex]) -> list[Node]:
    """Return the nodes that the rules of vertices may ask for."""
    nodes: list[Node] = []
    for vertex in found:
        nodes.extend(dep for dep in vertex.deps if dep.type is not VOID)
        result = vertex.result()
        if result is not None and rules.needs_result(vertex):
            nodes.append(result)
        elif result is not None and result.op in REGIONS:
            # Its code refers to more than derivatives flow through.
            nodes.extend(read_deps(result))
    return nodes


def _check(vertex: Vertex, args: Sequence[Node]) -> None:
    if vertex.is_end and not any(arg.vertex is vertex for arg in args):
        raise DerivativeError(
            "derivative of a region",
            "a traversal inside (lumijit.backward or forward) has cleared what its "
            "results depend on",
            "pass flags=lumijit.ADFlag.ClearVertices to the traversal inside, or "
            "detach what it differentiates.",
        )


class Seeds(NamedTuple):
    """What is known of the derivatives by what a region has computed.

    Those by its results, by position, and by arrays that it writes to, by their ids.
    """

    results: Mapping[int, Node]
    targets: Mapping[int, Target]

    @staticmethod
    def of(by: Bundle) -> Seeds:
        """Return those that have arrived at a region."""
        parts = {k: part.complete() for k, part in by.parts.items()}
        return Seeds(parts, by.targets)


def arguments_reached(
    block: Block, seeds: Iterable[int], targets: Mapping[int, Target], depth: int
) -> set[int]:
    """Return the vertices inside that derivatives by results and writes may reach.

    Args:
        block: the code.
        seeds: the positions of the results.
        targets: as for `reverse`.
        depth: how deep the scope around the region is.
    """
    wanted = [block.outputs[k] for k in seeds]
    wanted += [write.wanted for write in writes_to(block, targets)]
    return {vertex.serial for vertex in inner_vertices(wanted, depth)}


def reverse(
    block: Block,
    seeds: Seeds,
    args: Sequence[Node],
    depth: int,
    images: Images,
    outside: Outside,
) -> dict[int, Adjoint]:
    """Pass derivatives by results of recorded code on to what it was computed of.

    Args:
        block: the code.
        seeds: the derivatives by what it computes.
        args: the arguments of the region; `images` has what stands for them.
        depth: how deep the scope around the region is.
        images: what stands for nodes; grows.
        outside: has the adjoints of vertices outside of the region.

    Returns:
        The adjoints of vertices inside that depend on nothing, by serial number.
    """
    outputs = block.outputs
    written = writes_to(block, seeds.targets)
    wanted = [outputs[k] for k in seeds.results]
    wanted += [write.wanted for write in written]
    needed = _operands(inner_vertices(wanted, depth))
    needed += [dep for write in written for dep in write.operands]
    repeat(inside(needed, depth), args, depth, images)
    places = Places()

    def place(vertex: Vertex) -> Any:
        return outside.at(vertex) if outside.has(vertex) else places.at(vertex)

    for k, seed in seeds.results.items():
        if outputs[k].vertex is not None:
            place(outputs[k].vertex).add(seed)
    found: dict[int, Adjoint] = {}
    _undo_writes(written, seeds.targets, images, place)
    while places:
        vertex, adjoint = places.pop()
        if not vertex.inputs:
            _check(vertex, args)
            found[vertex.serial] = adjoint
            continue
        into = {k: place(vertex.deps[k].vertex) for k in vertex.inputs}
        rules.pull(Step(vertex, images), into, adjoint)
        if written and written[-1].node.vertex is vertex:
            written.pop()
            _undo_writes(written, seeds.targets, images, place)
    return found


def _undo_writes(
    written: list[Write],
    targets: Mapping[int, Target],
    images: Images,
    place: Callable[[Vertex], Any],
) -> None:
    """Pass the derivatives by arrays on to what was written, from the last one.

    A region that has a vertex waits for its turn among the vertices.
    """
    while written:
        write = written[-1]
        mine = write.chosen(targets)
        if write.is_region and write.node.vertex is not None:
            place(write.node.vertex).targets.update(mine)
            return
        written.pop()
        if write.is_region:
            by = Bundle()
            by.targets.update(mine)
            rules.pull(Step(write.vertex, images), {}, by)
        else:
            (target,) = mine.values()
            taken = target.take(write, images)
            if write.wanted.vertex is not None:
                place(write.wanted.vertex).add(*taken)


def results_reached(
    block: Block, known: Iterable[int], targets: Mapping[int, Sink], depth: int
) -> set[int]:
    """Return which results of recorded code may have forward derivatives, by position.

    `known` are the serial numbers of vertices that have; `targets` as for `forward`.
    """
    written = writes_to(block, targets)
    writers = {id(write.node.vertex) for write in written if write.is_region}
    reached = set(known)
    for vertex in _found(block, written, depth):
        is_reached = any(parent.serial in reached for parent in vertex.parents)
        if is_reached or id(vertex) in writers:
            reached.add(vertex.serial)
    outputs = enumerate(block.outputs)
    return {k for k, out in outputs if out.vertex and out.vertex.serial in reached}


def _found(block: Block, written: Iterable[Write], depth: int) -> list[Vertex]:
    """Return the vertices that results and writes depend on, operands first."""
    outputs = (*block.outputs, *(write.wanted for write in written))
    return sorted(inner_vertices(outputs, depth), key=lambda vertex: vertex.serial)


def forward(
    block: Block,
    tangents: Mapping[int, Node],
    targets: Mapping[int, Sink],
    args: Sequence[Node],
    depth: int,
    images: Images,
    wanted: Sequence[Node] = (),
) -> dict[int, Node]:
    """Return the derivatives of results of recorded code, by position.

    Derivatives are computed beside what they are of, one operation after the other: so
    a region's derivative computes what it returns as well.

    Args:
        block: the code.
        tangents: the derivatives of arguments and of vertices outside, by serial
            number.
        targets: take those of arrays that the code writes to, by the ids of these.
        args: the arguments of the region; `images` has what stands for them.
        depth: how deep the scope around the region is.
        images: what stands for nodes; grows.
        wanted: what else is to be computed again.
    """
    return _Forward(block, tangents, targets, args, depth, images, wanted).run()


class _Forward:
    """Passes derivatives along recorded code."""

    def __init__(
        self,
        block: Block,
        tangents: Mapping[int, Node],
        targets: Mapping[int, Sink],
        args: Sequence[Node],
        depth: int,
        images: Images,
        wanted: Sequence[Node],
    ) -> None:
        self._block = block
        self._known: dict[int, Any] = dict(tangents)
        self._targets = targets
        self._args = args
        self._images = images
        self._wanted = wanted
        self._written = writes_to(block, targets)
        self._vertices = _found(block, self._written, depth)
        needed = [*wanted, *_operands(self._vertices)]
        needed += [dep for write in self._written for dep in write.operands]
        self._code = Code(inside(needed, depth), args, depth, images)

    def run(self) -> dict[int, Node]:
        """Return the derivatives of the results, by position."""
        writers = {id(w.node.vertex) for w in self._written if w.is_region}
        for vertex in self._vertices:
            if not vertex.inputs:
                _check(vertex, self._args)
                continue
            mine: dict[int, Sink] = {}
            if id(vertex) in writers:
                mine = self._redo_writes(vertex)
            self._push(vertex, mine)
        self._redo_writes(None)
        self._code.repeat(self._wanted)
        outputs, known = enumerate(self._block.outputs), self._known
        return {
            k: known[out.vertex.serial]
            for k, out in outputs
            if out.vertex is not None and out.vertex.serial in known
        }

    def _push(self, vertex: Vertex, mine: dict[int, Sink]) -> None:
        known = self._known
        serials = {k: vertex.deps[k].vertex.serial for k in vertex.inputs}
        tangents = {k: known[s] for k, s in serials.items() if s in known}
        if tangents or mine:
            known[vertex.serial] = self._pushed(vertex, mine, tangents)

    def _pushed(
        self, vertex: Vertex, mine: dict[int, Sink], tangents: dict[int, Any]
    ) -> Any:
        self._code.repeat(_operands([vertex]))
        node = vertex.result()
        if node is None or node.op not in REGIONS:
            return rules.push(Step(vertex, self._images, mine), tangents)
        self._code.repeat(self._code.before(node))
        wanted = self._code.wanted(node)
        step = Step(vertex, self._images, mine, wanted)
        found: Any = rules.push(step, tangents)
        if found.primals:
            self._code.replace(node, found.primals)
        return found

    def _redo_writes(self, end: Vertex | None) -> dict[int, Sink]:
        """Write forward derivatives, up to a region whose turn has come: return its
        own.

        What accesses local memory comes first in the code, with what was written to
        its arrays before: what depends on later vertices waits, as does what follows
        on one of its arrays.
        """
        left: list[Write] = []
        waiting: set[int] = set()
        mine: dict[int, Sink] = {}
        for k, write in enumerate(self._written):
            if end is not None and write.node.vertex is end:
                mine = write.chosen(self._targets)
                left += self._written[k + 1 :]
                break
            wanted = write.wanted.vertex
            arrays = write.targets.values()
            is_later = end and wanted and wanted.serial > end.serial
            if is_later or not waiting.isdisjoint(arrays):
                waiting.update(arrays)
                left.append(write)
                continue
            self._redo(write)
        self._written = left
        return mine

    def _redo(self, write: Write) -> None:
        """Write a forward derivative."""
        mine = write.chosen(self._targets)
        self._code.repeat(write.operands)
        if write.is_region:
            self._pushed(write.vertex, mine, {})
        else:
            vertex = write.wanted.vertex
            tangent = None if vertex is None else self._known.get(vertex.serial)
            (into,) = mine.values()
            into.push(tangent, write, self._images)
