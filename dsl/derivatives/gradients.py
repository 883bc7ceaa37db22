"""Variables and their gradients: tracking, reading, replacing; see also `giving`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.derive import tracking
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.functions.apply import promoted
from lumijit.functions.creation import zeros
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.evaluation import flat_leaves
from lumijit.functions.selection import select
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import is_container, tree_map
from lumijit.runtime import recorders
from lumijit.runtime.errors import SizeError
from lumijit.runtime.recorders import listening
from lumijit.type_traits import detached_t


def tracked_leaves(*values: Any) -> list[FlatArray]:
    """Return the flat arrays in PyTrees that can be tracked."""
    is_flat = len(values) == 1 and isinstance(values[0], FlatArray)
    leaves: Iterable[FlatArray] = values if is_flat else flat_leaves(list(values))
    found = []
    for leaf in leaves:
        spec = leaf._spec
        if spec.is_diff and spec.dtype.is_float:
            found.append(leaf)
    return found


def note_asked(leaves: Iterable[FlatArray]) -> None:
    """Tell who listens that a program asks for derivatives of arrays, or gives some."""
    from lumijit.compiler.derive.traversal import depend_on_earlier

    recorder = recorders.present()
    found = [leaf._node.vertex for leaf in leaves if leaf._node.vertex is not None]
    if found and recorder.start and depend_on_earlier(found, recorder.start):
        recorder.is_entangled = True


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
    leaves = tracked_leaves(*args)
    if listening:
        note_asked(leaves)
    for leaf in leaves:
        tracking.enable(leaf)


def make_own(copied: Any) -> None:
    """Give a copy variables of its own, with the gradients of those copied.

    Where these are suspended, so are those, but variables they are all the same.
    """
    chosen = vertices.selected()
    for leaf in tracked_leaves(copied):
        node = leaf._node
        vertex = node.vertex
        if vertex is not None and vertex.serial in vertices.variables:
            leaf._become(trace.detached(node))
            with vertices.selecting(None):
                tracking.enable(leaf)
            own = leaf._node.vertex
            own.give(vertex.grad)
            if chosen is not None:
                chosen.include(own, vertex in chosen)


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
    leaves = tracked_leaves(*args)
    if listening:
        note_asked(leaves)
    return any(vertices.is_tracked(leaf._node) for leaf in leaves)


def with_same_nodes(value: Any) -> Any:
    """Return a PyTree with other arrays, which have the same nodes."""
    return mapped(value, lambda node: node)


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
    if not isinstance(arg, FlatArray) and is_container(arg):
        return tree_map(lambda v: grad(v, preserve_type), arg)
    if not isinstance(arg, ArrayBase):
        is_number = issubclass(arg.__class__, (int, float))
        return arg.__class__(0) if is_number else arg
    if not arg._spec.is_jit:
        return zeros(type(arg), arg.shape)
    if listening:
        note_asked(tracked_leaves(arg))
    return mapped(arg, _gradient, preserve_type)


def _gradient(node: Node) -> Node:
    if not node.type.is_float:
        return trace.literal(node.type, node.type.wrap(0), node.size)
    if node.vertex is None:
        return trace.literal(node.type, 0.0, node.size)
    from lumijit.compiler.derive.traversal import gradient

    return gradient(node)


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


def relative_grad(x: Any) -> Any:
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
        if len(value) != len(source):
            raise SizeError(
                "lumijit.replace_grad",
                f"the arrays have {len(value)} and {len(source)} components",
                "pass arrays of the same number of components.",
            )
        pairs = zip(value._items, source._items, strict=True)
        return wrap_nested(type(value), [_replaced(a, b) for a, b in pairs])
    if not isinstance(value, FlatArray):
        return value
    node = tracking.with_derivatives_of(value._node, source._node)
    return wrap(type(value), node)
