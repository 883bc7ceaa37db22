"""A rippled sphere, given as a signed distance function and sphere traced.

Follows the quickstart: a symbolic loop walks along every ray, finite
differences give the normals, and a masked assignment turns the rays that
missed into background.
"""

from __future__ import annotations

from dataclasses import dataclass

import lumijit as dr
from examples.image import to_srgb
from lumijit.llvm import Array3f, Float, UInt32

TITLE = "sdf_sphere"
SIZE = 1000
ASPECT = 1.0

# Rays this far from the sphere and moving away are not followed further.
ESCAPED = 8.0

Colour = tuple[float, float, float]


@dataclass
class Parameters:
    """The numbers of the picture."""

    radius: float = 0.92
    ripple_height: float = 0.028
    ripple_frequency: float = 16.0
    camera_distance: float = 2.6
    field_of_view: float = 0.49
    light: Colour = (-0.45, -0.65, -0.62)
    ambient: Colour = (0.006, 0.008, 0.020)
    diffuse: Colour = (0.08, 0.27, 0.60)
    rim: Colour = (1.30, 0.42, 0.12)


VARIANTS = (
    Parameters(),
    Parameters(radius=0.97, ripple_height=0.016, diffuse=(0.15, 0.52, 0.33)),
    Parameters(
        camera_distance=3.0,
        ripple_frequency=11.0,
        light=(0.5, -0.62, -0.58),
        diffuse=(0.62, 0.20, 0.28),
        rim=(0.30, 0.55, 0.95),
    ),
)


def sdf(p: Array3f, look: Parameters) -> Float:
    """Return the (slightly underestimated) distance to the rippled sphere."""
    f = look.ripple_frequency
    ripples = dr.sin(f * p.x) * dr.sin(f * p.y) * dr.sin(f * p.z)
    return dr.norm(p) - look.radius - look.ripple_height * ripples


@dr.syntax
def trace(o: Array3f, d: Array3f, look: Parameters, steps: int = 48) -> Array3f:
    """Walk along each ray until it touches the surface, or for `steps` steps."""
    i = UInt32(0)
    distance = sdf(o, look)
    while (i < steps) & (distance > 1e-4) & (distance < ESCAPED):
        o = dr.fma(d, 0.9 * distance, o)
        distance = sdf(o, look)
        i += 1
    return o


def normal(p: Array3f, look: Parameters, eps: float = 1e-3) -> Array3f:
    """Estimate the surface normal by central differences."""
    n = Array3f(
        sdf(p + [eps, 0, 0], look) - sdf(p - [eps, 0, 0], look),
        sdf(p + [0, eps, 0], look) - sdf(p - [0, eps, 0], look),
        sdf(p + [0, 0, eps], look) - sdf(p - [0, 0, eps], look),
    )
    return dr.normalize(n)


def render(width: int, height: int, look: Parameters) -> Float:
    """Trace the whole picture; nothing runs until the result is evaluated."""
    x = dr.linspace(Float, -1, 1, width)
    y = dr.linspace(Float, -1, 1, height)
    x, y = dr.meshgrid(x, y)
    fov = look.field_of_view
    d = dr.normalize(Array3f(fov * x, fov * y, 1))
    p = trace(Array3f(0, 0, -look.camera_distance), d, look)

    n = normal(p, look)
    towards_light = dr.normalize(Array3f(*look.light))
    facing = -dr.dot(n, d)
    rim = dr.power(dr.clip(1 - facing, 0, 1), 3)
    diffuse = dr.maximum(0, dr.dot(n, towards_light))
    halfway = dr.normalize(towards_light - d)
    highlight = dr.power(dr.maximum(0, dr.dot(n, halfway)), 60)

    missed = sdf(p, look) > 0.1
    diffuse[missed] = 0
    highlight[missed] = 0
    rim[missed] = 0

    glow = dr.exp(-1.6 * (x * x + y * y))
    image = Array3f(*look.ambient) * (1 + 2.5 * glow)
    image += Array3f(*look.diffuse) * diffuse + 0.35 * highlight
    image += Array3f(*look.rim) * rim * 0.45
    return dr.ravel(to_srgb(dr.clip(image, 0, 1)))
