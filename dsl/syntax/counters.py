"""Names that stand for Python's numbers only: `i += 1` gives them another one.

In vectorized control flow such numbers become arrays, which `+=` changes in place, for
other names that they have, too (`j = i`). So `i = i + 1` is written for it, also in
functions inside that say `nonlocal i`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.control_tree import calls_range
from lumijit.syntax.names import OPAQUE, NameScope, effects_of, own_parts

_ZERO = build.constant(0)


def rebind(function: Any, scope: NameScope, is_range: bool) -> None:
    """Write assignments for in-place operators on names of numbers.

    Args:
        function: the definition of the function; changed.
        scope: its names.
        is_range: whether `range` is Python's.
    """
    inside = list(_rebinding(function))
    found = _numbers(function, scope, inside, is_range)
    if found:
        for definition, names in [(function, found), *inside]:
            rewriter = _Rewriter(names & found)
            body = [rewriter.visit(statement) for statement in definition.body]
            definition.body = body


def _rebinding(function: Any) -> Iterator[tuple[Any, set[str]]]:
    """Yield the functions right inside that rebind names of others, with these.

    (A decorator may look at the function's own source.)
    """
    for part in own_parts(*function.body):
        is_function = isinstance(part, (gast.FunctionDef, gast.AsyncFunctionDef))
        if is_function and not part.decorator_list:
            names = effects_of(*part.body).nonlocal_names
            if names:
                yield part, names


def _numbers(
    function: Any,
    scope: NameScope,
    inside: list[tuple[Any, set[str]]],
    is_range: bool,
) -> set[str]:
    """Return the names to which nothing but numbers is assigned."""
    values: dict[str, list[Any]] = defaultdict(list)
    stores: Counter[str] = Counter()
    others = scope.parameters | scope.nonlocal_names | scope.global_names
    # (What functions inside of those inside rebind may be a name of the latter.)
    others |= scope.rebound_inside.difference(*(names for _, names in inside))
    # Each with the names that are the function's there; None: all.
    parts: list[tuple[Any, set[str] | None]]
    parts = [(part, None) for part in own_parts(*function.body)]
    for definition, names in inside:
        others |= effects_of(*definition.body).rebound_inside
        parts += [(part, names) for part in own_parts(*definition.body)]
    for part, meant in parts:
        if isinstance(part, gast.Name) and isinstance(part.ctx, gast.Store):
            stores[part.id] += meant is None or part.id in meant
        # Functions, classes, exceptions, modules, what a pattern captures.
        for field in ("name", "asname", "rest"):
            name = getattr(part, field, None)
            if isinstance(name, str):
                others |= {name.split(".")[0]}
        for target, value in _assigned(part, is_range):
            if isinstance(target, gast.Name) and (meant is None or target.id in meant):
                values[target.id].append(value)
    found = {n for n in values if len(values[n]) == stores[n]} - others
    while True:
        kept = {n for n in found if all(_is_number(v, found) for v in values[n])}
        if kept == found:
            return found
        found = kept


def _assigned(part: Any, is_range: bool) -> Iterator[tuple[Any, Any]]:
    """Yield targets of a statement, each with what it gets, or gets added."""
    if isinstance(part, gast.Assign):
        pairs = [(target, part.value) for target in part.targets]
    elif isinstance(part, (gast.AugAssign, gast.AnnAssign)):
        pairs = [(part.target, part.value)]
    elif isinstance(part, gast.For) and is_range and calls_range(part.iter):
        pairs = [(part.target, _ZERO)]
    else:
        return
    while pairs:
        target, value = pairs.pop()
        rows = (gast.Tuple, gast.List)
        if not (isinstance(target, rows) and isinstance(value, rows)):
            yield target, value
        elif len(target.elts) == len(value.elts):
            pairs += zip(target.elts, value.elts, strict=True)


def _is_number(node: Any, names: set[str]) -> bool:
    """Tell whether an expression is one of numbers, among them those of names."""
    if isinstance(node, gast.BinOp):
        return _is_number(node.left, names) and _is_number(node.right, names)
    if isinstance(node, gast.UnaryOp):
        return _is_number(node.operand, names)
    if isinstance(node, gast.Name):
        return node.id in names
    return isinstance(node, gast.Constant) and isinstance(node.value, (int, float))


class _Rewriter(gast.NodeTransformer):  # type: ignore[misc]
    """Replaces in-place operators on names, in the function's own scope."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit(self, node: Any) -> Any:
        return node if isinstance(node, OPAQUE) else super().visit(node)

    def visit_AugAssign(self, node: Any) -> Any:
        if not isinstance(node.target, gast.Name) or node.target.id not in self._names:
            return node
        before = build.located(build.name(node.target.id), node.target)
        after = build.located(gast.BinOp(before, node.op, node.value), node)
        return build.located(gast.Assign([node.target], after, None), node)
