"""Printing from symbolic loops and branches, after the next evaluation."""

from __future__ import annotations

import io
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit.compiler.launch import delivery
from lumijit.llvm import Array3f, Bool, Float, Int, TensorXf, UInt
from lumijit.runtime.errors import SizeError, SymbolicError


@dr.syntax
def count_up(j, file, **how):
    i = Int(0)
    while i < j:
        dr.print("{thread_id=} {i=}", i=i, file=file, **how)
        i += 1
    return i


def test_a_loop_prints_by_thread():
    file = io.StringIO()
    result = count_up(Int(2, 3), file)
    assert file.getvalue() == ""
    dr.eval()
    assert file.getvalue() == "thread_id=[0, 0, 1, 1, 1] i=[0, 1, 0, 1, 2]\n"
    assert result.numpy().tolist() == [2, 3]
    dr.eval()
    assert file.getvalue().count("\n") == 1


def test_the_result_carries_the_print_out_too():
    file = io.StringIO()
    assert count_up(Int(2, 1), file).numpy().tolist() == [2, 1]
    assert file.getvalue() == "thread_id=[0, 0, 1] i=[0, 1, 0]\n"


def test_it_does_not_depend_on_the_result_being_kept():
    file = io.StringIO()
    count_up(Int(1, 1), file)
    dr.eval(Float(1, 2) + 3)
    assert file.getvalue() == "thread_id=[0, 1] i=[0, 0]\n"


def test_a_loop_of_one_element():
    file = io.StringIO()
    count_up(dr.opaque(Int, 3), file)
    dr.eval()
    assert file.getvalue() == "thread_id=[0, 0, 0] i=[0, 1, 2]\n"


def test_no_iteration_prints_nothing():
    file = io.StringIO()
    count_up(Int(0, 0), file)
    count_up(Int(), file)
    dr.eval()
    assert file.getvalue() == ""


@pytest.mark.parametrize("limit", [1, 3, 8, 17])
def test_more_output_than_room(limit):
    file = io.StringIO()
    sizes = dr.arange(Int, 100) % 7
    total = int(dr.sum(sizes)[0])
    count_up(sizes, file, limit=limit)
    with pytest.warns(RuntimeWarning, match=f"only captured {limit} of {total} avail"):
        dr.eval()
    threads, entries = (
        [int(v) for v in found.split(",")]
        for found in re.findall(r"\[(.*?)\]", file.getvalue())
    )
    assert len(threads) == len(entries) == limit
    assert threads == sorted(threads)
    assert all(e < t % 7 for t, e in zip(threads, entries, strict=True))
    assert len(set(zip(threads, entries, strict=True))) == limit


def test_all_of_a_large_output():
    file = io.StringIO()
    n = 10_007
    dr.print("{}", dr.arange(UInt, n), mode="symbolic", limit=n, file=file)
    dr.eval()
    found = np.array(file.getvalue().strip("[]\n").split(", "), dtype=int)
    assert np.array_equal(found, np.arange(n))


def test_active_triggers():
    file = io.StringIO()
    x = dr.arange(Float, 100)
    dr.print("{}", x, active=x > 96, mode="symbolic", file=file)
    dr.print("{}", x, active=x > 100, mode="symbolic", file=file)
    dr.print("{}", x, active=False, mode="symbolic", file=file)
    dr.eval()
    assert file.getvalue() == "[97, 98, 99]\n"


def test_branches_print_their_elements():
    file = io.StringIO()

    @dr.syntax
    def f(x):
        if x > 1:
            dr.print("yes {} {x}", Array3f(x, 5, 0), x=x, file=file)
            y = x * 2
        else:
            dr.print("no {} {thread_id} {k}", Float(7), k=[1, x], file=file)
            y = -x
        return y

    assert f(Float(0, 1, 2, 3)).numpy().tolist() == [0, -1, 4, 6]
    yes, no = file.getvalue().split("no ")
    assert yes == "yes [[2, 5, 0],\n [3, 5, 0]] [2, 3]\n"
    assert no == "[7, 7] [0, 1] [\n  1,\n  [0, 1]\n]\n"


def test_nested_regions_and_other_writes():
    file = io.StringIO()
    target = dr.zeros(UInt, 4)

    @dr.syntax
    def f(n):
        i = UInt(0)
        total = UInt(0)
        while i < n:
            if (i & 1) == 1:
                dr.print("{thread_id}:{i}:{ok}", i=i, ok=total > 0, file=file)
                dr.scatter_add(target, UInt(1), i)
            total += i
            i += 1
        return total

    result = f(UInt(2, 4))
    dr.eval(target)
    assert file.getvalue() == "[0, 1, 1]:[1, 1, 3]:[False, False, True]\n"
    assert target.numpy().tolist() == [0, 2, 0, 1]
    assert result.numpy().tolist() == [1, 6]
    assert file.getvalue().count("\n") == 1


@pytest.mark.parametrize("flag", [dr.JitFlag.SymbolicLoops, dr.JitFlag.CompressLoops])
def test_evaluated_loops_print_each_iteration(flag):
    file = io.StringIO()
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False),
        dr.scoped_set_flag(flag, flag is dr.JitFlag.CompressLoops),
    ):
        count_up(Int(1, 3), file)
    lines = [line.split(" i=")[1] for line in file.getvalue().splitlines()]
    assert lines[0] == "[0, 0]"
    assert lines[-1] in ("[2]", "[2, 2]")


