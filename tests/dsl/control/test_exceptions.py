"""`raise` and `assert` in vectorized control flow, and exceptions while tracing."""
# ruff: noqa: PT018

from __future__ import annotations

import contextlib
import linecache
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.llvm import Array3f, Float, Int, UInt
from lumijit.runtime.errors import ArrayTypeError, SyntaxTransformError
from lumijit.syntax import running

from ..programs.modes import flags_of

MODES = ["symbolic", "evaluated", "compressed"]
REFUSED: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    yield
    assert trace.state.scope is ROOT
    assert trace.state.mask is None
    assert trace.state.watched is None
    assert trace.state.guard is None
    assert running.running.get() is running.OUTERMOST


def refused(
    condition: str | None, *args: Any, what: str = "raise"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function whose `raise` depends on an array condition."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        REFUSED.append(
            pytest.param(function, args, condition, what, id=function.__name__)
        )
        return function

    return enter


@refused("x < 0")
def in_a_branch(x):
    if x < 0:
        raise ValueError("mine")
    return x


@refused("x < y + 1 - 2 + 3 - 4 + 5 - 6 + 7 - 8 + 9 - 10 + 11 - 12 + 1…")
def after_other_statements(x, y=1):
    if x < y + 1 - 2 + 3 - 4 + 5 - 6 + 7 - 8 + 9 - 10 + 11 - 12 + 13 - 14 + 15:
        x = x + 1
        with contextlib.suppress(KeyError):
            try:
                raise ValueError("mine")
            finally:
                x = x + 1
    return x


@refused("x == 2")
def in_the_last_else(x):
    if x == 1:
        return x * 3
    elif x == 2:
        y = x
    else:
        raise ValueError("mine")
    return y


@refused("x == 2")
def after_returns(x):
    if x == 1:
        return 1
    if x == 2:
        return 2
    raise ValueError("mine")


@refused("x < 5")
def in_a_loop(x):
    while x < 5:
        x = x + 1
        raise ValueError("mine")
    return x


@refused("range(x)")
def in_a_counting_loop(x):
    for i in range(x):
        raise ValueError(f"mine {i}")
    return x


@refused("x > 3")
def in_a_loop_after_break(x):
    while True:
        x += 1
        if x > 3:
            break
        raise ValueError("mine")
    return x


@refused(None)
def after_a_search(x):
    for k in (1, 2):
        if x == k:
            return k
    raise ValueError("mine")


@refused(None)
def after_a_search_in_two_loops(x):
    for k in (1, 2):
        for j in (3, 4):
            if x == k + j:
                return k
        if k > 1:
            x = x + 1
    raise ValueError("mine")


@refused("x < 0")
def without_an_exception(x):
    if x < 0:
        raise
    return x


@refused("x < 0", what="assert False")
def by_an_assertion(x):
    if x < 0:
        assert False, "mine"  # noqa: B011, PT015
    return x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("values", [(1, 2, 3), (-1, 2), (-1,), ()])
@pytest.mark.parametrize(("function", "args", "condition", "what"), REFUSED)
def test_refused_whatever_the_values(
    function: Any, args: Any, condition: str, what: str, values: Any, mode: str
) -> None:
    lines = linecache.getlines(__file__)
    x = Int(values)
    lj.make_opaque(x)
    with flags_of(mode), pytest.raises(SyntaxTransformError) as caught:
        lj.syntax(function)(x)
    error = caught.value
    assert error.lineno is not None
    assert lines[error.lineno - 1].strip().startswith(what)
    place = rf"{re.escape(__file__)}:{error.lineno} in {function.__name__}: @syntax: "
    match = rf"^{place}'{what}' can't happen for some elements only.*{{}}.*Fix: .*any"
    if condition is None:
        rest = "which ones have left before, by 'return', .* depends on arrays here"
        assert re.match(match.format(rest), str(error))
        return
    rest = rf"the condition {re.escape(repr(condition))} in line (\d+), an array here"
    found = re.match(match.format(rest), str(error))
    assert found is not None, str(error)
    assert condition.rstrip("…") in lines[int(found[1]) - 1]


