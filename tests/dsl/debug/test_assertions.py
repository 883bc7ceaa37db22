"""Assertions under flag Debug, at once and from symbolic code."""

from __future__ import annotations

import pytest

import lumijit as dr
from lumijit.llvm import Array3f, Bool, Float, Int
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError


@pytest.fixture(autouse=True)
def _debug():
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        yield


def test_without_the_flag_nothing_is_looked_at():
    with dr.scoped_set_flag(dr.JitFlag.Debug, False):
        dr.assert_true(False, "{missing")
        dr.assert_false("no mask")
        dr.assert_equal(1, 2, limit=-1)


@pytest.mark.parametrize("true", [True, Bool(True), Bool(True, True), Bool()])
def test_what_holds_passes(true):
    dr.assert_true(true)
    dr.assert_false(~true if isinstance(true, Bool) else not true)


@pytest.mark.parametrize("false", [False, Bool(False), Bool(True, False)])
def test_one_false_entry_is_enough(false):
    with pytest.raises(AssertionError, match=r"^Assertion failure!$"):
        dr.assert_true(false)
    with pytest.raises(AssertionError, match=r"^Assertion failure!$"):
        dr.assert_false(~false if isinstance(false, Bool) else not false)


def test_the_message_shows_the_failing_entries():
    x = Float(1, -4, -2, 3)
    with pytest.raises(AssertionError) as caught:
        dr.assert_true(x >= 0, "negative: {} {name=}", x, name="x")
    assert str(caught.value) == "Assertion failure: negative: [-4, -2] name=x"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 2),
        ("a", "b"),
        (Float(1, 2), 1),
        (Array3f(1, 2, 3), Array3f(1, 2, 4)),
        (dr.scalar.Array3f(1, 2, 3), dr.scalar.Array3f(1, 2, 4)),
        (Float(float("nan")), Float(float("nan"))),
    ],
)
def test_equality(a, b):
    dr.assert_equal(1, 1)
    with pytest.raises(AssertionError, match="failure: differ"):
        dr.assert_equal(a, b, "differ")


@pytest.mark.parametrize(
    "value",
    [1, "a", (), Float(1, 2), Array3f(1, [2, 3], 4), dr.scalar.Array3f(1, 2, 3)],
)
def test_equal_values_pass(value):
    dr.assert_equal(value, value)


@pytest.mark.parametrize("cond", [1, Float(1), dr.llvm.Array3b(True)])
def test_the_condition_must_be_a_mask(cond):
    for check in (dr.assert_true, dr.assert_false):
        with pytest.raises(ArrayTypeError, match=f"{check.__name__}: the mask is of"):
            check(cond)


def test_bad_format_strings():
    with pytest.raises(ArrayValueError, match=r"lumijit\.assert_true: the format"):
        dr.assert_true(True, "{")


@dr.syntax
def climb(x, **how):
    i = Int(0)
    while i < 3:
        dr.assert_true(x + i < 4, "{thread_id}: {i} ({x})", i=i, x=x, **how)
        i += 1
    return i


def test_symbolic_failures_are_told_later(capsys):
    climb(Int(0, 2, 3))
    assert capsys.readouterr().err == ""
    dr.eval()
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "Assertion failure: [1, 2, 2]: [2, 1, 2] ([2, 3, 3])"
    assert "in climb" in lines[-2]
    assert "dr.assert_true(x + i < 4" in lines[-1]
    assert not any("/dsl/control/" in line for line in lines)


@pytest.mark.parametrize(("depth", "skip", "count"), [(0, 0, 0), (1, 0, 1), (1, 1, 1)])
def test_the_backtrace_has_the_wanted_depth(depth, skip, count, capsys):
    climb(Int(3, 0), tb_depth=depth, tb_skip=skip)
    dr.eval()
    text = capsys.readouterr().err
    assert text.count("  File ") == count
    assert ("dr.assert_true(" in text) is (count > 0 and not skip)


def test_many_failures_are_counted(capsys):
    climb(dr.full(Int, 9, 100), limit=4)
    dr.eval()
    assert "(296 further failures)" in capsys.readouterr().err


def test_symbolic_success_says_nothing(capsys):
    climb(Int(0, 1))
    dr.eval()
    assert capsys.readouterr().err == ""


def test_evaluated_code_checks_active_elements_only():
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False):

        @dr.syntax
        def f(x):
            if x > 0:
                dr.assert_true(x > 0, "{}", x)
                dr.assert_true(x > 2, "{}", x)
            return x

        with pytest.raises(AssertionError, match=r"failure: \[1, 2\]$"):
            f(Float(-1, 1, 2, 3))
