"""Decides which kernels compute a set of nodes, and in which order.

Every node gets a *phase*: the number of kernels that must have run before it can
be computed. Reading an array by index needs it in memory, so a gather lies one
phase after its source, and reading a written array one phase after the write.
Nodes of one phase and one size share a kernel. What later phases need is computed
anew there if that takes few operations, and stored otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from operator import attrgetter, is_not
from typing import TypeAlias

from lumijit.compiler.ir.effects import Reduction, joins
from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import ROOT, Node, begin_walk
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.compiler.ir.ops.record import VALUES_ONLY
from lumijit.compiler.ir.ops.structural import (
    CONSUMED,
    EVALUATED,
    LITERAL,
    PRODUCT,
    PROJECT,
    REGIONS,
    SCATTER,
    SCATTER_CAS,
    SCATTER_FETCH,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import operations, references_inside
from lumijit.compiler.ir.roles import (
    is_effect,
    is_returning,
    operands,
    source_deps,
    value_deps,
    written_deps,
)
from lumijit.compiler.ir.trace import make
from lumijit.compiler.ir.value_numbering import users
from lumijit.compiler.plan.program import leaked_symbol
from lumijit.compiler.transform.rewriting import Rewriter, without_effects
from lumijit.runtime.errors import SymbolicError

# Nobody finds these by their value (literals that are written to are made for it).
_UNNUMBERED = frozenset({COPY, EVALUATED, LITERAL, UNDEFINED, WRITTEN})
# The results of these are nodes of their own.
_SEVERAL = REGIONS | {PRODUCT}
_PROBE = (object(),)
_BASE_REFERENCES = sys.getrefcount(_PROBE[0])
_ORDER = attrgetter("phase", "size")
# Computing so many operations anew takes about as long as a value's way to memory and
# back, where many arrays of later phases need it.
_MANY_OPERATIONS, _VERY_MANY_OPERATIONS = 24, 64


# The first and the last phase, and the largest number of elements.
Need: TypeAlias = tuple[int, int, int]


class Group:
    """What one kernel computes: nodes to store and effects to carry out."""

    __slots__ = ("effects", "outputs", "phase", "size")

    def __init__(self, phase: int, size: int) -> None:
        self.phase = phase
        self.size = size
        self.outputs: list[Node] = []
        self.effects: list[Node] = []


class Plan:
    """The groups in order of phase, and what else the launch must know."""

    __slots__ = ("groups", "shared_targets", "weight", "written")

    def __init__(self) -> None:
        self.weight = 0
        self.groups: list[Group] = []
        self.shared_targets: set[int] = set()
        self.written: list[Node] = []


def _own(target: Node) -> Node:
    """Return a target's value as a node that value numbering doesn't know."""
    if target.op in _UNNUMBERED:
        return target
    own = make(COPY, target.type, target.size, (target,), None)
    own.scope = target.scope
    return own


class _Planner:
    def __init__(self, wanted: list[Node]) -> None:
        self.plan = Plan()
        # The phases of nodes, by the numbers that they have in this walk.
        self.walk = begin_walk()
        self.phases: list[int] = []
        self.stored: dict[int, tuple[Node, int]] = {}
        self.effects: list[Node] = []
        self.carriers: list[Node] = []
        self.claims: dict[int, int] = {}
        # What isn't there yet, in order.
        self.placed: list[Node] = []
        for node in wanted:
            self._visit(node)
        for node in wanted:
            if node.op is not WRITTEN:
                self._store(node, self.phases[node.number])

    def _store(self, node: Node, phase: int) -> None:
        if node.op is not EVALUATED:
            self.stored.setdefault(id(node), (node, phase))

    def _enter(self, node: Node, phase: int) -> None:
        node.walk, node.number = self.walk, len(self.phases)
        self.phases.append(phase)

    def _visit(self, root: Node) -> None:
        walk = self.walk
        # Below a node whose operands are in the stack, too, is None.
        stack: list[Node | None] = [root]
        while stack:
            node = stack.pop()
            if node is None:
                node = stack.pop()
                assert node is not None
                if node.walk != walk:
                    self._place(node)
                continue
            if node.walk == walk:
                continue
            if node.scope is not ROOT:
                raise leaked_symbol(node)
            if not node.deps:
                if node.op is CONSUMED:
                    raise _used_up()
                self._enter(node, 0)
                continue
            if node.op in REGIONS and node.attr.is_consumed:
                raise _used_up()
            if is_effect(node):
                self._note_sharing(node)
            stack.append(node)
            stack.append(None)
            self._push_operands(stack, node)

    def _push_operands(self, stack: list[Node | None], node: Node) -> None:
        """Have operands visited. (Their names here end here: references count.)"""
        walk = self.walk
        for dep in node.deps:
            if dep.walk != walk:
                stack.append(dep)

    def _note_sharing(self, node: Node) -> None:
        """Note targets that somebody besides this effect still refers to.

        Those that aren't computed yet get a node of their own first: another thread
        could find the one that is there by its value, and so refer to it later.
        """
        own = list(node.deps)
        targets = operands(node).targets
        own[targets] = map(_own, own[targets])
        if node.op in REGIONS and any(map(is_not, own, node.deps)):
            # Its code refers to them, too.
            images = {id(old): new for old, new in zip(node.deps, own, strict=True)}
            (copy,) = Rewriter(images).copy([node], node.scope)
            node.attr, own = copy.attr, list(copy.deps)
            del copy, images
        node.deps = deps = tuple(own)
        del own
        for k in range(*targets.indices(len(deps))):
            count = _BASE_REFERENCES + references_inside(node, k)
            if sys.getrefcount(deps[k]) > count:
                self.plan.shared_targets.add(id(deps[k]))

    def _place(self, node: Node) -> None:
        level = 0
        for dep in value_deps(node):
            before = self.phases[dep.number]
            level = max(level, before)
        if operands(node) is not VALUES_ONLY:
            level = self._place_access(node, level)
        if node.op is WRITTEN:
            level += 1
            self.plan.written.append(node)
        self._enter(node, level)
        self.placed.append(node)
        if node.op in REGIONS:
            self.plan.weight += operations(node)
        if node.op is PROJECT:
            writer = node.deps[0]
            if is_effect(writer):
                self.carriers.append(node)

    def _place_access(self, node: Node, level: int) -> int:
        """Return the phase from `level` on in which a node finds what it addresses."""
        for source in source_deps(node):
            level = max(level, self._address(source))
        for target in written_deps(node):
            level = max(level, self._target(node, target))
        level = self._claim(node, level)
        if is_effect(node):
            self.effects.append(node)
        if is_returning(node):
            self.carriers.append(node)
        return level

    def _address(self, node: Node) -> int:
        """Return the phase from which on a node lies in memory; have it stored."""
        level = self.phases[node.number]
        if node.op is EVALUATED or node.op is WRITTEN:
            return level
        self._store(node, level)
        return level + 1

    def _target(self, effect: Node, target: Node) -> int:
        level = self.phases[target.number]
        if target.op in (EVALUATED, LITERAL, UNDEFINED):
            return 0
        if target.op is not WRITTEN:
            return self._address(target)
        previous = target.deps[0]
        if id(target) not in self.plan.shared_targets and _may_share_kernel(
            previous, effect
        ):
            return level - 1
        return level

    def _claim(self, effect: Node, level: int) -> int:
        """Return the phase from `level` on in which nobody else writes the targets.

        Two arrays may share contents and both be written: each then gets a copy,
        in a kernel of its own.
        """
        targets = written_deps(effect)
        for target in targets:
            level = max(level, self.claims.get(id(target), -1) + 1)
        for target in targets:
            self.claims[id(target)] = level
        return level

    def _keep_results(self) -> None:
        """Store all results of regions that can't run again: what writes return."""
        for node in self.effects:
            if node.op not in REGIONS or not node.attr.is_returning:
                continue
            results = [n for n in users(node) if n.op is PROJECT]
            rest = [n for n in results if id(n) not in self.stored]
            if rest and without_effects(node)[0].is_consumed:
                for result in rest:
                    self._store(result, self.phases[node.number])

    def _keep_waiting(self) -> list[int]:
        """Store what takes very many operations and waits for a later phase.

        A kernel that runs then anyway does it: so kernels at the end of chains, which
        add up what all phases have, don't grow with these.

        Returns:
            How many operations values take, by number, as far as that matters.
        """
        phases = self.phases
        runs = {(level, node.size) for node, level in self.stored.values()}
        runs |= {(phases[node.number], node.size) for node in self.effects}
        costs = [0] * len(phases)
        for node in self.placed:
            cost = operations(node) if node.op in REGIONS else 1
            level = phases[node.number]
            for dep in value_deps(node):
                needed, before = costs[dep.number], phases[dep.number]
                is_long = needed == _VERY_MANY_OPERATIONS and before < level
                if is_long and (before, dep.size) in runs:
                    needed *= not self._keep(dep, before, node.size)
                cost += needed
            costs[node.number] = min(cost, _VERY_MANY_OPERATIONS)
        return costs

    def _keep_costly(self) -> None:
        """Store what kernels of several phases need and takes many operations.

        Else each phase of a chain would repeat all of those before it.
        """
        costs, stored = self._keep_waiting(), self.stored
        # In which phases values are computed first and last, and for how many elements.
        needs: list[Need | None] = [None] * len(costs)
        projects: dict[int, list[Node]] = {}
        for effect in self.effects:
            phase = self.phases[effect.number]
            needs[effect.number] = phase, phase, effect.size
        for node in reversed(self.placed):
            found = stored.get(id(node))
            need = needs[node.number]
            if found is not None:
                need = found[1], found[1], node.size
            if need is None:
                continue
            first, last, size = need
            if first < last and costs[node.number] >= _MANY_OPERATIONS:
                # (The first kernel also stores results that only later ones need.)
                results = projects.get(id(node), []) if node.op in _SEVERAL else [node]
                if all([self._keep(result, first, size) for result in results]):
                    last = first
                    need = first, last, size
            if node.op is PROJECT:
                projects.setdefault(id(node.deps[0]), []).append(node)
            for dep in value_deps(node):
                needs[dep.number] = _joined(needs[dep.number], need)

    def _keep(self, node: Node, phase: int, size: int) -> bool:
        """Store a value for others in a phase, if that can be; tell whether it is."""
        # (What all elements have in common isn't worth a kernel.)
        is_one = node.size == 1 < size
        is_value = node.op not in _SEVERAL and node.op is not WRITTEN
        if is_one or not is_value or is_local(node) or is_effect(node):
            return False
        self._store(node, phase)
        return True

    def finish(self) -> Plan:
        """Form the groups."""
        last = max(self.phases, default=0)
        self.plan.weight += len(self.phases)
        self._keep_results()
        self._keep_carried(last)
        if last and self.plan.weight >= _MANY_OPERATIONS:
            self._keep_costly()
        groups: dict[tuple[int, int], Group] = {}
        for node, level in self.stored.values():
            _group(groups, level, node.size).outputs.append(node)
        for node in self.effects:
            _group(groups, self.phases[node.number], node.size).effects.append(node)
        self.plan.groups = sorted(groups.values(), key=_ORDER)
        return self.plan

    def _keep_carried(self, last: int) -> None:
        """Store what writes return, and what regions that write compute, for others.

        These are kernels of later phases, and of more elements: who computes it anew
        writes once more.
        """
        if not self.carriers:
            return
        widest = max([node.size for node in self.placed])
        for node in self.carriers:
            phase = self.phases[node.number]
            is_for_others = phase < last or node.size == 1 < widest
            if is_for_others and node.op is not EVALUATED:
                self._store(node, phase)


