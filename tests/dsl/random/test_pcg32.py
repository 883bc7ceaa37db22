"""PCG32 against a plain Python transcription of the published generator."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError

MASK = (1 << 64) - 1


class Reference:
    """pcg32_srandom_r and pcg32_random_r of the paper's C code."""

    def __init__(self, state=0x853C49E6748FEA9B, sequence=0xDA3E39CB94B95BDB):
        self.state = 0
        self.inc = ((sequence << 1) | 1) & MASK
        self.next()
        self.state = (self.state + state) & MASK
        self.next()

    def next(self):
        old = self.state
        self.state = (old * 6364136223846793005 + self.inc) & MASK
        shifted = (((old >> 18) ^ old) >> 27) & 0xFFFFFFFF
        rotation = old >> 59
        return ((shifted >> rotation) | (shifted << (-rotation & 31))) & 0xFFFFFFFF

    def bounded(self, bound):
        threshold = (1 << 32) % bound
        while True:
            drawn = self.next()
            if drawn >= threshold:
                return drawn % bound


def test_the_published_demo():
    """The first numbers of pcg32-demo with its fixed seeds."""
    rng = scalar.PCG32(initstate=42, initseq=54)
    numbers = [rng.next_uint32() for _ in range(6)]
    assert numbers == [
        0xA15C02B7,
        0x7B47F409,
        0xBA1D3330,
        0x83D2F293,
        0xBFA4784B,
        0xCBED606E,
    ]


@pytest.mark.parametrize("space", [llvm, ad])
def test_streams_match_the_reference(space):
    size = 19
    rng = space.PCG32(size, 7, 11)
    references = [Reference(7 + k, 11 + k) for k in range(size)]
    for _ in range(4):
        assert list(rng.next_uint32()) == [r.next() for r in references]
    wide = [r.next() | (r.next() << 32) for r in references]
    assert list(rng.next_uint64()) == wide
    assert list(rng.state) == [r.state for r in references]
    assert list(rng.inc) == [r.inc for r in references]


def test_scalar_agrees_with_the_reference_and_with_llvm():
    one, many, reference = scalar.PCG32(), llvm.PCG32(), Reference()
    for _ in range(3):
        assert one.next_uint32() == many.next_uint32()[0] == reference.next()
    assert one.next_float32() == many.next_float32()[0]
    assert one.next_float64() == many.next_float64()[0]
    assert one.next_float16() == many.next_float16()[0]
    assert one.next_uint64() == many.next_uint64()[0]
    assert one.state == many.state[0]


def test_floats_come_from_the_upper_bits():
    rng, reference = llvm.PCG32(1000), [Reference(s, q) for s, q in seeds(1000)]
    bits = np.array([r.next() for r in reference], np.uint32)
    expected = ((bits >> 9) | 0x3F800000).view(np.float32) - 1
    np.testing.assert_array_equal(rng.next_float32().numpy(), expected)
    bits = np.array([r.next() for r in reference], np.uint64)
    np.testing.assert_array_equal(rng.next_float64().numpy(), bits / 2.0**32)
    half = rng.next_float16()
    assert isinstance(half, llvm.Float16)
    assert dr.all((half >= 0) & (half < 1))
    assert isinstance(rng.next_float(llvm.Array3f), llvm.Float)
    assert isinstance(rng.next_float(float), llvm.Float64)
    assert isinstance(rng.next_float(llvm.Float16), llvm.Float16)
    with pytest.raises(ArrayTypeError, match=r"PCG32\.next_float: the dtype"):
        rng.next_float(int)


def seeds(size):
    state, sequence = 0x853C49E6748FEA9B, 0xDA3E39CB94B95BDB
    return [((state + k) & MASK, (sequence + k) & MASK) for k in range(size)]


def test_masked_streams_do_not_step():
    rng = llvm.PCG32(3)
    before = list(rng.state)
    rng.next_float32(mask=llvm.Bool(True, False, True))
    after = list(rng.state)
    assert [a == b for a, b in zip(after, before, strict=True)] == [False, True, False]
    one = scalar.PCG32()
    state = one.state
    one.next_uint32(mask=False)
    assert one.state == state


