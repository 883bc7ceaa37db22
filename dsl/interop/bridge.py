"""`wrap`: functions written for one framework, called with arrays of another.

Arguments and results are converted, and each call is one operation in the derivatives
of the framework outside, which asks the one inside for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.derivatives.custom import CustomOp, custom
from lumijit.derivatives.functional import jvp, vjp
from lumijit.interop.exchange import host_jax, host_torch, package
from lumijit.pytree_walks import whole_map
from lumijit.runtime.dtypes import VALUES
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.spec import LLVM, plain_spec, require
from lumijit.type_traits import tensor_t

Arrays = list[Any]
Function = Callable[..., Any]

_OWN = ("drjit", "lumijit")
_TYPES = {t.numpy: t for t in VALUES}


class _Torch:
    """What a bridge needs of PyTorch."""

    def __init__(self) -> None:
        self.module = package("torch", "lumijit.wrap")
        self.tree_map = package("torch.utils._pytree", "lumijit.wrap").tree_map

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.module.Tensor)

    def is_float(self, value: Any) -> bool:
        return bool(value.is_floating_point())

    def given(self, array: Any) -> Any:
        return host_torch(array)

    def contents(self, value: Any) -> np.ndarray[Any, Any]:
        data: np.ndarray[Any, Any] = value.detach().cpu().contiguous().numpy()
        return data

    def vjp(self, run: Function, inputs: Arrays) -> tuple[Arrays, Function]:
        with self.module.enable_grad():
            variables = [value.detach().requires_grad_() for value in inputs]
            outputs = run(*variables)

        def pull(grads: Arrays) -> Arrays:
            pairs = [p for p in zip(outputs, grads, strict=True) if p[0].requires_grad]
            if not pairs:
                return [None] * len(inputs)
            found = self.module.autograd.grad(
                [output for output, _ in pairs],
                variables,
                [grad for _, grad in pairs],
                retain_graph=True,
                allow_unused=True,
            )
            return list(found)

        return outputs, pull

    def jvp(self, run: Function, inputs: Arrays, tangents: Arrays) -> Arrays:
        _, found = self.module.func.jvp(
            lambda *values: tuple(run(*values)), tuple(inputs), tuple(tangents)
        )
        return list(found)

    def outside(self, run: Function, inputs: Arrays) -> Arrays:
        """Call a function of ours as one operation of PyTorch."""
        framework = self

        class Operation(self.module.autograd.Function):  # type: ignore[name-defined,misc]
            @staticmethod
            def forward(ctx: Any, *values: Any) -> Any:
                ctx.count = len(values)
                ctx.save_for_forward(*values)
                outputs, ctx.pull = _own_vjp(framework, run, values)
                return tuple(outputs)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return tuple(ctx.pull(grads))

            @staticmethod
            def jvp(ctx: Any, *tangents: Any) -> Any:
                values = ctx.saved_tensors
                return tuple(_own_jvp(framework, run, values, tangents))

        return list(Operation.apply(*inputs))


class _Jax:
    """What a bridge needs of JAX."""

    def __init__(self) -> None:
        self.module = package("jax", "lumijit.wrap")
        self.tree_map = self.module.tree_util.tree_map

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.module.Array)

    def is_float(self, value: Any) -> bool:
        return bool(self.module.numpy.issubdtype(value.dtype, np.floating))

    def given(self, array: Any) -> Any:
        return host_jax(array)

    def contents(self, value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, self.module.core.Tracer):
            raise ArrayValueError(
                "lumijit.wrap",
                "the function is called while JAX traces (jax.jit), so its arguments "
                "have no values",
                "call it outside of jax.jit.",
            )
        return np.array(value)

    def vjp(self, run: Function, inputs: Arrays) -> tuple[Arrays, Function]:
        outputs, pull = self.module.vjp(lambda *values: run(*values), *inputs)
        return outputs, lambda grads: list(pull(list(grads)))

    def jvp(self, run: Function, inputs: Arrays, tangents: Arrays) -> Arrays:
        found: Arrays = self.module.jvp(run, tuple(inputs), tuple(tangents))[1]
        return found

    def outside(self, run: Function, inputs: Arrays) -> Arrays:
        """Call a function of ours as one operation of JAX."""

        @self.module.custom_vjp  # type: ignore[untyped-decorator]
        def operation(*values: Any) -> Arrays:
            return _own_vjp(self, run, values)[0]

        def ahead(*values: Any) -> tuple[Arrays, Any]:
            return operation(*values), values

        def back(values: Any, grads: Any) -> tuple[Any, ...]:
            return tuple(_own_vjp(self, run, values)[1](grads))

        operation.defvjp(ahead, back)
        found: Arrays = operation(*inputs)
        return found


_FRAMEWORKS: dict[str, Any] = {"torch": _Torch, "jax": _Jax}


def wrap(source: str | ModuleType, target: str | ModuleType) -> Callable[[Any], Any]:
    """Have a function written for one framework take and return arrays of another.

    Derivatives pass it in both: reverse mode everywhere; forward mode where the
    framework outside has it for operations of one's own (JAX hasn't). The function
    should be pure, since it may run again for its derivatives.

    Args:
        source: the framework outside of the function: "drjit" or "lumijit" for this
            one, "torch", "jax"; or the module.
        target: that inside. One of both is this one.

    Returns:
        A decorator. Arguments and results may be PyTrees; what is no array passes as it
        is. Arrays of other frameworks become tensors of `lumijit.llvm.ad` (`TensorXf`
        and the like), and any array becomes one of theirs, of the same shape.

    Raises:
        ArrayValueError: for another pair of frameworks.
        MissingPackageError: if the framework isn't installed.
    """
    names = _name(source), _name(target)
    other = names[1] if names[0] in _OWN else names[0]
    if sum(name in _OWN for name in names) != 1 or other not in _FRAMEWORKS:
        raise ArrayValueError(
            "lumijit.wrap",
            f"can't call functions of {names[1]!r} from {names[0]!r}",
            "pass 'drjit' and one of 'torch' and 'jax', in either order.",
        )
    framework = _FRAMEWORKS[other]()
    call = _call_theirs if names[0] in _OWN else _call_ours

    def decorate(function: Function) -> Function:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return call(framework, function, args, kwargs)

        return run

    return decorate


def _name(framework: str | ModuleType) -> str:
    name = getattr(framework, "__name__", framework)
    if not isinstance(name, str):
        raise ArrayTypeError(
            "lumijit.wrap",
            f"a framework is a name or a module (got {type(framework).__name__})",
            "pass 'drjit', 'torch' or 'jax'.",
        )
    return name


class _Leaves:
    """The arrays of a PyTree that derivatives flow through, and what is around them."""

    def __init__(self, map_tree: Function, tree: Any, is_leaf: Function) -> None:
        self._map = map_tree
        self._tree = tree
        self._is_leaf = is_leaf
        self.found: Arrays = []
        self._each(lambda leaf: self.found.append(leaf))

    def _each(self, change: Function) -> Any:
        return self._map(lambda v: change(v) if self._is_leaf(v) else v, self._tree)

    def filled(self, values: Sequence[Any]) -> Any:
        """Return the PyTree with other arrays."""
        rest = iter(values)
        return self._each(lambda leaf: next(rest))


def _tensor(contents: np.ndarray[Any, Any]) -> Any:
    """Return the contents of a foreign array as a tensor."""
    dtype = _TYPES.get(contents.dtype)
    if dtype is None:
        raise ArrayTypeError(
            "lumijit.wrap",
            f"there are no arrays of type {contents.dtype}",
            "convert it to floats, integers or masks inside.",
        )
    flat = plain_spec(LLVM, True, dtype)
    return tensor_t(require(flat, "lumijit.wrap"))(contents)


def _is_own(value: Any) -> bool:
    return isinstance(value, ArrayBase)


def _is_own_float(value: Any) -> bool:
    return bool(value._spec.dtype.is_float)


# Functions of ours, called with foreign arrays


def _call_ours(framework: Any, function: Function, args: Any, kwargs: Any) -> Any:
    given = _Leaves(framework.tree_map, (args, kwargs), framework.is_array)
    results: list[_Leaves] = []

    def run(*floats: Any) -> Arrays:
        rest = iter(floats)
        tensors = [
            next(rest) if framework.is_float(v) else _tensor(framework.contents(v))
            for v in given.found
        ]
        positional, named = given.filled(tensors)
        found = _Leaves(whole_map, function(*positional, **named), _is_own)
        results[:] = [found]
        return [value for value in found.found if _is_own_float(value)]

    floats = [value for value in given.found if framework.is_float(value)]
    if floats:
        outputs = framework.outside(run, floats)
    else:
        outputs = [framework.given(value) for value in run()]
    rest = iter(outputs)
    (found,) = results
    return found.filled(
        [next(rest) if _is_own_float(v) else framework.given(v) for v in found.found]
    )


def _own_vjp(
    framework: Any, run: Function, values: Sequence[Any]
) -> tuple[Arrays, Function]:
    """Return foreign results of a function of ours, and what pulls gradients back."""
    primals = [_tensor(framework.contents(value)) for value in values]
    outputs, pull = vjp(run, *primals)

    def back(grads: Sequence[Any]) -> Arrays:
        pairs = zip(outputs, grads, strict=True)
        seeds = [type(output)(framework.contents(grad)) for output, grad in pairs]
        found = pull(seeds)
        return [framework.given(grad) for grad in found]

    return [framework.given(output) for output in outputs], back


def _own_jvp(
    framework: Any, run: Function, values: Sequence[Any], tangents: Sequence[Any]
) -> Arrays:
    primals = [_tensor(framework.contents(value)) for value in values]
    along = [
        primal * 0 if tangent is None else _tensor(framework.contents(tangent))
        for primal, tangent in zip(primals, tangents, strict=True)
    ]
    _, found = jvp(run, tuple(primals), tuple(along))
    return [framework.given(tangent) for tangent in found]


# Functions of other frameworks, called with arrays of ours


def _call_theirs(framework: Any, function: Function, args: Any, kwargs: Any) -> Any:
    given = _Leaves(whole_map, (args, kwargs), _is_own)
    results: list[_Leaves] = []

    class Operation(CustomOp):
        def eval(self, arrays: Arrays) -> Arrays:
            self.arrays = arrays
            inside = [framework.given(array) for array in arrays]
            self.floats = [v for v in inside if framework.is_float(v)]

            def run(*floats: Any) -> Arrays:
                rest = iter(floats)
                values = [next(rest) if framework.is_float(v) else v for v in inside]
                positional, named = given.filled(values)
                made = function(*positional, **named)
                self.found = _Leaves(framework.tree_map, made, framework.is_array)
                return [v for v in self.found.found if framework.is_float(v)]

            self.run = run
            outputs = run(*self.floats)
            results[:] = [self.found]
            return [_tensor(framework.contents(output)) for output in outputs]

        def forward(self) -> None:
            grads = [g for g in self.grad_in("arrays") if _is_own_float(g)]
            tangents = [framework.given(grad) for grad in grads]
            found = framework.jvp(self.run, self.floats, tangents)
            self.set_grad_out([_tensor(framework.contents(v)) for v in found])

        def backward(self) -> None:
            _, pull = framework.vjp(self.run, self.floats)
            found = iter(pull([framework.given(grad) for grad in self.grad_out()]))
            grads = []
            for array in self.arrays:
                grad = next(found) if _is_own_float(array) else None
                is_none = grad is None
                grads.append(0 if is_none else type(array)(framework.contents(grad)))
            self.set_grad_in("arrays", grads)

        def name(self) -> str:
            return getattr(function, "__name__", "wrap")

    rest = iter(custom(Operation, given.found))
    (found,) = results
    return found.filled(
        [
            next(rest) if framework.is_float(v) else _tensor(framework.contents(v))
            for v in found.found
        ]
    )
