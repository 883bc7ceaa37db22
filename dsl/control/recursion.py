"""Branches and loops that would recurse past a bound: left out, and reported.

Owns what happens when `BoundReached` comes out of a block. Nobody is to miss the
block: an element that wants it makes the evaluation fail. A construct one of whose
blocks is left out has the results of the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit.compiler import trace
from lumijit.compiler.evaluate import data
from lumijit.compiler.ops.structural import EVALUATED
from lumijit.debug import capture
from lumijit.debug.template import THREAD_ID
from lumijit.rewriting.recursion import BoundReached
from lumijit.runtime.contexts import Variable, apart
from lumijit.runtime.errors import RecursionBoundError, message


class LeftOut:
    """Stands for what a block returns that is left out."""


LEFT_OUT = LeftOut()


def surroundings() -> tuple[int, int]:
    """Identify the vectorized control flow around the current line."""
    mask = trace.state.mask
    return id(trace.state.scope), 0 if mask is None else id(mask)


def is_idle() -> bool:
    """Tell whether no element is active, as far as that is known while tracing."""
    mask = trace.state.mask
    if trace.state.scope is not trace.ROOT or mask is None:
        return False
    return not data(mask).any()


def too_deep(reached: BoundReached, lane: int, count: int) -> RecursionBoundError:
    """Word the error for elements that get to a block which is left out."""
    others = f" and {count - 1} more" if count > 1 else ""
    return RecursionBoundError(f"{reached} (element {lane}{others})")


#: A call nested this often in calls of the same name has to do with the stack's end.
_SUSPICIOUS = 5


#: The names of the calls that are being traced, outermost first.
_calls: Variable[tuple[str, ...]] = Variable("calls", ())


def run_call(name: str, who: str, run: Callable[[], Any]) -> Any:
    """Return `run()`, apart; recursion without end through it is the user's error."""
    names = (*_calls.get(), name)
    try:
        return apart(run, (_calls, names))
    except RecursionError as error:
        if isinstance(error, RecursionBoundError) or names.count(name) < _SUSPICIOUS:
            raise
    raise _endless(name, who)


def _endless(name: str, who: str) -> RecursionBoundError:
    return RecursionBoundError(
        message(
            name,
            f"{who} calls itself without end while it is traced: whether it does "
            "depends on arrays, whose contents aren't known by then",
            "put the recursive call under an array condition in a function with "
            "@lumijit.syntax(max_depth=8), which states how many calls are nested at "
            "most; or, in evaluated mode, leave out elements with active=….",
        )
    )


def left_out(reached: BoundReached) -> Callable[..., Any]:
    """Return a block that reports the elements which get there."""

    def block(*_args: Any) -> Any:
        if trace.state.scope is trace.ROOT:
            mask = trace.state.mask
            lanes = np.flatnonzero(data(trace.make_true(1) if mask is None else mask))
            if lanes.size:
                raise too_deep(reached, int(lanes[0]), lanes.size)
            return LEFT_OUT

        capture.note(_report(reached), {}, True)
        return LEFT_OUT

    return block


class _Reports(threading.local):
    """By what is said of them: the reports that no evaluation has delivered yet."""

    def __init__(self) -> None:
        self.known: dict[str, capture.Capture] = {}


_reports = _Reports()


def _report(reached: BoundReached) -> capture.Capture:
    """Return the report of all blocks that are left out for one reason.

    A function that calls itself twice has thousands. With an array for each, kernels
    would take minutes to build.
    """

    def handle(found: capture.Values, count: int, total: int) -> None:
        raise too_deep(reached, int(found[THREAD_ID][0]), total)

    known = _reports.known
    for text, report in list(known.items()):
        if report.holder._node.op is EVALUATED:
            del known[text]
    return known.setdefault(str(reached), capture.Capture({}, 1, handle))
