"""`switch` and `dispatch`: calls of functions chosen per element.

Owns the interface, the choice of mode and the arguments. Which elements run which
function is told by `callees`, the two ways to run them are in `calls_symbolic` and
`calls_evaluated`, and what they return is joined by `results`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lumijit import traits, type_traits
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.record import checks
from lumijit.control import calls_evaluated, calls_symbolic
from lumijit.control.callees import (
    Callee,
    called,
    distinct,
    index_node,
    of_instances,
    of_object,
    parameters_of,
    scalar_index,
)
from lumijit.control.invocation import Invocation
from lumijit.control.modes import mode_by_flag, refuse_in_region
from lumijit.control.recursion import run_call
from lumijit.control.state import NUMBERS, is_array
from lumijit.functions.likeness import zeros_like
from lumijit.pytree_walks import flat_map
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.runtime.tracebacks import hides_frames


@hides_frames
def switch(
    index: Any,
    targets: Sequence[Callable[..., Any]],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return `targets[index](*args, **kwargs)`, per element.

    Every distinct callable is called at most once, whatever the number of
    elements. In symbolic mode all of them are traced into the kernel. In evaluated
    mode a callable gets the arrays of the elements that select it; one that no
    element selects isn't called. (If that goes for all, the first is called with
    empty arrays and without effects, which tells the types of the results.)

    A Bool array given as the last positional argument or as keyword `active` is a
    mask: elements where it isn't set run nothing and return 0. So do elements whose
    index is out of range. The callables get True in its place. Where the index is a
    Python int, the mask is a bool, as `active` or for the last parameter if that is
    called so; there, the callable gets it as it is, to pass it on.

    Args:
        index: a Python int, or an integer array (converted to UInt32).
        targets: the callables; they return PyTrees of the same types.
        args: positional arguments for the callables; arrays and PyTrees of arrays.
        mode: "symbolic", "evaluated", or None to choose by the type of the index
            and flag SymbolicCalls.
        label: name of the call, for messages and the generated code.
        kwargs: keyword arguments for the callables.

    Returns:
        What the callables return, element by element; a Python number as an array.

    Raises:
        ArrayIndexError: a Python int is out of range.
        ArrayTypeError: the index is no integer, or a target no callable.
        StateError: the callables return incompatible values.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> dr.switch(UInt(0, 0, 1, 1), [lambda x: x, lambda x: x * 10], UInt(1, 2, 3, 4))
    [1, 2, 30, 40]
    """
    name = label or "switch"
    _check_mode(mode, name)
    callees = distinct(targets, name)
    if trace.state.lane is not None and isinstance(index, ArrayBase):
        active, given = _without_mask(args, kwargs)
        position = int(index)
        if 0 <= position < len(targets) and trace.state.lane.known(active).attr:
            chosen = Callee(targets[position], [position])
            return called(chosen, name, *given)
    if not isinstance(index, ArrayBase):
        position = scalar_index(index, len(targets), name)
        return _called(Callee(targets[position], [position]), name, args, kwargs)
    if not callees:
        raise ArrayValueError(
            name, "there are no targets", "pass at least one callable."
        )
    node = index_node(index, name)
    active, arguments = _without_mask(args, kwargs)
    active = trace.under_mask(active)
    _check_mask(name, node, active)
    if flags.debug:
        active = checks.in_bounds("switch", len(targets), node, active)
    mask_type = type_traits.mask_t(type(index))
    call = Invocation(name, callees, len(targets), node, active, arguments, mask_type)
    return _run(call, mode)


