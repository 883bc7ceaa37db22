"""What writes to arrays are: who holds an array, what a write does to an entry."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import SCATTER, WRITTEN

if TYPE_CHECKING:
    from lumijit.compiler.ir.matrices import Matrix

OPERATIONS = ("identity", "add", "mul", "min", "max", "and", "or")


# "apart" is "auto" without flag ScatterReduceLocal: lanes aren't combined.
MODES = ("auto", "apart", "direct", "local", "no_conflicts", "permute", "expand")


class Holder:
    """What stands for a value of the trace: an array, a buffer, a counter.

    Its node is replaced here only, so that what belongs to a value besides its node
    has one place to follow it.
    """

    __slots__ = ("_node",)
    _node: Node

    def __init__(self, node: Node) -> None:
        self._node = node

    def _become(self, node: Node) -> None:
        """Stand for another value."""
        self._node = node

    def _advance(self, node: Node) -> None:
        """Stand for the version after a write."""
        self._node = node

    def _go_back(self, node: Node) -> None:
        """Stand for a value of before, since what came after is undone."""
        self._node = node

    def _rehouse(self, node: Node) -> None:
        """Stand for the same value in another node."""
        self._node = node


#: Makes a holder of a class, without a node.
new_holder = cast(Any, Holder.__new__)


def held(holder: Holder) -> Node:
    """Return what a holder holds. (In C, that is a field and no search for a name.)"""
    return holder._node


def wrap(cls: type[Any], node: Node) -> Any:
    """Return a holder of a class, which needs nothing else, for a node of its type."""
    holder = new_holder(cls)
    holder._node = node
    return holder


@dataclass(frozen=True)
class Reduction:
    """What a scatter does with the entry it finds, and how.

    Scatters of one non-zero `group` are promised to hit different entries, so
    they may share a kernel, and run at once in it where they are neighbours (`joins`).
    A `matrix`: each element adds a product to each of its entries.
    """

    op: str
    mode: str
    group: int = 0
    matrix: Matrix | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What matters for the generated code."""
        return (self.op, self.mode, *([self.matrix] if self.matrix else []))

    @property
    def entries(self) -> int:
        """How many entries an element writes."""
        return self.matrix.rows * self.matrix.columns if self.matrix else 1


@lru_cache(64)
def reduction(op: str, mode: str, group: int = 0) -> Reduction:
    """Return what a scatter does, one object for those that do the same."""
    return Reduction(op, mode, group)


def joins(node: Node) -> bool:
    """Tell whether a scatter hits other entries than the write before it does."""
    before = node.deps[0]
    if before.op is not WRITTEN or before.deps[0].op is not SCATTER:
        return False
    group: int = node.attr.group
    return group != 0 and before.deps[0].attr.group == group


_groups = itertools.count(1)


def new_group() -> int:
    """Return a number for scatters that are promised to hit different entries."""
    return next(_groups)
