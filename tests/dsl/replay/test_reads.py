"""`@kernel`: functions that read arrays in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Array3f, Bool, Float, Int
from lumijit.runtime.errors import RecordingError
from tests.dsl.replay.support import array, assert_equal

READING = {
    "index": lambda x: x[0],
    "numpy": lambda x: x.numpy(),
    "float": lambda x: float(x),
    "condition": lambda x: bool((x > 1)[0]),
    "print": lambda x: str(x),
    "compress": lambda x: dr.compress(x > 0),
    "list": list,
    "allclose": lambda x: dr.allclose(x, 2),
    "assert_allclose": lambda x: dr.assert_allclose(x, 4),
}


@pytest.mark.parametrize("read", READING.values(), ids=READING.keys())
def test_reading_arrays_is_an_error(read: Any) -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        read(x * 2)
        return x

    line = f"{__file__}:.*@kernel .*f: the contents of an array are read in Python"
    with pytest.raises(RecordingError, match=line):
        f(array(2))
    assert f.n_cached_recordings == 0


@pytest.mark.parametrize("name", ["numpy", "print", "list"])
def test_with_graph_breaks_such_functions_run_as_they_are(name: str) -> None:
    @dr.kernel(graph_breaks=True)
    def f(x: Float) -> Any:
        READING[name](x * 2)
        return x + 1

    for k in range(3):
        assert_equal(f(array(k)), [k + 1])
    assert "runs as it is, since the contents of an array are read" in f.explain()


def test_evaluated_loops_are_an_error() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        while dr.hint(x < 10, mode="evaluated"):
            x = x * 2
        return x

    with pytest.raises(RecordingError, match="symbolic control flow"):
        f(array(1, 2))


def test_entries_are_read_between_pieces() -> None:
    def plain(x: Float, k: float) -> Any:
        y = dr.sin(x) * k
        largest = dr.max(y)[0]
        y = y / largest
        count = dr.count(y > 0.5)[0] + 1
        return y * count, [largest * 2, count], Array3f(y, largest, 1)

    recorded = dr.kernel(plain, graph_breaks=True)
    rng = np.random.default_rng(7)
    for k in range(8):
        x = Float(rng.uniform(0.1, 3, 5)) + 0
        assert_equal(recorded(x, k + 0.5), plain(x, k + 0.5))
    assert recorded.n_recordings == 1
    assert "replayed 7 times" in recorded.explain()


def test_what_python_decides_by_entries_is_recorded_for_each_way() -> None:
    @dr.kernel(graph_breaks=True)
    def f(x: Float, i: Int) -> Any:
        total = dr.sum(x)
        if total[0] > 1:
            x = x / total
        if i[1] == 2:
            x = x + i[0]
        return x * 2

    calls = [(0.25, 1), (2, 1), (0.5, 2), (3, 2), (0.125, 3), (4, 3)]
    for v, k in calls * 2:
        expected = np.array([v, v])
        if 2 * v > 1:
            expected = expected / (2 * v)
        if k == 2:
            expected = expected + 5
        assert_equal(f(array(v, v), Int(5, k) + 0), expected * 2)
    assert f.n_recordings == 4
    assert all("an array's entry" in reason for reason in f.history[1:3])


def test_evaluated_loops_are_replayed_where_they_turn_as_often() -> None:
    @dr.kernel(graph_breaks=True)
    def f(x: Float) -> Any:
        while dr.hint(x < 10, mode="evaluated"):
            x = x * 2
        return x + 1

    for v in (1, 2, 1.5, 9, 3, 11, 1, 2, 9):
        expected = v
        while expected < 10:
            expected *= 2
        assert_equal(f(array(v, 20)), [expected + 1, 21])
    assert f.n_recordings == 5


def test_masks_and_numbers_of_one_entry() -> None:
    @dr.kernel(graph_breaks=True)
    def f(x: Float, positive: Bool) -> Any:
        if bool(positive):
            return x[-1] * x
        return int(x[0]) + x

    for k in range(4):
        assert_equal(f(array(k + 0.5, 2), Bool(True) & (x_is(k))), [2 * k + 1, 4])
        assert_equal(f(array(0.5, k), Bool(False) | ~x_is(k)), [0.5, k])
    assert f.n_recordings == 2


def x_is(k: int) -> Bool:
    made = Bool(k < 10)
    dr.make_opaque(made)
    return made


def test_values_that_are_new_each_time_are_not_recorded_for_ever() -> None:
    @dr.kernel(graph_breaks=True, limit=6)
    def f(x: Float) -> Any:
        return float(x[0]) * x

    for k in range(9):
        assert_equal(f(array(k, 1)), [k * k, k])
    assert f.n_recordings == 3
    assert "what Python reads is too often new" in f.explain()


def test_memory_that_is_read_is_not_taken_by_later_jobs_before() -> None:
    @dr.kernel(graph_breaks=True)
    def f(x: Float) -> Any:
        first = dr.sum(x * 2)
        dr.eval(first)
        z = x
        for _ in range(6):
            z = dr.prefix_sum(z) * 0.5
            dr.eval(z)
        a = first[0]
        for _ in range(6):
            z = z + dr.sum(z) * 0.125
            dr.eval(z)
        return z * a, first[0] + a

    rng = np.random.default_rng(3)
    for _ in range(6):
        x = Float(rng.uniform(0, 1, 40)) + 0
        expected = f.function(x)
        assert_equal(f(x), expected)
    assert f.n_recordings == 1


def test_literals_and_numbers_are_read_too() -> None:
    @dr.kernel(graph_breaks=True)
    def f(x: Float, k: int) -> Any:
        return x[0] * k + Float(k)[0]

    for k in range(4):
        assert f(Float(k), k) == k * k + k
    assert f.n_recordings <= 2


def test_a_function_that_fails_after_a_read_leaves_nothing() -> None:
    @dr.kernel(graph_breaks=True)
    def f(x: Float) -> Any:
        x += 1
        return x / (1 / (x[0] - 2))

    x = array(0, 4)
    for _ in range(3):
        f(x)
        x = array(*(x.numpy() + 1))
    y = array(1, 1)
    with pytest.raises(ZeroDivisionError):
        f(y)
