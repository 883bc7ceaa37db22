"""Recipes: operations on nodes as a list, to be traced again with other operands.

A recipe is made of what was traced once with nodes that stand for any operands. It is
followed as operators would do it: numbers fold, derivatives are noted, sizes are
checked. Mostly there is nothing to fold or to note; then nodes are made one after the
other, and only all of them together are found when they are asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any
from weakref import ref

from lumijit.compiler.ir import trace, value_numbering
from lumijit.compiler.ir.nodes import Node, operands_first
from lumijit.compiler.ir.ops.logic import SELECT
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import CAST, EVALUATED, LITERAL
from lumijit.compiler.ir.trace import emit1, emit2, emit3
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import DType

# How many sets of results are known at most.
_MAX_KNOWN = 64
# An operation, the type of its result, and where its operands are among the values.
Step = tuple[Op, DType, tuple[int, ...]]


class Recipe:
    """Steps to results; values are counted from the `count` operands on.

    Numbers follow, then what each step gives.
    """

    __slots__ = ("_getters", "_is_short", "_known", "_numbers", "_places", "_steps")

    def __init__(
        self,
        count: int,
        numbers: tuple[tuple[DType, Any], ...],
        steps: tuple[Step, ...],
        places: tuple[int, ...],
    ) -> None:
        self._numbers = numbers
        self._steps = tuple(map(_flat, steps))
        # Where the results are.
        self._places = places
        # To find the results again would take longer than to find each operation.
        self._is_short = len(steps) <= count + len(places)
        self._getters = tuple((op, t, _getter(at)) for op, t, at in steps)
        self._known: dict[Any, tuple[list[ref[Node]], list[ref[Node]]]] = {}

    def follow(self, operands: Sequence[Node]) -> list[Node]:
        """Return the results for some operands."""
        if self._is_short:
            return self._trace(operands)
        size = operands[0].size
        for node in operands:
            if node.op is LITERAL or node.size != size or node.vertex is not None:
                return self._trace(operands)
        if not flags.value_numbering:
            return self._trace(operands)
        key = tuple(map(id, operands))
        known = self._known.get(key)
        found = _still(known, operands) if known is not None else None
        if found is None:
            found = self._make(operands, size)
            self._remember(key, operands, found)
        return found

    def _values(self, operands: Sequence[Node]) -> list[Node]:
        literal = trace.literal
        return [*operands, *[literal(t, number) for t, number in self._numbers]]

    def _make(self, operands: Sequence[Node], size: int) -> list[Node]:
        values = self._values(operands)
        scope = trace.state.scope
        for op, dtype, getter in self._getters:
            made = Node()
            made.op = op
            made.type = dtype
            made.size = size
            made.deps = getter(values)
            made.attr = None
            made.buffer = None
            made.scope = scope
            made.uses = None
            made.vertex = None
            made.range = None
            made.walk = 0
            values.append(made)
        return [values[k] for k in self._places]

    def _trace(self, operands: Sequence[Node]) -> list[Node]:
        """Follow the steps as operators would."""
        values = self._values(operands)
        for count, op, dtype, a, b, c in self._steps:
            if count == 2:
                made = emit2(op, values[a], values[b])
            elif op is CAST:
                made = trace.cast_to(values[a], dtype)
            elif count == 1:
                made = emit1(op, values[a])
            elif op is SELECT:
                made = trace.select(values[a], values[b], values[c])
            else:
                made = emit3(op, values[a], values[b], values[c])
            values.append(made)
        return [values[k] for k in self._places]

    def _remember(self, key: Any, operands: Sequence[Node], found: list[Node]) -> None:
        known = self._known
        if len(known) >= _MAX_KNOWN:
            for old, (_, results) in list(known.items()):
                if any(result() is None for result in results):
                    known.pop(old, None)
            if len(known) >= _MAX_KNOWN:
                known.clear()
        known[key] = [ref(n) for n in operands], [ref(n) for n in found]


def _flat(step: Step) -> tuple[int, Op, DType, int, int, int]:
    """Return a step with the number of its operands first, and three places."""
    op, dtype, places = step
    a, b, c = (*places, 0, 0)[:3]
    return len(places), op, dtype, a, b, c


def _getter(places: tuple[int, ...]) -> Callable[[Any], Any]:
    if len(places) > 1:
        return itemgetter(*places)
    (place,) = places
    return lambda values: (values[place],)


def _still(known: Any, operands: Sequence[Node]) -> list[Node] | None:
    """Return what was made of operands, if all of it is there and can be seen."""
    args, results = known
    if any(arg() is not node for arg, node in zip(args, operands, strict=True)):
        return None
    scope = trace.state.scope
    found = []
    for result in results:
        node = result()
        if node is None or not value_numbering.is_visible(node, scope):
            return None
        if node.op is EVALUATED and not any(node is operand for operand in operands):
            return None
        found.append(node)
    return found


def recipe_of(operands: Sequence[Node], results: Sequence[Node]) -> Recipe | None:
    """Return how results were made of operands; None if not by operations on entries.

    Args:
        operands: nodes that stand for any others, of more than one entry.
        results: what was traced with them.
    """
    numbers, order = _behind(operands, results)
    places = {id(n): k for k, n in enumerate((*operands, *numbers, *order))}
    steps = [_step(n, tuple(places[id(d)] for d in n.deps)) for n in order]
    if None in steps or any(n.size != 1 for n in numbers):
        return None
    return Recipe(
        len(operands),
        tuple((n.type, n.attr) for n in numbers),
        tuple(step for step in steps if step is not None),
        tuple(places[id(n)] for n in results),
    )


def _behind(
    operands: Sequence[Node], results: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """Return the numbers behind results, and the operations in order."""
    given = set(operands)
    found = operands_first(results, lambda n: () if n in given else n.deps)
    made = [node for node in found if node not in given]
    numbers = [node for node in made if node.op is LITERAL]
    return numbers, [node for node in made if node.op is not LITERAL]


def _step(node: Node, places: tuple[int, ...]) -> Step | None:
    """Return how to repeat an operation; None if there is no way."""
    op, t = node.op, node.type
    if op is CAST:
        return op, t, places
    is_plain = op.lower is not None and node.attr is None and 0 < len(places) < 4
    is_typed = is_plain and t is (op.result or node.deps[-1].type)
    return (op, t, places) if is_typed else None
