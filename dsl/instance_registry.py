"""The numbers that stand for Python objects in instance arrays.

Owns which object has which number, and which numbers a traced array may contain. The
array types are made by `instances`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import SUB
from lumijit.compiler.ir.ops.logic import AND, COPY, EQ, LT, SELECT, SHR
from lumijit.compiler.ir.ops.structural import (
    GATHER,
    LITERAL,
    LOOP,
    PROJECT,
    SCATTER,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import memory
from lumijit.runtime import device
from lumijit.runtime.device import DeviceId
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import ArrayTypeError, SizeError

# A number is a slot, from 1 on, and how often the slot was used before.
SLOT_BITS = 20
_SLOT_MASK = (1 << SLOT_BITS) - 1
_LAST_GENERATION = (1 << (32 - SLOT_BITS)) - 1
# After as many, a loop's pointer may hold any object: a list would take a trace each.
MAX_WIDENINGS = 4
_NONE = frozenset({0})
_NOTHING: frozenset[int] = frozenset()


class ScalarInstance:
    """What types are derived from that stand for instance arrays of scalars.

    They have no instances: making one gives the object itself.
    """

    def __init__(self, instance: Any = 0) -> None:
        """Take an object, None, or 0 for that. (What is derived returns it.)"""


class Domain:
    """The objects of one base class to which arrays refer, by number; 0 is None.

    Objects aren't kept alive. The number of one that is gone stands for None; its
    slot gets other numbers later, which no existing array contains.
    """

    def __init__(self, base: type[Any]) -> None:
        self.base = base
        self._numbers: dict[int, int] = {}
        self._objects: dict[int, ReferenceType[Any]] = {}
        self._generations: list[int] = [0]
        self._free: list[int] = []
        self.is_reused = False

    @property
    def limit(self) -> int:
        """The first slot that was never used."""
        return len(self._generations)

    def instances(self, numbers: frozenset[int] | None) -> Iterator[tuple[int, Any]]:
        """Yield the live objects (those among `numbers`, if given) with their slots."""
        for slot in sorted(self._objects):
            number = slot | self._generations[slot] << SLOT_BITS
            instance = self._objects[slot]()
            is_wanted = numbers is None or number in numbers
            if instance is not None and is_wanted:
                yield slot, instance

    def number(self, instance: Any, construct: str) -> int:
        """Return the number that stands for an object, or for None."""
        if instance is None:
            return 0
        known = self._numbers.get(id(instance))
        if known is not None:
            return known
        if not isinstance(instance, self.base):
            raise ArrayTypeError(
                construct,
                f"an object of type {type(instance).__name__!r} is no instance of "
                f"{self.base.__name__!r}",
                f"derive its class from {self.base.__name__}, or pass None.",
            )
        slot = self._take_slot(construct)
        number = slot | self._generations[slot] << SLOT_BITS
        key = id(instance)

        def forget(
            _: Any, numbers: Any = self._numbers, free: Any = self._free
        ) -> None:
            numbers.pop(key, None)
            heappush(free, slot)

        try:
            self._objects[slot] = ref(instance, forget)
        except TypeError:
            heappush(self._free, slot)
            raise ArrayTypeError(
                construct,
                f"objects of type {type(instance).__name__!r} can't be referred to "
                "weakly",
                "add '__weakref__' to the __slots__ of the class.",
            ) from None
        self._numbers[key] = number
        return number

    def _take_slot(self, construct: str) -> int:
        # The smallest first: then objects have the order in which they came, as far
        # as it goes, and kernels that call them one structure.
        while self._free:
            slot = heappop(self._free)
            self._objects.pop(slot, None)
            if self._generations[slot] < _LAST_GENERATION:
                self._generations[slot] += 1
                self.is_reused = True
                return slot
        if self.limit > _SLOT_MASK:
            raise SizeError(
                construct,
                f"there are more than {_SLOT_MASK} instances of {self.base.__name__!r}",
                "drop references to instances that aren't needed any more.",
            )
        self._generations.append(0)
        return self.limit - 1

    def instance(self, number: int) -> Any:
        """Return the object that a number stands for, or None."""
        slot = number & _SLOT_MASK
        if not 0 < slot < self.limit:
            return None
        if self._generations[slot] != number >> SLOT_BITS:
            return None
        found = self._objects.get(slot)
        return found() if found is not None else None

    def resolve(self, numbers: Node, active: Node) -> tuple[Node, Node]:
        """Return positions (slots from 0 on; None is beyond all) and who calls."""
        mask = trace.literal(UINT32, _SLOT_MASK)
        slots = trace.emit2(AND, numbers, mask)
        if self.is_reused and _may_be_stale(numbers):
            active = trace.emit2(AND, active, self._is_current(numbers, slots, active))
        return trace.emit2(SUB, slots, trace.literal(UINT32, 1)), active

    def _is_current(self, numbers: Node, slots: Node, active: Node) -> Node:
        """Return where a number's generation is the one that its slot is in."""
        bits = trace.literal(UINT32, SLOT_BITS)
        known = evaluate.from_numpy(np.array(self._generations, np.uint32))
        inside = trace.emit2(LT, slots, trace.literal(UINT32, self.limit))
        with trace.unmasked(), trace.guarded(None):
            wanted = memory.entries(known, slots, trace.emit2(AND, inside, active))
        return trace.emit2(EQ, trace.emit2(SHR, numbers, bits), wanted)


