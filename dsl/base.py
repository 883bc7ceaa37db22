"""`ArrayBase`: what all array classes have in common.

Owns the class itself, its properties and what storage classes must provide.
Storage is in `arrays` (flat, traced), `scalar_arrays` (scalar namespace) and `nested`;
operators are installed by `operators`, components by name (`v.x`) by `components`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from lumijit import printing, ufuncs
from lumijit.compiler.ir.ops.record import Op
from lumijit.enums import VarState
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    SizeError,
    SymbolicError,
)
from lumijit.spec import ArraySpec

Array = Any


class _Meta:
    """The attribute `__meta__` of array types and arrays."""

    def __get__(self, _: Any, cls: type[Any]) -> str:
        spec = getattr(cls, "_spec", None)
        return "ArrayMeta[invalid]" if spec is None else str(spec.meta)


class ArrayBase:
    """Base class of all lumijit arrays; it can't be instantiated itself.

    >>> import lumijit as dr
    >>> isinstance(dr.scalar.Array3f(1, 2, 3), dr.ArrayBase)
    True
    """

    __slots__ = ()
    __hash__ = object.__hash__
    # Annotations name parameters, as in `ArrayBase[SelfT, …]`: see the stubs.
    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)
    __meta__: ClassVar[Any] = _Meta()

    _spec: ClassVar[ArraySpec]
    _mask_cls: ClassVar[type[Any]]
    _item: ClassVar[type[Any]]

    if TYPE_CHECKING:
        # Components are installed, and storage classes add what is theirs.
        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __new__(cls, *args: Any) -> Any:
        """Make an instance, of a concrete class only."""
        if "_spec" not in cls.__dict__ and not hasattr(cls, "_spec"):
            raise ArrayTypeError(
                "ArrayBase",
                "the base class can't be instantiated",
                "use a concrete type such as lumijit.llvm.Float.",
            )
        return object.__new__(cls)

    def _map(self, op: Op, *others: Array) -> Array:
        """Apply an operation entry by entry; `others` have this very class."""
        raise NotImplementedError

    def _select(self, mask: Array, other: Array) -> Array:
        """Take own entries where the mask (a `_mask_cls`) is set, else others."""
        raise NotImplementedError

    def _cast(self, cls: type[Any]) -> Array:
        """Convert the entries to another class of the same shape."""
        raise NotImplementedError

    def _assign(self, other: Array) -> None:
        """Take over the contents of another instance of this class."""
        raise NotImplementedError

    def _copy(self) -> Array:
        """Return an independent array with the same contents."""
        raise NotImplementedError

    def _is_symbolic(self) -> bool:
        """Tell whether the contents are known only inside a region."""
        return False

    def _raw_shape(self) -> tuple[int, ...] | None:
        """Return the shape of this instance, or None if it is ragged."""
        raise NotImplementedError

    def _states(self) -> set[VarState]:
        """Return the evaluation states of the flat parts."""
        return set()

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the contents as a NumPy array; evaluates if need be.

        Flat arrays are not copied: what is written to the view shows in the array,
        and in others that share its memory. Of a NumPy array that can't be written
        to, the view can't either, nor one of contents that a derivative may need.

        >>> import lumijit as dr
        >>> dr.scalar.ArrayXf(1, 2).numpy()
        array([1., 2.], dtype=float32)
        """
        raise NotImplementedError

    def torch(self) -> Any:
        """Return the contents as a PyTorch tensor, without derivatives (see `wrap`).

        Flat arrays and tensors are not copied; see `numpy`.
        """
        return import_module("lumijit.interop.exchange").to_torch(self)

    def jax(self) -> Any:
        """Return the contents as a JAX array, a copy, without derivatives."""
        return import_module("lumijit.interop.exchange").to_jax(self)

    def tf(self) -> Any:
        """Return the contents as a TensorFlow tensor, without derivatives.

        Flat arrays and tensors are not copied; see `numpy`.
        """
        return import_module("lumijit.interop.exchange").to_tf(self)

    def __dlpack__(self, **options: Any) -> Any:
        """Hand the contents to another framework, as DLPack capsule."""
        return import_module("lumijit.interop.exchange").capsule(self, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Say in whose memory the contents are: (1, 0) is the processor's."""
        if self._spec.backend.device is None:
            return (1, 0)
        found = import_module("lumijit.interop.device_memory").device_of(self)
        return cast("tuple[int, int]", found)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The contents in a GPU's memory, as libraries for GPUs ask for them."""
        if self._spec.backend.device is None:
            raise AttributeError("__cuda_array_interface__")
        found = import_module("lumijit.interop.device_memory").interface(self)
        return cast("dict[str, Any]", found)

    def _view(self) -> np.ndarray[Any, Any]:
        """Return the contents, which nobody will write to."""
        return self.numpy()

    def __copy__(self) -> Array:
        """Return another array with the same contents."""
        return self._copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        """Return another array: writes leave this one alone, and so do gradients.

        What is copied of a variable, which `enable_grad` made, is one itself.
        """
        made = self._copy()
        if self._spec.is_diff:
            import_module("lumijit.derivatives.gradients").make_own(made)
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Serve `np.array(x)`."""
        if copy is False:
            return self._uncopied(dtype)
        data = self._view()
        if dtype is not None:
            data = data.astype(dtype)
        return data.copy() if copy else data

    def _uncopied(self, dtype: Any) -> Array:
        """Return the memory of the array itself, or raise if there is none such."""
        data = self.numpy()
        is_own = data.size == 0 or np.may_share_memory(data, self.numpy())
        if not is_own or dtype not in (None, data.dtype):
            raise ArrayValueError(
                type(self).__name__,
                f"the contents as {np.dtype(dtype or data.dtype)} aren't in one place "
                "in memory, so they can't be had without a copy",
                "pass copy=None, or convert the array first.",
            )
        return data

    def __array_ufunc__(
        self, ufunc: np.ufunc, how: str, *inputs: Any, **options: Any
    ) -> Array:
        """Serve NumPy's functions, and operators with NumPy's arrays."""
        return ufuncs.apply(ArrayBase, ufunc, how, inputs, options)

    def __len__(self) -> int:
        """Return the number of entries of the outermost dimension."""
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Array:
        """Return an entry (int), several (slice, index array) or a component."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the outermost dimension."""
        for index in range(len(self)):
            yield self[index]

    def __bool__(self) -> bool:
        """Convert a mask of one entry to a Python bool."""
        raise ArrayTypeError(
            f"bool({type(self).__name__})",
            "only flat masks of one entry convert to a Python bool "
            f"(got an array of shape {self.shape})",
            "reduce it first with lumijit.any or lumijit.all, use lumijit.select, or "
            "@lumijit.syntax with a flat mask or that of a tensor (also right above a "
            "def inside of another); in place of 'x in (a, b)', write (x == a) | (x == "
            "b).",
        )

    def __repr__(self) -> str:
        """Print the contents, nested arrays transposed."""
        return self._text(printing.LIMIT)

    def __format__(self, spec: str) -> str:
        """Format each entry as `spec` says; a flat array of one entry as a number."""
        if not spec:
            return str(self)
        try:
            if self.ndim == 1 and len(self) == 1 and not self._is_symbolic():
                return format(self._view().item(), spec)
            return self._text(printing.LIMIT, spec)
        except ValueError as error:
            raise ArrayValueError(
                f"format({type(self).__name__})",
                f"the entries can't be written as {spec!r}: {error}",
                "pass a format of Python numbers, such as '.3f' or '5d'.",
            ) from None

    def _text(self, limit: int, spec: str = "") -> str:
        if len(self) == 0:
            return "[]"
        if self._is_symbolic():
            return f"{type(self).__name__}[<symbolic>]"
        if self._raw_shape() is None:
            return "[ragged array]"
        return printing.format_array(self._printed(), limit, spec=spec)

    def _printed(self) -> np.ndarray[Any, Any]:
        """Return the contents in the order in which they are printed."""
        data: np.ndarray[Any, Any] = self.__array__()
        return printing.transposed(data) if self._spec.is_jit else data

    @property
    def array(self) -> Array:
        """The same contents as an ordinary array: this very object."""
        return self

    @property
    def real(self) -> Array:
        """The real parts: of all but complex numbers and quaternions, all there is."""
        return self

    @property
    def imag(self) -> Array:
        """The imaginary parts: zero in all but complex numbers and quaternions."""
        return type(self)(0)

    @property
    def T(self) -> Array:
        """The transpose of a matrix: its rows become columns."""
        return self._transposed()

    @property
    def mT(self) -> Array:
        """The transposes of matrices; of a tensor, its last two axes are exchanged."""
        return self._transposed()

    def _transposed(self, axes: Any = None) -> Array:
        """Return the array with its dimensions in another order."""
        raise ArrayTypeError(
            "lumijit.transpose",
            f"{type(self).__name__} is no matrix type",
            "convert it to one, such as Matrix3f.",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions; raises for ragged arrays."""
        shape = self._raw_shape()
        if shape is None:
            raise SizeError(
                f"{type(self).__name__}.shape",
                "the array is ragged: its components differ in size",
                "give all components the same size (or size 1).",
            )
        return shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._spec.shape)

    @property
    def state(self) -> VarState:
        """What is known and stored of this array."""
        states = self._states()
        if len(states) == 1:
            return next(iter(states))
        return VarState.Mixed if states else VarState.Evaluated

    @property
    def index(self) -> int:
        """A number that identifies the traced value; 0 for all but flat arrays."""
        return 0

    @property
    def index_ad(self) -> int:
        """A number that identifies the derivative node; 0 without derivatives."""
        return 0

    @property
    def label(self) -> str | None:
        """The name that was assigned, or given by `lumijit.set_label`, if any."""
        return self._label()

    @label.setter
    def label(self, name: str) -> None:
        import_module("lumijit.functions.evaluation").set_label(self, name)

    def _label(self) -> str | None:
        return None

    def item(self) -> Any:
        """Return the only entry as a Python number.

        >>> import lumijit as dr
        >>> dr.scalar.ArrayXf(3).item()
        3.0
        """
        data = self.__array__()
        if data.size != 1:
            raise SizeError(
                f"{type(self).__name__}.item",
                f"the array has {data.size} entries, not one",
                "index it instead.",
            )
        return data.reshape(-1)[0].item()


class Composed:
    """What is no array, but consists of some: operations act on one after the other.

    Constructors of arrays take it as a sequence of these.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        """Yield the parts."""
        raise NotImplementedError

    def _map(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return what a function makes of the parts, one of its arguments being this.

        What else is among them broadcasts.
        """
        raise NotImplementedError

    @staticmethod
    def map(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Apply a function part by part; None if no argument has any."""
        for arg in args:
            if isinstance(arg, Composed):
                return arg._map(function, args)
        return None


def symbolic_error(construct: str) -> SymbolicError:
    """Word the error for reading the contents of a symbolic variable."""
    return SymbolicError(
        construct,
        "the variable is symbolic: it stands for values that are known only "
        "when the kernel runs, so it can't be read while tracing",
        "use lumijit.select, lumijit.while_loop/if_stmt or @lumijit.syntax, "
        "print with lumijit.print, or trace in evaluated mode.",
    )
