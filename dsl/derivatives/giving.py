"""Giving gradients: setting them, adding to them, clearing them, and who takes part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.derive import cleared, isolation
from lumijit.compiler.derive.adjoints import Adjoint, adding, is_zero
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import local
from lumijit.compiler.record.writes import note_single
from lumijit.derivatives.gradients import (
    grad,
    grad_enabled,
    note_asked,
    tracked_leaves,
)
from lumijit.nested import NestedArray
from lumijit.pytree import children, is_container, matched
from lumijit.runtime.errors import (
    ArrayTypeError,
    DerivativeError,
    SizeError,
    check_nesting,
)
from lumijit.runtime.recorders import listening


def clear_grad(*args: Any) -> None:
    """Set the gradients of arrays to zero.

    In evaluated control flow, those of elements that take no part stay as they are.

    Args:
        *args: arrays and PyTrees.

    Raises:
        DerivativeError: if an array has one and comes from outside of the symbolic
            loop, branch or call that is traced.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> dr.set_grad(x, 3)
    >>> dr.clear_grad(x)
    >>> x.grad
    [0]
    """
    leaves = tracked_leaves(*args)
    if listening:
        note_asked(leaves)
    for leaf in leaves:
        if leaf._node.vertex is not None:
            _clear(leaf._node.vertex, "lumijit.clear_grad")


def _clear(vertex: Vertex, construct: str) -> None:
    """Take the gradients of those elements that take part."""
    is_changed = construct == "lumijit.set_grad" or _has_outer_gradient(vertex)
    if is_changed and isolation.is_outside(vertex):
        raise _given_inside(construct)
    active = _active(vertex, construct)
    if active is None or vertex.grad is None:
        vertex.give(None)
        cleared.note_given(vertex, active is None)
    else:
        zero = trace.literal(vertex.type, 0.0)
        vertex.give(trace.select(active, zero, vertex.grad))


def _has_outer_gradient(vertex: Vertex) -> bool:
    return isolation.outermost(vertex).grad is not None


def _given_inside(construct: str) -> DerivativeError:
    return DerivativeError(
        construct,
        "inside of a symbolic loop, branch or call, gradients of arrays from outside "
        "can only be added to",
        "use lumijit.accum_grad, clear the gradient outside, or track a copy made "
        "inside (x = lumijit.detach(x); lumijit.enable_grad(x)).",
    )


def set_grad(target: Any, source: Any) -> None:
    """Give arrays other gradients.

    In evaluated control flow, those of elements that take no part stay as they are.

    Args:
        target: array or PyTree; arrays that aren't tracked are left alone.
        source: the gradients: a PyTree of the same structure, or what broadcasts.

    Raises:
        SizeError: if a gradient has another size than its array.
        ArrayTypeError: if it can't be converted to the array's type.
        DerivativeError: if an array comes from outside of the symbolic loop, branch or
            call that is traced.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.set_grad(x, 5)
    >>> x.grad
    [5, 5]
    """
    for leaf in tracked_leaves(target):
        if leaf._node.vertex is not None:
            _clear(leaf._node.vertex, "lumijit.set_grad")
    accum_grad(target, source)


def accum_grad(target: Any, source: Any) -> None:
    """Add to the gradients of arrays.

    In control flow, to those of the elements that take part.

    Args:
        target: array or PyTree; arrays that aren't tracked are left alone.
        source: what to add: a PyTree of the same structure, or what broadcasts.

    Raises:
        SizeError: if a gradient has another size than its array.
        ArrayTypeError: if it can't be converted to the array's type.
        DerivativeError: if an array was computed of others outside of the symbolic
            loop, branch or call that is traced.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.accum_grad(x, [1, 2])
    >>> dr.accum_grad(x, 10)
    >>> x.grad
    [11, 12]
    """
    for mine, theirs in _pairs(target, source):
        vertex, change = mine._node.vertex, trace.detached(theirs._node)
        if isolation.is_outside(vertex):
            from lumijit.compiler.derive import border

            border.add_outside(vertex, _fitting(vertex, change))
        else:
            if isolation.is_earlier(vertex):
                isolation.note_given()
                if vertex.size == 1:
                    note_single(change)
            _add_gradient(vertex, change, _active(vertex, "lumijit.accum_grad"))


def accumulate(target: Any, source: Any) -> None:
    """Add other values to gradients.

    Also, as where a traversal begins, to those of arrays from outside of a region.
    """
    for mine, theirs in _pairs(target, source):
        _add_gradient(mine._node.vertex, theirs._node)


def _pairs(target: Any, source: Any) -> Iterator[tuple[FlatArray, FlatArray]]:
    return spread("lumijit.accum_grad", target, source, grad_enabled)


def spread(
    construct: str,
    target: Any,
    source: Any,
    is_wanted: Callable[[Any], bool],
    depth: int = 0,
) -> Iterator[tuple[FlatArray, FlatArray]]:
    """Return the flat arrays in a PyTree, each with its gradient of a source.

    That is a PyTree of the same structure, or what broadcasts.
    """
    check_nesting(depth)
    rows: Iterable[tuple[Any, ...]] = ()
    if is_container(target) and is_container(source):
        rows = matched(target, source)
    elif is_container(target):
        rows = ((part, source) for _, part in children(target))
    elif isinstance(target, ArrayBase) and is_wanted(target):
        if not isinstance(source, type(target)):
            source = _converted(construct, type(target), source)
        if isinstance(target, FlatArray):
            yield target, source
        elif isinstance(target, NestedArray):
            rows = zip(target._items, source._items, strict=True)
    for part, other in rows:
        yield from spread(construct, part, other, is_wanted, depth + 1)


def _converted(construct: str, cls: Any, source: Any) -> Any:
    try:
        return cls(source)
    except ArrayTypeError as error:
        raise ArrayTypeError(
            construct,
            f"the gradient has type {type(source).__name__!r} "
            f"(expected {cls.__name__})",
            "pass a number or an array of that type.",
        ) from error


def _add_gradient(vertex: Vertex, change: Node, active: Node | None = None) -> None:
    change = _fitting(vertex, change)
    if active is not None and active.size > vertex.size:
        # As in symbolic control flow, each element adds to the one entry.
        change = trace.resized(change, active.size)
    with adding:
        total = Adjoint(vertex, vertex.grad)
        total.add(change, active)
        vertex.give(trace.resized(total.complete(), vertex.size))


def _fitting(vertex: Vertex, change: Node) -> Node:
    if change.size not in (1, vertex.size):
        raise SizeError(
            "lumijit.accum_grad",
            f"the gradient has {change.size} entries, the array {vertex.size}",
            "pass a gradient of the array's size, or of one entry.",
        )
    return change


def begun_inside(nodes: Iterable[Node | None]) -> list[Node]:
    """Return where reverse mode begins: in control flow, at copies made there.

    What lies outside gets their gradients as it gets any, and passes them on in the
    end. If it has one that it was given, that is where to begin. Of one entry, nobody
    knows whether that is one for each element.
    """
    found: dict[Node, Node] = {}
    for node in nodes:
        assert node is not None
        vertex = node.vertex
        is_outside = isolation.is_outside(vertex)
        if is_outside and vertex.size == 1 and vertex.scope is ROOT:
            is_outside = False
        is_far = is_outside or isolation.is_earlier(vertex)
        is_copied = is_far and not isolation.has_own_gradient(vertex)
        if node not in found:
            found[node] = trace.copied(node) if is_copied else node
    return list(found.values())


class starting:
    """Have a traversal in a `with` block begin at vertices: each entry's gradient is 1.

    If `is_kept`, those that are there are taken, where any is: one that is a literal
    zero is as none. In control flow, the elements that take no part keep theirs.
    """

    def __init__(
        self,
        construct: str,
        found: Iterable[Vertex],
        is_forward: bool,
        is_kept: bool = False,
    ) -> None:
        own = list(dict.fromkeys(found))
        self._construct = construct
        self._before = [(vertex, vertex.grad) for vertex in own]
        self._outside = [vertex for vertex in own if isolation.is_outside(vertex)]
        self._is_forward = is_forward
        self._is_kept = is_kept and any(
            grad is not None and not is_zero(grad) for _, grad in self._before
        )

    def __enter__(self) -> None:
        if any(_has_outer_gradient(vertex) for vertex in self._outside):
            raise _given_inside(self._construct)
        for vertex, before in self._before:
            vertex.give(None)
            # Of each entry: to a matrix, a number is a multiple of the identity.
            start = before if self._is_kept else trace.literal(vertex.type, 1.0)
            if start is not None:
                _add_gradient(vertex, start, self._mask(vertex))

    def _mask(self, vertex: Vertex) -> Node | None:
        """Return where a traversal begins: in reverse mode, once for each element.

        Of one entry, what it was given is the sum of theirs already, and what depends
        on entries of a wide array (a sum, a median) is one for all.
        """
        is_each = vertex.size == 1 and not (self._is_kept or self._is_forward)
        mask = trace.current_mask() if is_each else None
        if mask is None or _is_of_all(vertex):
            return _fitting_mask(vertex)
        return mask

    def __exit__(self, kind: Any, *error: Any) -> None:
        is_left = any(vertex.grad is not None for vertex in self._outside)
        for vertex in self._outside:
            vertex.give(None)
        for vertex, before in self._before:
            active = _fitting_mask(vertex)
            if active is not None and before is not None:
                now = vertex.grad or trace.literal(vertex.type, 0.0)
                vertex.give(trace.select(active, now, before))
                isolation.note_arrived(vertex)
        if is_left and kind is None:
            raise _given_inside(self._construct)


def _is_of_all(vertex: Vertex) -> bool:
    """Tell whether one entry depends on those of a wide array, as sums do."""
    known, vertices = {vertex.serial}, [vertex]
    for found in vertices:
        for dep in found.deps:
            if dep.size > 1:
                return True
            if dep.vertex is not None and dep.vertex.serial not in known:
                known.add(dep.vertex.serial)
                vertices.append(dep.vertex)
    return False


def _active(vertex: Vertex, construct: str) -> Node | None:
    """Return which elements take part, in evaluated control flow; None: all.

    The others are in another branch, or have left the loop. A mask of several elements
    for an array of one stands for the elements that add to it.
    """
    mask = trace.current_mask()
    if mask is None:
        return None
    is_earlier = isolation.is_earlier(vertex)
    if is_earlier and vertex.size > 1 and trace.state.guard is not None:
        # The function runs for the elements that call it, which the array doesn't know.
        raise local.NeedsAllLanes
    if mask.size in (1, vertex.size):
        return mask
    if not is_earlier:
        return None
    is_sum = construct == "lumijit.accum_grad" and vertex.size == 1
    if not is_sum:
        raise SizeError(
            construct,
            f"an array of {vertex.size} entries comes from outside of a loop, branch "
            f"or call of {mask.size} elements",
            "use arrays of one size, or give gradients outside of the construct.",
        )
    return mask


def _fitting_mask(vertex: Vertex) -> Node | None:
    mask = trace.current_mask()
    if mask is None or mask.size in (1, vertex.size):
        return mask
    if vertex.size > 1 and trace.state.guard is not None:
        # Only some elements are here, and it is one of all.
        raise local.NeedsAllLanes
    return None


def _index_ad(self: FlatArray) -> int:
    vertex = self._node.vertex
    return 0 if vertex is None else int(vertex.serial)


# The properties of arrays that concern derivatives.
_ABOUT = "The gradient that has arrived: see `lumijit.grad` and `lumijit.set_grad`."
setattr(ArrayBase, "grad", property(grad, set_grad, doc=_ABOUT))  # noqa: B010
_INDEX = "A number that identifies the value among those tracked; 0 if it isn't."
setattr(FlatArray, "index_ad", property(_index_ad, doc=_INDEX))  # noqa: B010
