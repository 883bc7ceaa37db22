"""The trace: where a program's nodes are made.

Owns the functions that append to the trace. `value_numbering` finds equal nodes,
`simplify` has the algebra; control flow is in `regions`, memory access in `memory`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any
from weakref import ref

from lumijit.compiler.ir import value_numbering, vertices
from lumijit.compiler.ir.nodes import ROOT, Node, Scope, are_unset
from lumijit.compiler.ir.ops.logic import AND, COPY, SELECT
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    LITERAL,
    UNDEFINED,
)
from lumijit.compiler.ir.value_numbering import find_root, note_root
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.contexts import During, Variable
from lumijit.runtime.dtypes import BOOL, UINT32, DType
from lumijit.runtime.errors import SizeError

MAX_SIZE = (1 << 32) - 1


Guard = Callable[[Node], None]
_scope = Variable("scope", ROOT)
_mask: Variable[Node | None] = Variable("mask", None)
_guard: Variable[Guard | None] = Variable("guard", None)
_watched: Variable[Any] = Variable("watched", None)
watching = _watched.during
get_watched, set_watched = _watched.get, _watched.set
_lane: Variable[Any] = Variable("lane", None)
_held: Variable[tuple[list[Node], ...]] = Variable("held", ())
#: Returns `state.scope`. (In compiled modules, C.)
current_scope = _scope.get
_variables = vertices.variables


class _State:
    """The scope in which this thread is tracing, and what restricts indexing.

    `scope` is the innermost one, to which new nodes belong. `watched` notes who is
    written outside of regions, and `guard` is asked before an array outside of regions
    is indexed; both serve evaluated control flow. `lane` is set while a single lane
    runs (`lane.Lane`). `held` are lists of nodes that somebody keeps only to put them
    back, which doesn't count as sharing them.
    """

    scope = _scope
    mask = _mask
    guard = _guard
    watched = _watched
    lane = _lane
    held = _held


state = _State()
enter_scope, set_mask = _scope.set, _mask.set  # What holds for nodes from now on.
#: The lanes that run in any thread: where it is empty, `state.lane` is None.
running_lanes: list[Any] = []


def scoped(scope: Scope) -> During[Scope]:
    """Have nodes belong to a scope that isn't part of the program."""
    return _scope.during(scope)


def masked_only(mask: Node) -> During[Node | None]:
    """Restrict gathers and scatters to a mask that includes the current one."""
    return _mask.during(mask)


def unmasked() -> During[Node | None]:
    """Lift the mask: for effects guarded otherwise, or what handles whole arrays."""
    return _mask.during(None)


def guarded(check: Guard | None) -> During[Guard | None]:
    """Have `check` asked before an array outside of regions is indexed."""
    return _guard.during(check)


def masked(mask: Node) -> During[Node | None]:
    """Restrict gathers and scatters to a mask, on top of the current one.

    Evaluated loops and branches run their bodies on all elements; this keeps the
    inactive ones from reading and writing.
    """
    return masked_only(under_mask(mask))


def under_mask(mask: Node) -> Node:
    """Combine a mask with the current one."""
    outer = _mask.get()
    if outer is None:
        return mask
    return emit2(AND, mask, outer)


def current_mask() -> Node | None:
    """Return which elements take part, in evaluated control flow; None: all."""
    return _mask.get()


def is_unconditional() -> bool:
    """Tell whether what is traced now runs in any case, for all elements."""
    is_free = _mask.get() is None and _lane.get() is None
    return is_free and current_scope() is ROOT


def is_symbolic(node: Node) -> bool:
    """Tell whether a node stands for values known only inside a region."""
    return node.scope is not ROOT


def make(op: Op, dtype: DType, size: int, deps: tuple[Node, ...], attr: Any) -> Node:
    """Append a node without value numbering."""
    node = Node.__new__(Node)
    node.op = op
    node.type = dtype
    node.size = size
    node.deps = deps
    node.attr = attr
    node.scope = current_scope()
    if are_unset:
        node.buffer = node.uses = node.vertex = node.range = None
        node.walk = 0
    return node


def make_root(op: Op, dtype: DType, size: int, attr: Any = None) -> Node:
    """Append a source node, which belongs to the program and not to a region."""
    node = make(op, dtype, size, (), attr)
    node.scope = ROOT
    return node


def size_mismatch(op: Op, deps: tuple[Node, ...]) -> SizeError:
    """Word the error for operands whose sizes can't be combined."""
    sizes = ", ".join(str(d.size) for d in deps)
    return SizeError(
        op.name,
        f"the operands have incompatible sizes ({sizes})",
        "use arrays of the same size; only size 1 broadcasts.",
    )


