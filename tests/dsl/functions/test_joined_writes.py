"""Writes that wait for each other in a kernel: components, and what lies between."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.launch import kernels
from lumijit.llvm import Array3f, Bool, Float, Float64, Int, UInt32

pytestmark = pytest.mark.usefixtures("each_target")

SIZES = (1, 3, 8, 9, 17, 64, 100)


def ir_of(program: Callable[[], Any], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the code of the last kernel that a program needs."""
    kernels.flush()
    with dr.scoped_set_flag(dr.JitFlag.PrintIR, True):
        dr.eval(program())
    return capsys.readouterr().out


def lane_loops(ir: str) -> int:
    return len(re.findall(r"call i64 @llvm\.cttz\.i64", ir))


@pytest.mark.parametrize("size", SIZES)
def test_components_of_one_write(size: int) -> None:
    rng = np.random.default_rng(size)
    index = rng.permutation(2 * size)[:size].astype(np.uint32)
    active = rng.random(size) < 0.6
    values = rng.standard_normal((3, size)).astype(np.float32)
    expected = np.full(6 * size, -1, np.float32)
    for k in range(3):
        expected[3 * index[active] + k] = values[k, active]
    target = dr.full(Float, -1, 6 * size)
    dr.scatter(target, Array3f(values), UInt32(index), Bool(active))
    np.testing.assert_array_equal(target.numpy(), expected)


@pytest.mark.ordered("the last write to an entry counts")
@pytest.mark.parametrize("size", SIZES)
def test_the_last_lane_wins_in_each_component(size: int) -> None:
    target = dr.zeros(Float, 6)
    x = dr.arange(Float, size)
    dr.scatter(target, Array3f(x, 10 * x, 100 * x), UInt32(1))
    last = size - 1
    assert target.numpy().tolist() == [0, 0, 0, last, 10 * last, 100 * last]


@pytest.mark.packets("lanes of a packet write in step")
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_writes_to_the_same_entries_stay_in_order(size: int, mode: Any) -> None:
    """In a region, two writes of components to one array are neighbours.

    Entries that several lanes hit have no order beyond a packet.
    """
    target = dr.zeros(Float, 3 * size + 3)
    lane = dr.arange(UInt32, size)

    def body(i: UInt32) -> tuple[UInt32]:
        x = Float(lane)
        dr.scatter(target, Array3f(x, x + 0.25, x + 0.5), lane)
        # Lane k writes where lane k + 1 has just written.
        dr.scatter(target, Array3f(-x, -x - 0.25, -x - 0.5), lane + 1)
        return (i + 1,)

    dr.while_loop((UInt32(0) + 0 * lane,), lambda i: i < 1, body, mode=mode)
    written = np.arange(size, dtype=np.float32)
    expected = np.concatenate(([0, 0.25, 0.5], np.repeat(-written, 3)))
    expected[3:] -= np.tile(np.array([0, 0.25, 0.5]), size)
    np.testing.assert_array_equal(target.numpy(), expected.astype(np.float32))


@pytest.mark.parametrize("size", SIZES)
def test_arrays_of_several_types_under_several_masks(size: int) -> None:
    lane = dr.arange(UInt32, size)
    x, y = dr.zeros(Float, size), dr.zeros(Float64, size)
    flag, count = dr.zeros(Bool, size), dr.zeros(Int, size)

    def body(i: UInt32) -> tuple[UInt32]:
        even = (lane & 1) == 0
        reverse = size - 1 - lane
        dr.scatter(x, Float(lane) / 3, lane, even)
        dr.scatter(y, Float64(lane) / 7, reverse, even)
        dr.scatter(flag, even, lane, even)
        dr.scatter(count, -Int(lane), lane, ~even)
        dr.scatter_add(count, Int(1000), lane)
        return (i + 1,)

    dr.while_loop((UInt32(0) + 0 * lane,), lambda i: i < 1, body)
    k = np.arange(size)
    even = k % 2 == 0
    np.testing.assert_array_equal(x.numpy(), np.where(even, np.float32(k) / 3, 0))
    np.testing.assert_array_equal(y.numpy(), np.where(even, k / 7, 0)[::-1])
    np.testing.assert_array_equal(flag.numpy(), even)
    expected = np.where(even, 0, -k) + 1000
    np.testing.assert_array_equal(count.numpy(), expected)


@pytest.mark.packets("counts loops over lanes")
def test_components_share_a_loop_over_lanes(
    each_target: TargetInfo, capsys: pytest.CaptureFixture[str]
) -> None:
    def program() -> Float:
        x = dr.arange(Float, 10)
        return dr.ravel(Array3f(x, x + 1, x * x))

    loops = lane_loops(ir_of(program, capsys))
    assert loops == 1


def test_other_order_is_another_kernel() -> None:
    """Promised and unpromised neighbours have different code."""

    def program(is_array: bool) -> Float:
        target = dr.zeros(Float, 40)
        lane = dr.arange(UInt32, 12)
        x = Float(lane)

        def body(i: UInt32) -> tuple[UInt32]:
            if is_array:
                dr.scatter(target, Array3f(x, x + 1, x + 2), lane)
            else:
                for k in range(3):
                    dr.scatter(target, x + k, lane * 3 + k)
            return (i + 1,)

        dr.while_loop((UInt32(0) + 0 * lane,), lambda i: i < 1, body)
        return target

    first, second = program(True), program(False)
    np.testing.assert_array_equal(first.numpy(), second.numpy())
