"""Monte Carlo ambient occlusion: solids on a plane, lit by the sky alone.

Each pixel takes 64 samples: for 4 points in the pixel a camera ray is sphere
traced, and from what it hits 16 directions are drawn, denser around the normal
(cosine-distributed), each sphere traced in turn; what escapes brings the sky's
light. Three levels of symbolic loops, one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import lumijit as dr
from examples.image import filmic, pixel_index, to_srgb
from lumijit.llvm import PCG32, Array3f, Bool, Float, UInt32

TITLE = "ambient_occlusion"
SIZE = 720
ASPECT = 1.5

CAMERA_RAYS = 4
SKY_RAYS = 16

Colour = tuple[float, float, float]


@dataclass
class Parameters:
    """The numbers of the picture."""

    camera: Colour = (-3.1, 2.35, -6.1)
    target: Colour = (-0.25, 0.58, 0.0)
    field_of_view: float = 0.245
    box_roundness: float = 0.13
    torus_radius: float = 0.78
    torus_thickness: float = 0.24
    blend: float = 0.38
    zenith: Colour = (0.71, 0.94, 1.33)
    horizon: Colour = (1.27, 1.11, 0.93)
    exposure: float = 1.07
    reach: float = 6.0


VARIANTS = (
    Parameters(),
    Parameters(camera=(2.6, 3.05, -6.2), blend=0.56, torus_thickness=0.31),
    Parameters(
        camera=(-4.6, 1.7, -4.8),
        zenith=(0.51, 0.53, 0.95),
        horizon=(1.71, 0.98, 0.63),
        box_roundness=0.23,
    ),
)


# The scene


def sphere(p: Array3f, x: float, y: float, z: float, radius: float) -> Float:
    """Return the distance to a sphere."""
    return dr.norm(p - Array3f(x, y, z)) - radius


def rounded_box(p: Array3f, half: Array3f, roundness: float) -> Float:
    """Return the distance to a box at the origin with rounded edges."""
    q = abs(p) - half + roundness
    outside = dr.norm(dr.maximum(q, 0))
    inside = dr.minimum(dr.maximum(q.x, dr.maximum(q.y, q.z)), 0)
    return outside + inside - roundness


def torus(p: Array3f, radius: float, thickness: float) -> Float:
    """Return the distance to a torus at the origin, lying flat."""
    ring = dr.sqrt(dr.fma(p.x, p.x, p.z * p.z)) - radius
    return dr.sqrt(dr.fma(ring, ring, p.y * p.y)) - thickness


def smooth_union(a: Float, b: Float, blend: float) -> Float:
    """Return the smaller distance, rounded off where both are about equal."""
    h = dr.maximum(blend - abs(a - b), 0) / blend
    return dr.minimum(a, b) - h * h * (0.25 * blend)


def solids(p: Array3f, look: Parameters) -> tuple[Float, Float, Float]:
    """Return the distances to the box, to the torus with its ball, to the drops."""
    # The box is turned by 35 degrees about the vertical axis.
    turned = Array3f(
        0.819 * p.x + 0.574 * p.z - 1.42,
        p.y - 0.62,
        0.819 * p.z - 0.574 * p.x - 0.85,
    )
    box = rounded_box(turned, Array3f(0.62, 0.62, 0.62), look.box_roundness)
    ring = torus(
        p - Array3f(-0.35, look.torus_thickness, -0.75),
        look.torus_radius,
        look.torus_thickness,
    )
    ring = dr.minimum(ring, sphere(p, -0.35, 0.42, -0.75, 0.42))
    drops = smooth_union(
        sphere(p, -1.45, 0.72, 0.85, 0.72),
        sphere(p, -0.62, 1.35, 1.05, 0.46),
        look.blend,
    )
    drops = smooth_union(drops, sphere(p, -2.35, 0.34, 0.25, 0.34), look.blend)
    return box, ring, drops


def scene(p: Array3f, look: Parameters) -> Float:
    """Return the distance to the nearest surface, the ground included."""
    box, ring, drops = solids(p, look)
    return dr.minimum(dr.minimum(p.y, box), dr.minimum(ring, drops))


def albedo(p: Array3f, look: Parameters) -> Array3f:
    """Return the colour of the surface that `p` lies on."""
    box, ring, drops = solids(p, look)
    nearest = dr.minimum(dr.minimum(p.y, box), dr.minimum(ring, drops))
    colour = Array3f(0.62, 0.56, 0.50)
    colour[nearest == box] = Array3f(0.85, 0.16, 0.03)
    colour[nearest == ring] = Array3f(0.02, 0.24, 0.40)
    colour[nearest == drops] = Array3f(0.90, 0.60, 0.12)
    return colour


def normal(p: Array3f, look: Parameters, eps: float = 1e-3) -> Array3f:
    """Estimate the surface normal from the corners of a small tetrahedron."""
    a = scene(p + [eps, -eps, -eps], look)
    b = scene(p + [-eps, -eps, eps], look)
    c = scene(p + [-eps, eps, -eps], look)
    d = scene(p + [eps, eps, eps], look)
    return dr.normalize(Array3f(a - b - c + d, c + d - a - b, b + d - a - c))


def sky(d: Array3f, look: Parameters) -> Array3f:
    """Return the sky's radiance in a direction."""
    height = dr.sqrt(dr.clip(d.y, 0, 1))
    return dr.lerp(Array3f(*look.horizon), Array3f(*look.zenith), height)


