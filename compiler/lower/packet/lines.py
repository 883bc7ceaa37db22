"""Finds integers that grow by the same number from lane to lane, mostly by 1, 0 or -1.

Counters do, and what is the same in all lanes. Quotients and remainders of a counter
(rows and columns) do but for the packets in which a row ends, as do entries of a table
by row, or a position that is kept within limits. For each such `Line` it is known which
`Test`s of a packet's first and last lanes tell that it holds in those between.

They suffice as what they ask of moves in one direction: a quotient of what rises from
lane to lane, without wrapping around, is the same in all lanes if it is in the first
and the last; what is kept within limits hasn't met them if it has grown by as much as
without. `Rise` is by how much, at least and at most, a value grows a lane.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    GATHER,
    LITERAL,
    LOOP,
)
from lumijit.compiler.ir.roles import is_true
from lumijit.compiler.plan.program import Program
from lumijit.runtime.cached_properties import cached_property

# Positions with more tests than this are read apart.
MANY_TESTS = 40
# What rises by no more than this a lane wraps around once in a packet at most.
_STEEP = 1 << 16


class Kind(Enum):
    """What has to hold of a value's first and last lane, and those of its operands."""

    SAME = "they are equal"
    GROWN = "they differ by as much as without limits"
    ORDERED = "it didn't wrap around between them"
    ONES = "it is a power of two minus 1"
    TRUE = "both are true"


class Test(NamedTuple):
    """What has to hold of a node; `step` is its growth a lane, or its direction."""

    kind: Kind
    node: Node
    step: int = 0


Tests = frozenset[Test]
_NONE: Tests = frozenset()


class Rise(NamedTuple):
    """By how much a value grows from each lane to the next, if `tests` hold.

    Where it `is_ordered`, they tell as well that it doesn't wrap around.
    """

    least: int
    most: int
    tests: Tests = _NONE
    is_ordered: bool = False


_FIXED = Rise(0, 0, is_ordered=True)


class Line(NamedTuple):
    """A value that grows by `step` from lane to lane, if `tests` hold."""

    step: int
    tests: Tests = _NONE

    @property
    def is_sure(self) -> bool:
        """Whether it grows so in every packet."""
        return not self.tests


_SUMS = {ar.ADD: 1, ar.SUB: -1}
_PIECES = frozenset(
    {lo.SHR, lo.SHR_BY, ar.MULHI, ar.INT_DIV, ar.QUOTIENT, ar.LONG_QUOTIENT}
)
_SIGNED_PIECES = frozenset({ar.MULHI, ar.INT_DIV, ar.QUOTIENT})
_COMPARISONS = frozenset({lo.LT, lo.LE, lo.GT, lo.GE, lo.INSIDE})
_SCALED = frozenset({ar.MUL, lo.SHL, lo.SHL_BY})
_LIMITS = frozenset({ar.MIN, ar.MAX})
_STEADY = frozenset(
    {
        *_SUMS,
        *_SCALED,
        *_LIMITS,
        ar.NEG,
        ar.MOD,
        lo.OR,
        lo.AND,
        lo.SELECT,
        CAST,
        BITCAST,
    }
)


