"""Operations whose derivatives a program defines itself: `CustomOp`, `custom`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from lumijit.arrays import FlatArray
from lumijit.compiler.derive import custom as derive
from lumijit.compiler.derive.isolation import isolated
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.derivatives.giving import spread
from lumijit.derivatives.gradients import detach, tracked_leaves, with_same_nodes
from lumijit.derivatives.kept import (
    KeptArray,
    of_the_region,
    stand_in,
    standing_for,
    with_nodes,
)
from lumijit.functions.evaluation import flat_leaves
from lumijit.pytree_walks import flat_map
from lumijit.runtime.errors import ArrayTypeError, DerivativeError, SizeError

# What functions here return isn't all that they do (see `syntax.meanings`).
HAS_EFFECTS = True


class CustomOp:
    """Base class of operations with derivatives of their own.

    A subclass defines `eval`, and `forward` and `backward` for the modes in which it is
    to be differentiated; `custom` applies it. What `eval` keeps in attributes can be
    used in these. Implicit inputs (`add_input`) among it have their gradients in
    `forward`, and can be given some in `backward` (`accum_grad`, `backward_from`).

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> class Square(dr.CustomOp):
    ...     def eval(self, x):
    ...         self.x = x
    ...         return x * x
    ...     def forward(self):
    ...         self.set_grad_out(2 * self.x * self.grad_in("x"))
    ...     def backward(self):
    ...         self.set_grad_in("x", 2 * self.x * self.grad_out())
    >>> x = Float(3)
    >>> dr.enable_grad(x)
    >>> dr.backward(dr.custom(Square, x))
    >>> x.grad
    [6]
    """

    def __init__(self) -> None:
        self._implicit: tuple[list[Any], list[Any]] = ([], [])
        self._run: _Run | None = None

    def eval(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the results from arguments that aren't tracked."""
        raise _missing(self, "eval")

    def forward(self) -> None:
        """Compute derivatives of the results: `grad_in`, then `set_grad_out`."""
        raise _missing(self, "forward")

    def backward(self) -> None:
        """Compute derivatives by the arguments: `grad_out`, then `set_grad_in`."""
        raise _missing(self, "backward")

    def name(self) -> str:
        """Return the name by which diagrams and errors show the operation."""
        return type(self).__name__

    def grad_out(self) -> Any:
        """Return the gradient of the results, of their structure; in `backward`."""
        return self._current("grad_out").grad_out()

    def set_grad_out(self, value: Any, /) -> None:
        """Add to the gradient of the results; in `forward`."""
        self._current("set_grad_out").set_grad_out(value)

    def grad_in(self, name: str | int, /) -> Any:
        """Return the gradient of an argument, by name or position; in `forward`."""
        return self._current("grad_in").grad_in(name)

    def set_grad_in(self, name: str | int, value: Any, /) -> None:
        """Add to the gradient of an argument, by name or position; in `backward`."""
        self._current("set_grad_in").set_grad_in(name, value)

    def add_input(self, value: Any, /) -> None:
        """Say, in `eval`, that the results depend on a value that is no argument."""
        self._implicit[0].append(value)

    def add_output(self, value: Any, /) -> None:
        """Say, in `eval`, that a value depends on the arguments that is no result."""
        self._implicit[1].append(value)

    def _current(self, function: str) -> _Run:
        if self._run is None:
            raise DerivativeError(
                f"{self.name()}.{function}",
                "there are no gradients outside of forward() and backward()",
                "call it in one of these.",
            )
        return self._run


def _missing(op: CustomOp, function: str) -> DerivativeError:
    name = op.name()
    why = "isn't defined" if function == "eval" else "has no derivative in this mode"
    return DerivativeError(
        f"{name}.{function}",
        f"the operation {name!r} {why}",
        f"define the method {function!r}.",
    )


class _Run:
    """The gradients of one call of `forward` or `backward`."""

    def __init__(
        self, operation: _Operation, before: dict[int, Node], is_forward: bool
    ) -> None:
        self._operation = operation
        self._before = before
        self._is_forward = is_forward
        self.after: dict[int, Node] = {}
        self.is_set = False

    def grad_out(self) -> Any:
        """Return the gradients of the results."""
        self._check("grad_out", False)
        return _gradients(self._operation.result, self._operation.outputs, self._before)

    def grad_in(self, name: str | int) -> Any:
        """Return the gradients of an argument."""
        self._check("grad_in", True)
        argument = self._operation.argument(name)
        return _gradients(argument, self._operation.inputs, self._before)

    def set_grad_out(self, value: Any) -> None:
        """Add to the gradients of the results."""
        self._check("set_grad_out", True)
        self._add(self._operation.result, value, self._operation.outputs)

    def set_grad_in(self, name: str | int, value: Any) -> None:
        """Add to the gradients of an argument."""
        self._check("set_grad_in", False)
        self._add(self._operation.argument(name), value, self._operation.inputs)

    def _check(self, function: str, is_forward: bool) -> None:
        if self._is_forward is not is_forward:
            mode = "forward" if is_forward else "backward"
            raise DerivativeError(
                f"CustomOp.{function}",
                f"it can be used in {mode}() only",
                "use grad_in and set_grad_out in forward(), grad_out and set_grad_in "
                "in backward().",
            )

    def _add(self, target: Any, value: Any, known: dict[int, int]) -> None:
        self.is_set = True
        name = self._operation.op.name()
        for leaf, gradient in spread(name, target, value, lambda _: True):
            position = known.get(id(leaf))
            if position is not None:
                self._check_size(name, len(leaf), gradient._node.size)
                self.give(position, gradient._node)

    def _check_size(self, name: str, expected: int, size: int) -> None:
        if trace.state.scope is ROOT and expected != 1 and size not in (1, expected):
            what = "a result" if self._is_forward else "an argument"
            wanted = "out" if self._is_forward else "in"
            raise SizeError(
                f"{name}: set_grad_{wanted}",
                f"the gradient has {size} entries, {what} of eval() {expected}",
                "pass a gradient of the same size, or of one entry.",
            )

    def give(self, position: int, gradient: Node) -> None:
        """Add to the gradient of an input or output."""
        self.is_set = True
        node = trace.detached(gradient)
        before = self.after.get(position)
        self.after[position] = (
            node if before is None else trace.emit2(ADD, before, node)
        )


