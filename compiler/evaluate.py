"""The one pipeline: plan, key, look up or build, launch.

`evaluate` turns nodes into memory. The nodes given and everything scheduled
before go into as few kernels as their sizes and phases allow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any
from weakref import ref

import numpy as np

from lumijit.compiler import kernels, reductions, trace, transfer
from lumijit.compiler.ops.structural import (
    EVALUATED,
    LITERAL,
    REGIONS,
    SCATTER_INC,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.program import Program, Target, leaked_symbol, target_root
from lumijit.compiler.memory import CONSUMED
from lumijit.compiler.schedule import Group, Plan, phases, plan
from lumijit.compiler.trace import ROOT, Node, from_buffer
from lumijit.runtime import buffers, history, log, workers
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import DType, from_numpy as dtype_of
from lumijit.runtime.errors import ArrayTypeError, message

_lock = threading.RLock()


class _Pending(threading.local):
    """What this thread has scheduled but not evaluated yet (weak references)."""

    def __init__(self) -> None:
        self.scheduled: list[ref[Node]] = []


_pending = _Pending()
_expand_threshold = 1_000_000


def expand_threshold() -> int:
    """Return up to how many entries reductions use private copies per thread."""
    return _expand_threshold


def set_expand_threshold(entries: int) -> None:
    """Set up to how many entries reductions use private copies per thread."""
    global _expand_threshold
    _expand_threshold = int(entries)


def note_effect(written: Node) -> None:
    """Schedule a write, so that the next evaluation carries it out."""
    _pending.scheduled.append(ref(written))


def schedule(nodes: Iterable[Node]) -> bool:
    """Have nodes computed by the next kernel; tell whether there was any."""
    found = False
    for node in nodes:
        if node.op is EVALUATED or node.op is LITERAL:
            continue
        if node.scope is not ROOT:
            raise leaked_symbol(node)
        _pending.scheduled.append(ref(node))
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
        _pending.scheduled = []
        for entry in scheduled:
            node = entry()
            if node is not None and node.op is not EVALUATED:
                wanted.append(node)
    if not wanted:
        return False
    with _lock:
        _run(wanted)
    return True


def _run(wanted: list[Node]) -> None:
    found = plan(wanted)
    if trace.state.scope is not ROOT and found.groups and flags.debug:
        log.log(log.LogLevel.Debug, "evaluating outer variables inside a region")
    for level in phases(found):
        barrier = workers.last_ticket()
        for group in level:
            _launch_group(group, found, barrier)
        _settle_effects(level, found)


def _launch_group(group: Group, found: Plan, barrier: int) -> None:
    outputs = [n for n in group.outputs if not _trivial(n)]
    effects = group.effects
    if not outputs and not effects:
        return
    program = Program(group.size, outputs, effects, _expand_threshold)
    results = [buffers.allocate(n.type.size_bytes * n.size) for n in outputs]
    if group.size:
        built = kernels.lookup(program)
        _launch(program, built, results, found, barrier)
    for node, buffer in zip(outputs, results, strict=True):
        settle(node, buffer)


def _trivial(node: Node) -> bool:
    """Store what needs no kernel: undefined arrays and constants."""
    if node.op is EVALUATED:
        return True
    if node.op is UNDEFINED:
        settle(node, buffers.allocate(node.type.size_bytes * node.size))
        return True
    if node.op is LITERAL:
        # Literals are shared, so the constant itself stays one; the caller gets
        # its memory through `opaque`.
        return False
    return False


def settle(node: Node, buffer: buffers.Buffer) -> None:
    """Turn a computed node into an evaluated one; its past is let go."""
    node.buffer = buffer
    node.op = EVALUATED
    node.deps = ()
    node.attr = None


def _is_merged(target: Target, inline: bool) -> bool:
    return target.private_op is not None and not inline


def _launch(
    program: Program,
    built: kernels.Built,
    results: list[buffers.Buffer],
    found: Plan,
    barrier: int,
) -> None:
    inline = workers.is_idle() and _is_small(program, built)
    values: list[Any] = [
        n.attr if n.op is LITERAL else n.buffer.address  # type: ignore[union-attr]
        for n in program.arguments
    ]
    values += [r.address for r in results]
    merges = []
    for target in program.targets.values():
        buffer = _target_buffer(target.root, found)
        _bind_target(target, buffer)
        if target.private_op is None:
            values.append(buffer.address)
        elif inline:
            values += [buffer.address, 0, 1, 0, target.root.size]
        else:
            private = reductions.Private(target.root, target.private_op)
            values += private.arguments()
            merges.append((private, buffer))
    if program.targets:
        inline = inline and workers.is_idle()
        barrier = workers.last_ticket()
    args = built.pack(*values)
    if inline:
        ticket = workers.run_inline(built.kernel.address, args, program.size)
    else:
        ticket = workers.submit(
            built.kernel.address,
            args,
            program.size,
            _block_size(program.size, built),
            barrier,
            None,
            not built.has_loops,
        )
    for private, buffer in merges:
        private.merge_into(buffer)
    _report(program, built, ticket)
    if flags.launch_blocking:
        workers.sync()


def _is_small(program: Program, built: kernels.Built) -> bool:
    """Tell whether a launch is too small to be worth a hand-over to threads."""
    return program.size * built.cost < 60_000 and not built.has_loops


def _block_size(size: int, built: kernels.Built) -> int:
    """Return how many elements a thread takes at once: 64 Ki down to 1 Ki."""
    block = 65536
    work = max(1, built.cost)
    while block > 1024 and block * work > 2_000_000:
        block //= 2
    while block > 1024 and block * workers.thread_count() * 2 > size:
        block //= 2
    return block


def _target_buffer(root: Node, found: Plan) -> buffers.Buffer:
    """Return the memory that a write goes to: the target's own if nobody else
    will read it as it was, else a copy."""
    size_bytes = root.type.size_bytes * root.size
    if root.op is EVALUATED and root.buffer is not None:
        if id(root) not in found.shared_targets and not root.buffer.is_foreign:
            return root.buffer
        copy = buffers.allocate(size_bytes)
        transfer.copy(copy, root.buffer, size_bytes)
        return copy
    buffer = buffers.allocate(size_bytes)
    if root.op is LITERAL:
        transfer.fill(buffer, root.type, root.attr, root.size)
    return buffer


_bound: dict[int, buffers.Buffer] = {}


def _bind_target(target: Target, buffer: buffers.Buffer) -> None:
    _bound[id(target.root)] = buffer


def _settle_effects(level: list[Group], found: Plan) -> None:
    """Give the written arrays their memory, and forget the effects."""
    executed = {id(e): e for group in level for e in group.effects}
    versions = [
        n for n in found.written if n.op is WRITTEN and id(n.deps[0]) in executed
    ]
    for effect in executed.values():
        if effect.op in REGIONS:
            alive = [entry() for entry in effect.attr.written]
            versions += [n for n in alive if n is not None and n.op is WRITTEN]
    memory = [(node, _bound.get(id(target_root(node)))) for node in versions]
    for node, buffer in memory:
        if buffer is None:
            buffer = buffers.allocate(node.type.size_bytes * node.size)
        settle(node, buffer)
    for effect in executed.values():
        if effect.op in REGIONS:
            effect.attr = effect.attr.without_effects()
            effect.deps = effect.deps[: effect.attr.targets]
        elif effect.op is SCATTER_INC:
            effect.attr = CONSUMED
    _bound.clear()


def _report(program: Program, built: kernels.Built, ticket: int) -> None:
    if log.is_enabled(log.LogLevel.Info):
        _log_launch(program, built)
    if flags.kernel_history:
        history.record(
            {
                "backend": history.JitBackend.LLVM,
                "type": history.KernelType.JIT,
                "hash": built.hash,
                "ir": built.ir,
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
            },
            ticket,
        )


def _log_launch(program: Program, built: kernels.Built) -> None:
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


def opaque(node: Node) -> Node:
    """Return a node whose contents lie in memory, also for a literal."""
    if node.op is LITERAL:
        buffer = buffers.allocate(node.type.size_bytes * node.size)
        transfer.fill(buffer, node.type, node.attr, node.size)
        return from_buffer(node.type, buffer, node.size)
    evaluate((node,))
    return node


def data(node: Node) -> np.ndarray[Any, Any]:
    """Evaluate a node, wait for it and return its memory as a NumPy view."""
    node = opaque(node)
    assert node.buffer is not None
    workers.sync()
    return buffers.as_numpy(node.buffer, node.type, node.size)


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
