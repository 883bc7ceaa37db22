"""Local memory: buffers of a fixed length, one per lane, read and written by index.

A buffer is a *value* of the trace, of a `LocalType`. `local` makes one, a write
returns the buffer as it is afterwards, and a read depends on the version that it
reads: so nothing here is a side effect, dead accesses vanish, and a kernel may be
run again. When lowering, it is decided which writes happen in place
(`lower.common.lifetimes`).

A `Buffer` is what the user sees: it stands for the last version. A symbolic region
that touches a holder from outside gets it as a hidden result (and a loop as hidden
state), whoever it was reached through; `regions` asks for these when it closes one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.local_types import (
    LocalType,
    ReadSerial,
    local_type,
    next_serial,
)
from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.structural import (
    LITERAL,
    LOCAL,
    LOCAL_READ,
    LOCAL_WRITE,
    SYMBOLIC,
)
from lumijit.compiler.ir.roles import is_true
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import writes
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import StateError, SymbolicError


class Buffer(Holder):
    """What stands for one buffer: its last version.

    `home` is the scope in which it was made, `part` which callable was traced there,
    `guard` what restricted indexing then.
    `width` is the number of lanes that a loop has shown it to need.
    """

    __slots__ = ("__weakref__", "guard", "home", "part", "width")

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.home = trace.state.scope
        self.part = self.home.part
        self.guard = trace.state.guard
        self.width = 1

    @property
    def type(self) -> LocalType:
        """The type of the buffer."""
        found = self._node.type
        assert isinstance(found, LocalType)
        return found


class NeedsAllLanes(BaseException):
    """A buffer of all lanes is accessed by code that runs for some; see `control`.

    No `Exception`, so that the code's own handlers don't swallow it.
    """


class Carried:
    """A holder from outside of a region, and its versions there.

    `argument` stands for the buffer at the start of an iteration, in loops; whether it
    `is_foreseen` that its width is another one than that of the buffer by then.
    """

    __slots__ = ("argument", "final", "holder", "is_foreseen", "original")

    def __init__(
        self, holder: Buffer, argument: Node | None, is_foreseen: bool = False
    ) -> None:
        self.holder = holder
        self.is_foreseen = is_foreseen
        self.original = holder._node
        self.argument = argument
        self.final: Node | None = None


def allocate(element: DType, length: int, value: Node | None = None) -> Buffer:
    """Make a buffer; without a value, its entries are undefined until written."""
    return Buffer(new(local_type(element, length), value))


def new(dtype: LocalType, value: Node | None = None) -> Node:
    """Append a buffer; without a value, its entries are undefined until written."""
    deps = () if value is None else (value,)
    size = 1 if value is None else value.size
    made = trace.make(LOCAL, dtype, size, deps, next_serial())
    if vertices.variables:
        vertices.track(made, LOCAL, deps)
    return made


def entry(buffer: Node, index: Node, mask: Node) -> Node:
    """Append a read of a version of a buffer, zero where the mask isn't set."""
    dtype = buffer.type
    assert isinstance(dtype, LocalType)
    deps = (buffer, index, mask)
    size = trace.broadcast_size(LOCAL_READ, deps)
    if buffer.op is LOCAL and buffer.deps and is_true(mask):
        value = buffer.deps[0]
        if value.op is LITERAL and flags.constant_propagation:
            # Nobody has written yet: all entries are this number.
            return trace.literal(value.type, value.attr, size)
    return trace.append(
        LOCAL_READ, dtype.element, deps, ReadSerial(next_serial()), size
    )


def replaced(buffer: Node, index: Node, value: Node, mask: Node) -> Node:
    """Append a write to a version of a buffer; return the next."""
    deps = (buffer, index, value, mask)
    size = trace.broadcast_size(LOCAL_WRITE, deps)
    made = trace.make(LOCAL_WRITE, buffer.type, size, deps, next_serial())
    if vertices.variables:
        vertices.track(made, LOCAL_WRITE, deps)
    return made


