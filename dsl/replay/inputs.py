"""What a call of a recorded function depends on: arrays, numbers, and its key.

Arrays and numbers may differ from call to call; the key tells all else: structure and
types of the arguments, and of the objects that the function reaches from outside. Calls
with equal keys look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from threading import get_ident
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import placement, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import evaluate
from lumijit.control.bare_classes import look_at
from lumijit.control.bytecode import PLAIN, is_own, is_users, keys_of
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
from lumijit.runtime import device
from lumijit.runtime.attached import Attached
from lumijit.runtime.device import find


class Arguments:
    """The arguments of one call, taken apart.

    `objects` are those that are no PyTrees, which the function may change, and keys.
    """

    def __init__(
        self, values: Sequence[Any], labels: tuple[str, ...], static: frozenset[str]
    ) -> None:
        parts = self.parts = pytree.Parts(values, labels)
        self.arrays: list[FlatArray] = []
        self.numbers: list[Any] = []
        self.objects: list[Any] = []
        self.containers = parts.containers
        self.is_static = [False] * len(parts.leaves)
        if static:
            self.is_static = [_root_of(name) in static for name in parts.names]
        key: list[Any] = [labels]
        for k, leaf in enumerate(parts.leaves):
            kind = type(leaf)
            sort = _sort_of(kind)
            if sort == _ARRAY:
                key.append(kind)
                self.arrays.append(leaf)
            elif sort == _NUMBER and not self.is_static[k]:
                key.append(kind)
                self.numbers.append(leaf)
            elif sort == _INSTANCES:
                key.append(kind)
                self.arrays.append(leaf)
                self.objects += instances_of(leaf)
            elif sort == _OBJECT:
                # Its contents are told by the surroundings.
                key.append(object_token(leaf))
                self.objects.append(leaf)
            else:
                key.append(value_token(leaf))
                if (isinstance(leaf, type) and is_users(leaf.__module__)) or (
                    isinstance(leaf, (ModuleType, BuiltinFunctionType))
                ):
                    self.objects.append(leaf)
                elif is_own(kind):
                    self.objects.append(kind)
        if self.containers:
            key += [
                m if m is None or isinstance(m, pytree.Kind) else tuple(m)
                for m in parts.outline
            ]
            self._look_at_containers(key)
        #: What arguments that look alike have in common.
        self.key = tuple(key)

    def _look_at_containers(self, key: list[Any]) -> None:
        """Add what tells containers besides keys, and what their methods lead to."""
        last: Any = None
        looked: Any = None
        has_settings = has_dicts = False
        for container in self.containers:
            cls = type(container)
            if cls is not last:
                last = cls
                has_settings = hasattr(cls, "_rebuilt")
                looked = look_at(cls)
                if looked.leads_on or looked.calls_others:
                    root = cls if looked.leads_on else looked
                    if not any([root is known for known in self.objects]):
                        self.objects.append(root)
            if has_settings:
                found = container._settings()
                tokens = [v if type(v) is int else value_token(v) for v in found]
                key.append(tuple(tokens))
            elif cls is dict:
                # (The outline has keys in one order, of which there may be others.)
                # Equal ones may be of other types (1 and True).
                key += [tuple(container), tuple(map(type, container))]
                has_dicts = True
            elif looked.fields and len(container.__dict__) > len(looked.fields):
                key.append(tuple(_undeclared(container, looked.fields)))
        if has_dicts:
            self.objects += keys_of(self.containers)

    def number_names(self) -> list[str]:
        """Name the numbers as a user would write them."""
        leaves = zip(self.parts.names, self.parts.leaves, self.is_static, strict=True)
        return [n for n, v, stays in leaves if type(v) in NUMBERS and not stays]

    def array_names(self) -> list[str]:
        """Name the arrays as a user would write them."""
        leaves = zip(self.parts.names, self.parts.leaves, strict=True)
        return [n for n, v in leaves if isinstance(v, FlatArray)]


def _undeclared(value: Any, fields: Container[str]) -> Iterator[Any]:
    """Yield what tells a struct besides its fields; arrays there are none of them."""
    for name, found in value.__dict__.items():
        if name not in fields and not isinstance(found, ArrayBase):
            yield name, value_token(found)


_ARRAY: Final = 0
_INSTANCES: Final = 1
_NUMBER: Final = 2
_OBJECT: Final = 3
_SETTLED: Final = 4


class _Sorts(dict[type[Any], int]):
    """What leaves of each type are: asked for each argument.

    Classes of a program are found anew: one that has a decorated method has all that
    this one has recorded, which would live as long as what refers to the class.
    """

    def __missing__(self, kind: type[Any]) -> int:
        if issubclass(kind, FlatArray):
            found = _INSTANCES if issubclass(kind, InstanceArray) else _ARRAY
        elif kind in NUMBERS:
            found = _NUMBER
        elif kind in PLAIN:
            found = _SETTLED
        else:
            return _SETTLED if is_settled(kind) else _OBJECT
        self[kind] = found
        return found


_sort_of = _Sorts().__getitem__


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


class Call:
    """One call of a recorded function: its inputs, and how it is run.

    `inputs` are the nodes of its arrays, all of them in memory or literals, and then
    the gradients that have arrived at them.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        keywords: tuple[str, ...],
        arguments: Arguments,
        surroundings: Surroundings,
    ) -> None:
        self.name = name
        self._function = function
        # The names of the last arguments.
        self._keywords = keywords
        self.arguments = arguments
        self.surroundings = surroundings
        self.arrays = arguments.arrays + surroundings.arrays
        self.numbers = arguments.numbers + surroundings.numbers
        self.inputs = as_inputs(self.arrays)
        if evaluate.evaluate_all(self.inputs):
            self.inputs = as_inputs(self.arrays)
        #: Which device is to run it, if not the host; several can't.
        self.device: Attached | None = None
        self.has_several_devices = False
        if placement.used:
            self._meet_on_device()

    def shows_numbers(self) -> bool:
        """Tell whether objects that others see hold some of its numbers."""
        return bool(self.surroundings.where or self.arguments.containers)

    def _meet_on_device(self) -> None:
        """Have all inputs lie on the device to which they belong, if it is one."""
        there = self._common_device()
        if there is not None:
            self.device = there
            return
        kinds = {array._spec.backend.device for array in self.arrays}
        owners = {placement.owner(node) for node in self.inputs} - {None}
        if not owners:
            owners = kinds - {None}
        self.has_several_devices = len(owners) > 1 or (bool(owners) and None in kinds)
        if owners and not self.has_several_devices:
            (found,) = owners
            assert found is not None
            target = self.device = find(found)
            buffers = [node.buffer for node in self.inputs]
            if any([b is not None and b.device is not target for b in buffers]):
                with device.on(target):
                    placement.bring_all(self.inputs)

    def _common_device(self) -> Attached | None:
        """Return the device that has all inputs, which are of its kind, if one does."""
        there: Attached | None = None
        for node in self.inputs:
            buffer = node.buffer
            if buffer is None or buffer.device is None:
                return None
            if buffer.device is not there:
                if there is not None:
                    return None
                there = buffer.device
        if there is not None:
            for array in self.arrays:
                if array._spec.backend.device is not there.id:
                    return None
        return there

    def run(self, values: Sequence[Any]) -> Any:
        """Call the function with arguments like those of the call."""
        count = len(values) - len(self._keywords)
        given = dict(zip(self._keywords, values[count:], strict=True))
        return self._function(*values[:count], **given)

    def key(self) -> tuple[Any, ...]:
        """Return what calls have in common that look alike, but for flags."""
        arguments, surroundings = self.arguments, self.surroundings
        aliases = surroundings.aliases(arguments.containers)
        tokens = array_tokens(self.arrays, self.inputs)
        if self.device is not None:
            tokens += (self.device,)
        if device.chosen:
            tokens += (device.chosen.get(get_ident()),)
        return (arguments.key, surroundings.key, aliases, tokens)

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


