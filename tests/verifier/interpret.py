"""The slow reference evaluator: runs a trace with NumPy, one node at a time.

It shares nothing with scheduling, lowering or the runtime but the op records'
references, evaluates regions in lockstep under lane masks, and leaves the trace
as it found it. Tests use it as the oracle for the kernels; where several lanes
of one write hit one entry, later lanes come after earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lumijit.compiler.ir.effects import Reduction
from lumijit.compiler.ir.local_types import CHUNK, LocalType, stored_lanes
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.record import Op, Role
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CALL,
    CAST,
    COUNTER,
    EVALUATED,
    GATHER,
    GATHER_AT,
    LITERAL,
    LOCAL,
    LOCAL_READ,
    LOCAL_WRITE,
    LOOP,
    OUTER,
    PRODUCT,
    PROJECT,
    REGIONS,
    SCATTER,
    SCATTER_CAS,
    SCATTER_ERROR,
    SCATTER_FETCH,
    SCATTER_INC,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.ir.roles import operand, written_deps
from lumijit.runtime import buffers, cpu, workers
from lumijit.runtime.dtypes import DType

Array = np.ndarray[Any, Any]

_UPDATES: dict[str, Callable[[Array, Array], Array]] = {
    "identity": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": lambda old, new: np.where(new < old, new, old),
    "max": lambda old, new: np.where(new > old, new, old),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def flushed(values: Array, operands: Iterable[Array] = ()) -> Array:
    """Return what kernels leave of results: on x86, zeros in place of denormals.

    Those that are one of the operands weren't computed, and are kept.
    """
    if values.dtype.name not in ("float32", "float64") or not cpu.flushes_denormals():
        return values
    is_small = np.abs(values) < np.finfo(values.dtype).smallest_normal
    for operand_ in operands:
        if operand_.dtype == values.dtype:
            is_small &= np.abs(operand_) != np.abs(values)
    return np.where(is_small, np.copysign(values.dtype.type(0), values), values)


def interpret(nodes: Iterable[Node]) -> list[Array]:
    """Evaluate nodes with NumPy and return one array per node.

    Args:
        nodes: nodes of any scope whose arguments are known, evaluated or not.

    Returns:
        The contents, each of the node's size. The nodes stay as they are.

    >>> from lumijit.compiler.ir.ops.arithmetic import MUL
    >>> from lumijit.compiler.ir.trace import counter, emit2
    >>> interpret([emit2(MUL, counter(4), counter(4))])[0].tolist()
    [0, 1, 4, 9]
    """
    workers.sync()
    interpreter = _Interpreter()
    with np.errstate(all="ignore"):
        return [interpreter.result(node) for node in nodes]


class _Interpreter:
    """The values of nodes met so far.

    `versions` holds what an effect leaves behind, one array per target; `results`
    what a region returns. At program level a write changes a copy. Inside a region
    it changes an array in `memory`, which holds the targets and all their versions.
    """

    def __init__(self) -> None:
        self.values: dict[int, Array] = {}
        self.results: dict[int, list[Array]] = {}
        self.versions: dict[int, list[Array]] = {}
        self.memory: dict[int, Array] = {}
        # The arrays whose addresses are the entries of another.
        self.addressed: dict[int, Node] = {}

    def result(self, root: Node) -> Array:
        """Return the contents of a node, computing what it depends on first."""
        stack = [(root, False)]
        while stack:
            node, is_ready = stack.pop()
            if id(node) in self.values:
                continue
            if not is_ready and node.deps:
                stack.append((node, True))
                stack.extend((dep, False) for dep in reversed(node.deps))
                continue
            if node.op in REGIONS:
                self._top_level_region(node)
            else:
                self.values[id(node)] = self._value(node, None)
        return self._copy(root)

    def _value(self, node: Node, mask: Array | None) -> Array:
        """Evaluate a node whose dependencies have values; `mask`: active lanes."""
        op = node.op
        if op.reference is not None:
            args = [self.values[id(dep)] for dep in node.deps]
            if node.attr is not None:
                args.append(node.attr)
            found = np.asarray(op.reference(*args)).astype(node.type.numpy, copy=False)
            return flushed(found, [a for a in args if isinstance(a, np.ndarray)])
        compute = _STRUCTURAL.get(op)
        assert compute is not None, f"{op.name} has no value outside its region"
        return compute(self, node, mask)

    def _evaluated(self, node: Node, mask: Array | None) -> Array:
        assert node.buffer is not None
        if isinstance(node.type, LocalType):
            return _stored_buffer(node, node.type)
        for source, held, _ in node.attr if isinstance(node.attr, tuple) else ():
            self.addressed[held.address] = source
        return np.array(buffers.as_numpy(node.buffer, node.type, node.size))

    def _cast(self, node: Node, mask: Array | None) -> Array:
        source = node.deps[0]
        return convert(self.values[id(source)], source.type, node.type)

    def _bitcast(self, node: Node, mask: Array | None) -> Array:
        bits: Array = self.values[id(node.deps[0])].view(node.type.numpy)
        return bits

    def _project(self, node: Node, mask: Array | None) -> Array:
        return self.results[id(node.deps[0])][int(node.attr)]

    # Local memory: one row per entry, one column per lane

    def _local(self, node: Node, mask: Array | None) -> Array:
        assert isinstance(node.type, LocalType)
        size = node.size if mask is None else max(node.size, len(mask))
        found = np.zeros((node.type.length, size), node.type.element.numpy)
        for value in node.deps:
            found[:] = self.values[id(value)]
        return found

    def _inside(self, node: Node, mask: Array | None) -> tuple[Array, Array, Array]:
        """Return a buffer's contents, and which lanes access which entries of it."""
        places, lanes = self._places(node, mask)
        buffer = self.values[id(node.deps[0])]
        contents = np.array(np.broadcast_to(buffer, (len(buffer), len(places))))
        lanes = lanes[places[lanes] < len(buffer)]
        return contents, places[lanes], lanes

    def _local_read(self, node: Node, mask: Array | None) -> Array:
        contents, places, lanes = self._inside(node, mask)
        entries = np.zeros(contents.shape[1], dtype=node.type.numpy)
        entries[lanes] = contents[places, lanes]
        return entries

    def _local_write(self, node: Node, mask: Array | None) -> Array:
        contents, places, lanes = self._inside(node, mask)
        items = self._items(node, contents.shape[1])
        contents[places, lanes] = items[lanes]
        return contents

    # Memory

    def _places(self, node: Node, mask: Array | None) -> tuple[Array, Array]:
        """Return the index of each lane, and the numbers of the active lanes."""
        shape = (node.size if mask is None else max(node.size, len(mask)),)
        places = np.broadcast_to(self.values[id(operand(node, Role.INDEX))], shape)
        lanes = np.broadcast_to(self.values[id(operand(node, Role.MASK))], shape)
        if mask is not None:
            lanes = lanes & np.broadcast_to(mask, shape)
        return places, np.flatnonzero(lanes)

    def _items(self, node: Node, size: int) -> Array:
        """Return the value that each lane writes."""
        return np.broadcast_to(self.values[id(operand(node, Role.VALUE))], (size,))

    def _gather(self, node: Node, mask: Array | None) -> Array:
        source = node.deps[0]
        contents = np.broadcast_to(self.values[id(source)], (source.size,))
        places, lanes = self._places(node, mask)
        found = np.zeros(len(places), dtype=node.type.numpy)
        found[lanes] = contents[places[lanes] + (node.attr or 0)]
        return found

    def _gather_at(self, node: Node, mask: Array | None) -> Array:
        places, lanes = self._places(node, mask)
        addresses = np.broadcast_to(self.values[id(node.deps[0])], places.shape)
        found = np.zeros(len(places), dtype=node.type.numpy)
        for lane in lanes:
            source = self.addressed[int(addresses[lane])]
            assert source.buffer is not None
            contents = buffers.as_numpy(source.buffer, source.type, source.size)
            found[lane] = contents[places[lane] + (node.attr or 0)]
        return found

    def _target(self, effect: Node) -> Array:
        """Return the array that an effect changes: a copy at program level."""
        target = effect.deps[0]
        contents = self.memory.get(id(target))
        if contents is None:
            contents = self._copy(target)
        self.versions[id(effect)] = [contents]
        return contents

    def _scatter(self, node: Node, mask: Array | None) -> Array:
        reduction: Reduction = node.attr
        contents = self._target(node)
        places, lanes = self._places(node, mask)
        items = self._items(node, len(places))
        update = _UPDATES[reduction.op]
        for lane in lanes:
            at = places[lane]
            contents[at] = update(contents[at], items[lane])
        return contents

    def _scatter_inc(self, node: Node, mask: Array | None) -> Array:
        contents = self._target(node)
        places, lanes = self._places(node, mask)
        found = np.zeros(len(places), dtype=node.type.numpy)
        for lane in lanes:
            found[lane] = contents[places[lane]]
            contents[places[lane]] += np.uint32(1)
        return found

    def _scatter_fetch(self, node: Node, mask: Array | None) -> Array:
        contents = self._target(node)
        places, lanes = self._places(node, mask)
        items = self._items(node, len(places))
        found = np.zeros(len(places), dtype=node.type.numpy)
        for lane in lanes:
            at = places[lane]
            found[lane] = contents[at]
            contents[at] = _UPDATES[node.attr.op](contents[at], items[lane])
        return found

    def _scatter_cas(self, node: Node, mask: Array | None) -> Array:
        contents = self._target(node)
        places, lanes = self._places(node, mask)
        shape, bits = (len(places),), f"u{contents.itemsize}"
        new, expected = (
            np.broadcast_to(self.values[id(dep)], shape) for dep in node.deps[1:3]
        )
        found = np.zeros(len(places), dtype=node.type.numpy)
        for lane in lanes:
            at = places[lane]
            found[lane] = contents[at]
            if contents[at].view(bits) == expected[lane].view(bits):
                contents[at] = new[lane]
        return found

    def _scatter_error(self, node: Node, mask: Array | None) -> Array:
        contents = self._target(node)
        places, lanes = self._places(node, mask)
        items = self._items(node, len(places))
        errors = np.zeros(len(places), dtype=node.type.numpy)
        for lane in lanes:
            old, new = contents[places[lane]], items[lane]
            total = old + new
            large, small = (old, new) if abs(old) >= abs(new) else (new, old)
            if np.isfinite(total):
                errors[lane] = (large - total) + small
            contents[places[lane]] = total
        return errors

    def _product(self, node: Node, mask: Array | None) -> Array:
        m, source = node.attr, node.deps[0]
        contents = np.broadcast_to(self.values[id(source)], (source.size,))
        values = [self.values[id(dep)].astype(float) for dep in node.deps[1:]]
        found = values[m.columns :] or [np.zeros(1)] * m.rows
        for i in range(m.rows):
            for j in range(m.columns):
                found[i] = found[i] + float(contents[m.place(i, j)]) * values[j]
        self.results[id(node)] = [row.astype(source.type.numpy) for row in found]
        return np.empty(0)

    def _outer(self, node: Node, mask: Array | None) -> Array:
        m, contents = node.attr.matrix, self._target(node)
        shape = (node.size if mask is None else max(node.size, len(mask)),)
        lanes = np.broadcast_to(self.values[id(node.deps[1])], shape)
        lanes = lanes if mask is None else lanes & mask
        values = [np.broadcast_to(self.values[id(d)], shape) for d in node.deps[2:]]
        values = [value[lanes].astype(float) for value in values]
        for i in range(m.rows):
            for j in range(m.columns):
                contents[m.place(i, j)] += (values[i] * values[m.rows + j]).sum()
        return contents

    def _copy(self, node: Node) -> Array:
        return np.array(np.broadcast_to(self.values[id(node)], (node.size,)))

    def _written(self, node: Node, mask: Array | None) -> Array:
        contents = self.versions[id(node.deps[0])][node.attr or 0]
        if mask is not None:
            self.memory[id(node)] = contents
        return contents

    # Regions

    def _top_level_region(self, node: Node) -> None:
        """Run a region on copies of its targets, which become new versions."""
        self.values[id(node)] = np.empty(0)
        for target in written_deps(node):
            self.memory[id(target)] = self._copy(target)
        self._region(node, np.ones(node.size, dtype=np.bool_))
        self.memory.clear()

    def _region(self, node: Node, mask: Array) -> None:
        """Run a region for the lanes of a mask."""
        if node.op is LOOP:
            results = self._loop(node, mask)
        elif node.op is CALL:
            results = self._call(node, mask)
        else:
            results = self._branch(node, mask)
        self.results[id(node)] = results
        targets = written_deps(node)
        self.versions[id(node)] = [self.memory[id(target)] for target in targets]

    def _loop(self, node: Node, mask: Array) -> list[Array]:
        loop: Region = node.attr
        lanes = (len(mask),)
        inits = node.deps[: len(loop.args)]
        values = [self.values[id(init)] for init in inits]
        state = [np.broadcast_to(v, v.shape[:-1] + lanes) for v in values]
        while True:
            for arg, value in zip(loop.args, state, strict=True):
                self.values[id(arg)] = value
            self._block(loop.header, mask)
            active = mask & self.values[id(loop.header.outputs[0])]
            if not active.any():
                return state
            self._block(loop.body, active)
            news = [self.values[id(out)] for out in loop.body.outputs]
            state = [
                np.where(active, new, old) for new, old in zip(news, state, strict=True)
            ]

    def _branch(self, node: Node, mask: Array) -> list[Array]:
        branch: Region = node.attr
        chosen = np.broadcast_to(self.values[id(node.deps[0])], (len(mask),))
        sides = []
        for block, lanes in ((branch.true, chosen), (branch.false, ~chosen)):
            self._block(block, mask & lanes)
            sides.append([self.values[id(out)] for out in block.outputs])
        return [np.where(chosen, yes, no) for yes, no in zip(*sides, strict=True)]

    def _call(self, node: Node, mask: Array) -> list[Array]:
        call: Region = node.attr
        chosen = np.broadcast_to(self.values[id(node.deps[0])], (len(mask),))
        outputs = call.bodies[0].outputs
        results = [_zeros(out.type, len(mask)) for out in outputs]
        for k, body in enumerate(call.bodies):
            active = mask & (chosen == k + 1)
            self._block(body, active)
            for position, out in enumerate(body.outputs):
                old = results[position]
                results[position] = np.where(active, self.values[id(out)], old)
        return results

    def _block(self, block: Block, mask: Array) -> None:
        for node in block.nodes:
            if node.op in REGIONS:
                self._region(node, mask)
            else:
                self.values[id(node)] = self._value(node, mask)


