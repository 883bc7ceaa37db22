"""What goes through a primitive and what is bound to the functions it calls.

Owns the description of a construct (`Site`) and the division of its inputs at run
time (`SiteState`), including attributes that it assigns on objects that are no PyTrees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from lumijit.runtime.cached_properties import cached_property
from lumijit.runtime.class_facts import ClassFacts
from lumijit.runtime.contexts import on_error
from lumijit.runtime.errors import SyntaxTransformError
from lumijit.standing import settle
from lumijit.syntax.attempts import Inputs
from lumijit.syntax.bindings import targets
from lumijit.syntax.invented import PREFIX, RESULT
from lumijit.syntax.nesting import called_by
from lumijit.syntax.object_state import ObjectState
from lumijit.syntax.places import SourcePlace, syntax_error
from lumijit.syntax.slots import Attribute, Slot
from lumijit.syntax.undefined import Undefined
from lumijit.undeclared import slots_of

#: Values that hold no arrays: where they are only read, they are no state.
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


_CARRIED = (-1,)


class Raising(NamedTuple):
    """A statement that raises an exception, and the condition that leads to it."""

    statement: str
    place: SourcePlace
    condition: str


class Plan:
    """What follows for a loop from which of its variables are state.

    `outs` are the outputs that are, by position, and `goals` where they are in the
    state; `labels` are the names of the state. Without those that are outputs only
    where their value is mutable, if nobody changes it.
    """

    __slots__ = ("goals", "labels", "outs")

    def __init__(self, site: Site, kept: tuple[int, ...], is_still: bool) -> None:
        known = {i: k for k, i in enumerate(kept)}
        left = site.optional if is_still else ()
        pairs = enumerate(zip(site.outs, site.places, strict=True))
        self.outs = [j for j, (name, i) in pairs if i in known and name not in left]
        self.goals = [known[site.places[j]] for j in self.outs]
        self.labels = tuple([site.ins[i] for i in kept])


class Memory:
    """Keeps what the last run of a construct found out.

    `entries` are those of objects that it was found to change: keys and paths. What
    else there is, the `findings`, only `control` knows.
    """

    __slots__ = ("entries", "findings")

    def __init__(self) -> None:
        self.entries: tuple[tuple[Any, str], ...] = ()
        self.findings: Any = None


@dataclass(frozen=True)
class Site:
    """One construct of a rewritten function."""

    filename: str
    function: str
    place: SourcePlace
    kind: str
    #: Variables that the construct's functions take, in order.
    ins: tuple[str, ...]
    #: Variables that they return, in order.
    outs: tuple[str, ...]
    #: Those of `outs` that are results only where their value is mutable.
    optional: frozenset[str] = frozenset()
    #: Variables that the construct assigns, not just their contents.
    rebound: frozenset[str] = frozenset()
    #: Those that need no value in lanes or branches that don't reach the end.
    lenient: frozenset[str] = frozenset()
    #: Variables that a hint keeps out of the state.
    excluded: frozenset[str] = frozenset()
    #: Attributes that the construct assigns: a variable and what follows it.
    paths: tuple[tuple[str, ...], ...] = ()
    #: The statement inside that raises for all elements which get there, if any.
    raising: Raising | None = None
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)
    #: By the positions of the variables that are state.
    plans: tuple[dict[tuple[int, ...], Plan], dict[tuple[int, ...], Plan]] = field(
        default_factory=lambda: ({}, {}), compare=False, repr=False
    )

    #: By the positions of variables that are only read: with these as results, too.
    variants: dict[tuple[int, ...], Site] = field(
        default_factory=dict, compare=False, repr=False
    )

    def carried(self, sites: list[Site]) -> int:
        """Return the number of this loop with its condition's value as state."""
        found = self.variants.get(_CARRIED)
        if found is None:
            name = f"{PREFIX}condition"
            found = self.variants[_CARRIED] = replace(
                self,
                ins=(*self.ins, name),
                outs=(*self.outs, name),
                rebound=self.rebound.union((name,)),
                lenient=self.lenient.union((name,)),
                memory=Memory(),
                plans=({}, {}),
                variants={},
            )
            sites.append(found)
        return sites.index(found)

    def with_used(
        self, values: tuple[Any, ...], functions: tuple[Callable[..., Any], ...]
    ) -> tuple[Site, tuple[Callable[..., Any], ...]]:
        """Return a construct whose results are all trees that it may change.

        That is, besides its own results, those of its variables which it only reads,
        where that calls code. `functions` return these, too.
        """
        used = [i for i in self.only_read if targets.is_tree(values[i])]
        used = [i for i in used if targets.may_change_in_use((values[i],))]
        if not used:
            return self, functions
        key = tuple(used)
        found = self.variants.get(key)
        if found is None:
            names = [self.ins[i] for i in used]
            found = self.variants[key] = replace(
                self,
                outs=(*self.outs, *names),
                optional=self.optional.union(names),
                memory=Memory(),
                plans=({}, {}),
            )
        return found, tuple([_returning(f, used) for f in functions])

    def plan(self, kept: tuple[int, ...], is_still: bool) -> Plan:
        """Return what follows from which variables are state."""
        plans = self.plans[is_still]
        found = plans.get(kept)
        if found is None:
            found = plans[kept] = Plan(self, kept, is_still)
        return found

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The variables that the construct takes or assigns."""
        return frozenset((*self.ins, *self.outs))

    @cached_property
    def is_loop(self) -> bool:
        """Tell whether the construct is a loop."""
        return self.kind in ("while", "for")

    @cached_property
    def places(self) -> list[int]:
        """Where the functions take what they return; -1: nowhere."""
        return [self.ins.index(n) if n in self.ins else -1 for n in self.outs]

    @cached_property
    def roots(self) -> list[tuple[int, tuple[str, ...]]]:
        """Where the variables of `paths` are, with these."""
        return [(self.ins.index(path[0]), path) for path in self.paths]

    @cached_property
    def candidates(self) -> list[tuple[int, bool]]:
        """Where variables are that may be state; whether they are whatever they hold.

        Others are if their value isn't a constant.
        """
        always = frozenset(self.outs) - self.optional if self.is_loop else frozenset()
        names = enumerate(self.ins)
        return [(i, n in always) for i, n in names if n not in self.excluded]

    @cached_property
    def passed(self) -> list[int]:
        """Where the variables are that the functions get and return."""
        return [i for i in self.places if i >= 0]

    @cached_property
    def passed_anew(self) -> list[int]:
        """Where those of them are that the construct assigns."""
        pairs = zip(self.outs, self.places, strict=True)
        return [i for name, i in pairs if i >= 0 and name not in self.optional]

    @cached_property
    def only_read(self) -> list[int]:
        """Where those are that they only get."""
        never = self.excluded.union(self.outs)
        return [i for i, name in enumerate(self.ins) if name not in never]

    def error(
        self, problem: str, fix: str, place: SourcePlace | None = None
    ) -> SyntaxTransformError:
        """Word an error about the construct, or about a place inside of it."""
        where = self.filename, self.function, place or self.place
        return syntax_error(*where, problem, fix)

    def __str__(self) -> str:
        """Name the construct and its line."""
        return f"'{self.kind}' at {self.filename}:{self.place.line}"


def _returning(function: Callable[..., Any], used: list[int]) -> Callable[..., Any]:
    """Return a function that returns some of its arguments besides."""

    def run(*args: Any) -> tuple[Any, ...]:
        return (*function(*args), *[args[i] for i in used])

    vars(run)["calls"] = (function,)
    return run


@lru_cache(1024)
def labels_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what errors should call variables, invented ones among them."""
    return tuple([_label_of(name) for name in names])


