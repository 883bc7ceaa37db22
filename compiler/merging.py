"""Finds callables that differ in their data only, and turns data into arguments.

Each callable of a call is traced, with the attributes of its instance as literals,
uniform values and indexed arrays of the program. Bodies of one structure become one,
which reads what differs from a block of *closure data*, at an offset that depends on
the instance. Uniform values are stored there, of indexed arrays the addresses.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lumijit.compiler import memory, regions, special, trace
from lumijit.compiler.blocks import addressed, attr_key
from lumijit.compiler.copying import copy_nodes
from lumijit.compiler.evaluate import evaluate, from_numpy, opaque
from lumijit.compiler.local import is_local
from lumijit.compiler.lower import collectives
from lumijit.compiler.ops.logic import NE
from lumijit.compiler.ops.structural import (
    LITERAL,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.trace import ROOT, Node, Scope
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import BOOL, FLOAT16, FLOAT32, UINT32, DType

_COPIES_PER_BLOCK = 4096


@dataclass
class Body:
    """What was traced for one callable; `positions` are the indices that select it.

    `writes` are the arrays that it writes, `locals` the local buffers from outside
    that it accesses, as in `Scope`. Bodies of one call are traced in one scope and
    share nodes.
    """

    scope: Scope
    effects: list[Node]
    writes: dict[int, Any]
    outputs: tuple[Node, ...]
    positions: list[int]
    locals: dict[int, Any] = field(default_factory=dict)

    @cached_property
    def code(self) -> regions.Code:
        """What it computes, in order."""
        return regions.Code((*self.effects, *self.outputs), self.scope)

    def changed(self) -> None:
        """Forget the code, after effects or results were replaced."""
        self.__dict__.pop("code", None)


@dataclass
class _Use:
    """One operand that comes from outside and may become data.

    It is that of a node, or (`user` is None) one of the body's results.
    """

    user: Node | None
    operand: int
    node: Node
    is_address: bool


@dataclass
class Group:
    """Bodies of one structure. The first stands for all."""

    members: list[Body] = field(default_factory=list)
    uses: list[list[_Use]] = field(default_factory=list)
    # One entry per piece of closure data: the users, and the value of each member.
    columns: list[tuple[list[_Use], list[Node]]] = field(default_factory=list)

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
    lengths = Counter(len(body.code.nodes) for body in bodies)
    for k, body in enumerate(bodies):
        may_merge = is_merging and lengths[len(body.code.nodes)] > 1
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
        key: Any = k if body.effects else tuple(map(id, body.outputs))
        known = found.setdefault(key, body)
        if known is not body:
            known.positions = known.positions + body.positions
    return list(found.values())


def _describe(body: Body) -> tuple[Any, list[_Use]]:
    """Return a body's structure as a value, and the operands that are left open."""
    local: dict[int, int] = {}
    rows: list[Any] = []
    uses: list[_Use] = []

    def refer(user: Node | None, deps: tuple[Node, ...]) -> tuple[Any, ...]:
        refs: list[Any] = []
        addresses = addressed(user) if user is not None else range(0)
        for k, dep in enumerate(deps):
            if id(dep) in local:
                refs.append(local[id(dep)])
                continue
            kind = _open_kind(dep, k in addresses)
            if kind is not None:
                uses.append(_Use(user, k, dep, k in addresses))
            refs.append(kind or ("outer", id(dep)))
        return tuple(refs)

    for node in body.code.nodes:
        refs = refer(node, node.deps)
        local[id(node)] = len(rows)
        rows.append((node.op.index, node.type.index, attr_key(node), refs))
    ends = refer(None, body.outputs)
    written = [id(original) for _, original in body.writes.values()]
    return (tuple(rows), ends, tuple(written)), uses


def _open_kind(node: Node, is_address: bool) -> Any:
    """Return what an operand must have in common to become data, or None."""
    if node.scope is not ROOT or is_local(node):
        return None
    if is_address:
        return ("address", node.type.index)
    if node.op is LITERAL:
        return None if node.type is BOOL else ("value", node.type.index)
    is_value = node.size == 1 and node.op not in (UNDEFINED, WRITTEN)
    return ("value", node.type.index) if is_value else None


def _find_columns(found: Group) -> None:
    """List the operands in which the members of a group differ, each kind once."""
    columns: dict[tuple[bool, tuple[int, ...]], tuple[list[_Use], list[Node]]] = {}
    for uses in zip(*found.uses, strict=True):
        nodes = [use.node for use in uses]
        if all(node is nodes[0] for node in nodes):
            continue
        key = uses[0].is_address, tuple(map(id, nodes))
        columns.setdefault(key, ([], nodes))[0].append(uses[0])
    found.columns = list(columns.values())


