"""Replaying a recorded call: jobs submitted with other inputs, results put together.

What a `Recording` says of nodes, leaves and changes is found out by `recording`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lumijit import initialize, pytree
from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.launch import evaluate
from lumijit.control.locations import Location
from lumijit.instance_registry import note_contents
from lumijit.replay.numbers import Arithmetic, Guard
from lumijit.runtime import buffers, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType
from lumijit.runtime.replay import Replay

# Numbers that kernels read lie apart, each in its line of the cache.
LINE = 64
#: Stands for all entries of a place.
EVERY: Any = object()


class Slot(NamedTuple):
    """A number in memory: which value it is, of what type, and who converts it how."""

    value: int
    dtype: DType
    construct: str
    cuts: bool

    def stored(self, value: Any) -> Any:
        """Convert a value."""
        if type(value) is float and self.dtype.is_float:
            return self.dtype.wrap(value)
        return initialize.number(value, self.dtype, self.construct, self.cuts)


class Made(NamedTuple):
    """How a node of a call comes about.

    `kind` tells what `source` is: an input ("same": that very node, "input": its
    memory), an output, a buffer that is kept ("memory"), a literal's value, or a slot.
    `vertex` tells what it is for derivatives: a "variable", a result of which it has
    been forgotten that it depends on others ("cleared") or may ("end"), or nothing.
    `grad` is the node of the gradient that has arrived there.
    """

    kind: str
    source: Any
    dtype: DType
    size: int
    vertex: str
    grad: int | None


class Leaf(NamedTuple):
    """How a leaf of what a call returns or leaves comes about.

    `kind` tells what `source` is: an input array itself ("array"), a node for a new
    array of a class ("new"), an earlier leaf ("again"), the place of an object that the
    call got or reached ("owner"), memory of the host of which each call gets its own
    ("copy"), a Python number, or any other value.
    """

    kind: str
    source: Any
    cls: Any = None
    contents: frozenset[int] | None = None


class Put(NamedTuple):
    """An entry that a call assigns: which place of `Call.place`, and which key."""

    place: int
    key: Any


@dataclass
class Recording:
    """What a function does when it is called with inputs that look alike."""

    replay: Replay
    # Numbers that kernels read.
    slots: list[Slot]
    arithmetic: Arithmetic
    nodes: list[Made]
    # The result, and the values of entries that are assigned.
    parts: pytree.Parts
    leaves: list[Leaf]
    puts: list[Put]
    # Input arrays that get other nodes, and inputs that get other gradients.
    changed: list[tuple[int, int]]
    gradients: list[tuple[int, int | None]]
    # What is told the user once its array is written.
    reports: list[tuple[Any, list[int | None]]]
    _compute: Any = field(init=False, repr=False)
    _nodes: list[tuple[Any, ...]] = field(init=False, repr=False)
    _leaves: list[tuple[Any, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._compute = self.arithmetic.compiled()
        # (Plain tuples are taken apart faster.)
        self._nodes = [tuple(made) for made in self.nodes]
        self._leaves = [tuple(leaf) for leaf in self.leaves]

    def played(
        self,
        arrays: list[FlatArray],
        inputs: list[Node],
        numbers_now: list[Any],
        place: Callable[[int], Location],
    ) -> tuple[bool, Any]:
        """Replay a call whose arrays lie in memory, and whose key is that recorded.

        Args:
            arrays: its arrays.
            inputs: their nodes, and the gradients that have arrived at them.
            numbers_now: its numbers.
            place: returns the places that it may change.

        Returns:
            True and the result, or False and the guard that doesn't hold.
        """
        replay = self.replay
        has_stops = bool(replay.stops)
        try:
            if has_stops:
                pieces = _Pieces(self, inputs)
                numbers = self._compute(numbers_now, pieces.entry)
            else:
                numbers = self._compute(numbers_now)
            if type(numbers) is Guard:
                return False, numbers
            stored = self.stored(numbers)
        except Exception as error:
            # The function itself says what is wrong, with its own line.
            return False, error
        if has_stops:
            outputs = pieces.finish(numbers)
        else:
            addresses, block = self.addresses(inputs, stored)
            outputs = replay.run(addresses)
            # It serves others from here on: jobs run in the order of submission.
            del block
        nodes = self._made(inputs, outputs, stored)
        for report, made in self.reports:
            for holder, k in zip(report.holders, made, strict=True):
                if k is not None:
                    holder._rehouse(nodes[k])
            report.deliver()
        leaves = _leaves_of(self._leaves, nodes, arrays, numbers, place)
        if self.parts.containers:
            leaves = list(self.parts.together(leaves))
        result = leaves.pop(0)
        if self.changed or self.gradients or leaves:
            self._leave(place, inputs, arrays, nodes, leaves)
        return True, result

    def stored(self, numbers: list[Any]) -> list[Any]:
        """Return the numbers that kernels read, as far as they are known."""
        known = len(numbers)
        return [
            slot.stored(numbers[slot.value]) if slot.value < known else 0
            for slot in self.slots
        ]

    def addresses(
        self, inputs: list[Node], stored: list[Any]
    ) -> tuple[list[int], Buffer | None]:
        """Return where the inputs lie, and the memory of numbers that kernels read."""
        found: list[int] = []
        literals: list[int] = []
        has_cancelled = workers.has_cancelled() or self.replay.device is not None
        for k, node in enumerate(inputs):
            buffer = node.buffer
            if buffer is None:
                found.append(0)
                if node.size == 1:
                    literals.append(k)
                continue
            if has_cancelled:
                buffer.check_intact()
            found.append(buffer.address)
        if not literals and not stored:
            return found, None
        lines = [line_of(inputs[k].type, inputs[k].attr) for k in literals]
        for slot, value in zip(self.slots, stored, strict=True):
            lines.append(line_of(slot.dtype, value))
        data, where = b"".join(lines), self.replay.device
        block = buffers.filled(data) if where is None else where.filled(data)
        address = block.address
        for k in literals:
            found[k] = address
            address += LINE
        for _ in stored:
            found.append(address)
            address += LINE
        return found, block

    def _made(
        self, inputs: list[Node], outputs: list[Buffer], stored: list[Any]
    ) -> list[Node]:
        """Return the nodes of this call."""
        found: list[Node] = []
        for kind, source, dtype, size, vertex, grad in self._nodes:
            if kind == "output":
                node = trace.from_buffer(dtype, outputs[source], size)
            elif kind == "same":
                found.append(inputs[source])
                continue
            elif kind == "memory":
                node = trace.from_buffer(dtype, source, size)
            elif kind == "input":
                held = inputs[source].buffer
                if held is None:
                    held = evaluate.opaque(inputs[source]).buffer
                assert held is not None
                node = trace.from_buffer(dtype, held, size)
            else:
                value = stored[source] if kind == "slot" else source
                node = trace.literal(dtype, value, size)
                if vertex:
                    node = evaluate.opaque(node)
            if vertex:
                if vertex == "variable":
                    vertices.add_variable(node)
                else:
                    vertices.add_end(node, vertex == "cleared")
                if grad is not None and node.vertex is not None:
                    node.vertex.give(found[grad])
            found.append(node)
        return found

    def _leave(
        self,
        place: Callable[[int], Location],
        inputs: list[Node],
        arrays: list[FlatArray],
        nodes: list[Node],
        values: list[Any],
    ) -> None:
        """Leave what the function leaves; cut short, nothing has changed."""
        undo: list[tuple[Any, Any]] = []
        before = [(arrays[k], arrays[k]._node) for k, _ in self.changed]
        grads: list[tuple[Vertex, Node | None]] = []
        for k, _ in self.gradients:
            vertex = inputs[k].vertex
            assert vertex is not None
            grads.append((vertex, vertex.grad))
        try:
            for k, made in self.changed:
                arrays[k]._become(nodes[made])
            for k, (_, grad) in enumerate(self.gradients):
                vertex = grads[k][0]
                vertex.give(None if grad is None else nodes[grad])
            for k, put in enumerate(self.puts):
                value = values[k]
                where = place(put.place)
                if put.key is EVERY:
                    undo.append((where.fill, (where.contents(),)))
                    where.fill(value)
                else:
                    undo.append((where.put, (put.key, where.held(put.key))))
                    where.put(put.key, value)
        except BaseException:
            for function, operands in reversed(undo):
                function(*operands)
            for vertex, arrived in grads:
                vertex.give(arrived)
            for array, node in before:
                array._become(node)
            raise


class _Pieces:
    """A replay that stops where an entry of an array is read."""

    def __init__(self, recording: Recording, inputs: list[Node]) -> None:
        self._recording = recording
        # Numbers are written once they are known.
        nothing = [0] * len(recording.slots)
        addresses, self._block = recording.addresses(inputs, nothing)
        count = len(addresses)
        self._lines = addresses[count - len(nothing) :]
        self._run = recording.replay.begin(addresses)

    def entry(self, number: int, numbers: list[Any]) -> Any:
        """Run the jobs up to a place, given the numbers known there, and read."""
        self._write(numbers)
        return self._run.entry(number)

    def finish(self, numbers: list[Any]) -> list[Buffer]:
        """Run what is left; return the outputs."""
        self._write(numbers)
        self._run.go(len(self._recording.replay.steps))
        return self._run.outputs

    def _write(self, numbers: list[Any]) -> None:
        recording = self._recording
        device = recording.replay.device
        stored = recording.stored(numbers)
        for slot, value, address in zip(
            recording.slots, stored, self._lines, strict=True
        ):
            line = line_of(slot.dtype, value)
            if device is None:
                ctypes.memmove(address, line, LINE)
            else:
                device.write(address, line)


def line_of(dtype: DType, value: Any) -> bytes:
    """Return a number as kernels read it: what lies in a line of its own."""
    data: bytes = dtype.packed(value)
    return data.ljust(LINE, b"\0")


def _leaves_of(
    rows: list[tuple[Any, ...]],
    nodes: list[Node],
    arrays: list[FlatArray],
    numbers: list[Any],
    place: Callable[[int], Location],
) -> list[Any]:
    """Return the leaves of what a call returns and leaves."""
    found: list[Any] = []
    for kind, source, cls, contents in rows:
        if kind == "new":
            if contents is not None:
                note_contents(nodes[source], contents)
            found.append(wrap(cls, nodes[source]))
        elif kind == "array":
            found.append(arrays[source])
        elif kind == "again":
            found.append(found[source])
        elif kind == "copy":
            found.append(copy(source))
        elif kind == "owner":
            found.append(place(source).owner)
        else:
            found.append(numbers[source] if kind == "number" else source)
    return found