class Lines:
    """The lines of a program."""

    def __init__(self, program: Program, uniform: Collection[Node]) -> None:
        self.found: dict[Node, Line] = {}
        #: What has to hold for a test to tell anything: it comes with these.
        self.premises: dict[Test, Tests] = {}
        self._rises: dict[Node, Rise] = {}
        self._nodes = program.all_nodes()
        for node in self._nodes:
            if node in uniform or _is_single(node):
                self.found[node], self._rises[node] = Line(0), _FIXED
            elif node.type.is_bool or (node.type.is_int and node.type.bits >= 32):
                self._look(node)

    @cached_property
    def strided(self) -> set[Node]:
        """The values that probably grow by some other number from lane to lane.

        They are made of lines, and of each other.
        """
        strided: set[Node] = set()
        steady: set[Node] = {*self.found}
        for node in self._nodes:
            if node.op is LOOP:
                body = zip(node.attr.args, node.attr.body.outputs, strict=True)
                for (arg, out), start in zip(body, node.deps, strict=False):
                    # By as much in each turn.
                    moves = [dep for dep in out.deps if dep is not arg]
                    is_sum = out.op in _SUMS and all(d in self.found for d in moves)
                    known = strided if start in strided else steady
                    if start in known and (out is arg or is_sum):
                        known.add(arg)
            elif node.op in _STEADY and node.type.is_int and node not in self.found:
                deps = node.deps[1:] if node.op is lo.SELECT else node.deps
                rest = [dep for dep in deps if dep not in steady]
                is_known = all(dep in self.found for dep in deps)
                if is_known or (rest and all(dep in strided for dep in rest)):
                    strided.add(node)
        return strided

    def truth(self, mask: Node) -> Tests | None:
        """Return the tests that a mask is true in all lanes, if there are any."""
        tests: set[Test] = set()
        stack = [mask]
        while stack:
            part = stack.pop()
            line = self.found.get(part)
            if part.op is lo.AND:
                stack += part.deps
            elif line is None:
                return None
            elif not is_true(part):
                same = Test(Kind.SAME, part)
                premises = self.premises.get(same, line.tests)
                place = self.found.get(part.deps[0]) if part.op is lo.INSIDE else None
                if place is not None:
                    # If it wrapped around between, one of the ends wouldn't be inside.
                    premises = place.tests
                tests |= self._with(premises, Test(Kind.TRUE, part))
        return frozenset(tests)

    def _look(self, node: Node) -> None:
        line = self._line(node)
        if line is not None and len(line.tests) <= MANY_TESTS:
            self.found[node] = line
        rise = self._rise(node)
        if rise is None and line is not None:
            rise = Rise(line.step, line.step, line.tests)
        if rise is not None and max(-rise.least, rise.most) < _STEEP:
            self._rises[node] = rise

    def _rise(self, node: Node) -> Rise | None:
        """Return how fast a value rises, if that is known."""
        op = node.op
        if op is COUNTER:
            return Rise(1, 1, is_ordered=True)
        rises = [self._rises[dep] for dep in node.deps if dep in self._rises]
        if not rises or len(rises) < len(node.deps):
            return None
        first, last = rises[0], rises[-1]
        tests = frozenset().union(*(rise.tests for rise in rises))
        if op is ar.ADD:
            return Rise(first.least + last.least, first.most + last.most, tests)
        if op is ar.SUB:
            return Rise(first.least - last.most, first.most - last.least, tests)
        if op is ar.NEG:
            return Rise(-first.most, -first.least, tests)
        ordered = self._ordered(node.deps[0])
        if _is_passed(node):
            if node.deps[0].type.bits >= node.type.bits:
                return Rise(first.least, first.most, first.tests)
            return None if ordered is None else Rise(first.least, first.most, ordered)
        if op in _LIMITS and _FIXED in (first, last):
            k = first == _FIXED
            (least, most), ordered = rises[k][:2], self._ordered(node.deps[k])
            if ordered is None:
                return None
            return Rise(min(least, 0), max(most, 0), ordered, is_ordered=True)
        if op not in _PIECES or ordered is None or last != _FIXED:
            return None
        # Nothing is known of the sign of what it is divided by.
        most = max(first.most, -first.least)
        is_signed = node.type.is_signed and op in _SIGNED_PIECES
        least = -most if is_signed or first.least < 0 else 0
        most = 0 if first.most <= 0 and not is_signed else most
        return Rise(least, most, ordered, not is_signed)

    def _ordered(self, node: Node) -> Tests | None:
        """Return the tests that a value moves in one direction without wrapping."""
        rise = self._rises.get(node)
        if rise is None or rise.least < 0 < rise.most:
            return None
        if rise.is_ordered:
            return rise.tests
        step = 1 if rise.most > 0 else -1
        return self._with(rise.tests, Test(Kind.ORDERED, node, step))

    def _with(self, premises: Tests, test: Test) -> Tests:
        self.premises[test] = premises
        return premises | {test}

    def _line(self, node: Node) -> Line | None:
        op = node.op
        if op is COUNTER:
            return Line(1)
        lines = [self.found.get(dep) for dep in node.deps]
        known = [line for line in lines if line is not None]
        if op in _PIECES or op in _COMPARISONS:
            return self._piece(node, known)
        if len(known) < len(lines):
            return self._entry(node) if op is GATHER else None
        steps = [line.step for line in known]
        tests = frozenset().union(*(line.tests for line in known))
        if op in _SUMS and 0 in steps:
            return Line(steps[0] + _SUMS[op] * steps[1], tests)
        if op is ar.NEG:
            return Line(-steps[0], tests)
        if not any(steps) and (op.lower is not None or _is_passed(node)):
            return Line(0, tests)
        if _is_passed(node):
            source = node.deps[0]
            if source.type.bits >= node.type.bits:
                return Line(steps[0], tests)
            ordered = self._ordered(source)
            return None if ordered is None else Line(steps[0], tests | ordered)
        if op is lo.SELECT and not steps[0] and steps[1] == steps[2]:
            return Line(steps[1], tests)
        if op is GATHER:
            return self._entry(node)
        return self._limited(node, steps, tests)

    def _piece(self, node: Node, known: list[Line]) -> Line | None:
        """Look at a quotient or a comparison: the same in all lanes, mostly."""
        fixed = [d for d in node.deps if self._rises.get(d) == _FIXED]
        moving = [d for d in node.deps if d not in fixed]
        is_one = moving == [node.deps[0]] or (
            len(moving) == 1 and node.op in _COMPARISONS
        )
        ordered = self._ordered(moving[0]) if is_one else None
        if ordered is not None:
            return Line(0, self._with(ordered, Test(Kind.SAME, node)))
        if len(known) < len(node.deps) or any(line.step for line in known):
            return None
        return Line(0, frozenset().union(*(line.tests for line in known)))

    def _limited(self, node: Node, steps: list[int], tests: Tests) -> Line | None:
        """Look at what is kept within limits, or at a remainder."""
        if node.op in _LIMITS:
            # What grows by one at most, and did so in all, has done so each time.
            rise, step = self._rise(node), sum(steps)
            if rise is None or rise[:2] != (min(step, 0), max(step, 0)):
                return None
            return Line(step, self._with(rise.tests, Test(Kind.GROWN, node, step)))
        if node.op not in (ar.MOD, lo.AND) or steps[1]:
            return None
        premises: Tests | None
        if node.op is lo.AND:
            # Remainders of powers of two need not be of what doesn't wrap around.
            premises = self._with(tests, Test(Kind.ONES, node.deps[1]))
        else:
            premises = self._ordered(node.deps[0])
        if premises is None:
            return None
        grown = Test(Kind.GROWN, node, steps[0])
        return Line(steps[0], self._with(premises | tests, grown))

    def _entry(self, node: Node) -> Line | None:
        """Look at an entry that all lanes read."""
        _, index, mask = node.deps
        line = self.found.get(index)
        active = Line(0) if is_true(mask) else self.found.get(mask)
        if line is None or active is None or line.step or active.step:
            return None
        # Never sure: what the first lane has read is nothing if it isn't active.
        return Line(0, self._with(line.tests | active.tests, Test(Kind.SAME, node)))


def _is_single(node: Node) -> bool:
    return node.op is LITERAL or (node.op is EVALUATED and node.size == 1)


def _is_passed(node: Node) -> bool:
    """Tell whether an integer is only converted to another type of integers."""
    if node.op is not CAST and node.op is not BITCAST:
        return False
    source = node.deps[0].type
    if not (source.is_int and node.type.is_int):
        return False
    return node.op is BITCAST or source.bits >= 32