def _label_of(name: str) -> str:
    if not name.startswith(PREFIX):
        return name
    if name == RESULT:
        return "return value"
    stem = name[len(PREFIX) :].rstrip("0123456789")
    return f"<{stem}>"


_are_constant = ClassFacts(lambda cls: issubclass(cls, _CONSTANTS))
_is_constant: Callable[[Any], bool] = _are_constant.__getitem__


class SiteState(ObjectState):
    """The inputs of one run of a construct.

    `entries` is what is passed to the primitive, under the names `labels`: variables,
    then `attribute_labels`.
    """

    def __init__(
        self,
        site: Site,
        values: tuple[Any, ...],
        slots: tuple[Slot, ...],
        watch: Any,
        functions: tuple[Callable[..., Any], ...],
        is_loop: bool = False,
        outside: Collection[int] | None = None,
    ) -> None:
        """Divide `values`, which belong to `site.ins`; `slots` change besides."""
        super().__init__(slots, watch)
        self.site = site
        self.values = values
        self.functions = functions
        trees = [i for i in site.passed if targets.is_tree(values[i])]
        #: Whether the functions leave the trees that they get as they are.
        self.is_still = False
        if trees and watch is None and not slots and site.optional:
            self.is_still = targets.are_still(functions, values)
            if self.is_still:
                trees = [i for i in trees if i in site.passed_anew]
        #: The positions of variables among the inputs.
        self.kept = tuple(
            [
                i
                for i, is_state in site.candidates
                if is_state or not _is_constant(values[i].__class__)
            ]
        )
        self.plan = site.plan(self.kept, self.is_still)
        ins = site.ins
        if trees or slots:
            passed = {ins[i]: values[i] for i in site.passed}
            read = {ins[i]: values[i] for i in site.only_read}
            self.hand(passed, read, site, is_loop, outside)
        else:
            self.belong_to(site, is_loop)
        #: Whether the condition of a loop does in any case.
        self.is_test_still = self.is_still
        if is_loop and self.handed is not None and watch is None:
            self.is_test_still = targets.are_still(functions[:1], values)
        self.attribute_labels = self.labels_of_slots(ins) if slots else ()
        self.labels = (*self.plan.labels, *self.attribute_labels)
        self.entries = (*[values[i] for i in self.kept], *self.values_apart())

    def restore_on_error(self) -> None:
        """Leave no value of a function behind when the primitive fails."""
        super().restore_on_error()
        own = self.site.own_names
        for function in called_by(self.functions):
            cells = function.__closure__ if type(function) is FunctionType else None
            if cells:
                for name, cell in zip(
                    function.__code__.co_freevars, cells, strict=True
                ):
                    if name in own:
                        _keep(cell)

    def enter(self, entries: tuple[Any, ...]) -> list[Any]:
        """Return all inputs, with `entries` in the place of the state."""
        inputs = list(self.values)
        kept = self.kept
        for k, i in enumerate(kept):
            inputs[i] = entries[k]
        if self.slots:
            self.write(entries[len(kept) :])
        return inputs

    def standing_in(self, args: Sequence[Any]) -> Callable[[], Any]:
        """Return what tells where else arrays are that a function will have changed."""
        given = (*args, *self.read())
        told: Callable[[], Any]
        told = targets.standing_in(self.watch, (*self.values, *self.before), given)
        return told

    def test(self, function: Any, entries: tuple[Any, ...]) -> Any:
        """Evaluate the condition with `entries` as state."""
        args, names = self.enter(entries), self.site.ins
        is_still = self.is_test_still
        return self.run(function, args, "the condition", names, None, is_still)

    def call(self, function: Any, entries: tuple[Any, ...], part: str) -> Any:
        """Call a function of the construct on its inputs with `entries` as state.

        `part` is what an error calls it. Return its outputs.
        """
        site = self.site
        return self.run(function, self.enter(entries), part, site.ins, site.outs)

    def final(self, outs: Sequence[int], results: Sequence[Any]) -> tuple[Any, ...]:
        """Return what the construct leaves: of outputs at some positions, results."""
        settle(results)
        names, values = self.site.outs, self.values
        left = [values[i] if i >= 0 else None for i in self.site.places]
        for k, j in enumerate(outs):
            left[j] = self.bring_back(names[j], results[k])
        return tuple(left)

    def results(self) -> Sequence[int]:
        """List the outputs, without immutable values that were only passed on."""
        site, values = self.site, self.values
        if not site.optional:
            return range(len(site.outs))
        return [
            j
            for j, name in enumerate(site.outs)
            if name not in site.optional
            or (not self.is_still and targets.is_tree(values[site.places[j]]))
        ]


