"""Recorded numbers: arithmetic is repeated, and what asks for a value is a guard."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit.llvm import Bool, Float, UInt
from lumijit.replay.numbers import Arithmetic, Guard, Number
from lumijit.runtime.errors import RecordingError

BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv),
    *(operator.floordiv, operator.mod, operator.pow, divmod),
]
INTEGER = [
    *(operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
]
UNARY = [operator.neg, operator.pos, abs, round, math.floor, math.ceil, math.trunc]


def recorded(*values: Any) -> tuple[Arithmetic, list[Any]]:
    arithmetic = Arithmetic([f"n{k}" for k in range(len(values))])
    return arithmetic, [arithmetic.input(k, v) for k, v in enumerate(values)]


def plain(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(plain, value))
    return value.value if type(value) is Number else value


NUMBERS = st.one_of(st.integers(-9, 9), st.floats(-9, 9))


@settings(max_examples=300)
@given(
    st.tuples(NUMBERS, NUMBERS),
    st.tuples(NUMBERS, NUMBERS),
    st.sampled_from(BINARY),
    st.sampled_from(UNARY),
)
def test_arithmetic_is_that_of_python(
    first: Any, second: Any, binary: Any, unary: Any
) -> None:
    def program(a: Any, b: Any) -> Any:
        return unary(a) + 3 * (2 - b), a if a < b else binary(b, a)

    arithmetic, numbers = recorded(*first)
    try:
        expected = program(*first)
    except (ArithmeticError, TypeError) as error:
        with pytest.raises(type(error)):
            program(*numbers)
        return
    found = program(*numbers)
    assert repr(tuple(map(plain, found))) == repr(expected)
    arithmetic.is_open = False
    compute = arithmetic.compiled()
    try:
        expected = program(*second)
        values = compute(list(second))
    except (ArithmeticError, TypeError):
        return
    if isinstance(values, Guard) or tuple(map(type, first)) != tuple(map(type, second)):
        return
    for number, wanted in zip(found, expected, strict=True):
        if type(number) is Number:
            assert repr(values[number.index]) == repr(wanted)


@pytest.mark.parametrize("operation", INTEGER)
def test_operations_on_integers(operation: Any) -> None:
    arithmetic, (a, b) = recorded(13, 2)
    results = [operation(a, b), operation(a, 2), operation(13, b)]
    assert [r.value for r in results] == [operation(13, 2)] * 3
    values = arithmetic.compiled()([7, 1])
    found = [values[r.index] for r in results]
    assert found == [operation(7, 1), operation(7, 2), operation(13, 1)]


SINGLE = np.array([1.0, 2.0], np.float32)
USES = {
    "range": lambda n: list(range(n)),
    "list": lambda n: [1, 2, 3, 4][n],
    "condition": lambda n: 1 if n else 0,
    "comparison": lambda n: 1 if n > 1 else 0,
    "equality": lambda n: n == 2,
    "hash": lambda n: {2: 0}.get(n),
    "text": lambda n: f"{n}",
    "format": lambda n: f"{n:3d}",
    "str": str,
    "repr": repr,
    "int": int,
    "float": float,
    "complex": complex,
    "math": math.sqrt,
    "numpy": np.sin,
    "numpy, single": lambda n: SINGLE * n,
    "numpy, on the right": lambda n: n - SINGLE,
    "numpy, in place": lambda n: operator.iadd(SINGLE.copy(), n),
    "numpy, where": lambda n: np.where([True, False], n, SINGLE),
    "numpy, stack": lambda n: np.stack([n, np.float32(1)]),
    "numpy, reduce": lambda n: np.add.reduce(SINGLE, initial=n),
    "numpy, clip": lambda n: np.clip(SINGLE, 0, n),
    "single number": lambda n: np.float32(2) / n,
    "array": lambda n: np.array([1.0, 2.0]) * n,
    "array on the right": lambda n: n * np.array([1.0, 2.0]),
    "zeros": lambda n: np.zeros(n),
    "attribute": lambda n: n.bit_length(),
    "complex number": lambda n: 1j * n,
    "numpy number": lambda n: np.float32(2) * n,
    "pickle": lambda n: pickle.loads(pickle.dumps(n)),
    "size": lambda n: dr.zeros(Float, n).numpy(),
    "scalar": lambda n: dr.scalar.Array3f(n).numpy(),
    "sequence": lambda n: Float([n, 1]).numpy(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_use_of_the_value_is_a_guard(use: Any) -> None:
    arithmetic, (n,) = recorded(2)
    found, expected = plain(use(n)), use(2)
    assert np.array_equal(found, expected)
    assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)
    assert arithmetic.guards
    assert all(g.inputs == {0} for g in arithmetic.guards)
    assert __file__ in arithmetic.guards[0].where
    arithmetic.is_open = False
    assert not isinstance(arithmetic.compiled()([2]), Guard)
    failed = [arithmetic.compiled()([v]) for v in (-1, 0, 3, 2.0)]
    assert any(isinstance(v, Guard) for v in failed)


def test_it_passes_for_the_number() -> None:
    _, (a, b) = recorded(1.5, 2)
    assert isinstance(a, float)
    assert isinstance(b, int)
    assert not isinstance(b, bool)
    assert copy.copy(a) is a
    assert copy.deepcopy([a])[0] is a


def test_their_type_makes_no_numbers() -> None:
    _, (a,) = recorded(1.5)
    assert a.__class__(3) == 3.0
    with pytest.raises(RecordingError, match=r"call n\.__class__ instead of type\(n\)"):
        type(a)(3)


def test_an_unknown_attribute_is_pythons_error() -> None:
    arithmetic, (a,) = recorded(1.5)
    with pytest.raises(AttributeError, match="'float' object has no attribute 'size'"):
        _ = a.size
    assert not arithmetic.guards


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (1, 1.0), (1, True)])
def test_guards_tell_numbers_apart_that_are_equal(a: Any, b: Any) -> None:
    arithmetic, (n,) = recorded(a)
    n.exact()
    assert isinstance(arithmetic.compiled()([b]), Guard)


def test_nan_is_nan() -> None:
    arithmetic, (n,) = recorded(math.nan)
    n.exact()
    assert not isinstance(arithmetic.compiled()([math.nan]), Guard)


def test_functions_of_numbers_are_repeated() -> None:
    arithmetic, (n,) = recorded(0.5)
    result = dr.sin(n) * 2
    assert not arithmetic.guards
    assert arithmetic.compiled()([0.25])[result.index] == math.sin(0.25) * 2


def test_once_nobody_records_it_computes_plainly() -> None:
    arithmetic, (n,) = recorded(2)
    arithmetic.is_open = False
    assert type(n + 1) is int
    assert n > 1
    assert not arithmetic.guards
    assert not arithmetic.steps


def test_bits_of_numbers_are_repeated() -> None:
    @dr.kernel
    def function(x: UInt, k: int) -> UInt:
        return x + dr.popcnt(k) + dr.brev(k) + (k * Bool(True))

    for k in (3, 3, 12):
        expected = 1 + bin(k).count("1") + int(f"{k:032b}"[::-1], 2) + k
        assert list(function(UInt(1), k)) == [expected]


def test_lambdas_are_recorded() -> None:
    function = dr.freeze(lambda x, k: x * k)
    assert [list(function(Float(1, 2), k)) for k in (2, 3)] == [[2, 4], [3, 6]]
    assert function.n_recordings == 1


def test_numbers_bound_iterations() -> None:
    @dr.kernel
    def function(x: UInt, n: int) -> UInt:
        i = UInt(0, 0)
        while dr.hint(i < x, max_iterations=n):
            i += 1
        return i

    assert [list(function(UInt(2, 3), n)) for n in (4, 4, 5)] == [[2, 3]] * 3


QUESTIONS = {
    "float": lambda n: dr.is_float_v(n),
    "integral": lambda n: dr.is_integral_v(n),
    "arithmetic": lambda n: dr.is_arithmetic_v(n),
    "signed": lambda n: dr.is_signed_v(n),
    "leaf": lambda n: dr.leaf_t(n) is float,
    "value": lambda n: dr.value_t([n][0]) is float,
    "scalar": lambda n: dr.scalar_t(n) is float,
    "detached": lambda n: dr.detached_t(n) is float,
    "entries": lambda n: dr.float32_array_t(n) is float,
    "common": lambda n: dr.expr_t(n, Float) is Float,
    "numbers": lambda n: dr.expr_t(n, 1) is float,
    "epsilon": lambda n: dr.epsilon(n) if dr.is_float_v(n) else 0,
    "largest": lambda n: dr.largest(n) if dr.is_float_v(n) else 0,
    "grad": lambda n: dr.grad([n])[0],
    "imag": lambda n: dr.imag(n) + 1,
    "zeros": lambda n: dr.zeros_like({"n": n})["n"],
    "ones": lambda n: dr.ones_like(n),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_their_class_is_that_of_the_number(ask: Any) -> None:
    @dr.kernel(graph_breaks=True)
    def function(x: Float, n: float) -> tuple[Any, ...]:
        return ask(n), ask(x[0]), x * n

    for n in (2.5, 2.5, 3, 4):
        found = function(Float(1, 2), n)[:2]
        expected = ask(n), ask(1.0)
        assert list(map(repr, found)) == list(map(repr, expected))


@pytest.mark.parametrize("set_limit", [dr.set_expand_threshold, dr.scoped_device])
def test_settings_take_them(set_limit: Any) -> None:
    @dr.kernel
    def function(x: Float, n: int) -> Float:
        set_limit(n)
        return x + n

    former = dr.expand_threshold()
    try:
        assert [list(function(Float(1), n)) for n in (3, 4)] == [[4], [5]]
    finally:
        dr.set_expand_threshold(former)


class Resets:
    """Assigns numbers that may be there already."""

    def __init__(self, first: int) -> None:
        self.n, self.entries, self.named = first, [first, 7], {"n": first}

    def reset(self, x: Float) -> Float:
        self.n = 2
        self.entries[0] = 2
        self.named["n"] = 2
        return x + self.n

    def count_from_zero(self, x: Float) -> Float:
        self.n = 1
        found = x + self.n
        self.n = self.n + 1
        return found

    def values(self) -> tuple[Any, ...]:
        return self.n, list(self.entries), dict(self.named)


@pytest.mark.parametrize("first", [2, 5])
@pytest.mark.parametrize("name", ["reset", "count_from_zero"])
def test_numbers_are_assigned_that_were_there_already(first: int, name: str) -> None:
    method = getattr(Resets, name)
    recorded, ordinary = Resets(first), Resets(first)
    kernel = dr.kernel(method)
    for n in (2, 5, 2, 9, 2):
        assert list(kernel(recorded, Float(1))) == list(method(ordinary, Float(1)))
        assert recorded.values() == ordinary.values()
        for one in (recorded, ordinary):
            one.n = one.entries[0] = one.named["n"] = n
    assert kernel.n_recordings == 1
