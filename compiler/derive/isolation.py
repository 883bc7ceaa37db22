"""Where traversals stop: at evaluated control flow and at regions that surround them.

Gradients that arrive there go on once the control flow, or the region, is over.
Everything that traces asks this module; what passes gradients on is in `traversal`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from lumijit.compiler.ir import blends, trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.logic import NOT
from lumijit.compiler.ir.trace import select
from lumijit.compiler.ir.vertices import Vertex, variables
from lumijit.compiler.record import local, reductions, regions
from lumijit.compiler.record.local import Buffer
from lumijit.runtime import contexts
from lumijit.runtime.contexts import Variable
from lumijit.runtime.dtypes import UINT32

Found = dict[int, Vertex]


class Rest:
    """Where gradients have arrived that a traversal left for later.

    With the vertices `behind`, all that they depend on takes part in what goes on. What
    was enqueued from its operands on takes part `alone`.
    """

    __slots__ = ("alone", "behind")

    def __init__(self) -> None:
        self.behind: Found = {}
        self.alone: Found = {}

    def note(self, vertex: Vertex, ahead: Rest) -> None:
        """Leave a vertex; `ahead`: what was enqueued from operands on."""
        if vertex.serial in ahead.alone:
            self.update(ahead)
        else:
            self.behind[vertex.serial] = vertex

    def update(self, other: Rest) -> None:
        """Leave what another has left, too."""
        self.behind.update(other.behind)
        self.alone.update(other.alone)

    def clear(self) -> None:
        """Leave nothing."""
        self.behind.clear()
        self.alone.clear()

    def __bool__(self) -> bool:
        return bool(self.behind or self.alone)


class Isolation:
    """A boundary: vertices made before it take gradients, but don't pass them on.

    What has arrived there goes on when the boundary is left. Forward mode isn't held
    back, unless the boundary `is_reached`: up to there, tangents are what they will be.
    """

    def __init__(self, is_reached: bool = False) -> None:
        outer = current.get()
        self.start = vertices.next_serial()
        self.forward_start: int = 0
        if is_reached:
            self.forward_start = self.start
        elif outer is not None:
            self.forward_start = outer.forward_start
        self.postponed = Rest()
        # Whether anything outside was given a gradient.
        self.has_given = False
        # The gradients that have arrived by now, by the vertices' numbers.
        self.arrived: dict[int, Any] = {}


class isolated:
    """Hold traversals back at what was computed before a `with` block.

    Evaluated control flow runs in one, as regions are: a traversal in one turn must not
    clear what the next ones go along. What is in a construct that runs `apart` ends
    with that, whatever order blocks of generators end in.
    """

    def __init__(
        self, when: bool = True, is_reached: bool = False, is_apart: bool = False
    ) -> None:
        self._when = when
        self._is_reached = is_reached
        self._setting = current.during if is_apart else isolating

    def __enter__(self) -> Isolation | None:
        if not self._when:
            return None
        self._isolation = Isolation(self._is_reached)
        self._during = self._setting(self._isolation)
        self._during.__enter__()
        return self._isolation

    def __exit__(self, kind: Any, *error: Any) -> None:
        if not self._when:
            return
        self._during.__exit__(kind, *error)
        if self._isolation.has_given:
            note_given()
        if kind is None and self._isolation.postponed:
            go_on(self._isolation.postponed)


current: Variable[Isolation | None] = Variable("isolation", None)
isolating = current.block
# What nested traversals have left for the one that is running.
arrived: Variable[Rest | None] = Variable("arrivals", None)


class _Postponed(threading.local):
    """Variables to which gradients were added inside of regions, with the sums."""

    def __init__(self) -> None:
        self.sums: dict[int, tuple[Vertex, Holder]] = {}
        self.rest = Rest()

    def will_change(self) -> None:
        """Have what follows undone if a construct raises, as with a vertex's gradient.

        What was added to the sums themselves are writes, which are undone as such.
        """
        if contexts.is_new(_OLDEST):
            rest = Rest()
            rest.update(self.rest)
            contexts.remember(_OLDEST, partial(self._put_back, dict(self.sums), rest))

    def _put_back(self, sums: dict[int, tuple[Vertex, Holder]], rest: Rest) -> None:
        # (Twice, perhaps.)
        self.sums = dict(sums)
        self.rest = Rest()
        self.rest.update(rest)


#: The number of what is older than all constructs.
_OLDEST = 0


postponed = _Postponed()


def is_argument(vertex: Vertex) -> bool:
    """Tell whether a vertex is a loop's variable that was tracked before the loop."""
    return vertex.op is None and isinstance(vertex.attr, Vertex)


