"""Operations whose derivatives programs define, as a step with several results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from lumijit.compiler.derive.adjoints import Bundle
from lumijit.compiler.derive.rules import RULES, Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import CONSUMED
from lumijit.compiler.ir.vertices import RESULT, Dependence
from lumijit.runtime.dtypes import VOID
from lumijit.runtime.errors import DerivativeError

CUSTOM = Dependence("custom")
# What a derivative of a custom operation depends on; nobody knows how.
_DERIVATIVE = Dependence("derivative of a custom operation")
ByPosition = dict[int, Node]
Refusal = Callable[[], DerivativeError]


class Operation(Protocol):
    """What computes the derivatives; `kept` are the nodes that it has kept."""

    def pull(self, grads: ByPosition, kept: Sequence[Node]) -> ByPosition:
        """Return the derivatives by inputs, from those by outputs."""

    def push(self, grads: ByPosition, kept: Sequence[Node]) -> ByPosition:
        """Return the derivatives of outputs, from those of inputs."""


def attach(
    operation: Operation,
    inputs: Sequence[Node],
    kept: Sequence[Node],
    outputs: Sequence[Node],
    refusal: Refusal | None = None,
) -> list[Node]:
    """Return outputs that depend on inputs by an operation.

    Args:
        operation: what computes the derivatives.
        inputs: what it depends on.
        kept: nodes that the derivatives may need, detached.
        outputs: its results, detached.
        refusal: words the error for differentiating the derivatives, which aren't
            tracked; None: they are.
    """
    step = trace.make(CONSUMED, VOID, 1, (), None)
    deps = (*inputs, *kept)
    if vertices.track(step, CUSTOM, deps, (operation, len(inputs), refusal)) is None:
        return list(outputs)
    results = []
    for k, output in enumerate(outputs):
        if output.type.is_float:
            output = trace.copied(trace.detached(output))
            vertices.track(output, RESULT, (step,), k)
        results.append(output)
    return results


def _pull(step: Step, into: dict[int, Any], by: Bundle) -> None:
    operation, count, _ = step.attr
    grads = {k: part.complete() for k, part in by.parts.items()}
    found = operation.pull(grads, step.deps[count:])
    for k, adjoint in into.items():
        if k in found:
            adjoint.add(_derivative(step, found[k], grads))


def _push(step: Step, tangents: dict[int, Node]) -> ByPosition:
    operation, count, _ = step.attr
    found: ByPosition = operation.push(tangents, step.deps[count:])
    return {k: _derivative(step, node, tangents) for k, node in found.items()}


def _derivative(step: Step, node: Node, seeds: ByPosition) -> Node:
    """Return a derivative that is refused to be differentiated, if it must be."""
    _, count, refusal = step.attr
    if refusal is None or vertices.selected() is vertices.NOTHING:
        return node
    made = trace.copied(node)
    vertices.track(made, _DERIVATIVE, (*step.deps[:count], *seeds.values()), refusal)
    return made


def _refuse(step: Step, _: object, by: object = None) -> NoReturn:
    raise step.attr()


RULES[CUSTOM] = Rule(_pull, _push)
RULES[_DERIVATIVE] = Rule(_refuse, _refuse)
