"""Textures: `Texture2f` and its siblings, grids of texels looked up at any position.

Owns what they hold, and what users may pass. Positions are handed to `axes`, one axis
at a time, and what these find to `lookup`.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, ClassVar

from lumijit import initialize, promotion
from lumijit.base import Array, ArrayBase
from lumijit.enums import FilterMode, WrapMode
from lumijit.functions.creation import arange, check_dimensions, zeros
from lumijit.functions.grids import meshgrid
from lumijit.functions.selection import select
from lumijit.functions.shaping import ravel
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, DType
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.spec import CUDA, DYNAMIC, ArraySpec, plain_spec, python_type, require
from lumijit.textures import axes, hardware
from lumijit.textures.lookup import Channels, Reader, fetch, interpolate
from lumijit.type_traits import matrix_t

_AXES = "xyz"


class TextureBase:
    """A grid of texels with some channels each, looked up at positions between 0 and 1.

    Where a tensor has the shape (height, width, channels), a position is (x, y): the
    axes of tensors come slowest first, those of positions fastest first. The first
    texel is centered at 0.5 / width.

    All lookups take positions of any float type, which is the precision in which they
    compute, and a mask: where it isn't set, they return zero. They return an array with
    a component for each channel.

    Args:
        tensor: the texels, of shape (…, height, width, channels); or, with `channels`,
            the dimensions of a texture of zeros.
        channels: how many numbers a texel has. Without names, `use_accel`,
            `filter_mode` and `wrap_mode` follow; where a tensor comes first,
            `use_accel`, `migrate` and these do.
        shape: the dimensions, in place of `tensor`.
        use_accel: whether `eval` may have texture units look up, which GPUs have. They
            take weights in steps of 1/256. Only `lumijit.cuda` does, in single
            precision, with four channels at most, for what isn't tracked, and not in
            functions under `@kernel`.
        migrate: no effect.
        filter_mode: how `eval` treats positions between the centers of texels.
        wrap_mode: what lies outside.

    Raises:
        SizeError: if the tensor has another number of dimensions, or none along one.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array2f, TensorXf, Texture2f
    >>> texture = Texture2f(TensorXf([0, 1, 2, 3], shape=(2, 2, 1)))
    >>> texture.eval(Array2f(0.5, [0.25, 0.5]))
    [[0.5],
     [1.5]]
    """

    #: Constructs watch whether their functions change a texture, which only
    #: `set_tensor` and `set_value` do (`control.bytecode.MUTATORS`).
    _holds_arrays = True
    _holds_arrays_in: ClassVar[tuple[str, ...]] = ("_tensor",)
    _tensor_class: ClassVar[Any]
    _dimensions: ClassVar[int]

    def __init__(
        self,
        tensor: Any = None,
        channels: int | None = None,
        *more: Any,
        shape: Any = None,
        use_accel: bool | None = None,
        migrate: bool | None = None,
        filter_mode: FilterMode | None = None,
        wrap_mode: WrapMode | None = None,
    ) -> None:
        """Make a texture of a tensor, or of zeros."""
        name = type(self).__name__
        places = ["use_accel", "filter_mode", "wrap_mode"]
        if isinstance(channels, bool):
            channels, more = None, (channels, *more)
            places.insert(1, "migrate")
        named: dict[str, Any] = {
            "use_accel": use_accel,
            "migrate": migrate,
            "filter_mode": filter_mode,
            "wrap_mode": wrap_mode,
        }
        options = {key: value for key, value in named.items() if value is not None}
        given = dict(zip(places, more, strict=False))
        if len(more) > len(places) or options.keys() & given.keys():
            raise ArrayTypeError(
                name,
                "there are too many arguments without names",
                f"of these, pass {', '.join(places)} at most, each of them once.",
            )
        options |= given
        filtering = options.get("filter_mode", FilterMode.Linear)
        wrapping = options.get("wrap_mode", WrapMode.Clamp)
        for mode, kind in ((filtering, FilterMode), (wrapping, WrapMode)):
            if not isinstance(mode, kind):
                raise ArrayTypeError(
                    name, f"a mode is {mode!r}", f"pass a member of {kind.__name__}."
                )
        self._filter: FilterMode = filtering
        self._wrap: WrapMode = wrapping
        self._accel = bool(options.get("use_accel", True))
        if channels is not None:
            sizes = check_dimensions(name, tensor if shape is None else shape)
            tensor = zeros(self._tensor_class, (*sizes, channels))
        self.set_tensor(tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the tensor, slowest first; the last one is the channels."""
        shape: tuple[int, ...] = self._checked(self._tensor).shape
        return shape

    def channel_count(self) -> int:
        """Return how many numbers a texel has."""
        return self.shape[-1]

    def filter_mode(self) -> FilterMode:
        """Return how `eval` treats positions between the centers of texels."""
        return self._filter

    def wrap_mode(self) -> WrapMode:
        """Return what is found outside."""
        return self._wrap

    def use_accel(self) -> bool:
        """Tell whether texture units may look up, where there are some."""
        return self._accel

    def migrated(self) -> bool:
        """Tell whether the texels are in texture memory only: they never are."""
        return False

    def tensor(self) -> Any:
        """Return the texels: the texture's own tensor, changes of which are seen."""
        return self._tensor

    def value(self) -> Array:
        """Return the texels: the texture's own array, changes of which are seen."""
        return self._tensor.array

    def set_tensor(self, tensor: Any, migrate: bool = False) -> None:
        """Replace texels and dimensions by those of a tensor (or a NumPy array)."""
        del migrate
        self._tensor = self._checked(self._tensor_class(tensor))

    def set_value(self, value: Any, migrate: bool = False) -> None:
        """Replace the texels by those of a flat array (or a NumPy array)."""
        del migrate
        self._tensor = self._tensor_class(value, self.shape)

    def update_inplace(self, migrate: bool = False) -> None:
        """Take notice of changes of `tensor()`; lookups see them in any case."""
        del migrate
        self._checked(self._tensor)

    def _checked(self, tensor: Any) -> Any:
        """Refuse tensors that can't be textures."""
        wanted = self._dimensions + 1
        if tensor.ndim != wanted or 0 in tensor.shape:
            raise SizeError(
                type(self).__name__,
                f"the tensor has the shape {tensor.shape} (expected {wanted} "
                "dimensions, the last one of channels, and no zeros)",
                "reshape it; a single channel needs a dimension of size 1.",
            )
        return tensor

    def eval(self, pos: Any, active: Any = True) -> Any:
        """Look up a position in the texture's filter mode, linearly by default.

        Args:
            pos: position: array with a component for each dimension, or a sequence of
                these; with one dimension also a flat array or number.
            active: mask.

        Returns:
            An array with a component for each channel (`Array1f` to `Array4f`, else
            `ArrayXf`), of the entry type of the position.

        Raises:
            ArrayTypeError: if the position has other dimensions.
        """
        found = _Lookup(self, pos, active, "eval")
        if self._accel and found.spec.backend is CUDA:
            channels = hardware.looked_up(self, found.positions)
            if channels is not None:
                return found.result(channels)
        return self._linear(found)

    def eval_nonaccel(self, pos: Any, active: Any = True) -> Any:
        """Look up a position as `eval` does, but without texture units."""
        return self._linear(_Lookup(self, pos, active, "eval_nonaccel"))

    def _linear(self, found: _Lookup) -> Any:
        is_nearest = self._filter is FilterMode.Nearest
        return self._value(found, axes.nearest if is_nearest else axes.linear)

    def eval_fetch(self, pos: Any, active: Any = True) -> tuple[Any, ...]:
        """Return the texels around a position that linear interpolation needs.

        Args:
            pos: position, see `eval`.
            active: mask.

        Returns:
            2, 4 or 8 texels, each like a result of `eval`, as they lie in memory: at
            lower x, at higher x, both again at higher y, and so on.
        """
        found = _Lookup(self, pos, active, "eval_fetch")
        texels = fetch(found.reader, found.along(axes.neighbours))
        return tuple([found.result(texel) for texel in texels])

    def eval_cubic(
        self, pos: Any, active: Any = True, force_nonaccel: bool = False
    ) -> Any:
        """Look up a position in the uniform cubic B-spline of the texels.

        It is smooth (twice differentiable), and doesn't go through the texels. The
        filter mode doesn't matter.

        Args:
            pos: position, see `eval`.
            active: mask.
            force_nonaccel: no effect.

        Returns:
            The value, see `eval`.
        """
        del force_nonaccel
        return self._value(_Lookup(self, pos, active, "eval_cubic"), axes.cubic)

    def eval_cubic_helper(self, pos: Any, active: Any = True) -> Any:
        """Look up a position as `eval_cubic` does."""
        return self.eval_cubic(pos, active)

    def eval_cubic_grad(self, pos: Any, active: Any = True) -> tuple[Any, list[Any]]:
        """Return value and gradient of the cubic B-spline.

        Args:
            pos: position, see `eval`.
            active: mask.

        Returns:
            The value, see `eval`, and a list with the gradient of each channel with
            respect to the position.
        """
        found = _Lookup(self, pos, active, "eval_cubic_grad")
        sums = found.sums(partial(axes.cubic, highest=1), 1)
        return found.result(sums[found.order()]), found.gradients(sums)

    def eval_cubic_hessian(
        self, pos: Any, active: Any = True
    ) -> tuple[Any, list[Any], list[Any]]:
        """Return value, gradient and second derivatives of the cubic B-spline.

        Args:
            pos: position, see `eval`.
            active: mask.

        Returns:
            Value and gradients, see `eval_cubic_grad`, and a list with the matrix of
            each channel: a `Matrix2f` or `Matrix3f`, in one dimension an `Array1f`.
        """
        found = _Lookup(self, pos, active, "eval_cubic_hessian")
        sums = found.sums(partial(axes.cubic, highest=2), 2)
        value = found.result(sums[found.order()])
        return value, found.gradients(sums), found.hessians(sums)

    def _upsampled(self, construct: str, shape: Any, factors: Any) -> TextureBase:
        """Return a texture of what a lookup finds at the texels of another size."""
        old = self.shape[:-1]
        given = tuple(operator.index(n) for n in (factors if shape is None else shape))
        if len(given) > len(old) or any(n < 1 for n in given):
            raise SizeError(
                construct,
                f"the sizes {given} are none of {len(old)} dimensions",
                "pass a positive number for each dimension of the texture.",
            )
        given += (1,) * (len(old) - len(given)) if shape is None else old[len(given) :]
        new = given if shape else tuple(m * n for m, n in zip(old, given, strict=True))
        flat = type(self.value())
        along = [(arange(flat, n) + 0.5) / n for n in new]
        grid = meshgrid(*along, indexing="ij")
        texels = ravel(self.eval(list(reversed(grid))))
        tensor = self._tensor_class(texels, (*new, self.shape[-1]))
        return type(self)(
            tensor,
            use_accel=self._accel,
            filter_mode=self._filter,
            wrap_mode=self._wrap,
        )

    def _value(self, found: _Lookup, along: axes.Filter) -> Any:
        return found.result(found.sums(along, 0)[found.order()])

    def __repr__(self) -> str:
        """Say how large the texture is."""
        return f"{type(self).__name__}[shape={self.shape}]"


