"""What `wrap` needs of other frameworks, and functions of ours as their operations.

Which arrays go in and out is up to `bridge`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lumijit.derivatives.functional import jvp, vjp
from lumijit.derivatives.giving import set_grad
from lumijit.derivatives.gradients import grad_enabled
from lumijit.derivatives.propagation import ADFlag, ADMode, enqueue, traverse
from lumijit.interop.exchange import host_jax, host_torch, package
from lumijit.runtime.dtypes import VALUES
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.spec import LLVM, plain_spec, require
from lumijit.type_traits import tensor_t

Arrays = list[Any]
Function = Callable[..., Any]

_TYPES = {t.numpy: t for t in VALUES}


def as_tensor(contents: np.ndarray[Any, Any]) -> Any:
    """Return the contents of a foreign array as a tensor."""
    dtype = _TYPES.get(contents.dtype)
    if dtype is None:
        raise _no_type(contents.dtype)
    flat = plain_spec(LLVM, True, dtype)
    return tensor_t(require(flat, "lumijit.wrap"))(contents)


def _no_type(dtype: Any) -> ArrayTypeError:
    return ArrayTypeError(
        "lumijit.wrap",
        f"there are no arrays of type {dtype}",
        "convert it to floats, integers or masks of 8 to 64 bits.",
    )


class Torch:
    """What a bridge needs of PyTorch."""

    def __init__(self) -> None:
        self.module = package("torch", "lumijit.wrap")
        self.tree_map = package("torch.utils._pytree", "lumijit.wrap").tree_map
        self._operation = _torch_operation(self)

    def is_array(self, value: Any) -> bool:
        """Tell whether a value is one of its arrays."""
        return isinstance(value, self.module.Tensor)

    def is_float(self, value: Any) -> bool:
        """Tell whether an array of its own has floats."""
        return bool(value.is_floating_point())

    def given(self, array: Any) -> Any:
        """Return one of its arrays for one of ours."""
        return host_torch(array)

    def contents(self, value: Any) -> np.ndarray[Any, Any]:
        """Return the contents of one of its arrays."""
        data: np.ndarray[Any, Any]
        try:
            data = value.detach().cpu().contiguous().numpy()
        except TypeError:
            raise _no_type(value.dtype) from None
        return data

    def reaches_variables(self, outputs: Arrays) -> bool:
        """Tell whether results depend on more than the arguments, which aren't."""
        return any(output.requires_grad for output in outputs)

    def vjp(self, run: Function, inputs: Arrays) -> tuple[Arrays, Function]:
        """Return results of its function, and what pulls gradients back."""
        with self.module.inference_mode(False), self.module.enable_grad():
            variables = [
                (v.clone() if v.is_inference() else v.detach()).requires_grad_()
                for v in inputs
            ]
            outputs = run(*variables)

        def pull(grads: Arrays) -> Arrays:
            pairs = [p for p in zip(outputs, grads, strict=True) if p[0].requires_grad]
            if not pairs:
                return [None] * len(inputs)
            for variable in variables:
                variable.grad = None
            # Other variables that the function uses, such as weights, get theirs.
            self.module.autograd.backward(
                [output for output, _ in pairs],
                [grad for _, grad in pairs],
                retain_graph=True,
            )
            return [variable.grad for variable in variables]

        return outputs, pull

    def jvp(self, run: Function, inputs: Arrays, tangents: Arrays) -> Arrays:
        """Return the derivatives of results along tangents."""
        _, found = self.module.func.jvp(
            lambda *values: tuple(run(*values)), tuple(inputs), tuple(tangents)
        )
        return list(found)

    def outside(self, run: Function, inputs: Arrays) -> Arrays:
        """Call a function of ours as one operation of PyTorch."""
        return list(self._operation.apply(run, *inputs))


