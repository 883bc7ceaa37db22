"""What methods of state and of classes built on Python's containers reach outside."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest

import lumijit as dr
from lumijit.control import bare_classes
from lumijit.llvm import PCG32, Float, UInt
from lumijit.runtime.errors import StateError

BOTH = ["symbolic", "evaluated"]
held: dict[str, Any] = {}


class Counting:
    def bump(self) -> None:
        held["v"] += 1


class Pair(NamedTuple):
    a: float

    def bump(self) -> None:
        held["v"] += 1


class Tuple(Counting, tuple[Any, ...]):
    pass


class List(Counting, list[Any]):
    pass


class Dict(Counting, dict[Any, Any]):
    pass


class Set(Counting, set[Any]):
    pass


class Deque(Counting, collections.deque[Any]):
    pass


class Text(Counting, str):
    pass


class Random(Counting, PCG32):
    pass


class Network(Counting, dr.nn.Module):
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {}


@dataclass
class Ray(Counting):
    t: Float
    total: ClassVar[Any] = 0

    @property
    def counted(self) -> Float:
        self.bump()
        return self.t

    def __mul__(self, other: Any) -> Any:
        return self.counted * other

    def __call__(self) -> None:
        type(self).total += 1

    def __enter__(self) -> None:
        self.helped()

    def __exit__(self, *args: Any) -> None:
        pass

    @staticmethod
    def helped() -> None:
        bump()


class Struct(Counting):
    DRJIT_STRUCT = {"v": Float}

    def __init__(self) -> None:
        self.v = Float(1)


class Meta(type):
    def bump(cls) -> None:
        held["v"] += 1


class Made(metaclass=Meta):
    pass


def bump() -> None:
    held["v"] += 1


def made(name: str) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "named tuple": lambda: Pair(1.0),
        "tuple": lambda: Tuple((1,)),
        "list": List,
        "dict": lambda: Dict(a=1),
        "set": Set,
        "deque": Deque,
        "text": lambda: Text("a"),
        "generator": lambda: Random(size=3),
        "network": Network,
        "dataclass": lambda: Ray(Float(1, 2, 3)),
        "struct": Struct,
        "class": lambda: Made,
    }
    return makers[name]()


NAMES = ["named tuple", "tuple", "list", "dict", "set", "deque", "text", "class"]
STATE = ["generator", "network", "dataclass", "struct"]


@pytest.fixture(autouse=True)
def _from_zero() -> None:
    held["v"] = 0
    Ray.total = 0


@dr.syntax
def looped(act: Any, value: Any, n: UInt, mode: str) -> None:
    i = UInt(0)
    while dr.hint(i < n, mode=mode):
        act(value)
        i += 1


@dr.syntax
def branched(act: Any, value: Any, n: UInt, mode: str) -> None:
    if dr.hint(n > 1, mode=mode):
        act(value)


def _counts(act: Callable[[Any], Any], value: Any, mode: str) -> None:
    looped(act, value, UInt(1, 2, 3), mode)
    assert list(held["v"]) == [1, 2, 3]
    held["v"] = 0
    branched(act, value, UInt(1, 2, 3), mode)
    assert list(held["v"]) == [0, 1, 1]


def _bumped(value: Any) -> None:
    value.bump()


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("name", NAMES + STATE)
def test_methods_of_variables(name: str, mode: str) -> None:
    _counts(_bumped, made(name), mode)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("name", NAMES)
def test_methods_of_what_functions_hold(name: str, mode: str) -> None:
    value = made(name)
    _counts(lambda _: value.bump(), Float(1), mode)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("name", NAMES + STATE)
def test_methods_of_items(name: str, mode: str) -> None:
    _counts(lambda items: items[0].bump(), [made(name)], mode)


def _entered(value: Any) -> None:
    with value:
        pass


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize(
    "act",
    [lambda ray: ray.counted, lambda ray: ray * 2, _entered, lambda ray: ray.helped()],
    ids=["property", "operator", "with", "static"],
)
def test_what_calls_methods(act: Any, mode: str) -> None:
    _counts(act, Ray(Float(1, 2, 3)), mode)


@pytest.mark.parametrize("mode", BOTH)
def test_attributes_of_the_class(mode: str) -> None:
    looped(lambda ray: ray(), Ray(Float(1)), UInt(1, 2, 3), mode)
    assert list(Ray.total) == [1, 2, 3]


@pytest.mark.parametrize("mode", BOTH)
def test_while_loop_refuses(mode: str) -> None:
    def body(ray: Any, i: UInt, n: UInt) -> Any:
        ray.bump()
        return ray, i + 1, n

    state = Ray(Float(1, 2, 3)), UInt(0), UInt(1, 2, 3)
    with pytest.raises(StateError, match=r"changes 'held\['v'\]'"):
        dr.while_loop(state, lambda ray, i, n: i < n, body, mode=mode)


@pytest.mark.parametrize("mode", BOTH)
def test_weak_proxies(mode: str) -> None:
    class Counter:
        v = 0

    counter = Counter()
    proxy = weakref.proxy(counter)

    def bump(_: Any) -> None:
        proxy.v += 1

    looped(bump, Float(1), UInt(1, 2, 3), mode)
    assert list(counter.v) == [1, 2, 3]  # type: ignore[call-overload]


def test_what_a_proxy_stood_for_may_be_gone() -> None:
    class Counter:
        pass

    proxy = weakref.proxy(Counter())
    looped(lambda _: type(proxy), Float(1), UInt(1, 2, 3), "symbolic")


@dataclass
class Plain:
    o: Float
    d: Float

    def at(self, t: Float, eps: float = 1e-3) -> Float:
        return dr.fma(self.d, t, self.o) + eps

    def moved(self, t: Float) -> Plain:
        return Plain(self.at(t), self.d)


@dataclass(frozen=True)
class Frozen:
    o: Float
    d: Any = None


class Two(NamedTuple):
    a: float
    b: float = 2.0


@pytest.mark.parametrize("cls", [Plain, Frozen, Two, list, dict, Float, PCG32])
def test_bare_classes_lead_nowhere(cls: type[Any]) -> None:
    assert not bare_classes.look_at(cls).leads_on


@pytest.mark.parametrize("cls", [Ray, Struct, Pair, Network, Random, Made])
def test_others_lead_on(cls: type[Any]) -> None:
    assert bare_classes.look_at(cls).leads_on


@pytest.mark.parametrize("what", ["method", "attribute", "defaults", "global"])
def test_classes_that_change_lead_on(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bare_classes, "_KNOWN", {})
    assert not bare_classes.look_at(Plain).leads_on
    with monkeypatch.context() as patch:
        if what == "method":
            patch.setattr(Plain, "at", Plain.moved)
        elif what == "attribute":
            patch.setattr(Plain, "limit", 2.0, raising=False)
        elif what == "defaults":
            patch.setattr(Plain.at, "__defaults__", (2.0,))
        else:
            patch.setitem(globals(), "dr", held)
        assert bare_classes.look_at(Plain).leads_on
    # Recordings may have been made meanwhile.
    assert bare_classes.look_at(Plain).leads_on


def test_methods_that_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not bare_classes.look_at(Two).leads_on
    monkeypatch.setattr(Two, "bump", lambda self: bump(), raising=False)
    _counts(_bumped, Two(1.0), "symbolic")


@pytest.mark.parametrize("mode", BOTH)
def test_methods_of_classes_in_functions(mode: str) -> None:
    @dataclass
    class Local:
        t: Float

        def bump(self) -> None:
            held["v"] += 1

    _counts(_bumped, Local(Float(1)), mode)


def test_classes_whose_module_is_no_text_are_nobodys() -> None:
    class Odd:
        __module__ = property(lambda self: "odd")

    odd = Odd()

    @dr.syntax
    def f(n: UInt) -> UInt:
        i = UInt(0)
        while i < n:
            i += 1 if odd else 2
        return i

    assert f(UInt(1, 2)).numpy().tolist() == [1, 2]
