"""Describing a recorded call: results, told by inputs and by what its jobs compute."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder, wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL
from lumijit.instance_registry import contents
from lumijit.instances import InstanceArray
from lumijit.replay.numbers import Number
from lumijit.replay.playback import (
    Leaf,
    Made,
    Put,
    Recording,
)
from lumijit.replay.tokens import HOST, is_settled
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.replay_layout import replay_of
from lumijit.scalar_arrays import HostArray


class Owner:
    """Stands for an object that the call got or reached, the owner of a place."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place


class UnknownObjectError(Exception):
    """An object that is neither an input nor made of what is computed."""


class Describer:
    """Describes the results of a call by its inputs and what its jobs compute."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        inputs = list(enumerate(recorder.inputs))
        self.inputs = {id(n): k for k, n in reversed(inputs)}
        self.memory = {id(n.buffer): k for k, n in reversed(inputs) if n.buffer}
        self.arrays = {id(a): k for k, a in reversed(list(enumerate(recorder.arrays)))}
        slots = enumerate(recorder.slot_nodes.values())
        self.slots = {id(n.buffer): k for k, n in slots}
        self.outputs: dict[int, int] = {}
        self.buffers: list[Buffer] = []
        self.nodes: list[Made] = []
        self.made: dict[int, int] = {}

    def describe(self, puts: list[Put]) -> Recording:
        """Return the recording."""
        recorder = self.recorder
        leaves = self._leaves(recorder.parts.leaves)
        changed: dict[int, tuple[int, int]] = {}
        gradients: dict[int, tuple[int, int | None]] = {}
        first = zip(recorder.arrays, recorder.first, recorder.gradients, strict=True)
        for k, (array, node, gradient) in enumerate(first):
            if array._node is not node:
                changed.setdefault(id(array), (k, self._node(array._node)))
            elif node.vertex is not None and node.vertex.grad is not gradient:
                grad = node.vertex.grad
                made = None if grad is None else self._node(grad)
                gradients.setdefault(id(node), (k, made))
        reports = [
            (report, [self._node_if_written(holder) for holder in report.holders])
            for report in recorder.reports
        ]
        return Recording(
            replay_of(recorder.tape, self.buffers),
            recorder.slots,
            recorder.arithmetic,
            self.nodes,
            _outline(recorder.parts, leaves),
            leaves,
            puts,
            list(changed.values()),
            list(gradients.values()),
            reports,
        )

    def _node_if_written(self, holder: Holder) -> int | None:
        node = holder._node
        return self._node(node) if node.op is EVALUATED else None

    def _leaves(self, values: list[Any]) -> list[Leaf]:
        """Return how leaves come about; an array that comes twice is one array."""
        found: list[Leaf] = []
        first: dict[int, int] = {}
        for k, value in enumerate(values):
            known = first.setdefault(id(value), k)
            is_again = known < k and isinstance(value, (FlatArray, *HOST))
            found.append(Leaf("again", known) if is_again else self._leaf(value))
        return found

    def _leaf(self, value: Any) -> Leaf:
        """Return how a leaf of the results comes about."""
        if type(value) is Number:
            return Leaf("number", value.index)
        if type(value) is Owner:
            return Leaf("owner", value.place)
        if isinstance(value, FlatArray):
            known = self.arrays.get(id(value))
            if known is not None:
                return Leaf("array", known)
            found = None
            if isinstance(value, InstanceArray):
                found = contents(value._node)
            return Leaf("new", self._node(value._node), type(value), found)
        if not self._is_known(value):
            raise UnknownObjectError(type(value).__name__)
        if isinstance(value, HOST) and not self._is_reached(value):
            if isinstance(value, memoryview):
                # (Of memory that the function has made.)
                raise UnknownObjectError(type(value).__name__)
            return Leaf("copy", copy(value))
        return Leaf("constant", value)

    def _is_known(self, value: Any) -> bool:
        if isinstance(value, np.ndarray) and value.dtype == object:
            return self._is_reached(value)
        return (
            is_settled(type(value))
            or (type(value) is frozenset and all(map(self._is_known, value)))
            or self._is_reached(value)
            or any(value is known for known in self.recorder.call.arguments.objects)
        )

    def _is_reached(self, value: Any) -> bool:
        return id(value) in self.recorder.call.surroundings.reach.seen

    def _node(self, node: Node) -> int:
        """Return which of the nodes of a call a node is."""
        known = self.made.get(id(node))
        if known is not None:
            return known
        same = self.inputs.get(id(node))
        vertex = node.vertex
        grad = None
        if same is not None:
            kind, source = "same", same
        else:
            kind, source = self._source(node)
            if vertex is not None and vertex.grad is not None:
                grad = self._node(vertex.grad)
        what = ""
        if vertex is not None and vertices.is_tracked(node):
            is_variable = vertex.serial in vertices.variables
            ended = "cleared" if vertex.is_cut else "end"
            what = "variable" if is_variable else ended
        made = Made(kind, source, node.type, node.size, what, grad)
        self.nodes.append(made)
        self.made[id(node)] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def _source(self, node: Node) -> tuple[str, Any]:
        """Return where the contents of a node come from."""
        if node.op is LITERAL:
            return "literal", node.attr
        buffer = node.buffer
        assert buffer is not None
        name = id(buffer)
        if name in self.memory:
            return "input", self.memory[name]
        if name in self.slots:
            return "slot", self.slots[name]
        tape = self.recorder.tape
        if name in tape.filled or name not in tape.taken:
            return "memory", buffer
        if name not in self.outputs:
            self.outputs[name] = len(self.buffers)
            self.buffers.append(buffer)
        return "output", self.outputs[name]


def _outline(parts: pytree.Parts, leaves: list[Leaf]) -> pytree.Parts:
    """Return the structure of PyTrees, without what they hold on devices."""
    light: dict[int, Any] = {}
    for v in parts.leaves:
        if isinstance(v, FlatArray) and id(v) not in light:
            t = v._node.type
            light[id(v)] = wrap(type(v), trace.literal(t, t.wrap(0), v._node.size))
    for v, leaf in zip(parts.leaves, leaves, strict=True):
        if isinstance(v, HostArray):
            light.setdefault(id(v), leaf.source)
    return pytree.Parts(parts.together([light.get(id(v)) for v in parts.leaves]))
