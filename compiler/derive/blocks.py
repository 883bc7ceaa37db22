"""Derivatives of straight-line code that a region has recorded.

The code is repeated in the scope where its derivative is being traced, with other
nodes (`images`) for arguments and captured values; then derivatives pass along the
vertices that were recorded. What lies outside of the code is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lumijit.compiler.derive import rules
from lumijit.compiler.derive.adjoints import Adjoint, Places
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.captures import Captures, in_order
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.ops.structural import CONSUMED
from lumijit.compiler.ir.trace import Node, Scope
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import memory
from lumijit.compiler.transform.rewriting import Rewriter
from lumijit.runtime.errors import DerivativeError

Images = dict[int, Node]
Outside = Callable[[Vertex], Any]


class Outer:
    """The adjoint of what lies outside of a region, as its code adds to it.

    Values are known element by element; what is read by index is added to in memory
    (`holder`, None if nobody asks for it).
    """

    def __init__(self, like: Vertex, holder: Holder | None) -> None:
        self._sum = Adjoint(like)
        self._holder = holder

    def add(self, value: Node, mask: Node | None = None) -> None:
        """Add a derivative by a value."""
        self._sum.add(value, mask)

    def scatter(self, value: Node, index: Node, mask: Node, mode: str) -> None:
        """Add a derivative by entries."""
        if self._holder is not None:
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
    todo = [n for n in nodes if id(n) not in images and n.op is not CONSUMED]
    is_tracking = vertices.selected() is not vertices.NOTHING
    rewriter = Rewriter(images, is_pure=True)
    for node in todo:
        (copy,) = rewriter.copy([node], trace.state.scope)
        if copy.op is CONSUMED:
            raise _needs_write()
        if is_tracking and node.vertex is not None:
            step = Step(node.vertex, images)
            if step.op is not None:
                vertices.track(copy, step.op, step.deps, step.attr)


def _needs_write() -> DerivativeError:
    return DerivativeError(
        "derivative of a region",
        "it needs the position that lumijit.scatter_inc returned inside, which can't "
        "be had a second time",
        "reserve positions outside of what is differentiated.",
    )


def _operands(found: Iterable[Vertex]) -> list[Node]:
    """Return the nodes that the rules of vertices may ask for."""
    nodes: list[Node] = []
    for vertex in found:
        nodes.extend(vertex.deps)
        result = vertex.result()
        if result is not None and result.type is vertex.type:
            nodes.append(result)
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


def reverse(
    outputs: Sequence[Node],
    seeds: Mapping[int, Node],
    args: Sequence[Node],
    depth: int,
    images: Images,
    outside: Outside,
) -> dict[int, Adjoint]:
    """Pass derivatives by results of recorded code on to what it was computed of.

    Args:
        outputs: the results.
        seeds: the derivatives by results, by position.
        args: the arguments of the region; `images` has what stands for them.
        depth: how deep the scope around the region is.
        images: what stands for nodes; grows.
        outside: returns the adjoint of a vertex outside of the region.

    Returns:
        The adjoints of vertices inside that depend on nothing, by serial number.
    """
    wanted = [outputs[k] for k in seeds]
    repeat(
        _inside(_operands(inner_vertices(wanted, depth)), depth), args, depth, images
    )
    places = Places(is_inside=True)

    def place(vertex: Vertex) -> Any:
        return places.at(vertex) if vertex.scope.depth > depth else outside(vertex)

    for k, seed in seeds.items():
        if outputs[k].vertex is not None:
            place(outputs[k].vertex).add(seed)
    found: dict[int, Adjoint] = {}
    while places:
        vertex, adjoint = places.pop()
        if not vertex.inputs:
            _check(vertex, args)
            found[vertex.serial] = adjoint
            continue
        into = {k: place(vertex.deps[k].vertex) for k in vertex.inputs}
        rules.pull(Step(vertex, images), into, adjoint)
    return found


def _inside(nodes: Iterable[Node], depth: int) -> list[Node]:
    return [node for node in nodes if node.scope.depth > depth]


def forward(
    outputs: Sequence[Node],
    tangents: Mapping[int, Node],
    args: Sequence[Node],
    depth: int,
    images: Images,
) -> dict[int, Node]:
    """Return the derivatives of results of recorded code, by position.

    `tangents` are those of arguments and of vertices outside, by serial number.
    """
    found = inner_vertices(outputs, depth)
    repeat(_inside(_operands(found), depth), args, depth, images)
    known: dict[int, Any] = dict(tangents)
    for vertex in sorted(found, key=lambda v: v.serial):
        if not vertex.inputs:
            _check(vertex, args)
            continue
        serials = {k: vertex.deps[k].vertex.serial for k in vertex.inputs}
        mine = {k: known[s] for k, s in serials.items() if s in known}
        if mine:
            known[vertex.serial] = rules.push(Step(vertex, images), mine)
    return {
        k: known[out.vertex.serial]
        for k, out in enumerate(outputs)
        if out.vertex is not None and out.vertex.serial in known
    }
