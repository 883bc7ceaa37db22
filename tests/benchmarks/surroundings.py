"""What tracing a loop takes by what its body finds outside, beside the peer's time.

    python -m tests.benchmarks.surroundings [--peer PYTHON] [--above RATIO]

What is outside are global variables, as the peer decorates no functions with others
around. Traced only. Microseconds, the best of many rounds; the worst ratio comes first.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.beside import compare

SIZE = 1024


@dataclass
class Settings:
    """Numbers that a program reads."""

    scale: float = 2.0
    count: int = 4


@dataclass
class Sphere:
    """A tree with a method."""

    center: Any
    radius: Any

    def distance(self, p: Any) -> Any:
        """Return the signed distance of a point."""
        return dr.norm(p - self.center) - self.radius


class Scene:
    """No tree: it has a list of trees."""

    def __init__(self, spheres: list[Sphere]) -> None:
        self.spheres = spheres

    def distance(self, p: Any) -> Any:
        """Return the signed distance of a point."""
        found = self.spheres[0].distance(p)
        for sphere in self.spheres[1:]:
            found = dr.minimum(found, sphere.distance(p))
        return found


class Sampler:
    """An object that changes when it is called."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def next(self) -> Any:
        """Return the next number."""
        return self.rng.next_float32()


NUMBER = 2.0
# Of the library that is measured.
dr: Any
Float: Any
UInt: Any
Array2f: Any
Array3f: Any
PCG32: Any
table: Any
texture: Any
settings = Settings()
spheres: list[Sphere]
scene: Scene


def squared(x: Any) -> Any:
    """Return a product."""
    return x * x


def nothing(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x * x + 1
        i += 1
    return x


def a_number(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x * NUMBER + 1
        i += 1
    return x


def a_module(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x * math.pi + 1
        i += 1
    return x


def a_function(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = squared(x) + 1
        i += 1
    return x


def an_entry(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x + table[i]
        i += 1
    return x


def a_gather(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x + dr.gather(Float, table, i)
        i += 1
    return x


def a_setting(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x * settings.scale + 1
        i += 1
    return x


def a_texture(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x + texture.eval(Array2f(x, x))[0]
        i += 1
    return x


def a_struct(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x + spheres[0].distance(Array3f(x, 0, 0)) * 0.1
        i += 1
    return x


def an_object(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        x = x + scene.distance(Array3f(x, 0, 0)) * 0.1
        i += 1
    return x


def structs_in_a_list(x: Any) -> Any:
    i = UInt(0)
    while i < 10:
        for sphere in spheres:
            x = x + sphere.distance(Array3f(x, 0, 0)) * 0.1
        i += 1
    return x


def a_sampler(x: Any) -> Any:
    i, sampler = UInt(0), Sampler(PCG32(size=SIZE))
    while i < 10:
        x = x + sampler.next()
        i += 1
    return x


FUNCTIONS = (
    nothing,
    a_number,
    a_module,
    a_function,
    an_entry,
    a_gather,
    a_setting,
    a_texture,
    a_struct,
    an_object,
    structs_in_a_list,
    a_sampler,
)


def programs(module: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the programs, by name."""
    global dr, Float, UInt, Array2f, Array3f, PCG32, table, texture, spheres, scene
    dr = importlib.import_module(module)
    types: Any = importlib.import_module(f"{module}.llvm.ad")
    Float, UInt, Array2f = types.Float, types.UInt, types.Array2f
    Array3f, PCG32 = types.Array3f, types.PCG32
    x = dr.arange(Float, SIZE) / SIZE
    table = dr.arange(Float, 16) + 1
    dr.eval(x, table)
    spheres = [Sphere(Array3f(k, 0, 1), Float(1)) for k in range(4)]
    scene = Scene(spheres)
    texels = types.TensorXf(np.ones((8, 8, 3), dtype=np.float32))
    texture = types.Texture2f(texels)
    for function in FUNCTIONS:
        yield function.__name__, partial(dr.syntax(function), x)


if __name__ == "__main__":
    compare(__doc__, __file__, programs, sys.argv[1:], round_of=20)
