"""`rng`: random arrays as NumPy's generators make them, from a counter.

Entry i of the k-th array that a generator makes is a function of i, k and its seed:
Philox 4x32 with 7 rounds. So arrays take no memory, and in which order entries are
computed, and on how many threads, makes no difference.
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lumijit import auto, initialize
from lumijit.base import ArrayBase
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.functions.creation import Shape, arange, array_sizes, check_dimensions
from lumijit.functions.elementwise import fma, sqrt
from lumijit.functions.evaluation import schedule
from lumijit.functions.gathering import rearranged
from lumijit.functions.products import mul_hi
from lumijit.functions.selection import select
from lumijit.functions.sorting import argsort
from lumijit.functions.transcendental import cos, log
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.dtypes import FLOAT64
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.scalar import ArrayXf64
from lumijit.scalar_arrays import HostArray
from lumijit.spec import TENSOR
from lumijit.type_traits import (
    float32_array_t,
    int64_array_t,
    tensor_t,
    uint32_array_t,
    uint64_array_t,
)

Words = tuple[Any, Any, Any, Any]
# Makes the entries of a flat type from random words.
Make = Callable[[Any, Words], Any]

_FACTORS = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 7
_MASK64 = (1 << 64) - 1


def philox(counter: Words, key: tuple[Any, Any], rounds: int = ROUNDS) -> Words:
    """Return 128 random bits for a counter and a key: all are UInt32 arrays."""
    (a, b, c, d), (k, n) = counter, key
    for _ in range(rounds):
        first, second = a * _FACTORS[0], c * _FACTORS[1]
        a, c = mul_hi(c, _FACTORS[1]) ^ b ^ k, mul_hi(a, _FACTORS[0]) ^ d ^ n
        b, d = second, first
        k, n = k + _STEPS[0], n + _STEPS[1]
    return a, b, c, d


@dataclass
class Generator:
    """Makes random arrays; a PyTree, which can be a variable of loops and branches.

    Within these, the entries that elements get differ if their seeds or the places in
    the array do: ask for as many as there are elements, or give each one a seed.

    >>> import lumijit as dr
    >>> rng = dr.rng(seed=1)
    >>> len(rng.random(dr.llvm.Float, 10))
    10
    """

    seed: Any
    counter: Any

    def clone(self) -> Generator:
        """Return a generator that will make the same arrays."""
        return Generator(type(self.seed)(self.seed), type(self.counter)(self.counter))

    def random(self, dtype: Any, shape: Shape = 1) -> Any:
        """Draw floats, evenly from [0, 1).

        Args:
            dtype: array type of floats, or float.
            shape: size of the vectorized dimension, or all dimensions.

        Returns:
            Multiples of 2⁻¹¹, 2⁻²⁴ or 2⁻⁵³ (half, single and double precision).

        Raises:
            ArrayTypeError: if the type isn't one of floats.
        """
        _check_floats("rng.random", dtype)
        return self._filled("rng.random", dtype, shape, _unit)

    def uniform(
        self, dtype: Any, shape: Shape = 1, low: Any = 0.0, high: Any = 1.0
    ) -> Any:
        """Draw floats, evenly from [low, high).

        Args:
            dtype: array type of floats, or float.
            shape: size of the vectorized dimension, or all dimensions.
            low: the least value, number or array.
            high: the end of the interval, number or array.

        Raises:
            ArrayTypeError: if the type isn't one of floats.
            ArrayValueError: if the interval is empty.
        """
        construct = "rng.uniform"
        _check_floats(construct, dtype)
        _check_interval(construct, low, high, True)
        drawn = self._filled(construct, dtype, shape, _unit)
        value = fma(drawn, high - low, low)
        return select(value < high, value, low)

    def normal(
        self, dtype: Any, shape: Shape = 1, loc: Any = 0.0, scale: Any = 1.0
    ) -> Any:
        """Draw floats from a normal distribution, by the method of Box and Muller.

        Args:
            dtype: array type of floats, or float.
            shape: size of the vectorized dimension, or all dimensions.
            loc: mean, number or array.
            scale: standard deviation, number or array.

        Raises:
            ArrayTypeError: if the type isn't one of floats.
        """
        _check_floats("rng.normal", dtype)
        return fma(self._filled("rng.normal", dtype, shape, _normal), scale, loc)

    def integers(
        self,
        dtype: Any,
        shape: Shape = 1,
        low: Any = 0,
        high: Any = None,
        endpoint: bool = False,
    ) -> Any:
        """Draw integers, each from [low, high) equally likely.

        Args:
            dtype: array type of integers, or int.
            shape: size of the vectorized dimension, or all dimensions.
            low: the least value, int or flat array; without `high`, the end of the
                interval, which begins at 0.
            high: the end of the interval, int or flat array.
            endpoint: whether the end may be drawn.

        Returns:
            The integers; the chances differ by less than 2⁻⁶⁴.

        Raises:
            ArrayTypeError: if the type isn't one of integers.
            ArrayValueError: if the interval is empty, or the type has no such values.
        """
        construct = "rng.integers"
        entry = getattr(getattr(dtype, "_spec", None), "dtype", None)
        if dtype is not int and (entry is None or not entry.is_int):
            raise _wrong_type(construct, dtype, "integers")
        if high is None:
            low, high = 0, low
        _check_interval(construct, low, high, endpoint)
        for end in (low, high - (not endpoint)):
            if entry is not None and isinstance(end, int):
                initialize.number(end, entry, construct)

        def make(flat: Any, words: Words) -> Any:
            wide = uint64_array_t(flat)
            first, last = _wrapped(wide, low), _wrapped(wide, high)
            count = last - first + int(endpoint)
            return flat(first + _below(count, *_pairs(words)))

        return self._filled(construct, dtype, shape, make)

    def permutation(self, x: Any, n: Any = 0) -> Any:
        """Shuffle: the numbers below n, or the entries of an array.

        Args:
            x: flat array type of integers, flat array, or tensor, of which the items
                along the first axis are shuffled.
            n: how many numbers there are, if `x` is a type.

        Raises:
            ArrayTypeError: for anything else.
        """
        construct = "rng.permutation"
        kind = x if isinstance(x, type) else type(x)
        if not issubclass(kind, ArrayBase) or issubclass(kind, NestedArray):
            raise _wrong_type(construct, kind, "a flat array or tensor")
        if kind is x:
            return x(self._order(construct, uint32_array_t(x), n))
        if not x.ndim:
            raise _wrong_type(construct, kind, "a flat array or tensor")
        order = self._order(construct, uint32_array_t(type(x.array)), len(x))
        if x._spec.kind is not TENSOR:
            return rearranged(x, order)
        length = math.prod(x.shape[1:])
        at = arange(type(order), len(x) * length)
        row = rearranged(order, at // max(length, 1))
        place = row * length + at % max(length, 1)
        return type(x)(rearranged(x.array, place), x.shape)

    def _order(self, construct: str, cls: Any, n: int) -> Any:
        return argsort(self._filled(construct, cls, n, lambda _, words: words[0]))

    def _filled(self, construct: str, dtype: Any, shape: Shape, make: Make) -> Any:
        """Make an array of the words that are its entries' turn."""
        counter = self.counter
        self.counter = counter + 1
        node = getattr(self.counter, "_node", None)
        is_computed = node is not None and node.op is not LITERAL
        if is_computed and not self.counter._is_symbolic():
            schedule(self.counter)
        if not (isinstance(dtype, type) and issubclass(dtype, ArrayBase)):
            check_dimensions(construct, shape)
            return dtype(self._entries(ArrayXf64, counter, 1, 0, make).item())
        sizes = array_sizes(construct, dtype, shape)
        return self._nested(dtype, counter, sizes, 0, make)

    def _nested(
        self, dtype: Any, counter: Any, sizes: Sequence[int], first: int, make: Make
    ) -> Any:
        if dtype._spec.kind is TENSOR:
            flat = dtype._flat_class()
            entries = self._entries(flat, counter, math.prod(sizes), first, make)
            return dtype(entries, sizes)
        if not issubclass(dtype, NestedArray):
            return self._entries(dtype, counter, sizes[0], first, make)
        step = math.prod(sizes[1:])
        items = [
            self._nested(dtype._item, counter, sizes[1:], first + k * step, make)
            for k in range(sizes[0])
        ]
        return wrap_nested(dtype, items)

    def _entries(
        self, dtype: Any, counter: Any, size: int, first: int, make: Make
    ) -> Any:
        flat = tensor_t(dtype)._flat_class()
        word = uint32_array_t(flat)
        index = arange(word, size) + first
        seed = uint64_array_t(flat)(self.seed)
        key = word(seed), word(seed >> 32)
        found = make(flat, philox((index, word(counter), word(0), word(0)), key))
        return dtype(found) if isinstance(found, HostArray) else found


