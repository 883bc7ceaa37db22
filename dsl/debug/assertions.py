"""`assert_true`, `assert_false`, `assert_equal`: checks that run under flag Debug.

A check of symbolic variables is made by the kernel; its failure is written to
stderr after the next evaluation, as there is nobody left to catch an exception.
"""

from __future__ import annotations

import sys
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.debug import capture
from lumijit.debug.output import as_text, check_active, check_limit, only_active
from lumijit.debug.template import Template, parse, referenced
from lumijit.nested import NestedArray, flat_parts
from lumijit.runtime.config import flags
from lumijit.runtime.errors import is_internal, user_frame


def assert_true(
    cond: Any,
    fmt: str | None = None,
    *args: Any,
    limit: int = 20,
    tb_depth: int = 3,
    tb_skip: int = 0,
    **kwargs: Any,
) -> None:
    """Raise an AssertionError if an entry isn't True; does nothing without Debug.

    Args:
        cond: a bool or a flat array of bools.
        fmt: format string for the message, as in `lumijit.print`. Arrays are
            reduced to the entries that fail.
        *args: values that `fmt` refers to.
        limit: longer arrays are abbreviated.
        tb_depth: how many lines of your program a delayed message names.
        tb_skip: how many of the innermost ones to leave out.
        **kwargs: values that `fmt` refers to, by name.

    Raises:
        AssertionError: if an entry fails. Failures of symbolic variables are
            written to `sys.stderr` after the next evaluation instead.
        ArrayTypeError: if `cond` is no mask.

    >>> import lumijit as dr
    >>> x = dr.llvm.Float(1, -4, -2, 3)
    >>> dr.assert_true(x >= 0)
    >>> with dr.scoped_set_flag(dr.JitFlag.Debug):
    ...     dr.assert_true(x >= 0, "Found negative values: {}", x)
    Traceback (most recent call last):
    AssertionError: Assertion failure: Found negative values: [-4, -2]
    """
    if flags.debug:
        _check("lumijit.assert_true", cond, fmt, args, kwargs, limit, tb_depth, tb_skip)


def assert_false(
    cond: Any,
    fmt: str | None = None,
    *args: Any,
    limit: int = 20,
    tb_depth: int = 3,
    tb_skip: int = 0,
    **kwargs: Any,
) -> None:
    """Raise an AssertionError if an entry is True; does nothing without Debug.

    The arguments are those of `assert_true`.

    >>> import lumijit as dr
    >>> with dr.scoped_set_flag(dr.JitFlag.Debug):
    ...     dr.assert_false(dr.llvm.Bool(False, True))
    Traceback (most recent call last):
    AssertionError: Assertion failure!
    """
    if flags.debug:
        construct = "lumijit.assert_false"
        check_active(cond, construct)
        opposite = _opposite(cond)
        _check(construct, opposite, fmt, args, kwargs, limit, tb_depth, tb_skip)


def assert_equal(
    arg0: Any,
    arg1: Any,
    fmt: str | None = None,
    *args: Any,
    limit: int = 20,
    tb_depth: int = 3,
    tb_skip: int = 0,
    **kwargs: Any,
) -> None:
    """Raise an AssertionError where two values differ; does nothing without Debug.

    Nested arrays have to agree in all components. The other arguments are those of
    `assert_true`.

    >>> import lumijit as dr
    >>> with dr.scoped_set_flag(dr.JitFlag.Debug):
    ...     dr.assert_equal(dr.llvm.Float(1, 2), 1, "differs")
    Traceback (most recent call last):
    AssertionError: Assertion failure: differs
    """
    if flags.debug:
        construct = "lumijit.assert_equal"
        cond = _flat_mask(arg0 == arg1)
        _check(construct, cond, fmt, args, kwargs, limit, tb_depth, tb_skip)


def is_checked(cond: Any) -> bool:
    """Tell whether an `assert` of a decorated function looks at an array.

    Without flag Debug, arrays of one entry are conditions as Python has them, where
    the entry is known and all elements get there.
    """
    is_everywhere = trace.state.scope is ROOT and trace.state.mask is None
    return flags.debug or (
        is_everywhere and isinstance(cond, FlatArray) and cond._node.size == 1
    )


def check_statement(cond: Any, message: tuple[Any, ...]) -> None:
    """Check the array in an `assert` of a decorated function, as `assert_true` does.

    Args:
        cond: a flat array of bools.
        message: the pieces of the message: values, each with its conversion and its
            format in an f-string. Arrays are shown as `assert_true` shows them.
    """
    text, args = "", []
    for value, conversion, form in message:
        if capture.flat_arrays(value):
            text += "{}"
            args.append(value)
            continue
        if conversion in _CONVERSIONS:
            value = _CONVERSIONS[conversion](value)
        text += format(value, form).replace("{", "{{").replace("}", "}}")
    _check("assert", cond, text if message else None, tuple(args), {}, 20, 3, 0)


#: The conversions of f-strings, by the number that their syntax trees have.
_CONVERSIONS: dict[int, Any] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


def _opposite(cond: Any) -> Any:
    return ~cond if isinstance(cond, FlatArray) else not cond  # type: ignore[operator]


def _flat_mask(equal: Any) -> Any:
    """Combine the components of a nested mask."""
    if not isinstance(equal, NestedArray):
        is_host = hasattr(equal, "numpy") and not isinstance(equal, FlatArray)
        return bool(equal._view().all()) if is_host else equal
    result: Any = True
    for part in flat_parts(equal):
        result = part & result
    return result


def _check(
    construct: str,
    cond: Any,
    fmt: str | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    limit: int,
    tb_depth: int,
    tb_skip: int,
) -> None:
    check_limit(limit, construct)
    check_active(cond, construct)
    template = parse(fmt, construct) if fmt is not None else []
    values = referenced(template, args, kwargs, construct)
    failing = _opposite(cond)
    if capture.is_symbolic(values, failing):
        _check_later(template, values, failing, limit, _backtrace(tb_depth, tb_skip))
        return
    shown = only_active(values, failing)
    if shown is not None:
        raise AssertionError(_message(template, shown, limit))


def _check_later(
    template: Template, values: capture.Values, failing: Any, limit: int, lines: str
) -> None:
    def handle(found: capture.Values, count: int, total: int) -> None:
        text = _message(template, found, limit)
        rest = f" ({total - count} further failures)" if total > count else ""
        sys.stderr.write(f"{text}{rest}\n{lines}")

    capture.capture(values, failing, limit, handle)


def _message(template: Template, values: capture.Values, limit: int) -> str:
    text = as_text(template, values, limit)
    return f"Assertion failure: {text}" if template else "Assertion failure!"


def _backtrace(depth: int, skip: int) -> str:
    """Return the innermost lines of the user's program, as tracebacks show them."""
    import traceback

    stack = traceback.extract_stack(user_frame())
    frames = [f for f in stack if not is_internal(f.filename)]
    chosen = frames[: len(frames) - skip][-depth:] if depth > 0 else []
    return "".join(traceback.format_list(chosen))