class _Lookup:
    """One lookup: its positions, one for each axis, and the types of its results."""

    def __init__(
        self, texture: TextureBase, pos: Any, active: Any, method: str
    ) -> None:
        construct = f"{type(texture).__name__}.{method}"
        self.texture = texture
        self.active = active
        source = texture.value()
        parts = _components(pos, texture._dimensions, construct)
        arrays = [p for p in parts if isinstance(p, ArrayBase)]
        found = promotion.common_of_types(map(type, [source, *arrays]), construct)
        dtypes = [a._spec.dtype for a in arrays]
        floats = [t for t in dtypes if t.is_float] or [source._spec.dtype]
        #: Entries of results.
        self.dtype: DType = max(floats, key=lambda t: t.index)
        self.spec: ArraySpec = found.flat(self.dtype)
        # Half precision can't tell the texels of a picture apart.
        work = FLOAT32 if self.dtype is FLOAT16 else self.dtype
        work_class = self._flat(work)
        self.positions = [work_class(part) for part in parts]
        self.reader = Reader(
            source,
            texture.shape[-1],
            self._flat(source._spec.dtype),
            work_class,
            active,
        )

    def _flat(self, dtype: DType) -> type[Any]:
        if not self.spec.is_jit:
            return python_type(dtype)
        return require(self.spec.flat(dtype), "texture")

    def _array(self, outer: tuple[int, ...]) -> type[Any]:
        spec = self.spec
        return require(
            plain_spec(spec.backend, spec.is_diff, self.dtype, outer), "texture"
        )

    def along(self, along: axes.Filter) -> list[axes.Axis]:
        """Return the axes, slowest first."""
        sizes = self.texture.shape[:-1]
        mode = self.texture.wrap_mode()
        pairs = zip(reversed(self.positions), sizes, strict=True)
        return [along(position, size, mode) for position, size in pairs]

    def order(self, *of: int) -> tuple[int, ...]:
        """Return the orders of a derivative along all axes, slowest first."""
        count = len(self.positions)
        return tuple(of.count(k) for k in reversed(range(count)))

    def sums(self, along: axes.Filter, highest: int) -> dict[tuple[int, ...], Channels]:
        """Return the channels of all derivatives up to an order."""
        count = range(len(self.positions))
        wanted = {self.order()}
        if highest > 0:
            wanted |= {self.order(i) for i in count}
        if highest > 1:
            wanted |= {self.order(i, j) for i in count for j in count}
        return interpolate(self.reader, self.along(along), wanted)

    def result(self, channels: Channels) -> Any:
        """Return an array of a component for each channel."""
        count = len(channels)
        cls = self._array((count if count <= 4 else DYNAMIC,))
        return cls(*map(self._masked, channels))

    def gradients(self, sums: dict[tuple[int, ...], Channels]) -> list[Any]:
        """Return the first derivatives of each channel."""
        count = len(self.positions)
        cls = self._array((count,))
        return [
            cls(*[self._masked(sums[self.order(i)][k]) for i in range(count)])
            for k in range(self.reader.channels)
        ]

    def hessians(self, sums: dict[tuple[int, ...], Channels]) -> list[Any]:
        """Return the second derivatives of each channel."""
        count = len(self.positions)
        if count == 1:
            return [self._array((1,))(self._masked(h)) for h in sums[self.order(0, 0)]]
        cls: Any = matrix_t(self._array((count,)))
        return [
            cls(
                *[
                    [self._masked(sums[self.order(i, j)][k]) for j in range(count)]
                    for i in range(count)
                ]
            )
            for k in range(self.reader.channels)
        ]

    def _masked(self, entry: Any) -> Any:
        """Return zero where nothing was asked for, also beside NaN positions."""
        return entry if self.active is True else select(self.active, entry, 0.0)