class Closures:
    """The closure data of all groups of a call.

    Entries of up to 32 bits and entries of 64 bits (addresses too) lie in an array
    each; `offsets` tells where those of an instance begin.
    """

    def __init__(self, groups: Sequence[Group], count: int) -> None:
        self.groups = groups
        self.sizes = {32: 0, 64: 0}
        self.offsets = {
            bits: np.zeros(count, np.uint32)
            for bits in (32, 64)
            if any(_width(c) == bits for g in groups for c in g.columns)
        }
        starts = [self._place(found) for found in groups]
        if self.offsets:
            self._fill(starts)

    def _place(self, found: Group) -> dict[int, int]:
        """Reserve the data of a group; return where it begins."""
        starts = dict(self.sizes)
        for bits, offsets in self.offsets.items():
            stride = sum(_width(column) == bits for column in found.columns)
            for row, member in enumerate(found.members):
                offsets[member.positions] = starts[bits] + row * stride
            self.sizes[bits] += stride * len(found.members)
        return starts

    def _fill(self, starts: list[dict[int, int]]) -> None:
        nodes = [n for g in self.groups for _, column in g.columns for n in column]
        evaluate([node for node in nodes if node.op is not LITERAL])
        data: dict[int, Any] = {
            32: np.zeros(max(1, self.sizes[32]), np.uint32),
            64: np.zeros(max(1, self.sizes[64]), np.uint64),
        }
        copies: dict[tuple[int, int], list[tuple[Node, int]]] = {}
        kept: list[Node] = []
        for found, start in zip(self.groups, starts, strict=True):
            for bits in self.offsets:
                columns = [c for c in found.columns if _width(c) == bits]
                for k, (uses, column) in enumerate(columns):
                    places = start[bits] + k + len(columns) * np.arange(len(column))
                    if uses[0].is_address:
                        column = [opaque(node) for node in column]
                        data[bits][places] = [_address(node) for node in column]
                        kept += column
                        continue
                    for place, node in zip(places.tolist(), column, strict=True):
                        if node.op is LITERAL:
                            data[bits][place] = _pattern(node)
                        else:
                            size = node.type.size_bytes
                            copies.setdefault((bits, size), []).append((node, place))
        self.data = {bits: from_numpy(data[bits]) for bits in self.offsets}
        if 64 in self.data:
            # Whoever writes to one of the arrays must see that it is referred to.
            self.data[64].attr = tuple(kept)
        for (bits, size), listed in copies.items():
            _copy(self.data[bits], bits, size, listed)

    def enter(self, offsets: dict[int, Node]) -> None:
        """Have the bodies read their data; `offsets` are nodes of the outer scope.

        Each gets a copy of its nodes, since bodies share them.
        """
        for found in self.groups:
            if found.columns:
                self._enter(found, offsets)

    def _enter(self, found: Group, offsets: dict[int, Node]) -> None:
        body = found.body
        inner = Scope(body.scope.parent, body.scope.label, body.scope.width)
        replaced: dict[tuple[int, int], Node] = {}
        results: dict[int, Node] = {}
        with regions.reopened(inner):
            for bits in self.offsets:
                columns = [c for c in found.columns if _width(c) == bits]
                for k, (uses, _) in enumerate(columns):
                    true = trace.make_true(1)
                    node = memory.read(self.data[bits], offsets[bits], true, k)
                    if not uses[0].is_address:
                        node = _restored(node, uses[0].node.type)
                    for use in uses:
                        if use.user is None:
                            results[use.operand] = node
                        else:
                            replaced[id(use.user), use.operand] = node
        made = copy_nodes(body.code.nodes, inner, replaced)
        body.outputs = tuple(
            results.get(k) or made.get(id(out), out)
            for k, out in enumerate(body.outputs)
        )
        body.effects = [made[id(effect)] for effect in body.effects]
        body.scope = inner
        body.changed()


def _width(column: tuple[list[_Use], list[Node]]) -> int:
    uses, nodes = column
    return 64 if uses[0].is_address or nodes[0].type.bits == 64 else 32


def _address(node: Node) -> int:
    assert node.buffer is not None
    return node.buffer.address


def _pattern(node: Node) -> int:
    """Return a literal's bits as closure data; half precision is stored as single."""
    dtype = FLOAT32 if node.type is FLOAT16 else node.type
    data: bytes = dtype.numpy.type(node.attr).tobytes()
    return int.from_bytes(data, "little")


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
    assert data.buffer is not None
    sources = [node.buffer for node, _ in listed]
    assert all(sources)
    is_half = [node.type is FLOAT16 for node, _ in listed]
    pairs = np.empty((len(listed), 2), np.uint64)
    pairs[:, 0] = [_address(node) for node, _ in listed]
    base = data.buffer.address
    pairs[:, 1] = [base + bits // 8 * place for _, place in listed]
    for chosen in (False, True):
        part = pairs[[h is chosen for h in is_half]]
        if len(part):
            _launch_copy(part, bits, "half" if chosen else f"i{8 * size}", data.buffer)


def _launch_copy(pairs: Any, bits: int, element: str, target: Buffer) -> None:
    kernel = special.get(
        f"collect_{element}_{bits}", collectives.collect_ir, element, bits
    )
    table = from_numpy(np.ascontiguousarray(pairs).reshape(-1))
    assert table.buffer is not None
    args = struct.pack("<Q", table.buffer.address)
    special.launch(
        kernel, args, len(pairs), _COPIES_PER_BLOCK, (table.buffer,), writes=(target,)
    )