@pytest.mark.parametrize("function", [in_a_branch, after_returns, in_the_last_else])
def test_plain_conditions_raise_as_python_does(function: Any) -> None:
    vectorized = lj.syntax(function)
    for x in (-1, 1, 2, 3):
        try:
            expected = function(x)
        except ValueError:
            with pytest.raises(ValueError, match=r"^mine$"):
                vectorized(x)
        else:
            assert vectorized(x) == expected


def test_one_lane_raises_as_python_does() -> None:
    vectorized, x = lj.syntax(in_a_branch), Int(4, -1)
    assert lj.run_lane(vectorized, 0, x)[0] == 4
    with pytest.raises(ValueError, match=r"^mine$"):
        lj.run_lane(vectorized, 1, x)


@pytest.mark.parametrize("mode", MODES)
def test_a_reduced_condition_is_plain(mode: str) -> None:
    @lj.syntax
    def f(x: Any) -> Any:
        if bool(lj.any(x < 0)):
            raise ValueError("negative")
        while x < 5:
            x += 1
        return x

    with flags_of(mode):
        assert list(f(Int(1, 7))) == [5, 7]
        with pytest.raises(ValueError, match=r"^negative$"):
            f(Int(1, -7))


@pytest.mark.parametrize("mode", MODES)
def test_a_plain_condition_inside_of_a_vectorized_one(mode: str) -> None:
    @lj.syntax
    def f(x: Any, kind: str) -> Any:
        while x < 5:
            if kind == "up":
                x += 1
            else:
                raise ValueError(f"unknown kind {kind!r}")
            for word in {kind} - {"up"}:
                raise KeyError(word)
        return x

    with flags_of(mode):
        assert list(f(Int(1, 7), "up")) == [5, 7]
        with pytest.raises(ValueError, match="unknown kind 'down'"):
            f(Int(1, 7), "down")


class Probe:
    """Counts how often it was entered and left, and by which exception."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def __enter__(self) -> Probe:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.log.append(kind)


class MineError(Exception):
    """An exception of the user's program."""


def fail(value: Any) -> Any:
    """Trace something, then raise, as a library of the user's would."""
    value = value * 2 + 1
    raise MineError(value)


def _loop(x: Any, bins: Any, probe: Probe) -> Any:
    while x < 5:
        x += 1
        with probe:
            lj.scatter_add(bins, x, UInt(0))
            x = fail(x)
    return x


LOOP = lj.syntax(_loop)


def _branch(x: Any, bins: Any, probe: Probe) -> Any:
    y = x
    if x > 1:
        x += 1
        with probe:
            lj.scatter_add(bins, x, UInt(0))
            y = fail(x)
    else:
        y = -x
    return y


def _other_side(x: Any, bins: Any, probe: Probe) -> Any:
    if x > 1:
        lj.scatter_add(bins, x, UInt(0))
        y = x + 1
    else:
        with probe:
            y = fail(x)
    return y


def _call(x: Any, bins: Any, probe: Probe) -> Any:
    def first(v: Any) -> Any:
        lj.scatter_add(bins, v, UInt(0))
        return v + 1

    def second(v: Any) -> Any:
        with probe:
            return fail(v)

    while x < 5:
        x = lj.switch(UInt(x) & 1, [first, second], x)
    return x


def _nested(x: Any, bins: Any, probe: Probe) -> Any:
    if x > 0:
        x = lj.switch(UInt(x) & 1, [lambda v: LOOP(v, bins, probe)] * 2, x)
    return x


def _expression(x: Any, bins: Any, probe: Probe) -> Any:
    with probe:
        return x + 1 if x > 2 else fail(x)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
