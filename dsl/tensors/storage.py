"""The storage of tensors: `TensorXf` and its siblings.

Owns how they are made, read, written and combined. The entries lie in a flat array,
in row-major order; that and a shape is all there is. In PyTrees a tensor is a
container of its entries, so what takes PyTrees (evaluation, control flow, derivatives)
takes tensors. Which entries a subscript or a broadcast shape means is in `subscripts`
and `views`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from lumijit import indexing, initialize, printing, promotion, updates
from lumijit.arrays import FlatArray, device_entries, is_on_device
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.record import memory
from lumijit.enums import VarState
from lumijit.functions.creation import check_dimensions, full
from lumijit.functions.repetition import concat
from lumijit.functions.scattering import scatter
from lumijit.functions.selection import select
from lumijit.functions.shaping import ravel
from lumijit.functions.sizes import shape as shape_of
from lumijit.masked_entries import entries_under, unmasked
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.spec import ANY_LENGTH, FLAT, TENSOR, find, require
from lumijit.tensors import joining, lanes, products
from lumijit.tensors.shapes import swapaxes, transposed
from lumijit.tensors.subscripts import is_mask, mask_shape
from lumijit.tensors.subscripts import select as select_entries
from lumijit.tensors.views import (
    Shape,
    View,
    broadcast,
    broadcasts,
    index_class,
    of_one_shape,
)


class TensorArray(ArrayBase):
    """A flat array (`array`) and the shape of what it holds."""

    DRJIT_STRUCT: ClassVar[dict[str, type[Any]]]
    _flat: Any
    _shape: Shape

    def __init_subclass__(cls) -> None:
        """Find the class of the entries."""
        cls.DRJIT_STRUCT = {"array": find(cls._spec.plain()) or ArrayBase}

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance, of a concrete class only."""
        del args, kwargs
        return super().__new__(cls)

    def __init__(self, array: Any = (), shape: Any = None) -> None:
        """Make a tensor of a number, a sequence, a NumPy array or another array.

        With a shape, `array` has the entries in row-major order.
        """
        self._flat, self._shape = _entries(type(self), array)
        if shape is not None:
            wanted = check_dimensions(type(self).__name__, shape)
            if len(self._flat) != math.prod(wanted):
                raise SizeError(
                    type(self).__name__,
                    f"the input has {len(self._flat)} entries, and a tensor of shape "
                    f"{wanted} {math.prod(wanted)}",
                    "pass as many entries as the shape has.",
                )
            self._shape = wanted

    @classmethod
    def _flat_class(cls) -> Any:
        return cls.DRJIT_STRUCT["array"]

    @classmethod
    def _of(cls, flat: Array, shape: Shape) -> Any:
        """Return a tensor of a shape; one entry stands for all."""
        tensor = object.__new__(cls)
        tensor._flat = flat
        if len(flat) != math.prod(shape):
            everywhere = full(cls._mask_cls._flat_class(), True, math.prod(shape))
            tensor._flat = select(everywhere, flat, flat)
        tensor._shape = shape
        return tensor

    def _settings(self) -> Iterable[Any]:
        """Yield what tells the tensor from others besides its entries."""
        return self._shape

    def _rebuilt(self, items: list[Any]) -> Any:
        """Return a tensor of this shape for other entries, as PyTrees ask for."""
        (flat,) = items
        spec = getattr(flat, "_spec", None)
        cls: Any = None if spec is None else find(spec.replaced(kind=TENSOR))
        if cls is None or type(flat) is not cls._flat_class():
            raise ArrayTypeError(
                type(self).__name__,
                f"the entries can't become a {type(flat).__name__!r}",
                "apply the function to the entries, '.array'.",
            )
        shape = self._shape
        if math.prod(shape) == 1:  # What lanes share may come to differ in them.
            shape = lanes.of(len(flat)) or shape
        if len(flat) not in (1, math.prod(shape)):
            raise SizeError(
                type(self).__name__,
                f"{len(flat)} entries can't have the shape {shape}",
                "apply the function to the entries, '.array'.",
            )
        return cls._of(flat, shape)

    def _check_like(self, other: TensorArray) -> None:
        """Refuse another tensor that isn't of this shape."""
        if other._shape != self._shape:
            raise SizeError(
                "PyTree",
                f"the tensors have different shapes ({self._shape}, {other._shape})",
                "use tensors of one shape.",
            )

    def _map(self, op: Op, *others: Array) -> Array:
        shape, (first, *rest) = of_one_shape(op.name, (self, *others))
        cls = self._mask_cls if op.result is BOOL else type(self)
        return cls._of(first._map(op, *rest), shape)

    def _select(self, mask: Array, other: Array) -> Array:
        shape, (wide, a, b) = of_one_shape("select", (mask, self, other))
        return self._of(a._select(wide, b), shape)

    def _cast(self, cls: type[Any]) -> Array:
        return cls._of(self._flat._cast(cls._flat_class()), self._shape)

    def _assign(self, other: Array) -> None:
        if other._shape == self._shape:
            self._flat._assign(other._flat)
        else:
            self._flat, self._shape = other._flat, other._shape

    def _copy(self) -> Array:
        return self._of(self._flat._copy(), self._shape)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        """Return another tensor; copies share its entries where the originals do."""
        return self._of(copy.deepcopy(self._flat, memo), self._shape)

    def _transposed(self, axes: Any = None) -> Any:
        return transposed(self, axes)

    def _multiplied(self, construct: str, a: Any, b: Any) -> Any:
        return products.matmul(construct, a, b)

    def _concatenated(self, construct: str, arrays: list[Any], axis: Any) -> Any:
        return joining.concatenated(construct, arrays, axis)

    def _repeated(self, construct: str, counts: Any, axis: int | None) -> Any:
        return joining.repeated(construct, self, counts, axis)

    def _tiled(self, construct: str, counts: Any) -> Any:
        return joining.tiled(construct, self, counts)

    def _is_symbolic(self) -> bool:
        return bool(self._flat._is_symbolic())

    def _raw_shape(self) -> Shape:
        return self._shape

    def _states(self) -> set[VarState]:
        return {self._flat.state}

    def numpy(self) -> np.ndarray[Any, Any]:  # noqa: D102  (see the base class)
        entries: np.ndarray[Any, Any] = self._flat.numpy()
        return entries.reshape(self._shape)

    def _view(self) -> np.ndarray[Any, Any]:
        entries: np.ndarray[Any, Any] = self._flat._view()
        return entries.reshape(self._shape)

    def _text(self, limit: int, spec: str = "") -> str:
        if self._is_symbolic():
            return f"{type(self).__name__}[<symbolic>]"
        return printing.format_array(self._view(), limit, spec=spec)

    @property
    def array(self) -> Array:
        """The entries as a flat array, the very one of the tensor."""
        return self._flat

    @array.setter
    def array(self, value: Array) -> None:
        self._adopt(self._rebuilt([value]))

    def _adopt(self, other: TensorArray) -> None:
        """Be another tensor of the type: its very entries, in its shape."""
        self._flat, self._shape = other._flat, other._shape

    @property
    def mT(self) -> Any:
        """The tensor with its last two axes exchanged."""
        return swapaxes(self, -2, -1)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    def __len__(self) -> int:
        """Return the size of the first dimension."""
        if not self._shape:
            raise SizeError(
                f"len({type(self).__name__})",
                "a tensor without dimensions has no length",
                "ask for the length of its entries, '.array'.",
            )
        return self._shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the tensors along the first dimension."""
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Array:
        """Return the entries that a subscript selects, as NumPy has it."""
        if is_mask(key) and _is_unknown(self, key):
            return entries_under(self, key)
        return self._seen(self._selected(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write to the entries that a subscript selects.

        A flat array of as many that doesn't broadcast to them is taken in order.
        (If it does, this is what broadcasting means, too.)
        """
        new = indexing.assigned(self, unmasked(value, key))
        if is_mask(key) and self._is_blend(key, new):
            wide = promotion.mask_for(key, self, f"{type(self).__name__}[mask] = value")
            if len(new._flat) == 1:
                new = self._of(new._flat, ())
            self._assign(new._select(wide, self))
            return
        where = self._selected(key)
        shape = new._shape
        while len(shape) > len(where.shape) and shape[0] == 1:
            shape = shape[1:]
        if shape and not broadcasts(shape, where.shape):
            if not is_flat(value) or len(value) != where.size:
                raise _wrong_value(self, where.shape, new._shape)
            shape = where.shape
        if math.prod(shape) != 1 and shape != where.shape:
            new = broadcast(shape, where.shape).entries(new._flat)
        else:
            new = new._flat
        flat = self._flat
        if where.is_all_of(len(flat)):
            if where.size:
                flat._assign(self._of(new, self._shape)._flat._copy())
        elif isinstance(flat, FlatArray) and where.is_known:
            self._write(where, new)
        else:
            scatter(flat, new, where.positions(index_class(flat._spec)))

    def _write(self, where: View, value: Array) -> None:
        """Write to entries that surely exist, in place if that is an update.

        Processors are fast where memory is written in the order in which it lies, so
        one value for all is written in it.
        """
        flat, cls = self._flat, index_class(self._flat._spec)
        if where.size == 1 and updates.is_put(flat, where.start, value._node):
            return
        same = where.forwards()
        index = (same if len(value) == 1 else where).positions(cls)._node
        everywhere = trace.make_true(1)
        index, mask = memory.aim(flat, index, everywhere, "scatter", is_inside=True)
        is_update = value._node.size == where.size and where.is_injective
        if is_update and updates.is_update(flat, value):
            other = None if same is where else same.positions(cls)._node
            if updates.is_updated(flat, value, index, mask, other):
                return
        memory.update(flat, value._node, index, mask)

    def _selected(self, key: Any) -> View:
        dtype = index_class(self._flat._spec)
        return select_entries(f"{type(self).__name__}[…]", dtype, self._shape, key)

    def _is_blend(self, mask: Any, value: TensorArray) -> bool:
        """Tell whether entries under a mask are replaced in place, as select does."""
        shape = mask_shape(mask)
        if shape not in (self._shape, ()) and not (shape == (1,) and self._shape):
            return False
        return value._shape == self._shape or len(value._flat) == 1

    def _seen(self, view: View) -> Any:
        """Return a tensor of the entries that a view selects."""
        return self._of(view.entries(self._flat), view.shape)

    def _beside(self, value: Any) -> Any:
        """Return an operand of an in-place operator, flat arrays as assignments do.

        (For `x[key] += value` is one.) As for any operator, shapes may broadcast to a
        third one.
        """
        count = math.prod(self._shape)
        if not is_flat(value) or len(value) != count:
            return value
        if not self._shape or self._shape[-1] in (1, count):
            return value
        return require(value._spec.replaced(kind=TENSOR), "+=")._of(value, self._shape)

    def __bool__(self) -> bool:
        """Convert a mask of at most one entry; evaluates it."""
        is_mask = self._spec.dtype is BOOL and len(self._flat) <= 1
        return bool(self._flat) if is_mask else super().__bool__()

    def __float__(self) -> float:
        """Return the only entry as a Python float; evaluates it."""
        return float(self.item())

    def __int__(self) -> int:
        """Return the only entry as a Python int, rounded towards zero."""
        return int(self.item())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the contents; evaluates them."""
        return type(self), (self._view().copy(),)


def _is_unknown(tensor: TensorArray, mask: Any) -> bool:
    """Tell whether entries under a mask can't be counted: they, or where we are."""
    is_array = isinstance(mask, ArrayBase)
    is_symbolic = tensor._is_symbolic() or (is_array and mask._is_symbolic())
    return is_symbolic or not trace.is_unconditional()


