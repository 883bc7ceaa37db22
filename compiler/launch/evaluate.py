"""The one pipeline: plan, key, look up or build, launch.

`evaluate` turns nodes into memory. The nodes given and everything scheduled
before go into as few kernels as their sizes and phases allow.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from functools import partial
from itertools import chain
from typing import Any
from weakref import ref

import numpy as np

from lumijit.compiler.ir import placement, simplify, trace
from lumijit.compiler.ir.nodes import (
    ROOT,
    Interrupted,
    Node,
    begin_walk,
    interruptions,
    undisturbed,
)
from lumijit.compiler.ir.ops.structural import (
    EVALUATED,
    LITERAL,
    REGIONS,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.placement import used
from lumijit.compiler.ir.trace import from_buffer
from lumijit.compiler.launch import delivery, native_folding, transfer
from lumijit.compiler.launch.delivery import waiting
from lumijit.compiler.launch.launching import Versions, memory_for, run, settle
from lumijit.compiler.plan import partition
from lumijit.compiler.plan.ahead import ahead, superfluous_copies
from lumijit.compiler.plan.describe import TOO_LONG, Launch, describe, described
from lumijit.compiler.plan.program import Program, leaked_symbol
from lumijit.compiler.plan.schedule import Group, Plan, joint_writes, phases, plan
from lumijit.runtime import buffers, device, workers
from lumijit.runtime.dtypes import DType
from lumijit.runtime.dtypes import from_numpy as dtype_of
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, StateError
from lumijit.runtime.pool import holding

simplify.native_folding = native_folding.compute
#: Held while nodes are made into a kernel, or turned into evaluated ones.
lock = threading.RLock()
workers.hold_while_forking(lock)


_expand_threshold = 1 << 22
_MOST_INTERRUPTIONS = 100


def expand_threshold() -> int:
    """Return up to how many entries reductions may use private copies per thread.

    They do where there are values enough to be worth it (`program`).
    """
    return _expand_threshold


def set_expand_threshold(entries: int) -> None:
    """Set up to how many entries reductions may use private copies per thread.

    Args:
        entries: 0 or more; with 0, none does.
    """
    global _expand_threshold
    kind = entries.__class__
    if kind is bool or not issubclass(kind, (int, np.integer)):
        raise ArrayTypeError(
            "set_expand_threshold()",
            f"'entries' is no whole number (expected int, got {kind.__name__})",
            "pass a number of entries.",
        )
    if entries < 0:
        raise ArrayValueError(
            "set_expand_threshold()",
            f"'entries' is negative (got {entries})",
            "pass 0 or more; with 0, no private copies are made.",
        )
    _expand_threshold = int(entries)


def note_effect(written: Node, before: Node) -> None:
    """Schedule a write, so that the next evaluation carries it out.

    It depends on the version `before`, which needs no mention of its own any more:
    that would keep it alive and so force a copy.
    """
    scheduled = waiting().scheduled
    scheduled.pop(id(before), None)
    scheduled[id(written)] = ref(written)


def schedule(nodes: Iterable[Node]) -> bool:
    """Have nodes computed by the next kernel; tell whether there was any."""
    found = False
    scheduled = waiting().scheduled
    for node in nodes:
        if node.op is EVALUATED or node.op is LITERAL:
            continue
        if node.scope is not ROOT:
            raise leaked_symbol(node)
        scheduled[id(node)] = ref(node)
        found = True
    return found


def evaluate_pending() -> bool:
    """Evaluate what has been scheduled; tell whether there was anything."""
    return evaluate(())


def evaluate(nodes: Iterable[Node]) -> bool:
    """Compute nodes, and what has been scheduled; tell whether anything ran.

    Returns as soon as the kernels are queued.
    """
    wanted = []
    for node in nodes:
        if node.op is not EVALUATED and node.op is not LITERAL:
            wanted.append(node)
    state = waiting()
    scheduled = state.scheduled
    reports = state.reports
    if wanted or scheduled or reports:
        try:
            if scheduled:
                state.scheduled = {}
                given = {id(node) for node in wanted}
                for entry in scheduled.values():
                    found = entry()
                    if found is None or found.op is EVALUATED or id(found) in given:
                        continue
                    wanted.append(found)
            if reports:
                wanted += delivery.nodes()
            if wanted:
                _run_alone(wanted)
        except BaseException as error:
            # If it is an interrupt, what was scheduled still is.
            state.scheduled = scheduled | state.scheduled
            if isinstance(error, Exception):
                _run_apart(wanted)
                for key in scheduled:
                    state.scheduled.pop(key, None)
            raise
    if reports:
        delivery.deliver()
    return bool(wanted)


def evaluate_all(nodes: Iterable[Node]) -> bool:
    """Compute nodes that are neither in memory nor literals, if there are some."""
    wanted = []
    for node in nodes:
        if node.op is not EVALUATED and node.op is not LITERAL:
            wanted.append(node)
    return bool(wanted) and evaluate(wanted)


def _run_apart(wanted: list[Node]) -> None:
    """Compute what can be of nodes that can't all be: halves, and halves of these.

    What fails alone is given up. It stays in the trace: reading it says why.
    """
    middle = len(wanted) // 2
    for half in (wanted[:middle], wanted[middle:]) if middle else ():
        rest = [n for n in half if n.op is not EVALUATED]
        try:
            if rest:
                _run_alone(rest)
        except Exception:
            _run_apart(rest)


def _run_alone(wanted: list[Node]) -> None:
    """Run what computes nodes, while no other thread evaluates.

    This thread may, in the user's code that Python runs meanwhile.
    """
    holding(lock, _run_counted, wanted)


def _run_counted(wanted: list[Node]) -> None:
    """Run what computes nodes; count if that is in the middle of another evaluation."""
    if not interruptions.depth:
        interruptions.most = interruptions.count + _MOST_INTERRUPTIONS
    elif interruptions.count < interruptions.most:
        interruptions.count += 1
    else:
        raise StateError(
            "evaluation",
            f"it has been interrupted by {_MOST_INTERRUPTIONS} others, by a "
            "handler of signals or a '__del__' that evaluates arrays",
            "have these set a flag only, and evaluate later.",
        )
    interruptions.depth += 1
    try:
        if used:
            _run_by_device(wanted)
        else:
            _run(wanted)
    finally:
        interruptions.depth -= 1


def _run_by_device(wanted: list[Node]) -> None:
    """Run what each device computes, with its memory; first what belongs nowhere.

    That is computed where this thread does, which is the host but for recordings.
    """
    owner = placement.likely(wanted)
    if owner is not None:
        try:
            with placement.at(owner):
                if _run_once(wanted, False):
                    return
        except Interrupted:
            return _run_by_device([n for n in wanted if n.op is not EVALUATED])
    found, of_host = placement.divided(wanted)
    # (Nearly always, all are of one device. What belongs nowhere is the host's then.)
    is_mixed = bool(of_host or found[None])
    is_one = len(found) == 2 and not found[None]
    for owner, nodes in found.items():
        if nodes:
            with placement.at(owner):
                if is_mixed:
                    placement.bring_all(of_host if is_one else nodes)
                # (An array that somebody holds isn't written in place.)
                of_host.clear()
                _run(nodes)


def _run(wanted: list[Node]) -> None:
    """Run what computes nodes, as often as somebody evaluates in the middle of it."""
    try:
        _run_once(wanted)
    except Interrupted:
        _run([node for node in wanted if node.op is not EVALUATED])


def _run_once(wanted: list[Node], is_sure: bool = True) -> bool:
    """Run what one kernel for each size computes, or as many as it takes.

    Unless all are sure to belong to what this thread computes on, nothing runs, and
    False is returned, where arrays lie elsewhere or several kernels would be needed.
    """
    if not wanted:
        return True
    before = interruptions.count
    versions: Versions = {}
    sole = wanted[0]
    is_plain = len(wanted) == 1 and sole.op is not WRITTEN
    if not is_plain:
        wanted, is_plain = _each_once(wanted)
    if is_plain:
        groups: Collection[tuple[list[Node], list[Node]]] = ((wanted, []),)
    else:
        first = ahead(wanted)
        if first:
            if not is_sure:
                return False
            _run(first)
            del first
            _spare_copies(wanted)
            wanted = [node for node in wanted if node.op is not EVALUATED]
        groups = _grouped(wanted, versions)
    launches = []
    for outputs, effects in groups:
        most = partition.room(len(outputs))
        launch = describe(outputs, effects, _expand_threshold, None, most)
        if interruptions.count != before:
            raise Interrupted
        if launch is TOO_LONG and len(groups) == 1 and not effects and is_sure:
            _run_cut(outputs)
            return True
        if launch is None or launch is TOO_LONG:
            if is_sure:
                _run_planned(wanted)
            return is_sure
        launches.append(launch)
    run(launches, versions)
    return True


def _each_once(wanted: list[Node]) -> tuple[list[Node], bool]:
    """Return nodes, each once; tell whether they have one size, and none is a write."""
    walk, size = begin_walk(), wanted[0].size
    found, is_plain = [], True
    for node in wanted:
        if node.walk != walk:
            node.walk = walk
            found.append(node)
            if node.size != size or node.op is WRITTEN:
                is_plain = False
    return found, is_plain


def _spare_copies(wanted: list[Node]) -> None:
    """Let copies of arrays that nobody else refers to have their memory."""
    for copy in superfluous_copies(wanted):
        buffer = copy.deps[0].buffer
        assert buffer is not None
        settle(copy, buffer)


def _grouped(
    wanted: list[Node], versions: Versions
) -> Collection[tuple[list[Node], list[Node]]]:
    """Return outputs and effects by their size; note the versions to be made."""
    groups: dict[int, tuple[list[Node], list[Node]]] = {}
    for node in wanted:
        if node.op is not WRITTEN:
            groups.setdefault(node.size, ([], []))[0].append(node)
            continue
        versions.setdefault(id(node.deps[0]), []).append(node)
        node = node.deps[0]
        effects = groups.setdefault(node.size, ([], []))[1]
        if node.op not in REGIONS or node not in effects:
            effects += joint_writes(node)
    return groups.values()


def _run_cut(outputs: list[Node]) -> None:
    """Run what is too long for one kernel, piece by piece.

    What pieces read by index may not be there yet, as nobody has looked that far.
    """
    group = Group(0, outputs[0].size)
    group.outputs = outputs
    for piece in chain(partition.pieces(group), (group,)):
        launch = describe(piece.outputs, (), _expand_threshold)
        if launch is None:
            _run_planned(piece.outputs)
        else:
            run([launch])
        # It keeps what nobody else may need any more.
        del launch


def _run_planned(wanted: list[Node]) -> None:
    """Run what takes several kernels, one after the other."""
    found = undisturbed(partial(plan, wanted))
    versions: Versions = {}
    for node in found.written:
        versions.setdefault(id(node.deps[0]), []).append(node)
    for level in phases(found):
        stores = sum(len(group.outputs) for group in level)
        if found.weight > partition.room(stores):
            for group in level:
                for piece in partition.pieces(group):
                    _run_groups([piece], found, versions)
        _run_groups(level, found, versions)


def _run_groups(groups: list[Group], found: Plan, versions: Versions) -> None:
    """Run kernels of a plan that don't need each other."""
    described = []
    undefined = []
    for group in groups:
        outputs = [n for n in group.outputs if n.op not in (UNDEFINED, EVALUATED)]
        undefined += [n for n in group.outputs if n.op is UNDEFINED]
        if outputs or group.effects:
            described.append(_described(group.size, outputs, group.effects, found))
    try:
        run(described, versions)
    except Interrupted:
        return _run_groups(groups, found, versions)
    for node in undefined:
        settle(node, memory_for(node))


