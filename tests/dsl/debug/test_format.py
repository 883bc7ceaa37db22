"""Text from arrays and PyTrees, at once."""

from __future__ import annotations

import collections
import dataclasses
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumijit as dr
from lumijit.llvm import Array3f, Bool, Float, Int
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SymbolicError

Pair = collections.namedtuple("Pair", "u v")


@dataclasses.dataclass
class Ray:
    o: Float
    n: int


class Struct:
    DRJIT_STRUCT = {"a": Float}

    def __init__(self):
        self.a = Float(1, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Float(1, 2.5), "[1, 2.5]"),
        (Float(), "[]"),
        (Float(np.nan, np.inf, -0.0), "[nan, inf, -0]"),
        (Bool(True, False), "[True, False]"),
        (Array3f(1, 2, 3), "[[1, 2, 3]]"),
        (1.23456789, "1.23457"),
        (np.float32(0.5), "0.5"),
        (None, "None"),
        ([], "[]"),
        ((), "()"),
        ({}, "{}"),
        ("text", "text"),
        (["text"], "[\n  'text'\n]"),
        ({"a": Array3f(1, 2, 3)}, "{\n  'a': [[1, 2, 3]]\n}"),
        (Pair(1, [2]), "Pair(\n  u=1,\n  v=[\n    2\n  ]\n)"),
        (Ray(Float(1, 2), 3), "Ray[\n  o=[1, 2],\n  n=3\n]"),
        (Struct(), "Struct[\n  a=[1, 2]\n]"),
        (
            {"m": {"n": Array3f([1, 2], 2, 3)}},
            "{\n  'm': {\n    'n': [[1, 2, 3],\n     [2, 2, 3]]\n  }\n}",
        ),
    ],
)
def test_values(value, text):
    assert dr.format("{}", value) == text


def test_a_value_alone_is_its_text():
    assert dr.format(Float(1, 2)) == "[1, 2]"
    assert dr.format([1]) == dr.format("{}", [1])


@pytest.mark.parametrize(
    ("fmt", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{} {}", "1 [2, 3]"),
        ("{1} {0}", "[2, 3] 1"),
        ("{foo}", "x"),
        ("{foo=}", "foo=x"),
        ("{0=}", "0=1"),
        ("{=}", "=1"),
        ("{{}} {} {{{foo}}}", "{} 1 {x}"),
        ("{} {foo}", "1 x"),
        ("{thread_id}", "[0]"),
        ("{1} {thread_id}", "[2, 3] [0, 1]"),
    ],
)
def test_format_strings(fmt, text):
    assert dr.format(fmt, 1, Float(2, 3), foo="x") == text


@pytest.mark.parametrize(
    ("fmt", "problem"),
    [
        ("{} {0}", "mixes {} and numbered"),
        ("{0} {}", "mixes {} and numbered"),
        ("{", "brace at position 0 is unmatched"),
        ("ab}", "brace at position 2 is unmatched"),
        ("{a.b}", "{a.b} isn't supported"),
        ("{:.2f}", "{:.2f} isn't supported"),
        ("{} {}", "positional argument 1, which is missing"),
        ("{7}", "positional argument 7, which is missing"),
        ("{foo}", "keyword argument 'foo', which is missing"),
    ],
)
def test_bad_format_strings(fmt, problem):
    with pytest.raises(ArrayValueError) as caught:
        dr.format(fmt, 1)
    assert problem in str(caught.value)
    assert "test_format.py" in str(caught.value)


def test_several_values_need_a_format_string():
    with pytest.raises(ArrayTypeError, match="the first one is no format string"):
        dr.format(Float(1), Float(2))


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, None])
def test_bad_limits(limit):
    with pytest.raises(ArrayValueError, match="the limit is"):
        dr.format("{}", 1, limit=limit)


def test_long_arrays_are_abbreviated():
    x = dr.arange(Int, 30)
    assert dr.format(x) == "[0, 1, 2, .. 24 skipped .., 27, 28, 29]"
    full = "[" + ", ".join(map(str, range(30))) + "]"
    assert dr.format(x, limit=30) == full
    assert dr.format([x]) == "[\n  [0, 1, 2, .. 24 skipped .., 27, 28, 29]\n]"


