"""Making arrays: constants, sequences, grids."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lumijit import initialize, instance_registry
from lumijit.arrays import FlatArray, number_node
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import default_of, make_struct, struct_fields
from lumijit.runtime.device import DeviceId
from lumijit.runtime.dtypes import INT64, DType
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.scalar_arrays import HostArray
from lumijit.scalar_arrays import wrap as wrap_host
from lumijit.spec import DYNAMIC, TENSOR, ArraySpec

Shape = int | typing.Sequence[int]
# Makes a node, given a type, a size, a value, and where arrays of the class are.
MakeNode = Callable[[DType, int, Any, DeviceId | None], Node]


def zeros(dtype: type[Any], shape: Shape = 1) -> Any:
    """Make an instance filled with zeros (False for masks); takes no memory.

    Args:
        dtype: array class, Python scalar type, or class of a PyTree. One with
            DRJIT_STRUCT may have a method `zero_(size)`, which then fills it.
        shape: size of the vectorized dimension, or all dimensions of an array.

    Returns:
        An instance of `dtype`.

    Raises:
        SizeError: if a size is negative, too large or doesn't suit `dtype`.

    >>> import lumijit as dr
    >>> dr.zeros(dr.llvm.Array2f, 3)
    [[0, 0],
     [0, 0],
     [0, 0]]
    """
    return _make("lumijit.zeros", dtype, shape, 0)


def ones(dtype: type[Any], shape: Shape = 1) -> Any:
    """Make an instance filled with ones (True for masks); takes no memory.

    Args:
        dtype: array class, Python scalar type, or class of a PyTree.
        shape: size of the vectorized dimension, or all dimensions of an array.

    Returns:
        An instance of `dtype`.

    >>> import lumijit as dr
    >>> dr.ones(dr.llvm.Bool, 2)
    [True, True]
    """
    return _make("lumijit.ones", dtype, shape, _entry(dtype, 1, "lumijit.ones"))


def full(dtype: type[Any], value: Any, shape: Shape = 1) -> Any:
    """Make an instance filled with one value; takes no memory.

    Args:
        dtype: array class, Python scalar type, or class of a PyTree.
        value: number (of instance arrays: object or None) that all entries get; of
            static arrays also a sequence, one value for each component.
        shape: size of the vectorized dimension, or all dimensions of an array.

    Returns:
        An instance of `dtype`.

    >>> import lumijit as dr
    >>> dr.full(dr.llvm.Float, 2.5, 3)
    [2.5, 2.5, 2.5]
    >>> dr.full(dr.llvm.Array2f, [1, 2], 3)
    [[1, 2],
     [1, 2],
     [1, 2]]
    """
    return _make("lumijit.full", dtype, shape, _entry(dtype, value, "lumijit.full"))


def opaque_full(dtype: type[Any], value: Any, shape: Shape) -> Any:
    """Make an instance filled with one value that lies in memory."""
    value = _entry(dtype, value, "lumijit.opaque")

    def node(entry: DType, size: int, value: Any, where: DeviceId | None) -> Node:
        made = number_node(value, entry, "lumijit.opaque", False, size)
        return instance_registry.opaque(made, where)

    return _make("lumijit.opaque", dtype, shape, value, node)


def empty(dtype: type[Any], shape: Shape = 1) -> Any:
    """Make an instance with arbitrary contents, to be written to.

    Args:
        dtype: array class, Python scalar type, or class of a PyTree.
        shape: size of the vectorized dimension, or all dimensions of an array.

    Returns:
        An instance of `dtype`; Python scalars are zero.

    >>> import lumijit as dr
    >>> len(dr.empty(dr.llvm.Float, 5))
    5
    """

    def node(entry: DType, size: int, *_: Any) -> Node:
        return trace.undefined(entry, size)

    return _make("lumijit.empty", dtype, shape, 0, node)


def _entry(dtype: Any, value: Any, construct: str) -> Any:
    """Return what stands for a value in arrays of a type, or the value as it is."""
    filling = getattr(dtype, "_filling", None)
    if filling is not None:
        return filling(value)
    domain = getattr(dtype, "_domain", None)
    return value if domain is None else domain.number(value, construct)


def _make(
    construct: str,
    dtype: Any,
    shape: Shape,
    value: Any,
    make_node: MakeNode | None = None,
    within: tuple[type[Any], ...] = (),
) -> Any:
    """Make an instance of a type, which is that of a field of those `within`."""
    if not isinstance(dtype, type):
        raise ArrayTypeError(
            construct,
            f"the dtype is {dtype!r}",
            "pass a type, such as lumijit.llvm.Float.",
        )
    if issubclass(dtype, ArrayBase) and hasattr(dtype, "_spec"):
        sizes = array_sizes(construct, dtype, shape)

        def default(entry: DType, size: int, value: Any, *_: Any) -> Node:
            return number_node(value, entry, construct, False, size)

        return _filled(construct, dtype, sizes, value, make_node or default)
    if issubclass(dtype, (bool, int, float, instance_registry.ScalarInstance)):
        check_dimensions(construct, shape)
        return dtype(value)
    clears_itself = hasattr(dtype, "DRJIT_STRUCT") and hasattr(dtype, "zero_")
    if construct == "lumijit.zeros" and clears_itself:
        made: Any = dtype()
        made.zero_(check_dimensions(construct, shape)[-1])
        return made
    if struct_fields(dtype) is not None:
        if dtype in within:
            raise ArrayTypeError(
                construct,
                f"objects of {dtype.__name__!r} consist of others without end, as a "
                "field is of that type",
                f"declare the field as '{dtype.__name__} | None': it then is None.",
            )
        within = (*within, dtype)
        return _make_struct(construct, dtype, shape, value, make_node, within)
    raise ArrayTypeError(
        construct,
        f"can't make an instance of type {dtype.__name__!r}",
        "pass an array class, bool, int, float, a dataclass or a class with "
        "DRJIT_STRUCT.",
    )


def _make_struct(
    construct: str,
    cls: type[Any],
    shape: Shape,
    value: Any,
    make_node: MakeNode | None,
    within: tuple[type[Any], ...],
) -> Any:
    made = {}
    for name, kind in field_types(cls).items():
        is_supported = isinstance(kind, type) and (
            issubclass(kind, (ArrayBase, bool, int, float))
            or struct_fields(kind) is not None
        )
        if is_supported:
            made[name] = _make(construct, kind, shape, value, make_node, within)
        else:
            made[name] = default_of(kind, construct, name)
    return make_struct(cls, made)


def field_types(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a struct's fields, also where they are given as strings."""
    fields = struct_fields(cls) or {}
    if not any(isinstance(kind, str) for kind in fields.values()):
        return fields
    hints = typing.get_type_hints(cls)
    return {name: hints.get(name, kind) for name, kind in fields.items()}


