"""What programs for Dr.Jit rely on, beyond the names and types of the reference."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda, llvm, scalar
from lumijit.llvm import Array4f, ArrayXf, Bool, Float, TensorXf, UInt, UInt64
from lumijit.runtime.errors import ArrayTypeError, SizeError

by_space = pytest.mark.parametrize("space", [llvm, llvm.ad, scalar])


def flat(space: Any) -> Any:
    return scalar.ArrayXf if space is scalar else space.Float


def test_a_generator_takes_states_of_any_width() -> None:
    rng: Any = llvm.PCG32(2)
    rng.state = UInt(5, 6)
    assert type(rng.state) is UInt64
    assert list(rng.state) == [5, 6]
    right = llvm.PCG32(2)
    right.state = UInt64(5, 6)
    assert list(rng.next_uint32()) == list(right.next_uint32())


def test_entries_of_fresh_local_memory_stay_literals() -> None:
    buffer = dr.alloc_local(UInt, 4, value=UInt(7))
    assert buffer.read(UInt(0, 1)).state is dr.VarState.Literal
    assert buffer[2] == 7
    assert list(buffer.read(UInt(0, 1), active=Bool(True, False))) == [7, 0]
    buffer[1] = UInt(8, 9)
    assert list(buffer[1]) == [8, 9]
    assert list(buffer[0]) == [7, 7]
    many = dr.alloc_local(Float, 2, value=Float(1, 2))
    assert list(many[1]) == [1, 2]


def test_structs_may_say_how_they_are_filled_with_zeros() -> None:
    class Record:
        DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"x": Float, "child": Any}

        def __init__(self) -> None:
            self.x, self.child = Float(), None

        def zero_(self, size: int = 1) -> None:
            self.x = dr.full(Float, size, size)

    class Parent:
        DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"record": Record}

    parent: Any = dr.zeros(Parent, (3,))
    made = parent.record
    assert (list(made.x), made.child) == ([3, 3, 3], None)
    assert list(dr.zeros(Record).x) == [1]
    assert list(dr.ones(Record, 2).x) == [1, 1]


def test_opaque_arrays() -> None:
    x = Float(1)
    y, (z,) = dr.opaque(x), dr.opaque([llvm.Array2f(1, 2)])
    assert (x.state, y.state) == (dr.VarState.Literal, dr.VarState.Evaluated)
    assert str(z) == "[[1, 2]]"
    assert dr.opaque(3) == 3
    with pytest.raises(ArrayTypeError, match="opaque: there is no value for the type"):
        dr.opaque(Float)


def test_types_describe_themselves() -> None:
    head = "ArrayMeta[\n  type="
    jit = ",\n  backend=llvm,\n  is_jit=1,\n  "
    assert Float.__meta__ == f"{head}float32{jit}shape=(*)\n]"
    assert Float(1).__meta__ == Float.__meta__
    assert Array4f.__meta__ == f"{head}float32{jit}is_vector=1,\n  shape=(4, *)\n]"
    described = f"{head}float32{jit}is_matrix=1,\n  is_diff=1,\n  shape=(3, 3, *)\n]"
    assert llvm.ad.Matrix3f.__meta__ == described
    assert llvm.TensorXb.__meta__ == f"{head}bool{jit}is_tensor=1,\n  shape=()\n]"
    assert scalar.Array3i.__meta__ == f"{head}int32,\n  is_vector=1,\n  shape=(3)\n]"
    assert "backend=cuda" in cuda.Float.__meta__
    assert dr.ArrayBase.__meta__ == "ArrayMeta[invalid]"


def test_masks_of_python_values() -> None:
    assert {dr.mask_t(v) for v in (3, 3.0, int, True, "s", [1])} == {bool}


class TestGather:
    def test_a_dynamic_number_of_components(self) -> None:
        found = dr.gather(ArrayXf, dr.arange(Float, 12), UInt(0, 1), shape=(4, 2))
        assert type(found) is ArrayXf
        np.testing.assert_array_equal(found, [[0, 4], [1, 5], [2, 6], [3, 7]])

    def test_sizes_that_are_known(self) -> None:
        source = dr.arange(Float, 12)
        found = dr.gather(llvm.Array3f, source, UInt(1), shape=(3, 1))
        np.testing.assert_array_equal(found, [[3], [4], [5]])
        assert list(dr.gather(Float, source, UInt(3, 1), shape=(2,))) == [3, 1]

    def test_gradients(self) -> None:
        source = llvm.ad.Float(1, 2, 3, 4)
        dr.enable_grad(source)
        index = llvm.ad.UInt(1, 1)
        rows = dr.gather(llvm.ad.ArrayXf, source, index, shape=(2, 2))
        dr.backward(rows[0] * 2 + rows[1])
        assert list(source.grad) == [0, 0, 4, 2]

    def test_mistakes(self) -> None:
        source = dr.arange(Float, 12)
        with pytest.raises(SizeError, match="'shape' has 1 dimensions and ArrayXf 2"):
            dr.gather(ArrayXf, source, UInt(0), shape=(3,))
        with pytest.raises(SizeError, match="Array4f can't have it"):
            dr.gather(Array4f, source, UInt(0), shape=(3, 1))
        with pytest.raises(ArrayTypeError, match="then pass 'shape'"):
            dr.gather(ArrayXf, source, UInt(0))


def test_packets() -> None:
    with dr.scoped_set_flag(dr.JitFlag.PacketOps, True):
        target = dr.zeros(Float, 8)
        dr.scatter(target, Array4f(1, 2, 3, 4), UInt(1))
        dr.scatter_reduce(dr.ReduceOp.Add, target, Array4f(1), UInt(1, 0))
        assert list(target) == [1, 1, 1, 1, 2, 3, 4, 5]


@by_space
def test_swizzles_of_any_length(space: Any) -> None:
    v = space.Array4f(1, 2, 3, 4)
    assert type(v.xyxyxw) is space.ArrayXf
    entries = [x if space is scalar else x[0] for x in v.xyxyxw]
    assert entries == [1, 2, 1, 2, 1, 4]
    for name in ("xyzxq", "xyzwt"):
        with pytest.raises(AttributeError, match=f"'Array4f' object has no .*{name}"):
            getattr(v, name)
    with pytest.raises(AttributeError, match="no attribute 'xyxyz'"):
        _ = space.Array2f(1, 2).xyxyz
    with pytest.raises(AttributeError, match="has no 'z' component"):
        _ = space.Array2f(1, 2).z


def test_arguments_that_can_be_named() -> None:
    named = {
        "polar_decomp": ["arg", "it"],
        "relative_grad": ["x"],
        "slerp": ["a", "b", "t"],
        "sphdir": ["theta", "phi"],
        "transform_decompose": ["a", "it"],
        "unit_angle": ["a", "b"],
    }
    for name, expected in named.items():
        parameters = inspect.signature(getattr(dr, name)).parameters.values()
        found = [p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY]
        assert found == expected, name


class TestMaskedEntries:
    @by_space
    def test_arithmetic(self, space: Any) -> None:
        x = flat(space)(1, 2, 3)
        x[x > 1] = 1 - x[x > 1] * 2
        assert list(x) == [1, -3, -5]
        is_small = x < -3
        x[is_small] = -x[is_small] / 2 + x[is_small]
        assert list(x) == [1, -3, -2.5]
        v = space.Array2f(1, 3)
        v[v > 1] = v[v > 1] * 2
        assert (v.y if space is scalar else v.y[0]) == 6
        t = space.TensorXf(np.array([[1, 2], [3, 4]], np.float32))
        t[t > 2] = t[t > 2] * 10
        assert t.numpy().tolist() == [[1, 2], [30, 40]]

    @by_space
    def test_functions(self, space: Any) -> None:
        x, y = flat(space)(1, 4, 9), flat(space)(1, -2, 3)
        mask = x > 2
        x[mask] = dr.sqrt(x[mask])
        assert list(x) == [1, 2, 3]
        y[mask] = dr.fma(x[mask], abs(y[mask]), 1)
        assert list(y) == [1, 5, 10]
        sine, cosine = dr.sincos(x[mask])
        x[mask] = sine * sine + cosine * cosine
        assert dr.allclose(x, 1)
        for mistake in (bool, list, dr.sum, dr.max, lambda v: dr.any(v > 1)):
            with pytest.raises(ArrayTypeError, match="MaskedEntries"):
                mistake(x[mask])
        with pytest.raises(ArrayTypeError, match="meet those under another one"):
            dr.minimum(x[mask], y[y > 7])

    @by_space
    def test_they_are_those_when_they_are_read(self, space: Any) -> None:
        x, y = flat(space)(1, 2, 3, 4), flat(space)(10, 20, 30, 40)
        mask = x > 2
        x[mask], y[mask] = y[mask], x[mask]
        assert (list(x), list(y)) == ([1, 2, 30, 40], [10, 20, 3, 4])
        old = x[mask]
        x += 100
        x[0] = 7
        x[mask] = old + 1
        assert list(x) == [7, 102, 31, 41]
        old = x[mask]
        mask |= x == 7
        with pytest.raises(ArrayTypeError, match="meet those under another one"):
            x[mask] = old
        v = space.Array2f(1, 3)
        mask = v > 1
        old = v[mask]
        v[mask] = 0
        v[mask] = old
        assert dr.all(v == space.Array2f(1, 3))
        t = space.TensorXf(np.array([[1, 2], [3, 4]], np.float32))
        mask = t > 2
        old = t[mask]
        t[mask] = 0
        t[mask] = old * 2
        assert t.numpy().tolist() == [[1, 2], [6, 8]]

    @by_space
    def test_choices(self, space: Any) -> None:
        x = flat(space)(0.25, -3, dr.nan, 5)
        mask = dr.isnan(x) | (x < 1)
        x[mask] = dr.select(dr.isnan(x[mask]) | (x[mask] < 0), 7, x[mask] * 2)
        assert list(x) == [0.5, 7, 7, 5]
        x[mask] = dr.clip(x[mask], 1, 2)
        assert list(x) == [1, 2, 2, 5]
        x[x != 5] = dr.select(x[x != 5] == 1, 9, dr.power(x[x != 5], 3))
        assert list(x) == [9, 8, 8, 5]
        x[mask] = dr.select(mask, dr.step(8.5, x[mask]), x)
        assert list(x) == [0, 1, 1, 5]
        with pytest.raises(ArrayTypeError, match="invalid key of type 'MaskedEntries'"):
            x[x[mask] > 0] = 1
        with pytest.raises(ArrayTypeError, match="a function of whole arrays"):
            dr.tile(x[mask], 2)
        with pytest.raises(TypeError, match="unhashable"):
            hash(x[mask])

    def test_in_branches(self) -> None:
        def change(t: Any) -> Any:
            t = TensorXf(t)
            t[t > 2] = t[t > 2] * 2
            return t

        t = TensorXf(np.array([[1, 2], [3, 4]], np.float32))
        is_odd = Bool(True, False, True, False)
        found = dr.if_stmt((t,), is_odd, change, lambda t: t)
        assert found.numpy().tolist() == [[1, 2], [6, 4]]

    def test_gradients(self) -> None:
        x = llvm.ad.Float(1, 2, 3)
        dr.enable_grad(x)
        y = x * 1
        y[y > 1] = y[y > 1] * 3
        dr.backward(y)
        assert list(x.grad) == [1, 3, 3]

    @by_space
    def test_mistakes(self, space: Any) -> None:
        x = flat(space)(1, 2, 3)
        with pytest.raises(ArrayTypeError, match="meet those under another one"):
            x[x > 1] = x[x > 2] * 2
        with pytest.raises(ArrayTypeError, match="meet those under another one"):
            x[x > 1] + x[x > 2]
        with pytest.raises(AttributeError, match=r"use lumijit\.select"):
            x[x > 1].numpy()
        with pytest.raises(ArrayTypeError, match="MaskedEntries"):
            dr.sum(x[x > 1])


@by_space
def test_indices_of_other_libraries(space: Any) -> None:
    x = flat(space)(1, 2, 3)
    mask, index = ("ArrayXb", "ArrayXi") if space is scalar else ("Bool", "Int")
    for key in ([True, False, True], np.array([True, False, True])):
        with pytest.raises(ArrayTypeError, match=rf"here with {mask}\("):
            x[key] = 1
    for numbers in ([0, 1], np.array([0, 1])):
        with pytest.raises(ArrayTypeError, match=rf"here with {index}\("):
            x[numbers]


def test_errors_of_tensors_name_them() -> None:
    x = TensorXf(np.ones((3, 4), np.float32))
    with pytest.raises(ArrayTypeError, match=r"bool\(TensorXb\): .*shape \(3, 4\)"):
        bool(x > 0)
    assert not bool(dr.any(x > 1))


class TestLabels:
    def test_loops(self) -> None:
        state = (Float(1), UInt(0))
        functions = (lambda x, i: i < 2), (lambda x, i: (x, i + 1))
        for labels in (("a",), ("a", "b", "c")):
            with pytest.raises(
                SizeError, match=r"while_loop: there are \d labels for 2"
            ):
                dr.while_loop(state, *functions, labels=labels)

    def test_branches(self) -> None:
        args, mask = (Float(1), UInt(0)), Bool(True, False)
        for mode in ("symbolic", "evaluated"):
            with pytest.raises(SizeError, match="1 labels for 2 arguments"):
                dr.if_stmt(
                    args,
                    mask,
                    lambda x, i: x,
                    lambda x, i: x + 1,
                    arg_labels=("a",),
                    mode=mode,
                )
            with pytest.raises(SizeError, match="3 labels for 2 results"):
                dr.if_stmt(
                    args,
                    mask,
                    lambda x, i: (x, i),
                    lambda x, i: (x + 1, i),
                    rv_labels=("a", "b", "c"),
                    mode=mode,
                )


def test_numpy_arrays_and_lists_as_arguments() -> None:
    numbers: Any = np.arange(4, dtype="f")
    mask: Any = np.array([True, False, True, False])
    for value in (numbers, [0, 1, 2, 3]):
        found = dr.reshape(TensorXf, value, (2, 2))
        assert isinstance(found, TensorXf)
        assert found.numpy().tolist() == [[0, 1], [2, 3]]
    assert dr.reshape(llvm.Array2f, [1, 2, 3, 4], (2, 2)).shape == (2, 2)
    assert dr.any(mask) is True
    assert dr.all(mask) is False
    assert list(dr.select(mask, llvm.Float(1, 2, 3, 4), 0)) == [1, 0, 3, 0]
    is_chosen: Any = [True, False, True]
    chosen = dr.select(is_chosen, llvm.Array3f(1, 2, 3), 0)
    assert list(chosen) == [[1], [0], [3]]
