"""Accesses to runs of entries: counters, rows and columns, tables by row, limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.launch import kernels
from lumijit.llvm import Bool, Float, Int, UInt32

pytestmark = pytest.mark.usefixtures("each_target")

SIZES = (2, 7, 8, 9, 15, 16, 17, 33, 100)
#: Functions of a counter that grow by the same number from lane to lane, mostly.
STEADY = (lambda i: i * 3, lambda i: 999 - 2 * i, lambda i: 4 * (i // 7) + 2 * i)
SUFFIXES = {
    "Float": "f",
    "Float64": "f64",
    "Float16": "f16",
    "Int8": "i8",
    "Int16": "i16",
    "Int": "i",
    "UInt64": "u64",
    "Bool": "b",
}
TYPES = ("Float", "Float64", "Float16", "Int8", "Int16", "Int", "UInt64", "Bool")


def entries(size: int, name: str = "Float") -> tuple[Any, np.ndarray[Any, Any]]:
    """Return an array of a type with different entries, and the same for NumPy."""
    values = (np.arange(size) * 37 % 113).astype(np.float32)
    array = getattr(llvm, name)(values > 50) if name == "Bool" else None
    found = getattr(llvm, name)(llvm.Float(values)) if array is None else array
    return found, np.asarray(found.numpy())


def code_of(program: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> str:
    kernels.flush()
    with dr.scoped_set_flag(dr.JitFlag.PrintIR, True):
        dr.eval(program())
    return capsys.readouterr().out


def expected(a: np.ndarray[Any, Any], index: np.ndarray[Any, Any]) -> Any:
    """Return `a[index]`, with zeros outside of it."""
    inside = (index >= 0) & (index < len(a))
    return np.where(inside, a[np.where(inside, index, 0)], a.dtype.type(0))


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shift", [-20, -1, 1, 3, 17])
def test_shifted_reads(name: str, shift: int) -> None:
    for size in SIZES:
        array, a = entries(size, name)
        index = dr.arange(UInt32, size) + UInt32(shift % 2**32)
        result = dr.gather(type(array), array, index)
        np.testing.assert_array_equal(
            result.numpy(), expected(a, np.arange(size) + shift)
        )


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("width", [1, 2, 3, 16, 31, 32, 40, 100, 128])
def test_rows_and_columns(name: str, width: int) -> None:
    size = 700
    array, a = entries(size, name)
    n = dr.arange(UInt32, size)
    row, column = n // width, n % width
    k = np.arange(size)
    for index, where in (
        (row, k // width),
        (column, k % width),
        (row * width + (column + 1), k + 1),
        (row * (width + 5) + column, k // width * (width + 5) + k % width),
        (dr.minimum(column + 3, width - 1), np.minimum(k % width + 3, width - 1)),
    ):
        result = dr.gather(type(array), array, index)
        np.testing.assert_array_equal(result.numpy(), expected(a, where))


@pytest.mark.parametrize("width", [5, 16, 33, 64])
def test_signed_rows_and_columns(width: int) -> None:
    size = 700
    array, a = entries(size)
    n = dr.arange(Int, size)
    index = n // width * width + n % width - 1
    where = np.arange(size) - 1
    where[0] = size - 1
    np.testing.assert_array_equal(dr.gather(Float, array, index).numpy(), a[where])


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("step", [2, 3, 7, -1, -2])
@pytest.mark.parametrize("is_masked", [False, True])
def test_strided_reads(name: str, step: int, is_masked: bool) -> None:
    for size in SIZES:
        array, a = entries(size, name)
        n, k = dr.arange(Int, size), np.arange(size)
        index, where = n * step + 1, k * step + 1
        active = n % 5 != 2 if is_masked else Bool(True)
        result = dr.gather(type(array), array, UInt32(index), active)
        wanted = expected(a, where)
        if is_masked:
            wanted = np.where(k % 5 != 2, wanted, a.dtype.type(0))
        np.testing.assert_array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("step", [1, 2, 3, -1])
def test_strided_pairs(step: int) -> None:
    for size in SIZES:
        table, a = entries(6 * size + 2)
        k = np.arange(size)
        where = k * step if step > 0 else size - 1 - k
        n = dr.arange(UInt32, size)
        index = n * step if step > 0 else size - 1 - n
        found = dr.gather(llvm.Array2f, table, index)
        np.testing.assert_array_equal(
            found.numpy(), a[: 6 * size].reshape(-1, 2)[where].T
        )


@pytest.mark.packets("which instructions read")
def test_what_grows_steadily_is_read_by_lane(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table, _ = entries(5000)
    n = dr.arange(UInt32, 1000)
    dr.eval(table, n)

    def read(place: Callable[[UInt32], UInt32]) -> Float:
        return dr.gather(Float, table, place(dr.arange(UInt32, 1000)))

    for place in STEADY:
        assert "llvm.masked.gather" not in code_of(partial(read, place), capsys)
    # What is read at random places can use the processor's instruction.
    text = code_of(lambda: dr.gather(Float, table, n), capsys)
    has_masks = kernels.target().has_masks
    assert ("llvm.masked.gather" in text) is has_masks


def test_masked_reads() -> None:
    for size in SIZES:
        array, a = entries(size + 3)
        n = dr.arange(UInt32, size)
        active = dr.gather(Float, array, n) > 50
        result = dr.gather(Float, array, n + 3, active)
        wanted = np.where(a[:size] > 50, a[3:], 0)
        np.testing.assert_array_equal(result.numpy(), wanted)


def test_neighbours_within_rows() -> None:
    height, width = 23, 70
    array, a = entries(height * width)
    n = dr.arange(UInt32, height * width)
    x, y = n % width, n // width
    total = Float(0)
    image = a.reshape(height, width)
    wanted = np.zeros_like(image)
    padded = np.pad(image, 1)
    for dx, dy in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1)):
        u, v = Int(x) + dx, Int(y) + dy
        inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
        total += dr.gather(Float, array, v * width + u, inside)
        wanted += padded[1 + dy : height + 1 + dy, 1 + dx : width + 1 + dx]
    np.testing.assert_array_equal(total.numpy(), wanted.ravel())


@pytest.mark.parametrize("offsets", [(0, 1), (1, 0)])
def test_neighbours_that_bounds_separate(offsets: tuple[int, int]) -> None:
    table, a = entries(40)
    column = np.arange(100) % 43
    index = dr.arange(UInt32, 100) % 43
    read = [dr.gather(Float, table, index + k) for k in offsets]
    dr.eval(read)
    for k, found in zip(offsets, read, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected(a, column + k))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_runs_in_loops_that_lanes_leave(mode: Any) -> None:
    size, rows = 100, 9
    array, a = entries(size * rows)
    n = dr.arange(UInt32, size)
    stop = n % 10

    def body(i: UInt32, total: Float) -> tuple[UInt32, Float]:
        return i + 1, total + dr.gather(Float, array, i * size + n)

    _, total = dr.while_loop(
        (UInt32(0), dr.zeros(Float, size)), lambda i, _: i < stop, body, mode=mode
    )
    k = np.arange(size)
    wanted = [sum(a[i * size + j] for i in range(min(j % 10, rows))) for j in k]
    np.testing.assert_array_equal(total.numpy(), wanted)


def test_runs_in_branches() -> None:
    array, a = entries(200)
    n = dr.arange(UInt32, 100)
    result = dr.if_stmt(
        (n,),
        n % 3 == 1,
        lambda n: dr.gather(Float, array, n + 7),
        lambda n: dr.gather(Float, array, n // 50),
    )
    k = np.arange(100)
    np.testing.assert_array_equal(
        result.numpy(), np.where(k % 3 == 1, a[7:107], a[k // 50])
    )


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("width", [3, 40, 64])
def test_writes(name: str, width: int) -> None:
    for size in SIZES:
        array, a = entries(size, name)
        n = dr.arange(UInt32, size)
        for index, where in (
            (n + 2, np.arange(size) + 2),
            (
                n // width * (width + 3) + n % width,
                np.arange(size) // width * (width + 3) + np.arange(size) % width,
            ),
        ):
            target = dr.zeros(type(array), 3 * size + 5)
            wanted = np.zeros(3 * size + 5, a.dtype)
            inside = where < len(wanted)
            dr.scatter(target, array, index)
            wanted[where[inside]] = a[inside]
            np.testing.assert_array_equal(target.numpy(), wanted)


def test_masked_writes() -> None:
    for size in SIZES:
        array, a = entries(size)
        target = dr.full(Float, -1, size)
        dr.scatter(target, array, dr.arange(UInt32, size) - 1, array > 50)
        wanted = np.full(size, -1.0)
        chosen = np.flatnonzero(a > 50)
        chosen = chosen[chosen > 0]
        wanted[chosen - 1] = a[chosen]
        np.testing.assert_array_equal(target.numpy(), wanted)


def test_tables_by_row() -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(0, 50, 20)
    array, a = entries(50 * 45)
    n = dr.arange(UInt32, 20 * 45)
    start = dr.gather(UInt32, UInt32(table), n // 45) * 45
    result = dr.gather(Float, array, start + n % 45)
    np.testing.assert_array_equal(result.numpy(), a.reshape(50, 45)[table].ravel())


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("width", [3, 40, 64])
@pytest.mark.parametrize("is_masked", [False, True])
def test_runs_that_go_back(name: str, width: int, is_masked: bool) -> None:
    for size in SIZES:
        array, a = entries(size + 4, name)
        n, k = dr.arange(UInt32, size), np.arange(size)
        active, chosen = (n % 5 != 2, k % 5 != 2) if is_masked else (Bool(True), k >= 0)
        # Also beyond both ends; and backwards in each row.
        for index, where in (
            (size - 1 - n, size - 1 - k),
            (UInt32((size - 3) % 2**32) - n, size - 3 - k),
            (size + 6 - n, size + 6 - k),
            (
                n // width * width + (width - 1 - n % width),
                k + width - 1 - k % width * 2,
            ),
        ):
            found = dr.gather(type(array), array, index, active)
            zero = a.dtype.type(0)
            wanted = np.where(chosen, expected(a, where), zero)
            np.testing.assert_array_equal(found.numpy(), wanted)
            inside = chosen & (where >= 0) & (where < size)
            target, other = dr.zeros(type(array), size), np.zeros(size, a.dtype)
            dr.scatter(target, array[:size], index, active)
            other[where[inside]] = a[:size][inside]
            np.testing.assert_array_equal(target.numpy(), other)
            if name != "Bool":
                mode = dr.ReduceMode.NoConflicts
                dr.scatter_add(target, array[:size], index, active, mode)
                other[where[inside]] += a[:size][inside]
                np.testing.assert_array_equal(target.numpy(), other)


@pytest.mark.packets("vector loads")
def test_runs_that_go_back_are_loads_of_packets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    array, _ = entries(1000)
    tensor = llvm.TensorXf(array, (20, 50))
    dr.eval(array)
    for read in (
        lambda: dr.gather(Float, array, 999 - dr.arange(UInt32, 1000)),
        lambda: array[::-1],
        lambda: dr.gather(Float, array, dr.arange(Int, 999, -1, -1)),
        lambda: tensor[:, ::-1],
        lambda: tensor[::-1],
    ):
        assert "shufflevector" in code_of(read, capsys)


@pytest.mark.packets("vector loads")
def test_sure_runs_are_single_loads(capsys: pytest.CaptureFixture[str]) -> None:
    array, _ = entries(1000)
    n = dr.arange(UInt32, 1000)
    code = code_of(lambda: dr.gather(Float, array, n + 1), capsys)
    assert len(re.findall(r"call <\d+ x float> @llvm\.masked\.load", code)) == 1
    assert "apart" not in code
    target = dr.zeros(Float, 2000)

    def write() -> Any:
        dr.scatter(target, array, n + 1)
        return target

    code = code_of(write, capsys)
    assert len(re.findall(r"store <\d+ x float> %\w+, ptr %\w+, align 1", code)) == 1


def test_data_is_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    array, _ = entries(1000)
    index = UInt32(np.random.default_rng(0).permutation(1000))
    n = dr.arange(UInt32, 1000)
    for where in (index, index + n, 3 * n, n * n, UInt32(Float(n) * 0.5)):
        code = code_of(lambda where=where: dr.gather(Float, array, where), capsys)
        assert not re.search("packed|masked.load", code)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_subscripts_against_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=3)))
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = llvm.TensorXf(a)

    def cut(size: int) -> slice:
        start = data.draw(st.integers(-size, size))
        stop = data.draw(st.integers(-size, size))
        return slice(start, stop, data.draw(st.sampled_from([1, 1, 1, 2, -1])))

    key = tuple(cut(size) for size in shape)
    np.testing.assert_array_equal(x[key].numpy(), a[key])
    b = a.copy()
    b[key] = a[key] * 2 + 1
    x[key] = x[key] * 2 + 1
    np.testing.assert_array_equal(x.numpy(), b)


def test_mask_arrays_shifted() -> None:
    flags = np.arange(100) % 3 == 0
    found = dr.gather(Bool, Bool(flags), dr.arange(UInt32, 99) + 1)
    np.testing.assert_array_equal(found.numpy(), flags[1:])


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("width", [3, 17, 63, 190, 403, 1000])
def test_slices_of_rows(name: str, width: int) -> None:
    """Rows are shorter or longer than packets."""
    height = 20000 // width
    tensor = getattr(llvm, f"TensorX{SUFFIXES[name]}")
    a = entries(height * width, name)[1].reshape(height, width)
    one: Any = a.dtype.type(1)
    for key in (
        (slice(1, -1), slice(1, -1)),
        (slice(None, None, 2), slice(None)),
        (slice(None), slice(None, width // 3)),
        (slice(None), slice(None, None, -1)),
    ):
        x, b = tensor(a), a.copy()
        np.testing.assert_array_equal(x[key].numpy(), b[key])
        x[key], b[key] = one, one
        np.testing.assert_array_equal(x.numpy(), b)
        y = b[::-1, ::-1][key].copy()
        x[key], b[key] = tensor(y), y
        np.testing.assert_array_equal(x.numpy(), b)
        if name != "Bool":
            x[key] += one
            b[key] += one
            np.testing.assert_array_equal(x.numpy(), b)


@pytest.mark.ordered("the last write to an entry counts")
@pytest.mark.parametrize("width", [20, 64, 150])
@pytest.mark.parametrize("overlap", [0, 1, 7, 19])
@pytest.mark.parametrize("is_backward", [False, True])
def test_rows_that_overlap(width: int, overlap: int, is_backward: bool) -> None:
    """Of lanes that write one entry, the last one stays, also in the next row."""
    size = 1000
    n, k = dr.arange(Int, size), np.arange(size)
    index = n - n // width * overlap
    where = k - k // width * overlap
    if is_backward:
        index, where = size - 1 - index, size - 1 - where
    target, wanted = dr.zeros(llvm.UInt8, size), np.zeros(size, np.uint8)
    dr.scatter(target, llvm.UInt8(n), UInt32(index))
    wanted[where] = k.astype(np.uint8)
    np.testing.assert_array_equal(target.numpy(), wanted)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shape", [(40, 9, 11), (9, 40, 31), (5, 33, 150), (700, 2, 3)])
def test_rows_of_rows(name: str, shape: tuple[int, ...]) -> None:
    tensor = getattr(llvm, f"TensorX{SUFFIXES[name]}")
    a = entries(int(np.prod(shape)), name)[1].reshape(shape)
    inner, back = slice(1, -1), slice(None, None, -1)
    for key in ((inner, inner, inner), (inner, back, back), (back, inner, slice(1, 3))):
        x, b = tensor(a), a.copy()
        y = b[::-1, ::-1, ::-1][key].copy()
        x[key], b[key] = tensor(y), y
        np.testing.assert_array_equal(x.numpy(), b)


@pytest.mark.parametrize("cls", [UInt32, Int])
@pytest.mark.parametrize("width", [3, 5, 7, 29, 64, 2**31 - 1])
def test_rows_of_positions_that_wrap_around(cls: Any, width: int) -> None:
    size, start = 500, 2**32 - 300
    n, k = dr.arange(UInt32, size), np.arange(size)
    places = cls(n + start)
    wide = (k + start).astype(np.uint32).astype(places.numpy().dtype)
    row = np.trunc(wide / width).astype(np.int64)
    index, where = n + UInt32((places // width) & 1) * size, k + (row & 1) * size
    target, wanted = dr.zeros(llvm.UInt8, 2 * size), np.zeros(2 * size, np.uint8)
    dr.scatter(target, llvm.UInt8(n), index)
    wanted[where] = k.astype(np.uint8)
    np.testing.assert_array_equal(target.numpy(), wanted)


@pytest.mark.packets("which code reads and writes")
def test_short_rows_of_bytes_are_read_and_written_row_by_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = llvm.TensorXu8(np.zeros((40, 30), np.uint8))

    def write() -> Any:
        x[:, 1:-1] = 1
        return x

    has_masks = kernels.target().has_masks
    for program, masked in ((write, "store"), (lambda: x[:, 1:-1], "load")):
        code = code_of(program, capsys)
        assert (f"llvm.masked.{masked}" in code) is has_masks
        assert ("@copy_" in code) is not has_masks


@pytest.mark.parametrize("name", ["Int8", "Bool", "Float16"])
@pytest.mark.parametrize("width", [5, 8, 30, 200])
def test_one_entry_a_row_of_bytes(name: str, width: int) -> None:
    """Lanes of a row read the same entry, and the next ones others."""
    size = 1000
    array, a = entries(size, name)
    n, k = dr.arange(UInt32, size), np.arange(size)
    found = dr.gather(type(array), array, n // width)
    np.testing.assert_array_equal(found.numpy(), a[k // width])
    mask, chosen = llvm.Bool(n % 7 != 3), k % 7 != 3
    found = dr.gather(type(array), array, n // width, mask)
    wanted = np.where(chosen, a[k // width], a.dtype.type(0))
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_rows_of_changing_length() -> None:
    """Rows end where those before don't tell."""
    size = 40000
    n, k = dr.arange(UInt32, size), np.arange(size)
    array, a = entries(2 * size, "UInt8")
    for bound in (5000, 17001):
        # Rows of 701 entries up to an element, and of 333 from there on.
        first = n + n // 701 * 3 + n // 333 * 5
        index = dr.minimum(first, bound + n // 333)
        where = np.minimum(k + k // 701 * 3 + k // 333 * 5, bound + k // 333)
        result = dr.gather(type(array), array, index)
        np.testing.assert_array_equal(result.numpy(), a[where])
        target = dr.zeros(type(array), 2 * size)
        dr.scatter(target, llvm.UInt8(first), first)
        wanted = np.zeros(2 * size, np.uint8)
        places = k + k // 701 * 3 + k // 333 * 5
        wanted[places] = places.astype(np.uint8)
        np.testing.assert_array_equal(target.numpy(), wanted)


@pytest.mark.packets("which instructions read")
@pytest.mark.parametrize("cls", [llvm.Array2f, llvm.Array3f, llvm.Array4f])
def test_rows_are_read_once_whichever_component_comes_first(
    cls: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    table, _ = entries(5000)
    start = dr.arange(UInt32, 1000)
    dr.eval(table, start)

    def total(order: list[int]) -> Any:
        def body(k: UInt32, found: Float) -> Any:
            row = dr.gather(cls, table, start + k)
            for component in order:
                found = dr.fma(row[component], row[component], found)
            return k + 1, found

        state = UInt32(0), Float(0)
        return dr.while_loop(state, lambda k, _: k < 9, body)[1]

    places = list(range(len(cls())))
    upwards, downwards = (
        code_of(partial(total, order), capsys) for order in (places, places[::-1])
    )
    assert upwards.count("\n") == downwards.count("\n")
