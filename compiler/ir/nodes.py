"""Nodes and scopes: what a trace consists of.

Nobody owns a node but the arrays and nodes that refer to it: Python's reference counts
are the dead-code elimination. `trace` makes nodes.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from lumijit.compiler.ir.ops.record import Op
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.compiled import is_compiled
from lumijit.runtime.dtypes import DType

_HEAP_TYPE = 1 << 9
T = TypeVar("T")


class Node:
    """One value of the trace: an operation on other nodes.

    `size` 1 broadcasts. `attr` holds what the operation needs besides operands.
    `buffer` is set once the value lies in memory; the node then is EVALUATED and
    has dropped its dependencies.
    """

    __slots__ = (
        "__weakref__",
        "attr",
        "buffer",
        "deps",
        "number",
        "op",
        "range",
        "scope",
        "size",
        "type",
        "uses",
        "vertex",
        "walk",
    )
    op: Op
    type: DType
    size: int
    deps: tuple[Node, ...]
    attr: Any
    buffer: Buffer | None
    scope: Scope
    # What `value_numbering` finds equal operations by.
    uses: Any
    # How derivatives flow here; None where nothing is tracked.
    vertex: Any
    # Between which numbers the entries lie, as far as `ranges` has found out.
    range: tuple[Any, Any] | None
    # The last walk that came here (0: none), and its number there.
    walk: int
    number: int

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.type.name}[{self.size}]>"


#: Whether the fields of a new node are unset. Those of the compiled class are None and
#: zero; to count one more reference to None ten times takes a fifth of making a node.
are_unset: bool = not is_compiled(sys.modules[__name__])


class Scope:
    """Where nodes are made: the program itself, or the body of a region."""

    __slots__ = (
        "arguments",
        "bound",
        "claimed",
        "depth",
        "effects",
        "elements",
        "indexed",
        "is_loop",
        "label",
        "locals",
        "parent",
        "part",
        "reads",
        "tables",
        "width",
        "widths",
        "writes",
    )

    def __init__(
        self, parent: Scope | None = None, label: str = "", width: int = 1
    ) -> None:
        self.parent = parent
        self.label = label
        self.width: int = max(width, parent.width if parent is not None else 1)
        # Over how many elements the region runs at least, whatever it reads.
        self.elements = 1
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.effects: list[Node] = []
        self.writes: dict[int, Any] = {}
        # Local buffers from outside that are accessed here (see `local`).
        self.locals: dict[int, Any] = {}
        # How wide a loop's will turn out, by the order of access, if that is foreseen.
        self.widths: dict[int, int] | None = None
        self.is_loop = False
        # At most so many turns of a loop; `width`: over how many elements; if known.
        self.bound: int | None = None
        self.part = 0  # counts the functions traced here one after the other
        # Arrays that were indexed, also by regions inside; not all leave a node.
        self.reads: dict[int, Node] = {}
        # What arguments stand for if they don't change, and those that were indexed.
        self.tables: dict[int, Node] = {}
        self.indexed: set[int] = set()
        # The vertices of loops' variables that were tracked before the loop, weakly.
        self.arguments: tuple[Any, ...] = ()
        # Arrays that a sibling wrote to already: nodes nobody else refers to.
        self.claimed: dict[int, Node] = {}


ROOT = Scope()
# (Threads count at once; a number that comes again would pass nodes over.)
_walks = itertools.count(1)


class _Interruptions:
    """How often an evaluation was begun in the middle of one, and how many there are.

    Code of the user's does that, which Python runs meanwhile (a handler of signals, a
    `__del__`). Nodes that the one around it has come to may have other marks since, or
    have been evaluated. (These are fields: a global variable that changes would have
    compiled code look up all others anew.)
    """

    __slots__ = ("count", "depth", "most")

    def __init__(self) -> None:
        self.count = 0
        # How many evaluations are running, each in the middle of the one before, and
        # how many interruptions there may have been in the end.
        self.depth = 0
        self.most = 0


interruptions = _Interruptions()


class Interrupted(Exception):
    """Somebody has evaluated meanwhile: what was described may be another thing now."""


def undisturbed(walk: Callable[[], T]) -> T:
    """Return what a walk finds, once no other is made in the middle of it."""
    while True:
        before = interruptions.count
        try:
            found = walk()
        except Exception:
            if interruptions.count == before:
                raise
        else:
            if interruptions.count == before:
                return found


def begin_walk() -> int:
    """Return what nodes are marked with in one walk.

    Walks through sets of ids take several times as long. Of the program's own nodes,
    there is one walk at a time: who walks has the lock of `evaluate`. Those of a body
    belong to the thread that records it.
    """
    return next(_walks)


def begin_walk_after(done: Iterable[Node]) -> int:
    """Begin a walk that has come to some nodes."""
    walk = begin_walk()
    for node in done:
        node.walk = walk
    return walk


def reached(roots: Iterable[T], below: Callable[[T], Iterable[T]]) -> list[T]:
    """Return nodes, each once, and all those to which `below` leads from them."""
    found = dict.fromkeys(roots)
    nodes = list(found)
    for node in nodes:
        for other in below(node):
            if other not in found:
                found[other] = None
                nodes.append(other)
    return nodes


def operands_first(
    roots: Iterable[Node], below: Callable[[Node], Iterable[Node]]
) -> list[Node]:
    """Return what `reached` does, each node after those to which `below` leads."""
    order: dict[Node, None] = {}
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [other for other in below(node) if other not in order]
            if waiting and node not in order:
                stack += waiting
            else:
                order[stack.pop()] = None
    return list(order)


def all_of(kind: type[Any]) -> list[Any]:
    """Return all objects of exactly one type that Python's collector knows.

    While there is a list of all objects, other threads can't finish the tuples that
    they are making. Compiled, no thread runs meanwhile; where the type is one of
    Python's, its objects refer to it.
    """
    is_pythons = kind.__flags__ & _HEAP_TYPE
    known = gc.get_referrers(kind) if is_pythons else gc.get_objects()
    return [found for found in known if type(found) is kind]