def _group(groups: dict[tuple[int, int], Group], level: int, size: int) -> Group:
    key = (level, size)
    found = groups.get(key)
    if found is None:
        found = groups[key] = Group(level, size)
    return found


def _joined(need: Need | None, other: Need) -> Need:
    """Return what a value is needed for that is needed for two things."""
    if need is None or need is other:
        return other
    return min(need[0], other[0]), max(need[1], other[1]), max(need[2], other[2])


def _used_up() -> SymbolicError:
    return SymbolicError(
        "scatter_inc",
        "the returned index was used up by an earlier kernel: the counter's state "
        "at that time can't be had again",
        "evaluate the index together with the first use: lumijit.eval(data, index).",
    )


def _may_share_kernel(first: Node, second: Node) -> bool:
    """Tell whether two writes to one array may run interleaved in one kernel."""
    if first.size != second.size or first.op is not second.op:
        return False
    if is_returning(first):
        return first.op not in (SCATTER_CAS, SCATTER_FETCH)
    if first.op in REGIONS:
        return False
    a: Reduction = first.attr
    b: Reduction = second.attr
    if a.op == "identity" or b.op == "identity":
        return a.op == b.op and a.group == b.group and a.group != 0
    if a.op != b.op or a.mode != b.mode:
        return False
    # These don't wait for what other elements do to an entry.
    is_apart = a.mode == "no_conflicts"
    return not is_apart or first.deps[2] is second.deps[2] or joins(second)


def joint_writes(effect: Node) -> list[Node]:
    """Return a write behind those to the array before it that share its kernel.

    Nobody else may refer to what the array is in between.
    """
    found = [effect]
    while effect.op is SCATTER and effect.deps[0].op is WRITTEN:
        is_shared = sys.getrefcount(effect.deps[0]) > _BASE_REFERENCES
        if is_shared or not _may_share_kernel(effect.deps[0].deps[0], effect):
            break
        effect = effect.deps[0].deps[0]
        found.append(effect)
    found.reverse()
    return found


def plan(wanted: Iterable[Node]) -> Plan:
    """Return the kernels that compute the wanted nodes."""
    return _Planner([n for n in wanted if n.op is not EVALUATED]).finish()


def phases(found: Plan) -> Iterator[list[Group]]:
    """Yield the groups of one phase after the other.

    Those of more elements come after writes of one entry, and read what these return.
    """
    current: list[Group] = []
    for group in found.groups:
        if current:
            before = current[-1]
            if group.phase != before.phase or (before.size == 1 and before.effects):
                yield current
                current = []
        current.append(group)
    if current:
        yield current
