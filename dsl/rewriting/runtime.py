"""What rewritten functions call while they run.

Owns the decisions taken at run time: whether a condition is an array, which state
goes through the primitives, and what becomes of variables without a value. The
primitives themselves are reached through `hooks.targets`.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

from lumijit.rewriting.hooks import targets
from lumijit.rewriting.ranges import ArrayRange, item, make_range
from lumijit.rewriting.source import Place, syntax_error
from lumijit.rewriting.undefined import Undefined, fail
from lumijit.runtime import errors

#: Values that a construct only reads and that hold no arrays.
_CONSTANTS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    ModuleType,
    Undefined,
)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


@dataclass(frozen=True)
class Site:
    """One construct of a rewritten function."""

    filename: str
    function: str
    place: Place
    kind: str
    #: Variables that the construct's functions take, in order.
    ins: tuple[str, ...]
    #: Variables that they return, in order.
    outs: tuple[str, ...]
    #: Those of `outs` that are results only where their value is mutable.
    optional: frozenset[str]
    #: Those that need no value in lanes or branches that don't reach the end.
    lenient: frozenset[str]
    #: Variables that a hint keeps out of the state.
    excluded: frozenset[str]

    @property
    def is_loop(self) -> bool:
        """Tell whether the construct is a loop."""
        return self.kind in ("while", "for")

    def __str__(self) -> str:
        return f"'{self.kind}' at {self.filename}:{self.place.line}"


class Forced:
    """A condition that a hint sends to the primitives, array or not."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Wrap a condition."""
        self.value = value


