"""Branches and loops that would recurse past a bound: left out, and reported.

Owns what happens when `BoundReached` comes out of a block. Nobody is to miss the
block: an element that wants it makes the evaluation fail. A construct one of whose
blocks is left out has the results of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit.compiler import trace
from lumijit.compiler.evaluate import data
from lumijit.debug import capture
from lumijit.debug.template import THREAD_ID
from lumijit.rewriting.recursion import BoundReached
from lumijit.runtime.errors import RecursionBoundError


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


def left_out(reached: BoundReached) -> Callable[..., Any]:
    """Return a block that reports the elements which get there."""
    text = str(reached)

    def fail(lane: int, count: int) -> None:
        others = f" and {count - 1} more" if count > 1 else ""
        raise RecursionBoundError(f"{text} (element {lane}{others})")

    def block(*_args: Any) -> Any:
        if trace.state.scope is trace.ROOT:
            mask = trace.state.mask
            lanes = np.flatnonzero(data(trace.make_true(1) if mask is None else mask))
            if lanes.size:
                fail(int(lanes[0]), lanes.size)
            return LEFT_OUT

        def handle(found: capture.Values, count: int, total: int) -> None:
            fail(int(found[THREAD_ID][0]), total)

        capture.capture({}, True, 1, handle)
        return LEFT_OUT

    return block
