"""Launching kernels: what each needs, at once or queued, in which blocks.

`evaluate` says what is launched; the pool, the history and the log are in `runtime`.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from lumijit.compiler import kernels, local, reductions, transfer
from lumijit.compiler.describe import Description, describe
from lumijit.compiler.kernels import Built, ir_of
from lumijit.compiler.memory import CONSUMED
from lumijit.compiler.ops.structural import (
    EVALUATED,
    LITERAL,
    REGIONS,
    RETURNING,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.program import Program, target_root
from lumijit.compiler.schedule import Group, Plan
from lumijit.compiler.trace import Node
from lumijit.runtime import buffers, history, log, workers
from lumijit.runtime.config import flags

# A kernel of this cost takes 10 to 20 µs: as long as handing it over and waiting.
INLINE_COST = 400_000


def run_described(outputs: list[Node], described: Description) -> None:
    """Run the one kernel of nodes that have been described."""
    key, arguments, _ = described
    size = outputs[0].size
    results = [buffers.allocate(n.type.size_bytes * size) for n in outputs]
    if size:
        program, built = _find(outputs, key, arguments)
        values = _values(arguments)
        values += [r.address for r in results]
        if built.has_loops:
            values.append(workers.cancel_address())
        slots = None
        if built.scratch_bytes:
            slots = workers.slot_count()
            scratch = _scratch(built, slots)
            values.append(scratch.address)
        args = built.pack(*values)
        is_inline = is_small(size, built)
        ticket, seconds = start(size, built, args, is_inline, None, slots)
        if ticket:
            for buffer in results:
                buffer.ticket = ticket
        if program is not None:
            report(program, built, ticket, seconds)
        if flags.launch_blocking:
            workers.sync()
    for node, buffer in zip(outputs, results, strict=True):
        settle(node, buffer)


def _find(
    outputs: list[Node], key: Any, arguments: list[Node]
) -> tuple[Program | None, Built]:
    """Return the kernel of described nodes; their program, if anybody looks at it."""
    built = kernels.find(key)
    is_told = flags.kernel_history or log.level >= log.LogLevel.Info
    if built is not None and not is_told:
        return None, built
    program = Program(outputs[0].size, outputs, [], 0)
    if built is None:
        built = kernels.lookup(program, key, arguments)
    return program, built


def run_side_by_side(groups: list[Group], found: Plan, expand_limit: int) -> None:
    """Run one kernel for each group of a phase."""
    launched = [_Launch(group, found, expand_limit) for group in groups]
    # What may fail comes first: writes that have been queued can't be undone.
    for launch in launched:
        launch.prepare()
    # Later than any job that may use memory which was taken just now.
    barrier = workers.last_ticket() + 1
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


def _values(arguments: list[Node]) -> list[Any]:
    """Return the arguments that are inputs and literals."""
    if workers.has_cancelled():
        for node in arguments:
            if node.buffer is not None:
                node.buffer.check_intact()
    return [
        n.attr if n.op is LITERAL else n.buffer.address  # type: ignore[union-attr]
        for n in arguments
    ]


def _scratch(built: Built, slots: int) -> buffers.Buffer:
    """Return what a kernel needs for large local memory."""
    return buffers.allocate(built.scratch_bytes * slots)


class _Ready(NamedTuple):
    """A kernel with all that queueing it takes; its program, if anybody needs it."""

    program: Program | None
    built: kernels.Built
    args: bytes
    is_inline: bool


class _Launch:
    """One group on its way: its program, memory and arguments."""

    def __init__(self, group: Group, found: Plan, expand_limit: int) -> None:
        self.found = found
        self.expand_limit = expand_limit
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
        program, built, arguments = self._find()
        is_inline = is_idle() and is_small(self.size, built)
        values = _values(arguments)
        values += [r.address for r in self.results]
        if built.has_loops:
            values.append(workers.cancel_address())
        for target in program.targets.values() if program is not None else ():
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
        if built.scratch_bytes:
            scratch = _scratch(built, self.slots)
            self.temporary.append(scratch)
            values.append(scratch.address)
        args = built.pack(*values)
        self.ready = _Ready(program, built, args, is_inline)

    def _find(self) -> tuple[Program | None, Built, list[Node]]:
        """Return the program, if anybody needs it, its kernel and its arguments."""
        described = None if self.effects else describe(self.outputs)
        if described is not None:
            return *_find(self.outputs, *described[:2]), described[1]
        program = Program(self.size, self.outputs, self.effects, self.expand_limit)
        return program, kernels.lookup(program), program.arguments

    def run(self, barrier: int) -> None:
        """Queue the kernel, and the mergers that its writes need."""
        if self.ready is None:
            return
        program, built, args, is_inline = self.ready
        first = None if self.effects else barrier
        ticket, seconds = start(self.size, built, args, is_inline, first, self.slots)
        self.is_queued = True
        for buffer in (*self.results, *self.written.values()):
            buffer.ticket = ticket
        self.finish()
        if program is not None:
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


def is_idle() -> bool:
    """Tell whether all that was launched has been done."""
    return workers.completed_ticket() >= workers.last_ticket()


def start(
    size: int,
    built: Built,
    args: bytes,
    is_inline: bool,
    barrier: int | None = None,
    slots: int | None = None,
) -> tuple[int, float]:
    """Run a kernel inline or queue it: return its ticket, or 0 and the seconds."""
    address = built.kernel.address
    if is_inline:
        started = time.perf_counter()
        if workers.run_inline(address, args, size):
            return 0, time.perf_counter() - started
        block = size
    else:
        block = block_size(size, built)
    ticket = workers.submit(
        address,
        args,
        size,
        block,
        barrier,
        built.kernel,
        not built.has_loops,
        workers.slot_count() if slots is None else slots,
    )
    return ticket, 0.0


def is_small(size: int, built: Built) -> bool:
    """Tell whether a launch is too small to be worth a hand-over to threads."""
    return size * built.cost < INLINE_COST and not built.has_loops


def block_size(size: int, built: Built) -> int:
    """Return how many elements a thread takes at once: 64 Ki down to 1 Ki."""
    block = 65536
    work = max(1, built.cost)
    while block > 1024 and block * work > 2_000_000:
        block //= 2
    while block > 1024 and block * workers.thread_count() * 2 > size:
        block //= 2
    return block


def report(program: Program, built: Built, ticket: int, seconds: float) -> None:
    """Record a launch in the history and the log, where these are wanted."""
    if log.level >= log.LogLevel.Info:
        _log(program, built)
    if flags.kernel_history:
        history.record(
            {
                "ticket": ticket,
                "execution_time": seconds * 1e6,
                "backend": history.JitBackend.LLVM,
                "type": history.KernelType.JIT,
                "hash": built.hash,
                "ir": ir_of(program, built),
                "operation_count": built.operation_count,
                "cache_hit": built.is_hit,
                "cache_disk": built.is_disk_hit and not built.is_hit,
                "codegen_time": 0.0 if built.is_hit else built.codegen_us,
                "backend_time": 0.0 if built.is_hit else built.backend_us,
                "uses_optix": False,
                "size": program.size,
                "input_count": len(program.arguments),
                "output_count": len(program.outputs),
                "recompile_reason": "" if built.is_hit else built.reason,
            }
        )


def _log(program: Program, built: Built) -> None:
    state = "hit" if built.is_hit else "disk hit" if built.is_disk_hit else "miss"
    reason = "" if built.is_hit else f", because: {built.reason}"
    log.log(
        log.LogLevel.Info,
        "launching %s (n=%d, in=%d, out=%d, se=%d, ops=%d): cache %s, "
        "codegen: %.3f ms, build: %.3f ms%s",
        built.hash[:16],
        program.size,
        len(program.arguments),
        len(program.outputs),
        len(program.effects),
        built.operation_count,
        state,
        0.0 if built.is_hit else built.codegen_us / 1e3,
        0.0 if built.is_hit else built.backend_us / 1e3,
        reason,
    )
