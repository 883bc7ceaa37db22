"""Lowers indirect reads for packets.

Processors differ in what gathers are worth. With AVX-512 they are used, but (if slow)
not for indices that grow steadily: they don't train the prefetcher. Else lanes are
read one by one, idle ones entry 0: no mask is tested. Gathers that differ by a constant
offset only (components of a vector, channels of a texel) become one wide load per lane
and a transposition (`columns`). Reads of runs (`runs`) are one load.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lumijit.compiler.emit.type_names import bits_of
from lumijit.compiler.ir.checked_reads import is_checked, split
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import GATHER, LITERAL
from lumijit.compiler.ir.roles import is_true
from lumijit.compiler.lower.common.atomics import entry_address
from lumijit.compiler.lower.packet.columns import transpose
from lumijit.compiler.lower.packet.lanes import (
    MANY_LANES,
    each_lane,
    lane_address,
    lane_of,
    looped,
)
from lumijit.compiler.lower.packet.lines import Tests
from lumijit.compiler.lower.packet.masked import gather_call, load_call
from lumijit.compiler.lower.packet.rows import WORDS, Place, Rows
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.lower.packet.tables import is_table, read_table
from lumijit.compiler.plan.program import target_root
from lumijit.runtime.dtypes import BOOL, UINT32, UINT64, DType

MAX_SPAN = 4
# Reads that more tests than this decide are all made apart if one doesn't hold.
MANY_PARTS = 4
Key = tuple[int, ...]


class Gathers:
    """The indirect reads of one packet kernel."""

    def __init__(self, low: PacketState, rows: Rows) -> None:
        self.low = low
        self.b = low.b
        self.rows = rows
        self.runs = runs = rows.runs
        self._zero_name = ""
        self.families: dict[Key, list[Node]] = {}
        for node in low.program.all_nodes():
            is_wanted = node.op is GATHER and node in low.demand.wanted
            if is_wanted and node.type.size_bytes in WORDS:
                self.families.setdefault(_family(node), []).append(node)
        # What runs read apart is in a block of its own, where values serve no others.
        anywhere = [f for f in self.families.values() if not runs.late.is_run(f[0])]
        self.pairs = _pairs(anywhere)

    def is_alone(self, node: Node) -> bool:
        """Tell whether entries lie anywhere, and no others are read with them."""
        is_near = len(self.families.get(_family(node), ())) > 1 or node in self.pairs
        is_known = self.runs.late.is_run(node) or is_table(node.deps[0])
        return not (is_near or is_known or _offset(node))

    def lower(self, node: Node) -> None:
        """Read entries under the mask; inactive lanes get zero."""
        if node in self.low.values:
            return
        family = self.families.get(_family(node), [node])
        # All that isn't read yet, whichever component of a row is asked for first.
        left = {n: _offset(n) for n in family if n not in self.low.values}
        last = left[node]
        first = min(place for place in left.values() if 0 <= last - place < MAX_SPAN)
        near = [n for n, place in left.items() if 0 <= place - first < MAX_SPAN]
        if is_table(node.deps[0]) and not self.b.target.has_masks:
            self._read_table(family)
        elif node in self.runs.late.groups:
            self._read_runs(self.runs.late.groups[node])
        elif self.runs.late.is_run(node):
            self.low.values[node] = self._load_run(node)
        else:
            self._read_apart(node, near)

    def _read_apart(self, node: Node, near: list[Node]) -> None:
        """Read entries that lie anywhere, also of others with the same index."""
        if len({_offset(n) for n in near}) > 1:
            self._read_together(near)
        elif node in self.pairs:
            self._read_pair(*self.pairs[node])
        else:
            self.low.values[node] = self._read(node)

    def _read_table(self, nodes: list[Node]) -> None:
        """Read what calls are selected by, or their data."""
        low, b = self.low, self.b
        active = self.active(nodes[0])
        index = self._safe_index(low.values[nodes[0].deps[1]], active)
        offsets = sorted({_offset(n) for n in nodes})
        base = low.addresses[nodes[0].deps[0]]
        t = nodes[0].type
        columns = read_table(low, t, base, index, offsets)
        for node in nodes:
            column = columns[offsets.index(_offset(node))]
            low.values[node] = low.cleared(b.type(t), column, node.deps[2])

    def _index(self, node: Node) -> str:
        """Return the index, offset included. Sums wrap around as they were checked."""
        index = self.low.values[node.deps[1]]
        return self.b.add(UINT32, index, _offset(node)) if _offset(node) else index

    def _safe_index(self, index: str, active: str) -> str:
        """Let idle lanes point to entry 0."""
        return self.b.select(UINT32, active, index, 0)

    def active(self, node: Node) -> str:
        """Return the lanes that read. Elsewhere, the index may be any number.

        Lanes behind the last element read what they like, if they know the bounds.
        """
        low = self.low
        mask = low.values[node.deps[2]]
        is_tail = low.mask is not None and low.b.origin(low.mask) == low.tail_mask
        if is_tail and is_checked(node):
            return mask
        return low.under_mask(mask)

    def _is_stream(self, t: DType, index: Node) -> bool:
        """Tell whether a kernel reads memory from one end to the other."""
        is_slow = t is not BOOL and not self.b.target.has_fast_gathers
        return is_slow and self.low.has_all_elements() and index in self.runs.strided

    def _read(self, node: Node) -> str:
        """Read one entry per lane."""
        low, b = self.low, self.b
        t = node.type
        active = self.active(node)
        base = low.addresses[node.deps[0]]
        if b.target.has_masks and not self._is_stream(t, node.deps[1]):
            raw = self._gather(t, base, self._index(node), active)
            return b.from_memory(t, raw)
        index = self._safe_index(self._index(node), active)
        if t is BOOL:
            return self._read_masks(node, base, index)
        raw = self._read_lanes(t.llvm, base, index)
        return low.cleared(b.type(t), raw, node.deps[2])

    def _read_runs(self, nodes: list[Node]) -> None:
        """Read entries of which those of all lanes probably follow each other.

        The packets in which they do, and all lanes read, have code of their own. Of the
        others, those reads are made apart that have to be.
        """
        runs = self.runs
        parts: dict[Tests, list[Node]] = {}
        for node in nodes:
            parts.setdefault(runs.found[node.deps[1]].tests, []).append(node)
        held = [
            runs.hold([n.deps[1] for n in part], [n.deps[2] for n in part])
            for part in parts.values()
        ]

        def by_part() -> list[str]:
            for node in nodes:
                for dep in node.deps[1:]:
                    runs.vector(dep)
            for part, condition in zip(parts.values(), held, strict=True):
                self._read_either(part, condition, partial(self._load_rows, part))
            return [self.low.values.pop(node) for node in nodes]

        is_cut = 1 < len(parts) <= MANY_PARTS
        apart = by_part if is_cut else partial(self._load_rows, nodes)
        self._read_either(nodes, runs.ends.every(held), apart)

    def _read_either(
        self, nodes: list[Node], held: str, apart: Callable[[], list[str]]
    ) -> None:
        """Read runs if something holds, else apart."""
        b = self.b
        types = [b.crossing_type(node.type) for node in nodes]
        found = self.runs.read(held, types, partial(self._load_runs, nodes), apart)
        for node, value in zip(nodes, found, strict=True):
            self.low.values[node] = b.arrived(node.type, value)

    def read_target(self, node: Node, base: str) -> str:
        """Read the entries that a write combines with, as they are in memory.

        Lanes that aren't active get any.
        """
        b, runs = self.b, self.runs
        t = target_root(node.deps[0]).type
        index, mask = node.deps[2:]
        line = runs.line(index)

        ty = b.memory_type(t)

        def apart() -> list[str]:
            active = self.low.under_mask(runs.vector(mask))
            if b.target.has_masks and not self._is_stream(t, index):
                return [self._gather(t, base, runs.vector(index), active)]
            place = self._safe_index(runs.vector(index), active)
            return [self._read_lanes(t.memory_llvm, base, place)]

        if line is None:
            return apart()[0]
        if line.is_sure and line.step > 0 and t.size_bytes in WORDS:
            place = runs.address(t.memory_llvm, base, index)
            return self._load(t, place, self.low.under_mask(runs.vector(mask)))
        (found,) = runs.read(
            runs.hold([index], [mask]),
            [ty],
            lambda: [runs.load(t, base, index)],
            lambda: self.rows.read([Place(t, base, index)], [mask], apart, [ty]),
        )
        return found

    def _load_run(self, node: Node) -> str:
        """Load a run of entries; lanes that aren't active get zero."""
        base, index = self.low.addresses[node.deps[0]], node.deps[1]
        place = self.runs.address(node.type.llvm, base, index, _offset(node))
        return self._load(node.type, place, self.active(node))

    def _load(self, t: DType, place: str, active: str) -> str:
        """Load a packet of words."""
        b = self.b
        if active == b.const(BOOL, True):
            return b.load(b.type(t), place, t.size_bytes)
        return load_call(b, t.llvm, b.type(t), place, b.narrow(active))

    def _load_runs(self, nodes: list[Node]) -> list[str]:
        """Load runs in which all lanes are active, or what all of them read."""
        load, bases = self.runs.load, [self.low.addresses[n.deps[0]] for n in nodes]
        pairs = zip(nodes, bases, strict=True)
        raw = [load(n.type, base, n.deps[1], _offset(n)) for n, base in pairs]
        return [self._value(n.type, r) for n, r in zip(nodes, raw, strict=True)]

    def _load_rows(self, nodes: list[Node]) -> list[str]:
        """Read row after row what the processor can't gather, else lane by lane."""
        b, addresses = self.b, self.low.addresses
        places = [
            Place(n.type, addresses[n.deps[0]], n.deps[1], _offset(n)) for n in nodes
        ]
        types = [b.crossing_type(node.type) for node in nodes]
        masks = [node.deps[2] for node in nodes]
        apart = partial(self._load_apart, nodes)
        return self.rows.read(places, masks, apart, types, self._value)

    def _value(self, t: DType, raw: str) -> str:
        """Return a value as it goes from block to block."""
        return self.b.crossing(t, self.b.from_memory(t, raw))

    def _load_apart(self, nodes: list[Node]) -> list[str]:
        """Read entries lane by lane."""
        low, b = self.low, self.b
        for node in nodes:
            for dep in node.deps[1:]:
                self.runs.vector(dep)
        for node in nodes:
            if node not in low.values:
                family = [n for n in nodes if _family(n) == _family(node)]
                if node.type.size_bytes not in WORDS:
                    family = [node]
                near = [n for n in family if 0 <= _offset(n) - _offset(node) < MAX_SPAN]
                self._read_apart(node, near)
        values = [low.values.pop(node) for node in nodes]
        pairs = zip(nodes, values, strict=True)
        return [b.crossing(node.type, value) for node, value in pairs]

    def _read_masks(self, node: Node, base: str, index: str) -> str:
        """Read bytes into lanes of 32 bits, where masks live."""
        low, b = self.low, self.b
        if b.width > MANY_LANES:
            found = b.from_memory(BOOL, self._read_lanes("i8", base, index))
        else:
            words = self._read_lanes("i8", base, index, "i32")
            found = b.compare("ne", UINT32, words, 0)
        mask = node.deps[2]
        return (
            found if is_true(mask) else b.binary("and", BOOL, found, low.values[mask])
        )

    def _gather(self, t: DType, base: str, index: str, active: str) -> str:
        """Read entries, as they are in memory, by the processor's instruction.

        It takes four bytes at least. Arrays can be read a little past their ends.
        """
        b = self.b
        ty, element, masks = b.memory_type(t), t.memory_llvm, b.narrow(active)
        if t.size_bytes in WORDS:
            return gather_call(b, element, ty, base, index, masks)
        words = gather_call(b, "i32", b.type(UINT32), base, index, masks, element)
        small = f"<{b.width} x i{8 * t.size_bytes}>"
        raw = b.emit(f"trunc {b.type(UINT32)} {words} to {small}")
        return raw if small == ty else b.emit(f"bitcast {small} {raw} to {ty}")

    def read_one(self, node: Node, index: str, mask: str) -> str:
        """Read the entry that all active lanes want, as a scalar; zero if none does.

        Then a zero elsewhere is read, so that no index is used that may be wrong.
        """
        low, b = self.low, self.b
        element = node.type.memory_llvm
        base = low.addresses[node.deps[0]]
        if _offset(node):
            index = b.emit(f"add i32 {index}, {_offset(node)}")
        place = entry_address(b, element, base, index)
        if mask != "true":
            place = b.emit(f"select i1 {mask}, ptr {place}, ptr {self._zero()}")
        entry = b.load(element, place)
        return b.emit(f"icmp ne i8 {entry}, 0") if node.type is BOOL else entry

    def _zero(self) -> str:
        """Return the address of a zero of any type, on the stack."""
        low = self.low
        if not self._zero_name:
            self._zero_name = low.in_entry("alloca i64, align 8")
            low.entry.append(f"  store i64 0, ptr {self._zero_name}, align 8")
        return self._zero_name

    def read_at(self, node: Node) -> str:
        """Read an entry of another array per lane; the first operand tells where."""
        low, b = self.low, self.b
        t = node.type
        active = low.under_mask(low.values[node.deps[2]])
        # Idle lanes read the arguments, which are there in any case.
        somewhere = b.splat(UINT64, low.in_entry("ptrtoint ptr %args to i64"))
        bases = b.select(UINT64, active, low.values[node.deps[0]], somewhere)
        index = low.values[node.deps[1]]
        if _offset(node):
            index = b.add(UINT32, index, _offset(node))
        index = b.select(UINT32, active, index, 0)
        element = t.memory_llvm

        def read(lane: int) -> str:
            base = lane_of(b, b.type(UINT64), bases, lane)
            start = b.emit(f"inttoptr i64 {base} to ptr")
            return b.load(element, lane_address(b, element, start, index, lane))

        raw = each_lane(b, element, read)
        return b.from_memory(t, low.cleared(b.memory_type(t), raw, node.deps[2]))

    def _read_lanes(
        self, element: str, base: str, index: str, into: str | None = None
    ) -> str:
        """Read in all lanes, one by one unless gathers are fast.

        Entries may go `into` lanes of a wider type.
        """
        b = self.b
        if b.target.has_fast_gathers and bits_of(element) // 8 in WORDS:
            ty, every = f"<{b.width} x {element}>", b.narrow(b.const(BOOL, True))
            return gather_call(b, element, ty, base, index, every)
        if b.width > MANY_LANES and bits_of(element) < UINT32.bits:
            self.low.cross_mask()
            places = self.low.on_stack("places", b.type(UINT32))
            b.line(f"store {b.type(UINT32)} {index}, ptr {places}, align 32")
            found = self.low.on_stack("found", f"<{b.width} x {element}>")
            return looped(b, element, base, places, found)

        def read(lane: int) -> str:
            entry = b.load(element, lane_address(b, element, base, index, lane))
            return b.emit(f"zext {element} {entry} to {into}") if into else entry

        return each_lane(b, into or element, read)

    def _read_together(self, nodes: list[Node]) -> None:
        """Read neighbouring entries under one mask with one load per lane."""
        low, b = self.low, self.b
        first = min(nodes, key=_offset)
        t = first.type
        offsets = {_offset(n) - _offset(first) for n in nodes}
        index = self._safe_index(low.values[first.deps[1]], self.active(first))
        base = low.addresses[first.deps[0]]
        if _offset(first):
            base = b.at(t.llvm, base, _offset(first))
        is_stream = self._is_stream(t, first.deps[1])
        columns = self._read_rows(t, base, index, offsets, is_stream)
        for node in nodes:
            column = columns[_offset(node) - _offset(first)]
            low.values[node] = low.cleared(b.type(t), column, node.deps[2])

    def _read_pair(self, first: Node, second: Node) -> None:
        """Read entries `b` and `b + 1`, of which only one may lie inside.

        Where only the second does, `b` is -1, and it is the first of the row at 0.
        """
        low, b = self.low, self.b
        t = first.type
        for node in (first, second):
            self._ensure(node.deps[2])
        index = self._safe_index(low.values[first.deps[1]], self.active(first))
        base = low.addresses[first.deps[0]]
        is_stream = self._is_stream(t, first.deps[1])
        columns = self._read_rows(t, base, index, {0, 1}, is_stream)
        low.values[first] = low.cleared(b.type(t), columns[0], first.deps[2])
        found, mask = columns[1], first.deps[2]
        if mask.op is not LITERAL:
            found = b.select(t, low.values[mask], found, columns[0])
        low.values[second] = low.cleared(b.type(t), found, second.deps[2])

    def _ensure(self, node: Node) -> None:
        """Lower a mask that differs in comparisons of an index from one that is."""
        if node not in self.low.values:
            for dep in node.deps:
                self._ensure(dep)
            self.low.node(node)

    def _read_rows(
        self, t: DType, base: str, index: str, offsets: set[int], is_stream: bool
    ) -> dict[int, str]:
        """Read the entries from each index on; return those at some offsets."""
        b = self.b
        span = 2 if max(offsets) == 1 else 4
        if b.target.has_masks and span == 2 and t.bits == 32 and not is_stream:
            w, wide, every = b.width, b.type(UINT64), b.const(BOOL, True)
            pairs = gather_call(b, "i64", wide, base, index, every, step=t.llvm)
            ty = f"<{2 * w} x {t.llvm}>"
            flat = b.emit(f"bitcast {wide} {pairs} to {ty}")
            return {k: b.shuffle(ty, flat, flat, range(k, 2 * w, 2)) for k in offsets}
        rows = []
        for lane in range(b.width):
            address = lane_address(b, t.llvm, base, index, lane)
            rows.append(b.load(f"<{span} x {t.llvm}>", address, t.size_bytes))
        return transpose(b, t.llvm, rows, span, offsets)


def _offset(node: Node) -> int:
    return int(node.attr or 0)


def _family(node: Node) -> Key:
    """Return what gathers share that differ by an offset only."""
    return (id(node.scope), *map(id, node.deps))


def _pairs(families: list[list[Node]]) -> dict[Node, tuple[Node, Node]]:
    """Find reads of entries `b` and `b + 1` that differ in their bounds only."""
    single: dict[object, list[Node]] = {}
    for found in families:
        single.setdefault(_family(found[0])[:-1], []).append(found[0])
    pairs = {}
    for nodes in single.values():
        if len(nodes) > 1:
            known = {(_offset(n), frozenset(split(n)[1])): n for n in nodes}
            for (offset, others), node in known.items():
                after = known.get((1, others))
                if offset == 0 and after is not None:
                    pairs[node] = pairs[after] = node, after
    return pairs
