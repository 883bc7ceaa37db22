"""Writes by index in blocks of vectorized control flow: what may stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import WRITTEN
from lumijit.compiler.record.writes import last_versions, watched
from lumijit.control.differing import is_begun
from lumijit.runtime.errors import SizeError, StateError

T = TypeVar("T")
#: The scope of a block, or what it has written outside of regions.
Where = Scope | watched


class Narrow(BaseException):
    """An evaluated construct has more elements than its condition has entries."""

    def __init__(self, size: int, refusal: StateError) -> None:
        super().__init__()
        self.size = size
        self.refusal = refusal


def check_writes(
    construct: str,
    active: Node,
    has_single: bool,
    results: Iterable[tuple[Callable[[], str], Node]],
) -> None:
    """Raise `Narrow` for single writes of an evaluated construct beside wide results.

    The condition has one entry. Symbolic mode writes once per element of the results,
    this would write once in all.
    """
    if active.size != 1 or not has_single:
        return
    for name, node in results:
        if node.size > 1:
            refusal = StateError(
                construct,
                "an array is written to by an index, a value and a condition of "
                f"one entry each, beside '{name()}' of {node.size} entries: "
                "evaluated mode would write once, symbolic mode once per element",
                f"make the index as wide as '{name()}', write outside of the "
                "construct, or use symbolic mode.",
            )
            raise Narrow(node.size, refusal)


def wide_enough(run: Callable[[int], T]) -> T:
    """Run an evaluated construct for one element, or for as many as there are.

    Where that can't be, as other arrays are whole ones and no elements, what it writes
    is ambiguous.

    Args:
        run: gets how many elements there are at least; undoes what it did if it raises.
    """
    try:
        return run(1)
    except Narrow as found:
        narrow = found
    try:
        return run(narrow.size)
    except (SizeError, StateError) as error:
        raise narrow.refusal from error


def versions_in(
    where: Where, construct: str, arrays: Iterable[Any], held: Iterable[Node]
) -> dict[int, Node]:
    """Return the last versions of arrays written in a scope, or found to be.

    They must not be replaced besides: of `arrays`, it is told what they `held` before.
    """
    if not isinstance(where, Scope):
        if where.entries:
            for array, node in zip(arrays, held, strict=True):
                entry = where.entries.get(id(array))
                if entry is None:
                    continue
                if entry.is_mixed or not is_begun(node, entry.first):
                    raise _mixed(construct)
        return last_versions(where)
    if where.writes:
        for array, node in zip(arrays, held, strict=True):
            write = where.writes.get(id(array))
            if write is not None and not is_begun(node, write[1]):
                raise _mixed(construct)
    found = {}
    for key, (holder, _) in where.writes.items():
        node = holder._node
        if node.op is not WRITTEN or node.scope is not where:
            raise _mixed(construct)
        found[key] = node
    return found


def _mixed(construct: str) -> StateError:
    return StateError(
        construct,
        "an array is both written by index and changed in place within one branch",
        "assign the result to another variable.",
    )