def copy(holder: Buffer) -> Buffer:
    """Return a holder for the same contents; writes to either don't show in both."""
    return Buffer(_current(holder))


def _current(holder: Buffer) -> Node:
    """Return a holder's last version, for an access in the current scope."""
    _enter(holder)
    guard = trace.state.guard
    if guard is not None and guard is not holder.guard:
        guard(holder._node)
    return holder._node


def _enter(holder: Buffer) -> None:
    """Make a holder from outside known to the open scopes that it is new to."""
    scopes: list[Scope] = []
    scope = trace.state.scope
    key = id(holder)
    while scope is not holder.home and key not in scope.locals:
        if scope.parent is None:
            raise _left_behind(holder)
        scopes.append(scope)
        scope = scope.parent
    if scope is holder.home and holder.part != scope.part:
        raise _left_behind(holder)
    for scope in reversed(scopes):
        argument = None
        before = holder._node
        is_foreseen = False
        if scope.is_loop:
            size = max(before.size, scope.width, holder.width)
            wider = (scope.widths or {}).get(len(scope.locals), 1)
            is_foreseen = wider > size
            size = max(size, wider)
            argument = trace.make(SYMBOLIC, before.type, size, (), 0)
            argument.scope = scope
            if vertices.variables and before.type.is_differentiable:
                vertices.add_argument(argument, before)
        scope.locals[key] = Carried(holder, argument, is_foreseen)
        if argument is not None:
            holder._become(argument)


def _left_behind(holder: Buffer) -> SymbolicError:
    return SymbolicError(
        "Local",
        "the buffer was allocated inside "
        f"{holder.home.label or 'a symbolic region'}, which is over",
        "allocate it before the loop or the conditional.",
    )


def read(holder: Buffer, index: Node, mask: Node) -> Node:
    """Return the entry at `index` where the mask is set, and zero elsewhere."""
    buffer = _current(holder)
    element = holder.type.element
    lane = trace.state.lane
    if lane is not None:
        index, mask = lane.place(index, mask, holder.type.length, "Local.read")
    size = trace.broadcast_size(LOCAL_READ, (buffer, index, mask))
    is_off = mask.op is LITERAL and not mask.attr
    if is_off or holder.type.length == 0 or size == 0:
        return trace.literal(element, element.wrap(0), size)
    if buffer.op is LOCAL_WRITE and flags.value_numbering:
        _, place, value, written = buffer.deps
        is_all = all(m.op is LITERAL and m.attr for m in (mask, written))
        if place is index and is_all and value.size == size:
            return value
    node = entry(buffer, index, mask)
    return node if lane is None else cast(Node, lane.known(node))


def write(holder: Buffer, value: Node, index: Node, mask: Node) -> None:
    """Replace the entry at `index` where the mask is set."""
    mask = trace.under_mask(mask)
    buffer = _current(holder)
    lane = trace.state.lane
    if lane is not None:
        index, mask = lane.place(index, mask, holder.type.length, "Local.write")
        value = lane.known(value)
    is_off = mask.op is LITERAL and not mask.attr
    if is_off or holder.type.length == 0:
        trace.broadcast_size(LOCAL_WRITE, (buffer, index, value, mask))
        return
    _publish(holder, replaced(buffer, index, value, mask))


def _publish(holder: Buffer, node: Node) -> None:
    """Give a holder its new version."""
    before = holder._node
    holder._advance(node)
    if trace.state.scope is ROOT and trace.state.watched is not None:
        # Evaluated control flow: the next kernel puts the buffer into memory.
        evaluate.note_effect(node, before)
        writes.note_write(holder, before)


# Regions


def suspend(scope: Touching) -> None:
    """Give the holders touched in a scope their versions from outside again."""
    for carried in scope.locals.values():
        if carried.final is None:
            carried.final = carried.holder._node
            carried.holder._go_back(carried.original)