def _size(size: Any, construct: str) -> int:
    number = initialize.whole_number(construct, "a size", size)
    return trace.check_size(number, construct)


def check_dimensions(construct: str, shape: Any) -> tuple[int, ...]:
    """Return a shape, or a single size, as a tuple of sizes that can be."""
    is_list = type(shape) is tuple or (
        isinstance(shape, (list, tuple, np.ndarray)) and np.ndim(shape) == 1
    )
    sizes = shape if is_list else (shape,)
    return tuple([_size(n, construct) for n in sizes])


def array_sizes(construct: str, cls: type[Any], shape: Shape) -> Sequence[int]:
    """Return all dimensions of the array to make."""
    if shape.__class__ is int and issubclass(cls, FlatArray):
        return (trace.check_size(shape, construct),)
    if cls._spec.kind is TENSOR:
        return check_dimensions(construct, shape)
    static = cls._spec.shape
    if isinstance(shape, (list, tuple)):
        sizes = [_size(n, construct) for n in shape]
        fits = len(sizes) == len(static) and all(
            m in (n, DYNAMIC) for m, n in zip(static, sizes, strict=True)
        )
        if not fits:
            raise SizeError(
                construct,
                f"the shape {tuple(shape)} doesn't suit {cls.__name__} "
                f"(expected {tuple('N' if n < 0 else n for n in static)})",
                "change the shape or the type.",
            )
        return sizes
    size = _size(shape, construct)
    sizes = [1 if n == DYNAMIC else n for n in static]
    if static and static[-1] == DYNAMIC:
        sizes[-1] = size
    return sizes


