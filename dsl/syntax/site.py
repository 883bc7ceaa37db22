"""What goes through a primitive and what is bound to the functions it calls.

Owns the description of a construct (`Site`) and the division of its inputs at run
time (`SiteState`), including attributes that it assigns on objects that are no PyTrees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from lumijit.runtime.cached_properties import cached_property
from lumijit.syntax.bindings import targets
from lumijit.syntax.invented import PREFIX, RESULT
from lumijit.syntax.object_state import Attribute, Inputs, ObjectState
from lumijit.syntax.places import SourcePlace
from lumijit.syntax.undefined import Undefined

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


class Raising(NamedTuple):
    """A statement that raises an exception, and the condition that leads to it."""

    statement: str
    place: SourcePlace
    condition: str


class Memory:
    """Keeps what the last run of a construct found out; only `control` knows what."""

    __slots__ = ("findings",)

    def __init__(self) -> None:
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
    def always(self) -> frozenset[str]:
        """The variables that are state whatever their value is."""
        return frozenset(self.outs) - self.optional if self.is_loop else frozenset()

    def __str__(self) -> str:
        """Name the construct and its line."""
        return f"'{self.kind}' at {self.filename}:{self.place.line}"


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


class SiteState(ObjectState):
    """The inputs of one run of a construct."""

    def __init__(
        self,
        site: Site,
        values: tuple[Any, ...],
        slots: ObjectState,
        is_loop: bool = False,
        outside: Collection[int] | None = None,
    ) -> None:
        """Divide `values`, which belong to `site.ins`; `slots` change besides."""
        self.site = site
        self.values = values
        self.original = dict(zip(site.ins, values, strict=True))
        self._kept = [
            i
            for i, (name, value) in enumerate(self.original.items())
            if name not in site.excluded
            and (name in site.always or not isinstance(value, _CONSTANTS))
        ]
        super().__init__(slots.slots, slots.watch)
        self.attribute_labels = self.labels_of_slots(self.original)
        original = self.original
        outs = {n: original[n] for n in site.outs if n in original}
        read = {
            n: v
            for n, v in original.items()
            if n not in outs and n not in site.excluded
        }
        self.hand(outs, read, site, is_loop, outside)
        #: What is passed to the primitive, and under which names.
        before = self.values_apart() if self.handed.twins else self.before
        self.entries = (*(values[i] for i in self._kept), *before)
        self.labels = (*(site.ins[i] for i in self._kept), *self.attribute_labels)

    def enter(self, entries: tuple[Any, ...]) -> list[Any]:
        """Return all inputs, with `entries` in the place of the state."""
        inputs = list(self.values)
        count = len(self._kept)
        for i, value in zip(self._kept, entries[:count], strict=True):
            inputs[i] = value
        self.write(entries[count:])
        return inputs

    def standing_in(self, args: Iterable[Any]) -> Callable[[], Any]:
        """Return what tells where else arrays are that a function will have changed."""
        given = (*args, *self.read())
        told: Callable[[], Any]
        told = targets.standing_in(self.watch, (*self.values, *self.before), given)
        return told

    def test(self, function: Any, entries: tuple[Any, ...]) -> Any:
        """Evaluate the condition with `entries` as state."""
        inputs = self.enter(entries)
        given = dict(zip(self.site.ins, inputs, strict=True))
        who = partial(self._who, "the condition")
        return self.run(function, inputs, who, given, lambda _: given)

    def call(
        self, function: Any, entries: tuple[Any, ...], part: str
    ) -> dict[str, Any]:
        """Call a function of the construct on its inputs with `entries` as state.

        `part` is what an error calls it. Return its outputs by name.
        """
        site = self.site
        inputs = self.enter(entries)
        given = dict(zip(site.ins, inputs, strict=True))

        def outputs(values: Any) -> dict[str, Any]:
            return dict(zip(site.outs, values, strict=True))

        who = partial(self._who, part)
        return outputs(self.run(function, inputs, who, given, outputs))

    def _who(self, part: str) -> str:
        return f"{part} of '{self.site.kind}' (line {self.site.place.line})"

    def final(self, found: dict[str, Any]) -> tuple[Any, ...]:
        """Return what the construct leaves, where `found` are its results by name."""
        targets.settle([found[n] for n in self.site.outs if n in found])
        return tuple(
            [
                self.handed.bring_back(n, found[n])
                if n in found
                else self.original.get(n)
                for n in self.site.outs
            ]
        )

    def results(self) -> list[str]:
        """List the outputs, without immutable values that were only passed on."""
        optional, original = self.site.optional, self.original
        return [
            n
            for n in self.site.outs
            if n not in optional or targets.is_tree(original[n])
        ]


def _runs_code(cls: type[Any], name: str) -> bool:
    """Tell whether assigning an attribute calls code: what that changes is found."""
    found = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
    is_slot = found is None or isinstance(found, MemberDescriptorType)
    is_own = hasattr(cls.__setattr__, "__code__")
    return (not is_slot and hasattr(type(found), "__set__")) or is_own


def inputs_of(site: Site, values: tuple[Any, ...]) -> Inputs:
    """Return what a run of a construct gets and assigns."""

    def attributes() -> Iterator[Attribute]:
        """List the attributes that are assigned on opaque objects."""
        for root, *path in site.paths:
            owner = values[site.ins.index(root)]
            if targets.is_tree(owner) or targets.is_array(owner):
                continue
            if type(owner) is Undefined:
                continue  # An object to come: what becomes of it is found.
            with contextlib.suppress(AttributeError):
                for attribute in path[:-1]:
                    owner = getattr(owner, attribute)
                if not _runs_code(type(owner), path[-1]):
                    yield Attribute(owner, path[-1], ".".join([root, *path]))

    return Inputs(values, site.ins, site.own_names, attributes, site.is_loop)
