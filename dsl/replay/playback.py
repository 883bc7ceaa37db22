"""Replaying a recorded call: jobs submitted with other inputs, results put together.

What a `Recording` says of nodes, leaves and changes is found out by `recording`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lumijit import initialize, pytree
from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.launch import evaluate
from lumijit.control.locations import MISSING, Items, Location
from lumijit.instance_registry import note_contents
from lumijit.replay.inputs import as_inputs
from lumijit.replay.numbers import Arithmetic, Guard
from lumijit.runtime import buffers, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType
from lumijit.runtime.replay import Replay

# Numbers that kernels read lie apart, each in its line of the cache.
LINE = 64
#: Stands for all entries of a place.
EVERY: Any = object()
_ALL = slice(None)


class Slot(NamedTuple):
    """A number in memory: which value it is, of what type, and who converts it how."""

    value: int
    dtype: DType
    construct: str
    cuts: bool

    def stored(self, value: Any) -> Any:
        """Convert a value."""
        return initialize.number(value, self.dtype, self.construct, self.cuts)


class Made(NamedTuple):
    """How a node of a call comes about.

    `kind` tells what `source` is: an input ("same": that very node, "input": its
    memory), an output, a buffer that is kept ("memory"), a literal's value, or a slot.
    `grad` is the node of the gradient that has arrived at a variable.
    """

    kind: str
    source: Any
    dtype: DType
    size: int
    is_variable: bool
    grad: int | None


class Leaf(NamedTuple):
    """How a leaf of what a call returns or leaves comes about.

    `kind` tells what `source` is: an input array itself ("array"), a node for a new
    array of a class ("new"), a Python number, or any other value.
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
    _compute: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._compute = self.arithmetic.compiled()

    def played(
        self,
        arrays: list[FlatArray],
        numbers_now: list[Any],
        place: Callable[[int], Location],
    ) -> tuple[bool, Any]:
        """Replay a call whose arrays lie in memory, and whose key is that recorded.

        Args:
            arrays: its arrays.
            numbers_now: its numbers.
            place: returns the places that it may change.

        Returns:
            True and the result, or False and the guard that doesn't hold.
        """
        inputs = as_inputs([array._node for array in arrays])
        try:
            if self.replay.has_stops:
                pieces = _Pieces(self, inputs)
                numbers = self._compute(numbers_now, pieces.entry)
            else:
                numbers = self._compute(numbers_now)
            if isinstance(numbers, Guard):
                return False, numbers
            stored = self.stored(numbers)
        except Exception as error:
            # The function itself says what is wrong, with its own line.
            return False, error
        if self.replay.has_stops:
            outputs = pieces.finish(numbers)
        else:
            addresses, block = self.addresses(inputs, stored)
            outputs = self.replay.run(addresses)
            # It serves others from here on: jobs run in the order of submission.
            del block
        nodes = self._made(inputs, outputs, stored)
        for report, made in self.reports:
            for holder, k in zip(report.holders, made, strict=True):
                if k is not None:
                    holder._rehouse(nodes[k])
            report.deliver()
        leaves = [_leaf(leaf, nodes, arrays, numbers) for leaf in self.leaves]
        result, *values = self.parts.together(leaves)
        if self.changed or self.gradients or values:
            self._leave(place, inputs, arrays, nodes, values)
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
        found = []
        literals = []
        block = None
        for k, node in enumerate(inputs):
            buffer = node.buffer
            if buffer is None:
                found.append(0)
                if node.size == 1:
                    literals.append(k)
                continue
            if workers.has_cancelled():
                buffer.check_intact()
            found.append(buffer.address)
        count = len(literals) + len(stored)
        if count:
            lines = np.zeros(count * LINE, np.uint8)
            at = 0
            for position in literals:
                write_number(lines, at, inputs[position].type, inputs[position].attr)
                at += LINE
            for slot, value in zip(self.slots, stored, strict=True):
                write_number(lines, at, slot.dtype, value)
                at += LINE
            block = buffers.filled(lines)
            for k, position in enumerate(literals):
                found[position] = block.address + k * LINE
            begin = block.address + len(literals) * LINE
            found += range(begin, begin + len(stored) * LINE, LINE)
        return found, block

    def _made(
        self, inputs: list[Node], outputs: list[Buffer], stored: list[Any]
    ) -> list[Node]:
        """Return the nodes of this call."""
        found: list[Node] = []
        for kind, source, dtype, size, is_variable, grad in self.nodes:
            if kind == "same":
                found.append(inputs[source])
                continue
            if kind == "output":
                node = trace.from_buffer(dtype, outputs[source], size)
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
                if is_variable:
                    node = evaluate.opaque(node)
            if is_variable:
                vertices.add_variable(node)
                if grad is not None and node.vertex is not None:
                    node.vertex.grad = found[grad]
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
        try:
            for k, made in self.changed:
                undo.append((arrays[k]._become, (arrays[k]._node,)))
                arrays[k]._become(nodes[made])
            for k, grad in self.gradients:
                vertex = inputs[k].vertex
                undo.append((setattr, (vertex, "grad", vertex.grad)))
                vertex.grad = None if grad is None else nodes[grad]
            for put, value in zip(self.puts, values, strict=True):
                where = place(put.place)
                if put.key is EVERY:
                    assert isinstance(where, Items)
                    undo.append((where.items.__setitem__, (_ALL, list(where.items))))
                    where.items[:] = value
                else:
                    before = where.current().get(put.key, MISSING)
                    undo.append((where.put, (put.key, before)))
                    where.put(put.key, value)
        except BaseException:
            for function, operands in reversed(undo):
                function(*operands)
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
        stored = recording.stored(numbers)
        for slot, value, line in zip(recording.slots, stored, self._lines, strict=True):
            data = np.asarray(value, slot.dtype.numpy).tobytes()
            ctypes.memmove(line, data, len(data))


def write_number(
    lines: np.ndarray[Any, Any], at: int, dtype: DType, value: Any
) -> None:
    """Write a number of a type into memory that consists of bytes."""
    data = np.asarray(value, dtype.numpy).tobytes()
    lines[at : at + len(data)] = np.frombuffer(data, np.uint8)


def _leaf(
    leaf: Leaf, nodes: list[Node], arrays: list[FlatArray], numbers: list[Any]
) -> Any:
    """Return a leaf of what a call returns or leaves."""
    kind, source, cls, numbers_in = leaf
    if kind == "new":
        if numbers_in is not None:
            note_contents(nodes[source], numbers_in)
        return wrap(cls, nodes[source])
    if kind == "array":
        return arrays[source]
    return numbers[source] if kind == "number" else source