def _filled(
    construct: str,
    cls: Any,
    sizes: Sequence[int],
    value: Any,
    make_node: MakeNode,
) -> Array:
    entry = cls._spec.dtype
    if cls._spec.kind is TENSOR:
        count = math.prod(sizes)
        flat = _filled(construct, cls._flat_class(), (count,), value, make_node)
        return cls._of(flat, sizes)
    if issubclass(cls, FlatArray):
        where = cls._spec.backend.device
        node = make_node(entry, sizes[0], value, where)
        return wrap_flat(cls, instance_registry.placed(node, where) if where else node)
    values = _by_component(construct, cls, value, sizes[0])
    if issubclass(cls, HostArray):
        data = np.empty(sizes[0], dtype=entry.numpy)
        if values is None:
            data[:] = initialize.number(value, entry, construct)
        else:
            data[:] = [initialize.number(v, entry, construct) for v in values]
        return wrap_host(cls, data)
    if values is None:
        values = [value] * sizes[0]
    items = [_filled(construct, cls._item, sizes[1:], v, make_node) for v in values]
    return wrap_nested(cls, items)


def _by_component(
    construct: str, cls: type[Any], value: Any, count: int
) -> Sequence[Any] | None:
    """Return the values of a static array's components; None for one of all."""
    if cls._spec.outer[0] == DYNAMIC or not isinstance(value, (list, tuple)):
        return None
    if len(value) != count:
        raise SizeError(
            construct,
            f"there are {len(value)} values for the {count} components of "
            f"{cls.__name__}",
            "give one number, or one for each component.",
        )
    return value


def _check_one_dimensional(construct: str, dtype: Any) -> None:
    is_array = isinstance(dtype, type) and issubclass(dtype, ArrayBase)
    if not is_array or dtype._spec.shape != (DYNAMIC,):
        raise ArrayTypeError(
            construct,
            f"the dtype is {getattr(dtype, '__name__', dtype)} (expected a "
            "dynamic one-dimensional array type)",
            "use a type such as llvm.Float or scalar.ArrayXf.",
        )


def arange(
    dtype: type[Any],
    start: int | None = None,
    stop: int | None = None,
    step: int = 1,
    *,
    size: int | None = None,
) -> Any:
    """Make the sequence start, start + step, … up to, without, `stop`.

    Args:
        dtype: flat array class.
        start: first value; with one number only, that is `stop`, and 0 the first.
        stop: end of the sequence.
        step: difference of neighbours.
        size: number of entries, in place of all others.

    Returns:
        The sequence, which takes no memory until it is evaluated.

    Raises:
        SizeError: if the sequence would have a negative size.

    >>> import lumijit as dr
    >>> dr.arange(dr.llvm.Int, 1, 10, 3)
    [1, 4, 7]
    """
    construct = "lumijit.arange"
    _check_one_dimensional(construct, dtype)
    if dtype._spec.kind is TENSOR:
        return dtype(arange(dtype.DRJIT_STRUCT["array"], start, stop, step, size=size))
    if size is not None and (start, stop, step) != (None, None, 1):
        raise ArrayTypeError(
            construct,
            "there is a size beside other numbers",
            "give a size, or start, stop and step.",
        )
    first: Any = start if size is None else size
    last: Any = stop
    if last is None:
        first, last = 0, first
    for value in (first, last, step):
        if not initialize.is_integer(value):
            raise ArrayTypeError(
                construct,
                f"an argument is {value!r} (expected an int)",
                "use lumijit.linspace for fractions.",
            )
    # Those of NumPy wrap around in arithmetic. (Recorded numbers stay what they are.)
    given = (first, last, step)
    first, last, step = (v.item() if isinstance(v, np.integer) else v for v in given)
    if step == 0:
        raise ArrayValueError(construct, "the step is 0", "give another step.")
    count = (last - first + step - (1 if step > 0 else -1)) // step
    count = trace.check_size(count, construct)
    if issubclass(dtype, HostArray):
        data = np.arange(count, dtype=np.int64) * step + first
        return dtype(data)
    return wrap_flat(dtype, _progression(dtype._spec, first, step, count))