def is_flat(value: Any) -> bool:
    """Tell whether a value is an array of entries in an order, without a shape."""
    is_plain = isinstance(value, ArrayBase) and value._spec.kind in (FLAT, ANY_LENGTH)
    return is_plain and len(value._spec.shape) == 1


def _wrong_value(tensor: TensorArray, wanted: Shape, got: Shape) -> SizeError:
    return SizeError(
        f"{type(tensor).__name__}[…] = value",
        f"a value of shape {got} doesn't broadcast to the shape {wanted} of the "
        "selected entries",
        "pass one entry, a value of the selection's shape, or a flat array with as "
        "many entries.",
    )


def _entries(cls: Any, value: Any) -> tuple[Any, Shape]:
    """Return the entries of what a tensor is made from, and their shape."""
    flat = cls._flat_class()
    if isinstance(value, TensorArray):
        return flat(value._flat), value._shape
    if initialize.is_number(value):
        return flat(value), ()
    if isinstance(value, ArrayBase):
        entries = flat(ravel(value.array, "C"))
        return entries, value.array.shape
    if hasattr(type(value), "_as_tensor"):
        entries, shape = value._as_tensor()
        return flat(entries), shape
    if isinstance(value, (*initialize.SEQUENCES, Iterator)):
        return _sequence(cls, list(value))
    if flat._spec.backend.device is not None and is_on_device(value):
        node, shape = device_entries(value, cls.__name__)
        return wrap(flat, trace.cast_to(node, flat._spec.dtype)), shape
    if initialize.offers_array(value):
        data = initialize.host_array(value, cls.__name__)
        return flat(data.reshape(-1)), data.shape
    raise initialize.unsupported(cls.__name__, value)


def _sequence(cls: Any, values: list[Any]) -> tuple[Any, Shape]:
    """Convert nested sequences of numbers and arrays."""
    try:
        shape = shape_of(values)
    except SizeError:
        raise _ragged(cls) from None
    leaves = _leaves(values)
    if all(initialize.is_number(v) for v in leaves):
        flat = cls._flat_class()(leaves)
    else:
        flat = concat([_entries(cls, v)[0] for v in leaves])
    if len(flat) != math.prod(shape):
        raise _ragged(cls)
    return flat, shape


def _ragged(cls: Any) -> SizeError:
    return SizeError(
        cls.__name__,
        "the input is ragged: its items differ in shape",
        "give all items the same shape.",
    )


def _leaves(value: Any) -> list[Any]:
    """Return what is in nested sequences, in order."""
    if not isinstance(value, (list, tuple)):
        return [value]
    return [leaf for item in value for leaf in _leaves(item)]
