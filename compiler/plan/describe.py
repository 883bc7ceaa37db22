"""What a launch is recognized by: one walk gives its key and its arguments.

A program that needs nothing to be put into memory first is one kernel as it stands,
without a plan. If the kernel is known by the key, no `Program` is made, either.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from sys import getrefcount, maxsize
from threading import get_ident
from typing import Any

from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import ROOT, Node, begin_walk, interruptions
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    GATHER,
    LITERAL,
    PRODUCT,
    PROJECT,
    REGIONS,
    SCATTER,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import attr_key, operations, references_inside
from lumijit.compiler.ir.roles import is_effect, operands, read_deps, source_deps
from lumijit.compiler.plan.program import (
    STREAMING_FROM,
    Destination,
    Program,
    choose_reductions,
    is_baked,
    is_streaming,
    leaked_symbol,
)
from lumijit.runtime import workers
from lumijit.runtime.attached import Attached
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.device import away
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.workers import ALL_SLOTS

_AS_THEY_STAND = (CAST, BITCAST, COUNTER, UNDEFINED)
# What an array of one entry is in a key.
_ENTRY = "entry"
_SOURCES = (EVALUATED, LITERAL, UNDEFINED)
_PROBE = (object(),)
BASE_REFERENCES = getrefcount(_PROBE[0])


# What launches have that write nothing. (Nobody changes these.)
_NOTHING_WRITTEN: dict[int, Buffer] = {}
_NOTHING_MERGED: list[int] = []
_NO_TARGETS: list[Destination] = []
_NO_WRITES: dict[Node, list[Destination]] = {}


class Launch:
    """One kernel's worth of trace that is to be launched, and what that takes.

    Equal keys mean equal programs (`Program.key`). `values` are those of the
    arguments, in order: addresses and numbers. `targets` are the arrays written to.
    """

    __slots__ = (
        "args",
        "began",
        "built",
        "effects",
        "expand_limit",
        "is_inline",
        "key",
        "merged",
        "merges",
        "outputs",
        "program",
        "results",
        "size",
        "slots",
        "started",
        "targets",
        "temporary",
        "values",
        "versions",
        "written",
    )
    outputs: list[Node]
    size: int
    key: Any
    values: list[Any]
    # How many interruptions there were when this was begun to be described.
    began: int
    # Made only where somebody needs it, unless the program is what is described.
    program: Program | None
    # How many threads may take part.
    slots: int
    # What `launching` finds: the kernel, …
    built: Any
    args: bytes
    is_inline: bool
    # … memory of the results; what `workers` notes when the kernel is on its way.
    results: list[Buffer]
    started: list[int]
    # What only those have that write.
    effects: Sequence[Node]
    targets: Sequence[Destination]
    expand_limit: int
    # Memory of the targets by their ids; …
    written: dict[int, Buffer]
    # … what arrays are after the writes; …
    versions: Sequence[tuple[Node, Buffer]]
    # … copies for each thread, and reductions that these are ended by; …
    temporary: Sequence[Any]
    merges: Sequence[Any]
    # … and what `workers` notes when each reduction is on its way.
    merged: list[int]

    def bind_effects(
        self, effects: Sequence[Node], targets: Sequence[Destination], expand_limit: int
    ) -> None:
        """Have writes carried out, too."""
        self.written = {}
        self.effects = effects
        self.targets = targets
        self.expand_limit = expand_limit


def _begun(
    outputs: list[Node],
    size: int,
    key: Any,
    values: list[Any],
    program: Program | None,
    began: int,
) -> Launch:
    """Return a launch that writes nothing yet.

    (No `__init__`: it would be called as Python calls.)
    """
    launch: Launch = Launch.__new__(Launch)
    launch.began = began
    launch.outputs = outputs
    launch.size = size
    launch.key = key
    launch.values = values
    launch.program = program
    launch.slots = ALL_SLOTS
    launch.effects = launch.targets = launch.versions = ()
    launch.temporary = launch.merges = ()
    launch.expand_limit = 0
    launch.written = _NOTHING_WRITTEN
    launch.merged = _NOTHING_MERGED
    return launch


TOO_LONG = _begun([], 0, (), [], None, 0)


def describe(
    outputs: list[Node],
    effects: Sequence[Node],
    expand_limit: int,
    shared: Set[int] | None = None,
    most: int = maxsize,
) -> Launch | None:
    """Return what tells the kernel that computes nodes from all others.

    Nodes are told in the order in which they are first reached (`Program.bind`), later
    uses by their number (from 2 on: 1 is True). What is told of a node settles what
    follows it, and types of operands settle those of results.

    Args:
        outputs: different nodes that have not been computed.
        effects: writes to carry out.
        expand_limit: as in `Program`.
        shared: the ids of targets that others refer to, too; found out unless given.
        most: how many operations there may be.

    Returns:
        `TOO_LONG` if there are more. None if they are no single kernel: if versions are
        read, or what regions find, sizes differ, or something must be there first.
    """
    began, first = interruptions.count, (outputs or effects)[0]
    place = away.get(get_ident()) if away else None
    if not _are_computed(outputs, size := first.size):
        return None
    key: list[Any] = [] if place is None else [place.environment]
    values: list[Any] = []
    targets, written = _NO_TARGETS, _NO_WRITES
    walk, count, inside = begin_walk(), 1, 0
    reached = [*outputs, *effects] if effects else outputs[:]
    for node in reached:
        if node.walk == walk:
            key.append(node.number)
            continue
        count += 1
        node.walk, node.number = walk, count
        if inside + count - 1 - len(values) > most:
            return TOO_LONG
        op, attr = node.op, node.attr
        if place is not None and _is_elsewhere(node, place):
            return None
        if op is EVALUATED:
            key.append(_ENTRY if node.size == 1 else op)
            buffer: Any = node.buffer
            if buffer.ticket and (place is not None or workers.has_cancelled()):
                buffer.check_intact()
            values.append(buffer.address)
        elif op is LITERAL:
            is_known = (not attr or node.type is BOOL) and is_baked(node)
            key.append(bool(attr) if is_known else op)
            if not is_known:
                values.append(attr)
        elif node.scope is not ROOT:
            raise leaked_symbol(node)
        elif op.lower is not None or op in _AS_THEY_STAND or _is_ready(node):
            if attr is None:
                key.append(op)
            elif op.lower is None and op in REGIONS:
                inside += operations(node)
                key.append((op, attr.key, attr.operands))
            else:
                key.append((op, attr))
            for dep in node.deps:
                reached.append(dep)
        else:
            if targets is _NO_TARGETS:
                targets, written = [], {}
            fits = node.size == size and (op is SCATTER or node in effects)
            found = _targets(node, targets, written, shared) if fits else None
            if found is None:
                return None
            written[node] = found
            key += _effect_key(node, found, targets)
            inside += operations(node) if op in REGIONS else 0
            reached += read_deps(node)
        if op.lower is None:
            key.append(node.type)
    if targets:
        choose_reductions(targets, effects, size, expand_limit)
        key += [(t.private_op, _number_in(walk, t.root)) for t in targets]
    is_large = 8 * size * (count - 1) >= STREAMING_FROM
    is_large = is_large and is_streaming(outputs, reached, size)
    key.append("streaming" if is_large else size == 1)
    launch = _begun(outputs, size, tuple(key), values, None, began)
    if targets:
        launch.bind_effects(effects, targets, expand_limit)
    return launch


def _are_computed(nodes: list[Node], size: int) -> bool:
    """Tell whether nodes have a size, and are to be computed."""
    for node in nodes:
        if node.size != size or node.op is UNDEFINED or node.op is EVALUATED:
            return False
    return True


def _number_in(walk: int, node: Node) -> int:
    """Return the number of a node in a walk; 0 if that hasn't come there."""
    return node.number if node.walk == walk else 0


