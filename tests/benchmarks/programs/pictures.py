"""The gallery's pictures, at a quarter of their width."""

from __future__ import annotations

from typing import Any

from examples import ambient_occlusion, quickstart, sdf_sphere
from examples import mandelbrot as mandelbrot_picture
from tests.benchmarks.declare import Program, case


def picture(module: Any, entries: int) -> Program:
    """Return a program that traces a picture of about as many pixels."""
    width = max(4, round((entries * module.ASPECT) ** 0.5))
    height = max(1, round(width / module.ASPECT))
    return lambda: module.render(width, height, module.VARIANTS[0])


@case("pictures", 250 * 250, tiny=16, rtol=1e-2, strays=1e-2)
def picture_quickstart(n: int) -> Program:
    """A sphere traced in ten steps, shaded by differences."""
    return picture(quickstart, n)


@case("pictures", 250 * 250, tiny=16, rtol=1e-2, strays=1e-2)
def picture_sdf(n: int) -> Program:
    """A rippled sphere, by its distance function."""
    return picture(sdf_sphere, n)


@case("pictures", 250 * 250, tiny=16, rtol=1e-2, strays=2e-2)
def picture_mandelbrot(n: int) -> Program:
    """Smooth colours of the Mandelbrot set."""
    return picture(mandelbrot_picture, n)


@case("pictures", 100 * 100, tiny=16, rtol=5e-2, strays=2e-2)
def picture_occlusion(n: int) -> Program:
    """Ambient occlusion, with random directions."""
    return picture(ambient_occlusion, n)