@pytest.mark.parametrize(
    "function", [_loop, _branch, _other_side, _call, _nested, _expression]
)
def test_an_exception_while_tracing_leaves_nothing_behind(
    function: Any, mode: str
) -> None:
    bins, x, probe = Int(7, 8), Int(0, 1, 2, 3), Probe()
    total = x + 1
    vectorized = lj.syntax(function)
    with flags_of(mode):
        for _ in range(2):
            with pytest.raises(MineError) as caught:
                vectorized(x, bins, probe)
            assert type(caught.value) is MineError
            assert caught.value.__cause__ is None
            assert trace.state.scope is ROOT
            assert trace.state.mask is None
        # An evaluated loop may try again with all elements.
        assert probe.log.count("enter") * 2 == len(probe.log)
        assert probe.log.count(MineError) >= 2
        # What was there before is as it was, and tracing goes on.
        assert list(x) == [0, 1, 2, 3]
        assert list(bins) == [7, 8]
        assert list(total + x) == [1, 3, 5, 7]

        @lj.syntax
        def after(x: Any) -> Any:
            while x < 5:
                x = x + 1 if x & 1 == 0 else x + 3
                lj.scatter_add(bins, 1, UInt(1))
            return x

        assert list(after(x)) == [5, 5, 6, 6]
        assert list(bins) == [7, 8 + 3 + 2 + 2 + 1]


@pytest.mark.parametrize("mode", MODES)
def test_local_memory_survives_an_exception(mode: str) -> None:
    buffer = lj.alloc_local(Int, 2, value=lj.zeros(Int))

    @lj.syntax
    def f(x: Any, is_bad: bool) -> Any:
        while x < 5:
            buffer[0] = x
            x = fail(x) if is_bad else x + 1
        return buffer[0]

    with flags_of(mode):
        with pytest.raises(MineError):
            f(Int(0, 1), True)
        assert list(buffer[0] + Int(0, 0)) == [0, 0]
        assert list(f(Int(0, 1), False)) == [4, 4]


def test_an_exception_is_caught_inside_of_a_branch() -> None:
    def robust(value: Any) -> Any:
        try:
            return fail(value)
        except MineError:
            return value - 1

    @lj.syntax
    def f(x: Any) -> Any:
        while x > 2:
            x = robust(x)
        return x

    assert list(f(Int(1, 5))) == [1, 2]


# Assertions.


@lj.syntax
def checked(x: Any, limit: Any = 4) -> Any:
    y = x + 0
    while x < 8:
        if x > 2:
            assert 0 < x < limit or y == 0, f"{x=}, {y!r:>3} of {limit} {{}}"
        x += 1
    return x


def test_an_assertion_on_symbolic_arrays(capsys: Any) -> None:
    with lj.scoped_set_flag(lj.JitFlag.Debug):
        checked(Int(0, 8, 1), 8)
        lj.eval(checked(Int(0, 9)))
        assert capsys.readouterr().err == ""
        lj.eval(checked(Int(0, 7, 0)))
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "Assertion failure: x=[7], [7] of 4 {}"
    assert lines[-1].strip().startswith("assert 0 < x < limit or y == 0")
    assert "in checked" in lines[-2]


@pytest.mark.parametrize("mode", ["evaluated", "compressed"])
def test_an_assertion_on_evaluated_arrays(mode: str) -> None:
    match = rf"^{re.escape('Assertion failure: x=[4], [1] of 4 {}')}$"
    with flags_of(mode), lj.scoped_set_flag(lj.JitFlag.Debug):
        assert list(checked(Int(0, 8, 1), 8)) == [8, 8, 8]
        with pytest.raises(AssertionError, match=match):
            checked(Int(0, 8, 1))


@pytest.mark.parametrize("mode", MODES)
def test_assertions_on_arrays_need_flag_debug(mode: str, capsys: Any) -> None:
    @lj.syntax
    def f(x: Any) -> Any:
        assert x < 0, missing  # type: ignore[name-defined]  # noqa: F821
        return checked(x)

    with flags_of(mode):
        assert list(f(Int(0, 7, 1))) == [8, 8, 8]
        lj.eval()
    assert capsys.readouterr().err == ""


