"""Methods that code calls by names that it computes, or that a library calls.

What they use outside is found as if code mentioned them.
"""

from __future__ import annotations

import collections
import importlib
import json
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.control.bytecode import facts_of
from lumijit.control.inert import Inert
from lumijit.llvm import Float, UInt

from ..programs.modes import flags_of

scale = 2
calls: list[int] = []
total: Any = Float(0, 0)


def made() -> int:
    calls.append(1)
    return scale


class Material:
    def eval_diffuse(self, x: Float) -> Float:
        return x * made()

    def add(self, x: Float) -> Float:
        global total
        total = total + x
        return x * 2


class Encoder(json.JSONEncoder):
    def default(self, o: object) -> Any:
        return made()


material, encoder = Material(), Encoder()
missing: collections.defaultdict[str, int] = collections.defaultdict(made)
WAYS: dict[str, Callable[[Float, str], Float]] = {
    "getattr": lambda x, kind: getattr(material, "eval_" + kind)(x),
    "methodcaller": lambda x, kind: operator.methodcaller("eval_" + kind, x)(material),
    "dir": lambda x, kind: next(
        vars(Material)[name](material, x) for name in dir(material) if kind in name
    ),
    "a base of a library": lambda x, kind: x * int(encoder.encode(object())),
    "a factory": lambda x, kind: x * missing[kind] + 0 * missing.pop(kind),
}


@pytest.mark.parametrize("way", WAYS)
def test_recordings_see_what_methods_use(way: str) -> None:
    global scale
    scale, function = 2, dr.kernel(WAYS[way])
    calls.clear()
    for k in range(2, 5):
        scale = k
        assert list(function(Float(1, 2), "diffuse")) == [k, 2 * k]
        assert len(calls) == k - 1


@dr.syntax
def turns(x: Float, name: str) -> Float:
    i = UInt(0)
    while i < 3:
        x = getattr(material, name)(x)
        i += 1
    return x


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_have_what_methods_assign_as_state(mode: str) -> None:
    global total
    total = Float(0, 0)
    with flags_of(mode):
        assert list(turns(Float(1, 2), "add")) == [8, 16]
    assert list(total) == [7, 14]


def by_globals(x: Float) -> None:
    globals()["total"][0] += x


def by_variables(x: Float) -> None:
    vars(sys.modules[__name__])["total"][0] += x


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("change", [by_globals, by_variables])
def test_branches_change_what_is_named_by_texts(mode: str, change: Any) -> None:
    global total
    total = [Float(1, 1, 1)]

    @dr.syntax
    def f(x: Float) -> Float:
        if x > 1:
            change(x)
        return x

    with flags_of(mode):
        f(Float(1, 2, 3))
    assert list(total[0]) == [1, 3, 4]


def in_place(x: Float) -> None:
    operator.imul(total, x)


def by_method(x: Float) -> None:
    total.__imul__(x)


@dr.syntax
def changes_in_place(x: Float) -> None:
    if x > 1:
        in_place(x)


@dr.syntax
def changes_by_method(x: Float) -> None:
    if x > 1:
        by_method(x)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("change", [changes_in_place, changes_by_method])
def test_branches_change_arrays_by_functions(mode: str, change: Any) -> None:
    global total
    total = Float(1, 1, 1)
    with flags_of(mode):
        change(Float(1, 2, 3))
    assert list(total) == [1, 2, 3]


here = sys.modules[__name__]
holder = types.SimpleNamespace(module=here)


def by_modules(x: Float) -> None:
    sys.modules[__name__].total += x  # type: ignore[attr-defined]


def by_import(x: Float) -> None:
    importlib.import_module(__name__).total += x  # type: ignore[attr-defined]


def by_module(x: Float) -> None:
    here.total += x  # type: ignore[attr-defined]


def by_attribute(x: Float) -> None:
    holder.module.total += x


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("change", [by_modules, by_import, by_module, by_attribute])
def test_branches_change_variables_as_attributes_of_their_module(
    mode: str, change: Any
) -> None:
    global total
    total = Float(1, 1, 1)

    @dr.syntax
    def f(x: Float) -> Float:
        if x > 1:
            change(x)
        return x

    with flags_of(mode):
        f(Float(1, 2, 3))
    assert list(total) == [1, 3, 4]


class Sums:
    DRJIT_STRUCT = {"total": Float}

    def __init__(self, total: Any = None) -> None:
        self.total = total


def test_attributes_that_are_called_as_variables_are_no_variables() -> None:
    def adds(sums: Sums, x: Float) -> None:
        sums.total += x * scale

    def adds_to_both(sums: Sums, x: Float) -> None:
        sums.total += x * total

    assert facts_of(adds.__code__).globals == ("scale",)
    sums = Sums(Float(1))
    assert Inert().are_all((adds,), (sums, Float(1)))
    assert not Inert().are_all((adds_to_both,), (sums, Float(1)))
