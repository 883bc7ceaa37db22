"""Finding statements that can't be part of vectorized control flow."""

from __future__ import annotations

import ast
from typing import Any

import gast

from lumijit.syntax.control_tree import Compound, For, If, Simple, Statement, While
from lumijit.syntax.liveness import EffectCache, children
from lumijit.syntax.names import NameScope, suspension_in
from lumijit.syntax.places import SourcePlace
from lumijit.syntax.site import Raising

#: Characters of a condition that messages show.
_SHOWN = 60


def find_obstacle(
    nodes: list[Statement], scope: NameScope, effects: EffectCache
) -> tuple[Any, str] | None:
    """Return the first syntax node that forbids vectorizing `nodes`, and its name."""
    for node in nodes:
        found = _obstacle_in(node, scope, effects)
        found = found or find_obstacle(children(node), scope, effects)
        if found:
            return found
    return None


def raising_in(node: If | While) -> Raising | None:
    """Return what raises an exception as soon as a block of `node` is entered.

    What depends on further conditions or loops inside is their business.
    """
    found = find_raise(node.body) or find_raise(node.orelse)
    if found is None:
        return None
    condition = ""
    if not (isinstance(node, If) and node.is_guard):
        test = getattr(node.stmt, "test", None) or node.stmt.iter
        text = ast.unparse(gast.gast_to_ast(test))
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        condition = f"{shown!r} in line {test.lineno}"
    return Raising(found[1], SourcePlace.of(found[0]), condition)


def find_raise(nodes: list[Statement]) -> tuple[Any, str] | None:
    """Return the first statement that surely raises, and its name."""
    for node in nodes:
        stmt = node.stmt
        if isinstance(node, Simple) and isinstance(stmt, gast.Raise):
            return stmt, "'raise'"
        if isinstance(node, Simple) and _never_holds(stmt):
            return stmt, f"'assert {stmt.test.value}'"
        is_with = isinstance(stmt, gast.With)
        if isinstance(node, Compound) and (is_with or isinstance(stmt, gast.Try)):
            found = (
                None if getattr(stmt, "handlers", ()) else find_raise(children(node))
            )
            if found:
                return found
    return None


def _never_holds(stmt: Any) -> bool:
    """Tell whether a statement is `assert False`, which `python -O` leaves out."""
    is_constant = isinstance(stmt, gast.Assert) and isinstance(stmt.test, gast.Constant)
    return __debug__ and is_constant and not stmt.test.value


def _obstacle_in(
    node: Statement, scope: NameScope, effects: EffectCache
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
    if isinstance(node, Compound) and node.plain_only and node.jumps:
        return stmt, f"a jump {node.plain_only}"
    return None


def _header_parts(node: Statement) -> list[Any]:
    """List the expressions of a node outside the nodes nested in it."""
    if isinstance(node, Simple):
        return [node.stmt]
    if isinstance(node, (If, While)):
        return [node.test]
    if isinstance(node, For):
        return [node.iterable]
    stmt = node.stmt
    parts = [item.context_expr for item in getattr(stmt, "items", ())]
    return parts + [p for p in (getattr(stmt, "subject", None),) if p is not None]
