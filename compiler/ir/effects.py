"""What writes to arrays are: who holds an array, what a write does to an entry."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

from lumijit.compiler.ir.ops.structural import SCATTER, WRITTEN
from lumijit.compiler.ir.trace import Node

OPERATIONS = ("identity", "add", "mul", "min", "max", "and", "or")


# "apart" is "auto" without flag ScatterReduceLocal: lanes aren't combined.
MODES = ("auto", "apart", "direct", "local", "no_conflicts", "permute", "expand")


CONSUMED = "consumed"


class Holder(Protocol):
    """An array object whose contents a scatter replaces by a new version."""

    _node: Node


@dataclass(frozen=True)
class Reduction:
    """What a scatter does with the entry it finds, and how.

    Scatters of one non-zero `group` are promised to hit different entries, so
    they may share a kernel, and run at once in it where they are neighbours (`joins`).
    """

    op: str
    mode: str
    group: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """What matters for the generated code."""
        return (self.op, self.mode)


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