def broadcast_size(op: Op, deps: tuple[Node, ...]) -> int:
    """Return the common size of operands, where size 1 fits any other."""
    size = 1
    for dep in deps:
        if dep.size != size:
            if size == 1:
                size = dep.size
            elif dep.size != 1:
                raise size_mismatch(op, deps)
    return size


def literal(dtype: DType, value: Any, size: int = 1) -> Node:
    """Return a uniform constant; `value` is already wrapped to the type."""
    key: Any = (dtype, value, size)
    if type(value) is not int and (value != value or value == 0):
        key = (dtype, str(value), size)
        if value != value:
            value = math.nan
    node = find_root(key, LITERAL)
    if node is None:
        node = make_root(LITERAL, dtype, size, value)
        note_root(key, node)
    return node


def counter(size: int) -> Node:
    """Return the UInt32 sequence 0 … size - 1."""
    if size == 1:
        return literal(UINT32, 0)
    key = (COUNTER, size)
    node = find_root(key, COUNTER)
    if node is None:
        node = make_root(COUNTER, UINT32, size)
        note_root(key, node)
    return node


def undefined(dtype: DType, size: int) -> Node:
    """Return an array that has no contents yet and, so far, no memory."""
    return make_root(UNDEFINED, dtype, size)


def from_buffer(dtype: DType, buffer: Buffer, size: int) -> Node:
    """Return a node for `size` entries that already lie in memory."""
    # (Not `make_root`: a replay makes hardly anything else.)
    node = Node.__new__(Node)
    node.op = EVALUATED
    node.type = dtype
    node.size = size
    node.deps = ()
    node.buffer = buffer
    node.scope = ROOT
    if are_unset:
        node.attr = node.uses = node.vertex = node.range = None
        node.walk = 0
    return node


def check_size(size: int, construct: str) -> int:
    """Return an array size given by the user, or raise for an impossible one."""
    size = operator.index(size)
    if size < 0:
        raise SizeError(construct, f"the size {size} is negative", "give a size >= 0.")
    if size > MAX_SIZE:
        raise SizeError(
            construct,
            f"the size {size} exceeds the limit of {MAX_SIZE} entries",
            "split the work into several passes.",
        )
    return size


def append(
    op: Op,
    dtype: DType,
    deps: tuple[Node, ...],
    attr: Any = None,
    size: int | None = None,
) -> Node:
    """Append an operation on operands, or return the equal node made before.

    The operands broadcast, unless `size` says how many entries the result has.
    """
    host = hosting(deps)
    if host.uses is not None and value_numbering.is_wanted():
        scope = current_scope()
        found = value_numbering.find(host, op, dtype, deps, attr, scope)
        if found is not None:
            return found
    if size is None:
        size = broadcast_size(op, deps)
    node = make(op, dtype, size, deps, attr)
    if _variables:
        for dep in deps:
            if dep.vertex is not None:
                if not vertices.note(node):
                    return node
                break
    if host.uses is None:
        host.uses = ref(node)
    else:
        value_numbering.note(host, node)
    return node


def hosting(deps: tuple[Node, ...]) -> Node:
    """Return the operand at which an operation is found again."""
    host = deps[-1] if len(deps) == 3 else deps[0]
    if host.op is LITERAL:
        for dep in deps:
            if dep.op is not LITERAL:
                return dep
    return host


def emit1(op: Op, a: Node) -> Node:
    """Apply a unary operation."""
    if a.op is LITERAL:
        folded = simplify.unary(op, a)
        if folded is not None:
            return unchanged(folded)
    return append(op, op.result or a.type, (a,))


def emit2(op: Op, a: Node, b: Node) -> Node:
    """Apply a binary operation to operands of the same type.

    This is the tracer's innermost path: the common case makes one node and one weak
    reference, and calls nothing else. What was made before needs no simplification.
    """
    host = b if a.op is LITERAL else a
    scope = current_scope()
    if host.uses is not None and value_numbering.is_wanted() and not running_lanes:
        found = value_numbering.find_binary(host, op, a, b, scope)
        if found is not None:
            return found
    if a.op is LITERAL or b.op is LITERAL or a is b:
        lane = _lane.get() if running_lanes else None
        folded = simplify.binary(op, a, b) if lane is None else lane.binary(op, a, b)
        if folded is not None:
            return unchanged(folded)
    deps = (a, b)
    size = a.size
    if size != b.size:
        if size == 1:
            size = b.size
        elif b.size != 1:
            raise size_mismatch(op, deps)
    made = Node.__new__(Node)
    made.op = op
    made.type = op.result or a.type
    made.size = size
    made.deps = deps
    made.scope = scope
    if are_unset:
        made.attr = made.buffer = made.uses = made.vertex = made.range = None
        made.walk = 0
    if _variables and not (a.vertex is b.vertex is None or vertices.note(made)):
        return made
    if host.uses is None:
        host.uses = ref(made)
    else:
        value_numbering.note(host, made)
    return made


