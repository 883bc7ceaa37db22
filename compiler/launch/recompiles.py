"""Why no kernel in memory serves a program: what differs from the most similar one.

Owns the wording of one reason. The keys that it compares are made by `program`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.record import REGISTRY, Role
from lumijit.compiler.ir.ops.structural import REGIONS
from lumijit.compiler.plan.program import Program, leaf_text
from lumijit.runtime.dtypes import name_of_index

_END = "its end"


def _unnamed(_node: Node) -> str | None:
    return None


#: What users call a node, if anything; array classes know.
name_of: Callable[[Node], str | None] = _unnamed


def explain(program: Program, known: Collection[Any]) -> str:
    """Say what differs first from the kernel, among those with `known` keys, that
    begins most like the program.
    """
    key = program.key
    if not known:
        return "first kernel"
    best, shared = None, 0
    for other in known:
        common = 0
        for a, b in zip(key, other, strict=False):
            if a != b:
                break
            common += 1
        if common > shared:
            best, shared = other, common
    nodes = program.nodes
    if best is None:
        return f"no known kernel begins with {_row_text(key[0])}{_named(nodes[0])}"
    count = len(nodes)
    if shared < count:
        mine = f"{_row_text(key[shared])}{_named(nodes[shared])}"
        theirs = _row_text(best[shared]) if shared < len(best) - 2 else _END
        where = f"differs from a known kernel at step {shared + 1} of {count}: {mine}"
        if _row_text(key[shared]) == theirs:
            return f"{where}, with other operands or of another kind"
        return f"{where}, where that has {theirs}"
    if shared == len(key) - 1:
        return "differs from a known kernel in its size (one or more, or very large)"
    names = [f"'{n}'" for n in map(name_of, program.outputs) if n is not None]
    which = f" ({', '.join(names)})" if names else ""
    return (
        f"computes the same as a known kernel, but the {len(program.outputs)} outputs"
        f"{which} or what is written differ"
    )


def _row_text(row: Any) -> str:
    """Describe one entry of a key."""
    if isinstance(row, int):
        return leaf_text(row)
    if not isinstance(row[1], int):
        # What is written to comes after the operations.
        return _END
    number = row[0]
    op = list(REGISTRY.values())[number]
    has_type = op.results > 0 and Role.TARGET not in op.roles
    return f"'{op.name}'" + (f" of {name_of_index(row[1])}" if has_type else "")


def _named(node: Node) -> str:
    """Add what a user calls a node, or the construct that it belongs to."""
    name = name_of(node)
    if name is None and node.op in REGIONS:
        name = node.attr.label
    return f" ('{name}')" if name else ""