def test_an_assertion_on_one_entry_is_python_s() -> None:
    @lj.syntax
    def f(x: Any) -> Any:
        assert lj.all(x > 0), "not positive"
        while x < 9:
            x += 1
        return x

    assert list(f(Int(1, 3))) == [9, 9]
    with pytest.raises(AssertionError, match="not positive"):
        f(Int(1, -3))


def test_an_assertion_outside_of_control_flow() -> None:
    @lj.syntax
    def f(x: Any, message: Any = None) -> Any:
        if message is None:
            assert not (x > 2 or x < 0)
        else:
            assert x >= 0 and x <= 2, message
        return x

    with lj.scoped_set_flag(lj.JitFlag.Debug):
        assert list(f(Int(0, 1))) == [0, 1]
        with pytest.raises(AssertionError, match=r"^Assertion failure!$"):
            f(Int(0, 3))
        with pytest.raises(AssertionError, match=r"^Assertion failure: \{a\} \{\}$"):
            f(Int(0, 3), "{a} {}")
        with pytest.raises(AssertionError, match=r"^Assertion failure: \[3\]$"):
            f(Int(0, 3), Int(0, 3))


def test_plain_assertions_are_python_s() -> None:
    evaluated: list[int] = []

    def message(value: int) -> str:
        evaluated.append(value)
        return f"value {value}"

    @lj.syntax
    def f(x: Any, y: Any) -> Any:
        assert x, message(x)
        assert 0 < x < 9 and x != 5, (message(x), x)
        if y > 0:
            assert x == 3, message(x)
        return x

    y = Int(-1, 1)
    for values in (y, 1):
        assert f(3, values) == 3
        assert not evaluated
        with pytest.raises(AssertionError, match=r"^value 0$"):
            f(0, values)
        with pytest.raises(AssertionError, match=r"^\('value 5', 5\)$"):
            f(5, values)
        with pytest.raises(AssertionError, match=r"^value 4$"):
            f(4, values)
        assert evaluated == [0, 5, 4]
        evaluated.clear()


def test_the_truth_of_an_object_is_asked_once() -> None:
    asked: list[int] = []

    class Odd:
        def __bool__(self) -> bool:
            asked.append(1)
            return True

    @lj.syntax
    def f(x: Any) -> Any:
        assert x
        return x

    f(Odd())
    assert asked == [1]


@pytest.mark.parametrize("mode", MODES)
def test_an_assertion_needs_a_flat_mask(mode: str) -> None:
    @lj.syntax
    def f(x: Any) -> Any:
        assert x
        return x

    with flags_of(mode), lj.scoped_set_flag(lj.JitFlag.Debug):
        for wrong in (Float(1, 2), Array3f(1, 2, 3) > 0):
            place = rf"^{re.escape(__file__)}:\d+ in f: assert: the mask is of type"
            with pytest.raises(ArrayTypeError, match=place):
                f(wrong)


def test_one_lane_asserts_as_python_does() -> None:
    @lj.syntax
    def f(x: Any) -> Any:
        while x < 3:
            x += 1
            assert x != 2, f"x is {x[0]}"
        return x

    assert lj.run_lane(f, 0, Int(2, 1))[0] == 3
    with pytest.raises(AssertionError, match=r"^x is 2$"):
        lj.run_lane(f, 1, Int(2, 1))


def test_optimized_python_leaves_assertions_out(tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import lumijit as lj
        from lumijit.llvm import Int

        @lj.syntax
        def f(x):
            assert x > 100, missing
            if x > 1:
                assert False, missing
                x = x + 1
            return x

        with lj.scoped_set_flag(lj.JitFlag.Debug):
            print(f(Int(1, 2)), f(2))
        """)
    )
    run = subprocess.run(
        [sys.executable, "-O", str(program)], capture_output=True, text=True
    )
    assert run.stdout == "[1, 3] 3\n", run.stderr
