"""Indices: negative ones count from the end, beyond the ends nothing is touched.

In subscripts, gathers, scatters and atomic updates alike, in the three modes and the
`scalar` namespace, against NumPy.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array2f, Array3f, Bool, Float, Int, Int64, UInt, UInt64
from lumijit.runtime.errors import ArrayIndexError
from tests.tools.printer import format_nodes

SEEDS = range(int(os.environ.get("LUMIJIT_TEST_PROGRAMS", "150")))


def comparisons(*arrays: Any) -> int:
    """Count the comparisons of indices with sizes in a trace."""
    lines = format_nodes([a._node for a in arrays]).splitlines()
    return sum(" = inside " in line for line in lines)


def test_negative_entries_count_from_the_end() -> None:
    x = dr.arange(Float, 10)
    assert list(x[Int(-1, -2, 3)]) == [9, 8, 3]
    assert list(x[Int(-1)]) == [x[-1]]
    assert list(dr.gather(Float, x, Int(-10, -1))) == [0, 9]
    assert list(dr.gather(Float, x, -1)) == [9]
    assert list(dr.gather(Float, x, Int64([-1, 2]))) == [9, 2]
    pairs = dr.gather(Array2f, x, Int(-1, -5, -6, 4, 5))
    assert pairs.numpy().tolist() == [[8, 0, 0, 8, 0], [9, 1, 0, 9, 0]]
    nested = dr.gather(Array3f, Array3f(x, 5, x + 1), Int(-1, 9, 10))
    assert nested.numpy().tolist() == [[9, 9, 0], [5, 5, 0], [10, 10, 0]]
    y = dr.zeros(Float, 6)
    y[Int(-1, -2)] = Float(5, 6)
    dr.scatter_add(y, Float(1, 1), Int(-1, 0))
    dr.scatter(y, Array2f(7, 8), -2)
    assert list(y) == [1, 0, 7, 8, 6, 6]


def test_scalar_arrays_follow_the_same_rule() -> None:
    x = scalar.ArrayXf(1, 2, 3)
    assert list(x[scalar.ArrayXi(-1, -3, 3, -4)]) == [3, 1, 0, 0]
    assert dr.gather(float, x, -1) == 3
    assert list(dr.gather(scalar.ArrayXf, x, scalar.ArrayXu(2, 3))) == [3, 0]
    x[scalar.ArrayXi(-1, 3, 0)] = scalar.ArrayXf(7, 8, 9)
    assert list(x) == [9, 2, 7]
    dr.scatter_add(x, 1, scalar.ArrayXi(-1, -1, -4))
    assert list(x) == [9, 2, 9]
    counts = scalar.ArrayXu(0, 0)
    places = dr.scatter_inc(counts, scalar.ArrayXi(-1, 5, -1, -3))
    assert (list(places), list(counts)) == ([0, 0, 1, 0], [0, 2])
    pair = dr.gather(scalar.Array2f, scalar.ArrayXf(1, 2, 3, 4, 5), -1)
    assert list(pair) == [3, 4]
    with pytest.raises(ArrayIndexError, match="position 3 is out of bounds"):
        dr.gather(float, x, 3)


def test_beyond_the_ends_nothing_is_touched() -> None:
    """Reads give 0 and writes are dropped, whatever lies there."""
    x, places = dr.arange(Float, 10) + 1, Int([9, 10, -10, -11, 2**31 - 1, -(2**31)])
    assert list(dr.gather(Float, x, places)) == [10, 0, 1, 0, 0, 0]
    target = dr.zeros(Float, 10)
    dr.scatter(target, 5, places)
    assert list(target) == [5] + [0] * 8 + [5]
    big = UInt64([2**32 + 1, 1, 2**63])
    assert list(dr.gather(Float, x, big)) == [0, 2, 0]
    assert list(dr.gather(Float, x, llvm.Float64([1e30, -1, 4]))) == [0, 10, 5]
    # Three times the second is 2, in 32 bits.
    wide = dr.gather(Array3f, x, UInt([1, (2**32 + 2) // 3, 3]))
    assert wide.numpy()[0].tolist() == [4, 0, 0]


@pytest.mark.parametrize("mode", list(dr.ReduceMode))
def test_private_copies_of_other_threads_stay_as_they_are(mode: Any) -> None:
    target = dr.zeros(Float, 1000)
    index = dr.opaque(UInt, 1016, 100_000)
    dr.scatter_add(target, dr.opaque(Float, 1, 100_000), index, mode=mode)
    dr.scatter_add(target, 1, UInt(7, 1016, 2000), mode=mode)
    found = target.numpy()
    assert (found[7], found.sum()) == (1, 1)


def test_a_queue_that_is_full_takes_no_more() -> None:
    queue, counter = dr.zeros(UInt, 10), UInt(0)
    lanes = dr.arange(UInt, 1000)
    slot = dr.scatter_inc(counter, 0)
    slot = dr.scatter_inc(counter, dr.zeros(UInt, 1000), lanes % 2 == 0)
    dr.scatter(queue, lanes + 1, slot, lanes % 2 == 0)
    dr.eval(queue, counter)
    assert counter[0] == 501
    assert (queue.numpy() % 2).sum() in (9, 10)


def test_counts_beyond_the_end_are_zero() -> None:
    counts = dr.zeros(UInt, 4)
    places = dr.scatter_inc(counts, Int(0, 4, -1, 0, -5))
    dr.eval(places, counts)
    assert (sorted(places), list(counts)) == ([0, 0, 0, 0, 1], [2, 0, 0, 1])


def test_sums_with_errors_beyond_the_end() -> None:
    sums, errors = dr.zeros(Float, 3), dr.zeros(Float, 3)
    dr.scatter_add_kahan(sums, errors, Float(1, 2, 4, 8), Int(0, -1, 3, -4))
    assert (list(sums), list(errors)) == ([1, 0, 2], [0, 0, 0])


def test_known_positions_beyond_the_ends_are_errors() -> None:
    for index in (UInt(0), 0, Int(-1)):
        with pytest.raises(ArrayIndexError, match="is of size 0"):
            dr.gather(Float, Float(), index)
    assert list(dr.gather(Float, Float(), UInt(0, 1))) == [0, 0]
    assert list(dr.gather(Float, Float(3), UInt(0, 1))) == [3, 0]
    assert list(dr.gather(Float, dr.full(Float, 3, 2), UInt(1, 2))) == [3, 0]


def test_components_of_one_entry_are_written_everywhere() -> None:
    target = Array3f(dr.zeros(Float, 3), 0, 0)
    dr.scatter(target, Array3f(1, 2, 3), Int(-1, 1, 3))
    assert target.numpy().tolist() == [[0, 1, 1], [0, 2, 2], [0, 3, 3]]


def test_indices_that_fit_cost_nothing() -> None:
    x = dr.opaque(Float, 1, 1000) + dr.arange(Float, 1000)
    lanes = dr.arange(UInt, 1000)
    wild = dr.opaque(UInt, 3, 50) + dr.arange(UInt, 50)
    point = dr.opaque(Float, 3, 50) * dr.arange(Float, 50)
    dr.eval(x, wild, point)
    fitting = [
        999 - lanes,
        lanes // 2 + 500,
        lanes & 511,
        wild >> 23,
        wild % 1000,
        Int(wild) % 1000,
        dr.minimum(wild, 999),
        UInt(dr.clip(point, 0, 999)),
        Int(dr.clip(point, -1000, 999)),
        wild % 10 * 100 + (wild & 63),
        dr.select(wild > 3, wild % 10, 999),
    ]
    for index in fitting:
        read = dr.gather(Float, x, index)
        inner = comparisons(index)
        assert comparisons(read) == inner, index
        safe = index.numpy().astype(np.int64)
        assert np.array_equal(read.numpy(), x.numpy()[safe])
    for index in (wild, 1000 - lanes, wild % 1001, dr.minimum(wild, 1000), lanes * 2):
        assert comparisons(dr.gather(Float, x, index)) == comparisons(index) + 1
    assert comparisons(x[::-1], x[10:900:7], dr.tile(x, 3), dr.repeat(x, 3)) == 0
    assert comparisons(dr.ravel(Array2f(x, x)), dr.concat([x, x])) == 0
    with dr.scoped_set_flag(dr.JitFlag.CheckBounds, False):
        assert comparisons(dr.gather(Float, x, wild)) == 0
        assert list(dr.gather(Float, x, Int(-1, 5))) == [1000, 6]


def test_loop_counters_that_fit_cost_nothing() -> None:
    x = dr.arange(Float, 64) + dr.opaque(Float, 0, 64)
    dr.eval(x)

    @dr.syntax
    def total(n: Any) -> Any:
        i, found = UInt(0), dr.zeros(Float, 3)
        while i < n:
            found += dr.gather(Float, x, i)
            i += 1
        return found

    found = total(64)
    assert comparisons(found) == 0
    assert list(found) == [2016] * 3
    found = total(65)
    assert comparisons(found) == 1
    assert list(found) == [2016] * 3


def test_debug_names_the_index_as_the_user_wrote_it() -> None:
    x = dr.arange(Float, 10)
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        with pytest.warns(RuntimeWarning, match=r"test_indices.*position -12 in an ar"):
            assert list(dr.gather(Float, x, Int(-1, -12))) == [9, 0]
        with pytest.warns(RuntimeWarning, match=r"position 4294967297 in an array of"):
            assert list(x[UInt64([2**32 + 1, 1])]) == [0, 1]
        with pytest.warns(RuntimeWarning, match=r"position 10 in an array of size 10"):
            assert dr.gather(Array2f, x, UInt(5, 1)).numpy().tolist() == [
                [0, 2],
                [0, 3],
            ]


def test_closure_data_has_the_sizes_of_textures() -> None:
    """Callables with tables of several sizes are one body."""
    tables = [dr.arange(Float, n) + 1 for n in (3, 5, 1000, 4)]
    dr.eval(tables)
    at = Int(0, 2, 3, -1, -4, 999, -5, 4)
    which = dr.arange(UInt, 32) // 8
    index = dr.tile(at, 4)
    functions = [lambda i, t=t: dr.gather(Float, t, i) for t in tables]
    expected = [
        float(i % n + 1 if -n <= i < n else 0)
        for n in (3, 5, 1000, 4)
        for i in at.numpy().tolist()
    ]
    for mode in ("symbolic", "evaluated"):
        assert list(dr.switch(which, functions, index, mode=mode)) == expected


def test_bytes_that_are_no_masks_are_harmless() -> None:
    raw = np.array([0, 1, 2, 255, 128, 0] * 50, np.uint8).view(np.bool_)
    truth = np.array([0, 1, 1, 1, 1, 0] * 50, bool)
    mask = Bool(raw)
    at = dr.arange(UInt, 300)
    assert np.array_equal(dr.select(mask, at, 0).numpy(), np.where(truth, at, 0))
    assert dr.count(mask)[0] == truth.sum()
    assert not dr.all(mask)[0]
    assert dr.any(mask)[0]
    assert dr.all(Bool(raw[1:5]))[0]
    turned = dr.gather(Bool, mask, 299 - at)
    assert np.array_equal(dr.select(turned, 1, 0).numpy(), truth[::-1])
    counter, places = UInt(0), dr.zeros(UInt, 300)
    dr.scatter(places, at, dr.scatter_inc(counter, 0, mask), mask)
    dr.eval(places, counter)
    assert counter[0] == truth.sum()


@dataclass
class Case:
    """A random program: what it reads, writes and how often it turns."""

    source: Any
    target: Any
    base: Any
    step: Any
    turns: Any
    kind: str
    op: str
    width: int


KINDS = {"u32": np.uint32, "i32": np.int32, "u64": np.uint64, "i64": np.int64}


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    lanes, size = int(rng.integers(1, 70)), int(rng.choice([0, 1, 2, 7, 40, 1000]))
    kind = str(rng.choice(list(KINDS)))
    reach = int(rng.choice([size + 2, 2 * size + 9, 2**31 - 1]))
    low = 0 if kind[0] == "u" else -reach
    base = rng.integers(low, reach, lanes)
    edges = [0, size - 1, size, -1, -size, -size - 1, 2**31 - 1, -(2**31)]
    edges += [2**32 - 1, 2**32, 2**32 + 1, -(2**32)] if kind[1:] == "64" else []
    edges = [e for e in edges if e >= 0 or kind[0] == "i"]
    chosen = rng.random(lanes) < 0.4
    base[chosen] = rng.choice(edges, lanes)[chosen]
    return Case(
        rng.integers(1, 9, size).astype(np.float32),
        rng.integers(0, 9, int(rng.choice([1, 3, 64, 900]))).astype(np.float32),
        base.astype(KINDS[kind]),
        rng.integers(0, 4, lanes).astype(KINDS[kind]),
        rng.integers(0, 4, lanes).astype(np.uint32),
        kind,
        str(rng.choice(["add", "max", "write"])),
        int(rng.choice([1, 2, 3])),
    )


def place(index: Any, rows: int) -> Any:
    """Where NumPy would put an index, and -1 beyond the ends."""
    index = int(index)
    return index % rows if -rows <= index < rows else -1


def expected(case: Case) -> tuple[Any, Any]:
    """Run a program in plain Python."""
    target = case.target.copy()
    rows, room = len(case.source) // case.width, len(target)
    found = np.zeros((case.width, len(case.base)), np.float32)
    with np.errstate(all="ignore"):
        for lane, turns in enumerate(case.turns.tolist()):
            index = case.base[lane]
            for _ in range(turns):
                at, to = place(index, rows), place(index, room)
                if at >= 0:
                    part = slice(at * case.width, (at + 1) * case.width)
                    found[:, lane] += case.source[part]
                if to >= 0 and case.op == "add":
                    target[to] += 2
                elif to >= 0:
                    target[to] = max(target[to], 5) if case.op == "max" else 3
                index = index + case.step[lane]
    return found, target


def update(op: str, target: Any, value: Any, index: Any, active: Any = True) -> None:
    if op == "add":
        dr.scatter_add(target, value, index, active)
    elif op == "max":
        dr.scatter_reduce(dr.ReduceOp.Max, target, value, index, active)
    else:
        dr.scatter(target, 3, index, active)


def traced(case: Case, mode: str) -> tuple[Any, Any]:
    cls = {"u32": UInt, "i32": Int, "u64": UInt64, "i64": Int64}[case.kind]
    out = {1: Float, 2: Array2f, 3: Array3f}[case.width]
    source, target = Float(case.source), Float(case.target)
    step, turns = cls(case.step), UInt(case.turns)

    def body(k: Any, index: Any, found: Any) -> Any:
        found = found + dr.gather(out, source, index)
        update(case.op, target, 2 if case.op == "add" else 5, index)
        return k + 1, index + step, found

    start = (UInt(0), cls(case.base), dr.zeros(out, len(case.base)))
    loop = dr.while_loop(start, lambda k, *_: k < turns, body, mode=mode)
    return loop[2].numpy().reshape(case.width, -1), target.numpy()


def listed(case: Case) -> tuple[Any, Any]:
    """Run a program with arrays of the scalar namespace, turn by turn."""
    name = {"u32": "ArrayXu", "i32": "ArrayXi", "u64": "ArrayXu64", "i64": "ArrayXi64"}
    cls = getattr(scalar, name[case.kind])
    target = scalar.ArrayXf(case.target)
    found = np.zeros((case.width, len(case.base)), np.float32)
    index, step = cls(case.base), cls(case.step)
    parts = [
        scalar.ArrayXf(
            case.source[k : len(case.source) // case.width * case.width :][
                :: case.width
            ]
        )
        for k in range(case.width)
    ]
    for turn in range(3):
        active = scalar.ArrayXb(case.turns > turn)
        for k, part in enumerate(parts):
            found[k] += dr.gather(scalar.ArrayXf, part, index, active).numpy()
        update(case.op, target, 2 if case.op == "add" else 5, index, active)
        index = index + step
    return found, target.numpy()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    case = random_case(seed)
    found, target = expected(case)
    for name in ("symbolic", "evaluated", "scalar"):
        seen, written = listed(case) if name == "scalar" else traced(case, name)
        np.testing.assert_array_equal(seen, found, err_msg=f"{name}: {case}")
        np.testing.assert_array_equal(written, target, err_msg=f"{name}: {case}")


def neighbours_of(case: Any, size: int, kind: str, masks: list[Any]) -> list[Any]:
    """Return what reads at b and b + 1 must give."""
    results = []
    for step, mask in enumerate(masks):
        at = case.astype(KINDS[kind]) + KINDS[kind](step)
        inside = [place(i, size) if m else -1 for i, m in zip(at, mask, strict=True)]
        results.append([0 if i < 0 else i + 1 for i in inside])
    return results


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("cls", [Float, llvm.Float64, Int])
def test_neighbours_are_read_together(seed: int, cls: Any, each_target: Any) -> None:
    """Of two entries, each alone may be inside, or wanted."""
    rng = np.random.default_rng(seed)
    size, kind = int(rng.choice([1, 2, 3, 100])), ("u32", "i32")[seed % 2]
    at = rng.integers(-3, size + 3, int(rng.integers(2, 100))).astype(np.int32)
    first = rng.random(len(at)) < 0.7
    second = first if seed % 3 else rng.random(len(at)) < 0.7
    masks = [first, second] if seed % 5 else [np.ones(len(at), bool)] * 2
    index = (UInt if kind == "u32" else Int)(at.astype(KINDS[kind]))
    table = cls(np.arange(1, size + 1))
    active: list[Bool | bool] = [Bool(masks[0])] * 2
    if masks[1] is not masks[0]:
        active[1] = Bool(masks[1])
    if not seed % 5:
        active = [True, True]
    order = (0, 1) if rng.random() < 0.5 else (1, 0)
    reads = {k: dr.gather(cls, table, index + k, active[k]) for k in order}
    with np.errstate(over="ignore"):
        wanted = neighbours_of(at, size, kind, masks)
    joined = reads[0] * 1000 + reads[1] if seed % 2 else reads[1] + reads[0] * 1000
    expected = [a * 1000 + b for a, b in zip(*wanted, strict=True)]
    assert joined.numpy().tolist() == expected
    assert reads[1].numpy().tolist() == wanted[1]


def test_neighbours_in_loops_and_branches(each_target: Any) -> None:
    table = dr.arange(Float, 10) + 1

    @dr.syntax
    def walk(i: Any) -> Any:
        total, turns = Float(0), UInt(0)
        while turns < 4:
            if turns % 2 == 0:
                total += dr.gather(Float, table, i) - 3 * dr.gather(Float, table, i + 1)
            i += 3
            turns += 1
        return total

    starts = np.array([0, 1, 8, 9, 10, 2**32 - 1, 2**32 - 7, 5], np.uint32)
    expected = []
    for start in starts.tolist():
        total = 0
        for turn in (0, 2):
            pair = [(start + 3 * turn + k) % 2**32 for k in (0, 1)]
            a, b = (p + 1 if p < 10 else 0 for p in pair)
            total += a - 3 * b
        expected.append(total)
    assert walk(UInt(starts)).numpy().tolist() == expected


@pytest.mark.parametrize(
    "write",
    [
        lambda array, at: dr.scatter_inc(array, at),
        lambda array, at: dr.scatter_exch(array, llvm.UInt(1), at),
        lambda array, at: dr.scatter_cas(array, llvm.UInt(0), llvm.UInt(1), at)[0],
    ],
    ids=["scatter_inc", "scatter_exch", "scatter_cas"],
)
def test_what_writes_return_is_evaluated_one_by_one(write: Any) -> None:
    def both() -> tuple[llvm.UInt, llvm.UInt]:
        array = dr.zeros(llvm.UInt, 4)  # nobody reads it afterwards
        at = dr.opaque(llvm.UInt, 2)
        return write(array, at), write(array, at)

    first, second = both()
    dr.eval(first)
    dr.eval(second)
    assert (first[0], second[0]) == (0, 1)