def _torch_operation(framework: Torch) -> Any:
    """Return PyTorch's operation for functions of ours: its first argument."""
    torch = framework.module

    class Operation(torch.autograd.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, run: Function, *values: Any) -> Any:
            ctx.run = run
            ctx.save_for_backward(*values)
            ctx.save_for_forward(*values)
            outputs, ctx.pull = _own_vjp(framework, run, values)
            return tuple(outputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = ctx.pull(grads)
            if torch.is_grad_enabled():
                # Derivatives of these may be asked for.
                values = ctx.saved_tensors
                pulled = _pulled(ctx.run, len(values))
                found = Operation.apply(pulled, *values, *grads)
            return None, *found

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            return tuple(_own_jvp(framework, ctx.run, ctx.saved_tensors, tangents))

    return Operation


class Jax:
    """What a bridge needs of JAX."""

    def __init__(self) -> None:
        self.module = package("jax", "lumijit.wrap")
        self.tree_map = self.module.tree_util.tree_map

    def is_array(self, value: Any) -> bool:
        """Tell whether a value is one of its arrays."""
        return isinstance(value, self.module.Array)

    def is_float(self, value: Any) -> bool:
        """Tell whether an array of its own has floats."""
        return bool(self.module.numpy.issubdtype(value.dtype, np.floating))

    def given(self, array: Any) -> Any:
        """Return one of its arrays for one of ours."""
        return host_jax(array)

    def contents(self, value: Any) -> np.ndarray[Any, Any]:
        """Return the contents of one of its arrays."""
        if isinstance(value, self.module.core.Tracer):
            raise ArrayValueError(
                "lumijit.wrap",
                "the function is called while JAX traces (jax.jit, jax.vmap and the "
                "like), so its arguments have no values",
                "call it outside of these.",
            )
        return np.array(value)

    def reaches_variables(self, outputs: Arrays) -> bool:
        """Tell whether results depend on more than the arguments: never in JAX."""
        del outputs
        return False

    def vjp(self, run: Function, inputs: Arrays) -> tuple[Arrays, Function]:
        """Return results of its function, and what pulls gradients back."""

        def pull(grads: Arrays) -> Arrays:
            # (Many results are never differentiated, and running again is exact.)
            _, pulled = self.module.vjp(lambda *values: run(*values), *inputs)
            # (Of complex numbers, JAX's are the conjugates of ours and PyTorch's.)
            return [self.module.numpy.conj(grad) for grad in pulled(list(grads))]

        return run(*inputs), pull

    def jvp(self, run: Function, inputs: Arrays, tangents: Arrays) -> Arrays:
        """Return the derivatives of results along tangents."""
        found: Arrays = self.module.jvp(run, tuple(inputs), tuple(tangents))[1]
        return found

    def outside(
        self, run: Function, inputs: Arrays, once: Function | None = None
    ) -> Arrays:
        """Call a function of ours as one operation of JAX.

        `once` is called in its place for the values, `run` for derivatives.
        """

        @self.module.custom_vjp  # type: ignore[untyped-decorator]
        def operation(*values: Any) -> Arrays:
            tensors = [as_tensor(self.contents(value)) for value in values]
            return [self.given(output) for output in (once or run)(*tensors)]

        def ahead(*values: Any) -> tuple[Arrays, Any]:
            return operation(*values), values

        def back(values: Any, grads: Any) -> tuple[Any, ...]:
            count = len(values)
            pulled, once = _pulled(run, count), _pulled(run, count, _given)
            return tuple(self.outside(pulled, [*values, *grads], once))

        operation.defvjp(ahead, back)
        found: Arrays = operation(*inputs)
        return found


def _own_vjp(
    framework: Any, run: Function, values: Sequence[Any]
) -> tuple[Arrays, Function]:
    """Return foreign results of a function of ours, and what pulls gradients back."""
    primals = [as_tensor(framework.contents(value)) for value in values]
    outputs, pull = vjp(run, *primals)

    def back(grads: Sequence[Any]) -> Arrays:
        found = [framework.contents(grad) for grad in grads]
        return [framework.given(grad) for grad in pull(_given(outputs, found))]

    return [framework.given(output) for output in outputs], back


def _given(outputs: Arrays, grads: Sequence[Any]) -> Arrays:
    """Return gradients of results, after other tracked arrays were given theirs.

    Those are what the results depend on besides the arguments.
    """
    seeds = _seeds(outputs, grads)
    if grad_enabled(outputs):
        set_grad(outputs, seeds)
        enqueue(ADMode.Backward, outputs)
        traverse(ADMode.Backward, ADFlag.ClearVertices)
    return seeds


def _seeds(outputs: Arrays, grads: Sequence[Any]) -> Arrays:
    return [type(output)(grad) for output, grad in zip(outputs, grads, strict=True)]


def _pulled(run: Function, count: int, seeds: Function = _seeds) -> Function:
    """Return what pulls gradients back as a function, to be differentiated itself.

    It takes so many arguments, then the gradients of results.
    """

    def pulled(*values: Any) -> Arrays:
        outputs, pull = vjp(run, *values[:count])
        return list(pull(seeds(outputs, values[count:])))

    return pulled


def _own_jvp(
    framework: Any, run: Function, values: Sequence[Any], tangents: Sequence[Any]
) -> Arrays:
    primals = [as_tensor(framework.contents(value)) for value in values]
    along = [
        primal * 0 if tangent is None else as_tensor(framework.contents(tangent))
        for primal, tangent in zip(primals, tangents, strict=True)
    ]
    _, found = jvp(run, tuple(primals), tuple(along))
    return [framework.given(tangent) for tangent in found]
