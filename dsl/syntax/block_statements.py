"""Writing `with`, `try` and `match`, which stay as they are around their blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.control_tree import Compound, Statement, caught_name

#: Writes a list of nodes, given the names bound before, which it extends.
Writer = Callable[[list[Statement], set[str]], list[Any]]


def write_block(
    node: Compound,
    write: Writer,
    rewrite: Callable[[Any], Any],
    require_plain: Callable[[Any], Any],
    bound: set[str],
    bound_by_header: set[str],
) -> Any:
    """Write a compound statement.

    Args:
        node: The statement.
        write: Writes the blocks inside.
        rewrite: Rewrites the expressions of the header.
        require_plain: Wraps what `match` inspects, which must not be an array.
        bound: The names that are surely bound before; updated to those after.
        bound_by_header: The names that the header binds.

    Returns:
        The statement.
    """
    is_with = isinstance(node.stmt, (gast.With, gast.AsyncWith))
    stmt = shallow_copy(node.stmt)
    copies = {id(node.stmt): stmt}
    for name in ("handlers", "cases"):
        if hasattr(stmt, name):
            originals = getattr(stmt, name)
            setattr(stmt, name, [shallow_copy(part) for part in originals])
            copies |= zip(map(id, originals), getattr(stmt, name), strict=True)
    for holder, name, body in node.parts:
        inner = bound | bound_by_header | caught_name(holder)
        statements = write(body, inner)
        if is_with or name == "finalbody":
            bound |= inner
        if not statements and name == "body":
            statements = [gast.Pass()]
        setattr(copies[id(holder)], name, statements)
    if is_with:
        stmt.items = [rewrite(item) for item in stmt.items]
    if isinstance(stmt, gast.Match):
        stmt.subject = require_plain(rewrite(stmt.subject))
        for case in stmt.cases:
            if case.guard is not None:
                case.guard = require_plain(rewrite(case.guard))
    return build.located(stmt, node.stmt)


def shallow_copy(node: Any) -> Any:
    """Copy a syntax node but not what is in it."""
    return build.with_fields(node, dict(gast.iter_fields(node)))