_STRUCTURAL: dict[Op, Callable[[_Interpreter, Node, Array | None], Array]] = {
    LITERAL: lambda _, n, mask: np.full(min(n.size, 1), n.attr, dtype=n.type.numpy),
    COUNTER: lambda _, n, mask: np.arange(n.size, dtype=np.uint32),
    UNDEFINED: lambda _, n, mask: np.zeros(n.size, dtype=n.type.numpy),
    EVALUATED: _Interpreter._evaluated,
    CAST: _Interpreter._cast,
    BITCAST: _Interpreter._bitcast,
    GATHER: _Interpreter._gather,
    GATHER_AT: _Interpreter._gather_at,
    SCATTER: _Interpreter._scatter,
    SCATTER_INC: _Interpreter._scatter_inc,
    SCATTER_ERROR: _Interpreter._scatter_error,
    SCATTER_FETCH: _Interpreter._scatter_fetch,
    SCATTER_CAS: _Interpreter._scatter_cas,
    LOCAL: _Interpreter._local,
    LOCAL_READ: _Interpreter._local_read,
    LOCAL_WRITE: _Interpreter._local_write,
    PRODUCT: _Interpreter._product,
    OUTER: _Interpreter._outer,
    PROJECT: _Interpreter._project,
    WRITTEN: _Interpreter._written,
}


