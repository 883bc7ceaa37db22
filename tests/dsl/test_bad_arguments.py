"""Arguments of types that make no sense: what was expected, and how to mend it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import LumijitError

X = ad.Float(1, 2)
MODE: Any = dr.ReduceMode.Auto


class Half:
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"x": ad.Float, "y": ad.Float}

    def __init__(self) -> None:
        self.x = ad.Float(1)


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
    "joined numbers": (lambda: f.concat([1, 2]), "the items are of type 'int'"),
    "a text as a number of streams": (lambda: ad.PCG32("a"), "the size is 'a'"),
    "an array of streams": (lambda: ad.PCG32(ad.UInt(3)), "the size is [3]"),
    "half a seed": (lambda: ad.PCG32(1, 1.5), "can't use 1.5 as a seed"),
    "half a step": (lambda: ad.PCG32(1) + 1.5, "can't take 1.5 steps"),
    "a text of steps": (lambda: ad.PCG32(1) - "a", "can't take 'a' steps"),
    "a list of angles": (lambda: f.rad2deg([1, 2]), "rad2deg: unsupported"),
    "angles of a dict": (lambda: f.deg2rad({}), "deg2rad: unsupported"),
    "a root of a list": (lambda: f.safe_sqrt([1.0]), "safe_sqrt: unsupported"),
    "an angle of None": (lambda: f.safe_acos(None), "safe_acos: unsupported"),
    "an angle of a text": (lambda: f.safe_asin("a"), "safe_asin: unsupported"),
    "a blend of None": (lambda: f.lerp(None, 1, 0.5), "lerp: unsupported"),
    "a norm of lists": (lambda: f.norm([[1, 2], [3]]), "unsupported argument"),
    "a predicate of None": (
        lambda: f.binary_search(0, 5, lambda i: None),
        "returns None (expected a mask",
    ),
    "a grid of a text": (lambda: f.nn.HashGridEncoding(ad.Float, "a"), "is 'a'"),
    "half a level": (
        lambda: f.nn.HashGridEncoding(ad.Float, 2, n_levels=2.5),
        "n_levels is 2.5 (expected an int)",
    ),
    "no scale": (
        lambda: f.nn.HashGridEncoding(ad.Float, 2, per_level_scale=dr.nan),
        "per_level_scale is nan",
    ),
    "a text of octaves": (lambda: f.nn.SinEncode("a"), "octaves is 'a'"),
    "half a neuron": (lambda: f.nn.Linear(1.5, 2), "in_features is 1.5"),
    "a rate that is a text": (lambda: f.opt.Adam("x"), "'lr' is 'x'"),
    "no rate": (lambda: f.opt.Adam(None), "'lr' is None"),
    "parameters without names": (lambda: f.opt.Adam(0.1, [X]), "expected a dict"),
    "a scale that is a text": (lambda: f.opt.GradScaler("a"), "'init_scale' is 'a'"),
    "half an entry": (lambda: f.resample(X, (1.5,)), "a size is 1.5"),
    "a tangent alone": (lambda: f.jvp(f.sin, (X,), X), "'tangents' has type 'Float'"),
    "a primal alone": (lambda: f.hvp(f.sum, X, (X,)), "'primals' has type 'Float'"),
    "a check of a number": (lambda: f.gradcheck(3, X), "can't be called"),
    "a key that is a text": (lambda: X[np.array("x")], "invalid key"),
    "no type of arrays": (lambda: f.ones(dr.ArrayBase), "of type 'ArrayBase'"),
    "a field that is missing": (lambda: f.eval(Half()), "no attribute 'y'"),
    "a pickled buffer": (
        lambda: pickle.dumps(dr.alloc_local(ad.Float, 2)),
        "can't be pickled",
    ),
    "derivatives of others": (
        lambda: f.replace_grad(ad.ArrayXf(), ad.ArrayXf([1, 2], [3, 4])),
        "have 0 and 2 components",
    ),
    "an array to fill with": (lambda: f.full(ad.Float, X, 2), "pass a number;"),
    "a ragged tensor": (lambda: ad.TensorXf([[1, 2], [3]]), "TensorXf: the input is"),
    "a negative power": (lambda: ad.Int(2) ** -1, "power: the exponent -1"),
    "too many tiles": (lambda: f.tile(X, 2**40), "tile: the size"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_expected_is_told(name: str) -> None:
    call, words = CALLS[name]
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        call()
    assert isinstance(caught.value, LumijitError)
    assert words in str(caught.value)
    assert "Fix:" in str(caught.value)