def _keep(cell: Any) -> None:
    """Give a variable back what it holds now if what runs fails."""
    with contextlib.suppress(ValueError):
        held = cell.cell_contents
        on_error(lambda: setattr(cell, "cell_contents", held))


def _runs_code(cls: type[Any], name: str) -> bool:
    """Tell whether assigning an attribute calls code: what that changes is found.

    Members of C types, which may be read-only, count as code; slots don't.
    """
    found = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
    is_slot = name in slots_of(cls)
    is_own = hasattr(cls.__setattr__, "__code__")
    return (not is_slot and hasattr(type(found), "__set__")) or is_own


def inputs_of(site: Site, values: tuple[Any, ...]) -> Inputs:
    """Return what a run of a construct gets and assigns."""
    attributes = attributes_of(site, values) if site.paths else ()
    return Inputs(site, values, site.ins, site.own_names, attributes, site.is_loop)


def attributes_of(site: Site, values: tuple[Any, ...]) -> list[Attribute]:
    """List the attributes that a construct assigns on opaque objects."""
    found = []
    for i, (root, *path) in site.roots:
        owner = values[i]
        if targets.is_tree(owner) or targets.is_array(owner):
            continue
        if type(owner) is Undefined:
            continue  # An object to come: what becomes of it is found.
        with contextlib.suppress(AttributeError):
            for attribute in path[:-1]:
                owner = getattr(owner, attribute)
            if not _runs_code(type(owner), path[-1]):
                found.append(Attribute(owner, path[-1], ".".join([root, *path])))
    return found
