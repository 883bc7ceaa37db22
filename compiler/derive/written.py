"""Derivatives of what regions write to arrays.

An array is written by index only, so the derivative by it is one in memory that the
region's derivative writes to. In reverse, writes are gone through from the last to the
first: what replaced an entry takes its derivative away, and leaves 0 to what was there
before. Forward, derivatives are written as the values are. What derivatives of products
and extremes need of the entries has no order: the region's writes are repeated for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from lumijit.compiler.derive.adjoints import partly, zero
from lumijit.compiler.derive.combined import COMBINED, Combination, combination
from lumijit.compiler.derive.order import Clock, Order
from lumijit.compiler.derive.rules import Rule, not_differentiable, push
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import Value, literal
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    CONSUMED,
    OUTER,
    REGIONS,
    SCATTER,
    SCATTER_FETCH,
)
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.ir.roles import read_deps
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import block_writes, memory
from lumijit.compiler.record.block_writes import (
    all_writes_to,
    operation,
    written_values,
)
from lumijit.compiler.record.writes import claim, depends_on_entries
from lumijit.runtime.errors import DerivativeError

T = TypeVar("T")


class Way(NamedTuple):
    """How a region has combined what it writes with the entries of an array.

    `before` is the array before the region, if derivatives depend on it. `order` tells
    what of all that is left, if that has been found out.
    """

    combination: Combination
    before: Node | None
    is_replacing: bool
    order: Order | None

    @property
    def reads_values(self) -> bool:
        """Whether derivatives depend on what is written."""
        return self.before is not None

    def clock(self, is_onwards: bool) -> Clock | None:
        """Return a clock for going through the writes, if their order matters."""
        return None if self.order is None else self.order.clock(is_onwards)

    def place(
        self, clock: Clock | None, write: Write, images: Mapping[int, Node]
    ) -> tuple[Node, Node]:
        """Return index and mask of a write whose turn comes, where it is left."""
        index, mask = write.place(images)
        if self.order is not None and clock is not None:
            mask = self.order.is_left(clock, index, mask)
        return index, mask

    def rest(self, by: Node) -> Node:
        """Return a derivative by the array before, given that by all there is after."""
        if self.order is not None:
            by = self.order.is_kept.select(Value(by), 0).node
        return by if self.before is None else self.combination.share(by, self.before)


class Target:
    """The derivative by an array, as going back through the writes changes it."""

    def __init__(self, by: Node, way: Way) -> None:
        self.is_replaced = way.is_replacing
        self.reads_values = way.reads_values
        self._way = way
        self._clock = way.clock(False)
        self._holder = Holder(by)
        if self.is_replaced:
            claim(self._holder)

    def take(
        self, write: Write, images: Mapping[int, Node]
    ) -> tuple[Node, Node | None]:
        """Return the derivative by values that were written, and where it counts."""
        index, mask = self._way.place(self._clock, write, images)
        by = self._holder._node
        if not self.is_replaced or self._clock is not None:
            found = memory.entries(by, index, mask)
            value = write.value(images)
            found = self._way.combination.share(found, value, index, mask)
            return found, partly(mask)
        # What is added leaves the entry's derivative to what was there before.
        op = operation(write.node)
        found = memory.fetch(self._holder, literal(0, by), index, mask, op)
        return found, partly(mask)

    @property
    def rest(self) -> Node:
        """The derivative by the array before the writes gone through."""
        return self._way.rest(self._holder._node)


class Tangent:
    """The forward derivative of an array that a region writes to."""

    def __init__(self, before: Node, way: Way) -> None:
        self._way = way
        self.reads_values = way.reads_values
        self._clock = way.clock(True)
        self.holder = Holder(way.rest(before))
        # The region may read what has the same derivative.
        claim(self.holder)

    def push(
        self, tangent: Node | None, write: Write, images: Mapping[int, Node]
    ) -> None:
        """Write the derivative of a value as the value is written."""
        index, mask = self._way.place(self._clock, write, images)
        is_replacing = operation(write.node) == "identity" and self._clock is None
        if tangent is None:
            if not is_replacing:
                return
            tangent = literal(0, write.wanted)
        value = write.value(images)
        tangent = self._way.combination.share(tangent, value, index, mask)
        op = "identity" if is_replacing else "add"
        mode = write.node.attr.mode if write.node.op is SCATTER else "auto"
        memory.update(self.holder, tangent, index, mask, op, mode)


class Repeated:
    """Combines the values that a region writes once more."""

    holder = None
    reads_values = True

    def __init__(self, way: Way) -> None:
        self._way = way
        self._clock = way.clock(True)

    def push(
        self, tangent: Node | None, write: Write, images: Mapping[int, Node]
    ) -> None:
        """Combine the values of a write."""
        place = self._way.place(self._clock, write, images)
        self._way.combination.include(write.value(images), *place)


class Ordered:
    """Notes in which order a region writes."""

    holder = None
    reads_values = False

    def __init__(self, order: Order) -> None:
        self._order = order

    def push(
        self, tangent: Node | None, write: Write, images: Mapping[int, Node]
    ) -> None:
        """Note a write."""
        is_replacing = operation(write.node) == "identity"
        self._order.note(is_replacing, *write.place(images))


Sink = Tangent | Repeated | Ordered


class Tangents(dict[int, Node]):
    """Forward derivatives of a region's results, by position.

    `primals` are results computed beside them, `targets` the derivatives of the arrays
    that it writes to, by the ids of these.
    """

    def __init__(
        self,
        results: Mapping[int, Node],
        primals: Mapping[int, Node],
        sinks: Mapping[int, Sink],
    ) -> None:
        super().__init__(results)
        self.primals = primals
        held = ((key, sink.holder) for key, sink in sinks.items())
        self.targets = {key: h._node for key, h in held if h is not None}


def places_of_targets(vertex: Vertex) -> dict[int, int]:
    """Return the operands that stand for arrays a region writes to, by their ids."""
    deps = enumerate(vertex.deps)
    return {dep.attr: k for k, dep in deps if dep.op is CONSUMED and dep.attr}


def sinks_of(step: Step, tangents: Mapping[int, Node]) -> dict[int, Sink]:
    """Return what takes the forward derivatives of arrays that a region writes to.

    An outer region has those of its own.
    """
    if step.targets:
        return step.targets
    deps, blocks = step.vertex.deps, step.attr.blocks
    places = {
        key: k
        for key, k in places_of_targets(step.vertex).items()
        if k in tangents
        or any(
            value.vertex is not None
            for w in all_writes_to(blocks, key)
            for value in written_values(w)
        )
    }
    ways = _ways(step.vertex, places, False)
    return {
        key: Tangent(
            trace.resized(tangents.get(k, literal(0, deps[k])), deps[k].size), ways[key]
        )
        for key, k in places.items()
    }


def _ways(
    vertex: Vertex, places: Mapping[int, int], is_reverse: bool
) -> dict[int, Way]:
    """Find out how arrays were combined with what a region writes, by their ids.

    What forward mode replaces it replaces like the values. So does reverse mode, unless
    it is to be differentiated: nobody could repeat what it finds.
    """
    ops = {key: _operations(vertex, key) for key in places}
    reducing = {key: _reduction(found) for key, found in ops.items()}
    is_again = is_reverse and vertices.is_tracking()
    orders = {
        key: Order(vertex.deps[k].size, vertex.size)
        for key, k in places.items()
        if "identity" in ops[key] and (is_again or reducing[key] is not None)
    }
    if orders:
        noting = {key: Ordered(order) for key, order in orders.items()}
        with vertices.selecting(vertices.NOTHING):
            push(Step(vertex, None, noting), {})
    ways = {}
    for key, k in places.items():
        order, before = orders.get(key), None
        if reducing[key] is not None:
            (before,) = vertex.deps[k].deps
        kept = None if order is None else order.is_kept
        made = combination(reducing[key], before, kept)
        ways[key] = Way(made, before, "identity" in ops[key], order)
    repeated = {k: Repeated(way) for k, way in ways.items() if way.reads_values}
    if repeated:
        push(Step(vertex, None, repeated), {})
    return ways


def _operations(vertex: Vertex, key: int) -> set[str]:
    """Return how a region changes the entries of an array."""
    writes = list(all_writes_to(vertex.attr.blocks, key))
    if any(write.op is OUTER for write in writes):
        raise DerivativeError(
            "derivative of a region",
            "inside is the derivative of a product of a matrix and a vector, by the "
            "matrix, and it can't be differentiated there once more",
            "use evaluated mode (mode='evaluated').",
        )
    if any(write.op is SCATTER_FETCH for write in writes):
        raise not_differentiable(SCATTER_FETCH)
    return set(map(operation, writes))


def _reduction(ops: set[str]) -> str | None:
    """Return the one operation of a region whose derivatives depend on the entries."""
    found = ops - {"identity"}
    if not any(map(depends_on_entries, found)):
        return None
    if len(found) > 1 or not found <= COMBINED:
        raise DerivativeError(
            "derivative of a write",
            "a symbolic loop, branch or call combines entries of an array in ways "
            f"({', '.join(sorted(ops))}) whose derivatives need what they held in "
            "between",
            "use one of lumijit's scatter_reduce operations for each array, or scatter "
            "and scatter_add, return the values and write them afterwards, or use "
            "evaluated mode (mode='evaluated').",
        )
    return found.pop()


class Write:
    """A write in a block, or a region that writes.

    `targets` are the ids by which the block's surroundings know the arrays, by the ids
    of those that stand for them here.
    """

    def __init__(self, node: Node, targets: dict[int, int], reads_values: bool) -> None:
        self.node = node
        self.targets = targets
        self.is_region = node.op in REGIONS
        self._first = 1 if reads_values else 2

    @property
    def wanted(self) -> Node:
        """What has to be known to pass derivatives."""
        return self.node if self.is_region else self.node.deps[1]

    @property
    def operands(self) -> Iterable[Node]:
        """What has to be repeated: the place, maybe the value, or what regions read."""
        if self.is_region:
            return read_deps(self.node)
        return self.node.deps[self._first :]

    @property
    def vertex(self) -> Vertex:
        """The vertex of a region, or one if nothing depends on its results."""
        node = self.node
        vertex: Vertex | None = node.vertex
        return vertex or vertices.new_vertex(node, node.op, node.deps, (), node.attr)

    def chosen(self, targets: Mapping[int, T]) -> dict[int, T]:
        """Return what belongs to the arrays, by the ids of those here."""
        return {here: targets[key] for here, key in self.targets.items()}

    def place(self, images: Mapping[int, Node]) -> tuple[Node, Node]:
        """Return index and mask as they are where the derivative is traced."""
        index, mask = (images.get(id(dep), dep) for dep in self.node.deps[-2:])
        return index, mask

    def value(self, images: Mapping[int, Node]) -> Node:
        """Return the values that are written."""
        return images.get(id(self.node.deps[1]), self.node.deps[1])


def writes_to(block: Block, targets: Mapping[int, Target | Sink]) -> list[Write]:
    """Return the writes of a block to some arrays, by id, in order."""
    return [
        Write(node, mine, any(targets[key].reads_values for key in mine.values()))
        for node, mine in block_writes.writes_to(block, targets)
    ]


def _pull_region_write(step: Step, into: dict[int, Any], by: Node) -> None:
    region = step.vertex.deps[0].vertex
    place = {step.attr: places_of_targets(region)[step.attr]}
    into[0].targets[step.attr] = Target(by, _ways(region, place, True)[step.attr])


def _push_region_write(step: Step, tangents: dict[int, Any]) -> Node:
    tangent: Node | None = tangents[0].targets.get(step.attr)
    return zero(step.vertex, step.size) if tangent is None else tangent


# An array that a region has written to, which has the derivatives by it, and of it.
RULE = Rule(_pull_region_write, _push_region_write)
