"""What derivatives need to know of a node: how it was computed, and its gradient.

A node that depends on a tracked variable has a `Vertex`, one that doesn't has None, and
there derivatives end: a detached value is another node of the same contents. Vertices
remember operation and operands, which a node forgets once it is computed. Nodes with a
vertex are never found by value numbering, so that each operation of the program has one
of its own, and `detach(x) * 2` is no `x * 2`. Rules and traversals are in `derive`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any
from weakref import ReferenceType, ref

from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.record import NotDifferentiable, Op
from lumijit.runtime import contexts, recorders
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.contexts import Variable, is_new, remember
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import where
from lumijit.runtime.recorders import listening

_serials = contexts.serials
_PRUNE_FROM = 16


class Dependence:
    """How a value depends on others where no operation of the trace says it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


# One result of an operation that has several, whose node is of type VOID.
RESULT = Dependence("result")
# A table of values; attr: for each of them, the entries that it is.
COLLECTED = Dependence("table of instances")
# The entries that some elements have, each another one.
ELEMENTS = Dependence("entries of elements")
# An array that a region wrote to; attr: the id of the array before.
REGION_WRITE = Dependence("write in a region")

# What it depended on has been forgotten.
CLEARED = Dependence("cleared")


class Vertex:
    """One value in the graph of derivatives.

    `inputs` are the operands through which derivatives flow, by position; a variable
    has none. `deps` are all operands as they were. `serial` grows from operands to
    results. `users` are weak references to the vertices computed from this one.
    """

    __slots__ = (
        "__weakref__",
        "attr",
        "deps",
        "grad",
        "inputs",
        "mode",
        "op",
        "result",
        "scope",
        "serial",
        "size",
        "type",
        "users",
        "where",
    )

    op: Op | Dependence | None
    deps: tuple[Node, ...]
    inputs: tuple[int, ...]
    attr: Any
    type: DType
    size: int
    serial: int
    # Of an operation with several results: those by position.
    grad: Any
    scope: Scope
    result: ref[Node]
    users: list[ref[Vertex]]
    # How updates of a read array's gradient are combined.
    mode: str
    # The user's line, where a flag asks for it.
    where: str

    @property
    def parents(self) -> list[Vertex]:
        """The vertices of the operands through which derivatives flow."""
        return [self.deps[k].vertex for k in self.inputs]

    def copied(self, node: Node, deps: tuple[Node, ...]) -> None:
        """Give a copy of the vertex's node a vertex, with other operands."""
        attr = node.attr if node.op is self.op else self.attr
        inputs = tuple(k for k in self.inputs if deps[k].vertex is not None)
        if inputs or not self.inputs:
            node.vertex = new_vertex(node, self.op, deps, inputs, attr)
            node.vertex.mode = self.mode
            node.vertex.where = self.where

    def will_change(self) -> None:
        """Have what follows undone if a construct raises that began later than this.

        Whoever gives a gradient calls it, or takes one, or forgets operands.
        """
        if is_new(self.serial):
            known = self.grad, self.op, self.deps, self.inputs, self.attr
            remember(self.serial, partial(_put_back, self, known))

    def give(self, gradient: Any) -> None:
        """Give another gradient, or None."""
        self.will_change()
        if listening:
            recorders.present().note_gradient(self)
        self.grad = gradient

    @property
    def is_cut(self) -> bool:
        """Whether a traversal has cleared what the value surely depends on."""
        return self.op is CLEARED and self.serial not in variables

    @property
    def is_end(self) -> bool:
        """Whether nothing is known of what the value depends on."""
        if self.serial in variables:
            return False
        return self.op is CLEARED or (self.op is None and self.attr is None)

    def cut(self, is_sure: bool) -> None:
        """Forget what the value depends on; `is_sure`: that derivatives flow there."""
        self.will_change()
        self.op = CLEARED if is_sure else None
        self.deps = self.inputs = ()
        self.attr = None


def _put_back(vertex: Vertex, known: tuple[Any, ...]) -> None:
    vertex.grad, vertex.op, vertex.deps, vertex.inputs, vertex.attr = known


