"""Local memory: the documented examples, kinds of entries, modes, sizes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.llvm import Array3f, ArrayXf, Bool, Float, Int, UInt
from lumijit.runtime import workers

NAMES = [
    "Bool",
    *(f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)),
    "Float16",
    "Float32",
    "Float64",
]


@dr.syntax
def largest_bucket(n: Any, mode: str | None) -> Any:
    """Return the height of the fullest bucket of i² mod 10 for i < n."""
    cls = type(n)
    hist = dr.alloc_local(cls, 10, value=dr.zeros(cls))
    i = cls(0)
    while dr.hint(i < n, mode=mode):
        hist[(i * i) % 10] += 1
        i += 1
    i, highest = cls(0), cls(0)
    while dr.hint(i < 10, mode=mode):
        highest = dr.maximum(highest, hist[i])
        i += 1
    return highest


def plain_largest_bucket(n: int) -> int:
    heights = np.bincount([i * i % 10 for i in range(n)], minlength=10)
    return int(heights.max())


@pytest.mark.parametrize("module", ["llvm", "llvm.ad", "auto", "auto.ad"])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_histogram(module: str, mode: str) -> None:
    space: Any = dr
    for part in module.split("."):
        space = getattr(space, part)
    found = largest_bucket(dr.arange(space.UInt, 40), mode)
    assert type(found) is space.UInt
    assert found.numpy().tolist() == [plain_largest_bucket(n) for n in range(40)]


def test_histogram_in_the_scalar_namespace() -> None:
    found = [largest_bucket(n, None) for n in range(40)]
    assert found == [plain_largest_bucket(n) for n in range(40)]


@dr.syntax
def visit(seed: Any) -> Any:
    """Walk through a tree depth first with a stack; return a sum of its nodes."""
    cls = type(seed)
    stack = dr.alloc_local(cls, 12)
    stack[0] = cls(1)
    depth, total = cls(1), cls(0)
    while depth > 0:
        depth -= 1
        node = stack[depth]
        total += node * node
        if (node < 64) & ((node * 7 + seed) % 5 != 0):
            stack[depth] = 2 * node
            stack[depth + 1] = 2 * node + 1
            depth += 2
    return total


def plain_visit(seed: int) -> int:
    stack, total = [1], 0
    while stack:
        node = stack.pop()
        total += node * node
        if node < 64 and (node * 7 + seed) % 5 != 0:
            stack += [2 * node, 2 * node + 1]
    return total


@pytest.mark.parametrize("size", [1, 2, 17, 100])
def test_stack(size: int) -> None:
    wanted = [plain_visit(k) for k in range(size)]
    assert visit(dr.arange(UInt, size)).numpy().tolist() == wanted
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        assert visit(dr.arange(UInt, size)).numpy().tolist() == wanted
    assert [visit(k) for k in range(size)] == wanted


@dr.syntax
def sort(items: Any, count: int) -> Any:
    """Sort the entries that `items(k)` gives by insertion."""
    buffer = dr.alloc_local(Float, count)
    i = UInt(0)
    while i < count:
        item = items(i)
        j = UInt(i)
        while (j > 0) & (buffer.read(j - 1, active=j > 0) > item):
            buffer[j] = buffer[j - 1]
            j -= 1
        buffer[j] = item
        i += 1
    return [buffer[k] for k in range(count)]


@pytest.mark.parametrize("size", [1, 33])
def test_insertion_sort(size: int) -> None:
    lanes = dr.arange(UInt, size)
    found = sort(lambda i: Float((i * 7919 + lanes * lanes * 104729) % 1009), 16)
    numbers = np.arange(16)[:, None] * 7919 + np.arange(size) ** 2 * 104729
    wanted = np.sort(numbers % 1009, axis=0)
    assert np.array_equal([row.numpy() for row in found], wanted)


def test_lu_factorization_with_pivoting() -> None:
    n, lanes = 5, 9
    matrices = np.random.default_rng(1).normal(size=(n, n, lanes)).astype(np.float32)
    rows = dr.alloc_local(Float, n * n)
    for r in range(n):
        for c in range(n):
            rows[r * n + c] = Float(matrices[r, c])
    determinant = Float(1)
    for k in range(n):
        pivot = UInt(k)
        for r in range(k + 1, n):
            better = abs(rows[r * n + k]) > abs(rows[pivot * n + k])
            pivot = dr.select(better, r, pivot)
        determinant = dr.select(pivot == k, determinant, -determinant)
        for c in range(n):
            upper, lower = rows[k * n + c], rows[pivot * n + c]
            rows[pivot * n + c] = upper
            rows[k * n + c] = lower
        determinant *= rows[k * n + k]
        for r in range(k + 1, n):
            factor = rows[r * n + k] / rows[k * n + k]
            for c in range(k, n):
                rows[r * n + c] -= factor * rows[k * n + c]
    wanted = np.linalg.det(matrices.transpose(2, 0, 1).astype(np.float64))
    assert np.allclose(determinant.numpy(), wanted, rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 7, 16, 35])
def test_entries_of_every_type(name: str, size: int) -> None:
    cls = getattr(llvm, name)
    rng = np.random.default_rng(3)
    dtype = cls(0).numpy().dtype
    data = rng.integers(0, 2 if name == "Bool" else 100, (11, size)).astype(dtype)
    buffer = dr.alloc_local(cls, 11)
    order = rng.permuted(np.tile(np.arange(11), (size, 1)), axis=1).T
    for row in order:
        at = UInt(row)
        buffer[at] = cls(data[row, np.arange(size)])
    for k in range(11):
        assert buffer[k].numpy().tolist() == data[k].tolist()
    dr.eval(buffer)
    last = order[-1]
    assert buffer[UInt(last)].numpy().tolist() == data[last, np.arange(size)].tolist()


@dataclass
class Ray:
    o: Array3f
    d: Array3f
    time: Float


class Hit:
    DRJIT_STRUCT = {"ray": Ray, "is_valid": Bool}

    def __init__(self) -> None:
        self.ray = dr.zeros(Ray)
        self.is_valid = Bool(False)


def make_hit(k: int) -> Hit:
    hit = Hit()
    hit.ray = Ray(Array3f(k, [k + 1, k], 2), Array3f(0, 1, k), Float(k, 2 * k))
    hit.is_valid = Bool(k % 2 == 0)
    return hit


def test_structs() -> None:
    buffer = dr.alloc_local(Hit, 4)
    for k in range(4):
        buffer[k] = make_hit(k)
    found = buffer[UInt(3, 2)]
    assert type(found) is Hit
    assert type(found.ray) is Ray
    assert found.ray.o.numpy().tolist() == [[3, 2], [4, 2], [2, 2]]
    assert found.ray.time.numpy().tolist() == [3, 4]
    assert found.is_valid.numpy().tolist() == [False, True]
    assert len(buffer) == 4
    assert repr(buffer) == f"Local[{__name__}.Hit, 4]"


def test_structs_without_a_value_start_with_anything_but_can_be_filled() -> None:
    buffer = dr.alloc_local(Ray, 3, value=dr.zeros(Ray, 2))
    assert buffer[1].d.numpy().tolist() == [[0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    "value",
    [(Float(1, 2), UInt(3)), [Float(1, 2), UInt(3)], {"a": Float(1, 2), "b": UInt(3)}],
)
def test_containers(value: Any) -> None:
    buffer = dr.alloc_local(type(value), 3, value=value)
    first = buffer[UInt(0, 2)]
    assert type(first) is type(value)
    leaves = list(first.values()) if isinstance(first, dict) else list(first)
    assert leaves[0].numpy().tolist() == [1, 2]
    assert leaves[1].numpy().tolist() == [3, 3]


def test_nested_arrays_of_dynamic_length() -> None:
    buffer = dr.alloc_local(ArrayXf, 2, value=ArrayXf([1, 2], [3, 4], [5, 6]))
    buffer[1] = buffer[0] * 2
    assert buffer[1].numpy().tolist() == [[2, 4], [6, 8], [10, 12]]


def test_fields_that_are_no_arrays_are_no_part() -> None:
    buffer = dr.alloc_local(dict, 2, value={"x": Float(1), "name": "ray"})
    buffer[0] = {"x": Float(2), "name": "other"}
    assert buffer[0]["name"] == "ray"
    assert buffer[0]["x"].numpy().tolist() == [2]


def test_numbers_and_narrower_types_convert() -> None:
    buffer = dr.alloc_local(Float, 2, value=3)
    assert buffer[0].numpy().tolist() == [3]
    buffer[0] = 2
    buffer[1] = Int(-1)
    assert buffer[0].numpy().tolist() == [2]
    assert buffer[1].numpy().tolist() == [-1]
    points = dr.alloc_local(Array3f, 1)
    points[0] = 5
    assert points[0].numpy().tolist() == [[5], [5], [5]]


@pytest.mark.parametrize("make", [dr.Local, dr.copy, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("dtype", [UInt, int])
def test_copies_are_independent(make: Any, dtype: Any) -> None:
    first = dr.alloc_local(dtype, 3, value=1)
    second = make(first)
    other = first
    first[0] = 5
    second[1] = 7
    values = [[int(b[k]) for k in range(3)] for b in (first, second, other)]
    assert values == [[5, 1, 1], [1, 7, 1], [5, 1, 1]]


@pytest.mark.parametrize("evaluated", [False, True])
def test_old_contents_stay_readable(evaluated: bool) -> None:
    lanes = dr.arange(UInt, 40)
    buffer = dr.alloc_local(UInt, 12, value=lanes)
    before = dr.Local(buffer)
    if evaluated:
        dr.eval(buffer)
    buffer[lanes % 12] = 100
    late = [before[k] for k in range(12)]
    new = [buffer[k] for k in range(12)]
    dr.eval(new, late)
    for k in range(12):
        assert late[k].numpy().tolist() == list(range(40))
        wanted = [100 if n % 12 == k else n for n in range(40)]
        assert new[k].numpy().tolist() == wanted


def test_masks() -> None:
    buffer = dr.alloc_local(UInt, 2, value=UInt(1, 2, 3))
    buffer.write(9, UInt(0, 1, 0), active=Bool(True, True, False))
    assert buffer.read(0, Bool(True, False, True)).numpy().tolist() == [9, 0, 3]
    assert buffer[1].numpy().tolist() == [1, 9, 3]
    buffer.write(5, 0, active=False)
    assert buffer[0].numpy().tolist() == [9, 2, 3]
    assert buffer.read(0, active=False).numpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("count", [0, 1, 8, 9, 100])
def test_lengths(count: int) -> None:
    buffer = dr.alloc_local(UInt, count, value=UInt(7, 8))
    assert len(buffer) == count

    def body(i: UInt) -> tuple[UInt]:
        buffer[i] = buffer[i] + i
        return (i + 1,)

    i = dr.while_loop((UInt(0),), lambda i: i < count, body)[0]
    assert (i == count).numpy().all()
    found = [buffer[k].numpy().tolist() for k in range(count)]
    assert found == [[7 + k, 8 + k] for k in range(count)]


def test_no_elements() -> None:
    buffer = dr.alloc_local(Float, 3, value=0)
    none = dr.zeros(UInt, 0)
    buffer[none] = Float(1)
    assert len(buffer[none].numpy()) == 0
    other = dr.alloc_local(UInt, 3, value=dr.zeros(UInt, 0))
    assert len(other[1].numpy()) == 0


def test_no_entries() -> None:
    buffer = dr.alloc_local(Float, 0)
    buffer[UInt(0, 1)] = Float(3)
    assert buffer[UInt(0, 1)].numpy().tolist() == [0, 0]


@pytest.mark.parametrize("threads", [1, 2])
def test_large_buffers(threads: int) -> None:
    before = workers.thread_count()
    workers.set_thread_count(threads)
    try:
        lanes = dr.arange(UInt, 10_000)
        sieve = dr.alloc_local(UInt, 3000, value=0)

        def body(i: UInt) -> tuple[UInt]:
            sieve[(i * 61 + lanes) % 3000] = lanes + i
            return (i + 1,)

        i = dr.while_loop((UInt(0),), lambda i: i < 50, body)[0]
        found = sieve[(i - 1) * 61 % 3000 + lanes % 11].numpy()
    finally:
        workers.set_thread_count(before)
    n = np.arange(10_000)
    wanted = np.zeros_like(n)
    for k in range(50):
        hit = (k * 61 + n) % 3000 == (49 * 61) % 3000 + n % 11
        wanted = np.where(hit, n + k, wanted)
    assert np.array_equal(found, wanted)


def test_many_buffers_beyond_the_stack() -> None:
    lanes = dr.arange(UInt, 70)
    buffers = [dr.alloc_local(UInt, 400, value=lanes + k) for k in range(12)]
    for k, buffer in enumerate(buffers):
        buffer[lanes * 3] = buffers[k - 1][lanes * 3] + 1
    total = sum((b[lanes * 3] for b in buffers), UInt(0))
    wanted, values = np.zeros(70, int), [np.arange(70) + k for k in range(12)]
    for k in range(12):
        values[k] = values[k - 1] + 1
        wanted = wanted + values[k]
    assert total.numpy().tolist() == list(wanted)


def test_kernels_serve_all_constant_indices() -> None:
    buffer = dr.alloc_local(UInt, 9, value=UInt(1, 2))
    dr.eval(buffer)
    dr.eval(buffer[3] + 1)
    dr.kernel_history_clear()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.eval(buffer[4] + 2)
        history = dr.kernel_history()
    assert [entry["cache_hit"] for entry in history] == [True]


def test_without_value_numbering_and_folding() -> None:
    with (
        dr.scoped_set_flag(dr.JitFlag.ValueNumbering, False),
        dr.scoped_set_flag(dr.JitFlag.ConstantPropagation, False),
    ):
        found = largest_bucket(dr.arange(UInt, 20), "symbolic")
        assert found.numpy().tolist() == [plain_largest_bucket(n) for n in range(20)]


def test_buffers_reached_through_objects_and_closures_change() -> None:
    class Stack:
        def __init__(self) -> None:
            self.entries = dr.alloc_local(UInt, 8)

        def push(self, size: UInt, value: UInt) -> UInt:
            self.entries[size] = value
            return size + 1

    stack = Stack()
    lanes = dr.arange(UInt, 9)

    def body(i: UInt, size: UInt) -> tuple[UInt, UInt]:
        return i + 1, stack.push(size, i * 10 + lanes)

    _, size = dr.while_loop((UInt(0), UInt(0)), lambda i, size: i < lanes % 4, body)
    assert size.numpy().tolist() == [n % 4 for n in range(9)]
    top = stack.entries.read(size - 1, active=size > 0)
    assert top.numpy().tolist() == [
        (n % 4 - 1) * 10 + n if n % 4 else 0 for n in range(9)
    ]


def test_buffers_made_inside_of_a_loop_are_new_in_each_iteration() -> None:
    def body(i: UInt, total: UInt) -> tuple[UInt, UInt]:
        inner = dr.alloc_local(UInt, 4, value=0)
        inner[i % 4] = i
        return i + 1, total + inner[(i + 1) % 4] * 100 + inner[i % 4]

    _, total = dr.while_loop((UInt(0), UInt(0)), lambda i, total: i < UInt(3, 6), body)
    assert total.numpy().tolist() == [3, 15]


def test_buffers_written_in_a_failed_loop_are_as_before() -> None:
    buffer = dr.alloc_local(UInt, 2, value=4)

    def body(i: UInt) -> tuple[UInt]:
        buffer[0] = i
        raise RuntimeError("stop")

    for mode in ("symbolic", "evaluated"):
        with pytest.raises(RuntimeError, match="stop"):
            dr.while_loop((UInt(0, 1),), lambda i: i < 4, body, mode=mode)
        assert buffer[0].numpy().tolist() == [4]


def test_loops_make_narrow_buffers_wide() -> None:
    buffer = dr.alloc_local(UInt, 4, value=1)
    lanes = dr.arange(UInt, 5)

    def body(i: UInt) -> tuple[UInt]:
        buffer[i] = buffer[i] + lanes
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 4, body)
    assert buffer[3].numpy().tolist() == [1, 2, 3, 4, 5]
