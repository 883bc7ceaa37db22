"""How constructs run for which the program names no mode, and which mode can't be."""

from __future__ import annotations

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.runtime.errors import SymbolicError, warn


def refuse_in_region(construct: str) -> None:
    """Refuse evaluated control flow inside symbolic control flow."""
    scope = trace.state.scope
    if scope is not ROOT:
        outer = scope.label or "a symbolic region"
        raise SymbolicError(
            construct,
            f"evaluated mode can't be nested in {outer}, which is symbolic: "
            "the contents that decide what runs aren't known yet",
            "use symbolic mode here too, or evaluated mode around it.",
        )


def mode_by_flag(construct: str, is_symbolic: bool) -> str:
    """Return the mode of a construct for which the program names none.

    That is what its flag says (`is_symbolic`), but in a symbolic region, where nothing
    can be evaluated.
    """
    scope = trace.state.scope
    if not is_symbolic and scope is not ROOT:
        outer = scope.label or "a symbolic region"
        warn(
            f"{construct}: runs symbolically, as {outer} around it does, though its "
            "flag is off"
        )
    return "evaluated" if not is_symbolic and scope is ROOT else "symbolic"
