"""Pointers through control flow: calls trace only the objects that they may hold.

Another scene's object, of the same class and alive, raises where it is traced. So a
call that takes too many is an error, and one that takes too few a wrong number.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lumijit as lj
import lumijit.scalar
from lumijit.llvm import Float, UInt32

MODES = ("symbolic", "evaluated")


class Item:
    """The interface."""

    def grow(self, x: Any) -> Any:
        """Return the next value."""
        raise NotImplementedError

    def next(self) -> Any:
        """Return the object after this one."""
        raise NotImplementedError


ItemPtr = lj.instance_array_t(Float, Item)


class Step(Item):
    def __init__(self, factor: float, offset: float) -> None:
        self.factor = Float(factor)
        self.offset = Float(offset)
        self.after = ItemPtr(None)

    def grow(self, x: Any) -> Any:
        return x * self.factor + self.offset

    def next(self) -> Any:
        return self.after


class Broken(Item):
    """An object of another scene."""

    def grow(self, x: Any) -> Any:
        raise RuntimeError("the other scene was traced")

    def next(self) -> Any:
        raise RuntimeError("the other scene was traced")


@pytest.fixture(autouse=True)
def other_scene() -> Iterator[Item]:
    gc.collect()
    found = Broken()
    # From now on it has a number.
    assert ItemPtr([found])[0] is found
    yield found
    del found
    gc.collect()


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    chosen = str(request.param)
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, chosen == "symbolic"),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, chosen == "symbolic"),
        lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, chosen == "symbolic"),
    ):
        yield chosen


def chain(count: int) -> list[Step]:
    """Make objects of which each leads to the next, the last to none."""
    made = [Step(1, 10.0**k) for k in range(count)]
    for one, after in itertools.pairwise(made):
        one.after = ItemPtr(after)
    return made


@lj.syntax
def repeat(p: Any, x: Any, n: Any) -> Any:
    i = UInt32(0)
    while i < n:
        x = p.grow(x)
        i += 1
    return x


@lj.syntax
def repeat_carried(p: Any, x: Any, n: Any) -> Any:
    i = UInt32(0)
    while i < n:
        q = p
        x = q.grow(x)
        p = q
        i += 1
    return x, p


@lj.syntax
def follow(p: Any, x: Any) -> Any:
    while p != None:  # noqa: E711
        x = p.grow(x)
        p = p.next()
    return x


@lj.syntax
def walk_table(table: Any, after: Any, start: Any) -> Any:
    k, x = start, Float(0)
    p = lj.gather(ItemPtr, table, k)
    while p != None:  # noqa: E711
        x = p.grow(x)
        k = lj.gather(UInt32, after, k)
        p = lj.gather(ItemPtr, table, k)
    return x


def test_unchanged(mode: str) -> None:
    double, add = Step(2, 0), Step(1, 1)
    p = ItemPtr([double, add, double, None])
    x = repeat(p, Float(1, 1, 3, 5), UInt32(3, 4, 2, 3))
    assert list(x) == [8, 5, 12, 0]
    x, q = repeat_carried(p, Float(1, 1, 3, 5), UInt32(3, 4, 2, 0))
    assert list(x) == [8, 5, 12, 5]
    assert list(q) == [double, add, double, None]
    # What the loop returns is known as well, also after its evaluation.
    lj.eval(q)
    assert list(q.grow(Float(1))) == [2, 2, 2, 0]


@pytest.mark.parametrize("compress", [False, True])
def test_unchanged_compressed(compress: bool) -> None:
    double, add = Step(2, 0), Step(1, 1)
    p = ItemPtr([double, add, double, add])
    _, x, _ = lj.while_loop(
        (UInt32(0), Float(1, 1, 3, 5), p),
        lambda i, x, p: i < UInt32(3, 4, 2, 0),
        lambda i, x, p: (i + 1, p.grow(x), lj.select(x > 2, ItemPtr(add), p)),
        mode="evaluated",
        compress=compress,
    )
    assert list(x) == [8, 5, 7, 5]


def test_a_literal_that_stays(mode: str) -> None:
    double = Step(2, 0)
    assert list(repeat(ItemPtr(double), Float(1, 2), UInt32(3, 1))) == [8, 4]


def test_nested_loops(mode: str) -> None:
    double, add = Step(2, 0), Step(1, 1)

    @lj.syntax
    def program(p: Any, q: Any, x: Any, n: Any) -> Any:
        i = UInt32(0)
        while i < n:
            j = UInt32(0)
            while j < 2:
                x = p.grow(x)
                j += 1
            # Known only once both loops have been traced.
            p, q = q, p
            i += 1
        return x

    p, q = ItemPtr([double, add, None]), ItemPtr([add, double, add])
    x = program(p, q, Float(1, 1, 1), UInt32(3, 2, 2))
    assert list(x) == [(1 * 4 + 2) * 4, (1 + 2) * 4, 2]


def test_branches(mode: str) -> None:
    double, add, less = Step(2, 0), Step(1, 1), Step(1, -1)

    @lj.syntax
    def program(p: Any, x: Any, n: Any) -> Any:
        i = UInt32(0)
        while i < n:
            if x > 10:
                p = ItemPtr(less)
            elif x > 5:
                p = ItemPtr(add)
            x = p.grow(x)
            i += 1
        return x

    def plain(x: float, factor: float, offset: float, n: int) -> float:
        for _ in range(n):
            if x > 10:
                factor, offset = 1, -1
            elif x > 5:
                factor, offset = 1, 1
            x = x * factor + offset
        return x

    start, turns = [1.0, 4, 7, 20], [0, 5, 9, 30]
    p = ItemPtr([double] * 4)
    x = program(p, Float(start), UInt32(turns))
    expected = [plain(x, 2, 0, n) for x, n in zip(start, turns, strict=True)]
    assert list(x) == expected


@pytest.mark.parametrize("count", [1, 2, 3])
def test_chains(mode: str, count: int) -> None:
    made = chain(count)
    x = follow(ItemPtr([made[0], made[-1], None]), Float(0, 0, 7))
    assert list(x) == [sum(10.0**k for k in range(count)), 10.0 ** (count - 1), 7]


def test_long_chains(mode: str, other_scene: Any) -> None:
    # From some length on, all objects are traced.
    other_scene.grow = lambda x: x - 1000
    other_scene.next = lambda: ItemPtr(None)
    made = chain(30)
    for one in made:
        one.offset = Float(1)
    assert list(follow(ItemPtr([made[0], made[20]]), Float(0, 0))) == [30, 10]


def test_tables(mode: str) -> None:
    made = [Step(1, 10.0**k) for k in range(6)]
    table = ItemPtr([*made, None])
    after = UInt32(3, 2, 6, 1, 0, 6, 6)
    x = walk_table(table, after, UInt32(0, 1, 5, 4))
    assert list(x) == [1111 - 0, 110, 100000, 11111]


def test_written_tables(mode: str) -> None:
    one, two = Step(1, 1), Step(1, 2)
    table = ItemPtr([one, one, one, None])
    lj.scatter(table, ItemPtr(two), UInt32(1))
    p = lj.gather(ItemPtr, table, UInt32(0, 1, 2, 3))
    assert list(repeat(p, Float(0, 0, 0, 0), UInt32(2))) == [2, 4, 2, 0]


def test_known_after_evaluation() -> None:
    double, add = Step(2, 0), Step(1, 1)
    chosen = lj.select(Float(1, -1, 1) > 0, ItemPtr(double), ItemPtr(add))
    same = lj.opaque(ItemPtr, add, 3)
    moved = lj.gather(ItemPtr, chosen, UInt32(2, 1, 0))
    lj.eval(moved)
    for p, factors in ((chosen, [4, 3, 4]), (same, [3, 3, 3]), (moved, [4, 3, 4])):
        lj.make_opaque(p)
        assert list(p.grow(Float(2))) == factors


def test_calls_with_pointers_among_arguments(mode: str) -> None:
    double, add = Step(2, 0), Step(1, 1)

    def once(p: Any, x: Any) -> tuple[Any, Any]:
        return p, p.grow(x)

    def replaced(p: Any, x: Any) -> tuple[Any, Any]:
        return ItemPtr(add), p.grow(x)

    @lj.syntax
    def program(p: Any, k: Any, x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            p, x = lj.switch(k, [once, replaced], p, x)
            i += 1
        return x

    p = ItemPtr([double, double])
    assert list(program(p, UInt32(0, 1), Float(1, 1))) == [8, 4]


def test_objects_that_hold_pointers(mode: str) -> None:
    double, add = Step(2, 0), Step(1, 1)

    class Path:
        def __init__(self, p: Any) -> None:
            self.p = p

        def advance(self, x: Any) -> Any:
            y = self.p.grow(x)
            self.p = lj.select(y > 3, ItemPtr(add), self.p)
            return y

    @lj.syntax
    def program(path: Any, x: Any, n: Any) -> Any:
        i = UInt32(0)
        while i < n:
            x = path.advance(x)
            i += 1
        return x

    path = Path(ItemPtr([double, double]))
    assert list(program(path, Float(1, 1), UInt32(2, 4))) == [4, 6]


def test_scalar() -> None:
    double: Any = Step(2, 0)
    double.factor, double.offset = 2.0, 0.0
    pointer = lj.instance_array_t(lumijit.scalar.Float, Item)
    x, k = 1.0, 0
    while k < 3:
        x = pointer(double).grow(x)
        k += 1
    assert x == 8


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_random_walks(data: Any) -> None:
    count = data.draw(st.integers(1, 5))
    nodes = st.integers(-1, count - 1)
    after = [data.draw(nodes) for _ in range(count)]
    other = [data.draw(nodes) for _ in range(count)]
    # Of pointers that hold nothing, any object tells the type of the result.
    start = [0, *data.draw(st.lists(nodes, min_size=1, max_size=5))]
    turns = [data.draw(st.integers(0, 6)) for _ in start]
    mode = data.draw(st.sampled_from(MODES))
    made = [Step(1, 10.0**k) for k in range(count)]
    for one, k in zip(made, after, strict=True):
        one.after = ItemPtr(None if k < 0 else made[k])
    table = ItemPtr([made[k] if k >= 0 else None for k in other])

    @lj.syntax
    def program(p: Any, q: Any, n: Any) -> Any:
        i, x = UInt32(0), Float(0)
        while i < n:
            x = p.grow(x)
            if x > 20:
                p = p.next()
            else:
                p, q = q, p
            i += 1
        return x

    def plain(p: int, q: int, n: int) -> float:
        x = 0.0
        for _ in range(n):
            x = x + 10.0**p if p >= 0 else 0.0
            if x > 20:
                p = after[p] if p >= 0 else -1
            else:
                p, q = q, p
        return x

    pointers = ItemPtr([made[k] if k >= 0 else None for k in start])
    second = lj.gather(ItemPtr, table, UInt32([max(k, 0) for k in start]))
    with (
        pytest.MonkeyPatch.context() as changes,
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, mode == "symbolic"),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, mode == "symbolic"),
        lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, mode == "symbolic"),
    ):
        if max(after) >= 0 and count > 3:
            # Long chains end with all objects.
            changes.setattr(Broken, "grow", lambda _, x: x)
            changes.setattr(Broken, "next", lambda _: ItemPtr(None))
        found = program(pointers, second, UInt32(turns)).numpy()
    given_turns = zip(start, turns, strict=True)
    expected = [plain(k, other[max(k, 0)], n) for k, n in given_turns]
    # A loop that nobody enters leaves what it got: one entry.
    np.testing.assert_array_equal(np.broadcast_to(found, len(expected)), expected)
