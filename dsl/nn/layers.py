"""Modules without parameters: activation functions, conversions and encodings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.elementwise import maximum
from lumijit.functions.elementwise import round as round_
from lumijit.functions.selection import select
from lumijit.functions.transcendental import cos, exp, exp2, sin, tanh
from lumijit.initialize import real_number, whole_number
from lumijit.nn.modules import Module
from lumijit.nn.vectors import CoopVec
from lumijit.random.generator import Generator
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.spec import TENSOR
from lumijit.tensors.joining import stack
from lumijit.traits import type_v
from lumijit.type_traits import replace_type_t


def _each(function: Callable[[Any], Any], arg: Any) -> Any:
    """Apply a function to each component of a vector, or to an array."""
    return arg._map(function, (arg,)) if isinstance(arg, CoopVec) else function(arg)


class Cast(Module):
    """Converts to another type of floats.

    Args:
        dtype: array type, such as `lumijit.llvm.ad.Float16`.
    """

    def __init__(self, dtype: type[Any] | None = None) -> None:
        """Note the type."""
        if not getattr(getattr(dtype, "_spec", None), "dtype", None):
            raise ArrayTypeError(
                "lumijit.nn.Cast",
                f"{dtype!r} is no array type",
                "pass one, such as lumijit.llvm.ad.Float16.",
            )
        self.dtype: Any = dtype

    def __call__(self, arg: Any, /) -> Any:
        """Convert the components."""
        return _each(lambda x: replace_type_t(type(x), type_v(self.dtype))(x), arg)

    def __repr__(self) -> str:
        return f"Cast(dtype={self.dtype.__name__})"


class ReLU(Module):
    """Rectified linear units: max(x, 0)."""

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to each component."""
        return maximum(arg, 0)


class LeakyReLU(Module):
    """x where it isn't negative, and `negative_slope * x` elsewhere."""

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"negative_slope": Any}

    def __init__(self, negative_slope: Any = 0.01) -> None:
        """Note the slope, a number or an array."""
        self.negative_slope = negative_slope

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to each component."""
        slope = self.negative_slope
        return _each(lambda x: select(x >= 0, x, x * slope), arg)

    def _parameters(self) -> Any:
        return iter(())


class Exp(Module):
    """The exponential function."""

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to each component."""
        return exp(arg)


class Exp2(Module):
    """Powers of two."""

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to each component."""
        return exp2(arg)


class Tanh(Module):
    """The hyperbolic tangent."""

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to each component."""
        return tanh(arg)


class Sigmoid(Module):
    """The logistic function, 1 / (1 + exp(-x))."""

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to each component."""
        return _each(lambda x: 0.5 * tanh(0.5 * x) + 0.5, arg)


class ScaleAdd(Module):
    """x * scale + offset; either may be missing. These are no parameters."""

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"scale": Any, "offset": Any}

    def __init__(self, scale: Any = None, offset: Any = None) -> None:
        """Note factor and summand, numbers or arrays."""
        self.scale = scale
        self.offset = offset

    def __call__(self, arg: Any, /) -> Any:
        """Apply the function to each component."""
        if self.scale is not None:
            arg = arg * self.scale
        return arg if self.offset is None else arg + self.offset

    def _parameters(self) -> Any:
        return iter(())


class _Encoding(Module):
    """Waves of growing frequency, two for each component and octave."""

    def __init__(self, octaves: int = 0, shift: float = 0) -> None:
        """Note how many octaves there are, and by what part of a period each moves."""
        name = type(self).__name__
        if whole_number(name, "octaves", octaves) < 0:
            raise SizeError(name, f"{octaves} octaves", "pass 1 or more.")
        real_number(name, "shift", shift)
        self.octaves = octaves
        self.shift = shift
        self.channels = -1

    def _waves(self, phase: Any) -> tuple[Any, Any]:
        """Return sine and cosine of a phase in periods."""
        raise NotImplementedError

    def __call__(self, arg: Any, /) -> Any:
        """Encode the components of a vector, or the rows of a tensor."""
        if not self.octaves:
            raise SizeError(
                type(self).__name__, "there are 0 octaves", "pass 1 or more."
            )
        found = [
            wave
            for x in arg
            for k in range(self.octaves)
            for wave in self._waves(x * float(1 << k) + k * self.shift)
        ]
        if isinstance(arg, CoopVec):
            return CoopVec._of(found)
        if getattr(getattr(arg, "_spec", None), "kind", None) is not TENSOR:
            raise ArrayTypeError(
                type(self).__name__,
                f"can't encode a {type(arg).__name__!r}",
                "pass a CoopVec or a tensor.",
            )
        return stack(found)

    def _alloc(self, dtype: Any, size: int, rng: Generator, /) -> tuple[Module, int]:
        if size < 1:
            raise SizeError(
                type(self).__name__,
                "the input's size isn't known",
                "pass it: net.alloc(TensorXf, size).",
            )
        made = type(self)(self.octaves, self.shift)
        made.channels = size
        return made, 2 * self.octaves * size

    def __repr__(self) -> str:
        count = 2 * self.octaves * self.channels
        return (
            f"{type(self).__name__}(octaves={self.octaves}, shift={self.shift}, "
            f"in_channels={self.channels}, out_features={count})"
        )


class SinEncode(_Encoding):
    """Sines and cosines of 2 pi (2^k x + k shift), for each octave k of each component.

    The encoding has period 1. With a shift (in periods), the extremes of different
    octaves don't coincide.

    Args:
        octaves: how many frequencies.
        shift: by how much each octave moves.
    """

    def _waves(self, phase: Any) -> tuple[Any, Any]:
        angle = phase * (2 * math.pi)
        return sin(angle), cos(angle)


class TriEncode(_Encoding):
    """Triangle waves in place of the sines and cosines of `SinEncode`.

    The cosine is 1 - 4 |x - round(x)|, the sine that of x - 1/4.

    Args:
        octaves: how many frequencies.
        shift: by how much each octave moves.
    """

    def _waves(self, phase: Any) -> tuple[Any, Any]:
        return _triangle(phase - 0.25), _triangle(phase)


def _triangle(x: Any) -> Any:
    return 1 - 4 * abs_(x - round_(x))
