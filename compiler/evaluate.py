"""The one pipeline: plan, key, look up or build, launch.

`evaluate` turns nodes into memory. The nodes given and everything scheduled
before go into as few kernels as their sizes and phases allow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from lumijit.compiler import (
    kernels,
    local,
    partition,
    pending,
    reductions,
    trace,
    transfer,
)
from lumijit.compiler.launching import is_idle, is_small, report, start
from lumijit.compiler.memory import CONSUMED
from lumijit.compiler.ops.structural import (
    EVALUATED,
    LITERAL,
    REGIONS,
    RETURNING,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.program import (
    Program,
    elementwise_order,
    leaked_symbol,
    target_root,
)
from lumijit.compiler.schedule import Group, Plan, phases, plan
from lumijit.compiler.trace import ROOT, Node, from_buffer
from lumijit.runtime import buffers, log, workers
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import DType
from lumijit.runtime.dtypes import from_numpy as dtype_of
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, message

_lock = threading.RLock()
workers.hold_while_forking(_lock)


class _Pending(threading.local):
    """What this thread has scheduled but not evaluated yet (weak references)."""

    def __init__(self) -> None:
        self.scheduled: dict[int, ref[Node]] = {}


_pending = _Pending()
_expand_threshold = 1_000_000


def expand_threshold() -> int:
    """Return up to how many entries reductions use private copies per thread."""
    return _expand_threshold


def set_expand_threshold(entries: int) -> None:
    """Set up to how many entries reductions use private copies per thread.

    Args:
        entries: 0 or more; with 0, none does.
    """
    global _expand_threshold
    if isinstance(entries, bool) or not isinstance(entries, (int, np.integer)):
        raise ArrayTypeError(
            message(
                "set_expand_threshold()",
                f"'entries' is no whole number (expected int, got "
                f"{type(entries).__name__})",
                "pass a number of entries.",
            )
        )
    if entries < 0:
        raise ArrayValueError(
            message(
                "set_expand_threshold()",
                f"'entries' is negative (got {entries})",
                "pass 0 or more; with 0, no private copies are made.",
            )
        )
    _expand_threshold = int(entries)


def note_effect(written: Node, before: Node) -> None:
    """Schedule a write, so that the next evaluation carries it out.

    It depends on the version `before`, which needs no mention of its own any more:
    that would keep it alive and so force a copy.
    """
    _pending.scheduled.pop(id(before), None)
    _pending.scheduled[id(written)] = ref(written)


def schedule(nodes: Iterable[Node]) -> bool:
    """Have nodes computed by the next kernel; tell whether there was any."""
    found = False
    for node in nodes:
        if node.op is EVALUATED or node.op is LITERAL:
            continue
        if node.scope is not ROOT:
            raise leaked_symbol(node)
        _pending.scheduled[id(node)] = ref(node)
        found = True
    return found


def evaluate_pending() -> bool:
    """Evaluate what has been scheduled; tell whether there was anything."""
    return evaluate(())


def evaluate(nodes: Iterable[Node]) -> bool:
    """Compute nodes, and what has been scheduled; tell whether anything ran.

    Returns as soon as the kernels are queued.
    """
    wanted = [n for n in nodes if n.op is not EVALUATED and n.op is not LITERAL]
    scheduled = _pending.scheduled
    if scheduled:
        _pending.scheduled = {}
        for entry in scheduled.values():
            node = entry()
            if node is not None and node.op is not EVALUATED:
                wanted.append(node)
    reports = pending.queue.reports
    if reports:
        wanted += pending.nodes()
    if wanted:
        try:
            _compute(wanted)
        except Exception:
            raise
        except BaseException:
            # Interrupted: what was scheduled still is.
            _pending.scheduled = scheduled | _pending.scheduled
            raise
    if reports:
        pending.deliver()
    return bool(wanted)


def _compute(wanted: list[Node]) -> None:
    """Compute nodes together; if that fails, those that can be, and raise.

    What fails alone is given up. It stays in the trace: reading it says why.
    """
    try:
        with _lock:
            _run(wanted)
    except Exception:
        middle = len(wanted) // 2
        for half in (wanted[:middle], wanted[middle:]) if middle else ():
            rest = [n for n in half if n.op is not EVALUATED]
            if rest:
                with suppress(Exception):
                    _compute(rest)
        raise


def _run(wanted: list[Node]) -> None:
    order = elementwise_order(wanted)
    if order is not None:
        outputs = list(dict.fromkeys(wanted)) if len(wanted) > 1 else wanted
        size = outputs[0].size
        if len(order) > partition.MAX_OPERATIONS:
            _run_chunks(order, outputs, size)
        else:
            _run_elementwise(Program(size, outputs, [], 0, order))
        return
    found = plan(wanted)
    for level in phases(found):
        barrier = workers.last_ticket() + 1
        launched = [_Launch(group, found) for group in level]
        # What may fail comes first: writes that have been queued can't be undone.
        for launch in launched:
            launch.prepare()
        try:
            for launch in launched:
                launch.run(barrier)
        except BaseException:
            # Evaluated once more, these would write a second time.
            _settle(found, [e for e in launched if e.finish()])
            raise
        _settle(found, launched)


def _settle(found: Plan, launched: list[_Launch]) -> None:
    """Turn what has been queued into evaluated nodes.

    Memory that a node lets go of may serve the next kernel, so nothing is let go
    before all kernels that run side by side have been queued.
    """
    _settle_effects(found, launched)
    for launch in launched:
        launch.settle()


def _run_chunks(order: list[Node], wanted: list[Node], size: int) -> None:
    """Run a long trace as several kernels."""
    for nodes, outputs in partition.chunks(order, wanted):
        uniform = [n for n in outputs if n.size != size]
        for node in uniform:
            _run([node])
        rest = [n for n in outputs if n.size == size]
        if rest:
            _run_elementwise(Program(size, rest, [], 0, nodes))


def _run_elementwise(program: Program) -> None:
    """Run the one kernel of a program without indexing, writes and regions."""
    outputs = program.outputs
    results = [_memory_for(n) for n in outputs]
    if program.size:
        built = kernels.lookup(program)
        args = built.pack(*_values(program), *[r.address for r in results])
        is_inline = is_small(program, built)
        keep = (built.kernel, program.arguments, results)
        slots = workers.slot_count()
        ticket, seconds = start(program, built, args, keep, is_inline, None, slots)
        if ticket:
            for buffer in results:
                buffer.ticket = ticket
        if flags.kernel_history or log.level >= log.LogLevel.Info:
            report(program, built, ticket, seconds)
        if flags.launch_blocking:
            workers.sync()
    for node, buffer in zip(outputs, results, strict=True):
        settle(node, buffer)


def _values(program: Program) -> list[Any]:
    """Return the arguments that are inputs and literals."""
    if workers.has_cancelled():
        for node in program.arguments:
            if node.buffer is not None:
                node.buffer.check_intact()
    return [
        n.attr if n.op is LITERAL else n.buffer.address  # type: ignore[union-attr]
        for n in program.arguments
    ]


class _Ready(NamedTuple):
    """A kernel with all that queueing it takes."""

    program: Program
    built: kernels.Built
    args: bytes
    keep: object
    is_inline: bool


class _Launch:
    """One group on its way: its program, memory and arguments."""

    def __init__(self, group: Group, found: Plan) -> None:
        self.found = found
        self.undefined = [n for n in group.outputs if n.op is UNDEFINED]
        self.outputs = [n for n in group.outputs if n.op is not UNDEFINED]
        self.effects = group.effects
        self.size = group.size
        self.results = [_memory_for(n) for n in self.outputs]
        self.written: dict[int, buffers.Buffer] = {}
        self.merges: list[tuple[reductions.Private, buffers.Buffer]] = []
        self.temporary: list[Any] = []
        self.ready: _Ready | None = None
        self.is_queued = False
        # Threads that begin later take no part: there are no copies for them.
        self.slots = workers.slot_count()

    def prepare(self) -> None:
        """Find the kernel, and memory and copies that its writes need."""
        if self.size == 0 or not (self.outputs or self.effects):
            return
        program = Program(self.size, self.outputs, self.effects, _expand_threshold)
        built = kernels.lookup(program)
        is_inline = is_idle() and is_small(program, built)
        values = _values(program)
        values += [r.address for r in self.results]
        if program.has_loops:
            values.append(workers.cancel_address())
        for target in program.targets.values():
            buffer = self._target_buffer(target.root)
            if target.private_op is None:
                values.append(buffer.address)
            elif is_inline:
                values += [buffer.address, 0, 1, 0, target.root.size]
            else:
                private = reductions.Private(target.root, target.private_op)
                self.slots = min(self.slots, private.slots)
                self.temporary.append(private)
                values += private.arguments()
                self.merges.append((private, buffer))
        scratch = None
        if built.scratch_bytes:
            scratch = buffers.allocate(built.scratch_bytes * self.slots)
            self.temporary.append(scratch)
            values.append(scratch.address)
        args = built.pack(*values)
        keep = (built.kernel, program.arguments, self.results, self.written, scratch)
        self.ready = _Ready(program, built, args, keep, is_inline)

    def run(self, barrier: int) -> None:
        """Queue the kernel, and the mergers that its writes need."""
        if self.ready is None:
            return
        program, built, args, keep, is_inline = self.ready
        first = None if program.targets else barrier
        ticket, seconds = start(
            program, built, args, keep, is_inline, first, self.slots
        )
        self.is_queued = True
        for buffer in (*self.results, *self.written.values()):
            buffer.ticket = ticket
        self.finish()
        report(program, built, ticket, seconds)
        if flags.launch_blocking:
            workers.sync()

    def finish(self) -> bool:
        """Queue the mergers that are left; tell whether the kernel was queued."""
        while self.is_queued and self.merges:
            private, buffer = self.merges[-1]
            private.merge_into(buffer)
            self.merges.pop()
        return self.is_queued

    def _target_buffer(self, root: Node) -> buffers.Buffer:
        """Return the memory that a write goes to.

        That is the target's own if nobody else will read it as it was, else a copy.
        """
        size_bytes = root.type.size_bytes * root.size
        buffer = root.buffer
        is_own = id(root) not in self.found.shared_targets
        if buffer is None or buffer.is_foreign or not is_own:
            buffer = buffers.allocate(size_bytes)
            if root.buffer is not None:
                transfer.copy(buffer, root.buffer, size_bytes)
            elif root.op is LITERAL:
                transfer.fill(buffer, root.type, root.attr, root.size)
        self.written[id(root)] = buffer
        return buffer

    def settle(self) -> None:
        """Turn the computed nodes into evaluated ones."""
        for node, buffer in zip(self.outputs, self.results, strict=True):
            settle(node, buffer)
        for node in self.undefined:
            settle(node, _memory_for(node))


def settle(node: Node, buffer: buffers.Buffer) -> None:
    """Turn a computed node into an evaluated one; its past is let go."""
    node.buffer = buffer
    node.op = EVALUATED
    node.deps = ()
    node.attr = None


def _memory_for(node: Node) -> buffers.Buffer:
    return buffers.allocate(node.type.size_bytes * local.stored_lanes(node))


def _settle_effects(found: Plan, launched: list[_Launch]) -> None:
    """Give the written arrays their memory, and forget the effects."""
    executed = {id(e): e for launch in launched for e in launch.effects}
    versions = [
        n for n in found.written if n.op is WRITTEN and id(n.deps[0]) in executed
    ]
    for effect in executed.values():
        if effect.op in REGIONS:
            alive = [entry() for entry in effect.attr.written]
            versions += [n for n in alive if n is not None and n.op is WRITTEN]
    bound: dict[int, buffers.Buffer] = {}
    for launch in launched:
        bound.update(launch.written)
    memory = [(node, bound.get(id(target_root(node)))) for node in versions]
    for node, buffer in memory:
        if buffer is None:
            buffer = buffers.allocate(node.type.size_bytes * node.size)
        settle(node, buffer)
    for effect in executed.values():
        if effect.op in REGIONS:
            effect.attr = effect.attr.without_effects()
            effect.deps = effect.deps[: effect.attr.targets]
        elif effect.op in RETURNING:
            effect.attr = CONSUMED


def opaque(node: Node) -> Node:
    """Return a node whose contents lie in memory, also for a literal."""
    if node.op is LITERAL:
        buffer = buffers.allocate(node.type.size_bytes * node.size)
        transfer.fill(buffer, node.type, node.attr, node.size)
        return from_buffer(node.type, buffer, node.size)
    evaluate((node,))
    return node


def data(node: Node) -> np.ndarray[Any, Any]:
    """Evaluate a node, wait for it and return its memory as a NumPy view.

    A constant has no memory: what is written to that of its view would be lost.
    """
    memory = opaque(node)
    assert memory.buffer is not None
    workers.sync()
    memory.buffer.check_intact()
    view = buffers.as_numpy(memory.buffer, node.type, node.size)
    if node.op is LITERAL:
        view.flags.writeable = False
    return view


def from_numpy(array: np.ndarray[Any, Any]) -> Node:
    """Return a node for a one-dimensional NumPy array, without copying if safe."""
    dtype: DType | None = dtype_of(array.dtype)
    if dtype is None:
        raise ArrayTypeError(
            message(
                "from_numpy",
                f"arrays of dtype {array.dtype} have no counterpart",
                "convert the array first, for example with array.astype('float32').",
            )
        )
    trace.check_size(array.size, "from_numpy")
    return from_buffer(dtype, buffers.from_numpy(array), array.size)
