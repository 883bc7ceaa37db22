"""Two attributes that are one array, which called functions change in place."""

from __future__ import annotations

import linecache
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import lumijit as dr
from lumijit.runtime.errors import StateError

PROGRAM = """
import lumijit as dr
from lumijit.llvm.ad import Float64, Int64

class Holder:
    def __init__(self, is_shared):
        self.a = Float64(1, 2, 3) * 1.5
        self.b = self.a if is_shared else Float64(1, 2, 3) * 1.5
        self.c = Float64(4, 5, 6) * 1.5
        self.memo = None

def grow(o, v):
    o.b += v

def add(o, v):
    o.c = o.c + v

def fill(o, v):
    o.memo = v * 2

def fail(o, v):
    raise ValueError("a user's mistake")

@dr.syntax
def f(o, x, n):
    i = Int64(0)
    while i < n:
        if x > 0:
            grow(o, x)
        AFTER(o, x)
        i += 1
    return i

def run(is_shared):
    o = Holder(is_shared)
    try:
        f(o, Float64(0.5, 1.5, 2.5), Int64(1, 2, 3))
    except Exception as error:
        return o, error
    return o, None
"""


def made(folder: Path, after: str) -> Callable[[bool], Any]:
    """Return a program that grows an attribute, and then does more.

    It is a new one each time, as constructs remember what they have changed.
    """
    path = folder / "program.py"
    path.write_text(PROGRAM.replace("AFTER", after))
    linecache.checkcache()
    return cast("Callable[[bool], Any]", runpy.run_path(str(path))["run"])


@pytest.fixture(params=["symbolic", "evaluated"])
def mode(request: pytest.FixtureRequest) -> Any:
    is_symbolic = request.param == "symbolic"
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, is_symbolic),
    ):
        yield request.param


@pytest.mark.parametrize("is_shared", [True, False])
def test_another_entry_is_found_in_a_later_attempt(
    tmp_path: Path, mode: str, is_shared: bool
) -> None:
    run = made(tmp_path, "add")
    for _ in range(2):
        o, error = run(is_shared)
        assert error is None
        assert o.b.numpy().tolist() == [2, 6, 12]
        assert o.a.numpy().tolist() == ([2, 6, 12] if is_shared else [1.5, 3, 4.5])
        assert o.c.numpy().tolist() == [6.5, 10.5, 16.5]
        assert (o.a is o.b) == is_shared


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("after", ["fail", "fill"])
def test_arrays_are_as_they_were_after_an_error(
    tmp_path: Path, mode: str, is_shared: bool, after: str
) -> None:
    run = made(tmp_path, after)
    for _ in range(2):
        o, error = run(is_shared)
        assert type(error) is (ValueError if after == "fail" else StateError)
        np.testing.assert_array_equal(o.a, [1.5, 3, 4.5])
        np.testing.assert_array_equal(o.b, [1.5, 3, 4.5])
        np.testing.assert_array_equal(o.c, [6, 7.5, 9])