def _components(pos: Any, count: int, construct: str) -> list[Any]:
    """Return the coordinates of a position."""
    is_flat = initialize.is_number(pos) or (
        isinstance(pos, ArrayBase) and pos._spec.is_jit and not pos._spec.outer
    )
    if is_flat:
        parts = [pos]
    elif isinstance(pos, (list, tuple)) or (
        isinstance(pos, ArrayBase) and len(pos._spec.outer) == 1
    ):
        parts = list(pos)
    elif initialize.offers_array(pos) and not isinstance(pos, ArrayBase):
        parts = list(initialize.host_array(pos, construct))
    else:
        parts = []
    if len(parts) != count:
        wanted = ", ".join(_AXES[:count])
        raise ArrayTypeError(
            construct,
            f"the position is of type {type(pos).__name__!r} with {len(parts)} "
            f"components (expected {count}: {wanted})",
            f"pass an array such as Array{count}f.",
        )
    return parts


def make_texture(dimensions: int, spec: ArraySpec) -> type[TextureBase]:
    """Make the class of the textures whose texels are in tensors of a type."""
    tensor = require(spec, "texture")
    body = {
        "__module__": tensor.__module__,
        "__doc__": TextureBase.__doc__,
        "_tensor_class": tensor,
        "_dimensions": dimensions,
    }
    suffix = tensor.__name__.removeprefix("TensorX")
    return type(f"Texture{dimensions}{suffix}", (TextureBase,), body)
