"""Hash encodings: features of points, interpolated between vertices of many grids.

The finer a grid, the more of its vertices share features, by a hash of their position.
Sources: Müller et al., "Instant neural graphics primitives with a multiresolution hash
encoding" (2022); Rosu and Behnke, "PermutoSDF" (2023), for simplices as cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Any, ClassVar

from lumijit import initialize
from lumijit.base import ArrayBase
from lumijit.derivatives.gradients import replace_grad
from lumijit.functions.elementwise import floor
from lumijit.functions.gathering import gather_run
from lumijit.functions.selection import select
from lumijit.functions.transcendental import cos
from lumijit.random.generator import Generator
from lumijit.random.generator import rng as make_rng
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.spec import TENSOR, python_type
from lumijit.type_traits import int32_array_t, replace_shape_t, uint32_array_t

__all__ = ["HashEncoding", "HashGridEncoding", "PermutoEncoding"]

# One for each dimension, as in the first source.
_PRIMES = 1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737
_FACTOR = 2531011
_WORD = (1 << 32) - 1
_SEED = 0x200000000


class HashEncoding:
    """What hash encodings have in common: levels, and where features lie. A PyTree.

    Args:
        dtype: type of the parameters: flat array type or tensor type of floats.
        dimension: number of coordinates of a point.
        n_levels: number of grids.
        n_features_per_level: number of features of a vertex.
        hashmap_size: the most vertices of a level that have features of their own.
        base_resolution: resolution of the first grid.
        per_level_scale: how much finer each grid is than the one before.
        align_corners: whether the outermost vertices lie at 0 and 1, and not half a
            cell further in.
        torchngp_compat: whether vertices of cells (not of simplices) are shifted by
            half a cell in any case, as other implementations do it.
        smooth_weight_gradients: whether derivatives by points are as if weights went
            on more smoothly; values stay.
        smooth_weight_lambda: how much of the derivatives of (1 - cos(pi w)) / 2 are
            added to those of a weight w.
        init_scale: features are drawn evenly from -init_scale to init_scale.
        rng: what draws them.
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"data": ArrayBase}
    #: The features, those of a vertex behind each other.
    data: Any

    def __init__(
        self,
        dtype: type[Any],
        dimension: int,
        *,
        n_levels: int = 16,
        n_features_per_level: int = 2,
        hashmap_size: int = 1 << 19,
        base_resolution: int = 16,
        per_level_scale: float = 2,
        align_corners: bool = False,
        torchngp_compat: bool = False,
        smooth_weight_gradients: bool = False,
        smooth_weight_lambda: float = 1.0,
        init_scale: float = 1e-4,
        rng: Generator | None = None,
    ) -> None:
        """Lay out the levels, and draw the features."""
        self._name = f"lumijit.hashgrid.{type(self).__name__}"
        spec = getattr(dtype, "_spec", None)
        if spec is None or not spec.dtype.is_float or len(spec.plain().shape) != 1:
            raise ArrayTypeError(
                self._name,
                f"parameters can't be of type {dtype!r}",
                "pass a flat array type of floats, such as lumijit.llvm.ad.Float.",
            )
        self.dtype: Any = dtype._flat_class() if spec.kind is TENSOR else dtype
        self.dimension = self._at_least("dimension", dimension, 1)
        if dimension > len(_PRIMES):
            raise SizeError(
                self._name,
                f"{dimension} dimensions (expected {len(_PRIMES)} at most)",
                "encode some coordinates otherwise.",
            )
        self.n_levels = self._at_least("n_levels", n_levels, 1)
        self.n_features_per_level = self._at_least(
            "n_features_per_level", n_features_per_level, 1
        )
        self.hashmap_size = self._at_least("hashmap_size", hashmap_size, 1)
        self.base_resolution = self._at_least("base_resolution", base_resolution, 2)
        self.per_level_scale = self._checked("per_level_scale", per_level_scale, 1)
        self.align_corners = align_corners
        self.torchngp_compat = torchngp_compat
        self.smooth_weight_gradients = smooth_weight_gradients
        self.smooth_weight_lambda = smooth_weight_lambda
        self.init_scale = init_scale
        self._offsets = [0]
        for level in range(self.n_levels):
            self._offsets.append(self._offsets[-1] + self._vertices(level))
        drawn = (rng or make_rng(seed=_SEED)).uniform(
            self.dtype, self.n_params, -init_scale, init_scale
        )
        self.data = drawn

    def _at_least(self, name: str, value: Any, least: int) -> int:
        number = initialize.whole_number(self._name, name, value)
        return int(self._checked(name, number, least))

    def _checked(self, name: str, value: Any, least: int) -> Any:
        value = initialize.real_number(self._name, name, value)
        if not least <= value < math.inf:
            raise ArrayValueError(
                self._name, f"{name} is {value} (expected {least} or more)", "raise it."
            )
        return value

    def _settings(self) -> Iterable[Any]:
        # (Where levels begin follows from the rest.)
        return [v for k, v in vars(self).items() if k not in ("data", "_offsets")]

    def _rebuilt(self, items: list[Any]) -> HashEncoding:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        (made.data,) = items
        return made

    def _scale(self, level: int) -> float:
        """Return the number of cells along an axis, which may be no integer."""
        return float(self.base_resolution * self.per_level_scale**level - 1)

    def _resolution(self, level: int) -> int:
        return math.ceil(self._scale(level)) + 1

    def _vertices(self, level: int) -> int:
        """Return how many vertices of a level have features of their own."""
        step = self.n_features_per_level
        count = -(-(self._resolution(level) ** self.dimension) // step) * step
        return int(min(count, self.hashmap_size))

    @property
    def n_output_features(self) -> int:
        """Number of features of a point: those of all levels."""
        return int(self.n_levels * self.n_features_per_level)

    @property
    def n_params(self) -> int:
        """Number of parameters."""
        return int(self._offsets[-1] * self.n_features_per_level)

    @property
    def params(self) -> Any:
        """The features of all vertices."""
        return self.data

    @params.setter
    def params(self, values: Any) -> None:
        self.set_params(values)

    def set_params(self, values: Any) -> None:
        """Replace the features of all vertices.

        Args:
            values: as many, in an array that converts to `dtype`.
        """
        made = self.dtype(values)
        if len(made) != self.n_params:
            raise SizeError(
                f"{self._name}.set_params",
                f"{len(made)} parameters (expected {self.n_params})",
                "pass as many as the encoding has.",
            )
        self.data = made

    def level_offset(self, level_i: int) -> int:
        """Return the first vertex of a level; that behind the last one ends it."""
        return self._offsets[level_i]

    def hash(self, key: Any) -> Any:
        """Return a number for the position of a vertex, of 32 bits."""
        raise NotImplementedError

    def indexing_function(self, key: Any, level_i: int) -> Any:
        """Return where a vertex of a level has its features, in numbers of vertices.

        Args:
            key: position of the vertex: its coordinates, UInt32 arrays or ints.
            level_i: the level.
        """
        size = self._vertices(level_i)
        resolution = self._resolution(level_i)
        if resolution**self.dimension > self.hashmap_size:
            found = self.hash(key)
        else:
            found = sum(
                k * (resolution**axis & _WORD) for axis, k in enumerate(list(key))
            )
        return _wrapped(found) % size + self._offsets[level_i]

    def _corners(self, cell: list[Any], inside: list[Any]) -> list[tuple[Any, Any]]:
        """Return the vertices around a point of a cell, with their weights."""
        raise NotImplementedError

    def __call__(self, p: Any, active: Any = True) -> Any:
        """Return the features of points.

        Args:
            p: the points, from 0 to 1 along each axis: a static array, a `CoopVec`, or
                a sequence of flat arrays. Others are taken for points of grids that go
                on, whose vertices share features.
            active: mask; features are zero elsewhere.

        Returns:
            The features, those of one level behind each other: a dynamic array.

        Raises:
            SizeError: if points have another number of coordinates.
        """
        point = list(p)
        if len(point) != self.dimension:
            raise SizeError(
                self._name,
                f"points have {len(point)} coordinates (expected {self.dimension})",
                "pass one array for each dimension.",
            )
        shift = 0.5 if self._is_shifted else 0.0
        features: list[Any] = []
        for level in range(self.n_levels):
            place = [x * self._scale(level) + shift for x in point]
            below = [floor(x) for x in place]
            inside = [x - low for x, low in zip(place, below, strict=True)]
            cell = [_position(low) for low in below]
            features += self._interpolated(level, cell, inside, active)
        shape = (-1, -1) if self.dtype._spec.is_jit else (-1,)
        return replace_shape_t(self.dtype, shape)(features)

    @property
    def _is_shifted(self) -> bool:
        return not self.align_corners

    def _interpolated(
        self, level: int, cell: list[Any], inside: list[Any], active: Any
    ) -> list[Any]:
        count = self.n_features_per_level
        spec = self.dtype._spec
        entry = self.dtype if spec.is_jit else python_type(spec.dtype)
        totals: list[Any] = [0.0] * count
        for vertex, weight in self._corners(cell, inside):
            if self.smooth_weight_gradients:
                weight = _smoothed(weight, self.smooth_weight_lambda)
            first = self.indexing_function(vertex, level) * count
            found = gather_run(entry, self.data, first, count, active)
            totals = [t + weight * f for t, f in zip(totals, found, strict=True)]
        return [total if type(total) is entry else entry(total) for total in totals]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.dtype.__name__}, {self.dimension}, "
            f"n_levels={self.n_levels}, "
            f"n_features_per_level={self.n_features_per_level}, "
            f"hashmap_size={self.hashmap_size}, "
            f"base_resolution={self.base_resolution}, "
            f"per_level_scale={self.per_level_scale})"
        )