def _wrapped(wide: Any, value: Any) -> Any:
    if isinstance(value, ArrayBase):
        return (
            wide(int64_array_t(wide)(value))
            if value._spec.dtype.is_signed
            else wide(value)
        )
    return wide(int(value) & _MASK64)


def _pairs(words: Words) -> tuple[Any, Any]:
    """Return random bits in words of 64."""
    wide = uint64_array_t(words[0])
    a, b, c, d = (wide(word) for word in words)
    return a | (b << 32), c | (d << 32)


def _below(count: Any, high: Any, low: Any) -> Any:
    """Scale 128 random bits to numbers below 64-bit ones; 0 stands for 2^64."""
    rest, carry = high * count, mul_hi(low, count)
    scaled = mul_hi(high, count) + select(rest + carry < carry, 1, type(count)(0))
    return select(count == 0, high, scaled)


def _unit(flat: Any, words: Words) -> Any:
    bits = flat._spec.dtype.bits
    if bits == 64:
        return flat(_pairs(words)[0] >> 11) * 2.0**-53
    kept = 24 if bits == 32 else 11
    return flat(words[0] >> (32 - kept)) * 2.0**-kept


def _normal(flat: Any, words: Words) -> Any:
    if flat._spec.dtype is FLOAT64:
        distance, angle = (flat(pair >> 11) * 2.0**-53 for pair in _pairs(words))
        distance = distance + 2.0**-54
    else:
        single = float32_array_t(flat)
        distance = fma(single(words[0]), 2.0**-32, 2.0**-33)
        angle = single(words[1] >> 8) * 2.0**-24
    return flat(sqrt(-2 * log(distance)) * cos(angle * (2 * math.pi)))


