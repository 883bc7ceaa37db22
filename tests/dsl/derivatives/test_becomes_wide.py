"""Gradients that evaluated control flow gives before it is known how wide it is.

Its condition has one entry at first, and so have values that all elements share.
"""

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Bool, Float, UInt32

MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
TURNS = UInt32(1, 2, 3)


def parameter(*values):
    found = Float(*values)
    dr.enable_grad(found)
    return found


@dr.syntax
def loop(function, count, mode):
    k, is_active = UInt32(0), Bool(True)
    while dr.hint(is_active, mode=mode):
        function()
        k += 1
        is_active = k < count


@dr.syntax
def branch(function, count, mode):
    found = Float(0)
    if dr.hint(dr.opaque(Bool, True), mode=mode):
        function()
        found = Float(count)
    return found


@MODES
@pytest.mark.parametrize("x", [[10.0], [10.0, 10.0, 10.0]])
@pytest.mark.parametrize("program", [loop, branch])
def test_a_parameter_read_at_one_index(mode, x, program) -> None:
    table = parameter(2, 3)
    program(
        lambda: dr.backward(dr.gather(Float, table, UInt32(0)) * Float(x)), TURNS, mode
    )
    expected = {loop: 60, branch: 30}[program]
    np.testing.assert_array_equal(table.grad, [expected, 0])


@MODES
@pytest.mark.parametrize("program", [loop, branch])
def test_a_gradient_of_one_entry_is_added_to(mode, program) -> None:
    r = parameter(1)
    program(lambda: dr.accum_grad(r, 10), TURNS, mode)
    assert r.grad == {loop: 60, branch: 30}[program]


@MODES
def test_beside_a_generator_that_becomes_state(mode) -> None:
    class Sampler:
        def __init__(self) -> None:
            self.seed = UInt32(1, 2, 3)

        def next(self) -> Float:
            self.seed = self.seed * 5 + 1
            return Float(self.seed)

    def draw(table, sampler) -> None:
        dr.backward(dr.gather(Float, table, UInt32(0)) * sampler.next())

    table, sampler = parameter(2, 3), Sampler()

    @dr.syntax
    def program(table, n, sampler):
        k, is_active = UInt32(0), Bool(True)
        while dr.hint(is_active, mode=mode):
            draw(table, sampler)
            k += 1
            is_active = k < n

    program(table, TURNS, sampler)
    assert sampler.seed.numpy().tolist() == [6, 56, 406]
    np.testing.assert_array_equal(table.grad, [6 + 11 + 56 + 16 + 81 + 406, 0])
