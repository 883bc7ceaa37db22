"""Instance arrays: plain Python classes called per element."""

from __future__ import annotations

import gc
import pickle
import re
from typing import Any

import numpy as np
import pytest

import lumijit as lj
import lumijit.llvm.ad
import lumijit.scalar
from lumijit.instance_registry import SLOT_BITS
from lumijit.llvm import Array2f, Bool, Float, UInt32
from lumijit.runtime import tracebacks
from lumijit.runtime.errors import (
    ArrayAttributeError,
    ArrayTypeError,
    ArrayValueError,
    StateError,
)

MODES = ("symbolic", "evaluated")


class Material:
    """The interface."""

    albedo: Float

    def eval(self, cos_theta: Any, active: Any = True) -> Any:
        """Return the reflected part."""
        raise NotImplementedError

    def sample(self, u: Any) -> Any:
        raise NotImplementedError

    @property
    def is_rough(self) -> Any:
        """Whether it scatters."""
        return Bool(False)


class Diffuse(Material):
    def __init__(self, albedo: float) -> None:
        self.albedo = Float(albedo)

    def eval(self, cos_theta: Any, active: Any = True) -> Any:
        return self.albedo * cos_theta

    def sample(self, u: Any) -> Any:
        return {"wo": Array2f(u, self.albedo), "pdf": Float(1)}

    @property
    def is_rough(self) -> Any:
        return Bool(True)


class Textured(Material):
    def __init__(self, texels: list[float]) -> None:
        self.texels = Float(texels)
        self.albedo = Float(1)

    def eval(self, cos_theta: Any, active: Any = True) -> Any:
        count = len(self.texels)
        position = UInt32(cos_theta * count)
        return lj.gather(Float, self.texels, lj.minimum(position, count - 1))

    def sample(self, u: Any) -> Any:
        return {"wo": Array2f(-u, u), "pdf": u}


MaterialPtr = lj.instance_array_t(Float, Material)


def reference(materials: list[Any], index: Any, x: Any, active: Any) -> list[float]:
    found = []
    for k, value, is_active in zip(index, x, active, strict=True):
        material = materials[k]
        if material is None or not is_active:
            found.append(0.0)
        elif isinstance(material, Diffuse):
            found.append(np.float32(material.albedo[0]) * np.float32(value))
        else:
            texels = list(material.texels)
            place = min(int(np.float32(value) * len(texels)), len(texels) - 1)
            found.append(texels[place])
    return found


@pytest.fixture
def materials() -> list[Any]:
    plain = [Diffuse(0.25), Textured([1, 2, 3]), None, Diffuse(0.5), Diffuse(3)]
    return [*plain, Textured([4, 5, 6, 7, 8])]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [0, 1, 3, 17, 1000])
def test_methods(materials: list[Any], mode: str, size: int) -> None:
    rng = np.random.default_rng(size)
    index = rng.integers(0, len(materials), size).astype(np.uint32)
    x = rng.random(size, dtype=np.float32)
    mask = rng.random(size) < 0.7
    table = MaterialPtr(materials)
    array = lj.gather(MaterialPtr, table, UInt32(index))
    with lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, mode == "symbolic"):
        result = array.eval(Float(x), Bool(mask))
        named = array.eval(cos_theta=Float(x), active=Bool(mask))
    expected = reference(materials, index, x, mask)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(result.numpy(), named.numpy())


@pytest.mark.parametrize("mode", MODES)
def test_attributes_and_trees(materials: list[Any], mode: str) -> None:
    array = MaterialPtr(materials)
    with lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, mode == "symbolic"):
        assert list(array.albedo) == [0.25, 1, 0, 0.5, 3, 1]
        assert list(array.is_rough) == [True, False, False, True, True, False]
        found = array.sample(Float(1, 2, 3, 4, 5, 6))
    assert list(found["pdf"]) == [1, 2, 0, 1, 1, 6]
    assert list(found["wo"].x) == [1, -2, 0, 4, 5, -6]
    assert list(found["wo"].y) == [0.25, 2, 0, 0.5, 3, 6]


def test_documentation_of_methods() -> None:
    assert MaterialPtr.eval.__doc__ == "Return the reflected part."
    assert MaterialPtr.is_rough.__doc__ == "Whether it scatters."
    assert MaterialPtr.__name__ == "MaterialPtr"


def test_one_type_per_backend_and_class() -> None:
    assert lj.instance_array_t(Float(1), Material) is MaterialPtr
    with_ad = lj.instance_array_t(lumijit.llvm.ad.Float, Material)
    assert with_ad is not MaterialPtr
    assert lj.detached_t(with_ad) is MaterialPtr
    assert lj.mask_t(MaterialPtr) is Bool
    assert lj.uint32_array_t(MaterialPtr) is UInt32


def test_entries(materials: list[Any]) -> None:
    array = MaterialPtr(materials)
    assert list(array) == materials
    assert array[1] is materials[1]
    assert array[2] is None
    assert list(array[1:3]) == materials[1:3]
    assert len(array) == 6
    assert list(MaterialPtr(materials[0])) == [materials[0]]
    assert list(MaterialPtr(None)) == [None]
    assert list(MaterialPtr([])) == []
    assert list(MaterialPtr(*materials)) == materials
    assert repr(materials[0]) in repr(array)
    assert "None" in repr(array)


