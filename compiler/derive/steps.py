"""One step of a derivative: an operation with its operands as they are to be used.

In the program that is a vertex itself. Of what a region has recorded, other nodes
stand for the operands wherever the region's derivative repeats its code.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.trace import Node
from lumijit.compiler.ir.vertices import Dependence, Vertex
from lumijit.runtime.dtypes import DType


class Step:
    """A vertex, and what stands for the nodes that it refers to."""

    def __init__(self, vertex: Vertex, images: dict[int, Node] | None = None) -> None:
        self.vertex = vertex
        # By the ids of what was recorded.
        self.images = images or {}

    def image(self, node: Node) -> Node:
        """Return what stands for a node."""
        return self.images.get(id(node), node)

    @property
    def op(self) -> Op | Dependence | None:
        """The operation."""
        return self.vertex.op

    @property
    def attr(self) -> Any:
        """What the operation needs besides operands."""
        return self.vertex.attr

    @property
    def type(self) -> DType:
        """The type of the result."""
        return self.vertex.type

    @property
    def size(self) -> int:
        """The size of the result."""
        return self.vertex.size

    @property
    def mode(self) -> str:
        """How updates of a read array's gradient are combined."""
        return self.vertex.mode

    @cached_property
    def deps(self) -> tuple[Node, ...]:
        """The operands."""
        return tuple(map(self.image, self.vertex.deps))

    @cached_property
    def result(self) -> Node:
        """The result; it is computed again if nobody holds it any more."""
        node = self.vertex.result()
        if node is not None:
            return self.image(node)
        assert isinstance(self.op, Op)
        return trace.append(self.op, self.type, self.deps, self.attr, self.size)
