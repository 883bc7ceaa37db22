"""One kernel's worth of trace: its nodes in order, its key and its arguments.

A `Program` is made by walking from the wanted nodes of one size. The key
describes the structure by local indices; what differs between two launches of
one structure (addresses, sizes, the values of literals) goes into the argument
block. So other numbers in a program never mean another kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lumijit.compiler.ir.effects import Reduction
from lumijit.compiler.ir.local_types import accesses, in_use
from lumijit.compiler.ir.nodes import ROOT, Node, begin_walk
from lumijit.compiler.ir.ops.record import VALUES_ONLY
from lumijit.compiler.ir.ops.structural import (
    COUNTER,
    EVALUATED,
    LITERAL,
    LOOP,
    REGIONS,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import attr_key
from lumijit.compiler.ir.roles import (
    is_effect,
    read_deps,
    source_deps,
    target_of,
    value_deps,
    written_deps,
)
from lumijit.compiler.plan import target as targets
from lumijit.runtime import device, pages, workers
from lumijit.runtime.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, DType, name_of_index
from lumijit.runtime.errors import SymbolicError

# What a leaf is in a key, to which the index of its type is added (below 16).
_ARGUMENT = 0
_UNDEFINED = 16
_BAKED = 32
_MEMORY = 64
_COUNTER = 255
# Kernels that read and write this many bytes write past the caches, which wouldn't
# keep them anyway.
STREAMING_FROM = min(64 << 20, pages.last_cache_bytes())
# Filling and merging so many entries of private copies takes as long as an atomic
# update does; and how many turns a loop is taken to make.
ENTRIES_PER_VALUE = 16
LOOP_TURNS = 16
# A block's copy is worth its entries from so many values an entry on.
VALUES_PER_BIN = 2
# Up to so many entries, a thread has several copies, which lanes take in turn.
COPIES_LIMIT = 1 << 14
COPIES = 4
# Entries behind each copy, where idle lanes write.
IDLE_ENTRIES = 16
# For which modes copies are made.
_COPIED = frozenset({"auto", "apart", "expand", "permute"})
_PACK_CODES = {FLOAT16: "e6x", FLOAT32: "f4x", FLOAT64: "d"}


def pack_code(dtype: DType) -> str:
    """Return the struct code of one literal in an 8-byte slot."""
    if dtype.is_float:
        return _PACK_CODES[dtype]
    return "q" if dtype.is_signed else "Q"


def leaf_text(row: int) -> str:
    """Describe the entry of a leaf in a key."""
    if row == _COUNTER:
        return "a counter"
    if row >= _MEMORY:
        kind = "one entry" if row % 2 else "an array"
        use = (row - _MEMORY) % 8
        indexed = ", indexed" if use >= 4 else ""
        return f"{kind} of {name_of_index((row - _MEMORY) // 8)} in memory{indexed}"
    if row >= _BAKED:
        index = (row - _BAKED) // 2
        if index == BOOL.index:
            return f"the mask {bool(row % 2)}"
        return f"a zero of {name_of_index(index)}"
    if row >= _UNDEFINED:
        return f"an undefined array of {name_of_index(row - _UNDEFINED)}"
    return f"a number of {name_of_index(row - _ARGUMENT)}"


def is_baked(node: Node) -> bool:
    """Tell whether a literal is part of the code: masks and plain zeros."""
    if node.type is BOOL:
        return True
    return node.attr == 0 and (not node.type.is_float or str(node.attr) == "0.0")


def copies_of(target: Destination) -> int:
    """Return how many private copies of an array a thread has."""
    is_small = target.root.size <= COPIES_LIMIT and not target.is_dense
    return COPIES if is_small else 1


class Destination:
    """An array written by a program's effects, and how.

    `private_op` names the reduction that is gathered in private copies per
    thread and merged afterwards; None means that entries are updated in place.
    What is shared is read as it was, by somebody else: it isn't written in place.
    Of what is dense, neighbouring entries are written together.
    """

    __slots__ = ("is_dense", "is_shared", "private_op", "root")

    def __init__(self, root: Node, is_shared: bool = False) -> None:
        self.root = root
        self.is_shared = is_shared
        self.is_dense = False
        self.private_op: str | None = None


class Program:
    """The nodes of one kernel in order, with the layout of its arguments."""

    __slots__ = (
        "_all_nodes",
        "arguments",
        "effects",
        "expand_limit",
        "has_loops",
        "is_streaming",
        "key",
        "nodes",
        "outputs",
        "pointers",
        "size",
        "targets",
        "values",
    )
    arguments: list[Node]
    targets: dict[int, Destination]

    def __init__(
        self,
        size: int,
        outputs: list[Node],
        effects: list[Node],
        expand_limit: int,
        chosen: Iterable[Destination] = (),
    ) -> None:
        """Put nodes in order.

        Args:
            size: how many elements there are.
            outputs: what is stored.
            effects: writes to carry out.
            expand_limit: up to how many entries private copies are made.
            chosen: the targets, if it has been decided how they are written.
        """
        self.size = size
        self.outputs = outputs
        self.effects = effects
        self.expand_limit = expand_limit
        self._all_nodes: list[Node] | None = None
        # What nodes use by index, and what as values.
        self.pointers: set[Node] = set()
        self.values: set[Node] = set()
        self.nodes = self._walk(())
        first = accesses(self.nodes) if in_use() else []
        if first:
            self.nodes = self._walk(first)
        self.has_loops = has_loops(self.nodes)
        self.bind()
        for target in chosen:
            mine = self.targets[id(target.root)]
            mine.private_op, mine.is_dense = target.private_op, target.is_dense
        if self.targets and not chosen:
            found = self.targets.values()
            choose_reductions(found, effects, size, expand_limit)
        self.key = self._make_key()

    def all_nodes(self) -> list[Node]:
        """Return the nodes, each region followed by those of its blocks."""
        found = self._all_nodes
        if found is None:
            found = self._all_nodes = list(iterate_all(self.nodes))
        return found

    def _walk(self, first: Iterable[Node]) -> list[Node]:
        order: list[Node] = []
        values, pointers = self.values, self.pointers
        walk = begin_walk()
        for root in (*first, *self.outputs, *self.effects):
            values.add(root)
            # Below None, a node whose operands are above.
            stack: list[Node | None] = [root]
            while stack:
                node = stack.pop()
                is_ready = node is None
                if is_ready:
                    node = stack.pop()
                assert node is not None
                if node.walk == walk:
                    continue
                if is_ready or not node.deps:
                    node.walk = walk
                    order.append(node)
                    continue
                stack.append(node)
                stack.append(None)
                if node.op.operands is VALUES_ONLY:
                    for dep in node.deps:
                        values.add(dep)
                        stack.append(dep)
                    continue
                for dep in value_deps(node):
                    values.add(dep)
                    stack.append(dep)
                for dep in source_deps(node):
                    pointers.add(dep)
                    stack.append(dep)
                # What writes to a target before.
                for dep in written_deps(node):
                    if dep is not target_root(dep):
                        stack.append(dep)
        return order

    def bind(self) -> None:
        """Find the arguments and targets, in the order in which they are reached.

        A kernel gets them in that order, in which `describe` comes upon them, too.
        """
        self.arguments, self.targets = [], {}
        reached = [*self.outputs, *self.effects]
        walk = begin_walk()
        for node in reached:
            if node.walk == walk:
                continue
            node.walk = walk
            op = node.op
            if op is EVALUATED or (op is LITERAL and not is_baked(node)):
                self.arguments.append(node)
            if op.operands is VALUES_ONLY:
                reached += node.deps
                continue
            for dep in written_deps(node):
                root = target_root(dep)
                self.targets.setdefault(id(root), Destination(root))
                if dep is not root:
                    reached.append(dep)
            reached += read_deps(node)

    def _make_key(self) -> Any:
        """Describe the nodes by local indices.

        One entry for each node: a number for a leaf, a tuple for an operation.
        """
        rows: list[Any] = []
        values, pointers = self.values, self.pointers
        root_scope = ROOT
        walk = begin_walk()
        for k, node in enumerate(self.nodes):
            if node.scope is not root_scope:
                raise leaked_symbol(node)
            node.walk, node.number = walk, k
            op = node.op
            if op is LITERAL:
                if (node.attr == 0 or node.type is BOOL) and is_baked(node):
                    rows.append(_BAKED + 2 * node.type.index + bool(node.attr))
                else:
                    rows.append(_ARGUMENT + node.type.index)
            elif op is EVALUATED:
                used_as = 2
                if pointers:
                    used_as = 2 * (node in values) + 4 * (node in pointers)
                rows.append(_MEMORY + 8 * node.type.index + used_as + (node.size == 1))
            elif op is COUNTER:
                rows.append(_COUNTER)
            elif op is UNDEFINED:
                rows.append(_UNDEFINED + node.type.index)
            else:
                refs = [d.number if d.walk == walk else -1 for d in node.deps]
                attr = node.attr
                if attr is not None:
                    attr = attr_key(node)
                rows.append((op.index, node.type.index, attr, *refs))
        size = self.size
        uses = self._uses()
        for key, target in self.targets.items():
            dtype = target.root.type
            rows.append((dtype.index, target.private_op, tuple(uses.get(key, ()))))
        rows.append(tuple([node.number for node in self.outputs]))
        self.is_streaming = is_streaming(self.outputs, self.arguments, size)
        rows.append((size == 1, self.is_streaming, device.present().environment))
        return tuple(rows)

    def _uses(self) -> dict[int, list[Any]]:
        """List which top-level nodes write a target (their operand is no slot)."""
        found: dict[int, list[Any]] = {}
        if self.targets:
            for node in self.nodes:
                if node.op in REGIONS or is_effect(node):
                    addressed = (*source_deps(node), *written_deps(node))
                    for position, dep in enumerate(addressed):
                        key = id(target_root(dep))
                        found.setdefault(key, []).append((node.number, position))
        return found


def is_streaming(outputs: list[Node], nodes: Iterable[Node], size: int) -> bool:
    """Tell whether outputs should bypass the caches, by them and the arrays read.

    An access by index is taken to reach each entry once.
    """
    if not targets.in_use().has_streaming_stores:
        return False
    arrays = {n for n in nodes if n.op is EVALUATED}
    read = sum(n.type.size_bytes * min(n.size, size) for n in arrays)
    written = size * sum(n.type.size_bytes for n in outputs)
    return read + written >= STREAMING_FROM


def choose_reductions(
    targets: Iterable[Destination],
    effects: Sequence[Node],
    size: int,
    expand_limit: int,
) -> None:
    """Pick private copies where all writes to a target are one reduction."""
    is_repeated = has_loops(effects)
    uses = writes_by_target(iterate_all(effects))
    values = size * (LOOP_TURNS if is_repeated else 1)
    for target in targets:
        found = uses.get(id(target.root), [])
        given = found, values, expand_limit, is_repeated
        target.private_op = private_op(target, *given)


def writes_by_target(nodes: Iterable[Node]) -> dict[int, list[Any]]:
    """List the attributes of the writes among nodes by the ids of their targets."""
    found: dict[int, list[Any]] = {}
    for node in nodes:
        if node.op not in REGIONS:
            for dep in written_deps(node):
                found.setdefault(id(target_root(dep)), []).append(node.attr)
    return found


def target_root(node: Node) -> Node:
    """Follow the versions of a written array back to the first."""
    while node.op is WRITTEN:
        node = target_of(node)
    return node


def iterate_all(nodes: Any) -> Any:
    """Yield nodes and, after each region, the nodes of its blocks."""
    stack = [iter(nodes)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        if node.op in REGIONS:
            for block in node.attr.blocks:
                stack.append(iter(block.nodes))


def is_lone(writes: list[Any], is_repeated: bool) -> bool:
    """Tell whether no two elements of all that is written to a target meet there."""
    lone = writes[0] if len(writes) == 1 and not is_repeated else None
    return isinstance(lone, Reduction) and lone.mode == "permute"


def private_op(
    target: Destination,
    writes: list[Any],
    size: int,
    expand_limit: int,
    is_repeated: bool = False,
) -> str | None:
    """Return the reduction for which a target gets private copies, if it does.

    All writes to it must be that reduction. Copies are worth their entries, which are
    filled and merged, from so many values on. A single write whose elements hit
    different entries needs none.

    Args:
        target: what is written to.
        writes: the attributes of the effects that do so.
        size: how often each runs. (How often a loop turns isn't known.)
        expand_limit: the most entries of a target for which copies are made.
        is_repeated: whether a loop may carry them out several times.
    """
    ops = set()
    is_forced = False
    values = 0
    for found in writes:
        is_one = isinstance(found, Reduction) and found.op != "identity"
        if not is_one or found.mode not in _COPIED:
            return None
        ops.add(found.op)
        is_forced |= found.mode == "expand"
        target.is_dense |= found.matrix is not None
        values += size * found.entries
    if len(ops) != 1 or is_lone(writes, is_repeated):
        return None
    written = targets.in_use()
    count = target.root.size
    if written.copy_bytes:
        size_bytes = target.root.type.size_bytes
        is_small = count * size_bytes <= written.copy_bytes and size_bytes in (4, 8)
        is_worth = VALUES_PER_BIN * count <= values
        has_bins = is_small and not target.is_dense and (is_worth or is_forced)
        return ops.pop() if has_bins else None
    if not written.has_private_copies:
        return None
    entries = count * copies_of(target) * workers.slot_count()
    is_worth = count <= expand_limit and entries <= ENTRIES_PER_VALUE * values
    return ops.pop() if is_worth or is_forced else None


def leaked_symbol(node: Node) -> SymbolicError:
    """Word the error for evaluating what only exists inside a region."""
    label = node.scope.label or "a symbolic region"
    return SymbolicError(
        "evaluation",
        f"a variable of {label} is symbolic: its contents are only known inside "
        "the generated kernel, so it can't be evaluated, printed, reduced or "
        "indexed here, nor used after the region",
        "return it from the region, print it with lumijit.print, or use "
        "evaluated mode (mode='evaluated').",
    )


def has_loops(nodes: Iterable[Node]) -> bool:
    """Tell whether a kernel's running time depends on data."""
    regions = [n for n in nodes if n.op in REGIONS]
    return any(n.op is LOOP for n in iterate_all(regions))
