"""Names that users give to traced values, kept for as long as those live."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.launch import recompiles

_LABELS: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


def label_of(node: Node) -> str | None:
    """Return the name of a node, if it has one."""
    return _LABELS.get(node)


def set_label_of(node: Node, label: str) -> None:
    """Name a node."""
    _LABELS[node] = label


# What explains why a kernel was built names values as the user does.
recompiles.name_of = label_of
