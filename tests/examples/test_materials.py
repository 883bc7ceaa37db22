"""The materials of the path tracer, against closed forms and object by object."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from examples import materials
from examples.materials import Bounce, Glass, Hit, MaterialPtr, Metal, Painted
from lumijit.llvm import PCG32, Array2f, Array3f, Float, UInt32


def random_hits(count: int) -> tuple[Hit, Array2f]:
    rng = PCG32(size=count)
    u = [rng.next_float32() for _ in range(8)]
    n = materials.on_sphere(Array2f(u[0], u[1]))
    d = materials.on_sphere(Array2f(u[2], u[3]))
    d = dr.select(dr.dot(n, d) > 0, -d, d)
    return Hit(3 * n, n, d, Array2f(u[4], u[5])), Array2f(u[6], u[7])


def columns(value: Any) -> np.ndarray:
    return np.stack([np.asarray(part.numpy()) for part in value])


def test_nearest_surface_matches_brute_force() -> None:
    scene = materials.Scene()
    rng = np.random.default_rng(5)
    o = rng.normal(size=(3, 500)) * 3 + [[0], [2], [-4]]
    o[1] = abs(o[1]) + 0.1
    d = rng.normal(size=(3, 500))
    d /= np.linalg.norm(d, axis=0)
    t, number = materials.intersect(
        Array3f(*(Float(c.astype(np.float32)) for c in o)),
        Array3f(*(Float(c.astype(np.float32)) for c in d)),
        scene,
    )
    best = np.where(d[1] < 0, -o[1] / d[1], np.inf)
    best[best >= 60] = np.inf
    winner = np.where(best < np.inf, 1, 0)
    for k, ball in enumerate(scene.balls, start=2):
        oc = o - np.array(ball.centre)[:, None]
        b, c = (oc * d).sum(0), (oc * oc).sum(0) - ball.radius**2
        root = np.sqrt(np.maximum(b * b - c, 0))
        found = np.where(-b - root > 1e-3, -b - root, -b + root)
        closer = (b * b > c) & (found > 1e-3) & (found < best)
        best = np.where(closer, found, best)
        winner = np.where(closer, k, winner)
    assert (number.numpy() == winner).mean() > 0.995
    same = (number.numpy() == winner) & (winner > 0)
    np.testing.assert_allclose(t.numpy()[same], best[same], rtol=1e-3, atol=1e-3)


def test_glass_keeps_the_energy_and_obeys_snell() -> None:
    hit, u = random_hits(2000)
    bounce = Glass(1.5).sample(hit, u)
    n, d, out = columns(hit.n), columns(hit.d), columns(bounce.d)
    np.testing.assert_allclose(np.linalg.norm(out, axis=0), 1, atol=1e-5)
    is_refracted = (out * n).sum(0) < 0
    assert 0.5 < is_refracted.mean() < 1
    sine = np.linalg.norm(np.cross(n, d, axis=0), axis=0)
    sine_out = np.linalg.norm(np.cross(n, out, axis=0), axis=0)
    expected = np.where(is_refracted, sine / 1.5, sine)
    np.testing.assert_allclose(sine_out, expected, atol=2e-3)


def test_painted_surfaces_show_their_own_image() -> None:
    images = [np.random.default_rng(k).random((4 + k, 6, 3)) for k in range(3)]
    objects = [Painted(image) for image in images]
    hit, u = random_hits(300)
    which = dr.arange(UInt32, 300) % 3
    bounce = dr.gather(MaterialPtr, MaterialPtr(objects), which).sample(hit, u)
    uv = columns(hit.uv)
    for lane in range(300):
        image = images[lane % 3]
        row = min(int(uv[1][lane] * image.shape[0]), image.shape[0] - 1)
        column = min(int(uv[0][lane] * 6), 5)
        found = [bounce.weight[k][lane] for k in range(3)]
        np.testing.assert_allclose(found, image[row, column], atol=1e-6)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_an_array_of_materials_does_what_each_does(mode: str) -> None:
    scene = materials.Scene()
    objects: list[Any] = [None, scene.floor, *(b.material for b in scene.balls)]
    hit, u = random_hits(700)
    which = UInt32(np.random.default_rng(1).integers(0, len(objects), 700))
    array = dr.gather(MaterialPtr, MaterialPtr(objects), which)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, mode == "symbolic"):
        bounce = array.sample(hit, u)
        emission = array.emission
    for k, material in enumerate(objects):
        chosen = which.numpy() == k
        alone = Bounce(Array3f(0), Array3f(0)) if k == 0 else material.sample(hit, u)
        glow = Array3f(0) if k == 0 else material.emission
        for all_, own in (
            (bounce.d, alone.d),
            (bounce.weight, alone.weight),
            (emission, glow),
        ):
            expected = np.broadcast_to(columns(own), (3, 700))[:, chosen]
            np.testing.assert_allclose(columns(all_)[:, chosen], expected, atol=1e-6)


def test_objects_of_one_kind_become_one_function() -> None:
    hit, u = random_hits(64)

    def operations(objects: list[Any]) -> int:
        which = UInt32(np.arange(64) % len(objects))
        array = dr.gather(MaterialPtr, MaterialPtr(objects), which)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            dr.eval(array.sample(hit, u))
            (entry,) = dr.kernel_history([dr.KernelType.JIT])
        count: int = entry["operation_count"]
        return count

    few = [Metal((0.11 * k, 0.53, 0.71), 0.01 * k) for k in range(1, 3)]
    many = [Metal((0.01 * k, 0.535, 0.715), 0.001 * k) for k in range(1, 80)]
    assert operations(few) == operations(many)


def test_an_evaluated_picture_equals_the_symbolic_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(materials, "SAMPLES", 2)
    look = materials.VARIANTS[0]
    symbolic = materials.render(12, 8, look).numpy()
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False),
        dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, False),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False),
    ):
        evaluated = materials.render(12, 8, look).numpy()
    np.testing.assert_allclose(symbolic, evaluated, atol=1e-3)
