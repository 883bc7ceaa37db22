"""A loop as it was recorded, and how derivatives repeat its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from lumijit.compiler.derive import blocks
from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.derive.branching import Surroundings
from lumijit.compiler.derive.repetition import Images, arguments_of, repeat
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import Value
from lumijit.compiler.derive.written import Sink, Target
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node, Scope, reached
from lumijit.compiler.ir.ops.arithmetic import ADD, SUB
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import REGIONS, SYMBOLIC
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.ir.roles import read_deps
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import regions
from lumijit.compiler.record.new_loops import traced_loop
from lumijit.runtime.cached_properties import cached_property

Nodes = Sequence[Node]
State = dict[int, Node]


class Recorded:
    """A loop as it was recorded, and how to repeat its parts.

    Its state, by the positions of arguments, are those that a turn changes; in place
    of the others (`fixed`) stands what they begin with.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.region: Region = step.attr
        self.args = self.region.args
        self.outputs = self.region.body.outputs
        self.depth = step.vertex.scope.depth
        self.label = f"derivative of {self.region.label or 'while_loop'}"
        self.width = step.size
        inits = dict(enumerate(step.deps[: len(self.args)]))
        pairs = zip(self.args, self.outputs, strict=True)
        self.state = [k for k, (arg, out) in enumerate(pairs) if out is not arg]
        self.inits = {k: inits.pop(k) for k in self.state}
        self._images = step.images | {id(self.args[k]): n for k, n in inits.items()}
        self.fixed: dict[int, Vertex] = {
            k: self.args[k].vertex for k in inits if self.args[k].vertex is not None
        }

    def along(
        self, starts: Nodes, body: Callable[[State, Nodes], Nodes]
    ) -> tuple[State, list[Node]]:
        """Trace a loop with the turns of this one, which carries something besides.

        `body` returns both after a turn, given both before it: the state and the rest.
        """
        count = len(self.state)

        def state(args: Nodes) -> State:
            return keyed(self.state, args[:count])

        results = traced_loop(
            self.label,
            self.width,
            [*self.inits.values(), *starts],
            lambda args: self.condition(state(args)),
            lambda args: body(state(args), args[count:]),
        )
        return state(results), results[count:]

    def images(self, state: State) -> Images:
        """Return what stands for nodes if the state, or a part, is this."""
        return self._images | {id(self.args[k]): node for k, node in state.items()}

    def condition(self, state: State) -> Node:
        """Repeat the header: whether there is another turn."""
        (cond,) = self.region.header.outputs
        return self._repeated([cond], state)[0]

    def turn(self, state: State, images: Images | None = None) -> State:
        """Repeat the body for some of the state.

        `images`: what stands for its nodes if a derivative has repeated some already.
        """
        outputs = [self.outputs[k] for k in state]
        return keyed(state, self._repeated(outputs, state, images))

    def _repeated(
        self, nodes: Nodes, state: State, images: Images | None = None
    ) -> list[Node]:
        if images is None:
            images = self.images(state)
        repeat(nodes, self.args, self.depth, images)
        return [images.get(id(node), node) for node in nodes]

    def reverse(
        self,
        images: Images,
        by: State,
        outside: Surroundings,
        sums: Nodes = (),
    ) -> dict[int, Adjoint]:
        """Differentiate a turn, which adds to `sums`; return the state's adjoints."""
        outside.enter(sums)
        seeds = blocks.Seeds(by, outside.targets)
        found = blocks.reverse(
            self.region.body, seeds, self.args, self.depth, images, outside
        )
        vertices = {k: self.args[k].vertex for k in self.state}
        return {
            k: found[vertex.serial]
            for k, vertex in vertices.items()
            if vertex is not None and vertex.serial in found
        }

    def forward(
        self,
        images: Images,
        known: dict[int, Node],
        tangents: State,
        targets: dict[int, Sink],
    ) -> tuple[State, State]:
        """Differentiate a turn, given the derivatives of state and of `known`.

        `targets` take those of arrays that it writes to. Returns the state after the
        turn, and its derivatives.
        """
        mine = {self.args[k].vertex.serial: t for k, t in tangents.items()}
        outputs = {k: self.outputs[k] for k in self.state}
        found = blocks.forward(
            self.region.body,
            known | mine,
            targets,
            self.args,
            self.depth,
            images,
            list(outputs.values()),
        )
        after = {k: images.get(id(node), node) for k, node in outputs.items()}
        return after, {k: found[k] for k in self.state if k in found}

    def changing(
        self, known: Iterable[int], active: set[int], targets: dict[int, Sink]
    ) -> list[int]:
        """Return the state whose forward derivatives may be other than 0.

        Args:
            known: the serial numbers of vertices outside that have derivatives.
            active: the state that begins with some.
            targets: take those of arrays that a turn writes to.
        """
        while True:
            reached = {self.args[k].vertex.serial for k in active}
            reached.update(known)
            found = blocks.results_reached(
                self.region.body, reached, targets, self.depth
            )
            found.intersection_update(self.state)
            if found <= active:
                return sorted(active)
            active = active | found

    def depended_on(self, active: set[int], targets: dict[int, Target]) -> set[int]:
        """Return the state that derivatives reach from some of it, turn by turn.

        `targets` have the derivatives by arrays that a turn writes to.
        """
        while True:
            found = blocks.arguments_reached(
                self.region.body, active, targets, self.depth
            )
            more = {
                k
                for k in self.state
                if (vertex := self.args[k].vertex) and vertex.serial in found
            }
            if more <= active:
                return active
            active = active | more

    def trial(self, run: Callable[[State], Nodes]) -> set[int]:
        """Trace code of a turn only to see which state it needs."""
        with regions.scope(self.label, self.width, is_loop=True) as inner:
            state = {k: stand_in(self.args[k]) for k in self.state}
            with trace.unmasked():
                results = run(state)
            effects = list(inner.effects)
        regions.restore_writes(inner)
        buffers = [carried.final for carried in inner.locals.values()]
        regions.forget(inner)
        needed = set(_reached((*results, *effects, *buffers), inner))
        return {k for k, node in state.items() if node in needed}

    @cached_property
    def counters(self) -> dict[int, Callable[[Value], Value]]:
        """State to which each turn adds the same whole number: its value by turn."""
        found: dict[int, Callable[[Value], Value]] = {}
        for k in self.state:
            arg, out = self.args[k], self.outputs[k]
            if not arg.type.is_int or out.op not in (ADD, SUB) or arg not in out.deps:
                continue
            first, step = out.deps
            if out.op is ADD and step is arg:
                first, step = step, first
            is_same = id(step) in self._images or step.scope.depth <= self.depth
            if first is arg and is_same:
                step = self._images.get(id(step), step)
                found[k] = partial(_counted, out.op, self.inits[k], step)
        return found

    def closure(self, needed: set[int]) -> tuple[list[int], list[int]]:
        """Return what determines the state that is needed, at the start of a turn.

        That is this state, and what it is computed of in turn: of both, the state to
        be kept, and the counters.
        """
        positions = {arg: k for k, arg in enumerate(self.args)}
        found: set[int] = set()
        while not needed <= found:
            more = needed - found
            found |= needed
            outputs = [self.outputs[k] for k in more if k not in self.counters]
            reached = arguments_of(outputs, self.args, self.depth)
            needed = {positions[arg] for arg in reached}.intersection(self.state)
        kept = [k for k in sorted(found) if k not in self.counters]
        return kept, [k for k in sorted(found) if k in self.counters]

    def counted(self, keys: Iterable[int], turn: Value) -> State:
        """Return the values of counters at the start of a turn."""
        return {k: self.counters[k](turn).node for k in keys}


def _counted(op: Op, first: Node, step: Node, turn: Value) -> Value:
    steps = Value(trace.cast_to(turn.node, first.type)) * Value(step)
    return Value(first).map(op, steps)


def keyed(keys: Iterable[int], nodes: Nodes) -> State:
    """Return state by the positions that it has."""
    return dict(zip(keys, nodes, strict=True))


def stand_in(like: Node) -> Node:
    """Return an argument that is only looked at."""
    return trace.make(SYMBOLIC, like.type, like.size, (), None)


def _reached(nodes: Nodes, scope: Scope) -> list[Node]:
    """Return the nodes of a scope that others depend on."""

    def below(node: Node) -> list[Node]:
        deps = read_deps(node) if node.op in REGIONS else node.deps
        return [dep for dep in deps if dep.scope is scope]

    return reached([node for node in nodes if node.scope is scope], below)
