"""Results of one operation of which one was computed of another, in a way not recorded.

What a replayed function returns are results of one operation of its inputs, though the
function may have computed one of another. Derivatives by the inputs are right. Owns the
errors of traversals that would have to go from one result to the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary, ref

from lumijit.compiler.ir.vertices import Vertex
from lumijit.runtime.errors import DerivativeError

# Results by the one that was computed of them.
_sources: WeakKeyDictionary[Vertex, list[ref[Vertex]]] = WeakKeyDictionary()


def note(result: Vertex, sources: Iterable[Vertex]) -> None:
    """Note of which others a result was computed."""
    _sources[result] = [ref(source) for source in sources]


def _sources_of(vertex: Vertex) -> list[Vertex]:
    found = [entry() for entry in _sources.get(vertex, ())]
    return [source for source in found if source is not None]


def refuse_between(
    seeds: Iterable[Vertex],
    found: dict[int, Vertex],
    is_forward: bool,
    is_forward_pass: bool | None,
    construct: str,
) -> None:
    """Raise if a derivative may begin at a result of which another was computed.

    Args:
        seeds: where a search for what takes part begins.
        found: what it has found.
        is_forward: whether it has gone from there to what depends on it.
        is_forward_pass: which way the traversal goes; None: that isn't known.
        construct: who asks.
    """
    if not _sources or (is_forward_pass is False and not is_forward):
        return
    if is_forward:
        begun = {vertex.serial for vertex in seeds}
        known = list(_sources)
        if any(s.serial in begun for result in known for s in _sources_of(result)):
            raise _unknown_way(construct)
        return
    for vertex in found.values():
        for source in _sources_of(vertex):
            if source.grad is not None and source.serial not in found:
                raise _unknown_way(construct)


def refuse_kept(found: dict[int, Vertex], construct: str) -> None:
    """Raise if gradients on the way between results would be kept."""
    if _sources and any(vertex in _sources for vertex in found.values()):
        raise _unknown_way(construct)


def _unknown_way(construct: str) -> DerivativeError:
    return DerivativeError(
        construct,
        "a recorded function (@kernel) has returned two results of which one is "
        "computed of the other, and a replay doesn't know by which way",
        "ask for this derivative in the function, compute the one of the other "
        "outside, or call the function without its decorator.",
    )
