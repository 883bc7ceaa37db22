"""`@kernel`: how arguments are passed, and how long they live."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import lumijit as dr
from lumijit.llvm.ad import Array2f, Float, TensorXf, UInt
from tests.dsl.replay.support import assert_equal


def test_keywords_with_names_of_parameters_that_have_none_for_callers() -> None:
    def plain(a: Float, b: float = 2, /, **others: float) -> Float:
        return a * b + sum(others.values())

    f, x = dr.kernel(plain), Float(1, 2)
    for _ in range(2):
        assert_equal(f(x, 5), Float(5, 10))
        assert_equal(f(x, b=9), Float(11, 13))
        assert_equal(f(x, 5, b=9), Float(14, 19))
    assert f.n_recordings == 3


def test_parameters_without_names_are_not_named() -> None:
    def plain(a: Float, b: float = 2, /) -> Float:
        return a * b

    f: Any = dr.kernel(plain)
    x = Float(1, 2)
    assert_equal(f(x, 5), Float(5, 10))
    with pytest.raises(TypeError, match="positional-only"):
        f(x, b=9)


def test_keywords_may_have_any_name() -> None:
    @dr.kernel
    def f(self: Float, args: float = 1, kwargs: float = 1) -> Float:
        return self * args * kwargs

    @dr.kernel
    def g(**given: Any) -> Any:
        return given["self"] * given["function"]

    for k in range(2):
        assert_equal(f(self=Float(2), args=3, kwargs=k), Float(6 * k))
        assert_equal(g(self=Float(2), function=k), Float(2 * k))
    assert f.n_recordings == g.n_recordings == 1


class Scene:
    def __init__(self, value: float) -> None:
        self.value = Float(value, value) + 0
        self.parts = [self.value * 2]
        self.count = 0

    @dr.kernel
    def drawn(self, x: Float) -> Float:
        self.count += 1
        return self.value * x + self.parts[0]


@dr.kernel
def drawn_twice(first: Scene, second: Scene, x: Float) -> Float:
    first.count += 1
    return first.value * x + second.value


def test_objects_are_not_kept_alive() -> None:
    def calls(n: int) -> list[Any]:
        found = []
        for k in range(n):
            scene, other = Scene(k), Scene(k + 1)
            found += [weakref.ref(scene), weakref.ref(other)]
            for m in range(3):
                assert_equal(scene.drawn(Float(m)), Float(k * (m + 2), k * (m + 2)))
            x = Float(1)
            assert_equal(drawn_twice(scene, other, x), Float(2 * k + 1, 2 * k + 1))
            assert_equal(drawn_twice(scene, scene, x), Float(2 * k, 2 * k))
            assert scene.count == 5
        return found

    before = Scene.drawn.n_recordings
    found = calls(20)
    gc.collect()
    assert sum(r() is not None for r in found) <= 2
    assert Scene.drawn.n_recordings <= before + 1


def test_what_is_known_of_objects_stays_while_they_live() -> None:
    scenes = [Scene(k) for k in range(5)]
    for _ in range(2):
        for scene in scenes:
            scene.drawn(Float(1))
    looks = len(Scene.drawn._surroundings)
    known = list(Scene.drawn._surroundings.values())[-5:]
    for scene in scenes:
        scene.drawn(Float(1))
        del scene
    assert len(Scene.drawn._surroundings) == looks
    assert list(Scene.drawn._surroundings.values())[-5:] == known
    del scenes
    Scene(7).drawn(Float(1))
    assert len(Scene.drawn._surroundings) == looks - 4


def test_classes_and_what_their_methods_recorded_are_not_kept_alive() -> None:
    def made() -> list[weakref.ref[Any]]:
        class Film:
            def __init__(self) -> None:
                self.sums = Float(0, 0) + 0

            @dr.kernel
            def add(self, x: Float) -> Float:
                self.sums = self.sums + x
                return self.sums

        film = Film()
        for k in range(3):
            film.add(Float(k, k + 1))
        return [weakref.ref(film), weakref.ref(Film)]

    found = made() + made()
    gc.collect()
    assert [r() for r in found] == [None] * 4


def test_networks_are_told_by_their_settings() -> None:
    nn = dr.nn
    x = Float(-1, 2)

    def plain(net: Any, x: Float) -> list[Float]:
        return [Float(v) for v in net(nn.CoopVec(x, x + 1))]

    f = dr.kernel(plain)

    def made(slope: float, octaves: int) -> Any:
        layers = nn.TriEncode(octaves), nn.Linear(-1, 2), nn.LeakyReLU(slope)
        return nn.pack(nn.Sequential(*layers).alloc(TensorXf, 2), layout="training")

    nets = [made(0.5, 2), made(0.25, 2), made(0.5, 1), made(0.5, 2)]
    for net in nets * 2:
        for found, expected in zip(f(net, x), plain(net, x), strict=True):
            assert_equal(found, expected)
    assert f.n_recordings == 2


def test_vectors_views_and_grids_as_arguments() -> None:
    nn = dr.nn
    x = Float(0.1, 0.2)

    @dr.kernel
    def multiplied(matrix: Any, v: Any) -> list[Float]:
        return [Float(v) for v in nn.matvec(matrix, v)]

    for columns in (2, 3, 2):
        entries = dr.arange(TensorXf, 6).array if columns == 3 else Float(1, 2, 3, 4)
        view = nn.view(TensorXf(entries, (2, columns)))
        first, second = multiplied(view, nn.CoopVec(*[x] * columns))
        rows = entries.numpy().reshape(2, columns).sum(1)
        assert dr.allclose(first, x * float(rows[0]))
        assert dr.allclose(second, x * float(rows[1]))
    assert multiplied.n_recordings == 2

    def plain(grid: Any, x: Float) -> list[Float]:
        return [Float(v) for v in grid(Array2f(x, 0.5))]

    looked_up = dr.kernel(plain)
    for resolution in (4, 5, 4):
        grid = dr.hashgrid.HashGridEncoding(
            Float, 2, n_levels=2, base_resolution=resolution
        )
        expected = plain(grid, x)
        for k in range(2):
            assert dr.allclose(looked_up(grid, x)[k], expected[k])
    assert looked_up.n_recordings == 2


class Attributes(dict[str, Any]):
    """A dictionary whose entries are attributes, too; it raises KeyError for others."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Vague:
    """It has any attribute."""

    def __getattr__(self, name: str) -> Any:
        return Vague()

    def __call__(self, *args: Any) -> Any:
        return Vague()