def new_vertex(
    node: Node,
    op: Op | Dependence | None,
    deps: tuple[Node, ...],
    inputs: tuple[int, ...],
    attr: Any = None,
) -> Vertex:
    """Return a vertex for a node. Tracking an operation takes little else."""
    made: Vertex = Vertex.__new__(Vertex)
    made.op = op
    made.deps = deps
    made.inputs = inputs
    made.attr = attr
    made.type = node.type
    made.size = node.size
    made.serial = next(_serials)
    made.grad = None
    made.scope = node.scope
    made.result = ref(node)
    made.users = []
    made.mode = "auto"
    made.where = ""
    if unusual and (flags.debug or flags.check_derivatives):
        made.where = where()
    own = ref(made)
    for position in inputs:
        dep = deps[position]
        operand: Vertex = dep.vertex
        users = operand.users
        users.append(own)
        # Powers of two only, so that this takes constant time on average.
        count = len(users)
        if count >= _PRUNE_FROM and not count & (count - 1):
            users[:] = [entry for entry in users if entry() is not None]
    return made


# The variables that are tracked, while they live: where it is empty, nothing is.
variables: dict[int, ref[Vertex]] = {}


def _nothing(*_: object) -> None:
    """Stand for what `record.exposed` does."""


# Memory to which others may write, what copies all of it that somebody refers to, and
# what copies that which a node is computed of.
exposed: dict[int, Any] = {}
protect: Callable[[], object] = _nothing
protect_operands: Callable[[Node, tuple[Node, ...]], object] = _nothing


class Selection:
    """A set of vertices: those that are listed, or all but those."""

    __slots__ = ("is_complement", "serials")

    def __init__(self, is_complement: bool, serials: frozenset[int]) -> None:
        self.is_complement = is_complement
        self.serials = set(serials)

    def __contains__(self, vertex: Vertex) -> bool:
        return (vertex.serial in self.serials) != self.is_complement

    @property
    def is_empty(self) -> bool:
        """Whether no vertex is in the set, nor one that is made from now on."""
        return not (self.is_complement or self.serials)

    def altered(self, vertices: list[Vertex], is_added: bool) -> Selection:
        """Return the set with, or without, some vertices."""
        made = Selection(self.is_complement, frozenset(self.serials))
        for vertex in vertices:
            made.include(vertex, is_added)
        return made

    def include(self, vertex: Vertex, is_added: bool = True) -> None:
        """Take a vertex in, or out."""
        if is_added != self.is_complement:
            self.serials.add(vertex.serial)
        else:
            self.serials.discard(vertex.serial)


NOTHING = Selection(False, frozenset())
EVERYTHING = Selection(True, frozenset())
# Through which vertices derivatives are tracked at present; None means all.
_selected: Variable[Selection | None] = Variable("selected", None)
selected = _selected.get
selecting = _selected.block


def is_tracking() -> bool:
    """Tell whether derivatives of anything may be tracked at present."""
    chosen = selected()
    return chosen is None or not chosen.is_empty


def is_tracked(node: Node) -> bool:
    """Tell whether derivatives flow to a node at present."""
    if node.vertex is None:
        return False
    chosen = selected()
    return chosen is None or node.vertex in chosen


def add_variable(node: Node) -> None:
    """Make a node a variable, with respect to which others can be differentiated."""
    chosen = selected()
    if chosen is not None and chosen.is_empty:
        return
    vertex = node.vertex = new_vertex(node, None, (), ())
    if contexts.is_apart():
        # (Its own number is none of before the construct, as the node may be.)
        remember(-vertex.serial, partial(_untrack, ref(node)))
    # What was computed of it before isn't tracked.
    node.uses = None
    keep_gradient(vertex)
    if chosen is not None:
        chosen.include(vertex)


def add_end(node: Node, is_sure: bool) -> None:
    """Have it forgotten what a node depends on; `is_sure`: that derivatives flow."""
    node.vertex = new_vertex(node, None, (), ())
    node.vertex.cut(is_sure)


def _untrack(variable: ref[Node]) -> None:
    node = variable()
    if node is not None:
        node.vertex = None


