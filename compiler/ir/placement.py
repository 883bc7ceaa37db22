"""Where arrays lie: leaves of the trace that belong to a device.

A backend is part of a node's identity by its leaves: counters say in their attribute to
which device they belong, arrays by whose memory they have, or, until a kernel needs
them there, in their attribute, too. Operations on different leaves are different nodes,
so nothing else needs to know, and no operation takes longer. Literals belong nowhere,
nor does what the host computes of them: it goes where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from threading import get_ident
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from lumijit.compiler.ir import trace, value_numbering
from lumijit.compiler.ir.nodes import Node, begin_walk, reached
from lumijit.compiler.ir.ops.structural import COUNTER, EVALUATED, LITERAL, REGIONS
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.ir.roles import is_effect
from lumijit.runtime import buffers, device, recorders, workers
from lumijit.runtime.attached import Attached
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.contexts import Entry
from lumijit.runtime.device import DeviceId, find
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import BackendError

R = TypeVar("R")
# What is known of a node that hasn't been looked at.
_UNKNOWN: Final[Any] = object()
#: The devices that there have been leaves of: nearly always none.
used: Final[set[DeviceId]] = set()


class Address(NamedTuple):
    """An array of whose memory another one has the address, and in which entries."""

    array: Node
    held: Buffer
    places: Sequence[int]


def counter(size: int, where: DeviceId | None) -> Node:
    """Return the UInt32 sequence 0 … size - 1."""
    if where is None or size == 1:
        return trace.counter(size)
    used.add(where)
    key = (COUNTER, size, where)
    node = value_numbering.find_root(key, COUNTER)
    if node is None:
        node = trace.make_root(COUNTER, UINT32, size, where)
        value_numbering.note_root(key, node)
    return node


def placed(node: Node, where: DeviceId | None) -> Node:
    """Return an array in the host's memory as one that a device is to have.

    It stays where it is until a kernel needs it, as do arrays that are tracked.
    """
    if where is None or node.op is not EVALUATED:
        return node
    if node.vertex is not None or owner(node) is not None:
        return node
    used.add(where)
    assert node.buffer is not None
    made = trace.from_buffer(node.type, node.buffer, node.size)
    made.attr = where
    return made


def owner(node: Node) -> DeviceId | None:
    """Return which device a leaf belongs to."""
    buffer = node.buffer
    if buffer is not None:
        there = buffer.device
        if there is not None:
            found: DeviceId = there.id
            return found
    attr = node.attr
    return attr if isinstance(attr, DeviceId) else None


def _below(node: Node) -> Sequence[Node]:
    """Return what a node is made of, and arrays of which a leaf has the addresses."""
    op = node.op
    if op is EVALUATED:
        return [a.array for a in node.attr] if isinstance(node.attr, tuple) else ()
    if op in REGIONS:
        assert isinstance(node.attr, Region)
        return [*node.deps, *[n for block in node.attr.blocks for n in block.nodes]]
    return node.deps


def likely(nodes: list[Node]) -> DeviceId | None:
    """Return the device to which all of some nodes belong by what one finds first.

    Of each, one leaf is looked at. None if there may be several, or none. If all other
    leaves lie in that device's memory, or nowhere, it is the one that `divided` finds.
    """
    found: DeviceId | None = None
    walk = begin_walk()
    for node in nodes:
        while node.deps and node.walk != walk:
            node.walk = walk
            deps = node.deps
            node = deps[0]
            if node.op is LITERAL and len(deps) > 1:
                node = deps[1]
        if node.walk == walk:
            continue
        where = owner(node)
        if where is None or (found is not None and where is not found):
            return None
        found = where
    return found


def by_device(nodes: Iterable[Node]) -> dict[DeviceId | None, list[Node]]:
    """Return nodes by the devices that compute them; the host's are first.

    Raises:
        BackendError: if one is made of arrays of several devices.
    """
    return divided(nodes)[0]


def divided(
    nodes: Iterable[Node],
) -> tuple[dict[DeviceId | None, list[Node]], list[Node]]:
    """Return nodes by device, and which arrays they are made of the host has.

    Raises:
        BackendError: if one is made of arrays of several devices.
    """
    known: dict[Node, DeviceId | None] = {}
    found: dict[DeviceId | None, list[Node]] = {None: []}
    of_host: list[Node] = []
    for root in nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            where = owner(node)
            if node.op is EVALUATED:
                buffer = node.buffer
                if buffer is not None and buffer.device is None:
                    of_host.append(node)
                if not isinstance(node.attr, tuple):
                    known[node] = where
                    continue
            depth = len(stack)
            for other in _below(node):
                if other.op is LITERAL:
                    continue
                there = known.get(other, _UNKNOWN)
                if there is _UNKNOWN:
                    stack.append(other)
                elif where is None:
                    where = there
                elif there is not None and there is not where:
                    raise _mixed(node)
            if len(stack) == depth:
                stack.pop()
                known[node] = where
        where = known[root]
        group = found.get(where)
        if group is None:
            found[where] = [root]
        else:
            group.append(root)
    if found[None] and len(found) > 1:
        _follow(found)
    return found, of_host


def _follow(found: dict[DeviceId | None, list[Node]]) -> None:
    """Have devices compute of the host's nodes what takes writes that they carry out.

    What a write returns can't be had a second time. (Writes to memory that is made of
    literals belong nowhere.)
    """
    places: dict[int, DeviceId] = {}
    for owner, roots in found.items():
        if owner is not None:
            places |= {id(n): owner for n in reached(roots, _below) if is_effect(n)}
    is_moving = True
    while is_moving:
        rest, found[None] = found[None], []
        for root in rest:
            writes = [id(n) for n in reached((root,), _below) if is_effect(n)]
            owner = next((places[n] for n in writes if n in places), None)
            found[owner].append(root)
            if owner is not None:
                places |= dict.fromkeys(writes, owner)
        is_moving = len(found[None]) < len(rest)


def _joined(owners: set[DeviceId | None]) -> DeviceId | None:
    """Return the one device to which nodes belong that are computed together."""
    several = owners - {None}
    if len(several) > 1:
        raise _meeting(" and ".join(sorted(map(_name, several))))
    return several.pop() if several else None


def _name(where: DeviceId | None) -> str:
    assert where is not None
    return f"{where.backend}:{where.number}"


def _mixed(node: Node) -> BackendError:
    """Return the error that a node is made of arrays of several devices: of which."""
    found: dict[str, str] = {}
    for leaf in reached((node,), _below):
        where = owner(leaf)
        if where is not None:
            kind = "an array" if leaf.op is EVALUATED else "a range"
            text = f"{kind} of {leaf.size} {leaf.type} on {_name(where)}"
            found.setdefault(_name(where), text)
    return _meeting(" and ".join(text for _, text in sorted(found.items())))


def _meeting(what: str) -> BackendError:
    return BackendError(
        "evaluation",
        f"arrays of several devices meet in one computation ({what})",
        "make all of them on one device (lumijit.scoped_device), or copy one by way "
        "of the host: Float(x.numpy()).",
    )


def there(nodes: Iterable[Node]) -> Entry:
    """Have this thread compute where nodes belong; where it does if that is nowhere.

    Raises:
        BackendError: if that device isn't there.
    """
    return at(_joined(set(by_device(nodes))) if used else None)


def owner_of(*nodes: Node) -> DeviceId | None:
    """Return which device computes nodes; None if they belong nowhere."""
    return _joined(set(by_device(nodes)))


def at(where: DeviceId | None) -> Entry:
    """Have this thread compute on a device; where it does if that is None."""
    return device.on(device.away.get(get_ident()) if where is None else find(where))


def is_elsewhere(*nodes: Node) -> bool:
    """Tell whether nodes belong to a device that this thread doesn't compute on."""
    owner = owner_of(*nodes)
    return owner is not None and find(owner) is not device.away.get(get_ident())


