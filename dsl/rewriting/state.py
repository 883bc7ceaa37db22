"""What goes through a primitive and what is bound to the functions it calls.

Owns the description of a construct (`Site`) and the division of its inputs at run
time (`State`), including attributes that it assigns on objects that are no PyTrees.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from lumijit.rewriting.build import PREFIX, RESULT
from lumijit.rewriting.hooks import targets
from lumijit.rewriting.source import Place
from lumijit.rewriting.undefined import Undefined

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


@dataclass(frozen=True)
class Raising:
    """A statement that raises an exception, and the condition that leads to it."""

    statement: str
    place: Place
    condition: str


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
    #: Attributes that the construct assigns: a variable and what follows it.
    paths: tuple[tuple[str, ...], ...]
    #: The statement inside that raises for all elements which get there, if any.
    raising: Raising | None = None

    @property
    def is_loop(self) -> bool:
        """Tell whether the construct is a loop."""
        return self.kind in ("while", "for")

    def __str__(self) -> str:
        """Name the construct and its line."""
        return f"'{self.kind}' at {self.filename}:{self.place.line}"


def labels_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return what errors should call variables, invented ones among them."""
    return tuple([_label_of(name) for name in names])


def _label_of(name: str) -> str:
    if not name.startswith(PREFIX):
        return name
    if name == RESULT:
        return "return value"
    stem = name[len(PREFIX) :].rstrip("0123456789")
    return f"<{stem}>"


class State:
    """The inputs of one run of a construct."""

    def __init__(self, site: Site, values: tuple[Any, ...]) -> None:
        """Divide `values`, which belong to `site.ins`."""
        self.site = site
        self.values = values
        self.original = dict(zip(site.ins, values, strict=True))
        rebound = set(site.outs) - site.optional if site.is_loop else set()
        self._kept = [
            i
            for i, (name, value) in enumerate(self.original.items())
            if name not in site.excluded
            and (name in rebound or not isinstance(value, _CONSTANTS))
        ]
        self._attributes = list(self._find_attributes())
        self.attribute_labels = tuple([a[2] for a in self._attributes])
        self._before = self.read_attributes()
        #: What is passed to the primitive, and under which names.
        self.entries = (*(values[i] for i in self._kept), *self._before)
        self.labels = (*(site.ins[i] for i in self._kept), *self.attribute_labels)

    def _find_attributes(self) -> Iterator[tuple[Any, str, str]]:
        """List object, attribute and label of what is assigned on opaque objects."""
        for root, *attributes in self.site.paths:
            owner = self.original[root]
            if targets.is_tree(owner) or targets.is_array(owner):
                continue
            with contextlib.suppress(AttributeError):
                for attribute in attributes[:-1]:
                    owner = getattr(owner, attribute)
                yield owner, attributes[-1], ".".join([root, *attributes])

    def enter(self, entries: tuple[Any, ...]) -> list[Any]:
        """Return all inputs, with `entries` in the place of the state."""
        inputs = list(self.values)
        count = len(self._kept)
        for i, value in zip(self._kept, entries[:count], strict=True):
            inputs[i] = value
        self.write_attributes(entries[count:])
        return inputs

    def read_attributes(self) -> tuple[Any, ...]:
        """Return the current values of the attributes in the state."""
        return tuple(
            [getattr(o, name, Undefined(label)) for o, name, label in self._attributes]
        )

    def write_attributes(self, values: tuple[Any, ...]) -> None:
        """Assign the attributes in the state."""
        for (owner, name, _), value in zip(self._attributes, values, strict=True):
            if not isinstance(value, Undefined):
                setattr(owner, name, value)
            elif name in getattr(owner, "__dict__", ()):
                delattr(owner, name)

    @contextlib.contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """Leave no value of one branch behind when the primitive fails."""
        try:
            yield
        except BaseException:
            self.write_attributes(self._before)
            raise

    def results(self) -> list[str]:
        """List the outputs, without immutable values that were only passed on."""
        optional, original = self.site.optional, self.original
        return [
            n
            for n in self.site.outs
            if n not in optional or targets.is_tree(original[n])
        ]
