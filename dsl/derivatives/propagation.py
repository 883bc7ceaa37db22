"""Forward and reverse mode: which vertices take part, and the pass itself."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lumijit.compiler.derive import traversal
from lumijit.compiler.derive.cleared import refuse_ended
from lumijit.compiler.derive.traversal import Clearing
from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.vertices import Vertex
from lumijit.derivatives.giving import begun_inside, starting
from lumijit.derivatives.gradients import grad, note_asked, tracked_leaves
from lumijit.functions.evaluation import flat_leaves
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, DerivativeError
from lumijit.runtime.named_enum import NamedEnum
from lumijit.runtime.recorders import listening

# What functions here return isn't all that they do (see `syntax.meanings`).
HAS_EFFECTS = True


class ADMode(NamedEnum):
    """The direction in which derivatives are propagated.

    >>> import lumijit as dr
    >>> dr.ADMode.Forward
    ADMode.Forward
    """

    Primal = 0
    Forward = 1
    Backward = 2


class ADFlag(enum.IntFlag):
    """What a traversal clears, and what it tolerates.

    `ClearEdges`: the connections it went along. `ClearInput`: gradients of vertices
    with which it can but start, as no other leads to them in its direction.
    `ClearInterior`: those of the others that it went on from. `ClearVertices`: both.
    `AllowNoGrad`: no error if there is nothing to do. `TrackDerivatives`: what is
    computed is tracked again, for derivatives of derivatives; together with
    `ClearNone`, as a rule.

    >>> import lumijit as dr
    >>> dr.ADFlag.ClearVertices == dr.ADFlag.ClearInput | dr.ADFlag.ClearInterior
    True
    """

    ClearNone = 0
    ClearEdges = 1
    ClearInput = 2
    ClearInterior = 4
    ClearVertices = 6
    Default = 7
    AllowNoGrad = 8
    TrackDerivatives = 16


_NO_PRIMAL = "pass lumijit.ADMode.Forward or lumijit.ADMode.Backward."


def _is_forward(mode: Any, construct: str) -> bool:
    if not isinstance(mode, ADMode) or mode is ADMode.Primal:
        raise ArrayTypeError(construct, f"mode is {mode!r}", _NO_PRIMAL)
    return mode is ADMode.Forward


class _Chosen(NamedTuple):
    """What flags mean."""

    clearing: Clearing
    is_tracked: bool
    may_be_none: bool


@lru_cache(typed=True)
def _meaning(flags: Any) -> _Chosen:
    chosen = ADFlag(flags)
    clearing = Clearing(
        edges=ADFlag.ClearEdges in chosen,
        inputs=ADFlag.ClearInput in chosen,
        interior=ADFlag.ClearInterior in chosen,
    )
    is_tracked = ADFlag.TrackDerivatives in chosen
    return _Chosen(clearing, is_tracked, ADFlag.AllowNoGrad in chosen)


def _chosen(construct: str, flags: Any) -> _Chosen:
    try:
        return _meaning(flags)
    except (TypeError, ValueError):
        raise ArrayValueError(
            construct,
            f"the flags are {flags!r} (expected members of ADFlag)",
            "pass for example lumijit.ADFlag.Default.",
        ) from None


def _vertices(args: Sequence[Any]) -> list[Vertex]:
    leaves = tracked_leaves(*args)
    if listening:
        note_asked(leaves)
    return [leaf._node.vertex for leaf in leaves if vertices.is_tracked(leaf._node)]


def enqueue(mode: ADMode, *args: Any) -> None:
    """Have variables take part in the next traversal.

    Args:
        mode: along which edges to look for them: from the arguments to what depends
            on them (Forward), or to what they depend on (Backward).
        *args: arrays and PyTrees from which to start.

    Raises:
        ArrayTypeError: if the mode is another.
        DerivativeError: if an earlier traversal has cleared a part of what the
            arguments depend on.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> y = 3 * x
    >>> dr.set_grad(x, 1)
    >>> dr.enqueue(dr.ADMode.Backward, y)
    >>> dr.traverse(dr.ADMode.Forward)
    >>> y.grad
    [3]
    """
    construct = "lumijit.enqueue"
    traversal.enqueue(_vertices(args), _is_forward(mode, construct), construct)


def traverse(mode: ADMode, flags: ADFlag | int = ADFlag.Default) -> None:
    """Propagate gradients along what has been enqueued.

    Args:
        mode: the direction.
        flags: what to clear.

    Raises:
        ArrayTypeError: if the mode is another.
        DerivativeError: if an operation on the way can't be differentiated.

    >>> import lumijit as dr
    >>> dr.traverse(dr.ADMode.Backward)
    """
    chosen = _chosen("lumijit.traverse", flags)
    is_forward = _is_forward(mode, "lumijit.traverse")
    traversal.traverse(is_forward, chosen.clearing, chosen.is_tracked)


def _taking_part(
    construct: str, args: Sequence[Any], chosen: _Chosen, is_begin: bool
) -> list[Vertex]:
    """Return the vertices of arguments, between which and others derivatives can flow.

    The others are what depends on them (`is_begin`), or what they depend on.
    """
    found = _vertices(args)
    if chosen.may_be_none:
        return found
    if not found:
        raise DerivativeError(
            construct,
            "the argument doesn't depend on any variable that is tracked: "
            + reason(args),
            "call lumijit.enable_grad on a variable before it is used, or pass "
            "flags=lumijit.ADFlag.Default | lumijit.ADFlag.AllowNoGrad.",
        )
    if is_begin:
        refuse_ended(found, construct)
    return found


def reason(args: Sequence[Any]) -> str:
    """Say why probably nothing is tracked."""
    leaves = list(flat_leaves(list(args)))
    if not leaves:
        return "there is no traced array in it"
    types = sorted({type(leaf).__name__ for leaf in leaves})
    if not any(leaf._spec.dtype.is_float for leaf in leaves):
        return f"its entries are no floats ({', '.join(types)})"
    if not any(leaf._spec.is_diff for leaf in leaves):
        names = sorted({leaf._spec.namespace for leaf in leaves})
        return f"arrays of lumijit.{names[0]} aren't tracked, those of its .ad are"
    if any(leaf._node.vertex is not None for leaf in leaves):
        return "tracking is suspended here (lumijit.suspend_grad)"
    if not vertices.variables:
        return "nothing is tracked at all (lumijit.enable_grad)"
    return (
        "it was computed before tracking began, detached or computed under "
        "lumijit.suspend_grad, or by operations without derivatives"
    )


def _from(
    is_forward: bool,
    construct: str,
    arg: Any,
    flags: ADFlag | int,
    is_kept: bool = False,
) -> None:
    chosen = _chosen(construct, flags)
    found = _taking_part(construct, (arg,), chosen, is_forward)
    if not is_forward:
        nodes = begun_inside(vertex.result() for vertex in found)
        found = [node.vertex for node in nodes]
    with starting(construct, found, is_forward, is_kept):
        traversal.enqueue(found, is_forward, construct, is_forward)
        traversal.traverse(is_forward, chosen.clearing, chosen.is_tracked)


def _to(is_forward: bool, construct: str, args: Any, flags: ADFlag | int) -> Any:
    chosen = _chosen(construct, flags)
    found = _taking_part(construct, args, chosen, not is_forward)
    traversal.enqueue(found, not is_forward, construct, is_forward)
    traversal.traverse(is_forward, chosen.clearing, chosen.is_tracked)
    return grad(args[0]) if len(args) == 1 else tuple(grad(a) for a in args)


def forward_from(arg: Any, flags: ADFlag | int = ADFlag.Default) -> None:
    """Propagate the gradient of a variable to all that depends on it.

    If it has none, it is set to 1; a literal zero (`dr.set_grad(…, 0)`) is as none. If
    only some of its arrays or components have one, the others' is zero. `forward`
    always begins with 1.

    Args:
        arg: array or PyTree.
        flags: what to clear; `AllowNoGrad` to do nothing without an error.

    Raises:
        DerivativeError: if `arg` isn't tracked, or an operation has no derivative.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> x.grad = 10
    >>> dr.forward_from(x)
    >>> y.grad
    [60]
    """
    _from(True, "lumijit.forward_from", arg, flags, is_kept=True)


def forward(arg: Any, flags: ADFlag | int = ADFlag.Default) -> None:
    """Set the gradient of a variable to 1 and propagate it to all that depends on it.

    A gradient that it has is replaced; `forward_from` begins with that.

    Args:
        arg: array or PyTree.
        flags: what to clear; `AllowNoGrad` to do nothing without an error.

    Raises:
        DerivativeError: if `arg` isn't tracked, or an operation has no derivative.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.forward(x)
    >>> y.grad
    [6]
    """
    _from(True, "lumijit.forward", arg, flags)


def backward_from(arg: Any, flags: ADFlag | int = ADFlag.Default) -> None:
    """Propagate the gradient of a result to all it depends on.

    If it has none, it is set to 1; a literal zero (`dr.set_grad(…, 0)`) is as none. If
    only some of its arrays or components have one, the others' is zero. `backward`
    always begins with 1.

    Args:
        arg: array or PyTree.
        flags: what to clear; `AllowNoGrad` to do nothing without an error.

    Raises:
        DerivativeError: if `arg` isn't tracked, or an operation has no derivative.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> y.grad = 10
    >>> dr.backward_from(y)
    >>> x.grad
    [60]
    """
    _from(False, "lumijit.backward_from", arg, flags, is_kept=True)


def backward(arg: Any, flags: ADFlag | int = ADFlag.Default) -> None:
    """Set the gradient of a result to 1 and propagate it to all it depends on.

    A gradient that it has is replaced; `backward_from` begins with that.

    Args:
        arg: array or PyTree.
        flags: what to clear; `AllowNoGrad` to do nothing without an error.

    Raises:
        DerivativeError: if `arg` isn't tracked, or an operation has no derivative.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(3)
    >>> dr.enable_grad(x)
    >>> dr.backward(x * x)
    >>> x.grad
    [6]
    """
    _from(False, "lumijit.backward", arg, flags)


def forward_to(*args: Any, flags: ADFlag | int = ADFlag.Default) -> Any:
    """Propagate gradients that have been set on variables to some results.

    Args:
        *args: arrays and PyTrees: the results.
        flags: what to clear; `AllowNoGrad` to do nothing without an error.

    Returns:
        The gradients of the results: one, or a tuple.

    Raises:
        DerivativeError: if no argument is tracked, or an operation has no derivative.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.set_grad(x, 10)
    >>> dr.forward_to(y)
    [60]
    """
    return _to(True, "lumijit.forward_to", args, flags)


def backward_to(*args: Any, flags: ADFlag | int = ADFlag.Default) -> Any:
    """Propagate gradients that have been set on results to some variables.

    Args:
        *args: arrays and PyTrees: the variables.
        flags: what to clear; `AllowNoGrad` to do nothing without an error.

    Returns:
        The gradients of the variables: one, or a tuple.

    Raises:
        DerivativeError: if no argument is tracked, or an operation has no derivative.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> dr.set_grad(y, 10)
    >>> dr.backward_to(x)
    [60]
    """
    return _to(False, "lumijit.backward_to", args, flags)