def test_objects_with_attributes_of_their_own_making() -> None:
    config: Any = Attributes(factor=2.0, w=Float(1, 2), any=Vague())

    @dr.kernel
    def f(config: Any, x: Float) -> Float:
        return x * config.factor + config.w

    @dr.syntax
    def looped(config: Any, n: UInt) -> Float:
        i = UInt(0)
        while i < n:
            config.w = config.w + config.factor
            i += 1
        return config.w

    for factor in (2.0, 3.0):
        config.factor = factor
        assert_equal(f(config, Float(1, 2)), Float(1 + factor, 2 + 2 * factor))
    assert_equal(looped(config, UInt(0, 2)), Float(1, 8))
    copied: Any = dr.copy(config)
    dr.eval(copied, config)
    assert type(copied) is Attributes
    assert copied["any"] is config["any"]


class Declared:
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"a": Float}

    def __init__(self) -> None:
        self.a = Float(1, 2)


@dataclass
class Record:
    a: Float


@pytest.mark.parametrize("made", [Declared, lambda: Record(Float(1, 2))])
def test_attributes_besides_the_fields_tell_structs_apart(made: Any) -> None:
    @dr.kernel
    def f(values: list[Any]) -> Float:
        return values[0].a * getattr(values[0], "mode", 1)

    struct, other = made(), made()
    assert_equal(f([struct, other]), Float(1, 2))
    for mode in (2, 5, 2.5, 2):
        struct.mode = mode
        struct.a = Float(1, 3)
        assert_equal(f([struct, other]), Float(mode, 3 * mode))
    assert f.n_recordings == 4


def test_equal_keys_of_other_types_are_other_keys() -> None:
    def names(x: Float, d: dict[Any, int]) -> tuple[Float, list[str]]:
        return x * 2, [type(key).__name__ for key in d]

    kernel = dr.kernel(names)
    for d in ({1: 2}, {1.0: 2}, {True: 2}, {1: 2}):
        assert kernel(Float(1), d)[1] == names(Float(1), d)[1]