def array_tokens(arrays: list[FlatArray], nodes: list[Node]) -> tuple[Any, ...]:
    """Return what tells arrays, by their nodes, from others.

    Sizes belong to it, and which arrays, nodes and addresses are one: a tape knows
    memory by its address, which several buffers share that are one NumPy array's.

    Args:
        arrays: the arrays of a call.
        nodes: their nodes, and then the gradients that have arrived at them.
    """
    tokens: list[Any] = []
    memory: set[int] = set()
    is_simple = True
    for k, array in enumerate(arrays):
        node = nodes[k]
        tokens.append(node.size)
        buffer = node.buffer
        if buffer is None:
            is_simple = False
        else:
            memory.add(buffer.address)
        is_simple &= node.vertex is None and _sort_of(type(array)) == _ARRAY
    # Mostly, sizes are all that there is to tell.
    if is_simple and len(memory) == len(tokens):
        return tuple(tokens)
    return _all_tokens(arrays, nodes)


def _all_tokens(arrays: Sequence[FlatArray], nodes: list[Node]) -> tuple[Any, ...]:
    tokens: list[Any] = []
    count = len(arrays)
    for array, node in zip(arrays, nodes[:count], strict=True):
        # A literal of one entry is put into memory.
        is_told = node.op is LITERAL and node.size != 1
        tokens.append((node.size, repr(node.attr)) if is_told else node.size)
        vertex = node.vertex
        if vertex is not None:
            is_variable = vertex.serial in vertices.variables
            grad = _gradient_token(vertex.grad)
            tokens.append((vertices.is_tracked(node), is_variable, grad))
        if isinstance(array, InstanceArray):
            numbers = contents(node)
            found = array._domain.instances(numbers)
            tokens.append((numbers, *[slot for slot, _ in found]))
    # Literals are told by their values, whichever nodes these have.
    own = zip(arrays, nodes[:count], strict=True)
    once = {id(array): node for array, node in own}
    in_memory = [n for n in once.values() if n.buffer is not None]
    # (One node's gradient is one.)
    grads = {id(n.vertex): n.vertex.grad for n in once.values() if n.vertex is not None}
    in_memory += [g for g in grads.values() if g is not None and g.buffer is not None]
    addresses = [b.address for b in [n.buffer for n in in_memory] if b is not None]
    rows = list(map(id, arrays)), list(map(id, in_memory)), addresses
    for k, names in enumerate(rows):
        if len(set(names)) < len(names):
            tokens.append((k, *map(names.index, names)))
    return tuple(tokens)


def _gradient_token(grad: Node | None) -> Any:
    """Return what tells a gradient that has arrived, unlike others in memory."""
    if grad is None or grad.op is not LITERAL:
        return None if grad is None else grad.size
    return grad.size, repr(grad.attr)


def as_inputs(arrays: list[FlatArray]) -> list[Node]:
    """Return the nodes of arrays, and the gradients that have arrived at them."""
    found: list[Node] = []
    grads: list[Node] = []
    for array in arrays:
        node = array._node
        found.append(node)
        vertex = node.vertex
        if vertex is not None and vertex.grad is not None:
            grads.append(vertex.grad)
    return found + grads
