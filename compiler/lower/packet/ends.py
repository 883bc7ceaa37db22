"""Computes integers for the first and the last lane of a packet, as scalars.

What these tell of the lanes between is in `lines`. A scalar is written where it is
first wanted, and serves the rest of that block and the blocks inside. A packet in which
rows end has several `Span`s of lanes, each with ends of its own (`rows`).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import BITCAST, CAST, COUNTER, LITERAL
from lumijit.compiler.lower.packet.lanes import lane_of, mask_bits
from lumijit.compiler.lower.packet.lines import Kind, Line, Lines, Test, Tests
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.plan.program import is_baked
from lumijit.runtime.dtypes import BOOL

# A lane's number, which is known or an `i32`.
Lane = int | str


class Span(NamedTuple):
    """Neighbouring lanes of a packet."""

    first: Lane
    last: Lane


class Ends:
    """The scalars of one kernel at the ends of a packet, and tests of them."""

    def __init__(self, low: PacketState, lines: Lines) -> None:
        self.low = low
        self.lines = lines.found
        self._truth = lines.truth
        self._premises = lines.premises
        #: All lanes.
        self.whole = Span(0, low.b.width - 1)
        self._known: ChainMap[object, str] = ChainMap()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Forget at the end what is written in a block that isn't always run."""
        self._known = self._known.new_child()
        yield
        self._known = self._known.parents

    def first(self, node: Node, lane: Lane = 0) -> str:
        """Return what a node is in the first lane, or in the first of a span."""
        return self._at(node, Span(lane, lane), frozenset())

    def hold(
        self, lines: Iterable[Line], masks: Iterable[Node], span: Span | None = None
    ) -> str:
        """Return whether lines hold in this packet, and all lanes are active.

        Args:
            lines: what has to hold.
            masks: those of accesses; that of the active lanes is added.
            span: which lanes of the packet `lines` are about.
        """
        span = span or self.whole
        tests: dict[Test, None] = {}
        parts = [self._all_run()]
        for mask in masks:
            truth = self._truth(mask)
            if truth is None:
                parts.append(self._is_full(self.low.values[mask]))
            else:
                tests.update(dict.fromkeys(truth))
        for line in lines:
            tests.update(dict.fromkeys(line.tests))
        # In an order that doesn't depend on where nodes are in memory.
        order = self.low.order
        wanted = sorted(tests, key=lambda t: (order[t.node], t.kind.name, t.step))
        parts += [self._test(test, span) for test in wanted]
        return self.every(parts)

    def every(self, parts: Iterable[str]) -> str:
        """Return whether all of some scalars are true."""
        result = ""
        for part in dict.fromkeys(filter(None, parts)):
            result = self.low.b.emit(f"and i1 {result}, {part}") if result else part
        return result or "true"

    def _all_run(self) -> str:
        """Return whether all lanes are elements, and active here; nothing if so."""
        low = self.low
        if low.mask is not None and low.b.origin(low.mask) != low.tail_mask:
            return self._is_full(low.mask)
        if "full" not in self._known:
            self._known["full"] = low.is_full_packet()
        return self._known["full"]

    def _is_full(self, mask: str) -> str:
        b = self.low.b
        bits = mask_bits(b, b.narrow(mask))
        return b.emit(f"icmp eq i{b.width} {bits}, -1")

    def _test(self, test: Test, span: Span) -> str:
        key = test, span
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compare(test, span)
        return known

    def _compare(self, test: Test, span: Span) -> str:
        b, node = self.low.b, test.node
        ty = node.type.llvm
        if test.kind is Kind.ONES:
            ones = self.first(node)
            more = b.emit(f"add {ty} {ones}, 1")
            return b.emit(f"icmp eq {ty} {b.emit(f'and {ty} {ones}, {more}')}, 0")
        ends = self.first(node, span.first), self._at(node, span, self._premises[test])
        if test.kind is Kind.TRUE:
            return b.emit(f"and i1 {ends[0]}, {ends[1]}")
        if test.kind is Kind.GROWN:
            growth = b.emit(f"sub {ty} {ends[1]}, {ends[0]}")
            wanted = self.steps(node, test.step, span)
            return b.emit(f"icmp eq {ty} {growth}, {wanted}")
        predicate = "eq"
        if test.kind is Kind.ORDERED:
            order = "le" if test.step > 0 else "ge"
            predicate = ("s" if node.type.is_signed else "u") + order
        return b.emit(f"icmp {predicate} {ty} {ends[0]}, {ends[1]}")

    def steps(self, node: Node, step: int, span: Span) -> int | str:
        """Return by how much a node grows in a span, if it does by `step` a lane."""
        first, last = span
        if isinstance(first, int) and isinstance(last, int):
            return step * (last - first)
        if not step:
            return 0
        b, ty = self.low.b, node.type.llvm
        lanes = b.emit(f"sub i32 {last}, {first}")
        if node.type.bits > 32:
            lanes = b.emit(f"sext i32 {lanes} to {ty}")
        return b.emit(f"mul {ty} {lanes}, {step}")

    def _at(self, node: Node, span: Span, premises: Tests) -> str:
        """Return what a node is in a span's last lane, after its operands.

        That is if `premises` hold of the span.
        """
        stack = [node]
        while stack:
            top = stack[-1]
            key = top, span, premises
            if key not in self._known:
                deps = self._made_of(top, span, premises)
                keys = [(d, span, premises) for d in deps]
                missing = [d for d in keys if d not in self._known]
                if missing:
                    stack += [d for d, _, _ in missing]
                    continue
                self._known[key] = self._scalar(
                    top, span, [self._known[k] for k in keys]
                )
            stack.pop()
        return self._known[node, span, premises]

    def _made_of(self, node: Node, span: Span, premises: Tests) -> tuple[Node, ...]:
        """Return the operands that a scalar is computed from."""
        line = self.lines.get(node)
        is_near = (
            span.first != span.last and line is not None and line.tests <= premises
        )
        if node in self.low.scalars or is_near:
            return ()
        is_computed = node.op.lower is not None or node.op in (CAST, BITCAST)
        is_integer = all(d.type.is_int or d.type.is_bool for d in node.deps)
        return node.deps if is_computed and is_integer else ()

    def _scalar(self, node: Node, span: Span, args: list[str]) -> str:
        low, b = self.low, self.low.b
        ty, line = node.type.llvm, self.lines.get(node)
        found = low.scalars.get(node)
        if found is not None:
            return found
        if args:
            return low.compute_scalar(node, args)
        if node.op is LITERAL:
            if is_baked(node):
                return low.scalar_builder.const(node.type, node.attr)
            return self._argument(node)
        if span.first != span.last and line is not None:
            # It grows steadily, or this is tested.
            first = self.first(node, span.first)
            step = self.steps(node, line.step, span)
            return b.emit(f"add {ty} {first}, {step}") if step else first
        if node.op is COUNTER:
            index = b.emit(f"trunc i64 {low.index_name} to i32")
            return b.emit(f"add i32 {index}, {span.last}") if span.last else index
        vector, lane = low.operand(node), span.last
        if isinstance(lane, str):
            lane = b.emit(f"zext i32 {lane} to i64")
        if node.type is BOOL:
            return lane_of(b, b.type(BOOL), b.narrow(vector), lane)
        return lane_of(b, b.type(node.type), vector, lane)

    def _argument(self, node: Node) -> str:
        """Load a number in the kernel's entry."""
        low = self.low
        low.scalars[node] = low.load_slot(low.order[node], node.type.llvm)
        return low.scalars[node]
