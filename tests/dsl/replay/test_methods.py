"""`@kernel`: what methods of arguments and of built-in containers read outside."""

from __future__ import annotations

import collections
import importlib
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import pytest

import lumijit as dr
from lumijit.llvm.ad import PCG32, Float
from tests.dsl.replay.support import assert_equal

settings: dict[str, float] = {}
ITEMS = [2.0]


class Reading:
    def scaled(self) -> float:
        return settings["x"]


class Pair(NamedTuple):
    a: float

    def scaled(self) -> float:
        return settings["x"]


class Tuple(Reading, tuple[Any, ...]):
    pass


class List(Reading, list[Any]):
    pass


class Dict(Reading, dict[Any, Any]):
    def __missing__(self, key: Any) -> float:
        return settings["x"]


class Set(Reading, set[Any]):
    pass


class Deque(Reading, collections.deque[Any]):
    pass


class Text(Reading, str):
    pass


class Random(Reading, PCG32):
    pass


class Network(Reading, dr.nn.Module):
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {}


@dataclass
class Ray(Reading):
    t: Float

    @property
    def gain(self) -> float:
        return settings["x"]

    def __call__(self) -> float:
        return self.scaled()

    def __rmul__(self, other: Any) -> Any:
        return other * settings["x"]

    @staticmethod
    def fixed() -> float:
        return settings["x"]

    @classmethod
    def of_class(cls) -> float:
        return settings["x"]

    def of_attribute(self) -> Any:
        return self.limit  # type: ignore[attr-defined]


class Struct(Reading):
    DRJIT_STRUCT = {"v": Float}

    def __init__(self) -> None:
        self.v = Float(1)


def made(name: str) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "named tuple": lambda: Pair(1.0),
        "tuple": lambda: Tuple((1,)),
        "list": List,
        "dict": lambda: Dict(a=1),
        "set": Set,
        "deque": Deque,
        "text": lambda: Text("a"),
        "generator": lambda: Random(size=2),
        "network": Network,
        "dataclass": lambda: Ray(Float(1)),
        "struct": Struct,
    }
    return makers[name]()


NAMES = ["named tuple", "tuple", "list", "dict", "set", "deque", "text", "generator"]
NAMES += ["network", "dataclass", "struct"]


def _set(value: float) -> None:
    settings["x"] = value


def _is_seen(
    function: Callable[..., Any], *args: Any, change: Callable[[float], Any] = _set
) -> None:
    f = dr.kernel(function)
    for value in (2.0, 5.0, 6.0):
        change(value)
        for _ in range(2):
            assert_equal(f(*args, Float(1, 2)), Float(value, 2 * value))
    assert f.n_recordings <= 3


@pytest.mark.parametrize("name", NAMES)
def test_methods_of_arguments(name: str) -> None:
    value = made(name)
    _is_seen(lambda value, x: x * value.scaled(), value)
    _is_seen(lambda values, x: x * values[0].scaled(), [value])


@pytest.mark.parametrize("name", NAMES)
def test_methods_of_what_a_function_holds(name: str) -> None:
    value = made(name)
    _is_seen(lambda x: x * value.scaled())


@pytest.mark.parametrize(
    "read",
    [
        lambda ray, x: x * ray.gain,
        lambda ray, x: x * ray(),
        lambda ray, x: x * ray,
        lambda ray, x: x * ray.fixed(),
        lambda ray, x: x * ray.of_class(),
    ],
    ids=["property", "call", "operator", "static", "class"],
)
def test_what_calls_methods(read: Any) -> None:
    _is_seen(read, Ray(Float(1)))


def test_attributes_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ray, "limit", 2.0, raising=False)
    change = partial(monkeypatch.setattr, Ray, "limit")
    _is_seen(lambda ray, x: x * ray.of_attribute(), Ray(Float(1)), change=change)


def test_missing_keys() -> None:
    value = Dict(a=1)
    _is_seen(lambda x: x * value["b"])


@dataclass
class Bare:
    t: Float

    def gain(self) -> Any:
        return 2.0


def test_methods_of_bare_classes_that_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change(value: float) -> None:
        monkeypatch.setattr(Bare, "gain", lambda self: value)

    f = dr.kernel(lambda bare, x: x * bare.gain())
    assert_equal(f(Bare(Float(1)), Float(1, 2)), Float(2, 4))
    change(3.0)
    assert_equal(f(Bare(Float(1)), Float(1, 2)), Float(3, 6))


class Lamp(Reading):
    def shaded(self) -> float:
        return self.scaled()


@dataclass
class Lit:
    t: Float
    lamp: Any = None

    def shade(self) -> Any:
        return self.lamp.shaded()


def test_methods_that_only_those_of_bare_classes_mention() -> None:
    _is_seen(lambda lit, x: x * lit.shade(), Lit(Float(1), Lamp()))


class Holder:
    get: Any


def test_bound_methods_of_containers() -> None:
    get, item, at = settings.get, settings.__getitem__, ITEMS.__getitem__
    part, holder = partial(settings.get, "x"), Holder()
    holder.get = settings.get
    _is_seen(lambda x: x * get("x"))
    _is_seen(lambda x: x * item("x"))
    _is_seen(lambda x: x * part())
    _is_seen(lambda x: x * holder.get("x"))
    _is_seen(lambda x: x * at(0), change=partial(ITEMS.__setitem__, 0))


def test_bound_methods_of_containers_as_arguments() -> None:
    _is_seen(lambda get, x: x * get("x"), settings.get)


def test_weak_proxies() -> None:
    holder = Holder()
    proxy = weakref.proxy(holder)
    _is_seen(lambda x: x * proxy.get, change=lambda v: setattr(holder, "get", v))


def test_attributes_that_a_module_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("computing")
    code = "kept = {}\ndef __getattr__(name):\n    return kept[name]\n"
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, "computing", module)
    change = partial(module.kept.__setitem__, "x")
    _is_seen(lambda x: x * module.x, change=change)


def test_modules_imported_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("imported")
    monkeypatch.setitem(sys.modules, "imported", module)

    def read(x: Float) -> Float:
        return x * importlib.import_module("imported").x

    _is_seen(read, change=lambda v: setattr(module, "x", v))


class Lantern:
    def shaded(self, x: Float) -> Float:
        return x


LANTERN = Lantern()


@dataclass
class View:
    camera: tuple[float, float] = (1.0, 2.0)
    lamp: Any = LANTERN

    def seen(self, x: Float) -> Float:
        return x * self.camera[0] + self.lamp.shaded(x)


def test_defaults_of_fields_tell_nothing_apart() -> None:
    @dr.kernel
    def f(view: View, x: Float) -> Float:
        return view.seen(x)

    x = Float(1, 2)
    for view in (View(), View((3.0, 4.0)), View((5.0, 6.0))):
        assert_equal(f(view, x), x * view.camera[0] + x)
    assert f.n_recordings == 1
