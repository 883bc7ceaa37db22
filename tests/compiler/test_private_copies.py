"""Private copies of a reduction's target: where they are worth it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Array3f, Bool, Float, Float16, Float64, Int, UInt, UInt64
from lumijit.runtime import workers
from tests.targets import generating_for, target_of


def launches(entries: int, values: int, loop: bool = False, mode: Any = None) -> int:
    """Add values at random; return how many kernels that took."""
    rng = np.random.default_rng(0)
    at = rng.integers(0, entries, values).astype(np.uint32)
    target, index = dr.zeros(Float, entries), UInt(at)
    dr.eval(target, index)
    chosen = dr.ReduceMode.Auto if mode is None else mode

    def add(turn: UInt) -> tuple[UInt]:
        dr.scatter_add(target, 1, index, mode=chosen)
        return (turn + 1,)

    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        if loop:
            dr.while_loop((dr.opaque(UInt, 0, values),), lambda i: i < 1, add)
        else:
            add(UInt(0))
        dr.eval(target)
        count = len(dr.kernel_history())
    expected = np.bincount(at, minlength=entries)
    np.testing.assert_array_equal(target.numpy(), expected)
    return count


@pytest.mark.packets("threads make no private copies")
def test_few_values_go_to_large_targets_atomically() -> None:
    # Enough values for threads: fewer run at once, which needs no copies either.
    atomic = launches(1_000_000, 60_000, mode=dr.ReduceMode.Local)
    copied = launches(1_000_000, 60_000, mode=dr.ReduceMode.Expand)
    assert atomic < copied
    assert launches(1_000_000, 60_000) == atomic
    assert launches(20_000, 200_000) == copied
    entries = 1_000_000
    values = entries * workers.slot_count() // 64  # a quarter of what is worth it
    for is_loop, mode in ((False, dr.ReduceMode.Local), (True, dr.ReduceMode.Expand)):
        wanted = launches(entries, values, is_loop, mode)
        assert launches(entries, values, is_loop) == wanted


def test_two_kernels_serve_all_sizes() -> None:
    hashes = set()
    for values in (5000, 6000, 50_000, 500_000, 700_000):
        for entries in (2000, 100_000, 500_000):
            with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
                dr.kernel_history_clear()
                target = dr.opaque(Float, 0, entries)
                index = dr.opaque(UInt, 0, values) + dr.arange(UInt, values) * 7919
                dr.scatter_add(target, 1, index % 2000)
                dr.eval(target)
                hashes |= {
                    entry["hash"]
                    for entry in dr.kernel_history()
                    if entry["type"] is dr.KernelType.JIT
                }
    assert len(hashes) <= 3


@pytest.mark.parametrize("entries", [1, 7, 20_000])
@pytest.mark.parametrize("values", [1, 100, 30_000])
def test_sums_agree(entries: int, values: int) -> None:
    launches(entries, values)


@pytest.mark.parametrize("dtype", [Float, Int, UInt64, Float16])
@pytest.mark.parametrize("values", [1, 100, 30_000])
@pytest.mark.parametrize("place", [0, 2, 3, 10**6])
def test_all_values_go_to_one_entry(dtype: Any, values: int, place: int) -> None:
    rng = np.random.default_rng(0)
    numbers, active = rng.integers(0, 3, values), rng.random(values) < 0.01
    x, mask, at = dtype(numbers), Bool(active), dr.opaque(UInt, place)
    expected = np.full(3, 5, dtype().numpy().dtype)
    if place < 3:
        expected[place] += numbers[active].sum()
    with dr.scoped_set_flag(dr.JitFlag.Debug, False):
        total, largest = dr.full(dtype, 5, 3), dr.full(dtype, 1, 3)
        dr.scatter_add(total, x, at, mask)
        dr.scatter_reduce(dr.ReduceOp.Max, largest, x, at, mask)
    np.testing.assert_array_equal(total.numpy(), expected)
    top = numbers[active].max(initial=1) if place < 3 else 1
    assert largest.numpy().tolist() == [top if k == place else 1 for k in range(3)]


@pytest.mark.parametrize("dtype", [Float, Int, UInt64, Float16])
@pytest.mark.parametrize("alike", [2, 7, 8, 9, 16, 31, 500])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_many_lanes_hit_one_entry(dtype: Any, alike: int, share: float) -> None:
    rng = np.random.default_rng(alike)
    values, entries = 5003, 700
    at = np.repeat(rng.integers(0, entries, values), alike)[:values]
    numbers = rng.integers(0, 3, values)
    active = rng.random(values) < share
    x, mask, index = dtype(numbers), Bool(active), UInt(at)
    total, largest = dr.full(dtype, 5, entries), dr.full(dtype, 1, entries)
    dr.scatter_add(total, x, index, mask)
    dr.scatter_reduce(dr.ReduceOp.Max, largest, x, index, mask)
    expected = np.full(entries, 5)
    np.add.at(expected, at[active], numbers[active])
    np.testing.assert_array_equal(total.numpy(), expected)
    expected = np.full(entries, 1)
    np.maximum.at(expected, at[active], numbers[active])
    np.testing.assert_array_equal(largest.numpy(), expected)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_one_entry_in_each_turn_of_a_loop(mode: Any) -> None:
    sums, turns = dr.zeros(UInt, 8), dr.arange(UInt, 5000) % 9

    def add(i: UInt) -> tuple[UInt]:
        dr.scatter_add(sums, turns, i)
        return (i + 1,)

    dr.while_loop((dr.zeros(UInt, 5000),), lambda i: i < turns, add, mode=mode)
    n = np.arange(5000) % 9
    np.testing.assert_array_equal(sums.numpy(), [n[n > k].sum() for k in range(8)])


@pytest.mark.packets("threads make no private copies")
@pytest.mark.parametrize(("updates", "written"), [(2, 2), (4, 4), (8, 1)])
def test_few_updates_are_written_out(capfd: Any, updates: int, written: int) -> None:
    """Each in blocks of its own: LLVM takes seconds for a block of many updates."""
    targets = [dr.opaque(Float, 0, 4096) for _ in range(2)]
    index = dr.opaque(UInt, 0, 20_000) + dr.arange(UInt, 20_000)
    for turn in range(updates):
        dr.scatter_add(targets[turn % 2], Float(turn + 1), (index * (turn + 3)) % 4096)
    with dr.scoped_set_flag(dr.JitFlag.PrintIR):
        dr.eval(targets)
    captured = capfd.readouterr()
    stores = [0]
    for line in (captured.out + captured.err).splitlines():
        if line.endswith(":"):
            stores.append(0)
        stores[-1] += " store float " in line
    width = max(stores)
    assert width <= 32
    # Of each update, every lane has one, and so have lanes that hit one entry.
    assert sum(stores) == written * (width + 1)
    counts = np.zeros(4096)
    for k in range(0, updates, 2):
        counts += (k + 1) * np.bincount(np.arange(20_000) * (k + 3) % 4096)
    np.testing.assert_array_equal(targets[0].numpy(), counts)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_many_updates_of_several_kinds(share: float) -> None:
    rng = np.random.default_rng(3)
    values, entries = 5003, 300
    at = rng.integers(0, entries, values)
    at[: values // 2] = at[: values // 2] // 40
    numbers = rng.integers(0, 4, values)
    active = rng.random(values) < share
    index, mask = UInt(at), Bool(active)
    for dtype in (Float, Int, UInt64):
        totals = [dr.zeros(dtype, entries + 9) for _ in range(3)]
        largest = dr.zeros(dtype, entries + 9)
        x = dtype(numbers)
        for k in range(9):
            dr.scatter_add(totals[k % 3], x + k, index + k, mask)
            dr.scatter_reduce(dr.ReduceOp.Max, largest, x + k, index + k, mask)
        expected, top = np.zeros((2, 3, entries + 9))
        for k in range(9):
            np.add.at(expected[k % 3], at[active] + k, numbers[active] + k)
            np.maximum.at(top[0], at[active] + k, numbers[active] + k)
        np.testing.assert_array_equal([t.numpy() for t in totals], expected)
        np.testing.assert_array_equal(largest.numpy(), top[0])


RUNS = {
    "forwards": lambda c, n: c + 3,
    "backwards": lambda c, n: n + 2 - c,
    "rows": lambda c, n: c // 1001 * 1003 + c % 1001 + 1,
    "scattered": lambda c, n: (c * 7919) % n,
}


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("dtype", [Float, Float16, Int, UInt64])
@pytest.mark.parametrize("op", [dr.ReduceOp.Add, dr.ReduceOp.Max, dr.ReduceOp.Mul])
@pytest.mark.parametrize("is_masked", [False, True])
def test_runs_are_combined_as_single_entries_are(
    kind: str, dtype: Any, op: dr.ReduceOp, is_masked: bool
) -> None:
    count, entries = 70_003, 70_500
    index = RUNS[kind](np.arange(count), count)
    values = (np.arange(count) * 13 % 3).astype(dtype(0).numpy().dtype)
    mask = np.arange(count) % 97 > 0 if is_masked else np.ones(count, bool)
    wanted = np.ones(entries, values.dtype)
    how = {dr.ReduceOp.Add: np.add, dr.ReduceOp.Max: np.maximum}
    how.get(op, np.multiply).at(wanted, index[mask], values[mask])

    target, c = dr.ones(dtype, entries), dr.arange(UInt, count)
    dr.eval(target)
    place = RUNS[kind](c, dr.opaque(UInt, count))
    active = c % 97 > 0 if is_masked else Bool(True)
    for _ in range(2):
        copied = dtype(target)
        dr.scatter_reduce(op, copied, dtype(values), place, active)
        np.testing.assert_array_equal(copied.numpy(), wanted)


def kernels_of(write: Any) -> tuple[list[str], Any]:
    """Return the kinds of kernels that two writes take, and what is left."""
    target = dr.opaque(Float, 0, 50_000)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        write(target)
        dr.eval(target)
        found = [entry["type"].name for entry in dr.kernel_history()]
    return found, target.numpy()


@pytest.mark.parametrize("is_same", [False, True])
def test_writes_without_conflicts_of_their_own_may_meet(is_same: bool) -> None:
    i = dr.arange(UInt, 50_000)
    j = i if is_same else 49_999 - i

    def write(target: Float) -> None:
        for place, value in ((i, 1), (j, 2)):
            dr.scatter_add(target, value, place, mode=dr.ReduceMode.NoConflicts)

    kinds, left = kernels_of(write)
    assert kinds.count("JIT") == (1 if is_same else 2)
    np.testing.assert_array_equal(left, 3)


@pytest.mark.packets("threads make no private copies")
@pytest.mark.parametrize("count", [1, 2])
def test_permutations_take_copies_only_where_they_may_meet(count: int) -> None:
    i = dr.arange(UInt, 50_000)

    def write(target: Float) -> None:
        for place in (49_999 - i, i)[:count]:
            dr.scatter_add(target, 1, place, mode=dr.ReduceMode.Permute)

    kinds, left = kernels_of(write)
    assert len(kinds) == (1 if count == 1 else 3)
    np.testing.assert_array_equal(left, count)


def test_turns_of_a_loop_may_meet_where_one_turn_permutes() -> None:
    i = dr.arange(UInt, 50_000)

    def write(target: Float) -> None:
        def body(k: UInt) -> tuple[UInt]:
            place = (i + k) % 50_000
            dr.scatter_add(target, 1, place, mode=dr.ReduceMode.Permute)
            return (k + 1,)

        dr.while_loop((UInt(0),), lambda k: k < 5, body)

    np.testing.assert_array_equal(kernels_of(write)[1], 5)


@pytest.mark.packets("how packets update entries")
def test_a_permuting_update_of_what_a_loop_computed_is_not_atomic() -> None:
    i, target = dr.arange(UInt, 50_000), dr.zeros(Float, 50_000)
    dr.make_opaque(target)
    first = (UInt(0), Float(i))
    _, value = dr.while_loop(first, lambda k, x: k < 5, lambda k, x: (k + 1, x + 1))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.scatter_add(target, value, 49_999 - i, mode=dr.ReduceMode.Permute)
        dr.eval(target)
        (kernel,) = dr.kernel_history()
    assert "atomicrmw" not in kernel["ir"]
    assert "cmpxchg" not in kernel["ir"]
    np.testing.assert_array_equal(target.numpy(), np.arange(50_004, 4, -1) + 0.0)


def added(
    target: Any, steps: Sequence[int], index: UInt, mask: Bool, op: dr.ReduceOp
) -> None:
    """Combine entries at `index` and beside with numbers, one step after the other."""
    for k, step in enumerate(steps):
        value = type(target)(index % 13 + (k + 2))
        dr.scatter_reduce(op, target, value, index + step, active=mask)


@pytest.mark.parametrize("cls", [Float, Float64, Float16, UInt64])
@pytest.mark.parametrize("row", [1, 2, 3, 4])
def test_idle_lanes_write_to_no_entry(cls: Any, row: int) -> None:
    rng = np.random.default_rng(0)
    for size in (4, 13, 16, 17, 31, 32, 33, 64):
        at = rng.integers(0, size - row + 1, 5000).astype(np.uint32)
        chosen = rng.random(5000) < 0.3
        expected = np.zeros(size)
        for k in range(row):
            np.maximum.at(expected, at[chosen] + k, at[chosen] % 13 + k + 2)
        target = dr.zeros(cls, size)
        added(target, range(row), UInt(at), Bool(chosen), dr.ReduceOp.Max)
        np.testing.assert_array_equal(target.numpy(), expected)


ROWS = [[0, 1], [1, 0], [0, 1, 2], [2, 1, 0], [3, 2, 1, 0], [5, 4, 3, 2, 1, 0]]


@pytest.mark.parametrize("name", ["vectors", "masks", "host"])
@pytest.mark.parametrize("cls", [Float, Float64, Float16, Int, UInt64])
@pytest.mark.parametrize("steps", [*ROWS, [0, 2], [0, 3, 1], [7, 8]])
def test_neighbours_are_updated_together(name: str, cls: Any, steps: list[int]) -> None:
    count, rng = 1000, np.random.default_rng(0)
    at = rng.integers(0, 50, count).astype(np.uint32) * 3
    at[:200] = 6
    chosen = rng.random(count) < 0.9
    for op, combine in ((dr.ReduceOp.Add, np.add), (dr.ReduceOp.Max, np.maximum)):
        expected = np.zeros(200)
        for k, step in enumerate(steps):
            combine.at(expected, at[chosen] + step, (at[chosen] % 13) + k + 2)
        with generating_for(target_of(name)):
            target = dr.zeros(cls, 200)
            added(target, steps, UInt(at), Bool(chosen), op)
            dr.eval(target)
        if cls is Float16 and op is dr.ReduceOp.Add:
            np.testing.assert_allclose(target.numpy(), expected, rtol=0.1)
        else:
            np.testing.assert_array_equal(target.numpy(), expected)


def test_neighbours_are_updated_together_in_loops() -> None:
    rng = np.random.default_rng(1)
    at = rng.integers(0, 40, 777).astype(np.uint32)
    flat, index = dr.zeros(Float, 120), UInt(at)

    def body(turn: UInt, total: Float) -> tuple[UInt, Float]:
        dr.scatter_add(flat, Array3f(turn, 1, total), index)
        return turn + 1, total + 2

    dr.while_loop((dr.zeros(UInt, 777), Float(0)), lambda i, _: i < index % 4, body)
    turns = np.zeros((40, 3))
    for entry in at:
        for turn in range(entry % 4):
            turns[entry] += turn, 1, 2 * turn
    np.testing.assert_array_equal(flat.numpy().reshape(40, 3), turns)