# Light transport


@dr.syntax
def march(
    o: Array3f, d: Array3f, start: float, end: float, steps: int, look: Parameters
) -> tuple[Float, Bool]:
    """Sphere trace; return the distance along the ray and whether it hit."""
    t = Float(start)
    i = UInt32(0)
    distance = scene(dr.fma(d, t, o), look)
    while (i < steps) & (t < end) & (distance > 1e-3):
        t += distance
        distance = scene(dr.fma(d, t, o), look)
        i += 1
    return t, distance <= 1e-3


def cosine_direction(n: Array3f, u: Float, v: Float) -> Array3f:
    """Draw a direction around `n` with a density proportional to the cosine.

    A uniform point on the unit sphere around the normal's tip, normalized.
    """
    z = 1 - 2 * u
    r = dr.sqrt(dr.maximum(0, 1 - z * z))
    s, c = dr.sincos(6.2831853 * v)
    return dr.normalize(n + 0.999 * Array3f(r * c, r * s, z))


@dr.syntax
def skylight(
    p: Array3f, n: Array3f, visible: Bool, rng: PCG32, look: Parameters
) -> tuple[Array3f, PCG32]:
    """Estimate the sky's light that reaches `p`, where `visible`."""
    light = Array3f(0)
    k = UInt32(0)
    while visible & (k < SKY_RAYS):
        # One sample in each of 4 x 4 strata: much less noise than 16 free ones.
        u = (Float(k >> 2) + rng.next_float32()) * 0.25
        v = (Float(k & 3) + rng.next_float32()) * 0.25
        d = cosine_direction(n, u, v)
        _, blocked = march(p, d, 0.0, look.reach, 40, look)
        light += dr.select(blocked, 0, sky(d, look))
        k += 1
    return light / SKY_RAYS, rng


def camera_ray(x: Float, y: Float, look: Parameters) -> tuple[Array3f, Array3f]:
    """Return origin and direction of the ray through a point of the image."""
    origin = Array3f(*look.camera)
    forward = dr.normalize(Array3f(*look.target) - origin)
    right = dr.normalize(dr.cross(Array3f(0, 1, 0), forward))
    up = dr.cross(forward, right)
    return origin, dr.normalize(forward + x * right + y * up)


@dr.syntax
def radiance(
    column: UInt32, row: UInt32, width: int, height: int, look: Parameters
) -> Array3f:
    """Average the light of several jittered camera rays in each pixel."""
    rng = PCG32(size=width * height)
    scale = 2 * look.field_of_view / height
    total = Array3f(0)
    k = UInt32(0)
    while k < CAMERA_RAYS:
        x = (Float(column) + rng.next_float32() - 0.5 * width) * scale
        y = (0.5 * height - Float(row) - rng.next_float32()) * scale
        o, d = camera_ray(x, y, look)
        t, hit = march(o, d, 3.0, 40.0, 160, look)
        p = dr.fma(d, t, o)
        n = normal(p, look)
        light, rng = skylight(p + 4e-3 * n, n, hit, rng, look)
        t2 = t * t
        haze = dr.exp(-1e-9 * t2 * t2 * t2)
        surface = dr.lerp(sky(d, look), albedo(p, look) * light, haze)
        total += dr.select(hit, surface, sky(d, look))
        k += 1
    return total / CAMERA_RAYS


def render(width: int, height: int, look: Parameters) -> Float:
    """Trace the whole picture; nothing runs until the result is evaluated."""
    column, row = pixel_index(width, height)
    light = radiance(column, row, width, height, look)
    return dr.ravel(to_srgb(filmic(light, look.exposure)))
