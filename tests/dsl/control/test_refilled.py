"""What functions of constructs hand back are the containers of the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest

import lumijit as dr
from lumijit.llvm import PCG32, Bool, Float, UInt32

from ..programs.modes import MODES, flags_of


@pytest.fixture(params=MODES, autouse=True)
def mode(request: pytest.FixtureRequest) -> Any:
    with flags_of(request.param):
        yield request.param


class Sampler:
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"rng": PCG32, "n": UInt32}

    def __init__(self, size: int = 1) -> None:
        self.rng = PCG32(size=size)
        self.n = UInt32(0)

    def next(self) -> Any:
        self.n = self.n + 1
        return self.rng.next_float32()


@dataclass
class Struct:
    a: Any
    rest: list[Any]


class Pair(NamedTuple):
    one: Any
    other: Any


def numbers(size: int, count: int) -> list[list[float]]:
    rng = PCG32(size=size)
    return [list(rng.next_float32()) for _ in range(count)]


def test_generators_go_on_after_loops() -> None:
    rng, sampler = PCG32(size=2), Sampler(2)
    inner = sampler.rng

    def body(i: Any, x: Any, rng: Any, sampler: Any) -> Any:
        return i + 1, x + rng.next_float32() + sampler.next(), rng, sampler

    _, _, first, second = dr.while_loop(
        (UInt32(0), Float(0), rng, sampler), lambda i, *_: i < UInt32(3, 3), body
    )
    assert first is rng
    assert second is sampler
    assert sampler.rng is inner
    following = numbers(2, 4)[3]
    assert list(rng.next_float32()) == following
    assert list(sampler.next()) == following


def test_generators_go_on_after_branches() -> None:
    rng = PCG32(size=2)
    x, found = dr.if_stmt(
        (rng,),
        Bool(True, False),
        lambda rng: (rng.next_float32(), rng),
        lambda rng: (Float(0), rng),
    )
    assert found is rng
    drawn = numbers(2, 2)
    assert list(x) == [drawn[0][0], 0]
    assert list(rng.next_float32()) == [drawn[1][0], drawn[0][1]]


def test_containers_have_all_that_the_body_did() -> None:
    items, table = [Float(1, 2), Float(3, 4)], {"a": Float(1, 2)}
    struct, pair = Struct(Float(1, 2), [Float(5, 6)]), Pair([Float(7, 8)], Float(9, 9))

    def body(i: Any, items: Any, table: Any, struct: Any, pair: Any) -> Any:
        items[0] += 1
        items[1] = items[1] * 2
        table["a"] = table["a"] + 1
        struct.a = struct.a * 2
        struct.rest[0] = struct.rest[0] + 1
        pair.one[0] = pair.one[0] * 10
        return i + 1, items, table, struct, pair

    given = items, table, struct, pair
    found: Any
    _, *found = dr.while_loop((UInt32(0), *given), lambda i, *_: i < UInt32(1, 2), body)
    assert all(a is b for a, b in zip(found[:3], given[:3], strict=True))
    assert [list(x) for x in items] == [[2, 4], [6, 16]]
    assert list(table["a"]) == [2, 4]
    assert list(struct.a) == [2, 8]
    assert list(struct.rest[0]) == [6, 8]
    assert list(pair.one[0]) == [70, 800]
    assert found[3].one is pair.one


def test_other_objects_are_results_of_their_own() -> None:
    items = [Float(1, 2)]

    def body(i: Any, items: Any) -> Any:
        return i + 1, [items[0] * 2]

    _, found = dr.while_loop((UInt32(0), items), lambda i, _: i < UInt32(1, 2), body)
    assert found is not items
    assert list(found[0]) == [2, 8]
    assert list(items[0]) == [1, 2]
    mask = Bool(True, False)
    found = dr.if_stmt((items,), mask, lambda x: x, lambda x: [x[0] * 10])
    assert found is not items
    assert list(items[0]) == [1, 2]