_CONTENTS: WeakKeyDictionary[Node, frozenset[int]] = WeakKeyDictionary()


def note_contents(node: Node, numbers: Iterable[int]) -> None:
    """Remember which numbers an array was made of."""
    _CONTENTS[node] = frozenset(numbers)


def contents(*nodes: Node) -> frozenset[int] | None:
    """Return the numbers that arrays may contain, or None if they aren't known.

    They are followed from the lists that arrays were made of, through gathers,
    selections, writes and regions. So a call traces no objects that it can't meet.
    Instance arrays ask whenever they get a node, since its evaluation forgets what it
    was computed from.
    """
    found: list[frozenset[int]] = []
    seen: set[Node] = set()
    stack = list(nodes)
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        op, deps = current.op, current.deps
        known = _CONTENTS.get(current)
        if known is not None:
            found.append(known)
        elif op is LITERAL:
            found.append(frozenset((current.attr,)))
        elif op is UNDEFINED:
            # Numbers that nobody wrote stand for nothing.
            pass
        elif op is GATHER or op is COPY:
            stack.append(deps[0])
        elif op is SELECT:
            stack += deps[1:]
        elif op is PROJECT:
            stack += _sources(deps[0], current.attr)
        elif op is WRITTEN and _is_exchanged(deps[0]):
            stack += deps[0].deps[:2]
        else:
            return None
    # Arrays of a table share its set.
    result = found[0] if len(found) == 1 else _NOTHING.union(*found)
    if len(nodes) == 1:
        _CONTENTS[nodes[0]] = result
    return result


def opaque(node: Node, where: DeviceId | None = None) -> Node:
    """Return a node whose contents lie in memory, of a literal with what is known.

    That of a literal is one that a device is to have, and has at once if it is there.
    """
    if where is not None and node.op is LITERAL and where in device.opened:
        placement.used.add(where)
        with placement.at(where):
            found = evaluate.opaque(node)
    else:
        found = placement.placed(evaluate.opaque(node), where)
    return node if found is node else _known_as(node, found)


def placed(node: Node, where: DeviceId | None) -> Node:
    """Return an array as one that a device is to have, with what is known of it."""
    return _known_as(node, placement.placed(node, where))


def _known_as(node: Node, found: Node) -> Node:
    """Note of another node what is known of the entries, which are the same."""
    if found is not node and node.type is UINT32:
        known = contents(node)
        if known is not None:
            note_contents(found, known)
    return found


def _is_exchanged(effect: Node) -> bool:
    """Tell whether an effect replaces entries by those of another array."""
    return effect.op is SCATTER and effect.attr.op == "identity"


class Pointers:
    """What the arguments of a loop's body may hold: assumed, and then widened.

    At first that is what the state holds before the loop. Where an iteration may
    leave more, the body is traced again.
    """

    def __init__(self) -> None:
        # For each leaf what iterations have left, after each trace.
        self._left: dict[int, list[frozenset[int] | None]] = {}

    def assume(self, k: int, array: Any, argument: Node) -> None:
        """Note what the argument for an array of the state may hold."""
        if type(array)._spec.is_instance:
            parts = [contents(array._node), *self._left.setdefault(k, [])]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts) <= MAX_WIDENINGS:
                note_contents(argument, _NONE.union(*known))

    def suffice(self, k: int, argument: Node, output: Node) -> bool:
        """Tell whether an argument may hold what an iteration leaves, or widen it."""
        left = self._left.get(k)
        assumed = None if left is None else contents(argument)
        if left is None or assumed is None:
            return True
        found = contents(output)
        if found is not None and found <= assumed:
            return True
        left.append(found)
        return False


def _may_be_stale(node: Node) -> bool:
    """Tell whether two numbers of an array may share a slot."""
    numbers = contents(node)
    if numbers is None:
        return True
    return len({number & _SLOT_MASK for number in numbers}) < len(numbers)


def _sources(region: Node, position: int) -> list[Node]:
    """Return what a region's result is taken from."""
    attr = region.attr
    if region.op is not LOOP:
        return [block.outputs[position] for block in attr.blocks]
    first, last = region.deps[position], attr.body.outputs[position]
    return [first] if last is attr.args[position] else [first, last]
