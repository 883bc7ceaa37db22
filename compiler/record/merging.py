"""Finds callables that differ in their data only, and turns data into arguments.

Each callable of a call is traced, with the attributes of its instance as literals,
uniform values and indexed arrays of the program. Bodies of one structure become one,
which reads what differs from a table, its *closure data*, at a position that depends
on the instance. Uniform values are stored there, of indexed arrays the addresses. What
derivatives are tracked of has a table for each kind, of which it is an entry.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lumijit.compiler.ir import placement, trace, vertices
from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import ROOT, Node, Scope, begin_walk
from lumijit.compiler.ir.ops.arithmetic import MUL
from lumijit.compiler.ir.ops.logic import NE
from lumijit.compiler.ir.ops.structural import (
    LITERAL,
    PRODUCT,
    REGIONS,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Region, attr_key
from lumijit.compiler.ir.roles import operands
from lumijit.compiler.ir.vertices import COLLECTED, RESULT
from lumijit.compiler.launch import named_kernels
from lumijit.compiler.launch.evaluate import evaluate, from_numpy, opaque
from lumijit.compiler.plan import target as targets
from lumijit.compiler.record import memory, regions
from lumijit.compiler.record.bodies import Body
from lumijit.compiler.record.reductions import evaluated
from lumijit.compiler.transform.rewriting import Rewriter
from lumijit.runtime import recorders
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import BOOL, FLOAT16, FLOAT32, UINT32, DType

_COPIES_PER_BLOCK = 4096
# Tables of up to so many columns are read at once.
_READ_TOGETHER = 8
_NOWHERE = range(0)
_NOTHING: frozenset[Node] = frozenset()


class _Use:
    """One operand that comes from outside and may become data.

    It is that of a node, or (`user` is None) one of the body's results.
    """

    __slots__ = ("is_address", "node", "operand", "user")

    def __init__(
        self, user: Node | None, operand: int, node: Node, is_address: bool
    ) -> None:
        self.user = user
        self.operand = operand
        self.node = node
        self.is_address = is_address


Column = tuple[list[_Use], list[Node]]


@dataclass
class Group:
    """Bodies of one structure. The first stands for all."""

    members: list[Body] = field(default_factory=list)
    uses: list[list[_Use]] = field(default_factory=list)
    # One entry per piece of closure data: the users, and the value of each member.
    columns: list[Column] = field(default_factory=list)
    tracked: list[Column] = field(default_factory=list)

    @property
    def body(self) -> Body:
        """The body that stands for all."""
        return self.members[0]


def group(bodies: Sequence[Body], is_merging: bool) -> list[Group]:
    """Put bodies together that differ in data only, in order of their first."""
    groups: dict[Any, Group] = {}
    if is_merging:
        bodies = _unique(bodies)
    # Describing takes longer than tracing; bodies of different lengths differ.
    lengths = [len(body.code.nodes) for body in bodies]
    counts: dict[int, int] = {}
    for length in lengths:
        counts[length] = counts.get(length, 0) + 1
    for k, body in enumerate(bodies):
        may_merge = is_merging and counts[lengths[k]] > 1
        key, uses = _describe(body) if may_merge else (k, [])
        found = groups.setdefault(key, Group())
        found.members.append(body)
        found.uses.append(uses)
    for found in groups.values():
        _find_columns(found)
    return list(groups.values())


def _unique(bodies: Sequence[Body]) -> list[Body]:
    """Unite bodies that compute the very same, as value numbering has found."""
    found: dict[Any, Body] = {}
    for k, body in enumerate(bodies):
        key: Any = k if body.effects else body.outputs
        known = found.setdefault(key, body)
        if known is not body:
            known.positions = known.positions + body.positions
    return list(found.values())


def _describe(body: Body) -> tuple[Any, list[_Use]]:
    """Return a body's structure as a value, and the operands that are left open."""
    rows: list[Any] = []
    uses: list[_Use] = []
    walk = begin_walk()
    for number, user in enumerate(body.code.nodes):
        deps = user.deps
        rows.append(user.op.index)
        rows.append(user.type.index)
        rows.append(None if user.attr is None else attr_key(user))
        rows.append(len(deps))
        if user.vertex is not None:
            rows.append(_derivative_kind(user))
        addresses, fixed = _NOWHERE, _NOTHING
        if user.op.lower is None:
            addresses = range(*operands(user).sources.indices(len(deps)))
            fixed = _read_as_matrices(user)
        for k, dep in enumerate(deps):
            if dep.walk == walk:
                rows.append(dep.number)
            else:
                is_address = k in addresses
                kind = None if dep in fixed else _open_kind(dep, is_address)
                rows.append(dep if kind is None else kind)
                if kind is not None:
                    uses.append(_Use(user, k, dep, is_address))
        user.walk, user.number = walk, number
    for k, dep in enumerate(body.outputs):
        if dep.walk == walk:
            rows.append(dep.number)
        else:
            kind = _open_kind(dep, False)
            rows.append(dep if kind is None else kind)
            if kind is not None:
                uses.append(_Use(None, k, dep, False))
    rows += [original for _, original in body.writes.values()]
    return tuple(rows), uses


