"""Where derivatives are first infinite or NaN, under flag CheckDerivatives.

What each operation passes on is tested by the kernel that computes it, inside of
regions, too: whether it isn't finite where the derivatives that it is computed of are.
Several operations may be told so, in a loop in different turns; only the first is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.derive.values import Value
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ABS
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record.checks import Finding
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import DerivativeError


class Trail:
    """The tests of one traversal, of which the first that fails is told."""

    def __init__(self) -> None:
        self.is_told = False


class NonFinite(Finding):
    """What passed a derivative on and, after evaluation, if that isn't finite."""

    def __init__(self, vertex: Vertex, trail: Trail) -> None:
        super().__init__()
        # The vertex may be cut before the evaluation.
        self._name = getattr(vertex.op, "name", "variable")
        self._origin = vertex.where or "<unknown>"
        self._trail = trail

    def tell(self, found: int) -> None:
        """Raise an error: this is where the derivative stops to be finite."""
        if self._trail.is_told:
            return
        self._trail.is_told = True
        kind = "NaN" if found > 1 else "infinite"
        raise DerivativeError(
            f"derivative of {self._name}",
            f"it is the first that is {kind}; the operation was traced at "
            f"{self._origin}, and differentiated at {self.where}",
            "keep its operands where the derivative is finite, for example by "
            "lumijit.select before it, or use lumijit.safe_sqrt and the like.",
        )


_trail = Trail()


def begin() -> None:
    """Begin another traversal: its first derivative that isn't finite is told."""
    global _trail
    if flags.check_derivatives:
        _trail = Trail()


Masked = tuple[Node, Node | None]


def check(vertex: Vertex, found: Masked, before: Iterable[Masked]) -> None:
    """Have an evaluation tell if a derivative that a vertex passes on isn't finite.

    Derivatives are given with masks, under which they count. `before` are those that
    it is computed of.
    """
    if not found[0].type.is_float:
        return
    report = NonFinite(vertex, _trail)
    with vertices.selecting(vertices.NOTHING):
        is_bad = _is_bad(*found)
        for node, mask in before:
            if node.type.is_float and node.size in (1, found[0].size):
                is_bad = is_bad & ~_is_bad(node, mask)
        number, one = Value(found[0]), Value(trace.literal(UINT32, 1))
        kind = (number == number).select(one, 2)
        report.note(kind.node, trace.under_mask(is_bad.node))


def _is_bad(node: Node, mask: Node | None) -> Value:
    is_bad = ~(Value(node).map(ABS) < math.inf)
    return is_bad if mask is None else is_bad & Value(mask)


class Watched:
    """An adjoint of which all that is added is tested, given what it comes of."""

    def __init__(self, adjoint: Any, vertex: Vertex, by: Any) -> None:
        self._adjoint = adjoint
        self._vertex = vertex
        value = by.value if isinstance(by, Adjoint) else None
        self._before = [] if value is None else [(value, by.mask)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adjoint, name)

    def add(self, value: Node, mask: Node | None = None) -> None:
        """Add a derivative."""
        check(self._vertex, (value, mask), self._before)
        self._adjoint.add(value, mask)

    def scatter(self, value: Node, index: Node, mask: Node, mode: str) -> None:
        """Add a derivative to entries."""
        check(self._vertex, (value, mask), self._before)
        self._adjoint.scatter(value, index, mask, mode)