def _described(
    size: int, outputs: list[Node], effects: list[Node], found: Plan
) -> Launch:
    """Describe what has become ready."""
    launch = describe(outputs, effects, _expand_threshold, found.shared_targets)
    if launch is not None:
        return launch
    began = interruptions.count
    made = partial(Program, size, outputs, effects, _expand_threshold)
    return described(undisturbed(made), found.shared_targets, began)


def opaque(node: Node) -> Node:
    """Return a node whose contents lie in memory, also for a literal."""
    if node.op is LITERAL:
        buffer = device.allocate(node.type.size_bytes * node.size)
        transfer.fill(buffer, node.type, node.attr, node.size)
        return from_buffer(node.type, buffer, node.size)
    evaluate((node,))
    return node


def data(node: Node) -> np.ndarray[Any, Any]:
    """Evaluate a node, wait for it and return its memory as a NumPy view.

    Of what a device has, that is a copy. A constant has no memory: what is written to
    that of its view would be lost.
    """
    memory = opaque(node)
    assert memory.buffer is not None
    workers.sync()
    memory.buffer.check_intact()
    view = buffers.as_numpy(memory.buffer, node.type, node.size)
    if isinstance(memory.attr, device.DeviceId):
        # A device gets it once a kernel needs it, and then has what it was.
        return np.array(view)
    if node.op is LITERAL:
        view.flags.writeable = False
    return view


def entry(node: Node, position: int) -> Any:
    """Evaluate a node, wait for it and return one of its entries."""
    if node.op is LITERAL:
        return node.attr
    evaluate((node,))
    workers.sync()
    assert node.buffer is not None
    node.buffer.check_intact()
    return buffers.entry(node.buffer, node.type, position)


def from_numpy(array: np.ndarray[Any, Any], is_copied: bool = False) -> Node:
    """Return a node for a one-dimensional NumPy array, without copying if safe.

    Of a copy, the memory is ours: arrays of it are written in place.
    """
    dtype: DType | None = dtype_of(array.dtype)
    if dtype is None:
        raise ArrayTypeError(
            "from_numpy",
            f"arrays of dtype {array.dtype} have no counterpart",
            "convert the array first, for example with array.astype('float32').",
        )
    trace.check_size(array.size, "from_numpy")
    found = buffers.filled(array) if is_copied else buffers.from_numpy(array)
    return from_buffer(dtype, found, array.size)
