"""`print` and `format`: text from arrays and PyTrees.

Owns printing at once, and the choice between that and `capture`, which prints
from symbolic code after the next evaluation.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Protocol

import numpy as np

from lumijit.arrays import FlatArray, data_node
from lumijit.base import symbolic_error
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch.evaluate import data
from lumijit.debug import capture
from lumijit.debug.formatting import pretty
from lumijit.debug.template import THREAD_ID, Template, fill, referenced, split
from lumijit.runtime.contexts import running_attempt, when_kept
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError

_MODES = ("auto", "evaluated", "symbolic")


class Writer(Protocol):
    """What print writes to: `sys.stdout`, or any object with `write`."""

    def write(self, text: str, /) -> object:
        """Take a piece of text."""


def format(value: Any, /, *args: Any, limit: int = 20, **kwargs: Any) -> str:
    """Return arrays and PyTrees as text.

    Args:
        value: a format string with fields `{}`, `{0}`, `{name}` or `{name=}` for the
            arguments; or the only value.
        *args: values of any type.
        limit: arrays with more entries are abbreviated.
        **kwargs: values of any type, by name.

    Raises:
        ArrayValueError: if the format string is malformed or lacks an argument.
        SymbolicError: for symbolic variables, which only `print` can show.

    >>> import lumijit as dr
    >>> dr.format("{x=}, {}", dr.arange(dr.llvm.Int, 30), x=dr.llvm.Float(1, 2))
    'x=[1, 2], [0, 1, 2, .. 24 skipped .., 27, 28, 29]'
    """
    construct = "lumijit.format"
    check_limit(limit, construct)
    template, given = split(value, args, construct)
    values = referenced(template, given, kwargs, construct)
    if any(a._is_symbolic() for a in capture.flat_arrays(values)):
        raise symbolic_error(construct)
    if any(p.key == THREAD_ID for p in template if not isinstance(p, str)):
        values.setdefault(THREAD_ID, _thread_ids(values))
    return as_text(template, values, limit)


def print(
    value: Any,
    /,
    *args: Any,
    active: Any = True,
    end: str = "\n",
    file: Writer | None = None,
    limit: int = 20,
    mode: str = "auto",
    **kwargs: Any,
) -> None:
    """Print arrays and PyTrees: at once, or after the next evaluation.

    In symbolic loops and branches, the kernel captures the entries of the elements
    that get there. They are printed once it has run, sorted by `{thread_id}`.

    Args:
        value: a format string with fields `{}`, `{0}`, `{name}` or `{name=}` for the
            arguments, or `{thread_id}`; or the only value.
        *args: values of any type.
        active: mask of the elements that print; without any, nothing is printed.
        end: text to append.
        file: object with a method `write`; by default, `sys.stdout`.
        limit: at once, longer arrays are abbreviated; from symbolic code, so many
            entries are captured, and a warning says how many there were.
        mode: "evaluated" (at once), "symbolic" (after the next evaluation), or
            "auto" to choose by whether there are symbolic variables.
        **kwargs: values of any type, by name.

    Raises:
        ArrayValueError: if the format string is malformed or lacks an argument.
        ArrayTypeError: if `active` is no mask.
        SymbolicError: for symbolic variables in mode "evaluated".

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> dr.print("{x=}", x=Float(1, 2))
    x=[1, 2]
    >>> x = Float(4, -9, 16)
    >>> y = dr.if_stmt(
    ...     (x,), x > 0, lambda x: dr.print("{thread_id}: {}", x) or x, lambda x: -x
    ... )
    >>> dr.eval(y)
    [0, 2]: [4, 16]
    True
    """
    construct = "lumijit.print"
    check_limit(limit, construct)
    check_active(active, construct)
    if mode not in _MODES:
        raise ArrayValueError(
            construct,
            f"there is no mode {mode!r}",
            'pass "auto", "evaluated" or "symbolic".',
        )
    template, given = split(value, args, construct)
    values = referenced(template, given, kwargs, construct)
    is_symbolic = capture.is_symbolic(values, active)
    if mode == "evaluated" and is_symbolic:
        raise symbolic_error(construct)
    if mode == "symbolic" or is_symbolic:

        def handle(found: capture.Values, count: int, total: int) -> None:
            write(as_text(template, found, limit) + end, file)
            capture.warn_incomplete(count, total)

        capture.capture(values, active, limit, handle)
        return
    shown = only_active(values, active)
    if shown is not None:
        text = as_text(template, shown, limit) + end
        when_kept(running_attempt(), partial(write, text, file))


def write(text: str, file: Writer | None) -> None:
    """Write to a file-like object, by default what is `sys.stdout` at the time."""
    (sys.stdout if file is None else file).write(text)


def as_text(template: Template, values: capture.Values, limit: int) -> str:
    """Put the values of a template's fields in place."""
    return fill(template, lambda key: pretty(values[key], limit))


def only_active(values: capture.Values, active: Any) -> capture.Values | None:
    """Return values reduced to the active elements; None if there are none."""
    mask = trace.under_mask(capture.mask_node(active))
    found = dict(values)
    if mask.op is LITERAL:
        if not mask.attr or not mask.size:
            return None
        found.setdefault(THREAD_ID, _thread_ids(values))
        return found
    picks = np.flatnonzero(data(mask))
    if not len(picks):
        return None

    def reduce(array: FlatArray) -> FlatArray:
        entries = data(array._node)
        if mask.size > 1 and len(entries) == 1:
            entries = np.repeat(entries, len(picks))
        elif len(entries) == mask.size:
            entries = entries[picks]
        reduced: FlatArray = wrap_flat(type(array), data_node(entries))
        return reduced

    found = dict(capture.map_arrays(reduce, found))
    ids = _thread_ids(values) if mask.size == 1 else capture.unsigned(picks)
    found.setdefault(THREAD_ID, ids)
    return found


def _thread_ids(values: capture.Values) -> Any:
    sizes = [a._node.size for a in capture.flat_arrays(values)]
    return capture.unsigned(np.arange(max(sizes, default=1)))


def check_limit(limit: Any, construct: str) -> None:
    """Raise unless `limit` is a positive integer."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ArrayValueError(
            construct, f"the limit is {limit!r}", "pass an integer above 0."
        )


def check_active(active: Any, construct: str) -> None:
    """Raise unless `active` is a bool or a flat mask."""
    is_mask = isinstance(active, FlatArray) and active._node.type is BOOL
    if not is_mask and not isinstance(active, (bool, np.bool_)):
        raise ArrayTypeError(
            construct,
            f"the mask is of type {type(active).__name__!r} "
            "(expected bool, or a flat array of bools)",
            "pass a comparison of flat arrays.",
        )