def _zeros(dtype: DType, lanes: int) -> Array:
    if isinstance(dtype, LocalType):
        return np.zeros((dtype.length, lanes), dtype=dtype.element.numpy)
    return np.zeros(lanes, dtype=dtype.numpy)


def _stored_buffer(node: Node, kind: LocalType) -> Array:
    """Read local buffers that lie in memory, chunk by chunk."""
    assert node.buffer is not None
    lanes = stored_lanes(node)
    flat = buffers.as_numpy(node.buffer, kind.element, kind.length * lanes)
    chunks = flat.reshape(lanes // CHUNK, kind.length, CHUNK)
    rows = chunks.transpose(1, 0, 2).reshape(kind.length, lanes)
    return np.array(rows[:, : node.size])


def convert(values: Array, source: DType, to: DType) -> Array:
    """Convert values the way C does; floats out of range saturate, NaN is 0."""
    if to.is_bool:
        return np.not_equal(values, 0)
    if source.is_float and to.is_int:
        return _saturated(values.astype(np.float64), to)
    return values.astype(to.numpy)


def _saturated(values: Array, to: DType) -> Array:
    """Convert doubles to integers, clamping to the limits of the type."""
    limits = np.iinfo(to.numpy)
    # The limits as powers of two, which doubles hold exactly.
    bound = 2.0 ** (to.bits - int(to.is_signed))
    too_high = values >= bound
    too_low = values <= (-bound if to.is_signed else 0.0)
    is_outside = too_high | too_low | np.isnan(values)
    inside = np.where(is_outside, 0.0, values).astype(to.numpy)
    found = np.where(too_high, limits.max, np.where(too_low, limits.min, inside))
    return found.astype(to.numpy)
