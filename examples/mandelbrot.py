"""The Mandelbrot set with smooth colours, four samples a pixel.

Two nested symbolic loops: over the samples of a pixel, and over the iterations
of a sample, which end at a different time in every lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import lumijit as dr
from examples.image import pixel_index, to_srgb
from lumijit.llvm import Array3f, Float, UInt32

TITLE = "mandelbrot"
SIZE = 1024
ASPECT = 1.0

Colour = tuple[float, float, float]


@dataclass
class Parameters:
    """The numbers of the picture."""

    center_x: float = -0.7468
    center_y: float = 0.105
    half_width: float = 0.0105
    iterations: int = 512
    density: float = 0.55
    phase: Colour = (0.58, 0.51, 0.41)


VARIANTS = (
    Parameters(),
    Parameters(center_x=-0.7453, center_y=0.1127, half_width=0.0065),
    Parameters(
        center_x=-0.16,
        center_y=1.0405,
        half_width=0.026,
        phase=(0.05, 0.18, 0.32),
    ),
)


@dr.syntax
def escape(cx: Float, cy: Float, iterations: int) -> Float:
    """Return after how many iterations, fractions included, a point escapes.

    Points that stay get 0. The fraction is `1 - log2(log2 |z|)`, which continues
    the count smoothly where |z| is well above 2.
    """
    x = Float(0)
    y = Float(0)
    i = UInt32(0)
    while (dr.fma(x, x, y * y) < 256) & (i < iterations):
        next_x = dr.fma(x, x, cx - y * y)
        y = dr.fma(2 * x, y, cy)
        x = next_x
        i += 1
    squared = dr.maximum(dr.fma(x, x, y * y), 256)
    smooth = i + 1 - dr.log2(0.5 * dr.log2(squared))
    return dr.select(i < iterations, smooth, 0)


def palette(count: Float, density: float, phase: Colour) -> Array3f:
    """Map an escape count to a linear colour; 0 is black."""
    t = density * dr.log2(count + 1)
    waves = Array3f(
        dr.cos(6.2831853 * (t + phase[0])),
        dr.cos(6.2831853 * (t + phase[1])),
        dr.cos(6.2831853 * (t + phase[2])),
    )
    colour = dr.fma(waves, 0.46, 0.5)
    colour *= colour
    colour[count <= 0] = 0
    return colour


@dr.syntax
def supersample(column: UInt32, row: UInt32, width: int, look: Parameters) -> Array3f:
    """Average the colours of 2 x 2 points in every pixel."""
    step = 2 * look.half_width / width
    left = look.center_x - look.half_width
    top = look.center_y + look.half_width
    colour = Array3f(0)
    k = UInt32(0)
    while k < 4:
        across = Float(column) + (0.5 * Float(k & 1) + 0.25)
        down = Float(row) + (0.5 * Float(k >> 1) + 0.25)
        count = escape(
            dr.fma(across, step, left),
            dr.fma(down, -step, top),
            look.iterations,
        )
        colour += palette(count, look.density, look.phase)
        k += 1
    return colour * 0.25


def render(width: int, height: int, look: Parameters) -> Float:
    """Trace the whole picture; nothing runs until the result is evaluated."""
    column, row = pixel_index(width, height)
    colour = supersample(column, row, width, look)
    return dr.ravel(to_srgb(colour))