def argument_values(program: Program) -> list[Any]:
    """Return what the slots of a program's arguments hold: numbers, and addresses."""
    values: list[Any] = []
    place = away.get(get_ident()) if away else None
    for node in program.arguments:
        if node.buffer is None:
            values.append(node.attr)
        else:
            assert node.buffer.device is place, node
            node.buffer.check_intact()
            values.append(node.buffer.address)
    return values


def described(program: Program, shared: Set[int], began: int) -> Launch:
    """Describe a program that isn't recognized by a walk, and when it was begun."""
    targets = list(program.targets.values())
    for target in targets:
        target.is_shared = id(target.root) in shared
    launch = _begun(
        program.outputs,
        program.size,
        program.key,
        argument_values(program),
        program,
        began,
    )
    launch.bind_effects(program.effects, targets, program.expand_limit)
    return launch


def _is_ready(node: Node) -> bool:
    """Tell whether an indexed read, or a region, can be computed at once."""
    op = node.op
    if op is PROJECT:
        return not is_local(node)
    if (
        op is not GATHER
        and op is not PRODUCT
        and (op not in REGIONS or node.attr.is_consumed or is_effect(node))
    ):
        return False
    return _has_sources(node)


def _targets(
    effect: Node,
    targets: list[Destination],
    written: dict[Node, list[Destination]],
    shared: Set[int] | None,
) -> list[Destination] | None:
    """Return where a write goes, if nothing has to be done before it.

    `written` are the writes that the kernel carries out before.
    """
    op = effect.op
    if op is SCATTER:
        if effect.deps[0].op is WRITTEN:
            return written.get(effect.deps[0].deps[0])
    elif op not in REGIONS or effect.attr.is_consumed or effect.attr.is_returning:
        return None
    if not _has_sources(effect):
        return None
    found = []
    place = away.get(get_ident()) if away else None
    for k in range(*operands(effect).targets.indices(len(effect.deps))):
        if effect.deps[k].op not in _SOURCES or _is_elsewhere(effect.deps[k], place):
            return None
        if shared is None:
            count = BASE_REFERENCES + references_inside(effect, k)
            is_shared = getrefcount(effect.deps[k]) > count
        else:
            is_shared = id(effect.deps[k]) in shared
        for other in targets:
            if other.root is effect.deps[k]:
                return None
        target = Destination(effect.deps[k], is_shared)
        targets.append(target)
        found.append(target)
    return found


def _effect_key(
    effect: Node, found: list[Destination], targets: list[Destination]
) -> list[Any]:
    """Return what tells a write to some of the targets from others."""
    key = [(effect.op, attr_key(effect))]
    if effect.op in REGIONS:
        key.append(effect.attr.operands)
    return key + [(targets.index(target), target.root.type) for target in found]


def _is_elsewhere(node: Node, place: Attached | None) -> bool:
    """Tell whether a leaf belongs to another device than one, or lies elsewhere."""
    if place is None:
        return False
    if node.buffer is not None:
        return node.buffer.device is not place
    return node.op is COUNTER and node.attr is not None and node.attr is not place.id


def _has_sources(node: Node) -> bool:
    """Tell whether the arrays that a node reads by index lie in memory."""
    return all([dep.op is EVALUATED for dep in source_deps(node)])
