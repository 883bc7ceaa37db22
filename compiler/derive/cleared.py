"""What traversals have cleared: who asks for derivatives along it gets an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from weakref import WeakSet, ref

from lumijit.compiler.ir import blends, trace, vertices
from lumijit.compiler.ir.nodes import reached
from lumijit.compiler.ir.ops.structural import CONSUMED, SCATTER
from lumijit.compiler.ir.vertices import CLEARED, Vertex, new_vertex
from lumijit.runtime.dtypes import FLOAT32
from lumijit.runtime.errors import DerivativeError

# For each traversal that has cleared something: a vertex that stands for it, while any
# of what it has cleared is there.
_memories: WeakSet[Vertex] = WeakSet()
# What forward mode didn't get to, or not on all ways, since these were cleared.
_missed: WeakSet[Vertex] = WeakSet()


class Memory:
    """What a traversal clears, remembered by what it depended on.

    Whatever is there afterwards is a user of a vertex that stands for the traversal,
    which is one of what that depended on. Its attribute: where forward mode began.
    """

    def __init__(self, found: dict[int, Vertex], is_forward: bool) -> None:
        self._found = found
        self._ends = [v for v in found.values() if not v.inputs]
        begin: list[int] = []
        if is_forward:
            pending: list[Vertex] = []
            for vertex in found.values():
                others = [p for p in vertex.parents if p.serial not in found]
                pending += others
                if len(others) == len(vertex.inputs):
                    begin.append(vertex.serial)
            others = reached(pending, attrgetter("parents"))
            self._ends += [vertex for vertex in others if not vertex.inputs]
        self._begin = frozenset(begin)

    def keep(self) -> None:
        """Remember what has been cleared and is still there; let go of the rest."""
        cut = [ref(v) for v in self._found.values() if v.is_cut and v.attr is None]
        self._found.clear()
        left = [vertex for entry in cut if (vertex := entry()) is not None]
        if not left:
            return
        standing = new_vertex(trace.literal(FLOAT32, 0.0), CLEARED, (), (), self._begin)
        standing.users = [ref(vertex) for vertex in left]
        _memories.add(standing)
        own = ref(standing)
        for vertex in left:
            vertex.attr = standing
            vertex.users.append(own)
        for vertex in self._ends:
            vertex.users.append(own)


def beyond(seeds: Iterable[Vertex], found: dict[int, Vertex]) -> list[Vertex]:
    """Return what depends on seeds and isn't reached, as a way there is cleared.

    Where an earlier traversal from the same seeds has arrived doesn't count.

    Args:
        seeds: where forward mode begins.
        found: all vertices that it reaches.
    """
    if not _memories:
        return []
    begin = {vertex.serial for vertex in seeds}
    cut = [user for v in found.values() for user in _later(v) if user.is_cut]
    return [v for v in reached(cut, _later) if not _has_arrived(v, begin)]


def _later(vertex: Vertex) -> Iterator[Vertex]:
    """Return what was computed of a vertex, by way of what has been cleared, too."""
    for entry in vertex.users:
        user = entry()
        if user is None:
            continue
        if user in _memories:
            yield from (v for v in _later(user) if v.serial > vertex.serial)
        elif not _replaces(user, vertex):
            yield user


def _has_arrived(vertex: Vertex, begin: set[int]) -> bool:
    is_known = vertex.is_cut and isinstance(vertex.attr, Vertex)
    return is_known and vertex.grad is not None and begin <= vertex.attr.attr


def _is_complete(vertex: Vertex) -> bool:
    """Tell whether forward mode has got to a cleared vertex from all with gradients."""
    standing = vertex.attr
    if vertex.grad is None or not isinstance(standing, Vertex) or not standing.attr:
        return False
    entries = [*vertices.variables.values()]
    for memory in _memories:
        if memory is not standing:
            entries += memory.users
    known = [v for entry in entries if (v := entry()) is not None]
    begin = standing.attr
    others = [v for v in known if v.grad is not None and v.serial not in begin]
    return vertex not in reached(others, _later)


def note_missed(missed: Iterable[Vertex]) -> None:
    """Have an error raised where the gradients of vertices are asked for."""
    _missed.update(missed)


def note_given(vertex: Vertex, is_whole: bool = True) -> None:
    """Take a gradient for right: it has been replaced, `is_whole`: in all elements."""
    _missed.discard(vertex)
    if is_whole:
        blends.forget(vertex)


def refuse_missed(vertex: Vertex) -> None:
    """Raise if not all of a gradient is there, as of forward mode on some ways."""
    if vertex in _missed:
        raise DerivativeError(
            "lumijit.grad",
            "forward mode didn't get here on all ways: an earlier traversal has "
            "cleared a part of what the array was computed of",
            "pass flags=lumijit.ADFlag.ClearVertices to the earlier one, or compute "
            "the array again before the forward traversal.",
        )
    if blends.includes(vertex):
        raise DerivativeError(
            "lumijit.grad",
            "a loop, branch or call has put the array together, element by element, "
            "and some elements are those of a variable (lumijit.enable_grad), whose "
            "gradient isn't known of the whole",
            "read gradients in the turn or branch that tracks a copy "
            "(x = lumijit.detach(x); lumijit.enable_grad(x)) and differentiates, and "
            "let it leave detached arrays; or track before and keep another name.",
        )


def refuse_given_beyond(missed: Iterable[Vertex], construct: str) -> None:
    """Raise if a gradient begins where reverse mode can't come back from."""
    if any(vertex.grad is not None for vertex in missed):
        raise _lost(construct, "arrays with gradients were computed of")


