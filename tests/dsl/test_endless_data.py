"""Lists that contain themselves: an error, whoever walks through them.

Compiled modules would use up the stack, which Python doesn't see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Array3f, ArrayXf, Bool, Float, Matrix3f, TensorXf, UInt, ad

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
KEYED: dict[str, Any] = {}
KEYED["a"] = KEYED
THREE: list[Any] = [1, 2]
THREE.append(THREE)
BUILD = [Float, Array3f, ArrayXf, TensorXf, Matrix3f, ad.Float]
CALLS: dict[str, Callable[[Any], Any]] = {
    "accum_grad": lambda x: dr.accum_grad([x, x], [x, x]),
    "addition": lambda x: Float(1) + x,
    "addition to a tensor": lambda x: TensorXf([1, 2]) + x,
    "comparison": lambda x: dr.allclose(x, x),
    "copy": dr.copy,
    "detach": dr.detach,
    "dispatch": lambda x: dr.switch(UInt(0, 1), [lambda y: y, lambda y: y], x),
    "dot": lambda x: dr.dot(x, x),
    "fma": lambda x: dr.fma(x, x, x),
    "full": lambda x: dr.full(Float, x, 3),
    "gather": lambda x: dr.gather(type(x), x, UInt(0)),
    "gather of a type": lambda x: dr.gather(Float, x, UInt(0)),
    "index": lambda x: TensorXf([1, 2, 3])[x],
    "index of a flat array": lambda x: Float(1, 2)[x],
    "kernel": lambda x: dr.kernel(lambda y: y)(x),
    "local memory": lambda x: dr.alloc_local(Float, 3, x),
    "loop": lambda x: dr.while_loop(
        (UInt(0), x), lambda i, y: i < 3, lambda i, y: (i + 1, y)
    ),
    "ravel": dr.ravel,
    "scatter": lambda x: dr.scatter(x, Float(1), UInt(0)),
    "scatter to its like": lambda x: dr.scatter(x, x, UInt(0)),
    "select": lambda x: dr.select(Bool(True), x, x),
    "repeat": lambda x: dr.repeat(x, 2),
    "sin": dr.sin,
    "slice": dr.slice,
    "store": lambda x: TensorXf([1, 2]).__setitem__(slice(None), x),
    "tile": lambda x: dr.tile(x, 2),
}


@pytest.mark.parametrize("data", [ENDLESS, KEYED, THREE], ids=["list", "dict", "three"])
@pytest.mark.parametrize("name", CALLS)
def test_calls_refuse_what_contains_itself(name: str, data: Any) -> None:
    with pytest.raises((RecursionError, TypeError, ValueError)):
        CALLS[name](data)


@pytest.mark.parametrize("data", [ENDLESS, KEYED, THREE], ids=["list", "dict", "three"])
@pytest.mark.parametrize("cls", BUILD, ids=lambda cls: cls.__name__)
def test_types_refuse_what_contains_itself(cls: Any, data: Any) -> None:
    with pytest.raises((RecursionError, TypeError, ValueError)):
        cls(data)
