"""Names that exchange arrays in loops, and change them in place, as in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Array2f, Float, UInt
from lumijit.runtime.errors import StateError

from ..programs.modes import flags_of
from ..syntax.lanes import define

MODES = ("symbolic", "evaluated", "compressed")


@pytest.fixture(params=MODES, autouse=True)
def flags(request: pytest.FixtureRequest) -> Iterator[str]:
    with flags_of(request.param):
        yield request.param


EXCHANGES = {
    "u, v = v, u; v += x": True,
    "v += x; u, v = v + x, u": True,
    "v += x; u, v, w = w, u, v": True,
    "u *= 2; v += x; u, v = v, u": True,
    "v += x; u, v, w = v + x, u, v * 2": True,
    "v += x; w = v; v = u + 1": True,
    "t = u; t += x": True,
    "u += x; u = v = u + x": True,
    "u += x; v = w = u; u = u * 2; w += 1": True,
    "w += w; u, v, w = v, w, u; t = v; t += x": True,
    # Two names are one array from the second turn on.
    "u += x; u = v": False,
    "u += x; u = v; v = w": False,
    "u += x; u, v, w = v, v, w + 1": False,
    "v += x; v = u": False,
}


class Plain:
    """A number that `+=` changes in place, as arrays do."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __iadd__(self, other: Any) -> Plain:
        self.value += other.value if isinstance(other, Plain) else other
        return self

    def __imul__(self, factor: float) -> Plain:
        self.value *= factor
        return self

    def __add__(self, other: Any) -> Plain:
        return Plain(self.value + (other.value if isinstance(other, Plain) else other))

    def __mul__(self, factor: float) -> Plain:
        return Plain(self.value * factor)


TURNS = range(6)
REFUSED = "are one array in some iterations"


def compiled(body: str) -> tuple[Any, list[list[float]]]:
    """Return the vectorized function of a body, and what plain Python gives by turns.

    That is the caller's three arrays, then the results.
    """
    code = "def f(u, v, w, n, x):\n    while n > 0:\n        {}\n        n -= 1\n"
    plain = define(code.format(body) + "    return u, v, w\n")
    expected = []
    for n in TURNS:
        own = [Plain(k) for k in (10, 20, 30)]
        found = plain(*own, n, Plain(1))
        expected.append([v.value for v in (*own, *found)])
    return dr.syntax(plain), expected


def run(vectorized: Any, arrays: list[Any], is_nested: bool) -> list[list[float]]:
    """Run a body and return the caller's arrays and its results, by turns."""
    if is_nested:
        arrays = [Array2f(a, a + 100) for a in arrays]
    x: Any = Array2f(1) if is_nested else Float(1)
    found = [*arrays, *vectorized(*arrays, UInt(TURNS), x)]
    flat = [v.x if is_nested else v for v in found]
    columns = [[v[k % len(v)] for k in TURNS] for v in flat]
    return list(map(list, zip(*columns, strict=True)))


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("body", EXCHANGES)
def test_they_are_those_of_plain_python(body: str, is_nested: bool) -> None:
    """The names' results, and what becomes of the caller's arrays."""
    vectorized, expected = compiled(body)
    arrays: list[Any] = [Float(k) + dr.zeros(Float, 6) for k in (10, 20, 30)]
    if not EXCHANGES[body]:
        with pytest.raises(StateError, match=REFUSED):
            run(vectorized, arrays, is_nested)
        return
    assert run(vectorized, arrays, is_nested) == expected


def drawn(rng: random.Random) -> str:
    """Return some statements about three names."""

    def statement() -> str:
        a, b, c = (rng.choice("uvw") for _ in range(3))
        forms = (f"{a} += x", f"{a} += {b}", f"{a} = {b}", f"{a} = {b} + x")
        moves = (f"{a}, {b} = {b}, {a}", "u, v, w = v, w, u", f"t = {a}; t += x")
        return rng.choice((*forms, *moves, f"{a} = {b} + {c}"))

    return "; ".join(statement() for _ in range(rng.randint(1, 4)))


@pytest.mark.parametrize("is_nested", [False, True])
def test_random_bodies(is_nested: bool) -> None:
    rng = random.Random(17 + is_nested)
    refused = []
    for _ in range(40):
        body = drawn(rng)
        vectorized, expected = compiled(body)
        arrays: list[Any] = [
            rng.choice((Float([k] * 6), Float(k) + dr.zeros(Float, 6), Float(k)))
            for k in (10, 20, 30)
        ]
        try:
            found = run(vectorized, arrays, is_nested)
        except StateError as error:
            refused.append(str(error))
        else:
            assert found == expected, body
    assert len(refused) < 8
    assert all(REFUSED in message for message in refused)
