"""`while_loop`: loops over arrays, in scalar, symbolic and evaluated mode.

Owns the function, its choice of a mode and the scalar mode; the others are in
`symbolic` and `evaluated`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from lumijit.compiler.derive.isolation import isolated
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.trace import running_lanes
from lumijit.compiler.record.shared_contents import with_copies
from lumijit.control.foresight import memory_of
from lumijit.control.loop_evaluated import EvaluatedLoop
from lumijit.control.loop_symbolic import SymbolicLoop
from lumijit.control.modes import mode_by_flag, refuse_in_region
from lumijit.control.refilled import Refilled
from lumijit.control.state import (
    State,
    by_lane,
    call,
    check_depth,
    check_labels,
    check_mode,
    is_array,
    truth,
)
from lumijit.control.watching import watched
from lumijit.control.write_rules import wide_enough
from lumijit.initialize import check_callable
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.contexts import apart
from lumijit.runtime.errors import ArrayValueError, StateError
from lumijit.runtime.tracebacks import hides_frames
from lumijit.syntax.site import Memory
from lumijit.tensors.lanes import along


@hides_frames
def while_loop(
    state: State,
    cond: Callable[..., Any],
    body: Callable[..., State],
    labels: Sequence[str] = (),
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
    compress: bool | None = None,
    max_iterations: int | None = None,
) -> State:
    """Repeat `state = body(*state)` while `cond(*state)` holds, per element.

    The same in plain Python, for one element:

        while cond(*state):
            state = body(*state)

    Args:
        state: the state variables: arrays and PyTrees of arrays.
        cond: returns a bool, a Bool array or the mask of a tensor, whose entries are
            lanes; must not change anything.
        body: returns the new state, a tuple of the same structure and types.
        labels: names of the state variables, for messages.
        label: name of the loop, for messages and the generated code.
        mode: "scalar", "symbolic", "evaluated", or None to choose by the type of
            the condition and flag SymbolicLoops.
        strict: raise an error if a Python object in the state changes.
        compress: drop finished elements after every iteration of an evaluated
            loop; None asks flag CompressLoops.
        max_iterations: an upper bound on the iterations; -1 and None mean that there
            is none. Derivatives in reverse mode need no bound, but where it is small,
            they keep each state and compute none a second time. Then, more iterations
            are an error when the derivative is evaluated.

    Returns:
        The final state.

    Raises:
        StateError: a state variable changes its type, size or structure.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt32
    >>> i, n = UInt32(0, 1, 2), UInt32(10)
    >>> dr.while_loop((i,), lambda i: i < n, lambda i: (i + 4,))[0]
    [12, 13, 10]
    """
    check_callable("while_loop", "'cond'", cond)
    check_callable("while_loop", "'body'", body)
    options = labels, label, mode, strict, compress, True, max_iterations
    refilled = Refilled(state if isinstance(state, tuple) else (), is_loop=True)
    if not refilled.is_needed:
        return run_loop(state, cond, body, *options)
    noting, memory = refilled.noting(body), memory_of(body)
    final: State = refilled.result(run_loop(state, cond, noting, *options, memory))
    return final


def run_loop(
    state: State,
    cond: Callable[..., Any],
    body: Callable[..., State],
    labels: Sequence[str] = (),
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
    compress: bool | None = None,
    is_watched: bool = False,
    max_iterations: int | None = None,
    memory: Memory | None = None,
    first: Any = None,
) -> State:
    """Do what `while_loop` does; `@syntax` watches its functions itself.

    `memory` is that of the loop's site, if it has one; `first` what the condition is
    for the initial state, if that is known.
    """
    check_mode(mode, "while_loop")
    count = len(state) if isinstance(state, tuple) else len(labels)
    check_labels("while_loop", labels, "state variables", count)
    if not isinstance(state, tuple):
        raise StateError(
            "while_loop",
            f"'state' must be a tuple (got {type(state).__name__})",
            "write state=(a, b), or state=(a,) for a single variable.",
        )
    bound = _bound_of(max_iterations)
    name = label or "while_loop"
    memory = memory or memory_of(body)
    if running_lanes and trace.state.lane is not None:
        mode = "scalar"
    if mode is None and first is None:
        first = cond(*state)
    known = None if first is None else by_lane(first)
    if known is not first:
        options = labels, label, mode, strict, compress, is_watched, max_iterations
        again = partial(run_loop, state, cond, body, *options, memory, known)
        return cast("State", along(first, again))
    if mode is None:
        check_depth(known, name)
        if not is_array(known):
            return _scalar(state, cond, body, name, known)
        if _never_holds(known._node):
            return state
        mode = mode_by_flag(name, not unusual or flags.symbolic_loops)
    if mode == "scalar":
        return _scalar(state, cond, body, name, by_lane(cond(*state)))
    if is_watched:
        cond = watched(cond, name, "the condition", labels)
        body = watched(body, name, "the body", labels)
    if mode == "symbolic":
        node = getattr(known, "_node", None)
        width = node.size if node is not None else 1
        given = state, cond, body, labels, name, strict, width, bound, memory
        return with_copies(partial(_symbolic, given))
    refuse_in_region(name)
    is_compressed = flags.compress_loops if compress is None else compress
    make = partial(EvaluatedLoop, cond, body, labels, name, strict)
    return wide_enough(partial(_evaluated, make, state, is_compressed))


def _never_holds(condition: Node) -> bool:
    return condition.op is LITERAL and not condition.attr


def _bound_of(count: Any) -> int | None:
    """Return a bound on the iterations; None if there is none."""
    try:
        bound = -1 if count is None else operator.index(count)
    except TypeError:
        bound = -2
    if bound < -1 or isinstance(count, bool):
        raise ArrayValueError(
            "while_loop",
            f"max_iterations is {count!r}",
            "pass the largest number of iterations, an int; or None if it isn't known.",
        )
    return None if bound == -1 else bound


def _symbolic(given: tuple[Any, ...]) -> State:
    return SymbolicLoop(*given).run()


def _evaluated(
    make: Callable[[int], EvaluatedLoop], state: State, is_compressed: bool, size: int
) -> State:
    return apart(_isolated, (make(size), state, is_compressed))


def _isolated(loop: EvaluatedLoop, state: State, is_compressed: bool) -> State:
    with isolated(is_apart=True):
        return loop.run(state, is_compressed)


def _scalar(
    state: State,
    cond: Callable[..., Any],
    body: Callable[..., State],
    name: str,
    first: Any,
) -> State:
    holds = truth(first, name)
    while holds:
        state = call(body, state, name)
        holds = truth(by_lane(cond(*state)), name)
    return state
