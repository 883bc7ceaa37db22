"""Finding statements that can't be part of vectorized control flow."""

from __future__ import annotations

from typing import Any

import gast

from lumijit.rewriting.expressions import suspension_in
from lumijit.rewriting.liveness import EffectCache, children
from lumijit.rewriting.names import Scope
from lumijit.rewriting.tree import Block, Branch, For, Loop, Node, Simple


def find_obstacle(
    nodes: list[Node], scope: Scope, effects: EffectCache
) -> tuple[Any, str] | None:
    """Return the first syntax node that forbids vectorizing `nodes`, and its name."""
    for node in nodes:
        found = _obstacle_in(node, scope, effects)
        found = found or find_obstacle(children(node), scope, effects)
        if found:
            return found
    return None


def _obstacle_in(
    node: Node, scope: Scope, effects: EffectCache
) -> tuple[Any, str] | None:
    stmt = node.stmt
    if isinstance(stmt, (gast.AsyncFor, gast.AsyncWith)):
        word = "for" if isinstance(stmt, gast.AsyncFor) else "with"
        return stmt, f"'async {word}'"
    for part in _header_parts(node):
        found = suspension_in(part)
        if found is not None:
            word = "yield" if isinstance(found, (gast.Yield, gast.YieldFrom)) else ""
            return found, f"'{word or 'await'}'"
    written = effects.header(node).writes & scope.global_names
    if written:
        return stmt, f"an assignment to the global variable {min(written)!r}"
    if isinstance(node, Block) and node.plain_only and node.jumps:
        return stmt, f"a jump {node.plain_only}"
    return None


def _header_parts(node: Node) -> list[Any]:
    """List the expressions of a node outside the nodes nested in it."""
    if isinstance(node, Simple):
        return [node.stmt]
    if isinstance(node, (Branch, Loop)):
        return [node.test]
    if isinstance(node, For):
        return [node.iterable]
    stmt = node.stmt
    parts = [item.context_expr for item in getattr(stmt, "items", ())]
    return parts + [p for p in (getattr(stmt, "subject", None),) if p is not None]