def run_there(function: Callable[..., R], *args: Any) -> R:
    """Call a function where the nodes belong that it is given."""
    with there(a for a in args if isinstance(a, Node)):
        return function(*args)


def bring(node: Node) -> None:
    """Put an array into the memory of the device that this thread computes on."""
    target, buffer = device.away.get(get_ident()), node.buffer
    assert buffer is not None
    if target is None or buffer.device is target:
        return
    assert buffer.device is None
    workers.sync()
    buffer.check_intact()
    addressed = node.attr if isinstance(node.attr, tuple) else None
    if addressed:
        node.buffer, node.attr = _with_addresses(node, target)
    else:
        node.buffer, node.attr = _copied(buffer, target), addressed


def _copied(buffer: Buffer, target: Attached) -> Buffer:
    """Return memory of a device with what the host's has."""
    return _filled(buffer, target, buffer.address)


def _filled(buffer: Buffer, target: Attached, address: int) -> Buffer:
    """Return memory of a device for what the host's has, with bytes of an address."""
    size_bytes, is_heard = buffer.size_bytes, recorders.listening
    with recorders.hearing(None) if is_heard else nullcontext():
        made = target.allocate(size_bytes)
    target.copy_in(made.address, address, size_bytes)
    if is_heard:
        recorders.present().note_brought(buffer, made, address)
    return made


def _with_addresses(
    table: Node, target: Attached
) -> tuple[Buffer, tuple[Address, ...]]:
    """Return a table's memory on a device, with arrays there as what it addresses."""
    assert table.buffer is not None
    entries = np.array(buffers.as_numpy(table.buffer, table.type, table.size))
    moved: dict[int, Buffer] = {}
    addressed = []
    for array, held, places in table.attr:
        there = held if held.device is target else moved.get(held.address)
        if there is None:
            held.check_intact()
            if array.buffer is held or isinstance(array.attr, tuple):
                bring(array)
                there = array.buffer
            else:
                # (By now, something else is the array's.)
                there = _copied(held, target)
            assert there is not None
            moved[held.address] = there
        entries[places] = there.address
        addressed.append(Address(array, there, places))
    made = _filled(table.buffer, target, entries.ctypes.data)
    return made, tuple(addressed)


def bring_all(nodes: Iterable[Node]) -> None:
    """Bring all arrays that nodes are made of."""
    for node in reached(nodes, _below):
        if node.op is EVALUATED:
            bring(node)