def _progression(spec: ArraySpec, start: int, step: int, size: int) -> Node:
    """Return start + i * step; through Int64 where a float would round twice."""
    entry, node = spec.dtype, placement.counter(size, spec.backend.device)
    if size == 0:
        return trace.literal(entry, entry.wrap(0), 0)
    if entry.is_float and (start, step) != (0, 1):
        exact = {16: 1 << 11, 32: 1 << 24, 64: 1 << 53}[entry.bits]
        largest = max(abs(start), abs(start + size * step), size)
        wide = entry if largest <= exact else INT64
        return trace.cast_to(_affine(wide, node, start, step), entry)
    return _affine(entry, node, start, step)


def _affine(entry: DType, counter: Node, start: int, step: int) -> Node:
    node = trace.cast_to(counter, entry)
    if step != 1:
        node = trace.emit2(ar.MUL, node, trace.literal(entry, entry.wrap(step)))
    if start != 0:
        node = trace.emit2(ar.ADD, node, trace.literal(entry, entry.wrap(start)))
    return node


def linspace(
    dtype: type[Any], start: float, stop: float, num: int, endpoint: bool = True
) -> Any:
    """Make `num` evenly spaced numbers from `start` to `stop`.

    Args:
        dtype: flat array class of floats.
        start: first number.
        stop: end of the interval.
        num: how many numbers.
        endpoint: whether the last number is `stop`, or one step before.

    Returns:
        The numbers, which take no memory until they are evaluated.

    Raises:
        ArrayTypeError: if `dtype` doesn't hold floats.

    >>> import lumijit as dr
    >>> dr.linspace(dr.llvm.Float, 0, 1, 5)
    [0, 0.25, 0.5, 0.75, 1]
    """
    construct = "lumijit.linspace"
    _check_one_dimensional(construct, dtype)
    if dtype._spec.kind is TENSOR:
        return dtype(linspace(dtype.DRJIT_STRUCT["array"], start, stop, num, endpoint))
    entry = dtype._spec.dtype
    if not entry.is_float:
        raise ArrayTypeError(
            construct,
            f"the dtype {dtype.__name__} holds no floats",
            "use lumijit.arange for integers.",
        )
    num = _size(num, construct)
    first = initialize.number(start, entry, construct)
    intervals = num - 1 if endpoint else num
    step = (stop - start) / intervals if intervals > 0 else 0.0
    if issubclass(dtype, HostArray):
        exact = np.arange(num) * float(entry.wrap(step)) + first
        return wrap_host(dtype, exact.astype(entry.numpy))
    if num == 0:
        return wrap_flat(dtype, trace.literal(entry, 0.0, 0))
    counter = placement.counter(num, dtype._spec.backend.device)
    position = trace.cast_to(counter, entry)
    node = trace.emit3(
        ar.FMA,
        position,
        trace.literal(entry, entry.wrap(step)),
        trace.literal(entry, first),
    )
    return wrap_flat(dtype, trace.resized(node, num))