def test_prints_come_in_order():
    file = io.StringIO()
    for k in range(5):
        dr.print("{k} {}", Float(1, 2) + k, k=k, mode="symbolic", file=file)
    dr.eval()
    assert [line[0] for line in file.getvalue().splitlines()] == list("01234")


def test_without_arrays_it_prints_while_tracing(capsys):
    @dr.syntax
    def f(x):
        if x > 1:
            dr.print("tracing")
        return x

    f(Float(1, 2))
    assert capsys.readouterr().out == "tracing\n"


def test_thread_ids_of_uniform_values():
    file = io.StringIO()

    @dr.syntax
    def f(x):
        if x > 1:
            dr.print("{} {thread_id}", Float(5), file=file)
        return x

    f(Float(0, 2, 3))
    dr.eval()
    assert file.getvalue() == "[5, 5] [1, 2]\n"


def test_a_failed_trace_prints_nothing():
    file = io.StringIO()

    @dr.syntax
    def f(x):
        while x < 3:
            dr.print("{}", x, file=file)
            if x < 2:
                {}["missing"]  # type: ignore[index]
            x += 1

    with pytest.raises(KeyError):
        f(Float(1, 2))
    dr.eval()
    assert file.getvalue() == ""
    assert not delivery.waiting().reports


def test_sizes_must_agree():
    with pytest.raises(SizeError, match="incompatible sizes"):
        dr.print("{} {}", Float(1, 2), Float(1, 2, 3), mode="symbolic")


def test_evaluated_mode_refuses_symbolic_variables():
    with pytest.raises(SymbolicError, match="the variable is symbolic"):
        count_up(Int(1, 2), None, mode="evaluated")


def test_an_error_of_the_file_reaches_the_caller_once():
    class Broken:
        def write(self, text):
            raise OSError("disk full")

    file = io.StringIO()
    dr.print("{}", Float(1, 2), mode="symbolic", file=Broken())
    dr.print("{}", Float(3, 4), mode="symbolic", file=file)
    with pytest.raises(OSError, match="disk full"):
        dr.eval()
    assert dr.eval() is False
    assert file.getvalue() == "[3, 4]\n"


def test_bounds_checks_still_warn():
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        x = dr.gather(Float, Float(1, 2, 3), UInt(0, 7))
        with pytest.warns(RuntimeWarning, match="position 7 in an array of size 3"):
            dr.eval(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dr.eval(x + 1)


def test_masks_and_half_floats_are_captured():
    file = io.StringIO()
    values = (Bool(True, False), dr.llvm.Float16(0.5, 2), dr.llvm.Int64(-1, 2**40))
    dr.print("{} {} {}", *values, mode="symbolic", file=file)
    dr.eval()
    assert file.getvalue() == f"[True, False] [0.5, 2] [-1, {2**40}]\n"


def test_a_growing_state_variable_prints_once():
    file = io.StringIO()

    @dr.syntax
    def f(n, y):
        i = UInt(0)
        total = Float(0)
        while i < n:
            total += y
            dr.print("{thread_id} {i} {t}", i=i, t=total, file=file)
            i += 1
        return total

    f(dr.opaque(UInt, 2), Float(1, 2, 3))
    dr.eval()
    assert (
        file.getvalue() == "[0, 0, 1, 1, 2, 2] [0, 1, 0, 1, 0, 1] [1, 2, 2, 4, 3, 6]\n"
    )


def test_inner_loops_and_dead_code():
    file = io.StringIO()

    @dr.syntax
    def f(n):
        i = UInt(0)
        while i < n:
            j = UInt(0)
            while j < i:
                dr.print("{i} {j} {k}", i=i, j=j, k=j * 10, file=file)
                j += 1
            i += 1

    with dr.scoped_set_flag(dr.JitFlag.Debug):
        f(UInt(1, 2, 3))
        dr.eval()
    assert file.getvalue() == "[1, 1, 2, 2] [0, 0, 0, 1] [0, 0, 0, 10]\n"


def test_evaluated_branches_may_print_later():
    file = io.StringIO()

    @dr.syntax
    def f(x):
        if x > 1:
            dr.print("{} {thread_id}", x, file=file)
        else:
            dr.print("{} {thread_id}", x, file=file, mode="symbolic")
        return x

    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False):
        f(Float(1, 2, 3))
    assert file.getvalue() == "[2, 3] [1, 2]\n"
    dr.eval()
    assert file.getvalue() == "[2, 3] [1, 2]\n[1] [0]\n"


def test_tensors_print_their_entries_lane_by_lane():
    file = io.StringIO()

    @dr.syntax
    def f(x):
        while x < 3:
            x += 1
            dr.print("{} {}", x, [x * 2], file=file)
        return x

    dr.eval(f(TensorXf([[1, 5], [2, 4]])))
    assert file.getvalue() == "[2, 3, 3] [\n  [4, 6, 6]\n]\n"
    dr.print("{}", TensorXf([[1, 2]]), active=Bool(False, True), file=file)
    assert file.getvalue().endswith("\n[2]\n")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_random_loops_print_what_plain_python_does(counts):
    file = io.StringIO()
    count_up(dr.concat([Int(c) for c in counts]), file, limit=400)
    dr.eval()
    pairs = [(t, i) for t, count in enumerate(counts) for i in range(count)]
    expected = ""
    if pairs:
        threads, entries = zip(*pairs, strict=True)
        expected = f"thread_id={[*threads]} i={[*entries]}\n"
    assert file.getvalue() == expected
