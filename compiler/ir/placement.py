"""Where arrays lie: leaves of the trace that belong to a device.

A backend is part of a node's identity by its leaves: counters and arrays in memory say
in their attribute to which device they belong (None: to the host). Operations on
different leaves are different nodes, so nothing else needs to know, and no operation
takes longer. Literals belong nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lumijit.compiler.ir import trace, value_numbering
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import COUNTER, EVALUATED, REGIONS
from lumijit.compiler.ir.region_types import Region
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import BackendError


@dataclass(frozen=True, eq=False)
class Device:
    """What computes arrays of a backend; `missing` says why it can't, if so."""

    name: str
    missing: str

    def refusal(self) -> BackendError:
        """Word the error for arrays that would have to be computed."""
        return BackendError(
            f"lumijit.{self.name}",
            self.missing,
            "compute with the types of lumijit.llvm, or of lumijit.auto; lumijit.ptx "
            "shows the code of kernels.",
        )


#: Whether there is any leaf of a device.
is_used = False


def counter(size: int, device: Device | None) -> Node:
    """Return the UInt32 sequence 0 … size - 1."""
    if device is None or size == 1:
        return trace.counter(size)
    _note()
    key = (COUNTER, size, device)
    entry = value_numbering.literals.get(key)
    node = entry() if entry is not None else None
    if node is None or node.op is not COUNTER:
        node = trace.make_root(COUNTER, UINT32, size, device)
        value_numbering.literals.remember(key, node)
    return node


def placed(node: Node, device: Device | None) -> Node:
    """Return an array in the host's memory as one that a device is to have.

    It stays where it is until a kernel needs it.
    """
    if device is None or node.op is not EVALUATED:
        return node
    _note()
    assert node.buffer is not None
    made = trace.from_buffer(node.type, node.buffer, node.size)
    made.attr = device
    return made


def _note() -> None:
    global is_used
    is_used = True


def require_host(nodes: Iterable[Node]) -> None:
    """Refuse to compute what depends on arrays of a device.

    Raises:
        BackendError: of the first such device.
    """
    todo = list(nodes)
    seen = set(map(id, todo))
    while todo:
        node = todo.pop()
        if isinstance(node.attr, Device):
            raise node.attr.refusal()
        below = list(node.deps)
        if node.op in REGIONS:
            assert isinstance(node.attr, Region)
            below += [n for block in node.attr.blocks for n in block.nodes]
        for dep in below:
            if id(dep) not in seen:
                seen.add(id(dep))
                todo.append(dep)