def test_comparison_and_selection(materials: list[Any]) -> None:
    array = MaterialPtr(materials)
    assert list(array == None) == [m is None for m in materials]  # noqa: E711
    assert list(array != materials[3]) == [m is not materials[3] for m in materials]
    assert list(array == MaterialPtr(materials[3]))[3]
    chosen = lj.select(array == materials[0], materials[1], array)
    assert list(chosen) == [materials[1], *materials[1:]]
    chosen[Bool([True] + [False] * 5)] = None
    assert chosen[0] is None
    assert list(lj.zeros(MaterialPtr, 2)) == [None, None]
    assert list(lj.full(MaterialPtr, materials[1], 2)) == [materials[1]] * 2
    assert list(lj.opaque(MaterialPtr, materials[1], 2)) == [materials[1]] * 2


def test_arrays_travel_through_control_flow(materials: list[Any]) -> None:
    table = MaterialPtr(materials)

    @lj.syntax
    def walk(array: Any, i: Any) -> Any:
        total = Float(0)
        while i < 6:
            if array != None:  # noqa: E711
                total += array.eval(Float(0.5))
            i += 1
            array = lj.gather(MaterialPtr, table, i, i < 6)
        return total

    for flag in (True, False):
        with (
            lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, flag),
            lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, flag),
            lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, flag),
        ):
            start = UInt32(0, 3, 5)
            found = walk(lj.gather(MaterialPtr, table, start), start)
            np.testing.assert_allclose(found.numpy(), [9.875, 7.75, 6], rtol=1e-6)


def test_dispatch(materials: list[Any]) -> None:
    calls = []

    def both(material: Any, x: Any) -> Any:
        calls.append(material)
        return material.albedo + x, material.eval(x)

    array = lj.gather(MaterialPtr, MaterialPtr(materials), lj.arange(UInt32, 60) % 6)
    first, second = lj.dispatch(array, both, Float(0.5))
    assert list(first)[:6] == [0.75, 1.5, 0, 1, 3.5, 1.5]
    assert list(second)[:6] == [0.125, 2, 0, 0.25, 1.5, 6]
    mine = [m for m in calls if any(m is n for n in materials)]
    assert len(mine) == 5
    assert lj.dispatch(materials[0], both, Float(1))[0][0] == 1.25


def test_instances_come_and_go() -> None:
    class Shape:
        size: Any

        def __init__(self, size: float) -> None:
            self.size = size

    ShapePtr = lj.instance_array_t(Float, Shape)
    kept, lost = Shape(1.0), Shape(2.0)
    array = ShapePtr([kept, lost])
    assert list(array.size) == [1, 2]
    del lost
    gc.collect()
    assert list(array) == [kept, None]
    assert list(array.size) == [1, 0]
    later = Shape(3.0)
    newer = ShapePtr(later)
    # The slot serves again, under another number.
    number = lj.reinterpret_array(UInt32, newer)[0]
    assert number == 2 | 1 << SLOT_BITS
    assert list(array.size) == [1, 0]
    assert list(newer.size) == [3]
    for mode in MODES:
        both = lj.gather(ShapePtr, ShapePtr([later, None, kept]), UInt32(0, 1, 2, 0))
        found = lj.dispatch(both, lambda s: s.size, mode=mode)
        assert list(found) == [3, 0, 1, 3]


def test_new_objects_keep_their_order() -> None:
    """Whatever was freed before, and in which order: kernels depend on it."""

    class Lamp:
        pass

    LampPtr = lj.instance_array_t(Float, Lamp)
    old = [Lamp() for _ in range(6)]
    LampPtr(old)
    for k in (4, 0, 3, 1):
        old[k] = Lamp()
    del old
    gc.collect()
    new = [Lamp() for _ in range(8)]
    numbers = lj.reinterpret_array(UInt32, LampPtr(new)).numpy() & (1 << SLOT_BITS) - 1
    assert numbers.tolist() == sorted(numbers.tolist())


def test_many_generations() -> None:
    class Light:
        power: Any = 1.0

    LightPtr = lj.instance_array_t(Float, Light)
    old = [LightPtr(Light()) for _ in range(3)]
    gc.collect()
    for _ in range(5000):
        LightPtr(Light())
    assert LightPtr._domain.limit < 100
    last = Light()
    assert list(LightPtr([last, None]).power) == [1, 0]
    assert [list(array.power) for array in old] == [[0]] * 3


def test_no_instance_is_alive() -> None:
    class Nobody:
        value: Any

    NobodyPtr = lj.instance_array_t(Float, Nobody)
    pattern = (
        r"Nobody\.value: no instance of 'Nobody' that was put .*Fix: make an array"
    )
    with pytest.raises(ArrayValueError, match=pattern):
        _ = NobodyPtr(None).value


