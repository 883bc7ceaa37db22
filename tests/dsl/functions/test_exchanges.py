"""Exchanges and conditional exchanges: one winner each, in all modes."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayIndexError, ArrayTypeError, DerivativeError

TYPES = ["i8", "u16", "i", "u", "i64", "u64", "f16", "f", "f64"]


def flat(space, entries):
    cls = getattr(space, f"ArrayX{entries}")
    return cls if space is scalar else dr.leaf_t(cls)


@pytest.mark.parametrize("entries", TYPES)
@pytest.mark.parametrize("space", [llvm, ad, scalar])
def test_exchanges(entries, space):
    cls, places = flat(space, entries), flat(space, "u")
    x = cls(1, 2, 3, 4)
    old = dr.scatter_exch(x, cls(10, 20, 30), places(3, 0, 9), dr.mask_t(cls)(True))
    assert type(old) is cls
    assert list(old) == [4, 1, 0]
    assert list(x) == [20, 2, 3, 10]
    old = dr.scatter_exch(x, 7, places(1, 2), dr.mask_t(cls)(False, True))
    assert list(old) == [0, 3]
    assert list(x) == [20, 2, 7, 10]


@pytest.mark.parametrize("entries", TYPES)
@pytest.mark.parametrize("space", [llvm, ad, scalar])
def test_conditional_exchanges(entries, space):
    cls, places = flat(space, entries), flat(space, "u")
    x = cls(1, 2, 3, 4)
    old, replaced = dr.scatter_cas(x, cls(1, 9, 3, 0), 50, places(0, 1, 2, 8))
    assert (type(old), type(replaced)) == (cls, dr.mask_t(cls))
    dr.eval(old, replaced)
    assert list(old) == [1, 2, 3, 0]
    assert list(replaced) == [True, False, True, False]
    assert list(x) == [50, 2, 50, 4]


def test_entries_are_compared_by_their_bits():
    x = llvm.Float(0.0, -0.0, dr.nan)
    old, replaced = dr.scatter_cas(
        x, llvm.Float(-0.0, -0.0, dr.nan), 1, llvm.UInt(0, 1, 2)
    )
    dr.eval(old, replaced)
    assert list(replaced) == [False, True, True]
    assert list(x) == [0, 1, 1]


@pytest.mark.parametrize("n", [1, 7, 1000, 100_003])
def test_one_of_many_wins(n):
    x = dr.full(llvm.UInt, 5, 3)
    lanes = dr.arange(llvm.UInt, n)
    old, won = dr.scatter_cas(x, 5, lanes + 10, lanes % 3)
    dr.eval(old, won, x)
    winners = np.flatnonzero(won.numpy())
    assert sorted(winners % 3) == list(range(min(n, 3)))
    for lane in winners:
        assert x[int(lane) % 3] == lane + 10
    assert set(old.numpy()[won.numpy()]) == {5}


@pytest.mark.parametrize("n", [9, 5000])
def test_exchanges_hand_values_on(n):
    """What was written is found by another write, or stays."""
    x = llvm.UInt(n + 1)
    lanes = dr.arange(llvm.UInt, n)
    old = dr.scatter_exch(x, lanes, llvm.UInt(0))
    dr.eval(old, x)
    assert sorted([*old, *x]) == [*range(n), n + 1]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_locks_in_loops(mode):
    """Each element waits until its number is next: a chain of exchanges."""
    n = 50
    turn, log = llvm.UInt(0), dr.zeros(llvm.UInt, n)
    lanes = dr.arange(llvm.UInt, n)

    def body(done, tries):
        _, won = dr.scatter_cas(turn, lanes, lanes + 1, llvm.UInt(0), ~done)
        dr.scatter(log, tries, lanes, won)
        return done | won, tries + 1

    done, _ = dr.while_loop(
        (dr.full(llvm.Bool, False, n), dr.zeros(llvm.UInt, n)),
        lambda done, tries: ~done & (tries < 10 * n),
        body,
        mode=mode,
    )
    assert dr.all(done)
    assert list(turn) == [n]


def test_what_exchanges_find_has_no_derivatives():
    x = ad.Float64(1, 2, 3)
    dr.enable_grad(x)
    y = ad.Float64(x)
    old = dr.scatter_exch(y, 10, ad.UInt(2, 0))
    assert list(old) == [3, 1]
    with pytest.raises(DerivativeError, match="depends on the order"):
        dr.backward(dr.sum(old))


def test_one_lane_at_a_time():
    def step(lane):
        x, y = llvm.UInt(3, 4), llvm.Float(1, 2)
        old, won = dr.scatter_cas(x, 3, 9, lane)
        return old, won, dr.scatter_exch(y, 7.0, lane), x + 0

    old, won, found, x = dr.run_lane(step, 0, llvm.UInt(0, 1))
    assert (int(old[0]), bool(won[0]), float(found[0])) == (3, True, 1.0)
    assert int(x[0]) == 9


def test_bad_input():
    for call in (
        lambda x: dr.scatter_exch(x, 1, 0),
        lambda x: dr.scatter_cas(x, 0, 1, 0),
    ):
        for target in (llvm.Bool(True), llvm.Array2f(1), llvm.TensorXf([1.0]), 3):
            with pytest.raises(
                ArrayTypeError, match="expected a flat array of numbers"
            ):
                call(target)
    with pytest.raises(ArrayTypeError, match="can't write a value of type 'float'"):
        dr.scatter_cas(llvm.UInt(1), 1.5, 1, 0)
    with pytest.raises(ArrayIndexError, match="scatter_exch: position 3 is out of"):
        dr.scatter_exch(llvm.UInt(1), 1, 3)
    x = ad.Float(1)
    dr.enable_grad(x)
    with pytest.raises(DerivativeError, match="which elements come first"):
        dr.scatter_cas(x, 1, 2, 0)
