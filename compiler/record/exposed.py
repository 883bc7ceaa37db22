"""Memory to which others may write, and what has been recorded of it.

NumPy's arrays and ours share memory, and nobody sees who writes to it. What derivatives
refer to must stay as it was. So whenever an operation is tracked, nodes that it is
computed of and that lie in such memory get a copy of it; an array whose view was handed
out goes on with the shared memory in another node, as what is written to the view shows
in the array (while a construct runs, once it is over). After constructs and before
traversals, so do all that somebody refers to.

Not compiled: it counts references, and those that C code holds are others.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.structural import WRITTEN
from lumijit.compiler.launch import evaluate, transfer
from lumijit.runtime import buffers, contexts, device, recorders, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import UINT32


class _Exposed:
    """A node whose memory others see, and the array that has it, if one is known.

    `thread` is the one that works with it: another one doesn't know what it is doing.
    """

    __slots__ = ("buffer", "copy", "holder", "node", "thread")

    def __init__(self, node: Node, buffer: Buffer) -> None:
        # Not cut short by Ctrl-C: no Python runs. (The reference is `pop`'s default.)
        self.buffer = ref(buffer, partial(_all.pop, id(buffer)))
        self.node = ref(node)
        self.holder: ref[Holder] | None = None
        self.thread = threading.current_thread()
        # What the last copy was; it serves as long as the contents are the same.
        self.copy: ref[Buffer] | None = None

    def copied(self, node: Node, buffer: Buffer) -> Buffer:
        """Return a copy of the memory as it is now."""
        if buffer.device is not None:
            return copied_there(buffer)
        known = self.copy() if self.copy is not None else None
        if known is not None:
            workers.sync()
            if np.array_equal(*(_words(memory, node) for memory in (known, buffer))):
                return known
        made = buffers.allocate(node.type.size_bytes * node.size)
        made._owner = buffers.SNAPSHOT
        # What others may write to is the host's.
        with device.on(None):
            transfer.copy(made, buffer, made.size_bytes)
        workers.sync()
        self.copy = ref(made)
        return made


def copied_there(buffer: Buffer) -> Buffer:
    """Return a copy of a device's memory on that device, which nobody writes to."""
    where = buffer.device
    made: Buffer = where.allocate(buffer.size_bytes)
    where.copy_within(made.address, buffer.address, buffer.size_bytes)
    made._owner = buffers.SNAPSHOT
    return made


def _words(buffer: Buffer, node: Node) -> Any:
    entries = buffers.as_numpy(buffer, node.type, node.size)
    return entries.view(f"u{node.type.size_bytes}")


# By the buffers' ids.
_all: dict[int, _Exposed] = vertices.exposed

# Nodes that were looked through for exposed memory since some was last noted.
_seen: WeakSet[Node] = WeakSet()


def note(node: Node, holder: Holder | None = None) -> None:
    """Note that others may write to a node's memory.

    Args:
        node: an evaluated node, of foreign memory or of which there is a view.
        holder: the array that is to go on with the memory.
    """
    buffer = node.buffer
    assert buffer is not None
    if buffer._owner is buffers.SNAPSHOT:
        return
    if buffer.device is not None and not buffer.is_foreign:
        # What Python sees of a device's memory is a copy, other libraries see all.
        return
    _seen.clear()
    exposed = _all.get(id(buffer))
    if exposed is None or exposed.node() is not node:
        exposed = _all[id(buffer)] = _Exposed(node, buffer)
    else:
        exposed.thread = threading.current_thread()
    if holder is not None:
        exposed.holder = ref(holder)


def hold(node: Node, holder: Holder) -> None:
    """Note which array goes on with a node's memory, if others may write to that."""
    if _all and node.buffer is not None and id(node.buffer) in _all:
        note(node, holder)


def is_exposed(buffer: Buffer) -> bool:
    """Tell whether somebody outside may write to a node's memory.

    The caller has one reference to it besides the node.
    """
    if buffer.is_foreign:
        return id(buffer) in _all
    known = recorders.present().references(buffer) if recorders.listening else 0
    return sys.getrefcount(buffer) - known > _UNEXPOSED


def _protect() -> None:
    """Give all that has been recorded copies of memory to which others may write.

    What another thread works with changes under its hands if this one exchanges memory
    and nodes. What this thread's derivatives need of it had a copy as it was used.
    """
    if not recorders.is_heard():
        mine = threading.current_thread()
        for exposed in list(_all.values()):
            if exposed.thread is mine or not exposed.thread.is_alive():
                _give_copy(exposed)


def _protect_operands(node: Node, deps: tuple[Node, ...]) -> None:
    """Give what a tracked node is computed of copies of such memory.

    Not while a function is recorded: nobody writes meanwhile, and a replay finds what
    arrays consist of by their nodes and memory.
    """
    if recorders.is_heard():
        return
    stack = list({*node.deps, *deps})
    while stack:
        dep = stack.pop()
        if dep.buffer is not None:
            exposed = _all.get(id(dep.buffer))
            if exposed is not None:
                _give_copy(exposed)
        elif dep.vertex is None and dep.deps and dep not in _seen:
            _seen.add(dep)
            stack += dep.deps


def _give_copy(exposed: _Exposed) -> None:
    """Give a node a copy of its memory if others than its array refer to it."""
    buffer = exposed.buffer()
    holder = exposed.holder() if exposed.holder is not None else None
    if buffer is None:
        return
    if holder is not None and holder._node.op is WRITTEN and is_exposed(buffer):
        if holder._node.scope is ROOT:
            # Writes go to the memory that there is, in a node of their own.
            evaluate.evaluate((holder._node,))
        else:
            # Those of a region that isn't over go to the copy.
            holder = None
    if holder is not None and holder._node.buffer is buffer:
        if _references(holder._node) <= _HELD:
            return
        exposed.node = ref(holder._node)
    node = exposed.node()
    if node is None:
        _all.pop(id(buffer), None)
    elif holder is None or holder._node is not node:
        # Nobody goes on with the memory.
        if node.buffer is buffer and is_exposed(buffer):
            node.buffer = exposed.copied(node, buffer)
    elif node.buffer is not buffer:
        _go_on(exposed, holder, buffer)
    elif is_exposed(buffer):
        node.buffer = exposed.copied(node, buffer)
        _go_on(exposed, holder, buffer)
    else:
        _all.pop(id(buffer), None)


def _go_on(exposed: _Exposed, holder: Holder, buffer: Buffer) -> None:
    """Have an array go on with the memory of its view, once no construct runs.

    A construct compares nodes to see what it changes.
    """
    if buffer.is_foreign:
        _all.pop(id(buffer), None)
    elif not contexts.is_apart():
        node = holder._node
        fresh = trace.from_buffer(node.type, buffer, node.size)
        fresh.vertex = node.vertex
        holder._rehouse(fresh)
        exposed.node = ref(fresh)


def _after_construct() -> None:
    if _all and vertices.variables:
        _protect()


def _references(node: Node) -> int:
    return sys.getrefcount(node)


def _count() -> tuple[int, int]:
    """Return how often a buffer is referred to that nobody else sees, and a node."""
    holder = Holder(trace.from_buffer(UINT32, buffers.allocate(4), 1))
    buffer = holder._node.buffer
    assert buffer is not None
    return _buffer_references(buffer), _references(holder._node)


def _buffer_references(buffer: Buffer) -> int:
    return sys.getrefcount(buffer)


_UNEXPOSED, _HELD = _count()
vertices.protect = _protect
vertices.protect_operands = _protect_operands
contexts.afterwards.append(_after_construct)
