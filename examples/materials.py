"""Path tracing of spheres whose materials are Python classes.

`Material` is an ordinary base class; diffuse, painted, metal, glass and glowing
surfaces derive from it. The rays of all pixels meet different materials, so the
loop over bounces calls `material.sample(hit, u)` on an array of objects: each object is
traced once, objects of one kind become one function in the kernel (the two painted
spheres read textures of their own), and all of it is one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import lumijit as dr
from examples.image import filmic, pixel_index, to_srgb
from lumijit.llvm import PCG32, Array2f, Array2u, Array3f, Bool, Float, UInt32

TITLE = "materials"
SIZE = 720
ASPECT = 1.8

SAMPLES = 128
BOUNCES = 7

Colour = tuple[float, float, float]


# Materials


@dataclass
class Hit:
    """Where a ray met a surface: place, outward normal, texture coordinates.

    `d` is the ray's direction.
    """

    p: Array3f
    n: Array3f
    d: Array3f
    uv: Array2f


@dataclass
class Bounce:
    """How a path goes on: its direction and the share of the light it brings."""

    d: Array3f
    weight: Array3f


class Material:
    """What a surface does with light."""

    emission: Array3f = Array3f(0)

    def sample(self, hit: Hit, u: Array2f) -> Bounce:
        """Continue a path, with two uniform random numbers."""
        raise NotImplementedError


# Made when the program runs, so that type checkers don't know it as a type.
MaterialPtr: Any = dr.instance_array_t(Float, Material)


class Diffuse(Material):
    """Scatters evenly."""

    def __init__(self, colour: Colour) -> None:
        self.colour = Array3f(*colour)

    def albedo(self, hit: Hit) -> Array3f:
        """Return the share of light that isn't absorbed."""
        return self.colour

    def sample(self, hit: Hit, u: Array2f) -> Bounce:
        """Draw a direction with a density proportional to the cosine."""
        return Bounce(dr.normalize(hit.n + 0.999 * on_sphere(u)), self.albedo(hit))


class Checkered(Diffuse):
    """A floor of two colours."""

    def __init__(self, colour: Colour, other: Colour) -> None:
        super().__init__(colour)
        self.other = Array3f(*other)

    def albedo(self, hit: Hit) -> Array3f:
        """Return the colour of the square."""
        row, column = dr.floor(hit.p.x * 0.8), dr.floor(hit.p.z * 0.8)
        parity = dr.floor((row + column) * 0.5) * 2
        return dr.select(row + column == parity, self.colour, self.other)


class Painted(Diffuse):
    """Carries an image, given as rows of RGB triples."""

    def __init__(self, image: np.ndarray) -> None:
        super().__init__((1, 1, 1))
        self.height, self.width = image.shape[:2]
        self.texels = Float(np.ascontiguousarray(image, np.float32).reshape(-1))

    def albedo(self, hit: Hit) -> Array3f:
        """Look up the texel."""
        size = Array2u(self.width, self.height)
        at = dr.minimum(Array2u(hit.uv * Array2f(size)), size - 1)
        return dr.gather(Array3f, self.texels, at.y * self.width + at.x)


class Metal(Material):
    """Reflects, more or less sharply."""

    def __init__(self, colour: Colour, roughness: float) -> None:
        self.colour = Array3f(*colour)
        self.roughness = Float(roughness)

    def sample(self, hit: Hit, u: Array2f) -> Bounce:
        """Mirror the ray, and shake it."""
        shaken = reflect(hit.d, hit.n) + self.roughness * on_sphere(u)
        above = dr.dot(shaken, hit.n) > 0
        return Bounce(dr.normalize(shaken), dr.select(above, self.colour, 0))


class Glass(Material):
    """Refracts, and reflects what Fresnel's equations say."""

    def __init__(self, ior: float, tint: Colour = (1, 1, 1)) -> None:
        self.ior = Float(ior)
        self.tint = Array3f(*tint)

    @dr.syntax
    def sample(self, hit: Hit, u: Array2f) -> Bounce:
        """Choose between the two directions at random."""
        n, eta, cos_i = hit.n, 1 / self.ior, -dr.dot(hit.d, hit.n)
        if cos_i < 0:
            n, eta, cos_i = -n, self.ior, -cos_i
        sin2_t = eta * eta * (1 - cos_i * cos_i)
        cos_t = dr.sqrt(dr.maximum(0, 1 - sin2_t))
        parallel = (cos_i - eta * cos_t) / (cos_i + eta * cos_t)
        crossed = (eta * cos_i - cos_t) / (eta * cos_i + cos_t)
        reflected = 0.5 * (parallel * parallel + crossed * crossed)
        if (sin2_t > 1) | (u.x < reflected):
            d = reflect(hit.d, n)
        else:
            d = eta * hit.d + (eta * cos_i - cos_t) * n
        return Bounce(dr.normalize(d), self.tint)


