"""How entries of an array change with the values that were combined with them.

A sum changes as each of its terms does, a product by the product of all other factors,
an extreme with every value that equals it. What that needs to know of the entries is
found by combining once more (`include`), in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit.compiler.derive.values import Value
from lumijit.compiler.emit.combine import identity
from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.record import memory
from lumijit.compiler.record.writes import claim


class Combination:
    """Entries to which values were added, or that these replaced."""

    def include(self, value: Node, index: Node, mask: Node) -> None:
        """Combine values with entries."""

    def share(self, by: Node, one: Node, *place: Node) -> Node:
        """Return a derivative times that of the result by one of what it is made of.

        Args:
            by: the derivative.
            one: what was combined: the array of before, or values.
            place: index and mask of the entries, for values.
        """
        return by


class Extremes(Combination):
    """Minima or maxima. All that equal one have its derivative."""

    def __init__(self, op: str, entries: Node) -> None:
        self._op = op
        self._result = Holder(entries)
        # The region may read what is the same node.
        claim(self._result)

    def include(self, value: Node, index: Node, mask: Node) -> None:
        """Combine values with entries."""
        memory.update(self._result, value, index, mask, self._op)

    def share(self, by: Node, one: Node, *place: Node) -> Node:
        """Return a derivative where a value is the extreme, and 0 elsewhere."""
        is_extreme = Value(one) == _at(self._result, place)
        return is_extreme.select(Value(by), 0).node


class Products(Combination):
    """Products: of the factors other than zero, with the number of zeros."""

    def __init__(self, entries: Node) -> None:
        known = Value(entries)
        self._product = Holder(without_zeros(known).node)
        self._zeros = Holder(zero_count(known).node)
        # Their sum has derivatives, where these are tracked.
        is_tracked = vertices.is_tracking()
        self._sum = Holder(zeros_only(known).node) if is_tracked else None

    def include(self, value: Node, index: Node, mask: Node) -> None:
        """Combine values with entries."""
        factor, zero = without_zeros(Value(value)), zero_count(Value(value))
        memory.update(self._product, factor.node, index, mask, "mul")
        memory.update(self._zeros, zero.node, index, mask, "add")
        if self._sum is not None:
            memory.update(self._sum, zeros_only(Value(value)).node, index, mask, "add")

    def share(self, by: Node, one: Node, *place: Node) -> Node:
        """Return a derivative times the product of the other factors."""
        product, zeros = _at(self._product, place), _at(self._zeros, place)
        total = None if self._sum is None else _at(self._sum, place)
        return (Value(by) * product_without(Value(one), product, zeros, total)).node


def _at(array: Holder, place: tuple[Node, ...]) -> Value:
    if not place:
        return Value(array._node)
    index, mask = place
    return Value(memory.entries(array._node, index, mask))


_KINDS: dict[str, Callable[[Node], Combination]] = {
    "min": lambda entries: Extremes("min", entries),
    "max": lambda entries: Extremes("max", entries),
    "mul": Products,
}


#: The operations whose derivatives depend on what is combined.
COMBINED = frozenset(_KINDS)


def combination(
    op: str | None, entries: Node | None, kept: Value | None = None
) -> Combination:
    """Return a combination of the entries of an array with nothing yet.

    Args:
        op: the operation.
        entries: of the array before; None for operations that don't depend on them.
        kept: which of them count; else all.
    """
    if entries is None or op not in _KINDS:
        return Combination()
    if kept is not None:
        neutral = float(identity(op, entries.type))
        entries = kept.select(Value(entries), neutral).node
    return _KINDS[op](entries)


def product_without(
    one: Value, product: Value, zeros: Value, total: Value | None = None
) -> Value:
    """Return a product without a factor.

    Args:
        one: the factor.
        product: that of all factors other than zero.
        zeros: how many are zero.
        total: their sum, if derivatives are tracked: of one zero among the others, the
            product is a multiple.
    """
    is_zero = one == 0
    rest = is_zero.select(product, product / is_zero.select(1, one))
    others = is_zero.select(zeros - 1, zeros)
    multiple: Any = 0
    if total is not None:
        other = is_zero.select(total - one, total)
        multiple = (others == 1).select(rest * other, 0)
    return (others == 0).select(rest, multiple)


def without_zeros(value: Value) -> Value:
    """Return the values, with 1 in place of 0."""
    return (value == 0).select(1, value)


def zero_count(value: Value) -> Value:
    """Return 1 where a value is 0, else 0."""
    return (value == 0).select(value.like(1), 0)


def zeros_only(value: Value) -> Value:
    """Return what is 0 with its derivatives, and 0 without any for other values."""
    return (value == 0).select(value, 0)
