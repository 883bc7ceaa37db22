"""Arrays in tuples that objects hold, which called functions change in place.

Nothing else can be put into a tuple, so these arrays themselves get other contents.
"""

from typing import Any, NamedTuple

import pytest

import lumijit as dr
from lumijit.llvm import Array2f, Float, UInt32

MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


class Holder:
    """An object that is no PyTree."""

    held: Any


class Pair(NamedTuple):
    a: Any
    b: Any


def by_index(h):
    v = h.held[0]
    v += 1


def by_name(h):
    h.held[0].__iadd__(1)


def by_iteration(h):
    for v in h.held:
        v += 1


CHANGES = [by_index, by_name, by_iteration]


@dr.syntax
def loop(change, h, n, mode):
    k = UInt32(0)
    while dr.hint(k < n, mode=mode):
        change(h)
        k += 1


@dr.syntax
def branch(change, h, n, mode):
    if dr.hint(n > 0, mode=mode):
        change(h)


@dr.syntax
def nested(change, h, n, mode):
    if dr.hint(n > 0, mode=mode):
        k = UInt32(0)
        while dr.hint(k < n, mode=mode):
            change(h)
            k += 1


EXPECTED = {loop: [2, 4, 3], branch: [2, 3, 3], nested: [2, 4, 3]}


@MODES
@pytest.mark.parametrize("program", [loop, branch, nested])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda a: (a,),
        lambda a: Pair(a, UInt32(5)),
        lambda a: (a, Float(7)),
        lambda a: [a],
        lambda a: ((a,), 3)[0],
    ],
    ids=["tuple", "named", "two", "list", "inner"],
)
def test_arrays_in_tuples(wrapped, change, program, mode) -> None:
    h, a = Holder(), Float(1, 2, 3)
    h.held = wrapped(a)
    held = h.held
    program(change, h, UInt32(1, 2, 0), mode)
    assert type(h.held) is type(held)
    assert h.held[0] is a
    assert list(a) == EXPECTED[program]


@MODES
@pytest.mark.parametrize("program", [loop, branch, nested])
def test_nested_arrays_and_tuples_in_tuples(program, mode) -> None:
    def change(h):
        v = h.held[0]
        v += 1
        inner = h.held[1][0]
        inner += 1

    h, v, a = Holder(), Array2f([1, 2, 3], 0), Float(1, 2, 3)
    h.held = v, (a,)
    program(change, h, UInt32(1, 2, 0), mode)
    assert list(a) == EXPECTED[program]
    assert list(v.x) == EXPECTED[program]


@MODES
def test_an_array_that_a_variable_has_as_well(mode) -> None:
    @dr.syntax
    def program(h, a, n):
        k, total = UInt32(0), Float(0)
        while dr.hint(k < n, mode=mode):
            by_index(h)
            total += a
            k += 1
        return total

    h, a = Holder(), Float(1, 2, 3)
    h.held = (a,)
    total = program(h, a, UInt32(1, 2, 0))
    assert list(a) == [2, 4, 3]
    assert list(total) == [2, 3 + 4, 0]


@MODES
def test_errors_leave_the_array_as_it_was(mode) -> None:
    def change(h):
        by_index(h)
        if len(calls) > 0:
            raise KeyError

    calls = [1]
    h, a = Holder(), Float(1, 2, 3)
    h.held = (a,)
    for program in (loop, branch, nested):
        with pytest.raises(KeyError):
            program(change, h, UInt32(1, 2, 0), mode)
        assert list(a) == [1, 2, 3]