def check_condition(scope: Scope, construct: str) -> None:
    """Refuse writes in the condition of a loop, which every lane evaluates."""
    for carried in scope.locals.values():
        if carried.holder._node is not carried.argument:
            raise StateError(
                construct,
                "the condition writes to a local buffer",
                "write to it in the body.",
            )


def decides(scope: Scope, reached: set[int]) -> bool:
    """Tell whether a loop changes a buffer among the arguments `reached`, by id."""
    return any(
        id(carried.argument) in reached and carried.holder._node is not carried.argument
        for carried in scope.locals.values()
    )


def grown(scope: Scope) -> list[Buffer]:
    """Return buffers that turned out wider than a loop's arguments; note how wide."""
    found = []
    for carried in scope.locals.values():
        size = carried.holder._node.size
        if carried.argument is not None and size > carried.argument.size:
            carried.holder.width = size
            found.append(carried.holder)
    return found


def widened(scope: Scope) -> dict[Node, Node]:
    """Return arguments for buffers of one lane that were given more, with results."""
    return {
        carried.argument: carried.holder._node
        for carried in scope.locals.values()
        if carried.argument is not None
        and carried.original.size == 1 < carried.argument.size
    }


def foreseen(scope: Scope) -> dict[Node, Node]:
    """Return arguments for buffers whose width was foreseen, with results."""
    return {
        carried.argument: carried.holder._node
        for carried in scope.locals.values()
        if carried.is_foreseen
    }


def widths(scope: Scope) -> dict[int, int]:
    """Return how wide buffers turned out, by order of access, where they grew."""
    return {
        k: carried.argument.size
        for k, carried in enumerate(scope.locals.values())
        if carried.argument.size > max(carried.original.size, scope.width)
    }


@dataclass(frozen=True)
class State:
    """A buffer as hidden state of a loop: before, in, and after an iteration."""

    holder: Buffer
    initial: Node
    argument: Node
    output: Node


def loop_state(scope: Scope) -> list[State]:
    """Return the buffers that a closed loop body has touched."""
    suspend(scope)
    found = []
    for carried in scope.locals.values():
        assert carried.argument is not None, "the scope wasn't opened as a loop's"
        assert carried.final is not None
        versions = carried.original, carried.argument, carried.final
        found.append(State(carried.holder, *versions))
    return found


def enter_results(state: Iterable[State], results: Iterable[Node]) -> None:
    """Give holders the versions that a loop leaves behind."""
    for buffer, node in zip(state, results, strict=True):
        if node is not buffer.initial:
            _publish(buffer.holder, node)


Sides = list[tuple[Buffer, tuple[Node, ...]]]


class Touching(Protocol):
    """What has touched buffers from outside: a scope, or a body traced in one."""

    locals: dict[int, Any]


def side_versions(scopes: Iterable[Touching]) -> Sides:
    """Return the holders that differ after alternative blocks, with all versions."""
    scopes = list(scopes)
    touched: dict[int, Carried] = {}
    for scope in scopes:
        if scope.locals:
            suspend(scope)
            touched.update(scope.locals)
    found = []
    for key, carried in touched.items():
        entries = [scope.locals.get(key) for scope in scopes]
        versions = tuple(e.final if e else carried.original for e in entries)
        if any(version is not carried.original for version in versions):
            found.append((carried.holder, versions))
    return found


def originals(scopes: Iterable[Touching], sides: Sides) -> tuple[Node, ...]:
    """Return the versions that holders had before alternative blocks."""
    touched: dict[int, Carried] = {}
    for scope in scopes:
        touched.update(scope.locals)
    return tuple(touched[id(holder)].original for holder, _ in sides)


def enter_versions(sides: Sides, results: Iterable[Node]) -> None:
    """Give holders the versions that alternative blocks leave behind."""
    for (holder, _), node in zip(sides, results, strict=True):
        _publish(holder, node)
