"""A small path tracer: its gradients by differentiation, path replay and differences.

Materials are objects, called by method; light comes from the sky and from a lamp that
each vertex samples. Path replay is reverse mode in constant memory: a second walk along
the same paths, which differentiates each turn by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import (
    PCG32,
    Array2f64,
    Array3f64,
    Bool,
    Float64,
    UInt32,
)

SIDE, SAMPLES, DEPTH = 12, 8, 3
MODES = ("symbolic", "evaluated")
FLAGS = (
    dr.JitFlag.SymbolicLoops,
    dr.JitFlag.SymbolicConditionals,
    dr.JitFlag.SymbolicCalls,
)
#: Of what pictures are differentiated by: the values, and a step of differences.
VALUES: dict[str, Any] = {
    "albedo": (0.7, 0.2, 0.1),
    "gloss": 0.4,
    "exponent": 6.0,
    "lamp": (5, 6, 7),
}
STEP = 1e-5


@dataclass
class Ray:
    o: Array3f64
    d: Array3f64


@dataclass
class Frame:
    s: Array3f64
    t: Array3f64
    n: Array3f64

    @staticmethod
    def around(n: Array3f64) -> Frame:
        sign = dr.select(n.z >= 0, Float64(1), Float64(-1))
        a = -1 / (sign + n.z)
        b = n.x * n.y * a
        s = Array3f64(1 + sign * n.x * n.x * a, sign * b, -sign * n.x)
        return Frame(s, Array3f64(b, sign + n.y * n.y * a, -n.y), n)

    def to_world(self, v: Array3f64) -> Any:
        return self.s * v.x + self.t * v.y + self.n * v.z

    def to_local(self, v: Array3f64) -> Array3f64:
        return Array3f64(dr.dot(v, self.s), dr.dot(v, self.t), dr.dot(v, self.n))


class Material:
    def sample(self, wi: Array3f64, u: Array2f64) -> Any:
        """Return a direction, the weight of what comes from there, and if it is one."""
        s, c = dr.sincos(2 * dr.pi * u.y)
        r = dr.sqrt(u.x)
        wo = Array3f64(r * c, r * s, dr.sqrt(dr.maximum(1 - u.x, 1e-9)))
        return wo, self.eval(wi, wo) * dr.pi / wo.z, Bool(False)

    def eval(self, wi: Array3f64, wo: Array3f64) -> Any:
        raise NotImplementedError


class Diffuse(Material):
    def __init__(self, albedo: Any) -> None:
        self.albedo = Array3f64(albedo)

    def eval(self, wi: Array3f64, wo: Array3f64) -> Any:
        return dr.select((wi.z > 0) & (wo.z > 0), self.albedo * (wo.z / dr.pi), 0)


class Glossy(Diffuse):
    def __init__(self, albedo: Any, gloss: Any, exponent: Any) -> None:
        super().__init__(albedo)
        self.gloss, self.exponent = Float64(gloss), Float64(exponent)

    def eval(self, wi: Array3f64, wo: Array3f64) -> Any:
        cosine = dr.dot(Array3f64(-wi.x, -wi.y, wi.z), wo)
        lobe = dr.power(dr.maximum(cosine, 1e-6), self.exponent) * self.gloss
        lobe = dr.select(cosine > 0, lobe, 0)
        return super().eval(wi, wo) + dr.select((wi.z > 0) & (wo.z > 0), lobe * wo.z, 0)


class Mirror(Material):
    def sample(self, wi: Array3f64, u: Array2f64) -> Any:
        return Array3f64(-wi.x, -wi.y, wi.z), Array3f64(0.9), Bool(True)

    def eval(self, wi: Array3f64, wo: Array3f64) -> Any:
        return Array3f64(0)


MaterialPtr: Any = dr.instance_array_t(Float64, Material)


class Scene:
    """Four spheres under a lamp and a sky."""

    def __init__(self, albedo: Any, gloss: Any, exponent: Any, lamp: Any) -> None:
        glossy = Glossy(albedo, gloss, exponent)
        self.kept = [Diffuse((0.6, 0.6, 0.5)), glossy, Mirror(), Diffuse((0.2, 0.5, 1))]
        self.materials = MaterialPtr(self.kept)
        self.centers = Float64(
            [0, -100.5, -1, -0.6, 0, -1, 0.6, 0, -1.1, 0, 0.1, -1.9],
        )
        self.radii = Float64(100, 0.5, 0.5, 0.6)
        self.lamp = Array3f64(lamp)
        self.lamp_center, self.lamp_radius = Array3f64(1, 3, 1), 0.5
        self.sky = Array3f64(0.2, 0.3, 0.4)

    def sphere(self, k: UInt32) -> Any:
        center = dr.gather(Array3f64, self.centers, k)
        return center, dr.gather(Float64, self.radii, k)

    @dr.syntax
    def hit(self, ray: Ray, farthest: Float64) -> Any:
        """Return the distance of what is nearest and its number, 4 for nothing."""
        t, found, k = Float64(farthest), UInt32(4), UInt32(0)
        while k < 4:
            center, radius = self.sphere(k)
            away = ray.o - center
            b = dr.dot(away, ray.d)
            root = b * b - dr.dot(away, away) + radius * radius
            if root > 0:
                near = -b - dr.sqrt(root)
                near = near if near > 1e-4 else -b + dr.sqrt(root)
                if 1e-4 < near < t:
                    t, found = near, UInt32(k)
            k += 1
        return t, found

    def light(self, p: Array3f64, u: Array2f64) -> Any:
        """Sample the lamp: the direction from a point, and what it brings there."""
        z = 1 - 2 * u.x
        s, c = dr.sincos(2 * dr.pi * u.y)
        r = dr.sqrt(dr.maximum(1 - z * z, 0))
        normal = Array3f64(r * c, r * s, z)
        away = self.lamp_center + self.lamp_radius * normal - p
        distance = dr.norm(away)
        d = away / distance
        area = 4 * dr.pi * self.lamp_radius**2
        seen = dr.maximum(-dr.dot(d, normal), 0) * area / (distance * distance)
        _, found = self.hit(Ray(p, d), distance)
        return d, dr.select(found == 4, self.lamp * seen, 0)


@dr.syntax
def trace(scene: Scene, ray: Ray, rng: PCG32, replayed: Any, grad: Any) -> Any:
    """Return the light that arrives; or walk again along paths that were `replayed`.

    Then, what each turn depends on gets its part of a derivative, times `grad`.
    """
    is_replay = replayed is not None
    total = Array3f64(replayed) if is_replay else Array3f64(0)
    weight, turn = Array3f64(1), UInt32(0)
    while turn < DEPTH:
        t, k = scene.hit(ray, Float64(dr.inf))
        if k == 4:
            sky = weight * scene.sky
            total += -sky if is_replay else sky
            break
        center, _ = scene.sphere(k)
        p = ray.o + ray.d * t
        frame = Frame.around(dr.normalize(p - center))
        wi = frame.to_local(-ray.d)
        if wi.z <= 0:
            break
        p += frame.n * 1e-4
        material = dr.gather(MaterialPtr, scene.materials, k)
        u = Array2f64(rng.next_float64(), rng.next_float64())
        v = Array2f64(rng.next_float64(), rng.next_float64())
        with dr.resume_grad(when=is_replay):
            d, brought = scene.light(p, u)
            direct = weight * material.eval(wi, frame.to_local(d)) * brought
        total += -dr.detach(direct) if is_replay else direct
        wo, factor, is_special = material.sample(wi, v)
        if is_replay:
            with dr.resume_grad():
                value = material.eval(wi, wo)
                known = dr.detach(value)
                ratio = dr.select(known > 0, value / known, 1)
                rest = dr.select(is_special, 0, ratio * dr.detach(total))
                dr.backward_from(dr.dot(grad, direct + rest))
        weight *= factor
        ray = Ray(p, frame.to_world(wo))
        turn += 1
    return total


def picture(scene: Scene, replayed: Any = None, grad: Any = None) -> Any:
    count = SIDE * SIDE * SAMPLES
    index = dr.arange(UInt32, count) // SAMPLES
    rng = PCG32(size=count)
    x = (Float64(index % SIDE) + rng.next_float64()) / SIDE * 2 - 1
    y = 1 - (Float64(index // SIDE) + rng.next_float64()) / SIDE * 2
    d = dr.normalize(Array3f64(x, y, -1.5))
    return trace(scene, Ray(Array3f64(0, 0, 1.5), d), rng, replayed, grad)


def loss(scene: Scene) -> Any:
    light = picture(scene)
    return dr.mean(light.x + 2 * light.y + 3 * light.z)


def variables() -> dict[str, Any]:
    made = {n: Array3f64(v) if np.ndim(v) else Float64(v) for n, v in VALUES.items()}
    dr.enable_grad(made)
    return made


def gradients(made: dict[str, Any]) -> list[float]:
    return np.concatenate([dr.grad(v).numpy().ravel() for v in made.values()]).tolist()


def by_differentiation() -> list[float]:
    made = variables()
    dr.backward(loss(Scene(**made)))
    return gradients(made)


def by_path_replay() -> list[float]:
    made = variables()
    scene = Scene(**made)
    with dr.suspend_grad():
        replayed = picture(scene)
        picture(scene, replayed, Array3f64(1, 2, 3) / dr.width(replayed))
    return gradients(made)


def by_forward_mode() -> list[float]:
    found = []
    for name, direction in directions():
        made = variables()
        dr.set_grad(made[name], type(made[name])(direction))
        found.append(dr.forward_to(loss(Scene(**made)))[0])
    return found


def by_differences() -> list[float]:
    found = []
    for name, direction in directions():
        ends = [
            loss(Scene(**{**VALUES, name: np.add(VALUES[name], step * direction)}))[0]
            for step in (STEP, -STEP)
        ]
        found.append((ends[0] - ends[1]) / (2 * STEP))
    return found


def directions() -> Iterator[tuple[str, Any]]:
    """Yield each value's name with each direction that it has."""
    for name, value in VALUES.items():
        for direction in np.eye(3) if np.ndim(value) else np.ones(1):
            yield name, direction


@pytest.fixture(scope="module")
def expected() -> list[float]:
    return by_differences()


WAYS: dict[str, Callable[[], list[float]]] = {
    "reverse": by_differentiation,
    "path replay": by_path_replay,
    "forward": by_forward_mode,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_a_path_tracer(way: str, mode: str, expected: list[float]) -> None:
    with contextlib.ExitStack() as stack:
        for flag in FLAGS:
            stack.enter_context(dr.scoped_set_flag(flag, mode == "symbolic"))
        found = WAYS[way]()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert all(abs(g) > 1e-4 for g in found)
