"""Conditional expressions at run time, and operands that not all elements get to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit.standing import settle
from lumijit.syntax.attempts import Inputs, attempts
from lumijit.syntax.bindings import targets
from lumijit.syntax.conditions import Conditions
from lumijit.syntax.object_state import ObjectState
from lumijit.syntax.site import Site
from lumijit.syntax.slots import Slot


class Choices(Conditions):
    """The helpers that choose between expressions by arrays."""

    def __init__(self, sites: list[Site]) -> None:
        """Serve the constructs `sites`."""
        self.sites = sites

    def join(
        self,
        is_and: bool,
        left: Any,
        values: tuple[Any, ...],
        right: Callable[..., Any],
        site: int,
    ) -> Any:
        """Finish an `and` or `or` whose left operand is an array.

        The right one runs for all elements, unless that may change objects.
        """
        if not targets.may_act(right, values):
            value = right(*values)
        elif is_and:
            value = self.choose(left, values, right, _false, site)
        else:
            value = self.choose(left, values, _true, right, site)
        return (targets.logical_and if is_and else targets.logical_or)(left, value)

    def choose(
        self,
        test: Any,
        values: tuple[Any, ...],
        yes: Callable[..., Any],
        no: Callable[..., Any],
        site: int,
    ) -> Any:
        """Evaluate a conditional expression whose condition is an array.

        If it binds variables, return a tuple: their values come after its own.
        """
        where = self.sites[site]
        count = len(where.outs)
        labels = where.ins if values else ()

        def attempt(slots: tuple[Slot, ...], watch: Any) -> Any:
            state = ObjectState(slots, watch)
            state.hand(dict(zip(labels, values, strict=True)), {}, where)
            names = state.labels_of_slots((*labels, *where.outs))
            trees = () if state.handed is None else state.handed.originals
            changing = [k for k, name in enumerate(labels) if name in trees]

            def side(function: Callable[..., Any]) -> Callable[..., Any]:
                def run(*args: Any) -> tuple[Any, ...]:
                    state.write(args[len(values) :])
                    inputs = args[: len(values)]
                    value = state.run(function, inputs, "a side", labels)
                    results = value if count > 1 else (value,)
                    return (*results, *[inputs[k] for k in changing], *state.read())

                return run

            state.restore_on_error()
            merged = targets.if_stmt(
                (*values, *state.before),
                test,
                side(yes),
                side(no),
                arg_labels=(*labels, *names),
                rv_labels=(*where.outs, *[labels[k] for k in changing], *names),
            )
            changed = merged[count:]
            for k, value in zip(changing, changed, strict=False):
                state.bring_back(labels[k], value)
            state.finish(changed[len(changing) :])
            settle(merged[:count])
            return merged[:count] if count > 1 else merged[0]

        return attempts(Inputs(where, values, labels), (yes, no), attempt)


def _false(*values: Any) -> bool:
    return False


def _true(*values: Any) -> bool:
    return True


vars(_false)["calls"] = vars(_true)["calls"] = ()
