"""Small makers of syntax nodes, placed at a line of the user's file."""

from __future__ import annotations

from typing import Any

import gast

from lumijit.syntax.invented import RUNTIME


def name(identifier: str, store: bool = False) -> Any:
    """Make a variable, read or assigned."""
    context = gast.Store() if store else gast.Load()
    return gast.Name(id=identifier, ctx=context, annotation=None, type_comment=None)


def constant(value: Any) -> Any:
    """Make a literal."""
    return gast.Constant(value=value, kind=None)


def helper(attribute: str) -> Any:
    """Make a reference to a runtime helper."""
    return gast.Attribute(value=name(RUNTIME), attr=attribute, ctx=gast.Load())


def call(attribute: str, *args: Any, **keywords: Any) -> Any:
    """Make a call of a runtime helper."""
    named = [gast.keyword(arg=key, value=value) for key, value in keywords.items()]
    return gast.Call(func=helper(attribute), args=list(args), keywords=named)


def assign(target: str, value: Any) -> Any:
    """Make an assignment to one variable."""
    return gast.Assign([name(target, store=True)], value, None)


def unpack(targets: list[str], value: Any) -> Any:
    """Make an assignment of a tuple's entries; an expression if there are none."""
    if not targets:
        return gast.Expr(value=value)
    target = pack([name(t, store=True) for t in targets], store=True)
    return gast.Assign([target], value, None)


def pack(elements: list[Any], store: bool = False) -> Any:
    """Make a tuple."""
    return gast.Tuple(elts=elements, ctx=gast.Store() if store else gast.Load())


def walrus(target: str, value: Any) -> Any:
    """Make an assignment expression."""
    return gast.NamedExpr(target=name(target, store=True), value=value)


def identical(left: Any, value: Any) -> Any:
    """Make the test `left is value`."""
    return gast.Compare(left=left, ops=[gast.Is()], comparators=[constant(value)])


def differs(left: Any, value: Any) -> Any:
    """Make the test `left is not value`."""
    return gast.Compare(left=left, ops=[gast.IsNot()], comparators=[constant(value)])


def either(*values: Any) -> Any:
    """Make `a or b`."""
    return gast.BoolOp(op=gast.Or(), values=list(values))


def both(*values: Any) -> Any:
    """Make `a and b`."""
    return gast.BoolOp(op=gast.And(), values=list(values))


def choice(test: Any, body: Any, orelse: Any) -> Any:
    """Make `body if test else orelse`."""
    return gast.IfExp(test=test, body=body, orelse=orelse)


def branch(test: Any, body: list[Any], orelse: list[Any]) -> Any:
    """Make an `if` statement."""
    return gast.If(test=test, body=body or [gast.Pass()], orelse=orelse)


def function(identifier: str, params: list[str], body: list[Any]) -> Any:
    """Make a function definition with positional parameters."""
    args = [
        gast.Name(id=p, ctx=gast.Param(), annotation=None, type_comment=None)
        for p in params
    ]
    arguments = gast.arguments(
        args=args,
        posonlyargs=[],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )
    return gast.FunctionDef(
        name=identifier,
        args=arguments,
        body=body,
        decorator_list=[],
        returns=None,
        type_comment=None,
        type_params=[],
    )


def located(node: Any, reference: Any) -> Any:
    """Give `node`, and all in it that has no place yet, the place of `reference`."""
    _fill(node, _spot_of(reference))
    return node


_SPOT = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def with_fields(node: Any, fields: dict[str, Any]) -> Any:
    """Make a syntax node of the kind of another one, at its place."""
    fresh = type(node)(**fields)
    for key in _SPOT:
        if hasattr(node, key):
            setattr(fresh, key, getattr(node, key))
    return fresh


def shallow_copy(node: Any) -> Any:
    """Copy a syntax node but not what is in it."""
    return with_fields(node, dict(gast.iter_fields(node)))


def _spot_of(node: Any) -> dict[str, int]:
    spot = {key: getattr(node, key, None) for key in _SPOT}
    found = {key: value for key, value in spot.items() if value is not None}
    if found.get("end_lineno", 0) > found.get("lineno", 0):
        # Tracebacks would show the last line of a compound statement.
        found["end_lineno"] = found["lineno"]
        found["end_col_offset"] = found["col_offset"] + 1
    return found


def _fill(node: Any, spot: dict[str, int]) -> None:
    if getattr(node, "lineno", None) is None:
        for key, value in spot.items():
            setattr(node, key, value)
    else:
        spot = _spot_of(node)
    for child in gast.iter_child_nodes(node):
        _fill(child, spot)
