"""What a call of a recorded function depends on: arrays, numbers, and its key.

Arrays and numbers may differ from call to call; the key tells all else: structure and
types of the arguments, and of the objects that the function reaches from outside. Calls
with equal keys look alike.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.control.bytecode import PLAIN, facts_of
from lumijit.control.locations import (
    MISSING,
    ClassAttributes,
    Components,
    Entries,
    Globals,
    Items,
    Location,
    Members,
    Variable,
)
from lumijit.control.reachability import WHOLE, Reach
from lumijit.instance_registry import contents
from lumijit.instances import InstanceArray
from lumijit.nested import NestedArray
from lumijit.scalar_arrays import HostArray

NUMBERS = (int, float)
# Memory of the host: NumPy's, that of the scalar namespace, Python's.
HOST = (np.ndarray, HostArray, bytearray)
_NAMED = (type, ModuleType, FunctionType, BuiltinFunctionType)


class Arguments:
    """The arguments of one call, taken apart.

    `objects` are those that are no PyTrees, which the function may change.
    """

    def __init__(
        self, values: Sequence[Any], labels: tuple[str, ...], static: frozenset[str]
    ) -> None:
        self._values = values
        self._labels = labels
        self.arrays: list[FlatArray] = []
        self.numbers: list[Any] = []
        self.objects: list[Any] = []
        self.containers: list[Any] = []
        self.is_static: list[bool] = []
        self.key: tuple[Any, ...] = ()
        # Whether they are flat arrays and numbers only.
        self.is_plain = not static and self._take_plain()
        if not self.is_plain:
            self._take(static)

    def _take_plain(self) -> bool:
        """Take flat arrays and numbers; tell whether that is all."""
        kinds = list(map(type, self._values))
        for kind, value in zip(kinds, self._values, strict=True):
            if kind in NUMBERS:
                self.numbers.append(value)
            elif _is_plain_array(kind):
                self.arrays.append(value)
            else:
                self.arrays.clear()
                self.numbers.clear()
                return False
        self.is_static = [False] * len(kinds)
        self.key = (self._labels, *kinds)
        return True

    def _take(self, static: frozenset[str]) -> None:
        """Take whatever there is, told by structure and by what belongs to the key."""
        parts = self.parts
        self.containers = parts.containers
        self.is_static = [False] * len(parts.leaves)
        if static:
            self.is_static = [_root_of(name) in static for name in parts.names]
        tokens = []
        for leaf, stays in zip(parts.leaves, self.is_static, strict=True):
            kind = type(leaf)
            if isinstance(leaf, FlatArray):
                self.arrays.append(leaf)
                tokens.append(kind)
                if isinstance(leaf, InstanceArray):
                    self.objects += instances_of(leaf)
            elif kind in NUMBERS and not stays:
                self.numbers.append(leaf)
                tokens.append(kind)
            elif is_settled(leaf):
                tokens.append(value_token(leaf))
            else:
                # Its contents are told by the surroundings.
                tokens.append(kind)
                self.objects.append(leaf)
        outline = [
            m if m is None or isinstance(m, pytree.Kind) else tuple(m)
            for m in parts._outline
        ]
        shapes = [c.shape for c in parts.containers if hasattr(c, "_rebuilt")]
        self.key = (self._labels, *outline, *tokens, *shapes)

    @functools.cached_property
    def parts(self) -> pytree.Parts:
        """The arguments as PyTrees."""
        return pytree.Parts(self._values, self._labels)

    def number_names(self) -> list[str]:
        """Name the numbers as a user would write them."""
        leaves = zip(self.parts.names, self.parts.leaves, self.is_static, strict=True)
        return [n for n, v, stays in leaves if type(v) in NUMBERS and not stays]

    def array_names(self) -> list[str]:
        """Name the arrays as a user would write them."""
        leaves = zip(self.parts.names, self.parts.leaves, strict=True)
        return [n for n, v in leaves if isinstance(v, FlatArray)]


class _PlainArrays(dict[type[Any], bool]):
    """Which types are flat arrays of numbers: asked for each argument."""

    def __missing__(self, kind: type[Any]) -> bool:
        is_flat = issubclass(kind, FlatArray)
        found = self[kind] = is_flat and not issubclass(kind, InstanceArray)
        return found


_is_plain_array = _PlainArrays().__getitem__


def _root_of(name: str) -> str:
    return name.partition("[")[0].partition(".")[0]


def is_settled(value: Any) -> bool:
    """Tell whether a value is told by its token for good."""
    return type(value) in PLAIN or isinstance(
        value, (ArrayBase, np.ndarray, np.generic, str, *_NAMED)
    )


def value_token(value: Any) -> Any:
    """Return what tells a value that is part of the recording from others."""
    kind = type(value)
    if kind in NUMBERS:
        return kind, repr(value)
    if kind in PLAIN and kind is not bytearray:
        return kind, value
    if isinstance(value, HOST):
        return _host_token(value)
    if isinstance(value, np.generic):
        return kind, repr(value.item())
    return Same(value)


def _host_token(value: Any) -> Any:
    """Return what tells the contents of an object that can be changed in place."""
    data = value if isinstance(value, bytearray) else np.asarray(value)
    if isinstance(data, bytearray):
        return bytearray, bytes(data)
    if data.dtype == object:
        return Same(value)
    data = np.ascontiguousarray(data)
    return type(value), data.dtype.str, data.shape, zlib.crc32(data.data.cast("B"))


class Same:
    """An object as part of a key: it equals itself only, and lives as long."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Surroundings:
    """What a function reaches from outside, apart from its arguments, as it is now.

    `numbers` may change from call to call; `where` tells the place and key of each.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self._roots = tuple(roots)
        # Whether something was assigned since everything was looked at.
        self.is_stale = False
        self.look()

    def look(self) -> None:
        """Look at everything."""
        self.is_stale = False
        reach = self.reach = Reach()
        for root in self._roots:
            reach.follow(root)
        self._follow_instances()
        self.arrays: list[FlatArray] = reach.arrays
        self.places: list[Location] = [*reach.places, *_plain_names(reach)]
        self.numbers: list[Any] = []
        self.where: list[tuple[Location, Any]] = []
        # What may change in place, and is told by its contents.
        self._host: list[Any] = []
        self._order: dict[int, int] = {}
        tokens: list[Any] = []
        count = len(reach.places)
        for k, place in enumerate(self.places):
            tokens.append(type(place))
            self._add(place, tokens, has_numbers=k < count)
        for root in self._roots:
            tokens.append((type(root), self._order.setdefault(id(root), -len(tokens))))
        self.key = Shape(tuple(tokens))
        self._host_tokens = list(map(_host_token, self._host))

    def _follow_instances(self) -> None:
        """Follow the objects that arrays of instances may contain."""
        reach = self.reach
        done = 0
        while done < len(reach.arrays):
            array = reach.arrays[done]
            done += 1
            if isinstance(array, InstanceArray):
                for instance in instances_of(array):
                    reach.follow(instance, type(instance).__name__)

    def _add(self, place: Location, tokens: list[Any], has_numbers: bool) -> None:
        """Add what tells the entries of a place."""
        may_change = has_numbers and not (
            isinstance(place, (ClassAttributes, Members))
            or (isinstance(place, Items) and isinstance(place.owner, tuple))
        )
        seen, order = self.reach.seen, self._order
        for key, value in place.kept.items():
            kind = type(value)
            tokens += (type(key), key)
            if kind in NUMBERS and may_change:
                self.numbers.append(value)
                self.where.append((place, key))
                tokens.append(kind)
            elif isinstance(value, HOST):
                order.setdefault(id(value), len(order))
                tokens += (value_token(value), order[id(value)])
                self._host.append(value)
            elif id(value) in seen and not isinstance(value, _NAMED):
                # Told by its contents, and by where else it is.
                tokens.append((kind, order.setdefault(id(value), len(order))))
            elif value is MISSING:
                tokens.append("missing")
            else:
                tokens.append(value_token(value))

    def aliases(self, containers: Sequence[Any]) -> tuple[Any, ...] | None:
        """Tell which containers are one, or are reached from outside, too."""
        if not containers:
            return None
        names = list(map(id, containers))
        found = [self._order.get(name) for name in names]
        if len(set(names)) == len(names) and not any(found):
            return None
        return (*found, *map(names.index, names))

    def is_current(self) -> bool:
        """Tell whether everything is as it was looked at."""
        if not self.places:
            return True
        reach = self.reach
        if reach.changed(WHOLE):
            return False
        if not all(p.is_same() for p in self.places[len(reach.places) :]):
            return False
        return not self._host or self._host_tokens == list(map(_host_token, self._host))

    def number_names(self) -> list[str]:
        """Name the numbers as a program would write them."""
        return [place.path(key) for place, key in self.where]

    def array_names(self) -> list[str]:
        """Name the arrays as a program would write them."""
        reach = self.reach
        return [
            place.path_to(array)
            for place, array in zip(reach.holders, reach.arrays, strict=True)
        ]


class Shape:
    """A long key that is compared often: its hash is known."""

    __slots__ = ("_hash", "tokens")

    def __init__(self, tokens: tuple[Any, ...]) -> None:
        self.tokens = tokens
        self._hash = hash(tokens)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Shape) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return self._hash


def _plain_names(reach: Reach) -> list[Location]:
    """Return the variables that functions read and in which there are plain values."""
    found: list[Location] = []
    for function in reach.functions:
        code, space = function.__code__, function.__globals__
        facts = facts_of(code)
        cells = () if facts.rebinds else function.__closure__ or ()
        for name, cell in zip(code.co_freevars, cells, strict=False):
            variable = Variable(cell, None, name)
            if (
                type(variable.kept[name]) in PLAIN
                and variable.kept[name] is not MISSING
            ):
                found.append(variable)
        names = [n for n in facts.names if n in space and type(space[n]) in PLAIN]
        if names and not facts.stores_globals:
            found.append(Globals(space, tuple(names)))
        if function.__defaults__:
            found.append(Items(function.__defaults__, None, function.__name__))
    return found


def instances_of(array: InstanceArray) -> list[Any]:
    """Return the objects that an array of instances may contain."""
    return [v for _, v in array._domain.instances(contents(array._node))]


class Fields(Location):
    """The fields of a dataclass or struct among the arguments."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(pytree.children(self.owner))

    def put(self, key: Any, value: Any) -> None:
        """Assign a field, also one of a frozen dataclass."""
        object.__setattr__(self.owner, key, value)


