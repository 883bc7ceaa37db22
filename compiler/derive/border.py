"""The border of a region: gradients of what lies outside of it, as code inside adds.

They are added up in memory, or in local memory of a region around, and passed on once
the region is over (`isolation.resume`).
"""

from __future__ import annotations

from lumijit.compiler.derive.adjoints import Adjoint, is_zero
from lumijit.compiler.derive.blocks import Outer
from lumijit.compiler.derive.isolation import (
    is_argument,
    note_given,
    outermost,
    postponed,
)
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.local_types import LocalType
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.logic import REPLACED
from lumijit.compiler.ir.ops.structural import SYMBOLIC
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import local, memory, regions
from lumijit.compiler.record.local import Buffer
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import DerivativeError


def note_use(argument: Vertex) -> Node:
    """Return the gradient of a loop's variable: that of what it was before the loop.

    Unless it stays what it was, closing the loop refuses this.
    """
    found: Node | None = argument.grad
    if found is None:
        found = outermost(argument).grad or trace.literal(argument.type, 0.0)
        argument.give(found)
    return found


def note_read(node: Node) -> None:
    """Note that the gradient of a node is read: a loop's variable may have one.

    So may one that is tracked inside, as before the first turn or by the turn before.
    """
    vertex, source = node.vertex, node
    if vertex.op is REPLACED and vertex.serial in vertices.variables:
        source = vertex.deps[1]
    if source.op is SYMBOLIC:
        found = note_use(source.vertex)
        if source is node and not (is_argument(vertex) or is_zero(found)):
            raise DerivativeError(
                "lumijit.grad",
                "the body of a symbolic loop reads the gradient of a loop variable "
                "that isn't tracked before the loop: it has none in the first turn",
                "call lumijit.enable_grad before the loop, or track a copy made inside "
                "(x = lumijit.detach(x); lumijit.enable_grad(x)).",
            )


class Border:
    """The gradients of what lies outside of the region that is being traced."""

    def __init__(self) -> None:
        self._depth = trace.state.scope.depth
        self._outer: dict[int, tuple[Vertex, Outer]] = {}

    def has(self, vertex: Vertex) -> bool:
        """Tell whether a vertex lies outside."""
        return vertex.scope.depth < self._depth or is_argument(vertex)

    def at(self, vertex: Vertex) -> Outer:
        """Return the adjoint of a vertex outside."""
        if isinstance(vertex.type, LocalType):
            raise DerivativeError(
                "lumijit.traverse",
                "the traversal goes from a region to a local buffer outside of it, "
                "which can't hold a gradient",
                "differentiate where the buffer was made, or make it inside.",
            )
        if is_argument(vertex):
            note_use(vertex)
            return self.at(vertex.attr)
        known = self._outer.get(vertex.serial)
        if known is None:
            sums = postponed.sums
            if vertex.serial not in sums:
                postponed.will_change()
                sums[vertex.serial] = vertex, _sum_of(vertex)
            _, total = sums[vertex.serial]
            holder = total if vertex.scope is ROOT else None
            known = self._outer[vertex.serial] = vertex, Outer(vertex, holder)
        return known[1]

    def settle(self) -> None:
        """Add what was computed element by element to the sums."""
        place, always = trace.literal(UINT32, 0), trace.make_true(1)
        if self._outer:
            note_given()
        for serial, (vertex, outer) in self._outer.items():
            value, total = outer.value, postponed.sums[serial][1]
            if value is None:
                continue
            if isinstance(total, Buffer):
                value = trace.emit2(ADD, local.read(total, place, always), value)
                local.write(total, value, place, always)
            else:
                index = trace.counter(vertex.size)
                memory.update(total, value, index, always, "add")


def begins_outside() -> DerivativeError:
    """Word the error for a start whose gradient a region would lose."""
    return DerivativeError(
        "lumijit.traverse",
        "the traversal, in a symbolic loop, branch or call, begins at a variable from "
        "outside, whose gradient would be lost",
        "differentiate it outside, or compute inside what is differentiated there.",
    )


def passes_outside() -> DerivativeError:
    """Word the error for forward mode that would miss what was computed before."""
    return DerivativeError(
        "lumijit.traverse",
        "forward mode begins in a symbolic loop, and variables of the loop were "
        "computed of its argument before, whose derivatives can't be had inside",
        "compute them inside, detach them there, or use evaluated mode.",
    )


def _sum_of(vertex: Vertex) -> Holder:
    """Return where regions inside add to a vertex: in memory, or local memory."""
    with regions.reopened(vertex.scope):
        total = Adjoint(vertex, vertex.grad)
        if vertex.scope is ROOT:
            return total.opened()
        return local.allocate(vertex.type, 1, total.complete())


def add_outside(vertex: Vertex, gradient: Node) -> None:
    """Add to the gradient of a vertex outside of the region that is being traced."""
    if outermost(vertex).inputs:
        raise DerivativeError(
            "lumijit.accum_grad",
            "an array from outside of the symbolic loop, branch or call, which was "
            "computed of others, can't be given a gradient inside",
            "compute inside what is differentiated there, or use evaluated mode.",
        )
    border = Border()
    border.at(vertex).add(gradient)
    border.settle()