class _VariableRef(ReferenceType):  # type: ignore[type-arg]
    """A reference to a variable, which is forgotten when that dies."""

    __slots__ = ("serial",)
    serial: int


def _forget(variable: _VariableRef) -> None:
    variables.pop(variable.serial, None)


def keep_gradient(vertex: Vertex) -> None:
    """Make a vertex a variable: traversals leave its gradient, and what it is of."""
    variable = _VariableRef(vertex, _forget)
    variable.serial = vertex.serial
    variables[vertex.serial] = variable


def add_argument(node: Node, initial: Node | None) -> None:
    """Track what depends on an argument of a region, unless nothing is tracked.

    Its attribute is the vertex of what it begins with. Where that is suspended, so is
    the argument, until derivatives of the one or the other are resumed.
    """
    chosen = selected()
    origin = None if initial is None else initial.vertex
    if origin is None and chosen is not None and chosen.is_empty:
        return
    vertex = node.vertex = new_vertex(node, None, (), ())
    vertex.attr = origin
    if origin is not None:
        node.scope.arguments += (ref(vertex),)
    if chosen is not None and (origin is None or origin in chosen):
        chosen.include(vertex)


def outside(nodes: Iterable[Node], depth: int) -> list[Node]:
    """Return the tracked nodes, up to a depth of scopes, that others depend on."""
    found: dict[int, Node] = {}
    seen: set[int] = set()
    stack = [node for node in nodes if node.vertex is not None]
    while stack:
        node = stack.pop()
        vertex = node.vertex
        if vertex.serial in seen:
            continue
        seen.add(vertex.serial)
        if vertex.scope.depth <= depth:
            found[vertex.serial] = node
        else:
            stack.extend([vertex.deps[k] for k in vertex.inputs])
    return list(found.values())


def is_presumed(node: Node) -> bool:
    """Tell whether a node depends on no variable but those of loops being traced.

    Of these, only the end of the loop tells whether they depend on what is tracked.
    """
    seen: set[int] = set()
    stack = [node.vertex]
    while stack:
        vertex = stack.pop()
        if vertex.scope is ROOT or vertex.serial in variables:
            return False
        if vertex.serial not in seen:
            seen.add(vertex.serial)
            stack.extend(vertex.parents)
            if isinstance(vertex.attr, Vertex):
                stack.append(vertex.attr)
    return True


def _are_outermost(found: dict[int, Vertex]) -> bool:
    inner = 0
    for vertex in found.values():
        inner += vertex.scope is not ROOT
    return not inner


def sure(found: dict[int, Vertex]) -> Collection[int]:
    """Return the serials of vertices that depend on others than loops' variables.

    Whether these depend on what is tracked, the end of the loop tells.
    """
    if _are_outermost(found):
        return found
    result: set[int] = set()
    for serial in sorted(found):
        vertex = found[serial]
        if (
            vertex.scope is ROOT
            or serial in variables
            or any(parent.serial in result for parent in vertex.parents)
            or (isinstance(vertex.attr, Vertex) and vertex.attr.serial in result)
        ):
            result.add(serial)
    return result


def track(
    node: Node, op: Op | Dependence, deps: tuple[Node, ...], attr: Any = None
) -> Vertex | None:
    """Have a new node remember what it is computed of, if derivatives flow there."""
    chosen = selected()
    if chosen is NOTHING:
        return None
    inputs = []
    for k, dep in enumerate(deps):
        if dep.vertex is not None and (chosen is None or dep.vertex in chosen):
            inputs.append(k)
    if not inputs:
        return None
    vertex = node.vertex = new_vertex(node, op, deps, tuple(inputs), attr)
    if chosen is not None:
        chosen.include(vertex)
    if exposed and node.scope is ROOT:
        protect_operands(node, deps)
    return vertex


def note(node: Node) -> bool:
    """Track a new elementwise node; tell whether value numbering may find it.

    One of its operands has a vertex.
    """
    op = node.op
    if not node.type.is_float or type(op.derivative) is NotDifferentiable:
        return True
    track(node, op, node.deps, node.attr)
    return False


def next_serial() -> int:
    """Return a number below those of all vertices to come."""
    return next(_serials)