class HashGridEncoding(HashEncoding):
    """Features interpolated between the 2^D corners of a cell of each grid.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Array2f, Float
    >>> grid = dr.hashgrid.HashGridEncoding(Float, 2, n_levels=2, base_resolution=4)
    >>> grid.n_params, grid.n_output_features
    (160, 4)
    >>> grid(Array2f(0.25, 0.5)).shape
    (4, 1)
    """

    @property
    def _is_shifted(self) -> bool:
        return self.torchngp_compat or not self.align_corners

    def hash(self, key: Any) -> Any:
        """Return the exclusive or of the coordinates' products with primes."""
        found: Any = 0
        for k, prime in zip(list(key), _PRIMES, strict=False):
            found = _wrapped(k * prime) ^ found
        return found

    def _corners(self, cell: list[Any], inside: list[Any]) -> list[tuple[Any, Any]]:
        found = []
        for steps in product((0, 1), repeat=len(cell)):
            weight: Any = 1.0
            for step, x in zip(steps, inside, strict=True):
                weight = weight * (x if step else 1 - x)
            found.append(([c + s for c, s in zip(cell, steps, strict=True)], weight))
        return found


class PermutoEncoding(HashEncoding):
    """Features interpolated between the D + 1 corners of a simplex of each grid.

    A cell is cut into simplices along its diagonal: from the lowest corner, a path
    along the axes, in the order in which the point has gone furthest along them.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Array3f, Float
    >>> lattice = dr.hashgrid.PermutoEncoding(Float, 3, n_levels=4)
    >>> lattice(Array3f(0.25, 0.5, 0.75)).shape
    (8, 1)
    """

    def hash(self, key: Any) -> Any:
        """Return a polynomial of the coordinates."""
        found: Any = 0
        for k in list(key):
            found = _wrapped((k + found) * _FACTOR)
        return found

    def _corners(self, cell: list[Any], inside: list[Any]) -> list[tuple[Any, Any]]:
        # By axis, how many have gone further than it: its place on the path.
        count = len(cell)
        rank: list[Any] = [0] * count
        for i in range(count):
            for j in range(i):
                is_later = inside[i] > inside[j]
                rank[j] = rank[j] + select(is_later, 1, 0)
                rank[i] = rank[i] + select(is_later, 0, 1)
        sorted_ = [
            sum(select(rank[axis] == k, inside[axis], 0.0) for axis in range(count))
            for k in range(count)
        ]
        edges = [1.0, *sorted_, 0.0]
        found = []
        for k in range(count + 1):
            weight = edges[k] - edges[k + 1]
            vertex = [c + select(r < k, 1, 0) for c, r in zip(cell, rank, strict=True)]
            found.append((vertex, weight))
        return found


def _position(low: Any) -> Any:
    """Return a float without fraction as 32 bits; what is negative wraps around."""
    if not isinstance(low, ArrayBase):
        return int(low) & _WORD
    return uint32_array_t(type(low))(int32_array_t(type(low))(low))


def _wrapped(value: Any) -> Any:
    return value & _WORD if isinstance(value, int) else value


def _smoothed(weight: Any, much: float) -> Any:
    """Return a weight to whose derivatives those of a smooth ramp are added."""
    if isinstance(weight, float):
        return weight
    return replace_grad(weight, weight - 0.5 * much * cos(weight * math.pi))