@pytest.mark.parametrize("space", [lj.llvm, lj.llvm.ad])
def test_what_a_base_class_is_given_later(space: Any) -> None:
    class Node:
        pass

    class Matrix(Node):
        gain = 3

        def apply(self, x: Any) -> Any:
            return x * 2

    NodePtr = lj.instance_array_t(space.Float, Node)
    matrix = Matrix()
    array: Any = NodePtr([matrix, None])
    with pytest.raises(ArrayAttributeError, match=r"no attribute 'apply' \(it has: no"):
        array.apply(space.Float(1))
    Node.apply = lambda self, x: x  # type: ignore[attr-defined]
    Node.gain = 1  # type: ignore[attr-defined]
    assert list(array.apply(space.Float(1, 2))) == [2, 0]
    assert list(NodePtr(array).gain) == [3, 0]
    with pytest.raises(ArrayAttributeError, match=r"'other' \(it has: apply, gain\)"):
        _ = array.other


def test_scalar_namespace(materials: list[Any]) -> None:
    ScalarPtr = lj.instance_array_t(lumijit.scalar.Array3f, Material)
    assert ScalarPtr(materials[0]) is materials[0]
    assert ScalarPtr(None) is None
    assert lj.zeros(ScalarPtr) is None
    assert lj.full(ScalarPtr, materials[0]) is materials[0]
    assert lj.instance_array_t(float, Material) is ScalarPtr
    with pytest.raises(ArrayTypeError, match=r"MaterialPtr: an object of type 'int'"):
        ScalarPtr(3)


def test_mistakes(materials: list[Any]) -> None:
    array = MaterialPtr(materials)
    here = re.escape(__file__)
    pattern = rf"^{here}:\d+ .*'str' is no instance of 'Material'.*Fix: derive"
    with pytest.raises(ArrayTypeError, match=pattern):
        MaterialPtr(["wood"])
    with pytest.raises(ArrayTypeError, match=r"can't be made from 'Float'.*Fix: pass"):
        MaterialPtr(Float(1))
    pattern = r"MaterialPtr\.colour: .*has no attribute 'colour' \(it has: albedo, eval"
    with pytest.raises(ArrayAttributeError, match=pattern):
        _ = array.colour
    with pytest.raises(TypeError, match="unsupported operand"):
        array + 1
    pattern = r"can't be combined with 'Float'.*Fix: combine it with instances, None"
    with pytest.raises(ArrayTypeError, match=pattern):
        lj.select(array == None, array, Float(1))  # noqa: E711
    with pytest.raises(ArrayTypeError, match=r"aren't part of it.*pickle list"):
        pickle.dumps(array)
    with pytest.raises(ArrayTypeError, match=r"the base is of type 'int'.*Fix: pass"):
        lj.instance_array_t(Float, 3)  # type: ignore[arg-type]
    with pytest.raises(ArrayTypeError, match=r"dispatch: the array is of type 'Float'"):
        lj.dispatch(Float(1), lambda x: x)
    with pytest.raises(ArrayTypeError, match=r"the target is of type 'int' \(expected"):
        lj.dispatch(array, 3)  # type: ignore[arg-type]
    with pytest.raises(ArrayValueError, match=r"dispatch: unknown mode 'fast'"):
        lj.dispatch(array, lambda m: 1, mode="fast")


def test_names_that_arrays_use() -> None:
    class Shape:
        shape: Any

    with pytest.raises(ArrayTypeError, match=r"'Shape' declares 'shape', which is"):
        lj.instance_array_t(Float, Shape)


def test_objects_without_weak_references() -> None:
    class Slim:
        __slots__ = ("size",)

    with pytest.raises(ArrayTypeError, match=r"can't be referred to weakly.*__weakref"):
        lj.instance_array_t(Float, Slim)(Slim())


@pytest.mark.parametrize("mode", MODES)
def test_methods_that_disagree(mode: str) -> None:
    class Odd:
        def get(self) -> Any:
            raise NotImplementedError

    class First(Odd):
        def get(self) -> Any:
            return Float(1)

    class Second(Odd):
        def get(self) -> Any:
            return UInt32(1)

    OddPtr = lj.instance_array_t(Float, Odd)
    objects = [First(), Second()]
    pattern = r"Odd\.get: the callables disagree on 'result' \(First\.get gives"
    flag = lj.scoped_set_flag(lj.JitFlag.SymbolicCalls, mode == "symbolic")
    with flag, pytest.raises(StateError, match=pattern):
        OddPtr(objects).get()


def test_mistakes_in_methods_show_the_lines_of_the_program() -> None:
    class Lamp:
        def power(self, x: Any) -> Any:
            return x.colour

        @property
        def size(self) -> Any:
            return getattr(Float(1), "colour")  # noqa: B009  (there is none)

    lamp = Lamp()
    lamps = lj.instance_array_t(Float, Lamp)([lamp, lamp])
    match = r"test_instances.py:\d+ in (power|size): Float\.colour: .*no attribute"
    for use in (lambda: lamps.power(Float(1, 2)), lambda: lamps.size):
        with pytest.raises(ArrayAttributeError, match=match) as caught:
            use()
        files = {str(entry.path) for entry in caught.traceback}
        # (Python 3.10 shows the frame that takes the others out.)
        assert files - {tracebacks.__file__} == {__file__}
