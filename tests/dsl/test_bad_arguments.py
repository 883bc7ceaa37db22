"""Arguments of types that make no sense: what was expected, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import LumijitError

X = ad.Float(1, 2)
MODE: Any = dr.ReduceMode.Auto
# (Checkers would see what is wrong.)
f: Any = dr
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "any of a type": (lambda: f.any(llvm.Float), "expected an array"),
    "mean of a slice": (lambda: f.mean(slice(1, 2)), "expected an array"),
    "std of a type": (lambda: f.std(int), "expected an array"),
    "max of a type": (lambda: f.max(llvm.Float), "expected an array"),
    "concat of a number": (lambda: f.concat(3), "expected an array"),
    "stack of a type": (lambda: f.stack(int), "expected an array"),
    "vstack of None": (lambda: f.vstack(None), "expected an array"),
    "a label without a name": (lambda: f.set_label("a"), "no value and its name"),
    "a number as a label": (lambda: f.set_label(X, 4), "no value and its name"),
    "three arguments of a label": (lambda: f.set_label(1, "a", 3), "3 of them"),
    "a text as flags": (lambda: f.backward(X, "x"), "members of ADFlag"),
    "a list as flags": (lambda: f.forward_from(X, [1]), "members of ADFlag"),
    "a type as flags": (lambda: f.traverse(f.ADMode.Forward, int), "of ADFlag"),
    "a text for entries": (lambda: f.replace_type_t(llvm.Float, "x"), "VarType"),
    "a number of a type": (lambda: f.replace_type_t(llvm.Float, 999), "VarType"),
    "a shape that is none": (lambda: f.replace_shape_t(llvm.Float, 3), "sequence"),
    "a text as a count": (lambda: f.repeat(X, "a"), "the count is 'a'"),
    "a type as a count": (lambda: f.tile(X, int), "the count is"),
    "half an index": (lambda: f.slice(X, 1.5), "the index is 1.5"),
    "a range of arrays": (lambda: f.binary_search(X, 1, bool), "'start' is"),
    "no predicate": (lambda: f.binary_search(0, 3, 1), "can't be called"),
    "callables that are none": (lambda: f.dispatch([3, 4], 5, X), "be called"),
    "a branch that is none": (lambda: f.if_stmt((X,), X > 1, 3, 4), "'true_fn' has"),
    "a condition that is none": (lambda: f.while_loop((X,), 3, 4), "'cond' has"),
    "a function that is none": (lambda: f.vjp(3, X), "can't be called"),
    "half a block": (lambda: f.block_sum(X, 1.5), "the block size is 1.5"),
    "half a size": (lambda: f.zeros(ad.Float, 1.5), "a size is 1.5"),
    "a shape that is a slice": (lambda: f.reshape(X, slice(1, 2)), "sequence"),
    "a mode as a mask": (
        lambda: f.scatter(X, 1, 0, MODE),
        "name: mode=ReduceMode.Auto",
    ),
    "a mode as a mask of a read": (
        lambda: f.gather(ad.Float, X, 0, MODE),
        "'active' is",
    ),
    "a mode in scalar": (
        lambda: f.gather(float, scalar.ArrayXf(1), 0, MODE),
        "'active' is",
    ),
    "a lane that is a text": (lambda: f.run_lane(lambda: 1, "a"), "the lane is 'a'"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_expected_is_told(name: str) -> None:
    call, words = CALLS[name]
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert isinstance(caught.value, LumijitError)
    assert words in str(caught.value)
    assert "Fix:" in str(caught.value)
