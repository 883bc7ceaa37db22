"""PCG32, the random number generator of O'Neill, for every namespace.

Source: M. E. O'Neill, "PCG: A family of simple fast space-efficient statistically
good algorithms for random number generation" (2014); the variant is `pcg32`, with
the permutation XSH-RR, bit-exact with the published C implementation.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from lumijit import initialize
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.functions.bits import reinterpret_array, rotr
from lumijit.functions.creation import arange
from lumijit.functions.elementwise import minimum
from lumijit.functions.selection import select
from lumijit.functions.transcendental import erfinv
from lumijit.runtime.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    UINT32,
    UINT64,
    DType,
)
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.spec import SCALAR, ArraySpec, plain_spec, require
from lumijit.type_traits import uint64_array_t

INITIAL_STATE = 0x853C49E6748FEA9B
INITIAL_SEQUENCE = 0xDA3E39CB94B95BDB
MULTIPLIER = 0x5851F42D4C957F2D
_INVERSE = pow(MULTIPLIER, -1, 1 << 64)
_MASK64 = (1 << 64) - 1
_MASK32 = (1 << 32) - 1
_LARGEST_HALF = 1.0 - 2.0**-11


class PCG32Base:
    """What the generators of all namespaces share; use `lumijit.llvm.PCG32`.

    A generator holds one stream per element: with `size` > 1, the element's index
    is added to both seeds. It is a PyTree with the fields `state` and `inc`, so it
    can be a loop variable.

    >>> from lumijit.scalar import PCG32
    >>> rng = PCG32()
    >>> rng.next_uint32(), rng.next_uint32()
    (465482994, 3895364073)
    """

    DRJIT_STRUCT: ClassVar[dict[str, type[Any]]] = {}
    _word: ClassVar[ArraySpec] = plain_spec(SCALAR, False, UINT64)

    state: Any
    inc: Any

    def __init__(
        self,
        size: Any = 1,
        initstate: Any = INITIAL_STATE,
        initseq: Any = INITIAL_SEQUENCE,
    ) -> None:
        """Seed `size` streams, or copy another generator of the same class."""
        if isinstance(size, PCG32Base):
            self.state, self.inc = self._u64(size.state), self._u64(size.inc)
            return
        trace.check_size(initialize.whole_number("PCG32", "the size", size), "PCG32")
        offset: Any = 0
        if size != 1 and self._word.is_jit:
            offset = arange(self._type(UINT64), size)
        self.seed(
            self._wrap(self._u64(initstate) + offset),
            self._wrap(self._u64(initseq) + offset),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign a field; integers of other widths are converted."""
        dtype = value._spec.dtype if isinstance(value, ArrayBase) else UINT64
        if dtype is not UINT64 and dtype.is_int:
            value = uint64_array_t(value)(value)
        object.__setattr__(self, name, value)

    @classmethod
    def _lumijit_blank(cls) -> PCG32Base:
        """Return a generator whose fields are assigned next."""
        is_ours = cls.__init__ is PCG32Base.__init__
        return cls.__new__(cls) if is_ours else cls()

    def seed(
        self, initstate: Any = INITIAL_STATE, initseq: Any = INITIAL_SEQUENCE
    ) -> None:
        """Start anew from a state and the number of a sequence."""
        self.inc = self._wrap((self._u64(initseq) << 1) | 1)
        first = self.inc
        self.state = self._wrap((first + self._u64(initstate)) * MULTIPLIER + self.inc)

    @classmethod
    def _type(cls, dtype: Any) -> type[Any]:
        return require(cls._word.flat(dtype), "PCG32")

    def _u64(self, value: Any) -> Any:
        """Convert to a new 64-bit value; Python ints wrap around."""
        if initialize.is_integer(value):
            value = int(value) & _MASK64
        elif not _has_integers(value):
            raise ArrayTypeError(
                "PCG32", f"can't use {value!r} as a seed", "pass an int."
            )
        if not self._word.is_jit:
            return self._scalar(value)
        return self._type(UINT64)(value)

    @staticmethod
    def _scalar(value: Any) -> int:
        if isinstance(value, ArrayBase):
            value = value.item()
        return int(value) & _MASK64

    def _wrap(self, value: Any) -> Any:
        """Cut the scalar namespace's Python ints to 64 bits."""
        return value & _MASK64 if issubclass(value.__class__, int) else value

    def _u32(self, value: Any) -> Any:
        if issubclass(value.__class__, int):
            return value & _MASK32
        return self._type(UINT32)(value)

    def _advance(self, mask: Any) -> Any:
        """Step the state where the mask is set; return the state before."""
        old = self.state
        new = self._wrap(old * MULTIPLIER + self.inc)
        self.state = new if mask is True else select(mask, new, old)
        return old

    def _output(self, state: Any) -> Any:
        """Permute a state to the 32 bits that are handed out."""
        shifted = self._u32(((state >> 18) ^ state) >> 27)
        rotation = self._u32(state >> 59)
        return rotr(shifted, rotation)

    def next_uint32(self, mask: Any = True) -> Any:
        """Return 32 random bits; streams whose mask isn't set don't step."""
        return self._output(self._advance(mask))

    def prev_uint32(self, mask: Any = True) -> Any:
        """Step back and return the 32 bits handed out by the undone step."""
        old = self._wrap((self.state - self.inc) * _INVERSE)
        self.state = old if mask is True else select(mask, old, self.state)
        return self._output(old)

    def next_uint64(self, mask: Any = True) -> Any:
        """Return 64 random bits, the first step's in the low half."""
        low = self._u64(self.next_uint32(mask))
        high = self._u64(self.next_uint32(mask))
        return self._wrap(low | (high << 32))

    def prev_uint64(self, mask: Any = True) -> Any:
        """Undo `next_uint64`, and return its bits."""
        high = self._u64(self.prev_uint32(mask))
        low = self._u64(self.prev_uint32(mask))
        return self._wrap(low | (high << 32))

    def next_uint32_bounded(self, bound: Any, mask: Any = True) -> Any:
        """Return a random integer in [0, bound), each equally likely.

        Draws again where the number lies in an incomplete last interval.
        """
        return self._bounded(bound, 32, mask)

    def next_uint64_bounded(self, bound: Any, mask: Any = True) -> Any:
        """Return a 64-bit random integer in [0, bound), each equally likely."""
        return self._bounded(bound, 64, mask)

    def _bounded(self, bound: Any, bits: int, mask: Any) -> Any:
        if not initialize.is_integer(bound) or not 0 < bound < 1 << bits:
            raise ArrayValueError(
                "PCG32.next_uint_bounded",
                f"the bound is {bound!r} (expected an int from 1 to 2**{bits} - 1)",
                "pass a positive Python int.",
            )
        first = (1 << bits) % int(bound)
        drawn = self._draw(bits, mask)
        if first == 0:
            return drawn % bound
        rejected = (drawn < first) & mask

        def draw_again(state: Any, drawn: Any, active: Any) -> tuple[Any, Any, Any]:
            rng = self._like(state)
            new = rng._draw(bits, active)
            drawn = select(active, new, drawn)
            return rng.state, drawn, active & (drawn < first)

        from lumijit.control.loop import run_loop

        # (What the functions hold is this generator, which they leave as it is.)
        self.state, drawn, _ = run_loop(
            (self.state, drawn, rejected),
            lambda state, drawn, active: active,
            draw_again,
        )
        return drawn % bound

    def _draw(self, bits: int, mask: Any) -> Any:
        return self.next_uint32(mask) if bits == 32 else self.next_uint64(mask)

    def next_float(self, dtype: type[Any], mask: Any = True) -> Any:
        """Return a random number in [0, 1) in the precision of a type."""
        return self._float(_precision(dtype), self.next_uint32(mask))

    def next_float16(self, mask: Any = True) -> Any:
        """Return a random number in [0, 1), rounded to half precision."""
        return self._float(FLOAT16, self.next_uint32(mask))

    def next_float32(self, mask: Any = True) -> Any:
        """Return a random number in [0, 1) with 23 bits, in single precision."""
        return self._float(FLOAT32, self.next_uint32(mask))

    def next_float64(self, mask: Any = True) -> Any:
        """Return a random number in [0, 1) with 32 bits, in double precision."""
        return self._float(FLOAT64, self.next_uint32(mask))

    def next_float_normal(self, dtype: type[Any], mask: Any = True) -> Any:
        """Return a standard normal number in the precision of a type."""
        return self._normal(_precision(dtype), self.next_uint32(mask))

    def next_float16_normal(self, mask: Any = True) -> Any:
        """Return a standard normal number, rounded to half precision."""
        return self._normal(FLOAT16, self.next_uint32(mask))

    def next_float32_normal(self, mask: Any = True) -> Any:
        """Return a standard normal number, from 23 bits, in single precision."""
        return self._normal(FLOAT32, self.next_uint32(mask))

    def next_float64_normal(self, mask: Any = True) -> Any:
        """Return a standard normal number, from 32 bits, in double precision."""
        return self._normal(FLOAT64, self.next_uint32(mask))

    def prev_float(self, dtype: type[Any], mask: Any = True) -> Any:
        """Step back, and return what `next_float` did for the undone step."""
        return self._float(_precision(dtype), self.prev_uint32(mask))

    def prev_float16(self, mask: Any = True) -> Any:
        """Step back, and return what `next_float16` did."""
        return self._float(FLOAT16, self.prev_uint32(mask))

    def prev_float32(self, mask: Any = True) -> Any:
        """Step back, and return what `next_float32` did."""
        return self._float(FLOAT32, self.prev_uint32(mask))

    def prev_float64(self, mask: Any = True) -> Any:
        """Step back, and return what `next_float64` did."""
        return self._float(FLOAT64, self.prev_uint32(mask))

    def prev_float_normal(self, dtype: type[Any], mask: Any = True) -> Any:
        """Step back, and return what `next_float_normal` did."""
        return self._normal(_precision(dtype), self.prev_uint32(mask))

    def prev_float16_normal(self, mask: Any = True) -> Any:
        """Step back, and return what `next_float16_normal` did."""
        return self._normal(FLOAT16, self.prev_uint32(mask))

    def prev_float32_normal(self, mask: Any = True) -> Any:
        """Step back, and return what `next_float32_normal` did."""
        return self._normal(FLOAT32, self.prev_uint32(mask))

    def prev_float64_normal(self, mask: Any = True) -> Any:
        """Step back, and return what `next_float64_normal` did."""
        return self._normal(FLOAT64, self.prev_uint32(mask))

    def _float(self, dtype: Any, word: Any) -> Any:
        """Return the number in [0, 1) that 32 random bits stand for."""
        if dtype is FLOAT16:
            return minimum(self._half(self._float(FLOAT32, word)), _LARGEST_HALF)
        if dtype is FLOAT32:
            bits = (word >> 9) | 0x3F800000
        else:
            bits = (self._u64(word) << 20) | 0x3FF0000000000000
        if issubclass(bits.__class__, int):
            return _from_bits(dtype, bits) - 1.0
        return reinterpret_array(self._type(dtype), bits) - 1.0

    def _normal(self, dtype: Any, word: Any) -> Any:
        """Return the normal number at a random quantile."""
        if dtype is FLOAT16:
            return self._half(self._normal(FLOAT32, word))
        return math.sqrt(2) * erfinv(self._float(dtype, word) * 2 - 1)

    def _half(self, value: Any) -> Any:
        if issubclass(value.__class__, float):
            return FLOAT16.wrap(value)
        return self._type(FLOAT16)(value)

    def _jump(self, delta: Any) -> tuple[Any, Any]:
        """Return (a, b) so that `delta` steps are state * a + inc * b.

        Source: F. Brown, "Random number generation with arbitrary strides" (1994).
        """
        if initialize.is_integer(delta):
            return _jump_of_int(int(delta) & _MASK64)
        if not _has_integers(delta):
            raise ArrayTypeError(
                "PCG32",
                f"can't take {delta!r} steps",
                "pass an int, or an array of integers.",
            )
        steps = self._u64(self._type(INT64)(delta))
        factor: Any = self._u64(1)
        offset: Any = self._u64(0)
        power, total = MULTIPLIER, 1
        for bit in range(64):
            chosen = (steps & (1 << bit)) != 0
            offset = select(chosen, offset * power + total, offset)
            factor = select(chosen, factor * power, factor)
            total = (total * (power + 1)) & _MASK64
            power = power * power & _MASK64
        return factor, offset

    def _like(self, state: Any) -> Any:
        result = object.__new__(type(self))
        result.state = state
        result.inc = self.inc
        return result

    def __add__(self, steps: Any) -> Any:
        """Return a generator that is `steps` steps ahead."""
        factor, offset = self._jump(steps)
        return self._like(self._wrap(self.state * factor + self.inc * offset))

    def __iadd__(self, steps: Any) -> Any:
        """Step ahead."""
        self.state = (self + steps).state
        return self

    def __sub__(self, other: Any) -> Any:
        """Step back; or, for another generator, count the steps from it to here."""
        if isinstance(other, PCG32Base):
            return self._distance(other)
        return self + (-other if hasattr(other, "__neg__") else other)

    def __isub__(self, steps: Any) -> Any:
        """Step back."""
        self.state = (self - steps).state
        return self

    def _distance(self, other: Any) -> Any:
        """Find the number of steps bit by bit, lowest first."""
        state: Any = other.state
        power: Any = self._u64(MULTIPLIER)
        plus: Any = self.inc
        distance: Any = self._u64(0)
        for bit in range(64):
            differs = ((self.state ^ state) & (1 << bit)) != 0
            state = select(differs, self._wrap(state * power + plus), state)
            distance = select(differs, distance | (1 << bit), distance)
            plus = self._wrap((power + 1) * plus)
            power = self._wrap(power * power)
        if issubclass(distance.__class__, int):
            return INT64.wrap(distance)
        return self._type(INT64)(distance)


