"""`@kernel`: variables of modules count, however a function gets at the modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm.ad import Float
from tests.dsl.replay import support
from tests.dsl.replay.support import assert_equal

SOURCE = """
gain, label, table, count = 2.0, "ab", None, 0
class Settings:
    scale = 1.0
def scaled(x):
    return x * gain * Settings.scale
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("settings_of_a_test")
    exec(SOURCE, made.__dict__)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value

    def module(self) -> Any:
        return self.value


def _imports(_: ModuleType) -> Callable[..., Any]:
    def function(x: Float) -> Any:
        import settings_of_a_test as found  # type: ignore[import-not-found]

        return x * found.gain

    return function


def _imports_names(_: ModuleType) -> Callable[..., Any]:
    def function(x: Float) -> Any:
        from settings_of_a_test import gain

        return x * gain

    return function


def _imports_functions(_: ModuleType) -> Callable[..., Any]:
    def function(x: Float) -> Any:
        def inner() -> Any:
            from settings_of_a_test import scaled

            return scaled(x)

        return inner()

    return function


def _encloses(module: Any) -> Callable[..., Any]:
    return lambda x: x * module.gain


def _has_in_attribute(module: ModuleType) -> Callable[..., Any]:
    holder = Holder(module)
    return lambda x: x * holder.module().gain


def _has_in_containers(module: Any) -> Callable[..., Any]:
    holders = {"a": [(0, module)]}
    return lambda x: x * holders["a"][0][1].gain


def _computes_name(module: ModuleType) -> Callable[..., Any]:
    holder = Holder(module)
    return lambda x: x * getattr(holder.value, "ga" + "in") + vars(module)["count"]


WAYS = pytest.mark.parametrize(
    "function_of",
    [
        _imports,
        _imports_names,
        _imports_functions,
        _encloses,
        _has_in_attribute,
        _has_in_containers,
        _computes_name,
    ],
)


@WAYS
@pytest.mark.parametrize("kind", [float, Float])
def test_what_is_read(module: Any, function_of: Any, kind: Any) -> None:
    module.gain = kind(2)
    function = function_of(module)
    f = dr.kernel(function)
    for value in (2, 2, 5, 5, 7):
        module.gain = kind(value)
        assert_equal(f(Float(1, 2)), Float(value, 2 * value))
    if kind is Float:
        assert f.n_recordings == 1


def test_classes_in_modules_that_are_imported(module: Any) -> None:
    f = dr.kernel(_imports_functions(module))
    assert_equal(f(Float(1)), Float(2))
    module.Settings.scale = 3
    assert_equal(f(Float(1)), Float(6))
    module.scaled = lambda x: x + 1
    assert_equal(f(Float(1)), Float(2))


def test_an_argument_that_is_a_module(module: Any) -> None:
    f = dr.kernel(lambda x, m: x * m.gain * len(m.label))
    assert_equal(f(Float(1), module), Float(4))
    module.gain, module.label = 5.0, "abc"
    assert_equal(f(Float(1), module), Float(15))


def test_what_is_assigned(module: Any) -> None:
    holder = Holder(module)

    @dr.kernel
    def f(x: Float) -> Float:
        import settings_of_a_test

        settings_of_a_test.count += 1
        module.table = x * module.count
        holder.value.fresh = x * 2
        return x + 1

    for k in range(5):
        f(Float(k, 1))
        assert module.count == k + 1
        assert_equal(module.table, Float(k * (k + 1), k + 1))
        assert_equal(module.fresh, Float(2 * k, 2))
    assert f.n_recordings <= 3


def test_names_are_mentioned_anywhere(module: Any) -> None:
    """The function that reads the attribute isn't the one that has the module."""

    def read(m: Any) -> Any:
        return m.gain

    holder = Holder(module)
    f = dr.kernel(lambda x: x * read(holder.module()))
    assert_equal(f(Float(1)), Float(2))
    module.gain = 3.0
    assert_equal(f(Float(1)), Float(3))


def test_relative_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    @dr.kernel
    def f(x: Float) -> Float:
        from .support import FACTOR

        return x * FACTOR

    for value in (1.0, 4.0, 5.0):
        monkeypatch.setattr(support, "FACTOR", value)
        assert_equal(f(Float(1)), Float(value))


def test_loops_see_arrays_in_modules(module: Any) -> None:
    """A function that a loop calls changes an array of a module that it imports."""
    module.table = Float(0, 0)

    def add(x: Float) -> Float:
        import settings_of_a_test

        settings_of_a_test.table += x
        return x * 2

    @dr.syntax
    def f(x: Float, n: Any) -> Float:
        k = dr.uint32_array_t(Float)(0)
        while k < n:
            x = add(x)
            k += 1
        return x

    for mode in ("symbolic", "evaluated"):
        module.table = Float(0, 0)
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
            f(Float(1, 1), dr.uint32_array_t(Float)(1, 3))
        assert_equal(module.table, Float(1, 7))
