"""Local memory: mistakes and their messages, and reports under flag Debug."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Array3f, Bool, Float, Int, UInt
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    SizeError,
    StateError,
    SymbolicError,
)


@pytest.mark.parametrize("size", [UInt(3), 2.0, True, None])
def test_sizes_must_be_known(size: Any) -> None:
    with pytest.raises(ArrayTypeError, match="'size' must be known while tracing"):
        dr.alloc_local(Float, size)


def test_impossible_sizes() -> None:
    with pytest.raises(ArrayValueError, match="the size -1 is negative"):
        dr.alloc_local(Float, -1)
    with pytest.raises(SizeError, match="exceeds the limit of 1048576 entries"):
        dr.alloc_local(Float, 1 << 21)


@pytest.mark.parametrize("dtype", [3, (Float, UInt), "Float", None])
def test_dtype_must_be_a_type(dtype: Any) -> None:
    with pytest.raises(ArrayTypeError, match="can't make entries of type"):
        dr.alloc_local(dtype, 3)


def test_dtype_must_hold_arrays() -> None:
    class Empty:
        DRJIT_STRUCT: dict[str, Any] = {}

    with pytest.raises(ArrayTypeError, match="can't make entries of type 'Empty'"):
        dr.alloc_local(Empty, 3)
    with pytest.raises(ArrayTypeError, match="can't make an instance of type 'object'"):
        dr.alloc_local(object, 3)


@pytest.mark.parametrize("dtype", [tuple, list, dict])
def test_containers_need_a_value(dtype: Any) -> None:
    with pytest.raises(ArrayTypeError, match="doesn't say what it contains"):
        dr.alloc_local(dtype, 3)


def test_the_value_must_be_of_the_type() -> None:
    with pytest.raises(ArrayTypeError, match=r"expected Float, got UInt"):
        dr.alloc_local(Float, 3, value=UInt(1))


def test_traced_and_other_parts_do_not_mix() -> None:
    with pytest.raises(ArrayTypeError, match=r"'value\[1\]' is no traced array"):
        dr.alloc_local(tuple, 3, value=(Float(1), 2))


@pytest.mark.parametrize("dtype", [Float, float])
@pytest.mark.parametrize("index", [-1, 3, 100])
def test_constant_indices_are_checked(dtype: Any, index: int) -> None:
    buffer = dr.alloc_local(dtype, 3, value=0)
    with pytest.raises(ArrayIndexError, match=rf"Local.read: position {index} is out"):
        buffer[index]
    with pytest.raises(ArrayIndexError, match=rf"Local.write: position {index} is out"):
        buffer[index] = dtype(1)


@pytest.mark.parametrize(
    "index", [1.0, Float(1), True, Bool(True), "a", slice(1), Array3f(1)]
)
def test_indices_must_be_integers(index: Any) -> None:
    buffer = dr.alloc_local(Float, 3)
    with pytest.raises(ArrayTypeError, match="the index has type"):
        buffer[index]
    with pytest.raises(ArrayTypeError, match="the index has type"):
        buffer[index] = Float(1)


def test_scalar_buffers_take_no_arrays_as_index() -> None:
    buffer = dr.alloc_local(float, 3, value=0)
    with pytest.raises(ArrayTypeError, match="belongs to the scalar namespace"):
        buffer[UInt(1)]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (UInt, Float(1)),
        (UInt, 1.5),
        (UInt, "a"),
        (UInt, Array3f(1)),
        (Array3f, (1, 2, 3)),
        (int, 1.5),
        (int, None),
    ],
)
def test_values_must_fit(dtype: Any, value: Any) -> None:
    buffer = dr.alloc_local(dtype, 3)
    with pytest.raises(ArrayTypeError, match="can't write a value of type"):
        buffer[0] = value


def test_values_must_have_the_structure() -> None:
    buffer = dr.alloc_local(dict, 2, value={"a": Float(1)})
    with pytest.raises(ArrayTypeError, match="can't write a value of type 'dict'"):
        buffer[0] = {"b": Float(1)}
    with pytest.raises(ArrayTypeError, match="can't write a value of type 'Float'"):
        buffer[0] = Float(1)


def test_only_buffers_are_copied_to_buffers() -> None:
    with pytest.raises(ArrayTypeError, match="can't copy a list as a local buffer"):
        dr.Local([1, 2])  # type: ignore[arg-type]


def test_incompatible_sizes() -> None:
    buffer = dr.alloc_local(Float, 3, value=Float(1, 2, 3))
    with pytest.raises(SizeError, match="incompatible sizes"):
        buffer[UInt(0, 1)]
    with pytest.raises(SizeError, match="incompatible sizes"):
        buffer[0] = Float(1, 2)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_keep_their_buffers(mode: str) -> None:
    a, b = dr.alloc_local(UInt, 2, value=0), dr.alloc_local(UInt, 2, value=0)

    def body(i: UInt, first: Any, second: Any) -> Any:
        return i + 1, second, first

    with pytest.raises(
        StateError, match=r"'state\[1\]' is inconsistent .*keep the same object"
    ):
        dr.while_loop((UInt(0, 1), a, b), lambda i, x, y: i < 3, body, mode=mode)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_branches_keep_their_buffers(mode: str) -> None:
    a, b = dr.alloc_local(UInt, 2, value=0), dr.alloc_local(UInt, 2, value=0)
    with pytest.raises(StateError, match=r"the branches disagree on .*Local"):
        dr.if_stmt((), Bool(True, False), lambda: a, lambda: b, mode=mode)


def test_conditions_do_not_write() -> None:
    buffer = dr.alloc_local(UInt, 2, value=0)

    def cond(i: UInt) -> Bool:
        buffer[0] = i
        return i < 3

    with pytest.raises(StateError, match="the condition writes to a local buffer"):
        dr.while_loop((UInt(0, 1),), cond, lambda i: (i + 1,))


def test_buffers_end_with_the_code_that_made_them() -> None:
    kept = []

    def body(i: UInt) -> tuple[UInt]:
        kept.append(dr.alloc_local(UInt, 2, value=0))
        return (i + 1,)

    dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, label="outer")
    with pytest.raises(SymbolicError, match="was allocated inside outer, which is"):
        kept[-1][0]


def test_symbolic_buffers_are_not_evaluated() -> None:
    buffer = dr.alloc_local(UInt, 2, value=0)

    def body(i: UInt) -> tuple[UInt]:
        buffer[0] = i
        dr.eval(buffer)
        return (i + 1,)

    with pytest.raises(SymbolicError, match="the variable is symbolic"):
        dr.while_loop((UInt(0, 1),), lambda i: i < 3, body)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_debug_reports_the_line(mode: str) -> None:
    lanes = dr.arange(UInt, 20)
    buffer = dr.alloc_local(UInt, 4, value=7)

    def body(i: UInt) -> tuple[UInt]:
        buffer[i + lanes % 3] = i
        return (i + 1,)

    def run() -> None:
        dr.while_loop((UInt(0),), lambda i: i < 4, body, mode=mode)
        dr.eval(buffer[0])

    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        with pytest.warns(RuntimeWarning) as caught:
            run()
        texts = {str(w.message) for w in caught}
        assert any(
            "test_local_errors.py" in text
            and "lumijit.Local.write(): out-of-bounds write to position 5 in an array "
            "of size 4. The access was masked."
            in text
            for text in texts
        )
        with pytest.warns(
            RuntimeWarning, match=r"Local.read\(\): out-of-bounds read from position 19"
        ):
            found = buffer[lanes].numpy()
    assert (found[4:] == 0).all()


def test_debug_is_silent_about_what_is_masked_or_in_bounds() -> None:
    lanes = dr.arange(UInt, 20)
    buffer = dr.alloc_local(UInt, 4, value=7)
    with dr.scoped_set_flag(dr.JitFlag.Debug, True), warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.write(lanes, lanes, active=lanes < 4)
        found = buffer.read(lanes, active=lanes < 4).numpy()
    assert found.tolist() == [0, 1, 2, 3] + [0] * 16


def test_out_of_bounds_access_reaches_no_other_memory() -> None:
    lanes = dr.arange(UInt, 40)
    first = dr.alloc_local(UInt, 4, value=1)
    second = dr.alloc_local(UInt, 4, value=2)
    first[lanes * 1000 + 4] = UInt(9)
    first[Int(-1)] = UInt(9)
    entries = [b[k] for b in (first, second) for k in range(4)]
    dr.eval(entries, first[lanes + (1 << 30)])
    assert [set(e.numpy().tolist()) for e in entries] == [{1}] * 4 + [{2}] * 4
