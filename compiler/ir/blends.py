"""Values that control flow puts together, element by element, of variables and others.

A blend of variables is none: derivatives pass through it to them, and their gradients
aren't its own. Owns which values are such, so that nobody takes zero for a gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from weakref import WeakSet

from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.vertices import Vertex

# What control flow has put together, element by element, of variables made inside of
# it: gradients that are left there, or arrive at some, aren't those of the whole.
_blends: WeakSet[Vertex] = WeakSet()


def includes(vertex: Vertex) -> bool:
    """Tell whether a gradient isn't known of the whole value."""
    return vertex in _blends


def forget(vertex: Vertex) -> None:
    """Take a gradient that has arrived, or was given, for that of the whole value."""
    _blends.discard(vertex)


def note(made: Node, values: Iterable[Node], start: int = sys.maxsize) -> None:
    """Note what a result of control flow is made of.

    Args:
        made: the result.
        values: what its elements are.
        start: the number of the first vertex made inside; those in regions are known.
    """
    if not made.type.is_differentiable:
        return
    for value in values:
        vertex = value.vertex
        if vertex is None or vertex is made.vertex:
            continue
        is_inside = vertex.serial >= start or vertex.scope.depth > made.scope.depth
        is_variable = is_inside and vertex.serial in vertices.variables
        if is_variable or (_blends and vertex in _blends):
            if made.vertex is None:
                made.vertex = vertices.new_vertex(made, None, (), ())
                chosen = vertices.selected()
                if chosen is not None:
                    chosen.include(made.vertex)
            _blends.add(made.vertex)
            return


def standing_for(node: Node, make: Callable[[Node], Node]) -> Node:
    """Make a node of the values of another, which is suspended where that one is."""
    chosen = vertices.selected()
    if node.vertex is None or chosen is None or node.vertex in chosen:
        made = make(node)
    else:
        with vertices.selecting(None):
            made = make(node)
        chosen.include(made.vertex, False)
    if node.vertex is not None:
        note(made, (node,), 0)
    return made
