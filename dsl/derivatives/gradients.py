"""Variables and their gradients: tracking, reading, setting, replacing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.derive import tracking, traversal
from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import local
from lumijit.functions.apply import promoted
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.evaluation import flat_leaves
from lumijit.functions.selection import select
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import children, is_container, matched, tree_map
from lumijit.runtime.errors import ArrayTypeError, DerivativeError, SizeError
from lumijit.type_traits import detached_t


def tracked_leaves(*values: Any) -> Iterator[FlatArray]:
    """Return the flat arrays in PyTrees that can be tracked."""
    for leaf in flat_leaves(list(values)):
        if leaf._spec.is_diff and leaf._spec.dtype.is_float:
            yield leaf


def enable_grad(*args: Any) -> None:
    """Track derivatives with respect to arrays from here on.

    Args:
        *args: arrays and PyTrees; arrays of floats of an `.ad` namespace are tracked,
            other leaves stay as they are. Copies made before aren't tracked.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.backward(x * x)
    >>> x.grad
    [2, 4]
    """
    for leaf in tracked_leaves(*args):
        tracking.enable(leaf)


def disable_grad(*args: Any) -> None:
    """Stop tracking derivatives with respect to arrays.

    Args:
        *args: arrays and PyTrees; changed. What was computed of them stays tracked.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> dr.disable_grad(x)
    >>> dr.grad_enabled(x)
    False
    """
    for leaf in tracked_leaves(*args):
        leaf._become(trace.detached(leaf._node))


def set_grad_enabled(arg: Any, value: bool, /) -> None:
    """Track derivatives with respect to arrays, or no longer.

    Args:
        arg: array or PyTree.
        value: whether to track.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.set_grad_enabled(x, True)
    >>> dr.grad_enabled(x)
    True
    """
    if value:
        enable_grad(arg)
    else:
        disable_grad(arg)


def grad_enabled(*args: Any) -> bool:
    """Tell whether derivatives of any of some arrays are tracked.

    Args:
        *args: arrays and PyTrees.

    Returns:
        Whether that is so, also with what `suspend_grad` says.

    >>> import lumijit as dr
    >>> dr.grad_enabled(dr.llvm.ad.Float(1))
    False
    """
    return any(vertices.is_tracked(leaf._node) for leaf in tracked_leaves(*args))


def mapped(value: Any, function: Any, preserve_type: bool = True) -> Any:
    """Give the arrays of a PyTree other nodes, and types without derivatives."""
    is_flat = isinstance(value, FlatArray)
    if not is_flat and is_container(value):
        return tree_map(lambda v: mapped(v, function, preserve_type), value)
    if not isinstance(value, ArrayBase):
        return value
    cls = type(value)
    if not preserve_type and cls._spec.is_diff:
        cls = detached_t(cls)
    if is_flat:
        return wrap(cls, function(value._node))
    if isinstance(value, NestedArray):
        items = [mapped(v, function, preserve_type) for v in value._items]
        return wrap_nested(cls, items)
    return value._copy()


def detach(arg: Any, preserve_type: bool = True) -> Any:
    """Return the same values, of which no derivatives are tracked.

    Args:
        arg: array or PyTree; other objects are returned as they are.
        preserve_type: whether arrays keep their types; otherwise those without
            derivatives, such as `llvm.Float`, take the place of `llvm.ad.Float`.

    Returns:
        The detached values.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> dr.grad_enabled(dr.detach(x) + 1)
    False
    """
    return mapped(arg, trace.detached, preserve_type)


def grad(arg: Any, preserve_type: bool = True) -> Any:
    """Return the gradients that have arrived at arrays.

    Args:
        arg: array or PyTree.
        preserve_type: as for `detach`.

    Returns:
        Values of the structure and size of `arg`; 0 for what isn't tracked.

    >>> import lumijit as dr
    >>> dr.grad(dr.llvm.ad.Float(1, 2))
    [0, 0]
    """
    if is_container(arg):
        return tree_map(lambda v: grad(v, preserve_type), arg)
    if not isinstance(arg, ArrayBase):
        is_number = issubclass(arg.__class__, (int, float))
        return type(arg)(0) if is_number else arg
    return mapped(arg, _gradient, preserve_type)


def _gradient(node: Node) -> Node:
    if not node.type.is_float:
        return trace.literal(node.type, node.type.wrap(0), node.size)
    return traversal.gradient(node)


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
    for leaf in tracked_leaves(*args):
        if leaf._node.vertex is not None:
            _clear(leaf._node.vertex, "lumijit.clear_grad")


def _clear(vertex: Vertex, construct: str) -> None:
    """Take the gradients of those elements that take part."""
    is_changed = construct == "lumijit.set_grad" or _has_outer_gradient(vertex)
    if is_changed and traversal.is_outside(vertex):
        raise _given_inside(construct)
    active = _active(vertex, construct)
    if active is None or vertex.grad is None:
        vertex.grad = None
    else:
        zero = trace.literal(vertex.type, 0.0)
        vertex.grad = trace.select(active, zero, vertex.grad)


def _has_outer_gradient(vertex: Vertex) -> bool:
    return traversal.outermost(vertex).grad is not None


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
        if traversal.is_outside(vertex):
            traversal.add_outside(vertex, _fitting(vertex, change))
        else:
            _add_gradient(vertex, change, _active(vertex, "lumijit.accum_grad"))


def accumulate(target: Any, source: Any, take: Callable[[Node], Node]) -> None:
    """Add to gradients what `take` makes of the nodes of other values.

    Also, as where a traversal begins, to those of arrays from outside of a region.
    """
    for mine, theirs in _pairs(target, source):
        _add_gradient(mine._node.vertex, take(theirs._node))


def _pairs(target: Any, source: Any) -> Iterator[tuple[FlatArray, FlatArray]]:
    return spread("lumijit.accum_grad", target, source, grad_enabled)


def spread(
    construct: str, target: Any, source: Any, is_wanted: Callable[[Any], bool]
) -> Iterator[tuple[FlatArray, FlatArray]]:
    """Return the flat arrays in a PyTree, each with its gradient of a source.

    That is a PyTree of the same structure, or what broadcasts.
    """
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
        yield from spread(construct, part, other, is_wanted)


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
    total = Adjoint(vertex, vertex.grad)
    total.add(change, active)
    vertex.grad = trace.resized(total.complete(), vertex.size)


def _fitting(vertex: Vertex, change: Node) -> Node:
    if change.size not in (1, vertex.size):
        raise SizeError(
            "lumijit.accum_grad",
            f"the gradient has {change.size} entries, the array {vertex.size}",
            "pass a gradient of the array's size, or of one entry.",
        )
    return change


class starting:
    """Have a traversal in a `with` block begin at arrays: each entry's gradient is 1.

    In control flow, the elements that take no part keep the gradients that they had.
    """

    def __init__(self, construct: str, arg: Any) -> None:
        leaves = [v for v in tracked_leaves(arg) if vertices.is_tracked(v._node)]
        found = {leaf._node.vertex.serial: leaf._node.vertex for leaf in leaves}
        self._construct = construct
        self._before = [(vertex, vertex.grad) for vertex in found.values()]
        self._outside = [v for v in found.values() if traversal.is_outside(v)]

    def __enter__(self) -> None:
        if any(_has_outer_gradient(vertex) for vertex in self._outside):
            raise _given_inside(self._construct)
        for vertex, _ in self._before:
            vertex.grad = None
            # Of each entry: to a matrix, a number is a multiple of the identity.
            one = trace.literal(vertex.type, 1.0)
            _add_gradient(vertex, one, _fitting_mask(vertex))

    def __exit__(self, kind: Any, *error: Any) -> None:
        is_left = any(vertex.grad is not None for vertex in self._outside)
        for vertex in self._outside:
            vertex.grad = None
        for vertex, before in self._before:
            active = _fitting_mask(vertex)
            if active is not None and before is not None:
                now = vertex.grad or trace.literal(vertex.type, 0.0)
                vertex.grad = trace.select(active, now, before)
        if is_left and kind is None:
            raise _given_inside(self._construct)


def _active(vertex: Vertex, construct: str) -> Node | None:
    """Return which elements take part, in evaluated control flow; None: all.

    The others are in another branch, or have left the loop. A mask of several elements
    for an array of one stands for the elements that add to it.
    """
    mask = trace.current_mask()
    if mask is None:
        return None
    is_earlier = traversal.is_earlier(vertex)
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
    is_fitting = mask is not None and mask.size in (1, vertex.size)
    return mask if is_fitting else None


def replace_grad(arg0: Any, arg1: Any, /) -> Any:
    """Return the values of one array with the derivatives of another.

    Args:
        arg0: array, number or PyTree: the values.
        arg1: array or PyTree, of the same structure: the derivatives.

    Returns:
        The combination, of the promoted type.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> x = Float(2)
    >>> dr.enable_grad(x)
    >>> y = dr.replace_grad(1, x * x)
    >>> dr.backward(y)
    >>> y, x.grad
    ([1], [4])
    """
    if is_container(arg0):
        return tree_map(replace_grad, arg0, arg1)
    if not isinstance(arg0, ArrayBase) and not isinstance(arg1, ArrayBase):
        return arg0
    value, source = promoted("lumijit.replace_grad", arg0, arg1)
    cls: Any = type(arg1) if isinstance(arg1, ArrayBase) else type(arg0)
    value, source = (v if isinstance(v, ArrayBase) else cls(v) for v in (value, source))
    if type(value) is not type(source):
        value = type(source)(value)
    return _replaced(value, source)


def relative_grad(x: Any, /) -> Any:
    """Return one, with the derivative of the relative change of a value, dx / x.

    Args:
        x: number or array.

    Returns:
        Ones of the type of `x`. Where `x` is zero, they have no derivative.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> x = Float(4)
    >>> dr.enable_grad(x)
    >>> y = 5 * dr.relative_grad(x)
    >>> dr.backward(y)
    >>> y, x.grad
    ([5], [1.25])
    """
    if not isinstance(x, ArrayBase) or not x._spec.is_diff:
        return x * 0 + 1
    known = detach(x, preserve_type=True)
    is_zero = (abs_(known) if x._spec.kind.is_number else known) == 0
    ratio = select(is_zero, known, x / select(is_zero, 1, known))
    return replace_grad(type(x)(1), ratio)


def _replaced(value: Any, source: Any) -> Any:
    if isinstance(value, NestedArray):
        pairs = zip(value._items, source._items, strict=True)
        return wrap_nested(type(value), [_replaced(a, b) for a, b in pairs])
    if not isinstance(value, FlatArray):
        return value
    node = tracking.with_derivatives_of(value._node, source._node)
    return wrap(type(value), node)


def _index_ad(self: FlatArray) -> int:
    vertex = self._node.vertex
    return 0 if vertex is None else int(vertex.serial)


def install() -> None:
    """Give arrays the properties that concern derivatives."""
    about = "The gradient that has arrived: see `lumijit.grad` and `lumijit.set_grad`."
    doc = "A number that identifies the value among those tracked; 0 if it isn't."
    for cls, name, made in (
        (ArrayBase, "grad", property(grad, set_grad, doc=about)),
        (FlatArray, "index_ad", property(_index_ad, doc=doc)),
    ):
        setattr(cls, name, made)
