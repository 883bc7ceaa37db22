"""Operations whose derivatives programs define, as a step with several results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lumijit.compiler.derive.adjoints import Bundle
from lumijit.compiler.derive.rules import RULES, Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import CONSUMED
from lumijit.compiler.ir.vertices import RESULT, Dependence
from lumijit.runtime.dtypes import VOID

CUSTOM = Dependence("custom")
ByPosition = dict[int, Node]


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
) -> list[Node]:
    """Return outputs that depend on inputs by an operation.

    Args:
        operation: what computes the derivatives.
        inputs: what it depends on.
        kept: nodes that the derivatives may need, detached.
        outputs: its results, detached.
    """
    step = trace.make(CONSUMED, VOID, 1, (), None)
    deps = (*inputs, *kept)
    if vertices.track(step, CUSTOM, deps, (operation, len(inputs))) is None:
        return list(outputs)
    results = []
    for k, output in enumerate(outputs):
        if output.type.is_float:
            output = trace.copied(trace.detached(output))
            vertices.track(output, RESULT, (step,), k)
        results.append(output)
    return results


def _pull(step: Step, into: dict[int, Any], by: Bundle) -> None:
    operation, count = step.attr
    grads = {k: part.complete() for k, part in by.parts.items()}
    found = operation.pull(grads, step.deps[count:])
    for k, adjoint in into.items():
        if k in found:
            adjoint.add(found[k])


def _push(step: Step, tangents: dict[int, Node]) -> ByPosition:
    operation, count = step.attr
    found: ByPosition = operation.push(tangents, step.deps[count:])
    return found


RULES[CUSTOM] = Rule(_pull, _push)