@pytest.mark.parametrize("bound", [1, 2, 10, 3_000_000_000])
def test_bounded_numbers(bound):
    size = 50
    rng = llvm.PCG32(size)
    references = [Reference(s, q) for s, q in seeds(size)]
    for _ in range(2):
        expected = [r.bounded(bound) for r in references]
        assert list(rng.next_uint32_bounded(bound)) == expected
    one = scalar.PCG32()
    assert one.next_uint32_bounded(bound) == Reference().bounded(bound)
    assert one.next_uint64_bounded(bound) < bound


@pytest.mark.parametrize("bound", [0, -1, 2**32, 1.5])
def test_impossible_bounds(bound):
    with pytest.raises(ArrayValueError, match="the bound is"):
        llvm.PCG32().next_uint32_bounded(bound)


@pytest.mark.parametrize("space", [llvm, scalar])
@pytest.mark.parametrize("steps", [0, 1, 5, 12345, 2**63 + 1])
def test_jumps(space, steps):
    rng = space.PCG32()
    start = space.PCG32(rng)
    ahead = rng + steps
    if steps < 10:
        for _ in range(steps):
            rng.next_uint32()
        assert number(rng.state) == number(ahead.state)
    distance = ahead - start
    signed = steps - 2**64 if steps >= 2**63 else steps
    assert number(distance) == signed
    assert number((ahead - steps).state) == number(start.state)
    start += steps
    assert number(start.state) == number(ahead.state)


def number(value):
    return value[0] if isinstance(value, dr.ArrayBase) else value


def test_jumps_of_many_streams():
    rng = llvm.PCG32(3)
    ahead = rng + llvm.Int64(0, 1, 5)
    assert list(ahead - rng) == [0, 1, 5]
    ahead -= llvm.Int64(0, 1, 5)
    assert list(ahead.state) == list(rng.state)
    rng.next_uint32()
    rng.prev_uint32()
    assert list(rng.state) == list(ahead.state)


def test_generators_are_loop_state():
    rng = llvm.PCG32(4)
    expected = llvm.PCG32(4)
    total = sum((expected.next_float32() for _ in range(3)), llvm.Float(0))

    def body(i, rng, total):
        return i + 1, rng, total + rng.next_float32()

    _, rng, found = dr.while_loop(
        (llvm.UInt(0), rng, llvm.Float(0)), lambda i, rng, total: i < 3, body
    )
    np.testing.assert_array_equal(found.numpy(), total.numpy())
    assert list(rng.state) == list(expected.state)


def test_bad_seeds():
    with pytest.raises(SizeError, match="negative"):
        llvm.PCG32(-1)
    with pytest.raises(ArrayTypeError, match="as a seed"):
        scalar.PCG32(1, "a")


KINDS = ["float", "float16", "float32", "float64"]


@pytest.mark.parametrize("space", [scalar, llvm, ad])
@pytest.mark.parametrize("kind", KINDS)
def test_normal_numbers_are_at_the_quantiles_of_even_ones(space, kind):
    args = (space.Float64,) if kind == "float" else ()
    rng, other = space.PCG32(1000), space.PCG32(1000)
    even = getattr(rng, f"next_{kind}")(*args)
    normal = getattr(other, f"next_{kind}_normal")(*args)
    assert type(normal) is type(even)
    assert dr.allclose(dr.erf(normal / np.sqrt(2.0)) * 0.5 + 0.5, even, atol=1e-3)
    assert dr.all(rng.state == other.state)


@pytest.mark.parametrize("space", [scalar, llvm, ad])
@pytest.mark.parametrize("kind", [*KINDS, "uint64"])
def test_steps_back_return_the_same_numbers(space, kind):
    args = (space.Float,) if kind == "float" else ()
    for name in [kind] if kind == "uint64" else [kind, f"{kind}_normal"]:
        rng = space.PCG32(9)
        first = rng.state
        drawn = [getattr(rng, f"next_{name}")(*args) for _ in range(3)]
        back = [getattr(rng, f"prev_{name}")(*args) for _ in range(3)]
        for a, b in zip(drawn, reversed(back), strict=True):
            assert dr.all(a == b)
        assert dr.all(rng.state == first)


def test_normal_numbers_of_other_types_are_refused():
    with pytest.raises(ArrayTypeError, match="pass a floating-point type"):
        llvm.PCG32().next_float_normal(llvm.Int)