def _check_floats(construct: str, dtype: Any) -> None:
    entry = getattr(getattr(dtype, "_spec", None), "dtype", None)
    if dtype is not float and (entry is None or not entry.is_float):
        raise _wrong_type(construct, dtype, "floats")


def _wrong_type(construct: str, dtype: Any, wanted: str) -> ArrayTypeError:
    return ArrayTypeError(
        construct,
        f"the type is {getattr(dtype, '__name__', dtype)!r} (expected {wanted})",
        "pass a type such as lumijit.llvm.Float (floats) or lumijit.llvm.UInt.",
    )


def _check_interval(construct: str, low: Any, high: Any, is_closed: bool) -> None:
    if isinstance(low, ArrayBase) or isinstance(high, ArrayBase):
        return
    if not (low <= high if is_closed else low < high):
        raise ArrayValueError(
            construct,
            f"there is nothing from {low!r} to {high!r}",
            "pass a smaller number first.",
        )


def rng(seed: Any = 0, method: str = "philox4x32", symbolic: bool = False) -> Generator:
    """Make a generator of random arrays.

    Args:
        seed: int, or UInt64 array: one for each element.
        method: only "philox4x32".
        symbolic: accepted; what a generator remembers is never computed on its own.

    Returns:
        A generator with `random`, `uniform`, `normal`, `integers` and `permutation`.

    Raises:
        ArrayTypeError: if the seed isn't an int or an array of integers.
        ArrayValueError: if there is no such method.

    >>> import lumijit as dr
    >>> dr.rng(seed=3).integers(dr.llvm.UInt, 4, high=10)
    [2, 3, 5, 6]
    """
    del symbolic
    if method != "philox4x32":
        raise ArrayValueError(
            "lumijit.rng", f"the method is {method!r}", "leave it out: 'philox4x32'."
        )
    if isinstance(seed, ArrayBase) and seed._spec.dtype.is_int:
        seed = uint64_array_t(seed)(seed)
    elif initialize.is_number(seed) and isinstance(seed, int):
        seed = auto.UInt64(seed & _MASK64)
    else:
        raise ArrayTypeError(
            "lumijit.rng", f"the seed is {seed!r}", "pass an int or a UInt64 array."
        )
    return Generator(seed, uint32_array_t(seed)(0))
