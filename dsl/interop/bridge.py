"""`wrap`: functions written for one framework, called with arrays of another.

Arguments and results are converted, and each call is one operation in the derivatives
of the framework outside, which asks the one inside for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import Any

from lumijit.base import ArrayBase
from lumijit.derivatives.custom import CustomOp, custom
from lumijit.derivatives.gradients import enable_grad, grad_enabled
from lumijit.interop.frameworks import Arrays, Function, Jax, Torch, as_tensor
from lumijit.pytree_walks import whole_map
from lumijit.runtime.dtypes import FLOAT32
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.spec import LLVM, plain_spec, require

_OWN = ("drjit", "lumijit")
_FRAMEWORKS: dict[str, Any] = {"torch": Torch, "jax": Jax}


def wrap(source: str | ModuleType, target: str | ModuleType) -> Callable[[Any], Any]:
    """Have a function written for one framework take and return arrays of another.

    Derivatives pass it in both: reverse mode everywhere; forward mode where the
    framework outside has it for operations of one's own (JAX hasn't). In reverse mode,
    tracked arrays that the function uses besides its arguments get gradients, too. It
    should be pure, since it may run again for its derivatives (in reverse mode through
    PyTorch, its operations are those of the call).

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


def _map_of(framework: Any) -> Function:
    """Return what changes leaves of PyTrees of ours, and of a framework's in these."""
    map_theirs = framework.tree_map

    def map_tree(change: Function, tree: Any) -> Any:
        return whole_map(partial(map_theirs, change), tree)

    return map_tree


def _is_own(value: Any) -> bool:
    return isinstance(value, ArrayBase)


def _is_own_float(value: Any) -> bool:
    return bool(value._spec.dtype.is_float)


# Functions of ours, called with foreign arrays


def _call_ours(framework: Any, function: Function, args: Any, kwargs: Any) -> Any:
    given = _Leaves(_map_of(framework), (args, kwargs), framework.is_array)
    results: list[_Leaves] = []

    def run(*floats: Any) -> Arrays:
        rest = iter(floats)
        tensors = [
            next(rest) if framework.is_float(v) else as_tensor(framework.contents(v))
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


# Functions of other frameworks, called with arrays of ours


class _Theirs:
    """A call of a function of theirs: from arrays of ours to those of results."""

    def __init__(
        self, framework: Any, function: Function, args: Any, kwargs: Any
    ) -> None:
        self.framework = framework
        self.name = getattr(function, "__name__", "wrap")
        self.given = _Leaves(whole_map, (args, kwargs), _is_own)
        # Of the first call, the only one unless the framework calls it again.
        self.results: list[_Leaves] = []
        self.is_tracked = grad_enabled(self.given.found)
        self._function = function

    def floats(self, arrays: Arrays) -> Arrays:
        """Return what stands for the arrays of floats in their framework."""
        return [self.framework.given(array) for array in arrays if _is_own_float(array)]

    def run(self, arrays: Arrays, floats: Sequence[Any]) -> Arrays:
        """Call the function, with others in place of floats; return its own floats."""
        framework = self.framework
        rest = iter(floats)
        values = [
            next(rest) if _is_own_float(array) else framework.given(array)
            for array in arrays
        ]
        positional, named = self.given.filled(values)
        made = self._function(*positional, **named)
        found = _Leaves(_map_of(framework), made, framework.is_array)
        self.results = self.results or [found]
        return [v for v in found.found if framework.is_float(v)]

    def function(self, arrays: Arrays) -> Function:
        """Return the function from floats among the arrays to those of results."""
        return lambda *floats: self.run(arrays, floats)


class _Operation(CustomOp):
    """A call of a function of theirs, as an operation of ours."""

    def eval(self, arrays: Arrays, call: _Theirs) -> Arrays:
        self.arrays, self.call = arrays, call
        framework, floats = call.framework, call.floats(arrays)
        run = call.function(arrays)
        if not call.is_tracked:
            outputs = run(*floats)
            call.is_tracked = framework.reaches_variables(outputs)
            if call.is_tracked:
                # These get gradients even if no argument is tracked.
                call.results.clear()
                variable = require(plain_spec(LLVM, True, FLOAT32), "lumijit.wrap")(0)
                enable_grad(variable)
                self.add_input(variable)
        if call.is_tracked:
            outputs, self.pull = framework.vjp(run, floats)
        return [as_tensor(framework.contents(output)) for output in outputs]

    def forward(self) -> None:
        call, framework = self.call, self.call.framework
        tangents = call.floats(self.grad_in("arrays"))
        floats = call.floats(self.arrays)
        found = framework.jvp(call.function(self.arrays), floats, tangents)
        self.set_grad_out([as_tensor(framework.contents(v)) for v in found])

    def backward(self) -> None:
        framework = self.call.framework
        found = iter(self.pull([framework.given(grad) for grad in self.grad_out()]))
        grads = []
        for array in self.arrays:
            grad = next(found) if _is_own_float(array) else None
            is_none = grad is None
            grads.append(0 if is_none else type(array)(framework.contents(grad)))
        self.set_grad_in("arrays", grads)

    def name(self) -> str:
        return self.call.name


def _call_theirs(framework: Any, function: Function, args: Any, kwargs: Any) -> Any:
    call = _Theirs(framework, function, args, kwargs)
    rest = iter(custom(_Operation, call.given.found, call))
    (found,) = call.results
    return found.filled(
        [
            next(rest) if framework.is_float(v) else as_tensor(framework.contents(v))
            for v in found.found
        ]
    )