def _read_as_matrices(node: Node) -> frozenset[Node]:
    """Return the arrays of which a node reads matrices: these are no data."""
    if node.op is PRODUCT:
        return frozenset(node.deps[:1])
    if node.op not in REGIONS:
        return _NOTHING
    inside = [n for block in node.attr.blocks for n in block.nodes]
    return _NOTHING.union(*map(_read_as_matrices, inside))


def _open_kind(node: Node, is_address: bool) -> int | None:
    """Return what an operand must have in common to become data, or None.

    A number below 0, as others number the nodes of the body.
    """
    if node.scope is not ROOT:
        return None
    if node.op is LITERAL and not is_address:
        return None if node.type is BOOL else -1 - 4 * node.type.index
    if is_local(node):
        return None
    is_tracked = vertices.is_tracked(node)
    if is_address:
        return None if is_tracked else -4 - 4 * node.type.index
    if node.size != 1 or node.op is UNDEFINED or node.op is WRITTEN:
        return None
    return (-3 if is_tracked else -2) - 4 * node.type.index


def _derivative_kind(node: Node) -> Any:
    """Return what nodes must have in common for their derivatives to be alike."""
    vertex = node.vertex
    if vertex is None:
        return None
    if vertex.op is node.op and node.op in REGIONS:
        # Blocks of equal code may have other derivatives.
        region: Region = node.attr
        inside = [*region.args, *(n for block in region.blocks for n in block.nodes)]
        return vertex.inputs, vertex.mode, *map(_derivative_kind, inside)
    is_result = vertex.op is RESULT and vertex.deps[0] in node.deps
    if is_result or (vertex.op is node.op and vertex.deps is node.deps):
        return vertex.inputs, vertex.mode
    # A value that has the derivatives of others, which its operands don't show.
    return id(vertex)


def _find_columns(found: Group) -> None:
    """List the operands in which the members of a group differ, each kind once."""
    columns: dict[tuple[bool, tuple[Node, ...]], Column] = {}
    for k, first in enumerate(found.uses[0]):
        nodes = [uses[k].node for uses in found.uses]
        if nodes.count(nodes[0]) == len(nodes):
            continue
        key = first.is_address, tuple(nodes)
        columns.setdefault(key, ([], nodes))[0].append(first)
    for column in columns.values():
        is_tracked = not column[0][0].is_address and vertices.is_tracked(column[1][0])
        (found.tracked if is_tracked else found.columns).append(column)