def _lost(construct: str, what: str) -> DerivativeError:
    return DerivativeError(
        construct,
        f"a part of what {what} has been cleared: an earlier traversal has gone along "
        "there, so gradients would be lost",
        "pass flags=lumijit.ADFlag.ClearVertices to the earlier one, add up the "
        "results and go back once, compute the argument again, or detach that part.",
    )


def refuse_cleared(
    seeds: Iterable[Vertex],
    found: dict[int, Vertex],
    construct: str,
    is_to_forward: bool,
) -> None:
    """Raise if results depend on a value that has been cleared.

    What an array held before it was written to doesn't count: programs write to the
    same array again and again.

    Args:
        seeds: the vertices of the results.
        found: all vertices that they depend on.
        construct: who asks.
        is_to_forward: whether the pass goes forward, and so may begin where an earlier
            one has arrived.
    """
    if not _has_cut(found):
        return
    seen: set[int] = set()
    stack = list(seeds)
    while stack:
        vertex = stack.pop()
        if vertex.is_cut:
            if is_to_forward and _is_complete(vertex):
                continue
            raise _lost(construct, "the argument was computed of")
        if vertex.serial in seen or vertex.serial not in found:
            continue
        seen.add(vertex.serial)
        if isinstance(vertex.attr, Vertex):
            stack.append(vertex.attr)
        for k, parent in zip(vertex.inputs, vertex.parents, strict=True):
            if not _is_replaced(vertex, k):
                stack.append(parent)


def _has_cut(found: dict[int, Vertex]) -> bool:
    count = 0
    for vertex in found.values():
        count += vertex.op is CLEARED and vertex.is_cut
    return count > 0


def refuse_ended(seeds: Iterable[Vertex], construct: str) -> None:
    """Raise if all that was computed of variables, and is still there, is cleared."""
    entries = [entry for vertex in seeds for entry in vertex.users]
    users = [user for entry in entries if (user := entry()) is not None]
    if any(user.is_cut for user in users) and not any(user.inputs for user in users):
        raise DerivativeError(
            construct,
            "what was computed of the argument has been cleared: an earlier traversal "
            "has gone along there",
            "pass flags=lumijit.ADFlag.ClearVertices to the earlier one, or compute "
            "the results again.",
        )


def _replaces(user: Vertex, vertex: Vertex) -> bool:
    """Tell whether a value is made of an array of which entries are replaced, only."""
    own = [k for k in user.inputs if user.deps[k].vertex is vertex]
    return bool(own) and all(_is_replaced(user, k) for k in own)


def _is_replaced(vertex: Vertex, k: int) -> bool:
    """Tell whether an operand is an array of which entries are replaced, or may be."""
    if vertex.op is SCATTER:
        return k == 0 and vertex.attr.op == "identity"
    return vertex.deps[k].op is CONSUMED