def place_of(container: Any) -> Location:
    """Return a container among the arguments as a place."""
    if isinstance(container, NestedArray):
        return Components(container, None)
    if isinstance(container, (list, tuple)):
        return Items(container, None)
    if isinstance(container, dict):
        return Entries(container, None, "", container)
    return Fields(container, None)


@dataclass
class Call:
    """One call of a recorded function: its inputs, and how it is run."""

    name: str
    run: Callable[[Sequence[Any]], Any]
    arguments: Arguments
    surroundings: Surroundings

    def __post_init__(self) -> None:
        self.arrays = [*self.arguments.arrays, *self.surroundings.arrays]
        self.numbers = [*self.arguments.numbers, *self.surroundings.numbers]

    def place(self, index: int) -> Location:
        """Return a place that the call may change: outer ones, then arguments."""
        places = self.surroundings.places
        if index < len(places):
            return places[index]
        return place_of(self.arguments.containers[index - len(places)])

    def number_names(self) -> list[str]:
        """Name the numbers."""
        return [*self.arguments.number_names(), *self.surroundings.number_names()]

    def array_names(self) -> list[str]:
        """Name the arrays."""
        return [*self.arguments.array_names(), *self.surroundings.array_names()]


def array_tokens(arrays: Sequence[FlatArray]) -> tuple[Any, ...]:
    """Return what tells arrays, all of them in memory or literals, from others.

    Sizes belong to it, and which arrays and values are one.
    """
    tokens: list[Any] = []
    nodes = [array._node for array in arrays]
    if _is_simple(arrays, nodes):
        return tuple([node.size for node in nodes])
    for array, node in zip(arrays, nodes, strict=True):
        # A literal of one entry is put into memory.
        is_told = node.op is LITERAL and node.size != 1
        tokens.append((node.size, repr(node.attr)) if is_told else node.size)
        vertex = node.vertex
        if vertex is not None:
            is_tracked = vertices.is_tracked(node)
            grad = vertex.grad
            tokens.append((is_tracked, None if grad is None else grad.size))
        if isinstance(array, InstanceArray):
            numbers = contents(node)
            found = array._domain.instances(numbers)
            tokens.append((numbers, *[slot for slot, _ in found]))
    # Literals are told by their values, whichever nodes these have.
    in_memory = [n for n in nodes if n.buffer is not None]
    for row in (arrays, in_memory, [n.buffer for n in in_memory]):
        names = list(map(id, row))
        if len(set(names)) < len(names):
            tokens.append(tuple(map(names.index, names)))
    return tuple(tokens)


def _is_simple(arrays: Sequence[FlatArray], nodes: list[Node]) -> bool:
    """Tell whether sizes are all that there is to tell of arrays."""
    memory = {id(n.buffer) for n in nodes}
    if len(memory) < len(nodes) or id(None) in memory:
        return False
    if any([n.vertex for n in nodes]):
        return False
    return not any([isinstance(a, InstanceArray) for a in arrays])


def as_inputs(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes, and the gradients that have arrived at them."""
    found = list(nodes)
    grads = [n.vertex.grad for n in found if n.vertex is not None]
    return [*found, *[grad for grad in grads if grad is not None]]
