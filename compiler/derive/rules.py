"""How derivatives pass each operation, forward (`push`) and in reverse (`pull`).

Elementwise operations have their partial derivatives on their records; here are the
rules for what moves values between elements, and how both are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lumijit.compiler.derive import elementwise, finite
from lumijit.compiler.derive.adjoints import (
    Adjoint,
    LocalAdjoint,
    mark_partial,
    partly,
    unmoved,
    zero,
)
from lumijit.compiler.derive.combined import Combination, Extremes, combination
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import literal
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.local_types import local_type_of
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.logic import REPLACED
from lumijit.compiler.ir.ops.record import NotDifferentiable, Op
from lumijit.compiler.ir.ops.structural import (
    CAST,
    GATHER,
    LOCAL,
    LOCAL_READ,
    LOCAL_WRITE,
    SCATTER,
)
from lumijit.compiler.ir.vertices import (
    COLLECTED,
    ELEMENTS,
    RESULT,
    Dependence,
    Vertex,
)
from lumijit.compiler.record import local, memory
from lumijit.compiler.record.writes import write
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import DerivativeError

#: Adds to the derivatives by operands: their adjoints, by position; the derivative by
#: the result.
Pull = Callable[[Step, dict[int, Any], Any], None]
#: The derivative of the result from those of operands, by position.
Push = Callable[[Step, dict[int, Any]], Any]


def pull(step: Step, into: dict[int, Any], by: Any) -> None:
    """Pass the derivative by a result on to the operands, whose adjoints are given."""
    op = step.op
    adjoints = into.values()
    if flags.check_derivatives:
        into = {k: finite.Watched(a, step.vertex, by) for k, a in into.items()}
    try:
        if type(op) is Op and type(op.derivative) is tuple:
            elementwise.pull(step, into, by, op.derivative)
        else:
            _rule(step).pull(step, into, by.complete())
            mark_partial(adjoints)
    except DerivativeError as error:
        _name_line(error, step.vertex)
        raise


def push(step: Step, tangents: dict[int, Node]) -> Node:
    """Return the derivative of a result from those of the operands."""
    op = step.op
    try:
        if isinstance(op, Op) and isinstance(op.derivative, tuple):
            found = elementwise.push(step, tangents, op.derivative)
        else:
            found = _rule(step).push(step, tangents)
    except DerivativeError as error:
        _name_line(error, step.vertex)
        raise
    if flags.check_derivatives and isinstance(found, Node):
        before = [(t, None) for t in tangents.values() if isinstance(t, Node)]
        finite.check(step.vertex, (found, None), before)
    return found


def _name_line(error: DerivativeError, vertex: Vertex) -> None:
    """Add to an error where the innermost operation that has it was traced."""
    if _ORIGIN in error.args[0]:
        return
    origin = f"{_ORIGIN} was traced at {vertex.where}."
    if not vertex.where:
        origin = f"{_ORIGIN}'s line is known if it was traced under flag Debug."
    error.args = (f"{error.args[0]} {origin}",)


_ORIGIN = "The operation"


def needs_result(vertex: Vertex) -> bool:
    """Tell whether partial derivatives may be functions of the result, too."""
    return type(vertex.op) is Op and type(vertex.op.derivative) is tuple


class Rule(NamedTuple):
    """How derivatives pass an operation that moves values between elements."""

    pull: Pull
    push: Push


RULES: dict[Op | Dependence, Rule] = {}


def _rule(step: Step) -> Rule:
    op = step.op
    assert op is not None
    rule = RULES.get(op)
    if rule is None:
        raise not_differentiable(op)
    return rule


def not_differentiable(op: Op | Dependence) -> DerivativeError:
    """Word the error for an operation without a rule."""
    why = "there is no rule for it"
    if isinstance(op, Op) and isinstance(op.derivative, NotDifferentiable):
        why = op.derivative.why
    return DerivativeError(
        f"derivative of {op.name}",
        f"the operation can't be differentiated: {why}",
        "leave it out of what is differentiated with lumijit.detach, or give it "
        "a derivative of its own with lumijit.CustomOp.",
    )


# Conversions


def _pull_cast(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    for adjoint in into.values():
        adjoint.add(trace.cast_to(by, step.deps[0].type))


def _push_cast(step: Step, tangents: dict[int, Node]) -> Node:
    return trace.cast_to(tangents[0], step.type)


# Reads by index


def _index(step: Step) -> Node:
    """Return the positions that a gather reads: its constant is part of them."""
    index = step.deps[1]
    if not step.attr:
        return index
    return trace.emit2(ADD, index, trace.literal(UINT32, step.attr))


def _pull_gather(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    for adjoint in into.values():
        adjoint.scatter(by, _index(step), step.deps[2], step.mode)


def _pull_elements(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    for adjoint in into.values():
        # What one element adds is no write that others might do, too.
        total = adjoint.opened()
        write(total, by, _index(step), step.deps[2], "add", "permute")
        adjoint.close(total)


def _push_gather(step: Step, tangents: dict[int, Node]) -> Node:
    source = trace.resized(tangents[0], step.deps[0].size)
    return memory.entries(source, _index(step), step.deps[2])


# Writes. The operands are target, value, index and mask. The target is a stand-in if
# the rule doesn't read it, so that the write can take place in its memory. (Whether one
# of a single entry is meant once for all elements was asked where it was made.)


def _pull_scatter(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    target, value, index, mask = step.deps
    ways = _combined(step)
    if 1 in into:
        at = memory.entries(by, index, mask)
        into[1].add(ways.share(at, value, index, mask), partly(mask))
    if 0 in into:
        if step.attr.op == "identity":
            rest = Holder(by)
            zero = literal(0, by)
            write(rest, zero, index, mask)
            by = rest._node
        into[0].add(ways.share(by, target))


def _combined(step: Step) -> Combination:
    """Return how a scatter has combined entries with values."""
    target, value, index, mask = step.deps
    op = step.attr.op
    after = step.held if op in ("min", "max") else None
    if after is not None:
        return Extremes(op, after)
    ways = combination(op, trace.resized(target, step.size))
    ways.include(value, index, mask)
    return ways


def _push_scatter(step: Step, tangents: dict[int, Node]) -> Node:
    target, value, index, mask = step.deps
    op = step.attr.op
    ways = _combined(step)
    before = ways.share(tangents.get(0, literal(0, value)), target)
    change = tangents.get(1, literal(0, value))
    change = ways.share(change, value, index, mask)
    after = Holder(trace.resized(before, step.size))
    how = "identity" if op == "identity" else "add"
    write(after, change, index, mask, how, step.attr.mode)
    return after._node


# Results of operations that have several, whose node is of type VOID.


def _pull_result(step: Step, into: dict[int, Any], by: Node) -> None:
    into[0].part(step.attr, step.vertex).add(by)


def _push_result(step: Step, tangents: dict[int, Any]) -> Node:
    tangent: Node | None = tangents[0].get(step.attr)
    return zero(step.vertex, step.size) if tangent is None else tangent


def _pull_all(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    for adjoint in into.values():
        adjoint.add(by)


def _push_all(step: Step, tangents: dict[int, Node]) -> Node:
    return next(iter(tangents.values()))


# Local memory. A derivative by a buffer is a buffer, and changes as that does.


def _pull_local(step: Step, into: dict[int, Any], by: Node) -> None:
    total = LocalAdjoint(step.vertex)
    total.add(by)
    into[0].add(total.total())


def _push_local(step: Step, tangents: dict[int, Node]) -> Node:
    return local.new(local_type_of(step.vertex), tangents[0])


def _pull_local_read(step: Step, into: dict[int, Any], by: Node) -> None:
    into[0].scatter(by, step.deps[1], step.deps[2], "auto")


def _push_local_read(step: Step, tangents: dict[int, Node]) -> Node:
    return local.entry(tangents[0], step.deps[1], step.deps[2])


def _pull_local_write(step: Step, into: dict[int, Any], by: Node) -> None:
    _, index, value, mask = step.deps
    if 2 in into:
        into[2].add(local.entry(by, index, mask), partly(mask))
    if 0 in into:
        into[0].add(local.replaced(by, index, literal(0, value), mask))


def _push_local_write(step: Step, tangents: dict[int, Node]) -> Node:
    _, index, value, mask = step.deps
    buffer = tangents.get(0)
    if buffer is None:
        buffer = unmoved(step.deps[0])
    # (A buffer that becomes wide here has a wide derivative.)
    tangent = trace.resized(tangents.get(2, literal(0, value)), value.size)
    return local.replaced(buffer, index, tangent, mask)


# Tables of values, of which each is some entries.


def _pull_collected(step: Step, into: dict[int, Any], by: Node) -> None:
    always = trace.make_true(1)
    for k, adjoint in into.items():
        for place in step.attr[k]:
            adjoint.add(memory.entries(by, trace.literal(UINT32, place), always))


def _push_collected(step: Step, tangents: dict[int, Node]) -> Node:
    table = Holder(zero(step.vertex, step.size))
    always = trace.make_true(1)
    for k, tangent in tangents.items():
        for place in step.attr[k]:
            index = trace.literal(UINT32, place)
            memory.update(table, tangent, index, always)
    return table._node


RULES.update(
    {
        CAST: Rule(_pull_cast, _push_cast),
        GATHER: Rule(_pull_gather, _push_gather),
        ELEMENTS: Rule(_pull_elements, _push_gather),
        SCATTER: Rule(_pull_scatter, _push_scatter),
        RESULT: Rule(_pull_result, _push_result),
        REPLACED: Rule(_pull_all, _push_all),
        COLLECTED: Rule(_pull_collected, _push_collected),
        LOCAL: Rule(_pull_local, _push_local),
        LOCAL_READ: Rule(_pull_local_read, _push_local_read),
        LOCAL_WRITE: Rule(_pull_local_write, _push_local_write),
    }
)