@given(st.text(alphabet="ab{} ", max_size=12))
def test_format_strings_agree_with_python(fmt):
    values = ("p", "q", "r", "s", "t", "u")
    try:
        expected = fmt.format(*values, a="x", b="y", ab="z")
    except (ValueError, KeyError, IndexError):
        return
    if any(f"{{{k}{{" in fmt or f"{{{k} " in fmt for k in ("", "a", "b", "ab")):
        return
    assert dr.format(fmt, *values, a="x", b="y", ab="z") == expected


def test_symbolic_variables_have_no_text():
    @dr.syntax
    def f(i):
        while i < 3:
            dr.format("{}", i)
            i += 1

    with pytest.raises(SymbolicError, match=r"print with lumijit\.print"):
        f(Int(1, 2))


def test_print_writes_to_stdout(capsys):
    dr.print(Float(1, 2))
    dr.print("{x=}", x=3, end="!\n")
    assert capsys.readouterr().out == "[1, 2]\nx=3!\n"


def test_print_writes_to_a_file(capsys):
    file = io.StringIO()
    dr.print("{}", 1, file=file, end="")
    assert file.getvalue() == "1"
    assert capsys.readouterr().out == ""


def test_active_elements_only(capsys):
    x = Float(1, 2, 3)
    y = {"y": Array3f(x, 5, x + 1)}
    dr.print("{x} {y} {u} {thread_id}", x=x, y=y, u=Float(7), active=x != 2)
    expected = "[1, 3] {\n  'y': [[1, 5, 2],\n   [3, 5, 4]]\n} [7, 7] [0, 2]\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("active", [False, np.False_, Bool(False), Bool(False, False)])
def test_nothing_active_prints_nothing(active, capsys):
    dr.print("{} text", Float(1, 2), active=active)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("active", [1, Float(1), dr.llvm.Array3b(True), None])
def test_active_must_be_a_mask(active):
    with pytest.raises(ArrayTypeError, match="the mask is of type"):
        dr.print("{}", 1, active=active)


def test_unknown_modes():
    with pytest.raises(ArrayValueError, match="there is no mode 'later'"):
        dr.print("{}", 1, mode="later")


def test_nothing_is_abbreviated_to_something_longer():
    assert dr.format(Float(1, 2), limit=1) == "[1, 2]"
    assert dr.format(Float(1, 2, 3), limit=1) == "[1, .. 1 skipped .., 3]"


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (Float(1.23456), ".3f", "1.235"),
        (Float(1.23456, 2), ".1f", "[1.2, 2.0]"),
        (Int(5), "3d", "  5"),
        (Array3f(1, 2, 3), ".1f", "[[1.0, 2.0, 3.0]]"),
        (dr.arange(Int, 30), "02d", "[00, 01, 02, .. 24 skipped .., 27, 28, 29]"),
        (Float(1.5), "", "[1.5]"),
        (Float(), ".3f", "[]"),
        (dr.scalar.Array2f(1, 2), ".1f", "[1.0, 2.0]"),
    ],
)
def test_format_specifications(value, spec, text):
    assert format(value, spec) == text


def test_a_format_that_entries_do_not_have():
    with pytest.raises(ValueError, match="can't be written as 'd'"):
        f"{Float(1):d}"


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (Float(1).state, "VarState.Literal"),
        (dr.type_v(Float), "VarType.Float32"),
        (dr.ReduceOp.Add, "ReduceOp.Add"),
        (dr.LogLevel.Warn, "LogLevel.Warn"),
        (dr.backend_v(Float), "JitBackend.LLVM"),
    ],
)
def test_members_of_enumerations_print_by_name(member, text):
    assert str(member) == repr(member) == f"{member}" == text
    assert f"{member:d}" == str(int(member))
    assert f"{member:>20}" == text.rjust(20)
