"""Derivatives of functions, as JAX has them: `jvp`, `vjp`, `value_and_grad`, `hvp`.

A function runs on variables of its own in place of its arguments, so that gradients
and tracking of the caller's arrays stay as they are. Where an argument is tracked, its
variable depends on it: derivatives can be nested, and differentiated like any value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from lumijit.base import ArrayBase
from lumijit.compiler.derive import cleared, traversal
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.vertices import Vertex
from lumijit.derivatives.giving import accumulate
from lumijit.derivatives.gradients import (
    detach,
    enable_grad,
    grad,
    grad_enabled,
    mapped,
    tracked_leaves,
    with_same_nodes,
)
from lumijit.derivatives.propagation import reason
from lumijit.derivatives.scopes import resume_grad
from lumijit.initialize import check_callable
from lumijit.runtime.errors import ArrayTypeError, DerivativeError

# What functions here return isn't all that they do (see `syntax.meanings`).
HAS_EFFECTS = True

Function = Callable[..., Any]


class Call:
    """One call of a function on variables of its own, to be differentiated.

    `variables` stand for the arguments, `outputs` for what was returned.
    """

    def __init__(
        self, construct: str, function: Function, primals: Sequence[Any]
    ) -> None:
        check_callable(construct, "the function", function)
        self._start = vertices.next_serial()
        self.variables = mapped(tuple(primals), _linked)
        with resume_grad():
            enable_grad(self.variables)
        for primal, variable in zip(primals, self.variables, strict=True):
            if not list(tracked_leaves(variable)):
                raise DerivativeError(
                    construct,
                    "an argument has nothing to differentiate with respect to: "
                    f"{reason([primal])}",
                    "pass arrays of floats of an .ad namespace, or bind the argument "
                    "beforehand (functools.partial).",
                )
        with resume_grad(self.variables):
            value = function(*with_same_nodes(self.variables))
            # Nodes of their own, of which no other result is computed.
            self.outputs = mapped(value, trace.copied)

    @property
    def value(self) -> Any:
        """What the function returned."""
        return self.outward(self.outputs)

    def outward(self, value: Any) -> Any:
        """Return a value as the caller may see it: tracked only through the caller's
        arrays.
        """
        found = _vertices(value)
        if not traversal.depend_on_earlier(found, self._start):
            return detach(value)
        chosen = vertices.selected()
        if chosen is not None:
            for vertex in found:
                chosen.include(vertex)
        return with_same_nodes(value)

    def push(self, tangents: Any) -> Any:
        """Return the derivatives of results, from those of the arguments."""
        return self._pass(True, self.variables, tangents, self.outputs)

    def pull(self, cotangents: Any) -> Any:
        """Return the derivatives by the arguments, from those by results."""
        return self._pass(False, self.outputs, cotangents, self.variables)

    def _pass(self, is_forward: bool, source: Any, seeds: Any, target: Any) -> Any:
        own = (self.variables, self.outputs)
        starts, ends = (_vertices(values) for values in own)
        # Else nobody could ask for derivatives of derivatives.
        is_tracked = grad_enabled(seeds) or traversal.depend_on_earlier(
            ends, self._start
        )
        with resume_grad(*own):
            # The function may have run traversals itself.
            _clear(starts, ends)
            accumulate(source, seeds)
            traversal.traverse_between(starts, ends, is_forward, is_tracked)
            found = grad(target)
            _clear(starts, ends)
        return self.outward(found)


def _vertices(value: Any) -> list[Vertex]:
    found = (leaf._node.vertex for leaf in tracked_leaves(value))
    return [vertex for vertex in found if vertex is not None]


def _clear(*own: list[Vertex]) -> None:
    """Take the gradients of vertices that nobody else has, of all elements.

    In evaluated control flow, those of elements that take no part would come back.
    """
    for vertex in chain(*own):
        vertex.give(None)
        cleared.note_given(vertex)


def _linked(node: Node) -> Node:
    """Return a node for a variable, tracked already if the argument is."""
    if vertices.is_tracked(node):
        return trace.copied(node)
    return trace.detached(node)


def jvp(
    function: Function, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """Call a function and differentiate it in forward mode.

    Args:
        function: takes arrays and PyTrees; returns an array or a PyTree.
        primals: its arguments.
        tangents: their derivatives: PyTrees of the same structures, or what broadcasts.

    Returns:
        The function's result, and its derivative along the tangents.

    Raises:
        ArrayTypeError: if there is another number of tangents than of arguments.
        DerivativeError: if an argument can't be tracked.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> dr.jvp(lambda x, y: x * y, (Float(2), Float(3)), (1, 10))
    ([6], [23])
    """
    _check_sequences("lumijit.jvp", primals, tangents)
    if len(primals) != len(tangents):
        raise ArrayTypeError(
            "lumijit.jvp",
            f"there are {len(primals)} primals and {len(tangents)} tangents",
            "pass one tangent for each primal.",
        )
    call = Call("lumijit.jvp", function, primals)
    return call.value, call.push(tuple(tangents))


def _check_sequences(construct: str, primals: Any, tangents: Any) -> None:
    """Refuse a single argument, or its derivative, in the place of a sequence."""
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (list, tuple)):
            raise ArrayTypeError(
                construct,
                f"{name!r} has type {type(given).__name__!r} (expected a tuple with "
                "an item for each argument)",
                f"pass ({name[:-1]},).",
            )


def vjp(function: Function, *primals: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Call a function, to be differentiated in reverse mode.

    Args:
        function: takes arrays and PyTrees; returns an array or a PyTree.
        *primals: its arguments.

    Returns:
        The function's result, and a function, which can be called several times: from
        derivatives by the result (of its structure, or what broadcasts), it returns
        those by the arguments, as a tuple.

    Raises:
        DerivativeError: if an argument can't be tracked.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> value, pullback = dr.vjp(lambda x, y: x * y, Float(2), Float(3))
    >>> value, pullback(1), pullback(10)
    ([6], ([3], [2]), ([30], [20]))
    """
    call = Call("lumijit.vjp", function, primals)
    return call.value, call.pull


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """Return a function that computes a value and its gradient.

    Args:
        function: returns one array; of several entries, their sum is differentiated.
        argnums: by which arguments, by position: one number, or several.
        has_aux: whether the function returns a pair, of which only the first part is
            to be differentiated.

    Returns:
        A function of the same arguments, which returns the pair of value (or what the
        function returned, with `has_aux`) and gradient, or tuple of gradients.

    Raises:
        ArrayTypeError: if the function returns anything else, in the call.
        DerivativeError: if an argument can't be tracked, in the call.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> dr.value_and_grad(lambda x: dr.sum(x * x))(Float(1, 2, 3))
    ([14], [2, 4, 6])
    """
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)

    def run(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        aux: list[Any] = []

        def called(*chosen: Any) -> Any:
            every = list(args)
            for k, value in zip(numbers, chosen, strict=True):
                every[k] = value
            result = function(*every, **kwargs)
            if has_aux:
                result, *aux[:] = _pair(result)
            return _checked(result)

        call = Call("lumijit.value_and_grad", called, [args[k] for k in numbers])
        found = call.pull(1)
        gradient = found[0] if isinstance(argnums, int) else found
        if has_aux:
            return (call.value, call.outward(aux[0])), gradient
        return call.value, gradient

    return run


def _pair(result: Any) -> Any:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise ArrayTypeError(
        "lumijit.value_and_grad",
        f"with has_aux, the function returned {type(result).__name__!r} "
        "(expected a pair)",
        "return the value and anything else: return value, aux.",
    )


def _checked(value: Any) -> Any:
    if isinstance(value, ArrayBase) and value._spec.dtype.is_float:
        return value
    raise ArrayTypeError(
        "lumijit.value_and_grad",
        f"the function returned {type(value).__name__!r} (expected an array of floats)",
        "return the value alone, or pass has_aux=True and return it with one thing "
        "more; lumijit.vjp takes functions with several results.",
    )


def hvp(
    function: Function, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, ...]:
    """Multiply a function's Hessian with a vector, forward mode over reverse mode.

    Args:
        function: returns one array; of several entries, their sum is differentiated.
        primals: its arguments.
        tangents: the vector, in parts: one for each argument.

    Returns:
        The product, as a tuple: one part for each argument.

    Raises:
        ArrayTypeError: if there is another number of tangents than of arguments.
        DerivativeError: if an argument can't be tracked.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> dr.hvp(lambda x: dr.sum(x * x * x), (Float(1, 2),), (Float(1, 10),))
    ([6, 120],)
    """
    _check_sequences("lumijit.hvp", primals, tangents)
    gradient = value_and_grad(function, range(len(primals)))
    product: tuple[Any, ...]
    _, product = jvp(lambda *args: gradient(*args)[1], primals, tangents)
    return product
