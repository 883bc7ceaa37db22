"""Launching kernels: what each needs, at once or queued, in which blocks.

`evaluate` says what is launched; the pool, the history and the log are in `runtime`.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident

from lumijit.compiler.ir import local_types
from lumijit.compiler.ir.nodes import Interrupted, Node, interruptions
from lumijit.compiler.ir.ops.structural import (
    CONSUMED,
    EVALUATED,
    LITERAL,
    PROJECT,
    REGIONS,
    WRITTEN,
)
from lumijit.compiler.ir.roles import is_returning
from lumijit.compiler.ir.value_numbering import users
from lumijit.compiler.launch import kernels, private_copies, transfer
from lumijit.compiler.launch.kernels import Built, ir_of
from lumijit.compiler.launch.starting import start
from lumijit.compiler.plan import target as targets
from lumijit.compiler.plan.describe import Launch
from lumijit.compiler.plan.program import Destination, Program, target_root
from lumijit.compiler.transform.rewriting import without_effects
from lumijit.runtime import buffers, device, history, log, workers
from lumijit.runtime.attached import Attached
from lumijit.runtime.config import flags
from lumijit.runtime.device import away

#: Versions of arrays, by the ids of the effects that make them.
Versions = dict[int, list[Node]]
_NONE: Versions = {}
_INFO = log.LogLevel.Info


def run(launches: Sequence[Launch], versions: Versions = _NONE) -> None:
    """Run kernels that don't need each other, and keep what they compute.

    Args:
        launches: what to run.
        versions: what arrays are after the writes, by the ids of effects, if there
            are any.

    Raises:
        Interrupted: if they have to be described once more; nothing has run.
    """
    # What may fail comes first: writes that have been queued can't be undone.
    place = away.get(get_ident()) if away else None
    for launch in launches:
        _prepare(launch, place)
        if launch.effects:
            launch.versions = _written_versions(launch, versions)
    for launch in launches:
        _check(launch)
    # Later than any job that may use memory which was taken just now.
    barrier = workers.last_ticket() + 1 if len(launches) > 1 else None
    try:
        try:
            for launch in launches:
                _queue(launch, barrier)
        finally:
            # Evaluated once more, what has been queued would write a second time.
            _settle(launches)
            launches = ()
    finally:
        # A Ctrl-C may have cut the first short.
        _settle(launches)


def _looked_up(launch: Launch) -> Built:
    """Return the kernel that isn't known by a launch's key, of what was described."""
    try:
        program = program_of(launch)
        _check(launch)
        return kernels.lookup(program, launch.key)
    except Exception:
        _check(launch)
        raise


def _check(launch: Launch) -> None:
    """Raise if what has been described may be something else now."""
    if launch.began != interruptions.count:
        raise Interrupted


def _prepare(launch: Launch, place: Attached | None) -> None:
    """Find the kernel, and memory and copies that its writes need.

    `place` is the device, if that isn't the host.
    """
    size = launch.size
    values = launch.values
    launch.started = []
    launch.results = results = []
    # (Local memory is never recognized by a walk, and may take more entries.)
    is_plain = launch.program is None
    for node in launch.outputs:
        if is_plain:
            size_bytes = node.type.size_bytes * size
            if place is None:
                buffer = buffers.allocate(size_bytes)
            else:
                buffer = place.allocate(size_bytes)
        else:
            buffer = memory_for(node)
        results.append(buffer)
        values.append(buffer.address)
    if not size:
        return
    built = kernels.find(launch.key)
    if built is None:
        built = _looked_up(launch)
    launch.built = built
    launch.is_inline = size <= built.small_size
    if built.has_loops:
        values.append((place or device.HOST).cancel_address)
    if launch.targets:
        _prepare_writes(launch, place)
    if built.scratch_bytes:
        # (That of a device is for all of its threads.)
        slots = 1 if place is not None else workers.slot_count()
        launch.slots = min(launch.slots, slots)
        scratch = device.allocate(built.scratch_bytes * launch.slots)
        launch.temporary = [*launch.temporary, scratch]
        values.append(scratch.address)
    else:
        values.append(0)
    launch.args = built.pack(*values)


def _prepare_writes(launch: Launch, place: Attached | None) -> None:
    """Find the memory that is written to, and copies for each thread."""
    cost = launch.size * launch.built.cost
    is_small = launch.is_inline and cost < kernels.SMALL_WRITES
    launch.is_inline = is_small and workers.is_idle()
    values = launch.values
    launch.merges = merges = []
    launch.merged = []
    for target in launch.targets:
        buffer = launch.written[id(target.root)] = _target_buffer(target)
        values.append(buffer.address)
        if target.private_op is None:
            continue
        # (Kernels of devices have their copies themselves.)
        if launch.is_inline or place is not None:
            values += targets.in_use().copies(target.root)
            continue
        private = private_copies.Private(target, target.private_op)
        # Threads that begin later take no part: there are no copies for them.
        launch.slots = min(launch.slots, private.slots)
        launch.temporary = [*launch.temporary, private]
        merges.append((private, buffer))
        values[-1:] = private.arguments()


def _target_buffer(target: Destination) -> buffers.Buffer:
    """Return the memory that a write goes to.

    That is the target's own if nobody else will read it as it was, else a copy.
    """
    root = target.root
    size_bytes = root.type.size_bytes * root.size
    buffer = root.buffer
    if buffer is None or buffer.is_foreign or target.is_shared:
        buffer = device.allocate(size_bytes)
        if root.buffer is not None:
            transfer.copy(buffer, root.buffer, size_bytes)
        elif root.op is LITERAL:
            transfer.fill(buffer, root.type, root.attr, root.size)
    return buffer


def _queue(launch: Launch, barrier: int | None) -> None:
    """Run the kernel or queue it, and then the mergers that its writes need."""
    size = launch.size
    if not size:
        return
    built, writes = launch.built, launch.results
    if launch.written:
        writes = [*writes, *launch.written.values()]
    start(
        built.kernel,
        launch.args,
        size,
        size if launch.is_inline else block_size(size, built),
        launch.is_inline,
        writes,
        report,
        summary,
        launch,
        launch.started,
        None if launch.effects else barrier,
        not built.has_loops,
        launch.slots,
    )
    if launch.merges:
        _finish(launch)


def _finish(launch: Launch) -> None:
    """Queue the mergers that are left."""
    while len(launch.merged) < len(launch.merges):
        private, buffer = launch.merges[len(launch.merged)]
        private.merge_into(buffer, launch.merged)


def _settle(launches: Sequence[Launch]) -> None:
    """Turn what has been queued into evaluated nodes; cut short, that is repeated.

    Memory that a node lets go of may serve the next kernel, so nothing is let go
    before all kernels that run side by side have been queued.
    """
    for launch in launches:
        if launch.effects and (launch.started or not launch.size):
            _settle_effects(launch)
    for launch in launches:
        if launch.started or not launch.size:
            # (Not `zip`, which takes longer than all else here.)
            for k, node in enumerate(launch.outputs):
                settle(node, launch.results[k])


def _written_versions(
    launch: Launch, versions: Versions
) -> list[tuple[Node, buffers.Buffer]]:
    """Return what arrays are after the writes, with the memory of each."""
    found = []
    for effect in launch.effects:
        found += [n for n in versions.get(id(effect), ()) if n.op is WRITTEN]
        if effect.op in REGIONS or is_returning(effect):
            found += [n for n in users(effect) if n.op is WRITTEN]
    bound = []
    for node in found:
        buffer = launch.written.get(id(target_root(node)))
        bound.append((node, memory_for(node) if buffer is None else buffer))
    return bound


def _settle_effects(launch: Launch) -> None:
    """Give the written arrays their memory, and forget the effects."""
    _finish(launch)
    for node, buffer in launch.versions:
        settle(node, buffer)
    for effect in launch.effects:
        if effect.op in REGIONS:
            rest = [n for n in users(effect) if n.op is PROJECT]
            if not set(rest) <= set(launch.outputs):
                effect.attr, effect.deps = without_effects(effect)
        elif is_returning(effect):
            effect.op, effect.deps = CONSUMED, ()


def settle(node: Node, buffer: buffers.Buffer) -> None:
    """Turn a computed node into an evaluated one; its past is let go."""
    node.buffer = buffer
    node.op = EVALUATED
    node.deps = ()
    node.attr = None


def program_of(launch: Launch) -> Program:
    """Return the program that is launched."""
    if launch.program is None:
        launch.program = Program(
            launch.size,
            launch.outputs,
            list(launch.effects),
            launch.expand_limit,
            launch.targets,
        )
    return launch.program


def memory_for(node: Node) -> buffers.Buffer:
    """Return memory for the entries of a node."""
    size_bytes = node.type.size_bytes * local_types.stored_lanes(node)
    return device.allocate(size_bytes)


def block_size(size: int, built: Built) -> int:
    """Return how many elements a thread takes at once: 64 Ki down to 1 Ki."""
    block = 65536
    work = max(1, built.cost)
    while block > 1024 and block * work > 2_000_000:
        block //= 2
    while block > 1024 and block * workers.thread_count() * 2 > size:
        block //= 2
    return block


def report(launch: Launch, ticket: int, seconds: float) -> None:
    """Record a launch in the history and the log, where these are wanted."""
    built = launch.built
    program = program_of(launch)
    if log.level >= _INFO:
        _log(program, built)
    if flags.kernel_history:
        history.record(
            {
                **summary(launch),
                "ticket": ticket,
                "execution_time": seconds * 1e6,
                "ir": ir_of(program, built),
                "cache_hit": built.is_hit,
                "cache_disk": built.is_disk_hit and not built.is_hit,
                "codegen_time": 0.0 if built.is_hit else built.codegen_us,
                "backend_time": 0.0 if built.is_hit else built.backend_us,
                "uses_optix": False,
                "input_count": len(program.arguments),
                "output_count": len(program.outputs),
                "recompile_reason": "" if built.is_hit else built.reason,
            }
        )


def summary(launch: Launch) -> history.Entry:
    """Return what the history tells of every launch of a kernel."""
    built = launch.built
    return {
        "backend": device.present().backend,
        "type": history.KernelType.JIT,
        "hash": built.hash,
        "operation_count": built.operation_count,
        "size": launch.size,
    }


def _log(program: Program, built: Built) -> None:
    state = "hit" if built.is_hit else "disk hit" if built.is_disk_hit else "miss"
    reason = "" if built.is_hit else f", because: {built.reason}"
    log.log(
        _INFO,
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
