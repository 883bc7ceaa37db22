"""Writing the tests whether a condition is plain, and true or false.

What runs most often comes first: a bool costs one comparison.
"""

from __future__ import annotations

from typing import Any

import gast

from lumijit.syntax import build

_PLAIN_COMPARISONS = (gast.Is, gast.IsNot, gast.In, gast.NotIn)
_PLAIN_CALLS = frozenset(
    ("isinstance", "issubclass", "hasattr", "callable", "bool", "len", "id")
)


def is_plain_test(node: Any) -> bool:
    """Tell whether an expression surely yields no array."""
    if isinstance(node, gast.Constant):
        return True
    if isinstance(node, gast.Compare):
        return all(isinstance(op, _PLAIN_COMPARISONS) for op in node.ops)
    if isinstance(node, gast.UnaryOp) and isinstance(node.op, gast.Not):
        return is_plain_test(node.operand)
    if isinstance(node, gast.BoolOp):
        return all(is_plain_test(value) for value in node.values)
    if isinstance(node, gast.Call) and isinstance(node.func, gast.Name):
        return node.func.id in _PLAIN_CALLS
    return False


def note_truth_counts(test: Any) -> None:
    """Note on each `and` and `or` of a test that only the truth of operands counts."""
    if isinstance(test, gast.BoolOp):
        test.is_test = True
        for value in test.values:
            note_truth_counts(value)


def truth_counts(node: Any) -> bool:
    """Tell whether only the truth of the operands of `and` or `or` counts."""
    return getattr(node, "is_test", False)


def truth_test(temp: str, value: Any, mode: Any = None) -> Any:
    """Make the test that is entered if `value` is plain and true.

    The value is kept in `temp`. A bool costs one comparison, a number a look-up of
    its type, and only what is neither a call.
    """
    if mode is not None:
        forced = build.call("forced", value, mode)
        return build.identical(build.walrus(temp, forced), True)
    return build.either(
        build.identical(build.walrus(temp, value), True),
        build.both(
            build.differs(build.name(temp), False), is_known(temp), build.name(temp)
        ),
    )


def true_test(temp: str) -> Any:
    """Make the test whether the value in `temp`, which is not False, is plain and true.

    Its truth value is asked once.
    """
    is_plain_and_true = build.both(is_known(temp), build.name(temp))
    return build.either(build.identical(build.name(temp), True), is_plain_and_true)


def false_test(temp: str, mode: Any = None) -> Any:
    """Make the test, after `truth_test` failed, that the value was plain and false."""
    is_false = build.identical(build.name(temp), False)
    return is_false if mode is not None else build.either(is_false, is_known(temp))


def is_known(temp: str) -> Any:
    """Make the test whether something that is no bool is no array either."""
    kind = gast.Attribute(build.name(temp), "__class__", gast.Load())
    known = gast.Compare(kind, [gast.In()], [build.helper("plain_types")])
    return build.either(known, build.call("is_plain", build.name(temp)))
