"""What a call of a recorded function depends on: arrays, numbers, and its key.

Arrays and numbers may differ from call to call; the key tells all else: structure and
types of the arguments, and of the objects that the function reaches from outside. Calls
with equal keys look alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.control.locations import (
    Components,
    Entries,
    Items,
    Location,
)
from lumijit.instance_registry import contents
from lumijit.instances import InstanceArray
from lumijit.nested import NestedArray
from lumijit.replay.surroundings import Surroundings, instances_of
from lumijit.replay.tokens import NUMBERS, is_settled, object_token, value_token


class Arguments:
    """The arguments of one call, taken apart.

    `objects` are those that are no PyTrees, which the function may change.
    """

    def __init__(
        self, values: Sequence[Any], labels: tuple[str, ...], static: frozenset[str]
    ) -> None:
        self.values = values
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
        kinds = list(map(type, self.values))
        for kind, value in zip(kinds, self.values, strict=True):
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
                tokens.append(object_token(leaf))
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
        return pytree.Parts(self.values, self._labels)

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
            tokens.append((vertices.is_tracked(node), _gradient_token(vertex.grad)))
        if isinstance(array, InstanceArray):
            numbers = contents(node)
            found = array._domain.instances(numbers)
            tokens.append((numbers, *[slot for slot, _ in found]))
    # Literals are told by their values, whichever nodes these have.
    once = {id(array): node for array, node in zip(arrays, nodes, strict=True)}
    in_memory = [n for n in once.values() if n.buffer is not None]
    for row in (arrays, in_memory, [n.buffer for n in in_memory]):
        names = list(map(id, row))
        if len(set(names)) < len(names):
            tokens.append(tuple(map(names.index, names)))
    return tuple(tokens)


def _gradient_token(grad: Node | None) -> Any:
    """Return what tells a gradient that has arrived, unlike others in memory."""
    if grad is None or grad.op is not LITERAL:
        return None if grad is None else grad.size
    return grad.size, repr(grad.attr)


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
