"""One step of a derivative: an operation with its operands as they are to be used.

In the program that is a vertex itself. Of what a region has recorded, other nodes
stand for the operands wherever the region's derivative repeats its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.vertices import Vertex

# Nobody changes a step's.
_NOTHING: dict[int, Any] = {}


class Step:
    """A vertex, and what stands for the nodes that it refers to (`images`, by id).

    `targets` take the forward derivatives of arrays that an outer region writes to
    (`written.Sink`), by the ids of these. `wanted` are the results of a region that are
    to be computed again with its forward derivative, by position.
    """

    __slots__ = (
        "_result",
        "attr",
        "deps",
        "images",
        "op",
        "size",
        "targets",
        "type",
        "vertex",
        "wanted",
    )

    def __init__(
        self,
        vertex: Vertex,
        images: dict[int, Node] | None = None,
        targets: dict[int, Any] | None = None,
        wanted: Sequence[int] = (),
    ) -> None:
        self.vertex = vertex
        self.images: dict[int, Node] = images or _NOTHING
        self.targets: dict[int, Any] = targets or _NOTHING
        self.wanted = wanted
        self.op = vertex.op
        self.attr: Any = vertex.attr
        self.size = vertex.size
        self.type = vertex.type
        self.deps = vertex.deps
        if images:
            self.deps = tuple([images.get(id(dep), dep) for dep in vertex.deps])
        self._result: Node | None = None

    @property
    def mode(self) -> str:
        """How updates of a read array's gradient are combined."""
        return self.vertex.mode

    @property
    def held(self) -> Node | None:
        """The result, if somebody still holds it."""
        node = self.vertex.result()
        return None if node is None else self.images.get(id(node), node)

    @property
    def result(self) -> Node:
        """The result of an operation; it is computed again if nobody holds it."""
        if self._result is None:
            node = self.held
            if node is None:
                assert isinstance(self.op, Op)
                deps = self.deps
                node = trace.append(self.op, self.type, deps, self.attr, self.size)
            self._result = node
        return self._result