class Closures:
    """The tables of a call: for each position the body's number and its data.

    The number and entries of up to 32 bits lie in one table, entries of 64 bits
    (addresses too) in another. Few data are read together with the number, many by
    the bodies that need them.
    """

    def __init__(self, groups: Sequence[Group], count: int) -> None:
        self.groups = groups
        self.count = count
        # The columns of each table, the number included.
        self.strides = {
            bits: max((len(_columns(g, bits)) for g in groups), default=0)
            for bits in (32, 64)
        }
        self.has_data = any(self.strides.values())
        self.strides[32] += 1
        self.tables: dict[int, Node] = {}
        self.places: dict[int, Node] = {}
        self.values: dict[int, list[Node]] = {}

    def select(self, numbers: Any, index: Node, active: Node) -> Node:
        """Read the number of the body that an element runs; `numbers` are all."""
        self._fill(numbers, index)
        for bits, table in self.tables.items():
            stride = self.strides[bits]
            factor = trace.literal(UINT32, stride)
            place = trace.emit2(MUL, index, factor) if stride > 1 else index
            self.places[bits] = place
            if stride <= _READ_TOGETHER:
                read = [memory.read(table, place, active, k) for k in range(stride)]
                self.values[bits] = read
        if 32 in self.values:
            return self.values[32][0]
        return memory.read(self.tables[32], self.places[32], active)

    def _fill(self, numbers: Any, index: Node) -> None:
        """Make the tables, where the arrays lie whose addresses are in them."""
        nodes = [n for g in self.groups for _, column in g.columns for n in column]
        with placement.there((*nodes, index)):
            self._fill_there(numbers, nodes)

    def _fill_there(self, numbers: Any, nodes: list[Node]) -> None:
        evaluate([node for node in nodes if node.op is not LITERAL])
        rows: dict[int, Any] = {32: np.zeros((self.count, self.strides[32]), np.uint32)}
        rows[32][:, 0] = numbers
        if self.strides[64]:
            rows[64] = np.zeros((self.count, self.strides[64]), np.uint64)
        copies: dict[tuple[int, int], list[tuple[Node, int]]] = {}
        kept: list[placement.Address] = []
        for found in self.groups:
            for bits, table in rows.items():
                for k, (uses, column) in _numbered(found, bits):
                    places: list[int] = []
                    entries: list[int] = []
                    for member, node in zip(found.members, column, strict=True):
                        if uses[0].is_address:
                            node = opaque(node)
                            if vertices.exposed and vertices.variables:
                                vertices.protect_operands(node, (node,))
                            held = evaluated(node)
                            # (Later, another buffer may be the node's.)
                            at = [p * table.shape[1] + k for p in member.positions]
                            kept.append(placement.Address(node, held, at))
                            entry = held.address
                        elif node.op is LITERAL:
                            entry = _pattern(node)
                        else:
                            size = node.type.size_bytes
                            listed = copies.setdefault((bits, size), [])
                            width = table.shape[1]
                            listed += [(node, p * width + k) for p in member.positions]
                            continue
                        places += member.positions
                        entries += [entry] * len(member.positions)
                    table[places, k] = np.array(entries, table.dtype)
        self.tables = {b: from_numpy(table.reshape(-1)) for b, table in rows.items()}
        if recorders.listening and 64 in self.tables:
            recorders.present().note_addresses(self.tables[64].buffer)
        for bits, table in self.tables.items():
            # That there is an attribute marks a table of a call. Whoever writes to one
            # of the arrays must see that it is referred to, and the memory lives.
            table.attr = tuple(kept) if bits == 64 else ()
        for (bits, size), listed in copies.items():
            _copy(self.tables[bits], bits, size, listed)

    def enter(self, index: Node) -> None:
        """Have the bodies read their data.

        Each gets a copy of its nodes, since bodies share them. `index` says of which
        instance.
        """
        for found in self.groups:
            if found.columns or found.tracked:
                self._enter(found, index)

    def _enter(self, found: Group, index: Node) -> None:
        body = found.body
        inner = Scope(body.scope.parent, body.scope.label, body.scope.width)
        replaced: dict[tuple[int, int], Node] = {}
        results: dict[int, Node] = {}

        def use_for(uses: list[_Use], node: Node) -> None:
            for use in uses:
                if use.user is None:
                    results[use.operand] = node
                else:
                    replaced[id(use.user), use.operand] = node

        with (
            regions.reopened(inner),
            trace.unmasked(),
            trace.guarded(None),
        ):
            for bits in self.tables:
                for k, (uses, _) in _numbered(found, bits):
                    node = self._value(bits, k)
                    if not uses[0].is_address:
                        node = _restored(node, uses[0].node.type)
                    use_for(uses, node)
            for uses, column in found.tracked:
                table = self._tracked(found, column)
                use_for(uses, memory.read(table, index, trace.make_true(1)))
        rewriter = Rewriter({}, replaced, is_tracking=True)
        rewriter.copy(body.code.nodes, inner)
        body.outputs = tuple(
            results.get(k) or rewriter.image(out) for k, out in enumerate(body.outputs)
        )
        body.effects = [rewriter.image(effect) for effect in body.effects]
        body.scope = inner
        body.changed()

    def _tracked(self, found: Group, column: list[Node]) -> Node:
        """Return a table of tracked values, on which it depends."""
        dtype = column[0].type
        places = tuple(tuple(member.positions) for member in found.members)
        listed = [
            (node, place)
            for node, positions in zip(column, places, strict=True)
            for place in positions
        ]
        with placement.there(column):
            evaluate([node for node in column if node.op is not LITERAL])
            with regions.reopened(ROOT):
                table = from_numpy(np.zeros(self.count, dtype.numpy))
                _copy(table, dtype.bits, dtype.size_bytes, listed)
                vertices.track(table, COLLECTED, tuple(column), places)
        return table

    def _value(self, bits: int, column: int) -> Node:
        if bits in self.values:
            return self.values[bits][column]
        true = trace.make_true(1)
        return memory.read(self.tables[bits], self.places[bits], true, column)