def emit3(op: Op, a: Node, b: Node, c: Node) -> Node:
    """Apply a ternary operation; the result has the last operand's type.

    That operand, mostly a sum so far, has the fewest uses to look through.
    """
    deps = (a, b, c)
    size = c.size
    if a.size != size or b.size != size:
        size = broadcast_size(op, deps)
    host = c
    if a.op is LITERAL or b.op is LITERAL or c.op is LITERAL or b is c:
        folded = simplify.ternary(op, a, b, c, size)
        if folded is not None:
            return unchanged(folded)
        host = hosting(deps)
    scope = current_scope()
    if host.uses is not None and value_numbering.is_wanted():
        found = value_numbering.find(host, op, c.type, deps, None, scope)
        if found is not None:
            return found
    made = Node.__new__(Node)
    made.op = op
    made.type = c.type
    made.size = size
    made.deps = deps
    made.scope = scope
    if are_unset:
        made.attr = made.buffer = made.uses = made.vertex = made.range = None
        made.walk = 0
    if _variables and not (
        a.vertex is b.vertex is c.vertex is None or vertices.note(made)
    ):
        return made
    if host.uses is None:
        host.uses = ref(made)
    else:
        value_numbering.note(host, made)
    return made


def cast_to(node: Node, dtype: DType) -> Node:
    """Convert values to another type."""
    if node.type is dtype:
        return node
    if node.op is LITERAL and (not unusual or flags.constant_propagation):
        return simplify.cast_literal(node, dtype)
    return append(CAST, dtype, (node,))


def bitcast_to(node: Node, dtype: DType) -> Node:
    """Read the bits of values as another type of the same width."""
    if node.type is dtype:
        return node
    if node.op is BITCAST:
        return bitcast_to(node.deps[0], dtype)
    if node.op is LITERAL and (not unusual or flags.constant_propagation):
        folded = simplify.bitcast_literal(node, dtype)
        if folded is not None:
            return folded
    return append(BITCAST, dtype, (node,))


def resized(node: Node, size: int) -> Node:
    """Broadcast a node of size 1 to a size."""
    if node.size == size:
        return node
    if node.op is LITERAL:
        return literal(node.type, node.attr, size)
    if node.size != 1:
        raise SizeError(
            "resize", f"can't resize an array of {node.size} entries to {size}"
        )
    return select(make_true(size), node, node)


def copied(node: Node) -> Node:
    """Return another node of the same contents, with the same derivatives."""
    copy = make(COPY, node.type, node.size, (node,), None)
    if node.vertex is not None:
        vertices.track(copy, COPY, copy.deps)
    return copy


def detached(node: Node) -> Node:
    """Return a node of the same contents and scope to which no derivatives flow."""
    first = node if node.vertex is None else original(node)
    if first.vertex is None:
        return first
    made = make(COPY, node.type, node.size, (first,), None)
    made.scope = node.scope
    return made


def original(node: Node) -> Node:
    """Return what copies are made of: a variable made again and again is one copy."""
    while node.op is COPY and node.deps[0].scope is node.scope:
        node = node.deps[0]
    return node


def unchanged(node: Node) -> Node:
    """Return a result that is an operand as it was, or one that isn't tracked now."""
    if node.vertex is None or vertices.is_tracked(node):
        return node
    return detached(node)


def make_true(size: int) -> Node:
    """Return a mask of `size` set entries."""
    return _always if size == 1 and _always.op is LITERAL else literal(BOOL, True, size)


# What most accesses ask for needn't be made again. (An evaluated one is of no use.)
_always: Node = literal(BOOL, True)


def select(mask: Node, a: Node, b: Node) -> Node:
    """Blend two nodes of one type by a mask."""
    if mask.op is LITERAL and mask.size > max(a.size, b.size):
        return append(SELECT, b.type, (mask, a, b))
    return emit3(SELECT, mask, a, b)


from lumijit.compiler.ir import simplify  # noqa: E402  (simplify appends to the trace)
