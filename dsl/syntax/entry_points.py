"""What rewritten functions call while they run.

Owns the decisions taken at run time: whether a condition is an array, which state
goes through the primitives, and what becomes of variables without a value. The
primitives themselves are reached through `hooks.targets`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NoReturn

from lumijit.runtime import errors
from lumijit.runtime.tracebacks import hides_frames
from lumijit.syntax.attempts import attempts
from lumijit.syntax.bindings import targets
from lumijit.syntax.choices import Choices
from lumijit.syntax.conditions import Forced
from lumijit.syntax.handed import Parted
from lumijit.syntax.ranges import ArrayRange, item, make_range
from lumijit.syntax.site import (
    Raising,
    Site,
    SiteState,
    attributes_of,
    inputs_of,
    labels_of,
)
from lumijit.syntax.slots import Slot
from lumijit.syntax.undefined import Undefined, fail, note_unset

#: So often may the first turn of a loop be another one than those that follow.
_MOST_PARTED = 3


class Runtime(Choices):
    """The helpers of one rewritten function, which calls it `RUNTIME`."""

    ArrayRange = ArrayRange
    range = staticmethod(make_range)
    range_item = staticmethod(item)
    locals = staticmethod(builtins.locals)
    iter = staticmethod(builtins.iter)
    aiter = staticmethod(builtins.aiter)

    # Variables without a value.

    @staticmethod
    def get(scope: Mapping[str, Any], name: str) -> Any:
        """Return the value of a local variable, or an `Undefined` object."""
        return scope[name] if name in scope else Undefined(name)

    @staticmethod
    def no_result() -> Undefined:
        """Return the result of a function that has not returned."""
        return Undefined("return value")

    @staticmethod
    def result_before_finally(value: Any) -> Any:
        """Return a result of some elements, whose contents may change afterwards."""
        if targets.is_tree(value):
            raise errors.StateError(
                "return",
                "some elements return an object that 'finally' may change, but what "
                "they return is a copy from now on",
                "return the object after the 'try' block, or change it before.",
            )
        return value

    @staticmethod
    def read(value: Any) -> Any:
        """Return the value of a variable, or raise if it has none."""
        if type(value) is Undefined:
            fail(value)
        return value

    # Assertions.

    @staticmethod
    def checks(cond: Any) -> bool:
        """Tell whether an assertion about an array is checked."""
        return targets.checks(cond)

    @staticmethod
    def check(cond: Any, *message: Any) -> bool:
        """Check an array that an `assert` is about; return True."""
        targets.check(cond, message)
        return True

    # Refusals.

    def refuse(self, site: int, reason: str) -> NoReturn:
        """Raise the error for a statement that can't be vectorized."""
        raise self.sites[site].error(
            f"{reason} can't be part of vectorized control flow, but the condition "
            f"around it is an array here ({errors.where()})",
            "make the condition a Python bool, or move the statement out of the "
            "conditional block.",
        )

    @staticmethod
    def _refuse_raise(where: Site, raising: Raising) -> NoReturn:
        """Raise the error for an exception that some elements would raise."""
        problem = (
            f"{raising.statement} can't happen for some elements only. Which ones get "
            f"there depends on the condition {raising.condition}, an array"
        )
        if not raising.condition:
            problem = (
                f"{raising.statement} can't happen for some elements only, and which "
                "ones have left before, by 'return', 'break' or 'continue', depends on "
                "arrays"
            )
        raise where.error(
            f"{problem} here ({errors.where()})",
            "check it by 'assert' or lumijit.assert_true, under flag Debug; give these "
            "elements a value instead, as lumijit.select does; or make the condition "
            "a Python bool, as in bool(lumijit.any(...)).",
            raising.place,
        )

    def require_plain(self, value: Any, site: int) -> Any:
        """Return what `match` inspects, which must not be an array."""
        if targets.is_array(value):
            raise self.sites[site].error(
                "'match' on an array can't be part of vectorized control flow "
                f"({errors.where()})",
                "write 'if' and 'elif' with comparisons instead.",
            )
        return value

    # Branches and loops.

    @hides_frames
    def if_stmt(
        self,
        test: Any,
        values: tuple[Any, ...],
        true_fn: Callable[..., tuple[Any, ...]],
        false_fn: Callable[..., tuple[Any, ...]],
        site: int,
        **hints: Any,
    ) -> tuple[Any, ...]:
        """Run a branch; its functions take `values` and return the results."""
        mode = hints.get("mode")
        if isinstance(test, Forced):
            test = test.value
        elif mode in (None, "scalar") and not targets.is_array(test):
            return true_fn(*values) if test else false_fn(*values)
        where = self.sites[site]
        if where.raising is not None and targets.is_array(test):
            self._refuse_raise(where, where.raising)
        known = targets.known(test)
        if known is not None:
            # Plain Python: nothing is undone, so nothing may run twice.
            return true_fn(*values) if known else false_fn(*values)
        count = len(where.outs)
        where, sides = where.with_used(values, (true_fn, false_fn))
        merged: tuple[Any, ...] = attempts(
            inputs_of(where, values),
            sides,
            partial(self._branch, where, values, test, sides, hints),
        )
        return merged[:count]

    @staticmethod
    def _branch(
        where: Site,
        values: tuple[Any, ...],
        test: Any,
        sides: tuple[Callable[..., tuple[Any, ...]], ...],
        hints: dict[str, Any],
        slots: tuple[Slot, ...],
        watch: Any,
    ) -> tuple[Any, ...]:
        state = SiteState(where, values, slots, watch, sides)
        results = state.results()
        names = (*[where.outs[k] for k in results], *state.attribute_labels)
        unset: dict[int, Undefined] = {}

        def branch(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
            def run(*entries: Any) -> tuple[Any, ...]:
                found = state.call(function, entries, "a branch")
                left = (*[found[k] for k in results], *state.read())
                note_unset(unset, left)
                return (*left, *state.still())

            return run

        state.restore_on_error()
        merged = targets.if_stmt(
            state.entries,
            test,
            branch(sides[0]),
            branch(sides[1]),
            labels_of(state.labels),
            labels_of((*names, *state.still_labels())),
            **hints,
        )
        final = list(state.take_still(merged, len(names)))
        reason = "a vectorized branch leaves it without one"
        for k, value in unset.items():
            if type(final[k]) is Undefined:
                final[k] = value
            elif names[k] not in where.lenient:
                final[k] = Undefined(names[k], str(where), reason)
        count = len(results)
        state.finish(final[count:])
        return state.final(results, final[:count])

    @hides_frames
    def while_loop(
        self,
        values: tuple[Any, ...],
        cond: Callable[..., Any],
        body: Callable[..., tuple[Any, ...]],
        site: int,
        entered: bool = False,
        first: Any = None,
        **hints: Any,
    ) -> tuple[Any, ...]:
        """Run a loop; `entered` says that its condition is known to be an array."""
        where = self.sites[site]
        places = where.places
        mode = hints.get("mode")
        state = list(values)
        while not entered and mode in (None, "scalar"):
            test = cond(*state)
            if targets.is_array(test):
                first = test
                break
            if not test:
                return tuple([state[i] for i in places])
            for i, value in zip(places, body(*state), strict=True):
                state[i] = value
        if where.raising is not None:
            self._refuse_raise(where, where.raising)
        inputs = tuple(state)
        if cond is not _last and targets.may_act(cond, inputs):
            # It is evaluated once before each turn: its value is state.
            first = cond(*inputs) if first is None else first
            carrying = _carrying(body, cond, places)
            given = (*inputs, first), _last, carrying, where.carried(self.sites)
            ended: tuple[Any, ...] = self.while_loop(*given, True, first, **hints)
            return ended[:-1]
        late = [
            k
            for k, i in enumerate(places)
            if type(inputs[i]) is Undefined and where.outs[k] not in where.lenient
        ]
        attributes = attributes_of(where, inputs) if where.paths else ()
        slots = [slot for slot in attributes if type(slot.read()) is Undefined]
        is_entered = True
        final: tuple[Any, ...] | None = None
        if late or slots:
            first = cond(*inputs) if first is None else first
            is_entered = targets.holds(first)
            if targets.known(first) is False:
                final = tuple([state[i] for i in places])
        if final is None:
            functions = cond, body
            rest = first, None, _MOST_PARTED
            final = self._turns(site, inputs, functions, hints, *rest)
        if is_entered:
            return final
        reason = "elements that don't enter the vectorized loop leave it without one"
        left = list(final)
        for k in late:
            left[k] = Undefined(where.outs[k], str(where), reason)
        for slot in slots:
            if type(slot.read()) is not Undefined:
                slot.write(Undefined(slot.label, str(where), reason))
        return tuple(left)

    def _turns(
        self,
        site: int,
        values: tuple[Any, ...],
        functions: tuple[Callable[..., Any], Callable[..., tuple[Any, ...]]],
        hints: dict[str, Any],
        first: Any,
        outside: Collection[int] | None,
        left: int,
    ) -> tuple[Any, ...]:
        """Run a vectorized loop.

        If names have other objects after the first turn, which are changed, that turn
        is a branch around those that follow; `left` is how often. `outside` has the
        ids of objects that others may see; `first` is what the condition is for
        `values`, if that is known.
        """
        where = self.sites[site]
        cond, body = functions
        used, (inner_body,) = where.with_used(values, (body,))
        functions = cond, inner_body
        given = used, values, functions, {**hints, "first": first}, outside
        run = partial(self._vector_loop, *given)
        try:
            result: tuple[Any, ...] = attempts(inputs_of(used, values), functions, run)
            return result[: len(where.outs)]
        except Parted:
            if not left:
                raise self._parted(where) from None
        places = where.places
        originals = targets.identity.objects_in(values)

        def turn(*entries: Any) -> tuple[Any, ...]:
            inner = {
                id(copy)
                for path, (copy, _) in targets.identity.objects_in(entries).items()
                if outside is None or id(originals[path][0]) in outside
            }
            state = list(entries)
            for i, value in zip(places, body(*entries), strict=True):
                state[i] = value
            rest = (cond, body), hints, None, inner, left - 1
            return self._turns(site, tuple(state), *rest)

        def none(*entries: Any) -> tuple[Any, ...]:
            return tuple([entries[i] for i in places])

        vars(turn)["calls"], vars(none)["calls"] = (body, cond), ()
        mode = hints.get("mode") or targets.loop_mode()
        return self.if_stmt(cond(*values), values, turn, none, site, mode=mode)

    @staticmethod
    def _parted(where: Site) -> errors.SyntaxTransformError:
        return where.error(
            "the variables of this loop exchange objects in each turn, and the body "
            "changes these in place, so which object is changed differs from turn to "
            "turn",
            "assign the contents of the objects (a.x = b.x) in place of the objects "
            "(a = b), or make new objects in place of changing them.",
        )

    @staticmethod
    def _vector_loop(
        where: Site,
        values: tuple[Any, ...],
        functions: tuple[Callable[..., Any], Callable[..., tuple[Any, ...]]],
        hints: dict[str, Any],
        outside: Collection[int] | None,
        slots: tuple[Slot, ...],
        watch: Any,
    ) -> tuple[Any, ...]:
        cond, body = functions
        state = SiteState(where, values, slots, watch, functions, True, outside)
        count, rest = len(state.entries), len(state.kept)
        # Outputs that are state, and which; the others are what was passed.
        outs, goals = state.plan.outs, state.plan.goals
        unset: dict[int, Undefined] = {}

        def run_cond(*entries: Any) -> Any:
            return state.test(cond, entries[:count])

        def run_body(*entries: Any) -> tuple[Any, ...]:
            entries = state.take_still(entries, count)
            outputs = state.call(body, entries, "the body")
            left = list(entries)
            for n, j in enumerate(outs):
                left[goals[n]] = outputs[j]
            left[rest:] = state.read()
            note_unset(unset, left)
            return (*left, *state.still())

        state.restore_on_error()
        final = targets.while_loop(
            (*state.entries, *state.still()),
            run_cond,
            run_body,
            labels_of((*state.labels, *state.still_labels())),
            memory=where.memory,
            **hints,
        )
        found = list(state.take_still(final, count))
        for k, value in unset.items():
            if type(found[k]) is Undefined:
                found[k] = value
        state.finish(found[rest:])
        return state.final(outs, [found[k] for k in goals])


def _last(*values: Any) -> Any:
    """Return the value of a loop's condition, which is the last one of its state."""
    return values[-1]


vars(_last)["calls"] = ()


def _carrying(
    body: Callable[..., tuple[Any, ...]], cond: Callable[..., Any], places: list[int]
) -> Callable[..., tuple[Any, ...]]:
    """Return a body that evaluates the condition of the next turn, too."""

    def run(*args: Any) -> tuple[Any, ...]:
        state = list(args[:-1])
        results = body(*state)
        for i, value in zip(places, results, strict=True):
            state[i] = value
        return (*results, cond(*state))

    vars(run)["calls"] = (body, cond)
    return run
