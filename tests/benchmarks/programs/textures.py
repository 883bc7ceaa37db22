"""Lookups in textures: linear and cubic, in two and three dimensions."""

from __future__ import annotations

from typing import Any

import lumijit as dr
from lumijit.llvm import (
    PCG32,
    Array2f,
    Array3f,
    TensorXf,
    Texture2f,
    Texture3f,
)
from tests.benchmarks.declare import Program, case, ready

M = 1 << 20


def noise(*shape: int) -> TensorXf:
    """Return random texels, in memory."""
    size = 1
    for n in shape:
        size *= n
    return TensorXf(ready(PCG32(size=size).next_float32()), shape=shape)


def places(kind: Any, n: int) -> Any:
    """Return random positions in the unit interval or cube, in memory."""
    rng = PCG32(size=n)
    return kind(*[ready(rng.next_float32()) for _ in range(dr.size_v(kind))])


@case("textures", M)
def texture_rgb(n: int) -> Program:
    """Linear lookups in a picture of 512 x 512 with three channels."""
    texture, pos = Texture2f(noise(512, 512, 3)), places(Array2f, n)
    return lambda: list(texture.eval(pos))


@case("textures", M)
def texture_tiled(n: int) -> Program:
    """Linear lookups in a picture with four channels that repeats itself."""
    texture = Texture2f(noise(256, 256, 4), wrap_mode=dr.WrapMode.Repeat)
    pos = places(Array2f, n)
    return lambda: list(texture.eval(pos * 3 - 1))


@case("textures", M)
def texture_volume(n: int) -> Program:
    """Linear lookups in a volume of 64 x 64 x 64 with one channel."""
    texture, pos = Texture3f(noise(64, 64, 64, 1)), places(Array3f, n)
    return lambda: texture.eval(pos)[0]


@case("textures", M // 4)
def texture_tricubic(n: int) -> Program:
    """Cubic lookups in a volume of 64 x 64 x 64 with one channel."""
    texture, pos = Texture3f(noise(64, 64, 64, 1)), places(Array3f, n)
    return lambda: texture.eval_cubic(pos)[0]
