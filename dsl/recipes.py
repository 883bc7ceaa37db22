"""Rules on flat arrays, carried out on nodes: products of quaternions, inverses, roots.

A rule makes an array object for each of its steps, and asks promotion what it gives. It
does the same for all operands of the same classes, so it is run once, on nodes that
stand for any, in a scope of its own; from then on the recipe is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import SYMBOLIC
from lumijit.compiler.transform.recipes import Recipe, recipe_of
from lumijit.runtime.config import flags

Parts = tuple[Any, ...]
Rule = Callable[..., Any]
# Recipes, the classes of their results, and whether there is but one; by rule, class
# of the parts, which are missing, and how many operands have. None: there is none.
_RECIPES: dict[Any, tuple[Recipe, list[type[Any]], bool] | None] = {}
# Of arrays of one entry more would be known than of all others.
_SIZE = 2


def carry_out(rule: Rule, *operands: Parts) -> Any:
    """Return what a rule gives for the parts of operands, in arrays of its own.

    Args:
        rule: takes parts, and returns those of its result, or one array.
        operands: flat arrays of one class; the last part of the first and of the last
            operand may be None.
    """
    leaf = type(operands[0][0])
    if not issubclass(leaf, FlatArray) or trace.running_lanes:
        return _own(rule(*operands))
    key: tuple[Any, ...]
    key = (rule, leaf, operands[0][-1] is None, operands[-1][-1] is None)
    key += tuple(map(len, operands))
    try:
        known = _RECIPES[key]
    except KeyError:
        known = _RECIPES[key] = _learn(rule, operands)
    if known is None:
        return _own(rule(*operands))
    recipe, classes, is_single = known
    nodes = recipe.follow(
        [p._node for parts in operands for p in parts if p is not None]
    )
    if is_single:
        return wrap(classes[0], nodes[0])
    return tuple(map(wrap, classes, nodes))


def _own(found: Any) -> Any:
    """Copy results, which may be arrays of the operands."""
    if isinstance(found, tuple):
        return tuple(part._copy() for part in found)
    return found._copy()


def _learn(rule: Rule, operands: tuple[Parts, ...]) -> Any:
    """Run a rule to learn what it does."""
    nodes: list[Node] = []

    def stand_in(part: Any) -> Any:
        if part is None:
            return None
        node = trace.make(SYMBOLIC, part._spec.dtype, _SIZE, (), len(nodes))
        nodes.append(node)
        return wrap(type(part), node)

    is_lenient, flags.fast_math = flags.fast_math, False
    try:
        with trace.scoped(Scope()):
            found = rule(*[tuple(map(stand_in, parts)) for parts in operands])
    finally:
        flags.fast_math = is_lenient
    is_single = not isinstance(found, tuple)
    results = (found,) if is_single else found
    if not all(isinstance(result, FlatArray) for result in results):
        return None
    recipe = recipe_of(nodes, [result._node for result in results])
    return recipe and (recipe, [type(result) for result in results], is_single)
