"""Derivatives through recorded functions: the derivative of a kernel is a kernel.

Where results of a function can be differentiated from outside, its values are computed
by a recording without derivatives, and become results of one operation. A derivative
of that, in either mode, calls the function once more, on variables of its own and with
a traversal: that is recorded and replayed alike.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.compiler.derive import custom as derive
from lumijit.compiler.derive import siblings
from lumijit.compiler.derive.isolation import isolated
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.launch import evaluate
from lumijit.derivatives import functional
from lumijit.derivatives.giving import set_grad
from lumijit.derivatives.gradients import grad
from lumijit.derivatives.propagation import (
    ADFlag,
    ADMode,
    enqueue,
    forward_to,
    traverse,
)
from lumijit.replay.inputs import Call
from lumijit.replay.numbers import Arithmetic, Guard, is_same
from lumijit.replay.tracked_results import Tracked
from lumijit.runtime.errors import DerivativeError

Nodes = dict[int, Node]


class Recorded(Protocol):
    """A decorated function, as `decorator` makes it."""

    name: str
    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""

    def inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return what a call depends on at present."""

    def alike(self, function: Callable[..., Any]) -> Recorded:
        """Decorate a function that calls this one."""

    def explain(self) -> str:
        """Tell what was recorded."""


class Differentiated:
    """A function whose arguments are tracked, as recordings.

    `tracked` tells which leaves of its result depend on them, for calls with numbers
    that fulfil the guards of `arithmetic`.
    """

    def __init__(
        self, kernel: Recorded, tracked: Tracked, arithmetic: Arithmetic
    ) -> None:
        self.kernel = kernel
        self.arithmetic = arithmetic
        self._compute = arithmetic.compiled()
        self.tracked = tracked
        function = kernel.function
        self.pushed = kernel.alike(_pushing(function, tracked.is_result))
        self.pulled = kernel.alike(_pulling(function, tracked.is_result))

    def obstacle(self, numbers: list[Any]) -> Guard | Exception | None:
        """Return what keeps a call with some numbers from being one of these."""
        try:
            found = self._compute(numbers)
        except Exception as error:
            # The function itself says what is wrong.
            return error
        return found if isinstance(found, Guard) else None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function."""
        application = _Application(self, args, kwargs)
        with application.arrays_as(application.values):
            result = self.kernel(*args, **kwargs)
        parts = pytree.Parts((result,))
        outputs = _results(parts, self.tracked.is_result)
        nodes = application.attached(outputs)
        made = {
            id(leaf): wrap(type(leaf), node)
            for leaf, node in zip(outputs, nodes, strict=True)
        }
        return parts.together([made.get(id(leaf), leaf) for leaf in parts.leaves])[0]

    def text(self) -> list[str]:
        """Describe it, in lines."""
        found = [("forward", self.pushed), ("reverse", self.pulled)]
        texts = [(mode, kernel.explain().splitlines()[1:]) for mode, kernel in found]
        lines = ["calls a recording without derivatives, whose derivative is:"]
        for mode, own in texts:
            lines += [f"in {mode} mode: {line.strip()}" for line in own]
        return lines if len(lines) > 1 else ["calls a recording without derivatives"]


def _results(parts: pytree.Parts, is_result: Sequence[bool]) -> list[FlatArray]:
    """List the leaves of what a function returned of which derivatives are asked."""
    return list(itertools.compress(parts.leaves, is_result))


def _pulling(function: Callable[..., Any], is_result: Sequence[bool]) -> Any:
    def pulled(
        args: tuple[Any, ...], kwargs: dict[str, Any], seeds: list[FlatArray]
    ) -> None:
        """Add to the gradients of the inputs, which are variables."""
        outputs = _results(pytree.Parts((function(*args, **kwargs),)), is_result)
        set_grad(outputs, seeds)
        enqueue(ADMode.Backward, outputs)
        traverse(ADMode.Backward)

    return pulled


def _pushing(function: Callable[..., Any], is_result: Sequence[bool]) -> Any:
    def pushed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[FlatArray]:
        """Return derivatives of the results, from the gradients of the inputs."""
        outputs = _results(pytree.Parts((function(*args, **kwargs),)), is_result)
        forward_to(outputs, flags=ADFlag.ClearNone | ADFlag.AllowNoGrad)
        return [grad(leaf) for leaf in outputs]

    return pushed


class _Application:
    """One call: an operation of `derive.custom`."""

    def __init__(
        self,
        function: Differentiated,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._function = function
        self._args, self._kwargs = args, kwargs
        self._call = call = self._inputs_now()
        self._outline = (call.arguments.key, call.surroundings.key)
        # What the arrays hold, of which one may be reached in several ways.
        arrays = {id(a): k for k, a in reversed(list(enumerate(call.arrays)))}
        found = {k: call.arrays[k] for k in sorted(arrays.values())}
        tracked = [k for k, a in found.items() if vertices.is_tracked(a._node)]
        self._inputs = [wrap(type(found[k]), found[k]._node) for k in tracked]
        self.values = {k: array._node for k, array in found.items()}
        self.values |= {k: _value(self.values[k]) for k in tracked}
        self._tracked = tracked

    def attached(self, outputs: list[FlatArray]) -> list[Node]:
        """Return what results are that depend on the inputs by this operation."""
        self._outputs = outputs
        inputs, nodes = ([array._node for array in v] for v in (self._inputs, outputs))
        results = derive.attach(self, inputs, (), nodes)
        for node, sources in zip(results, self._function.tracked.sources, strict=True):
            if sources and node.vertex is not None:
                siblings.note(node.vertex, [results[k].vertex for k in sources])
        return results

    @contextlib.contextmanager
    def arrays_as(self, nodes: dict[int, Node]) -> Iterator[None]:
        """Have the arrays of the call hold other nodes, by position."""
        arrays = self._now().arrays
        before = [(arrays[k], arrays[k]._node) for k in nodes]
        try:
            for k, node in nodes.items():
                arrays[k]._rehouse(node)
            yield
        finally:
            for array, node in before:
                array._rehouse(node)

    def _inputs_now(self) -> Call:
        return self._function.kernel.inputs(self._args, self._kwargs)

    def _now(self) -> Call:
        """Return what the call would depend on now, where that is no other call."""
        now, then = self._inputs_now(), self._call
        names = [
            name
            for name, a, b in zip(
                then.number_names(), then.numbers, now.numbers, strict=False
            )
            if not is_same(a, b)
        ]
        if names or (now.arguments.key, now.surroundings.key) != self._outline:
            what = f"'{names[0]}' has another value" if names else "objects differ"
            raise DerivativeError(
                f"@kernel {self._function.kernel.name}",
                "what the function depends on has changed since the call that is "
                f"differentiated ({what})",
                "differentiate before changing it, or pass it as an argument.",
            )
        return now

    def pull(self, grads: Nodes, kept: Sequence[Node]) -> Nodes:
        """Return the derivatives by the inputs."""
        del kept
        if not _is_first_order():
            return _by_position(self._of_plain().pull(_seeds(self._outputs, grads)))
        with self._on_variables({}) as variables:
            seeds = _seeds(self._outputs, _in_memory(grads))
            self._function.pulled(self._args, self._kwargs, seeds)
        found = enumerate(variables)
        return {k: v.vertex.grad for k, v in found if v.vertex.grad is not None}

    def push(self, grads: Nodes, kept: Sequence[Node]) -> Nodes:
        """Return the derivatives of the results."""
        del kept
        if not _is_first_order():
            return _by_position(self._of_plain().push(_seeds(self._inputs, grads)))
        with self._on_variables(_in_memory(grads)):
            return _by_position(self._function.pushed(self._args, self._kwargs))

    @contextlib.contextmanager
    def _on_variables(self, grads: Nodes) -> Iterator[list[Any]]:
        """Have variables, with gradients, in place of tracked inputs."""
        with vertices.selecting(None), isolated():
            made = [evaluate.opaque(self.values[k]) for k in self._tracked]
            variables = [_value(node) for node in made]
            for k, node in enumerate(variables):
                vertices.add_variable(node)
                assert node.vertex is not None
                node.vertex.give(grads.get(k))
            with self.arrays_as(self._values_with(variables)):
                yield variables

    def _values_with(self, nodes: Sequence[Node]) -> dict[int, Node]:
        """Return what the arrays held, with other nodes for tracked ones."""
        return self.values | dict(zip(self._tracked, nodes, strict=True))

    def _of_plain(self) -> functional.Call:
        """Return the call with results whose derivatives can be differentiated."""

        def results(*arrays: FlatArray) -> list[FlatArray]:
            nodes = [array._node for array in arrays]
            with self.arrays_as(self._values_with(nodes)):
                value = self._function.kernel.function(*self._args, **self._kwargs)
            is_result = self._function.tracked.is_result
            return _results(pytree.Parts((value,)), is_result)

        name = f"@kernel {self._function.kernel.name}"
        return functional.Call(name, results, self._inputs)


def _is_first_order() -> bool:
    """Tell whether derivatives of the derivative can't be asked for."""
    return vertices.selected() is vertices.NOTHING and trace.state.scope is ROOT


def _seeds(arrays: Sequence[FlatArray], grads: Nodes) -> list[FlatArray]:
    """Return a gradient for each of some arrays: 0 where none has arrived."""
    nodes = [array._node for array in arrays]
    zeros = [trace.literal(n.type, n.type.wrap(0), n.size) for n in nodes]
    found = [grads.get(k, zero) for k, zero in enumerate(zeros)]
    return [wrap(type(a), node) for a, node in zip(arrays, found, strict=True)]


def _in_memory(grads: Nodes) -> Nodes:
    """Return gradients of which recordings don't depend on the values."""
    return {k: evaluate.opaque(node) for k, node in grads.items()}


def _by_position(arrays: Sequence[FlatArray]) -> Nodes:
    return {k: array._node for k, array in enumerate(arrays)}


def _value(node: Node) -> Node:
    """Return a node of the same contents that isn't tracked."""
    if node.buffer is None:
        return trace.detached(node)
    return trace.from_buffer(node.type, node.buffer, node.size)