def _numbered(found: Group, bits: int) -> list[tuple[int, Column]]:
    """Return these with their places, of which the body's number takes one."""
    return list(enumerate(_columns(found, bits), 1 if bits == 32 else 0))


def _columns(found: Group, bits: int) -> list[Column]:
    """Return the columns of a group that go to one of the tables."""
    return [column for column in found.columns if _width(column) == bits]


def _width(column: Column) -> int:
    uses, nodes = column
    return 64 if uses[0].is_address or nodes[0].type.bits == 64 else 32


def _pattern(node: Node) -> int:
    """Return a literal's bits as closure data; half precision is stored as single."""
    dtype = FLOAT32 if node.type is FLOAT16 else node.type
    if not dtype.is_float:
        return int(node.attr) & ((1 << dtype.bits) - 1)
    return int.from_bytes(dtype.packed(node.attr), sys.byteorder)


def _restored(node: Node, dtype: DType) -> Node:
    """Read closure data as a type."""
    if dtype is BOOL:
        return trace.emit2(NE, node, trace.literal(UINT32, 0))
    if dtype is FLOAT16:
        return trace.cast_to(trace.bitcast_to(node, FLOAT32), FLOAT16)
    if dtype.bits < 32:
        return trace.cast_to(node, dtype)
    return trace.bitcast_to(node, dtype)


def _copy(data: Node, bits: int, size: int, listed: list[tuple[Node, int]]) -> None:
    """Copy uniform values into closure data, in order with the kernels."""
    target = evaluated(data)
    is_half = [node.type is FLOAT16 for node, _ in listed]
    pairs = np.empty((len(listed), 2), np.uint64)
    pairs[:, 0] = [evaluated(node).address for node, _ in listed]
    pairs[:, 1] = [target.address + bits // 8 * place for _, place in listed]
    for chosen in (False, True):
        part = pairs[[h is chosen for h in is_half]]
        if len(part):
            _launch_copy(part, bits, "half" if chosen else f"i{8 * size}", target)


def _launch_copy(pairs: Any, bits: int, element: str, target: Buffer) -> None:
    kernel = named_kernels.get(
        f"collect_{element}_{bits}",
        targets.collectives().collect_ir,
        element,
        bits,
    )
    table = evaluated(from_numpy(np.ascontiguousarray(pairs).reshape(-1)))
    if recorders.listening:
        recorders.present().note_addresses(table)
    args = struct.pack("<Q", table.address)
    named_kernels.launch(kernel, args, len(pairs), _COPIES_PER_BLOCK, writes=(target,))