def outermost(vertex: Vertex) -> Vertex:
    """Return what a loop's variable was before the loop; others are that themselves."""
    while is_argument(vertex):
        vertex = vertex.attr
    return vertex


def is_outside(vertex: Vertex) -> bool:
    """Tell whether a vertex lies outside of the region that is being traced."""
    depth = trace.state.scope.depth
    return depth > 0 and (vertex.scope.depth < depth or is_argument(vertex))


def is_earlier(vertex: Vertex) -> bool:
    """Tell whether a vertex lies outside of the control flow that is evaluated."""
    isolation = current.get()
    return isolation is not None and vertex.serial < isolation.start


def note_arrived(vertex: Vertex) -> None:
    """Note that the gradient of a vertex made before has arrived, not been set."""
    isolation = current.get()
    if isolation is not None and vertex.serial in isolation.postponed.behind:
        isolation.arrived[vertex.serial] = vertex.grad


def has_own_gradient(vertex: Vertex) -> bool:
    """Tell whether a vertex has a gradient that hasn't arrived in the control flow."""
    isolation = current.get()
    grad = outermost(vertex).grad
    known = isolation.arrived.get(vertex.serial) if isolation is not None else None
    return grad is not None and grad is not known


def note_blend(made: Node, values: Iterable[Node]) -> None:
    """Note what a result of evaluated control flow is made of."""
    isolation = current.get()
    if variables and isolation is not None:
        blends.note(made, values, isolation.start)


def select_tracked(active: Node, value: Node, before: Node) -> Node:
    """Blend what evaluated control flow leaves for active elements with the rest.

    Where all are active, a variable stays one.
    """
    made = select(active, value, before)
    if variables and made is not value:
        if _ends_tracking(value, before) and made.size == value.size:
            inactive = trace.emit1(NOT, active)
            if not reductions.is_any_set(inactive):
                return value
        note_blend(made, (value, before))
    return made


def _ends_tracking(value: Node, before: Node) -> bool:
    """Tell whether a variable takes another's place, or what is detached."""
    vertex, outer = value.vertex, before.vertex
    is_variable = vertex is not None and vertex.serial in vertices.variables
    was_variable = outer is not None and outer.serial in vertices.variables
    return is_variable or (was_variable and vertex is None)


def note_given() -> None:
    """Note that something outside of the control flow was given a gradient."""
    isolation = current.get()
    if isolation is not None:
        isolation.has_given = True


def resume() -> None:
    """Pass on the gradients that were added inside of regions, which are over.

    Those by values of a region are passed on in the region, at its end at the latest.
    """
    sums = postponed.sums
    if not sums:
        return
    scope = trace.state.scope
    found = [(v, total) for v, total in sums.values() if v.scope is scope]
    postponed.will_change()
    # Outside of all, those by values of regions that have failed are left.
    gone = list(sums) if scope is ROOT else [v.serial for v, _ in found]
    for serial in gone:
        del sums[serial]
    for vertex, total in found:
        vertex.give(total._node)
        if isinstance(total, Buffer):
            place = trace.literal(UINT32, 0)
            vertex.give(local.read(total, place, trace.make_true(1)))
    known, rest = postponed.rest, Rest()
    if not sums:
        postponed.rest = Rest()
    for vertex, _ in found:
        is_alone = vertex.serial not in known.behind
        rest.note(vertex, known if is_alone else Rest())
    if found:
        go_on(rest)


regions.before_the_end = resume
contexts.afterwards.append(resume)


def go_on(rest: Rest) -> None:
    """Have gradients that arrived somewhere passed on, by who is running if any."""
    arrivals = arrived.get()
    if arrivals is not None:
        arrivals.update(rest)
        return
    # (Few programs get here: what derivatives take isn't imported before.)
    from lumijit.compiler.derive import traversal

    traversal.go_on(rest)