def _has_integers(value: Any) -> bool:
    """Tell whether a value is an array of integers, also one of another library."""
    if isinstance(value, ArrayBase):
        return value._spec.dtype.is_int
    return initialize.offers_array(value) and np.asarray(value).dtype.kind in "iu"


def _precision(dtype: Any) -> DType:
    spec = getattr(dtype, "_spec", None)
    entry = FLOAT64 if dtype is float else getattr(spec, "dtype", None)
    if entry in (FLOAT16, FLOAT32, FLOAT64):
        return entry
    raise ArrayTypeError(
        "PCG32.next_float", f"the dtype is {dtype!r}", "pass a floating-point type."
    )


def _from_bits(dtype: DType, bits: int) -> float:
    return float(np.array(bits, f"u{dtype.size_bytes}").view(f"f{dtype.size_bytes}"))


def _jump_of_int(steps: int) -> tuple[int, int]:
    factor, offset = 1, 0
    power, total = MULTIPLIER, 1
    while steps:
        if steps & 1:
            offset = (offset * power + total) & _MASK64
            factor = factor * power & _MASK64
        total = total * (power + 1) & _MASK64
        power = power * power & _MASK64
        steps >>= 1
    return factor, offset


def make_pcg32(spec: ArraySpec) -> type[PCG32Base]:
    """Make the generator class of a namespace, whose words are of type `spec`."""
    word = require(spec, "PCG32")
    body = {
        "__module__": f"lumijit.{spec.namespace}",
        "__doc__": PCG32Base.__doc__,
        "DRJIT_STRUCT": {"state": word, "inc": word},
        "_word": spec,
    }
    return type("PCG32", (PCG32Base,), body)