@hides_frames
def dispatch(
    inst: Any,
    target: Callable[..., Any],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return `target(instance, *args, **kwargs)`, per element of an instance array.

    `target` is called once per different instance that is alive, as `switch` calls
    its targets; masks work the same way. Elements that are null (None) run nothing
    and return 0.

    Args:
        inst: an instance array (see `instance_array_t`), or any other object, for
            which `target` is simply called.
        target: a function of an instance and further arguments.
        args: positional arguments for the function; arrays and PyTrees of arrays.
        mode: "symbolic", "evaluated", or None to choose by flag SymbolicCalls.
        label: name of the call, for messages and the generated code.
        kwargs: keyword arguments for the function.

    Returns:
        What the calls return, element by element.

    Raises:
        ArrayTypeError: `inst` is an array, but of no instances.
        ArrayValueError: no instance is alive that could tell the type of the result.
        StateError: the calls return incompatible values.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> class Shape:
    ...     def __init__(self, size):
    ...         self.size = size
    >>> ShapePtr = dr.instance_array_t(Float, Shape)
    >>> shapes = ShapePtr([Shape(1), Shape(2), None])
    >>> dr.dispatch(shapes, lambda shape, x: shape.size * x, Float(10, 10, 10))
    [10, 20, 0]
    """
    name = label or "dispatch"
    _check_mode(mode, name)
    if not isinstance(inst, ArrayBase):
        return _called(of_object(target, inst), name, args, kwargs)
    domain = getattr(type(inst), "_domain", None)
    if domain is None:
        raise ArrayTypeError(
            name,
            f"the array is of type {type(inst).__name__!r} (expected an array of "
            "instances)",
            "make one with lumijit.instance_array_t, or use lumijit.switch.",
        )
    active, arguments = _without_mask(args, kwargs)
    if trace.state.lane is not None and trace.state.lane.known(active).attr:
        instance = domain.instance(trace.state.lane.known(inst._node).attr)
        if instance is not None:
            return called(of_object(target, instance), name, *arguments)
    callees, count = of_instances(inst, target, name)
    active = trace.under_mask(active)
    _check_mask(name, inst._node, active)
    index, active = domain.resolve(inst._node, active)
    mask_type = type_traits.mask_t(type(inst))
    call = Invocation(name, callees, count, index, active, arguments, mask_type)
    return _run(call, mode)


def _called(
    callee: Callee, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function for what is no array; return zeros if its mask isn't set.

    It gets that mask: values for which nobody calls may be such as it can't do with.
    """
    value = called(callee, name, args, kwargs)
    mask = kwargs.get("active")
    own = slice(len(args) - 1, len(args))
    if args and parameters_of(callee)[own] == ["active"]:
        mask = args[-1]
    is_unset = isinstance(mask, (bool, np.bool_)) and not mask
    return flat_map(_zero, value) if is_unset else value


def _zero(leaf: Any) -> Any:
    return zeros_like(leaf) if isinstance(leaf, (ArrayBase, *NUMBERS)) else leaf


def _check_mode(mode: str | None, name: str) -> None:
    if mode not in (None, "symbolic", "evaluated"):
        raise ArrayValueError(
            name, f"unknown mode {mode!r}", "use 'symbolic', 'evaluated' or None."
        )


def _run(call: Invocation, mode: str | None) -> Any:
    if mode is None:
        mode = mode_by_flag(call.name, flags.symbolic_calls)
    if mode == "evaluated":
        refuse_in_region(call.name)
    run = calls_symbolic.run if mode == "symbolic" else calls_evaluated.run
    try:
        return run_call(call.name, str(call.callees[0]), partial(run, call))
    except SizeError as error:
        mismatch = call.mismatch()
        if mismatch is None or isinstance(error.__cause__, SizeError):
            raise
        raise mismatch from error


def _check_mask(name: str, index: Node, active: Node) -> None:
    """Refuse a mask for other elements than those that call."""
    if len({index.size, active.size} - {1}) > 1:
        raise SizeError(
            name,
            f"incompatible sizes: the mask has {active.size} entries, but the call "
            f"runs for {index.size} elements",
            "pass a mask of the same size, or of one entry.",
        )


def _without_mask(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Node, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Take the mask out of the arguments and leave True in its place."""
    given: Any = kwargs.get("active")
    if isinstance(given, bool):
        return trace.literal(BOOL, given), (args, {**kwargs, "active": True})
    if _is_mask(given):
        kwargs = {**kwargs, "active": type(given)(True)}
        return given._node, (args, kwargs)
    if args and _is_mask(args[-1]):
        mask = args[-1]
        return mask._node, ((*args[:-1], type(mask)(True)), kwargs)
    return trace.make_true(1), (args, kwargs)


def _is_mask(value: Any) -> bool:
    return is_array(value) and traits.is_mask_v(value)