class Glow(Material):
    """Shines, and absorbs what arrives."""

    def __init__(self, radiance: Colour) -> None:
        self.emission = Array3f(*radiance)

    def sample(self, hit: Hit, u: Array2f) -> Bounce:
        """End the path."""
        return Bounce(hit.n, Array3f(0))


def reflect(d: Array3f, n: Array3f) -> Array3f:
    """Mirror a direction at a plane."""
    return d - 2 * dr.dot(d, n) * n


def on_sphere(u: Array2f) -> Array3f:
    """Map two uniform numbers to a uniform point on the unit sphere."""
    z = 1 - 2 * u.x
    r = dr.sqrt(dr.maximum(0, 1 - z * z))
    s, c = dr.sincos(dr.two_pi * u.y)
    return Array3f(r * c, r * s, z)


# The scene


@dataclass
class Ball:
    """A sphere and what it is made of."""

    centre: Colour
    radius: float
    material: Material


def marbled(seed: int, low: Colour, high: Colour) -> np.ndarray:
    """Paint an image of 256 x 512 texels with wavy bands."""
    rng = np.random.default_rng(seed)
    v, u = np.meshgrid(np.arange(256) / 256, np.arange(512) / 512, indexing="ij")
    waves = sum(
        np.sin(2 * np.pi * (k * u + phase) + 9 * v * k) / k
        for k, phase in enumerate(rng.random(4), start=1)
    )
    mix = np.clip(0.5 + 0.6 * np.sin(14 * v + 1.6 * waves), 0, 1)[..., None]
    image: np.ndarray = (1 - mix) * np.array(low) + mix * np.array(high)
    return image


def default_balls() -> list[Ball]:
    """Return the spheres of the picture."""
    blue = marbled(3, (0.03, 0.10, 0.33), (0.80, 0.88, 0.92))
    red = marbled(8, (0.55, 0.04, 0.03), (0.93, 0.67, 0.30))
    return [
        Ball((-2.25, 0.8, 0.5), 0.8, Painted(blue)),
        Ball((-0.55, 1.0, 0.9), 1.0, Metal((0.95, 0.72, 0.38), 0.06)),
        Ball((1.55, 0.95, 0.4), 0.95, Glass(1.5)),
        Ball((3.3, 0.7, 1.2), 0.7, Painted(red)),
        Ball((-1.35, 0.42, -1.05), 0.42, Glass(1.5, (0.65, 0.95, 0.75))),
        Ball((0.35, 0.4, -1.15), 0.4, Metal((0.9, 0.9, 0.95), 0.0)),
        Ball((2.45, 0.36, -1.2), 0.36, Diffuse((0.12, 0.50, 0.21))),
        Ball((1.25, 0.25, -1.8), 0.25, Glow((6.5, 3.6, 1.5))),
        Ball((-2.55, 0.24, -1.0), 0.24, Glow((1.4, 3.2, 6.4))),
        Ball((5.2, 1.5, 4.6), 1.5, Metal((0.82, 0.52, 0.45), 0.25)),
        Ball((-5.0, 1.3, 4.2), 1.3, Diffuse((0.75, 0.36, 0.10))),
    ]


@dataclass
class Scene:
    """The numbers and objects of the picture."""

    camera: Colour = (0.4, 2.0, -7.5)
    target: Colour = (0.3, 0.72, 0.0)
    field_of_view: float = 0.262
    floor: Material = field(
        default_factory=lambda: Checkered((0.72, 0.70, 0.66), (0.10, 0.11, 0.14))
    )
    balls: list[Ball] = field(default_factory=default_balls)
    zenith: Colour = (0.16, 0.34, 0.72)
    horizon: Colour = (0.92, 0.84, 0.76)
    exposure: float = 1.05

    def materials(self) -> Any:
        """Return the materials by number; None belongs to the sky."""
        listed = [ball.material for ball in self.balls]
        return MaterialPtr([None, self.floor, *listed])


VARIANTS = (
    Scene(),
    Scene(camera=(-3.2, 1.4, -7.0), zenith=(0.10, 0.12, 0.25), exposure=1.3),
    Scene(camera=(2.9, 3.2, -6.9), horizon=(1.20, 0.72, 0.45)),
)


