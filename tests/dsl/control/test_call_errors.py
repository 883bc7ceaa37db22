"""Mistakes in calls: the message names callables, entry, line, types and mend."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

import lumijit as lj
import lumijit.llvm.ad
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
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
    assert trace.state.scope is ROOT
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
        lj.switch(UInt(0), [twice, 3], 1)  # type: ignore[list-item]
    for targets, kind in ((twice, "function"), (UInt(0), "UInt")):
        text = f"the targets are of type '{kind}'.*Fix: pass the index first"
        with pytest.raises(ArrayTypeError, match=text):
            lj.switch(UInt(0), targets, 1)  # type: ignore[call-overload]


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
    pattern = rf"^{THIS}:\d+ .*the argument 'a' has {len(result)} entries, but the call"
    with pytest.raises(SizeError, match=pattern):
        lj.switch(UInt(0, 1, 0), [lambda a: a, lambda a: a + 1], result, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_arguments_as_wide_as_a_part_of_the_elements(mode: str) -> None:
    narrow, out = Int(1, 2), Int(0)

    def write(a: Any) -> None:
        lj.scatter_add(out, a, UInt(0))

    for functions in ([twice, square], [lambda a: a, lambda a: a], [write, write]):
        with pytest.raises(
            SizeError, match=r"argument .* has 2 entries, but .* 3 elem"
        ):
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


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_writes_of_closures(mode: str) -> None:
    outside, out = Int(1, 2, 3), Int(0, 0, 0)

    def write() -> None:
        lj.scatter(out, outside, UInt(0, 1, 2))

    lj.switch(UInt(0, 0, 1), [write, lambda: None], mode=mode)
    assert lanes(out) == [1, 2, 0]
    if mode == "evaluated":
        with pytest.raises(StateError, match="computes a write of size 3"):
            lj.switch(UInt(0, 1, 1), [write, lambda: None], mode=mode)
        assert lanes(out) == [1, 2, 0]


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


class Body:
    def area(self, x: Any, scale: Any = 1) -> Any:
        raise NotImplementedError


class Ball(Body):
    def area(self, x: Any) -> Any:  # type: ignore[override]
        return x + 1


BALL = Ball()
Bodies = lj.instance_array_t(Float, Body)


@pytest.mark.parametrize("mode", MODES)
def test_sizes_of_arguments_name_method_and_argument(mode: str) -> None:
    bodies = Bodies([BALL, BALL])
    problem = r"the argument '{}' has 3 entries, but the call runs for 2 elements\."
    start = rf"^{THIS}:\d+ in test_sizes_of_arguments_\w+: "
    fix = r" Fix: pass arrays of 2 entries or one; other sizes can only be indexed"
    wide = Float(1, 2, 3)
    with lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, mode == "symbolic"):
        match = start + r"Body\.area: " + problem.format("x") + fix
        with pytest.raises(SizeError, match=match):
            bodies.area(wide)
        with pytest.raises(SizeError, match=match):
            bodies.area(x=wide)
        with pytest.raises(SizeError, match=problem.format("y")):
            lj.dispatch(bodies, lambda body, y: y + 1, wide)
        with pytest.raises(SizeError, match=problem.format(r"p\[1\]\.x")):
            lj.switch(
                UInt(0, 1), [lambda p: p[1].x, lambda p: p[0]], [Float(1, 2), Pair()]
            )
        with pytest.raises(SizeError, match=problem.format(r"args\[1\]")):
            lj.switch(UInt(0, 1), [lambda *a: a[1], lambda *a: a[0]], Float(1), wide)


class Pair:
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"x": Float}

    def __init__(self) -> None:
        self.x = Float(1, 2, 3)


@pytest.mark.parametrize("mode", MODES)
def test_indexed_arguments_have_any_size(mode: str) -> None:
    table, index = Float(5, 6, 7), UInt(0, 1)
    first = [lambda t: lj.gather(Float, t, UInt(2)), lambda t: Float(1)]
    assert lanes(lj.switch(index, first, table, mode=mode)) == [7, 1]


@pytest.mark.parametrize("mode", MODES)
def test_mask_of_another_size(mode: str) -> None:
    match = r"switch: incompatible sizes: the mask has 3 entries, .* 2 elements.*Fix:"
    with pytest.raises(SizeError, match=match):
        lj.switch(UInt(0, 0), [twice], Int(1, 2), active=Bool([True] * 3), mode=mode)


@pytest.mark.parametrize("mode", [*MODES, "scalar"])
def test_wrong_arity(mode: str) -> None:
    def g(x: Any, y: Any) -> Any:
        return x + y

    index: Any = 1 if mode == "scalar" else UInt(0, 1)
    line = g.__code__.co_firstlineno
    match = (
        rf"^{THIS}:\d+ in test_wrong_arity: switch: callable 1 \(g\) at {THIS}:{line} "
        r"takes \(x: 'Any', y: 'Any'\) -> 'Any', but the call passes 1 argument "
        r"\(missing a required argument: 'y'\)\. Fix: pass what all callables take"
    )
    with pytest.raises(ArrayTypeError, match=match):
        lj.switch(
            index,
            [lambda x: x, g],
            Float(1, 2),
            mode=None if mode == "scalar" else mode,
        )
    with pytest.raises(ArrayTypeError, match=r"passes 1 argument and z=…"):
        lj.switch(index, [lambda x, z: x, g], Float(1, 2), z=Float(1))


@pytest.mark.parametrize("mode", MODES)
def test_wrong_arity_of_methods(mode: str) -> None:
    bodies = Bodies([BALL, BALL])
    with lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, mode == "symbolic"):
        match = (
            r"Body\.area: Ball\.area at .* takes \(x: .*passes 2 arguments \(too many"
        )
        with pytest.raises(ArrayTypeError, match=match):
            bodies.area(Float(1, 2), Float(1, 2))
        match = r"dispatch: Ball at .* takes \(body\), but the call passes 2 arguments"
        with pytest.raises(ArrayTypeError, match=match):
            lj.dispatch(bodies, lambda body: 1, Float(1))
    match = r"dispatch: Ball at .* takes \(body\), but the call passes 2 arguments"
    with pytest.raises(ArrayTypeError, match=match):
        lj.dispatch(BALL, lambda body: 1, Float(1))


@pytest.mark.parametrize("mode", MODES)
def test_other_type_errors_come_through(mode: str) -> None:
    def fail(x: Any) -> Any:
        return len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"object of type 'int' has no len"):
        lj.switch(UInt(0, 0), [fail], Float(1, 2), mode=mode)
