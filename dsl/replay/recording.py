"""Recording a call: the function runs once, and what it does is noted.

A tape notes jobs. Python numbers are replaced by `numbers.Number` meanwhile, and
literals of one entry lie in memory, so that nothing depends on their values but what
says so. What the function returns, and what it leaves in arrays, containers and
objects, is described by a `playback.Recording`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import delivery, evaluate
from lumijit.control.members import Position
from lumijit.control.sameness import MISSING
from lumijit.instances import InstanceArray
from lumijit.replay.describing import Describer, Owner, UnknownObjectError
from lumijit.replay.draws import Draws
from lumijit.replay.inputs import Call, as_inputs, place_of
from lumijit.replay.numbers import Arithmetic, Number
from lumijit.replay.playback import (
    EVERY,
    Put,
    Recording,
    Slot,
    line_of,
)
from lumijit.replay.substitution import number_itself, plain_key, with_others
from lumijit.replay.tokens import HOST, NAMED, NUMBERS, host_token
from lumijit.replay.tracked_results import Tracked, tracked_results
from lumijit.runtime import buffers, device, recorders
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import RecordingError, where
from lumijit.runtime.tape import Tape

_SEVERAL = "its arrays are on several devices"
_OUTSIDE = "derivatives go on to what was computed outside"


class Outcome(NamedTuple):
    """What has become of recording a call.

    `recording` is None if there can't be one, as `problem` says. If that is because the
    results can be differentiated, and there is nothing else that the call leaves,
    `tracked` tells which leaves of the result can, where numbers are as `arithmetic`
    guards them.
    """

    recording: Recording | None
    problem: str
    tracked: Tracked | None
    arithmetic: Arithmetic
    result: Any


def record(call: Call, has_breaks: bool) -> Outcome:
    """Run a call and record it.

    Args:
        call: what to run.
        has_breaks: whether what can't be replayed is no error.

    Raises:
        RecordingError: if the function does what no replay can repeat.
    """
    recorder = _Recorder(call, has_breaks)
    if call.surroundings.has_generators:
        # (Not even while it is recorded can its numbers be replaced.)
        recorder.refuse(
            "the function reaches a generator or cycle, which a replay can't have go "
            "on",
            "call next() outside, and pass what that gives.",
        )
        result = call.run(call.arguments.parts.values)
        return Outcome(None, recorder.problem, None, recorder.arithmetic, result)
    # What belongs nowhere is computed where all else is.
    with contextlib.closing(recorder), device.on(call.device):
        recording, result = recorder.record()
        found = recorder.problem, recorder.tracked, recorder.arithmetic
    return Outcome(recording, *found, result)


class _Recorder:
    """The recording of one call, while the function runs."""

    def __init__(self, call: Call, has_breaks: bool) -> None:
        self.call = call
        self.has_breaks = has_breaks
        # Why there is no recording.
        self.problem = _SEVERAL if call.has_several_devices else ""
        self.tracked: Tracked | None = None
        self.construct = f"@kernel {call.name}"
        self.arrays = call.arrays
        # The inputs: a node for each array, and then gradients that had arrived.
        self.inputs: list[Node] = []
        self.slots: list[Slot] = []
        self.slot_nodes: dict[tuple[int, DType, bool], Node] = {}
        self.reports: list[Any] = []
        self.arithmetic = Arithmetic(call.number_names())
        self.arithmetic.node_of = self._node_of
        outer = call.surroundings.places
        self.places = [*outer, *map(place_of, call.arguments.containers)]
        # Entries that hold something else while the function runs.
        self.replaced: dict[tuple[int, Any], Any] = {}

    def close(self) -> None:
        """Let go of all arrays: this and its tape refer to each other."""
        vars(self).clear()

    def record(self) -> tuple[Recording | None, Any]:
        """Run the function; return its recording and its result."""
        self.result: Any = None
        try:
            recording = self._recorded()
        finally:
            self.arithmetic.is_open = False
            # It outlives this recorder, which holds all arrays of the call.
            self.arithmetic.node_of = None
            if vertices.exposed and vertices.variables:
                vertices.protect()
            # (What contains itself is left alone where the function raises.)
            with contextlib.suppress(RecursionError):
                self._make_plain()
        return recording, self.result

    def _recorded(self) -> Recording | None:
        """Run the function; return its recording."""
        if self.call.surroundings.has_local_memory:
            self.refuse(
                "the function uses local memory that was made outside, whose contents "
                "a replay can't have",
                "call alloc_local in the function.",
            )
        with self._inputs_in_memory(), self._numbers_replaced() as values:
            # (Who else refers to memory is asked later, so nothing here may.)
            memory = (node.buffer for node in self.inputs)
            where = self.call.device
            self.tape = Tape(memory, self._refuse_reading, self._entry, where)
            hearing = recorders.hearing(self.tape)
            with hearing, delivery.collecting(self.reports):
                draws, self.tape.start = Draws(self.places), vertices.next_serial()
                host = self._host_tokens()
                with draws:
                    self.result = self.call.run(values)
                if draws.happened():
                    self.refuse(
                        f"{draws.drawer} draws random numbers of Python or NumPy, "
                        "which would be the same ones in each replay",
                        "use lumijit.rng or PCG32, or pass the numbers as arguments.",
                    )
                puts, left = self._changes()
                owners = self._owners()
                values = [with_others(v, owners) for v in (self.result, *left)]
                self.parts = pytree.Parts(values)
                evaluate.evaluate(self._found())
            if self.tape.is_mixed:
                self.problem = self.problem or _SEVERAL
            if self.tape.goes_outside:
                self.problem = self.problem or _OUTSIDE
            self._check_iterators()
            if self._host_tokens() != host:
                self.refuse(
                    "the function changes memory of the host in place (of a NumPy "
                    "array, a bytearray, an array.array or an array of the scalar "
                    "namespace), which a replay can't repeat",
                    "assign a new array instead, or change it after the call.",
                )
            if self.tape.goes_outside:
                # What is used outside, and what gets gradients there, isn't known.
                return None
            self._check_foreign()
            self._check_gradients()
            return None if self.problem else self._description(puts)

    def _host_tokens(self) -> list[Any]:
        """Return what tells the contents of memory that may change in place."""
        own = [v for v in self.call.arguments.parts.leaves if isinstance(v, HOST)]
        return list(map(host_token, [*own, *self.call.surroundings.host]))

    def _check_iterators(self) -> None:
        """Refuse iterators that have gone on."""
        for place in self.places:
            if isinstance(place, Position) and not place.is_same():
                self.refuse(
                    f"the function has an iterator of type "
                    f"{type(place.owner).__name__!r} go on, which a replay can't",
                    "call next() outside, and pass what that gives.",
                )

    def _check_foreign(self) -> None:
        """Refuse arrays of which nobody knows where they come from."""
        if self.tape.foreign:
            sizes = [held.buffer.size_bytes for held in self.tape.foreign.values()]
            self.refuse(
                f"the function uses an array ({sizes[0]} bytes) that is neither among "
                "its arguments nor held by anything that its code mentions",
                "pass it as an argument, or refer to it by a variable.",
            )

    def _check_gradients(self) -> None:
        """Refuse gradients that arrive where a replay wouldn't leave them."""
        known = {n.vertex.serial for n in self.first if n.vertex is not None}
        for serial, before in self.tape.gradients.items():
            entry = vertices.variables.get(serial)
            vertex = entry() if entry is not None and serial < self.tape.start else None
            has_changed = vertex is not None and vertex.grad is not before
            if has_changed and serial not in known:
                self.refuse(
                    "a gradient arrives at a variable that is neither among its "
                    "arguments nor held by anything that its code mentions",
                    "pass it as an argument, or refer to it by a variable.",
                )

    def refuse(self, problem: str, fix: str) -> None:
        """Raise, or remember, that there can't be a recording."""
        if not self.has_breaks:
            raise RecordingError(self.construct, problem, fix)
        self.problem = self.problem or f"{problem} ({where()})"

    def _refuse_reading(self) -> None:
        self.refuse(
            "the contents of an array are read in Python, which a replay can't repeat",
            "keep the computation in arrays (symbolic control flow, lumijit.select), "
            "read the array after the call, or decorate with "
            "kernel(graph_breaks=True), which replays what lies between.",
        )

    def _entry(self, number: int, value: Any) -> Any:
        """Return what stands for an entry that Python reads."""
        if not self.has_breaks:
            self._refuse_reading()
        return self.arithmetic.read(number, value)

    @contextlib.contextmanager
    def _inputs_in_memory(self) -> Iterator[None]:
        """Have literals of one entry in memory, each on its own."""
        before = [array._node for array in self.arrays]
        for array, node in zip(self.arrays, before, strict=True):
            is_array = not isinstance(array, InstanceArray)
            if array._node.op is LITERAL and node.size == 1 and is_array:
                array._rehouse(evaluate.opaque(node))
        self.first = [array._node for array in self.arrays]
        self.inputs = as_inputs(self.arrays)
        self.gradients = [n.vertex.grad if n.vertex else None for n in self.first]
        try:
            yield
        finally:
            for array, node, held in zip(self.arrays, before, self.first, strict=True):
                if array._node is held:
                    array._rehouse(node)

    @contextlib.contextmanager
    def _numbers_replaced(self) -> Iterator[list[Any]]:
        """Have `Number` stand for numbers, in arguments and in objects."""
        call = self.call
        numbers = [self.arithmetic.input(k, v) for k, v in enumerate(call.numbers)]
        own = iter(numbers)
        state = own, iter(call.arguments.is_static), self._positions()
        try:
            values = [
                self._with_numbers(v, *state) for v in call.arguments.parts.values
            ]
            order = {id(p): k for k, p in enumerate(call.surroundings.places)}
            for (place, key), number in zip(call.surroundings.where, own, strict=True):
                self._replace(order[id(place)], key, number)
            yield values
        finally:
            for (index, key), item in self.replaced.items():
                place = self.places[index]
                held = place.current().get(key, MISSING)
                if held is item:
                    place.put(key, place.kept[key])
                elif type(held) is Number:
                    place.put(key, held.value)

    def _positions(self) -> Iterator[int]:
        outer = len(self.call.surroundings.places)
        return iter(range(outer, len(self.places)))

    def _replace(self, index: int, key: Any, item: Any) -> None:
        self.places[index].put(key, item)
        self.replaced[index, key] = item

    def _with_numbers(
        self,
        value: Any,
        numbers: Iterator[Number],
        stays: Iterator[bool],
        positions: Iterator[int],
    ) -> Any:
        """Put numbers into an argument: into new tuples, and into other containers."""
        kind = pytree.kind_of(type(value))
        if kind is None:
            is_number = type(value) is Number or type(value) in NUMBERS
            if next(stays) or not is_number:
                return value
            number = next(numbers)
            # (An object that is there twice has its numbers already.)
            return value if type(value) is Number else number
        index = next(positions)
        keys = kind.keys(value)
        old = kind.parts(value, keys)
        new = [self._with_numbers(v, numbers, stays, positions) for v in old]
        is_same = all(a is b for a, b in zip(old, new, strict=True))
        if isinstance(value, tuple):
            return value if is_same else kind.build(value, keys, new)
        for key, before, item in zip(keys, list(old), new, strict=True):
            if item is not before or type(item) is Number:
                self._replace(index, key, item)
        return value

    def _node_of(
        self, number: Number, dtype: DType, construct: str, cuts: bool
    ) -> Node | None:
        """Return a number in memory, as an input of the recording."""
        if recorders.present() is not self.tape:
            return None
        key = (number.index, dtype, cuts)
        node = self.slot_nodes.get(key)
        if node is None:
            slot = Slot(number.index, dtype, construct, cuts)
            line = line_of(dtype, slot.stored(number.value))
            where = self.tape.device
            buffer = buffers.filled(line) if where is None else where.filled(line)
            self.tape.add_input(buffer)
            self.slots.append(slot)
            node = self.slot_nodes[key] = trace.from_buffer(dtype, buffer, 1)
        return node

    def _changes(self) -> tuple[list[Put], list[Any]]:
        """List the entries of containers and objects that the function has assigned."""
        puts: list[Put] = []
        left: list[Any] = []
        replaced: dict[int, list[tuple[Any, Any]]] = {}
        for (k, key), item in self.replaced.items():
            replaced.setdefault(k, []).append((key, item))
        for k, place in enumerate(self.places):
            changes = {key: new for key, _, new in place.changes()}
            if k in replaced:
                held = place.current()
                for key, item in replaced[k]:
                    # (What is assigned may be what there was before.)
                    changes[key] = held.get(key, MISSING)
                    if changes[key] is item:
                        del changes[key]
            are_plain = all(plain_key(key) is key for key in changes)
            if place.has_moved() or not are_plain:
                puts.append(Put(k, EVERY))
                left.append(place.contents())
                continue
            for key, new in changes.items():
                puts.append(Put(k, key))
                left.append(new)
        return puts, left

    def _found(self) -> list[Node]:
        """List what the call computes; nothing if it can be differentiated."""
        found = [v._node for v in self.parts.leaves if isinstance(v, FlatArray)]
        found += [a._node for a in self.arrays]
        for node in found:
            vertex = node.vertex
            if vertex is not None and vertex.inputs and vertices.is_tracked(node):
                if not self.problem:
                    self.problem = "its results can be differentiated"
                    self.tracked = self._tracked_results()
                return []
        for node in list(found):
            if node.vertex is not None and node.vertex.grad is not None:
                found.append(node.vertex.grad)
        return found

    def _tracked_results(self) -> Tracked | None:
        """Tell which leaves of the result are tracked, where that is all it leaves."""
        first = zip(self.arrays, self.first, self.gradients, strict=True)
        for array, node, gradient in first:
            grad = node.vertex.grad if node.vertex else None
            if array._node is not node or grad is not gradient:
                return None
        is_silent = not (self.reports or delivery.waiting().reports)
        # What depends on entries that are read isn't known before the call, and what is
        # asked of derivatives has another answer where the inputs aren't tracked.
        tape = self.tape
        if tape.reads or tape.is_entangled:
            return None
        if len(self.parts.values) > 1 or not is_silent:
            return None
        own = {id(array) for array in self.arrays}
        leaves = pytree.Parts((self.result,)).leaves
        is_tracked = [
            isinstance(v, FlatArray)
            and id(v) not in own
            and vertices.is_tracked(v._node)
            for v in leaves
        ]
        return tracked_results(leaves, is_tracked, self.tape.start)

    def _description(self, puts: list[Put]) -> Recording | None:
        """Describe what was recorded."""
        describer = Describer(self)
        try:
            return describer.describe(puts)
        except UnknownObjectError as error:
            self.refuse(
                f"the function returns, or leaves, a new object of type "
                f"{error.args[0]!r}, which a replay can't make",
                "make its class a dataclass, or make the object once outside and "
                "change its attributes.",
            )
            return None

    def _make_plain(self) -> None:
        """Have plain numbers in the result and in what is left."""
        known = {id(place.owner): place.owner for place in self.places}
        puts, left = self._changes()
        # (All of them live until the last is done: they are told by their ids.)
        values = [*left, self.result]
        plains = [with_others(value, known, number_itself) for value in values]
        self.result = plains.pop()
        for put, value, plain in zip(puts, left, plains, strict=True):
            if plain is not value:
                place = self.places[put.place]
                if put.key is EVERY:
                    place.fill(plain)
                else:
                    place.put(put.key, plain)

    def _owners(self) -> dict[int, Any]:
        """Return what stands for each object that the call has got or reached."""
        found: dict[int, Any] = {}
        for k, place in enumerate(self.places):
            if not isinstance(place.owner, NAMED):
                found.setdefault(id(place.owner), Owner(k))
        return found
