"""The pictures against slow references, and the gallery's table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lumijit as dr
from examples import (
    ambient_occlusion,
    bumpy_sphere,
    gallery,
    mandelbrot,
    sdf_sphere,
)
from lumijit.llvm import PCG32, Array3f, Bool, Float
from lumijit.llvm.ad import Array3f as AdArray3f
from lumijit.llvm.ad import Float as AdFloat


def escape_reference(cx: float, cy: float, iterations: int) -> float:
    z = 0j
    for i in range(iterations):
        if abs(z) ** 2 >= 256:
            return float(i + 1 - np.log2(np.log2(abs(z))))
        z = z * z + complex(cx, cy)
    return 0.0


def test_escape_counts_match_complex_arithmetic() -> None:
    points = [(-2.5, 0.1), (0.5, 0.5), (-0.75, 0.3), (0, 0), (1, 1), (-1, 0.01)]
    cx, cy = np.array(points, np.float32).T
    counts = mandelbrot.escape(Float(cx), Float(cy), 40).numpy()
    expected = [
        escape_reference(float(x), float(y), 40) for x, y in zip(cx, cy, strict=True)
    ]
    np.testing.assert_allclose(counts, expected, rtol=1e-3, atol=1e-3)


def test_a_ray_through_the_centre_stops_at_the_sphere() -> None:
    look = sdf_sphere.Parameters(ripple_height=0.0)
    z = np.array([-3.0, -2.0, -1.0], np.float32)
    p = sdf_sphere.trace(Array3f(0, 0, Float(z)), Array3f(0, 0, 1), look)
    np.testing.assert_allclose(p.z.numpy(), -look.radius, atol=2e-4)


def test_sphere_normals_point_outwards() -> None:
    look = sdf_sphere.Parameters(ripple_height=0.0)
    direction = np.random.default_rng(1).normal(size=(3, 50))
    direction /= np.linalg.norm(direction, axis=0)
    p = Array3f(*(Float((look.radius * c).astype(np.float32)) for c in direction))
    n = sdf_sphere.normal(p, look)
    found = np.stack([np.asarray(c.numpy()) for c in (n.x, n.y, n.z)])
    np.testing.assert_allclose(found, direction, atol=5e-4)


def test_solid_distances_match_closed_forms() -> None:
    p = np.random.default_rng(2).uniform(-2, 2, (3, 64))
    q = Array3f(*(Float(c.astype(np.float32)) for c in p))

    torus = ambient_occlusion.torus(q, 0.8, 0.2).numpy()
    expected = np.hypot(np.hypot(p[0], p[2]) - 0.8, p[1]) - 0.2
    np.testing.assert_allclose(torus, expected, atol=1e-5)

    box = ambient_occlusion.rounded_box(q, Array3f(0.6, 0.7, 0.8), 0.0).numpy()
    excess = np.abs(p) - np.array([[0.6], [0.7], [0.8]])
    outside = np.linalg.norm(np.maximum(excess, 0), axis=0)
    expected = outside + np.minimum(excess.max(axis=0), 0)
    np.testing.assert_allclose(box, expected, atol=1e-5)


def test_cosine_directions_are_distributed_by_the_cosine() -> None:
    size = 100_000
    rng = PCG32(size=size)
    n = Array3f(0, 1, 0)
    d = ambient_occlusion.cosine_direction(n, rng.next_float32(), rng.next_float32())
    cosine = np.asarray(d.y.numpy())
    assert cosine.min() >= 0
    # The cosine's square is uniform for this density.
    levels = np.linspace(0.05, 0.95, 19)
    found = np.quantile(cosine.astype(np.float64) ** 2, levels)
    np.testing.assert_allclose(found, levels, atol=0.01)


def test_light_is_the_whole_sky_on_open_ground_and_none_inside() -> None:
    look = ambient_occlusion.Parameters(zenith=(1, 1, 1), horizon=(1, 1, 1))
    x = Float([30.0, 0.0])
    y = Float([4e-3, -1.0])
    p = Array3f(x, y, 30)
    visible = Bool([True, True])
    light, _ = ambient_occlusion.skylight(
        p, Array3f(0, 1, 0), visible, PCG32(size=2), look
    )
    np.testing.assert_allclose(light.x.numpy(), [1, 0], atol=1e-6)


@pytest.mark.parametrize("picture", gallery.PICTURES, ids=lambda p: p.TITLE)
def test_a_picture_is_one_kernel_and_later_a_hit(
    picture: gallery.Picture,
) -> None:
    first, pixels = gallery.measure(picture, 12, 9, picture.VARIANTS[0])
    again, same = gallery.measure(picture, 12, 9, picture.VARIANTS[0])
    # Noise is made by a kernel of its own, as what reads a texture needs all of it.
    kernels = 2 if picture.TITLE == bumpy_sphere.TITLE else 1
    assert (first.kernels, again.kernels) == (kernels, kernels)
    assert again.origin == "hit (memory)"
    values = np.asarray(pixels.numpy())
    assert values.shape == (12 * 9 * 3,)
    assert np.isfinite(values).all()
    assert 0 <= values.min() < values.max() <= 1
    np.testing.assert_array_equal(values, same.numpy())


@pytest.mark.parametrize("picture", gallery.PICTURES, ids=lambda p: p.TITLE)
def test_other_numbers_do_not_recompile(picture: gallery.Picture) -> None:
    for look in picture.VARIANTS[:2]:
        gallery.measure(picture, 8, 8, look)
    row, _ = gallery.measure(picture, 8, 8, picture.VARIANTS[2])
    assert row.origin.startswith("hit")


def test_the_gallery_writes_files_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = gallery.main(["--out", str(tmp_path), "--size", "24"])
    assert [row.title for row in rows] == [p.TITLE for p in gallery.PICTURES]
    printed = capsys.readouterr().out
    for picture in gallery.PICTURES:
        assert picture.TITLE in printed
        with Image.open(tmp_path / f"{picture.TITLE}.png") as file:
            assert file.width == 24


def test_an_evaluated_picture_equals_the_symbolic_one() -> None:
    look = sdf_sphere.VARIANTS[0]
    symbolic = sdf_sphere.render(16, 16, look).numpy()
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        evaluated = sdf_sphere.render(16, 16, look).numpy()
    np.testing.assert_allclose(symbolic, evaluated, atol=1e-5)


def test_normals_of_the_bumpy_sphere_are_those_of_differences() -> None:
    look = bumpy_sphere.Parameters()
    texture = bumpy_sphere.noise(look.resolution)
    x = AdFloat(np.linspace(-0.5, 0.5, 9, dtype=np.float32))
    p = AdArray3f(x, 0.3, -0.8)
    light = AdArray3f(0.3, -0.5, -0.7)
    eps = 1e-2
    ahead = bumpy_sphere.sdf(p + light * eps, texture, look)
    behind = bumpy_sphere.sdf(p - light * eps, texture, look)
    slope = (ahead - behind) / (2 * eps)
    found = bumpy_sphere.shade(AdArray3f(p), light, texture, look)
    expected = np.maximum(slope.numpy(), 0)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-3)
