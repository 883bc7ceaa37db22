"""Recursion through branches and calls: sides that nobody enters, calls without end.

Owns what happens when `NobodyLeft` comes out of a side of an evaluated branch: the
branch has the results of the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.compiler.launch.evaluate import data
from lumijit.runtime.contexts import Variable, apart
from lumijit.runtime.errors import RecursionBoundError
from lumijit.syntax.nesting import NobodyLeft


class LeftOut:
    """Stands for what a side returns that is left out."""


LEFT_OUT = LeftOut()


def is_idle() -> bool:
    """Tell whether no element is active, as far as that is known while tracing."""
    mask = trace.state.mask
    if trace.state.scope is not ROOT or mask is None:
        return False
    return not data(mask).any()


#: A call nested this often in calls of the same name has to do with the stack's end.
_SUSPICIOUS = 5


#: The names of the calls that are being traced, outermost first.
_calls: Variable[tuple[str, ...]] = Variable("calls", ())


def run_call(name: str, who: str, run: Callable[[], Any]) -> Any:
    """Return `run()`, apart; recursion without end through it is the user's error."""
    names = (*_calls.get(), name)
    try:
        return apart(run, (), _calls, names)
    except RecursionError as error:
        if isinstance(error, RecursionBoundError) or names.count(name) < _SUSPICIOUS:
            raise
    raise RecursionBoundError(
        name,
        f"{who} calls itself without end while it is traced: whether it does "
        "depends on arrays, whose contents aren't known by then",
        "use evaluated mode, and leave out elements with active=… or by putting "
        "the recursive call under an array condition; or write a loop.",
    )


def left_out(reached: NobodyLeft) -> Callable[..., Any]:
    """Return what stands for a side of a branch that nobody enters."""

    def block(*_args: Any) -> Any:
        if not is_idle():
            raise reached
        return LEFT_OUT

    return block
