"""`switch` agrees with plain Python, lane by lane, in every mode."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as lj
import lumijit.llvm.ad
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.llvm import (
    Array2f,
    Bool,
    Float,
    Float64,
    Int,
    Int8,
    Int64,
    UInt,
    UInt64,
)
from lumijit.runtime.errors import SizeError

MODES = ["symbolic", "evaluated"]
THIS = re.escape(__file__)


@pytest.fixture(autouse=True)
def _scope_is_restored() -> Iterator[None]:
    yield
    assert trace.state.scope is ROOT
    assert trace.state.mask is None
    assert trace.state.watched is None
    assert trace.state.guard is None


def twice(x: Any) -> Any:
    return x * 2


def square(x: Any) -> Any:
    return x * x


def shifted(x: Any) -> Any:
    return x + 100


def lanes(array: Any) -> list[Any]:
    """Return the entries of a flat array."""
    return list(array.numpy().tolist())


def by_lane(
    index: list[int], targets: list[Callable[..., Any]], *columns: list[Any]
) -> list[Any]:
    """Run plain Python once per lane; None where the index is out of range."""
    rows = zip(*columns, strict=True)
    return [
        targets[i](*row) if 0 <= i < len(targets) else None
        for i, row in zip(index, rows, strict=True)
    ]


@given(
    index=st.lists(st.integers(0, 5), max_size=70),
    count=st.integers(1, 4),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("mode", MODES)
def test_agrees_with_python(
    mode: str, index: list[int], count: int, data: st.DataObject
) -> None:
    targets = data.draw(
        st.lists(
            st.sampled_from([twice, square, shifted]), min_size=count, max_size=count
        )
    )
    active = data.draw(
        st.lists(st.booleans(), min_size=len(index), max_size=len(index))
    )
    x = [3 * k + 1 for k in range(len(index))]
    expected = [
        row if row is not None and is_active else 0
        for row, is_active in zip(by_lane(index, targets, x), active, strict=True)
    ]
    result = lj.switch(
        UInt(index),
        [lambda v, active, f=f: f(v) for f in targets],
        Int(x),
        Bool(active),
        mode=mode,
    )
    assert lanes(result) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [0, 1, 2, 7, 16, 67])
def test_sizes(mode: str, size: int) -> None:
    index = [(k * 7) % 3 for k in range(size)]
    x = [k / 4 for k in range(size)]
    targets = [twice, square, shifted]
    result = lj.switch(UInt(index), targets, Float(x), mode=mode)
    assert type(result) is Float
    assert len(result) == size
    np.testing.assert_allclose(result.numpy(), by_lane(index, targets, x), 1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_differentiable_types(mode: str) -> None:
    ad = lj.llvm.ad
    result = lj.switch(ad.UInt(0, 1), [twice, square], ad.Float(3, 4), mode=mode)
    assert type(result) is ad.Float
    assert lanes(result) == [6, 16]


def test_flag_chooses_the_mode() -> None:
    calls = []

    def note(x: Any) -> Any:
        calls.append(len(x))
        return x

    index, x = UInt(0, 1, 0), Float(1, 2, 3)
    lj.switch(index, [note, twice], x)
    with lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, False):
        lj.switch(index, [note, twice], x)
    assert calls == [3, 2]


@pytest.mark.parametrize("is_active", [False, True])
@pytest.mark.parametrize("namespace", [lj.scalar, lj.llvm])
def test_masks_of_one_element(namespace: Any, is_active: bool) -> None:
    Float, UInt, Bool = namespace.Float, namespace.UInt, namespace.Bool
    Array2 = namespace.Array2f
    seen: list[Any] = []

    def both(x: Any, active: Any = True) -> Any:
        if namespace is lj.scalar:
            seen.append(active)
        return {"x": x + 1, "is": x > 0, "v": Array2(x, 1 / x)}

    def plain(x: Any, is_negative: bool) -> Any:
        return -x if is_negative else x

    class Thing:
        """What has a method."""

        def of(self, x: Any, active: Any = True) -> Any:
            return both(x, active)

    thing, mask = Thing(), Bool(is_active)
    Things: Any = lj.instance_array_t(Float, Thing)
    expected = [4, 1, 3, 1 / 3] if is_active else [0, 0, 0, 0]

    def of(thing: Any, x: Any, active: Any) -> Any:
        return thing.of(x, active)

    for found in (
        lj.switch(UInt(1), [both, both], Float(3), mask),
        lj.switch(UInt(1), [both, both], Float(3), active=mask),
        lj.dispatch(Things(thing), of, Float(3), mask),
        lj.dispatch(Things(thing), of, Float(3), active=mask),
    ):
        leaves = found["x"], found["is"], *found["v"]
        assert [float(np.ravel(v)[0]) for v in leaves] == pytest.approx(expected)
    if namespace is lj.scalar:
        assert seen == [is_active] * 4
        # What isn't called a mask is none.
        assert lj.switch(0, [plain], 3.0, is_active) == (-3 if is_active else 3)


def test_scalar_index() -> None:
    assert lj.switch(1, [twice, square], 3) == 9
    assert lj.switch(np.uint32(0), [twice, square], x=3) == 6
    assert lanes(lj.switch(0, [twice], Float(1, 2))) == [2, 4]


@dataclass
class Sample:
    weight: Float
    point: Array2f
    tags: dict[str, UInt]


@pytest.mark.parametrize("mode", MODES)
def test_trees(mode: str) -> None:
    def near(s: Sample, *, scale: Any) -> Any:
        return Sample(s.weight * scale, s.point + 1, {"id": s.tags["id"]}), [s.weight]

    def far(s: Sample, *, scale: Any) -> Any:
        return Sample(s.weight, s.point * s.weight, {"id": UInt(7)}), [scale]

    given = Sample(Float(1, 2, 3), Array2f([1, 2, 3], [4, 5, 6]), {"id": UInt(1, 2, 3)})
    sample, rest = lj.switch(
        UInt(1, 0, 1), [near, far], given, scale=Float(10, 20, 30), mode=mode
    )
    assert type(sample) is Sample
    assert lanes(sample.weight) == [1, 40, 3]
    assert sample.point.numpy().tolist() == [[1, 3, 9], [4, 6, 18]]
    assert lanes(sample.tags["id"]) == [7, 2, 7]
    assert lanes(rest[0]) == [10, 2, 30]


@pytest.mark.parametrize("mode", MODES)
def test_numbers_become_arrays(mode: str) -> None:
    index = UInt(0, 1, 2, 9)
    first = lj.switch(index, [lambda: 1, lambda: 2, lambda: 2.5], mode=mode)
    assert type(first) is Float
    assert lanes(first) == [1, 2, 2.5, 0]
    x = Float64(5, 6, 7, 8)
    mixed = [lambda x: 0.1, lambda x: x, lambda x: 3]
    second = lj.switch(index, mixed, x, mode=mode)
    assert type(second) is Float64
    assert lanes(second) == [0.1, 6, 3, 0]
    third = lj.switch(index, [lambda: True] * 3, mode=mode)
    assert type(third) is Bool
    assert lanes(third) == [True, True, True, False]
    of_numpy = [lambda: np.int8(1), lambda: 2, lambda: np.float32(2.5)]
    fourth = lj.switch(index, of_numpy, mode=mode)
    assert type(fourth) is Float
    assert lanes(fourth) == [1, 2, 2.5, 0]


@pytest.mark.parametrize("mode", MODES)
def test_objects_that_all_return_alike(mode: str) -> None:
    targets = [lambda x: ("name", None, x), lambda x: ("name", None, x + 1)]
    name, nothing, x = lj.switch(UInt(0, 1), targets, Int(1, 2), mode=mode)
    assert (name, nothing, lanes(x)) == ("name", None, [1, 3])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_keyword", [False, True])
def test_masked_elements_are_zero(mode: str, is_keyword: bool) -> None:
    seen = []

    def note(x: Any, active: Any) -> Any:
        seen.append((type(active), active._node.attr))
        return x

    mask = Bool([True, False, True])
    args = () if is_keyword else (mask,)
    kwargs: dict[str, Any] = {"active": mask} if is_keyword else {}
    result = lj.switch(UInt(0, 0, 5), [note], Int(1, 2, 3), *args, mode=mode, **kwargs)
    assert lanes(result) == [1, 0, 0]
    assert seen == [(Bool, True)]


@pytest.mark.parametrize("mode", MODES)
def test_plain_bool_as_mask(mode: str) -> None:
    def note(x: Any, active: bool) -> Any:
        assert active is True
        return x

    for active in (True, False):
        x = Int(1, 2)
        result = lj.switch(UInt(0, 0), [note], x, active=active, mode=mode)
        assert lanes(result) == [1 * active, 2 * active]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "index",
    [Int(0, -1, 1, 2), Int8(0, -1, 1, 2), Int64(0, -1, 1, 1 << 32), UInt64(0, 5, 1, 9)],
    ids=["Int", "Int8", "Int64", "UInt64"],
)
def test_index_types(mode: str, index: Any) -> None:
    result = lj.switch(index, [twice, square], Int(1, 2, 3, 4), mode=mode)
    assert lanes(result) == [2, 0, 9, 0]


@pytest.mark.parametrize("mode", MODES)
def test_uniform_index_and_wide_arguments(mode: str) -> None:
    x = Int(1, 2, 3)
    for k, expected in enumerate([[2, 4, 6], [1, 4, 9]]):
        assert lanes(lj.switch(UInt(k), [twice, square], x, mode=mode)) == expected
        index = lj.opaque(UInt, k)
        assert lanes(lj.switch(index, [twice, square], x, mode=mode)) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("merging", [True, False])
@pytest.mark.parametrize("count", [2, 12])
@pytest.mark.parametrize("size", [0, 1, 3, 17])
def test_uniform_and_wide_operands(
    mode: str, merging: bool, count: int, size: int
) -> None:
    """Of index, arguments and mask, each has one entry or as many as elements."""
    rng = np.random.default_rng(size + count)
    data = [lj.opaque(Int, 10 * k) for k in range(count)]
    targets: list[Callable[..., Any]] = [
        (lambda a, b, m: (b, a * b, Int(7)))
        if k % 3 == 2
        else (lambda a, b, m, k=k: (a + data[k], b, Int(k)))
        for k in range(count)
    ]

    def plain(i: int, a: int, b: int, is_active: bool) -> tuple[int, int, int]:
        if not is_active or i >= count:
            return 0, 0, 0
        return (b, a * b, 7) if i % 3 == 2 else (a + 10 * i, b, i)

    for wide in itertools.product((False, True), repeat=4):
        sizes = [size if w else 1 for w in wide]
        index = rng.integers(0, count + 1, sizes[0])
        a, b = (rng.integers(0, 50, n) for n in sizes[1:3])
        mask = rng.random(sizes[3]) < 0.6
        lanes = size if any(wide) else 1
        with lj.scoped_set_flag(lj.JitFlag.MergeFunctions, merging):
            found = lj.switch(
                UInt(index), targets, Int(a), Int(b), Bool(mask), mode=mode
            )
        columns = [np.broadcast_to(c, lanes).tolist() for c in (index, a, b, mask)]
        rows = [plain(*row) for row in zip(*columns, strict=True)]
        for k, array in enumerate(found):
            result = np.broadcast_to(array.numpy(), lanes)
            assert result.tolist() == [row[k] for row in rows], (wide, k)


@pytest.mark.parametrize("mode", MODES)
def test_an_array_outside_that_has_the_size_of_a_group(mode: str) -> None:
    """Its entries aren't those of the group's elements."""
    table = Float(10, 20)

    class Holder:
        values = table

    def by_closure(x: Any) -> Any:
        return x + table

    holder = Holder()
    for function in (by_closure, lambda x: x + holder.values):
        with pytest.raises(RuntimeError, match=r"incompatible sizes \(5, 2\)"):
            lj.switch(
                UInt(0, 0, 1, 1, 1),
                [function, lambda x: x],
                Float(1, 2, 3, 4, 5),
                mode=mode,
            )
    found = lj.switch(
        UInt(0, 0, 1, 1, 1),
        [lambda x: x + lj.gather(Float, table, UInt(x) - 1), lambda x: x],
        Float(1, 2, 3, 4, 5),
        mode=mode,
    )
    assert list(found) == [11, 22, 3, 4, 5]


@pytest.mark.parametrize("mode", MODES)
def test_writes_of_arrays_without_entries(mode: str) -> None:
    target, none = Float(1, 2, 3), UInt([])

    def write(x: Any, t: Any) -> Any:
        lj.scatter(t, Float(none), none)
        return x, t

    def count(x: Any, t: Any) -> Any:
        lj.scatter_inc(counter, none)
        return x, t

    counter = UInt(0)
    for function in (write, count):
        x = UInt(0, 1, 2)
        match = "arrays without entries are written|incompatible sizes"
        with pytest.raises(RuntimeError, match=match):
            lj.if_stmt((x, target), x > 0, function, lambda x, t: (x, t), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_objects_among_the_arguments_stay_as_they_are(mode: str) -> None:
    class Source:
        def __init__(self) -> None:
            self.count = UInt(0)

        def next(self) -> Any:
            self.count += 1
            return self.count

    def draw(source: Any, x: Any) -> Any:
        return source.next() + x

    def look(source: Any, x: Any) -> Any:
        return source.count + x

    source, x = Source(), UInt(1, 2, 3, 4)
    with pytest.raises(RuntimeError, match=r"changes 'args\[0\].count'"):
        lj.switch(UInt(0, 1, 0, 1), [draw, look], source, x, mode=mode)
    assert list(source.count) == [0]
    found = lj.switch(UInt(0, 1, 0, 1), [look, look], source, x, mode=mode)
    assert list(found) == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chosen", [[0, 1, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1]])
def test_arguments_that_are_indexed_and_used_by_element(
    mode: str, chosen: list[int]
) -> None:
    Float = lj.llvm.ad.Float

    def used_twice(x: Any, w: Any) -> Any:
        return x * w + lj.gather(Float, w, UInt(1))

    x, w = Float(1, 2, 3, 4), Float(10, 20, 30, 40)
    lj.enable_grad(x, w)
    functions = [lambda x, w: x, used_twice]
    result = lj.switch(UInt(chosen), functions, x, w, mode=mode)
    is_used, a, b = np.array(chosen, bool), np.arange(1, 5), np.arange(10, 50, 10)
    np.testing.assert_array_equal(result, np.where(is_used, a * b + 20, a))
    lj.backward(result)
    np.testing.assert_array_equal(x.grad, np.where(is_used, b, 1))
    np.testing.assert_array_equal(
        w.grad, np.where(is_used, a, 0) + [0, sum(chosen), 0, 0]
    )


@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_fit_nowhere_beside_indexed_arguments(mode: str) -> None:
    def wrong(w: Any) -> Any:
        return w + lj.gather(Float, w, UInt(1)) + Float(1, 2, 3)

    with pytest.raises(SizeError, match="incompatible sizes"):
        lj.switch(UInt(0, 1, 0, 1), [lambda w: w, wrong], Float(1, 2, 3, 4), mode=mode)
