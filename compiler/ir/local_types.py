"""The types of local buffers, and the order of the accesses to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Protocol

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LOCAL, REGIONS
from lumijit.runtime.dtypes import DType

#: Buffers in memory are stored in chunks of so many lanes, entry after entry.
CHUNK = 64


MAX_LENGTH = 1 << 20


_LOCAL_BIT = 1 << 7


_types: dict[tuple[DType, int], LocalType] = {}
# Accesses are numbered in the order of the program.
_serials = itertools.count(1)


class LocalType(DType):
    """The type of buffers of `length` entries of type `element`; a singleton each."""

    __slots__ = ("element", "length")

    def __init__(self, element: DType, length: int) -> None:
        super().__init__(
            (length << 8) | _LOCAL_BIT | element.index,
            f"Local[{element.name}, {length}]",
            f"{element.short}x{length}",
            None,
            element.llvm,
            8 * element.size_bytes * length,
            "v",
        )
        self.element = element
        self.is_differentiable = element.is_float
        self.length = length


def local_type(element: DType, length: int) -> LocalType:
    """Return the type of buffers of a length."""
    found = _types.get((element, length))
    if found is None:
        found = _types[element, length] = LocalType(element, length)
    return found


def in_use() -> bool:
    """Tell whether the process has ever made a buffer: programs then look for them."""
    return bool(_types)


class ReadSerial(int):
    """The serial number of a read.

    For value numbering, all are equal: the first of several equal reads counts.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReadSerial)

    def __hash__(self) -> int:
        return 0


def next_serial() -> int:
    """Return the number of the next access."""
    return next(_serials)


def renumbered(serial: int) -> int:
    """Return the number for making an access once more, now."""
    return type(serial)(next(_serials))


def stored_lanes(node: Node) -> int:
    """Return how many entries of a node's type its memory holds."""
    if isinstance(node.type, LocalType):
        return -(-node.size // CHUNK) * CHUNK
    return node.size


def access_of(node: Node) -> int:
    """Return when a node accessed local memory, or a region did last; 0: never."""
    if node.op.is_ordered:
        return int(node.attr)
    if node.op.lower is not None or node.op not in REGIONS:
        return 0
    last: int = max([block.last_access for block in node.attr.blocks])
    return last


def accesses(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that access local memory, in the order of the program.

    In that order, reads of a version come before the write that replaces it, so
    that writes can happen in place.
    """
    found: list[tuple[int, int, Node]] = []
    for node in nodes:
        serial = access_of(node)
        if serial:
            found.append((serial, len(found), node))
    return [node for _, _, node in sorted(found)]


def is_local(node: Node) -> bool:
    """Tell whether a node is a version of a buffer."""
    return isinstance(node.type, LocalType)


class _Typed(Protocol):
    @property
    def type(self) -> DType: ...


def local_type_of(version: _Typed) -> LocalType:
    """Return the type of a buffer, given a version of it or what stands for one."""
    assert isinstance(version.type, LocalType)
    return version.type


def local_deps(node: Node) -> Iterator[Node]:
    """Yield the operands that are versions of buffers."""
    return (dep for dep in node.deps if isinstance(dep.type, LocalType))


def is_undefined(node: Node) -> bool:
    """Tell whether a node is a buffer of which no entry has been written."""
    return node.op is LOCAL and not node.deps