class Runtime:
    """The helpers of one rewritten function, which calls it `_lj`."""

    ArrayRange = ArrayRange
    locals = staticmethod(builtins.locals)

    def __init__(self, sites: list[Site]) -> None:
        """Serve the constructs `sites`."""
        self.sites = sites

    # Conditions.

    @staticmethod
    def is_plain(value: Any) -> bool:
        """Tell whether a condition takes the plain path."""
        return not targets.is_array(value)

    @staticmethod
    def plain(value: Any) -> Any:
        """Reduce a plain condition to True or False; return an array as it is."""
        return value if targets.is_array(value) else bool(value)

    @staticmethod
    def forced(value: Any, mode: Any) -> Any:
        """Do the same under a hint that chooses the mode."""
        if mode == "scalar" or (mode is None and not targets.is_array(value)):
            return bool(value)
        return Forced(value)

    @staticmethod
    def unforced(value: Any) -> Any:
        """Return the condition inside a `Forced`."""
        return value.value if isinstance(value, Forced) else value

    @staticmethod
    def logical_and(a: Any, b: Any) -> Any:
        """Combine two conditions, at least one of them an array."""
        return targets.logical_and(a, b)

    @staticmethod
    def logical_or(a: Any, b: Any) -> Any:
        """Combine two conditions, at least one of them an array."""
        return targets.logical_or(a, b)

    @staticmethod
    def logical_not(value: Any) -> Any:
        """Negate a condition."""
        return targets.logical_not(value) if targets.is_array(value) else not value

    @staticmethod
    def needs_right(left: Any, is_and: bool) -> bool:
        """Tell whether `and` or `or` evaluates its right operand."""
        return targets.is_array(left) or bool(left) == is_and

    @staticmethod
    def join_and(left: Any, right: Any) -> Any:
        """Finish an `and` whose right operand was evaluated."""
        return targets.logical_and(left, right) if targets.is_array(left) else right

    @staticmethod
    def join_or(left: Any, right: Any) -> Any:
        """Finish an `or` whose right operand was evaluated."""
        return targets.logical_or(left, right) if targets.is_array(left) else right

    def lazy_and(self, value: Any, *others: Callable[[], Any]) -> Any:
        """Evaluate `value and others[0]() and …`."""
        for other in others:
            if not self.needs_right(value, True):
                return value
            value = self.join_and(value, other())
        return value

    def lazy_or(self, value: Any, *others: Callable[[], Any]) -> Any:
        """Evaluate `value or others[0]() or …`."""
        for other in others:
            if not self.needs_right(value, False):
                return value
            value = self.join_or(value, other())
        return value

    def lazy_chain(self, names: str, *operands: Callable[[], Any]) -> Any:
        """Evaluate a chained comparison."""
        left = operands[0]()
        result: Any = True
        for name, operand in zip(names.split(), operands[1:], strict=True):
            if not self.needs_right(result, True):
                return result
            right = operand()
            result = self.join_and(result, _COMPARISONS[name](left, right))
            left = right
        return result

    def lazy_choice(
        self, test: Any, yes: Callable[[], Any], no: Callable[[], Any], site: int
    ) -> Any:
        """Evaluate `yes() if test else no()`."""
        if not targets.is_array(test):
            return yes() if test else no()
        return self.choose(test, (), yes, no, site)

    def choose(
        self,
        test: Any,
        values: tuple[Any, ...],
        yes: Callable[..., Any],
        no: Callable[..., Any],
        site: int,
    ) -> Any:
        """Evaluate a conditional expression whose condition is an array."""
        where = self.sites[site]
        labels = where.ins if values else ()
        (result,) = targets.if_stmt(
            values,
            test,
            lambda *args: (yes(*args),),
            lambda *args: (no(*args),),
            arg_labels=labels,
            rv_labels=where.outs,
        )
        return result

    # Flags of jumps.

    @staticmethod
    def none_of(*flags: Any) -> Any:
        """Return the condition that no flag is raised."""
        raised: Any = False
        for flag in flags:
            if flag is True:
                return False
            if flag is not False:
                raised = flag if raised is False else targets.logical_or(raised, flag)
        return True if raised is False else targets.logical_not(raised)

    @staticmethod
    def all_done(*flags: Any) -> bool:
        """Tell whether a flag is raised in all lanes, as far as Python can see."""
        return any(flag is True for flag in flags)

    # Loops over ranges.

    @staticmethod
    def range(*bounds: Any) -> Any:
        """Make Python's range or, from array bounds, an `ArrayRange`."""
        return make_range(*bounds)

    @staticmethod
    def first_count(size: Any) -> Any:
        """Return a counter of zeros that is like `size`."""
        return size - size

    @staticmethod
    def next_count(count: Any) -> Any:
        """Advance a counter."""
        return count + 1

    @staticmethod
    def range_item(start: Any, step: Any, count: Any) -> Any:
        """Return the item of a range at position `count`."""
        return item(start, step, count)

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
    def read(value: Any) -> Any:
        """Return the value of a variable, or raise if it has none."""
        if type(value) is Undefined:
            fail(value)
        return value

    # Refusals.

    def refuse(self, site: int, reason: str) -> NoReturn:
        """Raise the error for a statement that can't be vectorized."""
        where = self.sites[site]
        frame_line = errors.where()
        raise syntax_error(
            where.filename,
            where.function,
            where.place,
            f"{reason} can't be part of vectorized control flow, but the condition "
            f"around it is an array here ({frame_line})",
            "make the condition a Python bool, or move the statement out of the "
            "conditional block.",
        )

    def require_plain(self, value: Any, site: int, reason: str) -> Any:
        """Return `value`, which must not be an array."""
        if targets.is_array(value):
            self.refuse(site, reason)
        return value

    # Branches and loops.

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
        split = _Split(where, values)
        results = split.kept_outputs()
        positions = [where.outs.index(name) for name in results]
        unset: set[str] = set()

        def branch(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
            def run(*state: Any) -> tuple[Any, ...]:
                outputs = function(*split.whole(state))
                kept = tuple([outputs[i] for i in positions])
                for name, value in zip(results, kept, strict=True):
                    if type(value) is Undefined:
                        unset.add(name)
                return kept

            return run

        merged = targets.if_stmt(
            split.state,
            test,
            branch(true_fn),
            branch(false_fn),
            arg_labels=split.labels,
            rv_labels=tuple(results),
            **hints,
        )
        found = dict(zip(results, merged, strict=True))
        for name in unset - where.lenient:
            found[name] = Undefined(
                name, str(where), "a vectorized branch leaves it without one"
            )
        return tuple([found.get(n, split.original.get(n)) for n in where.outs])

    def while_loop(
        self,
        values: tuple[Any, ...],
        cond: Callable[..., Any],
        body: Callable[..., tuple[Any, ...]],
        site: int,
        entered: bool = False,
        **hints: Any,
    ) -> tuple[Any, ...]:
        """Run a loop; `entered` says that its condition is known to be an array."""
        where = self.sites[site]
        places = [where.ins.index(n) if n in where.ins else -1 for n in where.outs]
        mode = hints.get("mode")
        state = list(values)
        while not entered and mode in (None, "scalar"):
            test = cond(*state)
            if targets.is_array(test):
                break
            if not test:
                return tuple([state[i] for i in places])
            for i, value in zip(places, body(*state), strict=True):
                state[i] = value
        return self._vector_loop(where, tuple(state), cond, body, hints)

    @staticmethod
    def _vector_loop(
        where: Site,
        values: tuple[Any, ...],
        cond: Callable[..., Any],
        body: Callable[..., tuple[Any, ...]],
        hints: dict[str, Any],
    ) -> tuple[Any, ...]:
        split = _Split(where, values)

        def run_body(*state: Any) -> tuple[Any, ...]:
            outputs = body(*split.whole(state))
            new = dict(zip(split.labels, state, strict=True))
            new.update(
                (n, v) for n, v in zip(where.outs, outputs, strict=True) if n in new
            )
            return tuple(new.values())

        final = targets.while_loop(
            split.state,
            lambda *state: cond(*split.whole(state)),
            run_body,
            labels=split.labels,
            **hints,
        )
        found = dict(zip(split.labels, final, strict=True))
        return tuple([found.get(n, split.original.get(n)) for n in where.outs])


class _Split:
    """Divides the inputs of a construct into state and values bound to it."""

    def __init__(self, site: Site, values: tuple[Any, ...]) -> None:
        self.site = site
        self.values = values
        self.original = dict(zip(site.ins, values, strict=True))
        rebound = set(site.outs) - site.optional if site.is_loop else set()
        self.kept = [
            i
            for i, (name, value) in enumerate(self.original.items())
            if name not in site.excluded
            and (name in rebound or not isinstance(value, _CONSTANTS))
        ]
        self.state = tuple([values[i] for i in self.kept])
        self.labels = tuple([site.ins[i] for i in self.kept])

    def whole(self, state: tuple[Any, ...]) -> list[Any]:
        """Put the state back among the bound values."""
        everything = list(self.values)
        for i, value in zip(self.kept, state, strict=True):
            everything[i] = value
        return everything

    def kept_outputs(self) -> list[str]:
        """List the outputs, without immutable values that were only passed on."""
        optional, original = self.site.optional, self.original
        return [
            n
            for n in self.site.outs
            if n not in optional or targets.is_tree(original[n])
        ]
