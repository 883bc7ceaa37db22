"""Value numbering: finding the equal operation that was made before.

There is no table of all operations. Each node knows, by weak references, the
operations made with it as their first operand that is no literal, its *host*. Most
values have one such use, so that tracing an operation hashes nothing and adds one
weak reference to the host (`Node.uses`). Owns what `uses` holds, which grows from
None over a reference and a list to a table, and the table of roots. Making nodes
is the business of `trace`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ReferenceType, ref

from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import EVALUATED
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.dtypes import DType

# A longer list takes longer to search than a table.
_LIST_LENGTH = 12
_TABLE_LENGTH = 64
# More than there are operations, so that they and an id make one number.
_INDEX_BITS = 12
# Makes one number of several; so much of it is kept.
_FACTOR = 1_000_003
_MOST = (1 << 63) - 1
# (In C: what a compiled module calls instead.)
address = id
#: Returns what a weak reference refers to, or None.
referent: Callable[[ref[Node]], Node | None] = ReferenceType.__call__


class Table:
    """Weak references to nodes by key, swept when the table has doubled."""

    __slots__ = ("entries", "limit")

    def __init__(self, limit: int = _TABLE_LENGTH) -> None:
        self.entries: dict[Any, ref[Node]] = {}
        self.limit = limit

    def find(self, key: Any) -> Node | None:
        """Return the node that was entered under a key, if it lives."""
        entry = self.entries.get(key)
        return None if entry is None else referent(entry)

    def remember(self, key: Any, node: Node) -> None:
        """Enter a node in place of what stood under the key."""
        self.entries[key] = ref(node)
        if len(self.entries) > self.limit:
            self.sweep()

    def sweep(self) -> None:
        """Forget what nobody can ask for; the next sweep is due at twice the rest."""
        entries = self.entries
        # Copied at once: a thread may enter nodes meanwhile, or the collector run.
        for key, entry in entries.copy().items():
            if not _is_alive(entry):
                entries.pop(key, None)
        self.limit = max(self.limit, 2 * len(entries))


#: What has no operands: literals and counters.
roots = Table(1024)


def find_root(key: Any, op: Op) -> Node | None:
    """Return what was made by an operation without operands, and noted by a key."""
    table = roots
    node = table.find(key)
    return node if node is not None and node.op is op else None


def note_root(key: Any, node: Node) -> None:
    """Let what has no operands be found by a key."""
    table = roots
    table.remember(key, node)


def is_wanted() -> bool:
    """Tell whether equal operations are to be found (a flag of this thread)."""
    return not unusual or flags.value_numbering


def _is_alive(entry: ref[Node]) -> bool:
    """Tell whether an operation can still be found: evaluated ones can't."""
    node = referent(entry)
    return node is not None and node.op is not EVALUATED


def _key(host: Node, op: Op, dtype: DType, deps: tuple[Node, ...], attr: Any) -> Any:
    """Return what a table looks an operation up by.

    An integer, as the garbage collector doesn't look at integers, made of ids: these
    are used again, but never those of the operands of a node that has them still.
    Where different operations have one key, what was made last is found.
    """
    index = op.index
    if attr is None and len(deps) == 2 and dtype is (op.result or host.type):
        a, b = deps
        if a is host:
            return address(b) << _INDEX_BITS | index
        return -(address(a) << _INDEX_BITS | index)
    mixed = dtype.index << _INDEX_BITS | index
    for dep in deps:
        mixed = (mixed * _FACTOR ^ address(dep)) & _MOST
    return mixed if attr is None else mixed ^ hash(attr)


def is_visible(node: Node, scope: Scope) -> bool:
    """Tell whether a node belongs to a scope or one around it."""
    home = node.scope
    inner: Scope | None = scope
    while inner is not home:
        if inner is None:
            return False
        inner = inner.parent
    return True


def find(
    host: Node,
    op: Op,
    dtype: DType,
    deps: tuple[Node, ...],
    attr: Any,
    scope: Scope,
) -> Node | None:
    """Return the equal operation that can be seen from a scope, if there is one.

    A host whose only use is gone has none afterwards.
    """
    uses = host.uses
    kind = type(uses)
    if kind is ReferenceType:
        node: Node | None = referent(uses)
        if node is None or node.op is EVALUATED:
            host.uses = None
            return None
    elif kind is Table:
        table = uses
        node = table.find(_key(host, op, dtype, deps, attr))
    else:
        # (Nothing, if another thread has just emptied it.)
        for entry in uses or ():
            node = referent(entry)
            if (
                node is not None
                and node.op is op
                and _is_equal(node, op, dtype, deps, attr, scope)
            ):
                return node
        return None
    if node is not None and _is_equal(node, op, dtype, deps, attr, scope):
        return node
    return None


def find_binary(host: Node, op: Op, a: Node, b: Node, scope: Scope) -> Node | None:
    """Return what `find` does for `emit2`, in half the time.

    Type and attribute follow from the operation and the operands' types.
    """
    uses = host.uses
    kind = type(uses)
    if kind is list:
        for entry in uses:
            node: Node | None = referent(entry)
            if node is not None and node.op is op:
                deps = node.deps
                if deps and deps[0] is a and deps[1] is b and is_visible(node, scope):
                    return node
        return None
    if kind is ReferenceType:
        node = referent(uses)
        if node is None or node.op is EVALUATED:
            host.uses = None
            return None
    elif uses is None:
        # Another thread has just emptied it.
        return None
    else:
        index = op.index
        key = address(b) << _INDEX_BITS | index
        if a is not host:
            key = -(address(a) << _INDEX_BITS | index)
        table = uses
        node = table.find(key)
    if node is not None and node.op is op:
        # Another thread may evaluate it meanwhile, and take the operands away.
        deps = node.deps
        if deps and deps[0] is a and deps[1] is b and is_visible(node, scope):
            return node
    return None


def _is_equal(
    node: Node, op: Op, dtype: DType, deps: tuple[Node, ...], attr: Any, scope: Scope
) -> bool:
    return (
        node.op is op
        and node.type is dtype
        and node.attr == attr
        and node.deps == deps
        and is_visible(node, scope)
    )


def users(host: Node) -> list[Node]:
    """Return the nodes that were noted to be made of a node, and still live."""
    uses = host.uses
    if uses is None:
        return []
    entries = uses.entries.values() if type(uses) is Table else uses
    if type(uses) is ReferenceType:
        entries = [uses]
    found = [referent(entry) for entry in entries]
    return [node for node in found if node is not None]


def note(host: Node, made: Node) -> None:
    """Let a new operation be found through its host."""
    uses = host.uses
    kind = type(uses)
    if uses is None:
        host.uses = ref(made)
        return
    if kind is Table:
        table = uses
        table.remember(_key(host, made.op, made.type, made.deps, made.attr), made)
        return
    entries = uses if kind is list else [uses]
    if len(entries) >= _LIST_LENGTH:
        entries = [entry for entry in entries if _is_alive(entry)]
    if len(entries) < _LIST_LENGTH:
        entries.append(ref(made))
        host.uses = entries
    else:
        host.uses = table = Table()
        for node in [referent(entry) for entry in entries] + [made]:
            if node is not None and node.deps:
                key = _key(host, node.op, node.type, node.deps, node.attr)
                table.remember(key, node)