def sky(d: Array3f, scene: Scene) -> Array3f:
    """Return the sky's radiance in a direction."""
    height = dr.sqrt(dr.clip(d.y, 0, 1))
    return dr.lerp(Array3f(*scene.horizon), Array3f(*scene.zenith), height)


def intersect(o: Array3f, d: Array3f, scene: Scene) -> tuple[Float, UInt32]:
    """Return the distance to the nearest surface, and its number; 0 is the sky."""
    t = dr.select(d.y < 0, -o.y / d.y, dr.inf)
    number = dr.select(t < 60, UInt32(1), 0)
    t = dr.select(t < 60, t, dr.inf)
    for k, ball in enumerate(scene.balls, start=2):
        oc = o - Array3f(*ball.centre)
        b = dr.dot(oc, d)
        # The distance of the centre from the ray, without cancellation.
        gap = oc - b * d
        h2 = ball.radius * ball.radius - dr.squared_norm(gap)
        h = dr.sqrt(dr.maximum(h2, 0))
        near, far = -b - h, -b + h
        found = dr.select(near > 1e-3, near, far)
        closer = (h2 > 0) & (found > 1e-3) & (found < t)
        t = dr.select(closer, found, t)
        number = dr.select(closer, k, number)
    return t, number


def surface(o: Array3f, d: Array3f, t: Float, number: UInt32, scene: Scene) -> Hit:
    """Return the local geometry of what a ray hits."""
    p = dr.fma(d, t, o)
    n = Array3f(0, 1, 0)
    for k, ball in enumerate(scene.balls, start=2):
        outward = (p - Array3f(*ball.centre)) / ball.radius
        n = dr.select(number == k, outward, n)
    n = dr.normalize(n)
    u = dr.atan2(n.z, n.x) * (0.5 * dr.inv_pi) + 0.5
    v = dr.acos(dr.clip(n.y, -1, 1)) * dr.inv_pi
    return Hit(p, n, d, Array2f(u, v))


# Light transport


@dr.syntax
def path(
    o: Array3f, d: Array3f, rng: PCG32, materials: Any, scene: Scene
) -> tuple[Array3f, PCG32]:
    """Follow a path; return the light that it brings, and the generator."""
    light = Array3f(0)
    weight = Array3f(1)
    alive = Bool(True)
    depth = UInt32(0)
    while alive & (depth < BOUNCES):
        t, number = intersect(o, d, scene)
        if number == 0:
            light += weight * sky(d, scene)
            alive = Bool(False)
        else:
            hit = surface(o, d, t, number, scene)
            material = dr.gather(MaterialPtr, materials, number)
            light += weight * material.emission
            u = Array2f(rng.next_float32(), rng.next_float32())
            bounce = material.sample(hit, u)
            weight *= bounce.weight
            d = bounce.d
            o = hit.p + 1e-3 * d
            alive = dr.max(weight) > 1e-3
        depth += 1
    return light, rng


def camera_ray(x: Float, y: Float, scene: Scene) -> tuple[Array3f, Array3f]:
    """Return origin and direction of the ray through a point of the image."""
    origin = Array3f(*scene.camera)
    forward = dr.normalize(Array3f(*scene.target) - origin)
    right = dr.normalize(dr.cross(Array3f(0, 1, 0), forward))
    up = dr.cross(forward, right)
    return origin, dr.normalize(forward + x * right + y * up)


@dr.syntax
def radiance(
    column: UInt32, row: UInt32, width: int, height: int, scene: Scene
) -> Array3f:
    """Average the light of several paths through each pixel."""
    rng = PCG32(size=width * height)
    materials = scene.materials()
    scale = 2 * scene.field_of_view / height
    total = Array3f(0)
    k = UInt32(0)
    while k < SAMPLES:
        x = (Float(column) + rng.next_float32() - 0.5 * width) * scale
        y = (0.5 * height - Float(row) - rng.next_float32()) * scale
        o, d = camera_ray(x, y, scene)
        light, rng = path(o, d, rng, materials, scene)
        # A path that finds a light by chance would leave a speck.
        total += dr.minimum(light, 8)
        k += 1
    return total / SAMPLES


def render(width: int, height: int, look: Scene) -> Float:
    """Trace the whole picture; nothing runs until the result is evaluated."""
    column, row = pixel_index(width, height)
    light = radiance(column, row, width, height, look)
    return dr.ravel(to_srgb(filmic(light, look.exposure)))
