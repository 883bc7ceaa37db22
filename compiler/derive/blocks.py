"""Derivatives of straight-line code that a region has recorded.

The code is repeated in the scope where its derivative is being traced, with other
nodes (`images`) for arguments and captured values; then derivatives pass along the
vertices that were recorded. What lies outside of the code is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lumijit.compiler.derive import rules
from lumijit.compiler.derive.adjoints import (
    Adjoint,
    Bundle,
    LocalAdjoint,
    Places,
    new_adjoint,
)
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.written import Sink, Target, Write, writes_to
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.captures import Captures, in_order
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import CONSUMED, REGIONS
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.ir.roles import read_deps
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import memory
from lumijit.compiler.transform.rewriting import Rewriter, pure_nodes
from lumijit.runtime.dtypes import VOID
from lumijit.runtime.errors import DerivativeError

Images = dict[int, Node]


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


def home_of(nodes: Iterable[Node], depth: int) -> Scope | None:
    """Return the scope in which code was recorded that nodes result from."""
    for node in nodes:
        if node.scope.depth > depth:
            return node.scope
    return None


def inner_vertices(outputs: Iterable[Node], depth: int) -> list[Vertex]:
    """Return the vertices inside of a region that results depend on."""
    found: dict[int, Vertex] = {}
    stack = [node.vertex for node in outputs if node.vertex is not None]
    while stack:
        vertex = stack.pop()
        if vertex.serial not in found and vertex.scope.depth > depth:
            found[vertex.serial] = vertex
            stack.extend(vertex.parents)
    return list(found.values())


def repeat(
    outputs: Sequence[Node], args: Sequence[Node], depth: int, images: Images
) -> None:
    """Compute results of recorded code again; `images` learns what stands for them."""
    home = home_of((*outputs, *args), depth)
    if home is None:
        return
    inside = [node for node in outputs if node.scope is home]
    nodes = in_order(inside, home, set(args), Captures())
    nodes = tuple(node for node in nodes if id(node) not in images)
    todo = [node for node in pure_nodes(nodes, inside) if node.op is not CONSUMED]
    rewriter = Rewriter(images, is_pure=True, is_tracking=vertices.is_tracking())
    if any(copy.op is CONSUMED for copy in rewriter.copy(todo, trace.state.scope)):
        raise _needs_write()


def _needs_write() -> DerivativeError:
    return DerivativeError(
        "derivative of a region",
        "it needs what a write returned inside (lumijit.scatter_inc or scatter_exch), "
        "which can't be had a second time",
        "write outside of what is differentiated, or use evaluated mode "
        "(mode='evaluated').",
    )


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
    if vertex.is_cut and not any(arg.vertex is vertex for arg in args):
        raise DerivativeError(
            "derivative of a region",
            "a traversal inside (lumijit.backward or forward) has cleared what its "
            "results depend on",
            "pass flags=lumijit.ADFlag.ClearVertices to the traversal inside, or "
            "detach what it differentiates.",
        )


@dataclass(frozen=True)
class Seeds:
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


def _inside(nodes: Iterable[Node], depth: int) -> list[Node]:
    return [node for node in nodes if node.scope.depth > depth]


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
    repeat(_inside(needed, depth), args, depth, images)
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
                place(write.wanted.vertex).add(taken)


def forward(
    block: Block,
    tangents: Mapping[int, Node],
    targets: Mapping[int, Sink],
    args: Sequence[Node],
    depth: int,
    images: Images,
) -> dict[int, Node]:
    """Return the derivatives of results of recorded code, by position.

    `tangents` are those of arguments and of vertices outside, by serial number;
    `targets` take those of arrays that the code writes to, by the ids of these.
    """
    outputs = block.outputs
    written = writes_to(block, targets)
    found = inner_vertices([*outputs, *(write.wanted for write in written)], depth)
    needed = _operands(found) + [dep for write in written for dep in write.operands]
    repeat(_inside(needed, depth), args, depth, images)
    known: dict[int, Any] = dict(tangents)
    writers = {id(w.node.vertex) for w in written if w.is_region}
    for vertex in sorted(found, key=lambda v: v.serial):
        if not vertex.inputs:
            _check(vertex, args)
            continue
        mine: dict[int, Sink] = {}
        if id(vertex) in writers:
            _redo_writes(written, targets, images, known, vertex)
            mine = written.pop(0).chosen(targets)
        serials = {k: vertex.deps[k].vertex.serial for k in vertex.inputs}
        values = {k: known[s] for k, s in serials.items() if s in known}
        if values or mine:
            known[vertex.serial] = rules.push(Step(vertex, images, mine), values)
    _redo_writes(written, targets, images, known)
    return {
        k: known[out.vertex.serial]
        for k, out in enumerate(outputs)
        if out.vertex is not None and out.vertex.serial in known
    }


def _redo_writes(
    written: list[Write],
    targets: Mapping[int, Sink],
    images: Images,
    known: Mapping[int, Any],
    end: Vertex | None = None,
) -> None:
    """Write forward derivatives, up to a region whose turn has come."""
    while written and (end is None or written[0].node.vertex is not end):
        write = written.pop(0)
        mine = write.chosen(targets)
        if write.is_region:
            rules.push(Step(write.vertex, images, mine), {})
        else:
            vertex = write.wanted.vertex
            tangent = None if vertex is None else known.get(vertex.serial)
            (into,) = mine.values()
            into.push(tangent, write, images)
