"""Mistakes in calls: the message names callables, entry, line, types and mend."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import lumijit as lj
import lumijit.llvm.ad
from lumijit.compiler import trace
from lumijit.llvm import (
    Array2f,
    Array3f,
    Bool,
    Float,
    Int,
    UInt,
)
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    SizeError,
    StateError,
    SymbolicError,
)

from .test_calls import MODES, lanes, square, twice

THIS = re.escape(__file__)


@pytest.fixture(autouse=True)
def _scope_is_restored() -> Iterator[None]:
    yield
    assert trace.state.scope is trace.ROOT
    assert trace.state.mask is None
    assert trace.state.watched is None
    assert trace.state.guard is None


@pytest.mark.parametrize("mode", MODES)
def test_debug_reports_the_index(mode: str) -> None:
    with lj.scoped_set_flag(lj.JitFlag.Debug, True):
        pattern = (
            rf"{THIS}:\d+ in test_debug_reports_the_index: .*Attempted to invoke "
            r"callable with index 100, but this value must be smaller than 1\. .*Fix: "
        )
        with pytest.warns(RuntimeWarning, match=pattern):
            lj.eval(lj.switch(UInt(0, 100), [lambda x: x], UInt(1), mode=mode))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            active = Bool([True, False])
            result = lj.switch(UInt(0, 100), [lambda a: 3], active, mode=mode)
            assert lanes(result) == [3, 0]


def test_unknown_mode() -> None:
    with pytest.raises(ArrayValueError, match=r"switch: unknown mode 'fast'.*Fix: "):
        lj.switch(0, [twice], 1, mode="fast")


def test_label_names_the_call() -> None:
    with pytest.raises(ArrayValueError, match=r"materials: there are no targets.*Fix:"):
        lj.switch(UInt(0), [], label="materials")


@pytest.mark.parametrize("index", [-1, 2])
def test_scalar_index_out_of_range(index: int) -> None:
    pattern = rf"^{THIS}:\d+ .*the index {index} is out of range \(there are 2 targets"
    with pytest.raises(ArrayIndexError, match=pattern):
        lj.switch(index, [twice, square], 1)


def test_scalar_index_without_targets() -> None:
    with pytest.raises(ArrayIndexError, match=r"there are 0 targets.*add a target"):
        lj.switch(0, [])


@pytest.mark.parametrize(
    "index", [1.5, "a", Float(1), Bool(True), Array3f(1), lj.scalar.ArrayXu(0, 1)]
)
def test_wrong_index(index: Any) -> None:
    name = type(index).__name__
    with pytest.raises(ArrayTypeError, match=rf"index is of type '{name}'.*UInt32"):
        lj.switch(index, [twice], 1)


def test_target_that_is_no_callable() -> None:
    with pytest.raises(ArrayTypeError, match=r"targets\[1\] is of type 'int'.*Fix: "):
        lj.switch(UInt(0), [twice, 3], 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (Float(1), Int(2), r"'result' .* gives llvm\.Float\[.\], .* llvm\.Int\[.\]"),
        (Float(1), None, r"'result' .* gives llvm\.Float\[.\], .* None"),
        (None, Float(1), r"'result' .* gives None, .* llvm\.Float\[.\]"),
        (1.5, "a", r"'result' .* gives Python float 1\.5, .* Python object of type"),
        ("a", "b", r"'result' .* Python object of type str"),
        ((1, 2), (1,), r"'result\[1\]' .* Python int 2, .* no such entry"),
        ((1,), (1, 2), r"'result\[1\]' .* gives no such entry, .* Python int 2"),
        ([1], (1,), r"'result' .* gives a list, .* a tuple"),
        ({"a": 1}, 1, r"'result' .* gives a dict, .* Python int 1"),
        (Array2f(1), Array3f(1), r"'result' .* gives a Array2f, .* a Array3f"),
        (True, 1, r"'result' .* gives Python bool True, .* Python int 1"),
        (Int(1), 1.5, r"'result' .* gives llvm\.Int\[.\], .* Python float 1\.5"),
    ],
)
def test_disagreement(mode: str, first: Any, second: Any, names: str) -> None:
    def yes() -> Any:
        return first

    def no() -> Any:
        return second

    with pytest.raises(StateError, match=names) as caught:
        lj.switch(UInt(0, 1, 0), [yes, no], mode=mode)
    pattern = rf"^{THIS}:\d+ in test_disagreement: switch: the callables disagree"
    assert re.match(pattern, str(caught.value))
    assert "callable 0 (yes)" in str(caught.value)
    assert "callable 1 (no)" in str(caught.value)
    assert "Fix: let all callables return the same PyTree" in str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_do_not_fit(mode: str) -> None:
    with pytest.raises(SizeError, match="incompatible sizes"):
        lj.switch(UInt(0, 0), [lambda x, a: x], Int(1, 2), Bool([True] * 3), mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("result", [lj.full(Int, 5, 2), lj.zeros(Int, 0)])
def test_constants_of_other_sizes(mode: str, result: Any) -> None:
    pattern = rf"^{THIS}:\d+ .*callable . \(<lambda>\) computes 'result' of size "
    pattern += rf"{len(result)} for . elements\..*Fix:"
    with pytest.raises((SizeError, StateError), match=pattern):
        lj.switch(UInt(0, 1, 0), [lambda: Int(1), lambda: result], mode=mode)
    with pytest.raises((SizeError, StateError), match=pattern):
        lj.switch(UInt(0, 1, 0), [lambda a: a, lambda a: a + 1], result, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_arguments_as_wide_as_a_part_of_the_elements(mode: str) -> None:
    narrow, out = Int(1, 2), Int(0)

    def write(a: Any) -> None:
        lj.scatter_add(out, a, UInt(0))

    for functions in ([twice, square], [lambda a: a, lambda a: a], [write, write]):
        with pytest.raises(SizeError, match=r"of size 2 for 3|incompatible sizes"):
            lj.switch(UInt(0, 0, 9), functions, narrow, mode=mode)
    assert lanes(out) == [0]
    table = [lambda a, i: lj.gather(Int, a, i), lambda a, i: lj.gather(Int, a, i) + 9]
    index, at = UInt(0, 0, 1), UInt(1, 0, 1)
    assert lanes(lj.switch(index, table, narrow, at, mode=mode)) == [2, 1, 11]


@pytest.mark.parametrize("index", [UInt(0, 1, 0), UInt(0, 1, 1)])
def test_closures_in_evaluated_mode(index: Any) -> None:
    outside = Int(1, 2, 3)
    pattern = (
        r"callable 0 \(<lambda>\) computes 'result' of size 3 for . elements.*Fix:"
    )
    with pytest.raises(StateError, match=pattern):
        lj.switch(index, [lambda: outside, lambda: outside], mode="evaluated")


@pytest.mark.parametrize("count", [1, 2])
def test_writes_of_closures_in_evaluated_mode(count: int) -> None:
    outside, out = Int(1, 2, 3), Int(0, 0, 0)

    def write() -> None:
        lj.scatter(out, outside, UInt(0, 1, 2))

    index = UInt([0] * count + [1] * (3 - count))
    problem = "computes a write of size 3" if count == 1 else "incompatible sizes"
    with pytest.raises((StateError, SizeError), match=problem):
        lj.switch(index, [write, lambda: None], mode="evaluated")
    assert lanes(out) == [0, 0, 0]


def test_evaluated_inside_of_symbolic() -> None:
    def outer(x: Any) -> Any:
        return lj.switch(UInt(0), [twice], x, mode="evaluated")

    with pytest.raises(SymbolicError, match="evaluated mode can't be nested"):
        lj.switch(UInt(0, 1), [outer, twice], Int(1, 2), mode="symbolic")


def test_written_result_inside_of_symbolic() -> None:
    out = Int(5, 5)

    def write(k: Any) -> Any:
        lj.scatter(out, Int(1), k)
        return out

    def outer(k: Any) -> Any:
        return lj.switch(k, [write, lambda k: Int(k)], k)

    pattern = r"callable 0 \(write\) returns as 'result' an array that it writes.*Fix: "
    with pytest.raises(StateError, match=pattern):
        lj.switch(UInt(0, 1), [outer, lambda k: Int(k)], UInt(0, 1))
    assert lanes(out) == [5, 5]


@pytest.mark.parametrize("mode", MODES)
def test_errors_undo_writes(mode: str) -> None:
    out = Int(5, 5)

    def write(k: Any) -> Any:
        lj.scatter(out, Int(1), k)
        raise KeyError

    with pytest.raises(KeyError):
        lj.switch(UInt(0, 1), [write, twice], UInt(0, 1), mode=mode)
    assert lanes(out) == [5, 5]