def _gradients(value: Any, known: dict[int, int], found: dict[int, Node]) -> Any:
    """Return a PyTree with gradients in place of its arrays."""

    def gradient(leaf: Any) -> Any:
        if not isinstance(leaf, FlatArray):
            return 0.0 if isinstance(leaf, (int, float)) else leaf
        node = found.get(known.get(id(leaf), -1))
        if node is None:
            dtype = leaf._spec.dtype
            node = trace.literal(dtype, dtype.wrap(0), len(leaf))
        return wrap(type(leaf), node)

    return flat_map(gradient, value)


_SIGNATURES: WeakKeyDictionary[Any, inspect.Signature] = WeakKeyDictionary()


def _signature(method: Any) -> inspect.Signature:
    """Return a method's signature, which takes a while to find."""
    function = getattr(method, "__func__", None)
    found = None if function is None else _SIGNATURES.get(function)
    if found is None:
        found = inspect.signature(method)
        if function is not None:
            _SIGNATURES[function] = found
    return found


class _Operation:
    """One application of a `CustomOp`: arguments, results, what it has kept."""

    def __init__(self, op: CustomOp, args: Any, kwargs: Any) -> None:
        self.op = op
        self._args = _signature(op.eval).bind(*args, **kwargs)
        self._args.apply_defaults()
        given = self._args.arguments
        inner = {k: detach(v) for k, v in given.items()}
        # Other objects, as users may change theirs, which gradients are told by.
        given.update({k: with_same_nodes(v) for k, v in given.items()})
        bound = inspect.BoundArguments(self._args.signature, inner)
        self.result = detach(op.eval(*bound.args, **bound.kwargs))
        implicit, extra = op._implicit
        found = list(tracked_leaves(dict(given), implicit))
        self.inputs = {id(leaf): k for k, leaf in enumerate(found)}
        outputs = list(flat_leaves([self.result, extra]))
        self.outputs = {id(leaf): k for k, leaf in enumerate(outputs)}
        own = {k: v for k, v in vars(op).items() if k not in _NO_ATTRIBUTES}
        self._kept = [KeptArray(leaf) for leaf in flat_leaves(own)]
        self._reached = [KeptArray(leaf) for leaf in of_the_region(op, self._kept)]
        self._arrays = found

    def results(self) -> Any:
        """Return what the user gets.

        An operation holds none of these nodes, as they hold it.
        """
        extra = self.op._implicit[1]
        outputs = list(flat_leaves([self.result, extra]))
        self._check_elements()
        nodes = derive.attach(
            self,
            [leaf._node for leaf in self._arrays],
            [known.node for known in (*self._kept, *self._reached)],
            [leaf._node for leaf in outputs],
            self._second_order,
        )
        made = {id(leaf): node for leaf, node in zip(outputs, nodes, strict=True)}
        for leaf in flat_leaves(extra):
            leaf._become(made[id(leaf)])
        # The results proper are other objects, as users may change theirs.
        return with_nodes(self.result, made)

    def _check_elements(self) -> None:
        """Refuse whole arrays as inputs in a region, where each element has its own."""
        width = trace.state.scope.width
        for leaf in self._arrays if width > 1 else ():
            if leaf._node.vertex is not None and leaf._node.size not in (1, width):
                raise SizeError(
                    self.op.name(),
                    f"an array with {leaf._node.size} entries is an argument, in a "
                    f"symbolic loop, branch or call of {width} elements, each of which "
                    "would have a gradient by the whole of it",
                    "pass the entries that elements need (lumijit.gather), use the "
                    "operation outside of the construct, or use evaluated mode.",
                )

    def argument(self, name: str | int) -> Any:
        """Return an argument by name, or one of `*args` by position."""
        arguments = self._args.arguments
        if isinstance(name, str) and name in arguments:
            return arguments[name]
        if isinstance(name, int):
            for key, parameter in self._args.signature.parameters.items():
                rest = arguments[key]
                is_rest = parameter.kind is inspect.Parameter.VAR_POSITIONAL
                if is_rest and name < len(rest):
                    return rest[name]
        for key, parameter in self._args.signature.parameters.items():
            is_rest = parameter.kind is inspect.Parameter.VAR_KEYWORD
            if is_rest and name in arguments[key]:
                return arguments[key][name]
        raise ArrayTypeError(
            self.op.name(),
            f"eval() has no argument {name!r} (it has {', '.join(arguments)})",
            "pass the name of a parameter, or a position among *args.",
        )

    def pull(self, grads: dict[int, Node], kept: Sequence[Node]) -> dict[int, Node]:
        """Have the derivatives by the inputs computed."""
        return self._run(grads, kept, False)

    def push(self, grads: dict[int, Node], kept: Sequence[Node]) -> dict[int, Node]:
        """Have the derivatives of the outputs computed."""
        return self._run(grads, kept, True)

    def _run(
        self, grads: dict[int, Node], kept: Sequence[Node], is_forward: bool
    ) -> dict[int, Node]:
        op, variables = self._with_kept(kept, grads)
        reached = zip(self._reached, kept[len(self._kept) :], strict=True)
        run = op._run = _Run(self, grads, is_forward)
        try:
            with (
                vertices.selecting(None),
                isolated(is_reached=is_forward) as isolation,
                standing_for({known.leaf: node for known, node in reached}),
            ):
                if is_forward:
                    op.forward()
                else:
                    op.backward()
        finally:
            op._run = None
        if not is_forward:
            for position, variable in variables.items():
                if variable.vertex.grad is not None:
                    run.give(position, variable.vertex.grad)
        has_given = isolation is not None and isolation.has_given
        if not run.is_set and self._arrays and not has_given:
            self._check_set(op, is_forward)
        return run.after

    def _second_order(self) -> DerivativeError:
        """Word the error for being differentiated twice: what `eval` keeps isn't
        tracked.
        """
        name = self.op.name()
        return DerivativeError(
            name,
            "the derivative is to be differentiated itself (as for second ones), and "
            f"how that of the custom operation {name!r} depends on its arguments isn't "
            "known",
            "compute it without 'custom' or 'wrap' where second derivatives are "
            "wanted, or detach its first ones.",
        )

    def _check_set(self, op: CustomOp, is_forward: bool) -> None:
        """Refuse a derivative that nobody has given; implicit ones may be all."""
        if any(op._implicit):
            return
        mode, wanted = ("forward", "out") if is_forward else ("backward", "in")
        raise DerivativeError(
            f"{op.name()}.{mode}",
            f"it has set no gradient (set_grad_{wanted} wasn't called)",
            f"call self.set_grad_{wanted}, with 0 if there is no dependence.",
        )

    def _with_kept(
        self, kept: Sequence[Node], grads: dict[int, Node]
    ) -> tuple[CustomOp, dict[int, Node]]:
        """Return the operation with what stands for the arrays it has kept.

        These are others where the derivative of a region repeats its code. There, and
        where the program has changed one since, variables stand for implicit inputs:
        they have and get the gradients. They are returned by position, too.
        """
        nodes: dict[int, Node] = {}
        variables: dict[int, Node] = {}
        for known, node in zip(self._kept, kept, strict=False):
            key = id(known.leaf)
            position = self.inputs.get(key)
            is_input = position is not None
            if known.is_current(node) and not (is_input and trace.state.scope != ROOT):
                continue
            if position is not None:
                node = variables[position] = stand_in(node, grads)
                node.vertex.give(grads.get(position))
            nodes[key] = node
        if not nodes:
            return self.op, variables
        op = copy.copy(self.op)
        for name, value in vars(self.op).items():
            if name not in _NO_ATTRIBUTES:
                setattr(op, name, with_nodes(value, nodes))
        return op, variables


# Fields of operations that programs know nothing of.
_NO_ATTRIBUTES = frozenset(vars(CustomOp()))


def custom(cls: type[CustomOp], /, *args: Any, **kwargs: Any) -> Any:
    """Apply an operation that defines its own derivatives.

    Args:
        cls: subclass of `CustomOp`.
        *args: arguments of its `eval`, which gets them detached.
        **kwargs: likewise, by name.

    Returns:
        What `eval` returns, tracked if an argument is, or an implicit input.

    Raises:
        ArrayTypeError: if `cls` is no such class.
        DerivativeError: in a traversal, if the class doesn't define its mode or sets
            no gradient.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> class Identity(dr.CustomOp):
    ...     def eval(self, x):
    ...         return x
    >>> dr.custom(Identity, Float(1, 2))
    [1, 2]
    """
    if not (isinstance(cls, type) and issubclass(cls, CustomOp)):
        raise ArrayTypeError(
            "lumijit.custom",
            f"the first argument is {cls!r}",
            "pass a subclass of lumijit.CustomOp.",
        )
    op = cls.__new__(cls)
    CustomOp.__init__(op)
    op.__init__()  # type: ignore[misc]
    return _Operation(op, args, kwargs).results()
