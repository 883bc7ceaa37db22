"""Values whose types derive from Python's own: compiled code takes them as these.

C types of arguments accept nothing derived (`Expected dict, got Counter`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from copy import copy
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.llvm.ad import Array3f, Float, TensorXf, UInt32

Dict = type("Dict", (dict,), {})
List = type("List", (list,), {})
Tuple = type("Tuple", (tuple,), {})
Text = type("Text", (str,), {})
Whole = type("Whole", (int,), {})
Real = type("Real", (float,), {})
Set = type("Set", (set,), {})
Pair = namedtuple("Pair", ["x", "y"])


class Size(IntEnum):
    TWO = 2
    FOUR = 4


class State(NamedTuple):
    i: Any
    y: Any


MAPPINGS = [
    Counter(a=1, b=2),
    OrderedDict(a=1, b=2),
    defaultdict(int, a=1, b=2),
    Dict(a=1, b=2),
]
SEQUENCES = [List([1, 2]), Tuple((1, 2)), Pair(1, 2), deque([1, 2])]
IDS: dict[str, Any] = {"ids": lambda v: type(v).__name__}
MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


def counted(held: Any, key: Any, mode: str) -> list[float]:
    """Read a container from outside in a loop, a branch and a call."""

    @dr.syntax
    def program(i: Any, y: Any) -> Any:
        while dr.hint(i < 3, mode=mode):
            if y < 4:
                y += held[key]
            else:
                y -= held[key]
            i += 1
        return y + dr.switch(UInt32(0, 1), [lambda: Float(held[key]), lambda: Float(0)])

    found: list[float] = program(UInt32(0, 1), Float(1, 3)).numpy().tolist()
    return found


@MODES
@pytest.mark.parametrize("held", MAPPINGS, **IDS)
def test_mappings_from_outside(held: Any, mode: str) -> None:
    assert counted(held, "b", mode) == counted({"a": 1, "b": 2}, "b", mode)
    assert dict(held) == {"a": 1, "b": 2}


@MODES
@pytest.mark.parametrize("held", SEQUENCES, **IDS)
def test_sequences_from_outside(held: Any, mode: str) -> None:
    assert counted(held, 1, mode) == counted([1, 2], 1, mode)


@MODES
@pytest.mark.parametrize("held", MAPPINGS, **IDS)
def test_mappings_that_loops_change(held: Any, mode: str) -> None:
    made = copy(held)
    made["a"], made["b"] = Float(1, 2), UInt32(0, 0)

    @dr.syntax
    def program(d: Any) -> None:
        while dr.hint(d["b"] < 3, mode=mode):
            d["a"] += 1
            d["b"] += 1

    program(made)
    assert type(made) is type(held)
    assert made["a"].numpy().tolist() == [4, 5]


@MODES
def test_objects_with_mappings_for_attributes(mode: str) -> None:
    class Holder:
        pass

    holder: Any = Holder()
    holder.table = Counter(a=3)
    holder.total = Float(0, 1)

    @dr.syntax
    def program(i: Any) -> None:
        while dr.hint(i < 2, mode=mode):
            holder.total += holder.table["a"]
            i += 1

    program(UInt32(0, 0))
    assert holder.total.numpy().tolist() == [6, 7]


@MODES
@pytest.mark.parametrize("cls", [State, namedtuple("Plain", ["i", "y"])], **IDS)
def test_state_of_loops(cls: Any, mode: str) -> None:
    state = cls(UInt32(0, 1), Float(0, 0))
    found = dr.while_loop(
        (state,),
        lambda s: s.i < 3,
        lambda s: (cls(s.i + 1, s.y + 2),),
        mode=mode,
    )
    assert type(found[0]) is cls
    assert found[0].y.numpy().tolist() == [6, 4]
    chosen = dr.if_stmt((state,), state.i > 0, lambda s: (s,), lambda s: (s,))
    assert type(chosen[0]) is cls


@pytest.mark.parametrize("one", [Whole(2), Size.TWO, Real(2), np.float64(2), True])
def test_numbers(one: Any) -> None:
    x = Float(1, 2)
    assert (x * one).numpy().tolist() == [float(one), 2 * float(one)]
    assert dr.maximum(one, x).numpy().tolist() == [max(float(one), v) for v in (1, 2)]
    assert Float(one).numpy().tolist() == [float(one)]
    assert dr.full(Float, one, Whole(3)).numpy().tolist() == [float(one)] * 3
    x[0] = one
    assert x.numpy().tolist() == [float(one), 2]
    assert dr.fma(x, one, Whole(1)).numpy()[1] == 2 * float(one) + 1
    assert issubclass(dr.expr_t(one, Whole(1)), (int, float))
    assert dr.expr_t(one, x) is Float
    assert Array3f(one, x, one).x.numpy().tolist() == [float(one)]
    y = dr.select(llvm.Bool(True, False), one, x)
    assert dr.all(y == Float(float(one), 2))


@pytest.mark.parametrize("n", [Whole(2), Size.TWO, np.int64(2), np.uint8(2)])
def test_whole_numbers(n: Any) -> None:
    x = dr.arange(UInt32, n + 4)
    for found, wanted in (
        (x[n], 2),
        (x[-int(n)], 4),
        (x // n, [0, 0, 1, 1, 2, 2]),
        (x % n, [0, 1] * 3),
        (x << n, [0, 4, 8, 12, 16, 20]),
        (dr.gather(UInt32, x, n), [2]),
        (dr.repeat(UInt32(1, 2), n), [1, 1, 2, 2]),
        (dr.block_sum(x, n), [1, 5, 9]),
        (dr.zeros(UInt32, n), [0, 0]),
        (TensorXf(Float(1, 2, 3, 4), (n, n))[1, n - 1], 4),
    ):
        values = found.numpy() if hasattr(found, "numpy") else found
        assert np.array_equal(np.ravel(values), np.ravel(wanted))


@pytest.mark.parametrize("cls", [tuple, Tuple, list, List, np.array])
def test_shapes(cls: Any) -> None:
    shape = cls([2, 3])
    values = np.arange(6, dtype=np.float32)
    x = TensorXf(Float(values), shape)
    assert x.shape == (2, 3)
    assert type(x.shape) is tuple
    assert np.array_equal(dr.reshape(x, cls([3, 2])).numpy(), values.reshape(3, 2))
    assert dr.zeros(TensorXf, cls([3, 2])).shape == (3, 2)
    assert dr.ones(TensorXf, shape).shape == (2, 3)
    assert dr.slice_index(UInt32, shape, (0,))[0] == (3,)


def test_subscripts() -> None:
    a = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    x = TensorXf(a.copy())
    for key in (Pair(1, slice(1, 3)), Tuple((slice(None), Size.TWO)), Tuple((0, ...))):
        assert np.array_equal(x[key].numpy(), a[tuple(key)])
        x[key], a[tuple(key)] = 7, 7
        assert np.array_equal(x.numpy(), a)
    rows = List([1, 0])
    assert np.array_equal(x[rows].numpy(), a[[1, 0]])
    v = Array3f(1, 2, 3)
    assert v[Size.TWO].numpy().tolist() == [3]


def test_recorded_functions() -> None:
    scale = Counter(a=2)

    @dr.kernel
    def program(x: Any, held: Any, name: Any, count: Any) -> Any:
        return x * held["a"] * scale["a"] * count, name

    for count in (1, Whole(2), Size.FOUR):
        held = OrderedDict(a=Float(1, 2))
        found, name = program(Float(1, 2), held, Text("n"), count)
        assert found.numpy().tolist() == [2 * count, 8 * count]
        assert name == "n"


def test_containers_of_arrays() -> None:
    x = Float(1, 2)
    for tree in (Dict(a=x), List([x]), Pair(x, x), OrderedDict(a=[x])):
        assert dr.eval(tree) in (True, False)
        copied = dr.copy(tree)
        assert type(copied) is type(tree)
        assert dr.all(dr.ravel(dr.leaf(copied) if hasattr(dr, "leaf") else x) == x)
        dr.enable_grad(tree)
        dr.set_grad(tree, dr.grad(tree))
        assert type(dr.detach(tree)) is type(tree)
        dr.disable_grad(tree)
