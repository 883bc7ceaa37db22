"""The inverse problems: losses fall, parts match closed forms, files are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lumijit as dr
from examples import inverse, inverse_network, inverse_shape, inverse_texture
from examples.inverse_shape import START, TARGET, Balls, Grid
from lumijit.llvm.ad import Array3f, Float


def test_the_texture_is_recovered_where_it_is_seen() -> None:
    opt = inverse_texture.begin()
    losses = list(inverse_texture.optimize(opt, 96, 40))
    assert losses[-1] < losses[0] / 300
    found, wanted = (
        inverse_texture.flat(texels)
        for texels in (opt["texels"], inverse_texture.truth())
    )
    grey = inverse_texture.flat(dr.full(Float, 0.5, found.size))
    middle = (slice(16, 48), slice(32, 96))
    before = abs(grey - wanted)[middle].mean()
    assert abs(found - wanted)[middle].mean() < before / 4
    # No ray reads the last row in the corner of the lower half.
    np.testing.assert_array_equal(found[-1, 0], grey[-1, 0])


def test_a_picture_is_learned() -> None:
    size = 32
    network, wanted = inverse_network.Network(size, 3), inverse_network.wanted(size)
    before = np.mean((network.picture(size) - wanted) ** 2)
    losses = list(inverse_network.optimize(network, 40, 1 << 11))
    assert losses[-1] < losses[0] / 8
    assert np.mean((network.picture(size) - wanted) ** 2) < before / 8


@pytest.mark.parametrize(("name", "factor"), [("spheres", 50), ("grid", 8)])
def test_shapes_are_recovered(name: str, factor: float) -> None:
    opt = inverse_shape.begin()[name]
    losses = list(inverse_shape.optimize(opt, 24, 40))
    assert losses[-1] < losses[0] / factor


def test_every_step_is_the_same_kernels() -> None:
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        for opt in inverse_shape.begin().values():
            steps = inverse_shape.optimize(opt, 8, 5)
            for _ in range(3):
                next(steps)
            dr.kernel_history_clear()
            next(steps)
            next(steps)
            entries = dr.kernel_history([dr.KernelType.JIT])
            assert all(e["cache_hit"] or e["cache_disk"] for e in entries)


def test_distances_match_closed_forms() -> None:
    p = np.random.default_rng(1).uniform(-0.9, 0.9, (3, 200))
    q = Array3f(*(Float(c) for c in p))
    found = Balls.of(TARGET).distance(q).numpy()
    each = [np.linalg.norm(p.T - b[:3], axis=1) - b[3] for b in TARGET]
    smooth = -np.log(np.exp(-12 * np.array(each)).sum(0)) / 12
    np.testing.assert_allclose(found, smooth, atol=1e-5)
    grid = Grid.ball(0.6).distance(q).numpy()
    np.testing.assert_allclose(grid, np.linalg.norm(p, axis=0) - 0.6, atol=0.03)
    outside = Grid.ball(0.6).distance(Array3f(0, 3, 0)).numpy()
    np.testing.assert_allclose(outside, 3 - 0.6, atol=0.03)


def test_derivatives_of_the_picture_match_differences() -> None:
    """One Newton step and soft outlines: radii and places, against differences."""
    size = 16

    def total(shape: Balls) -> Float:
        image = inverse_shape.render(shape, size)
        weights = Array3f(0.3, 0.5, 0.2)
        return dr.mean(dr.dot(image, weights))

    for position in range(4):
        shape = Balls.of(START)
        dr.enable_grad(shape)
        dr.backward(total(shape))
        numbers = [shape.centres[0].x, shape.centres[0].y, shape.centres[0].z]
        derivative = [*numbers, shape.radii[0]][position].grad[0]
        step = 1e-2
        values = []
        for change in (-step, step):
            ball = list(START[0])
            ball[position] += change
            moved = Balls.of((tuple(ball), *START[1:]))  # type: ignore[arg-type]
            values.append(total(moved)[0])
        difference = (values[1] - values[0]) / (2 * step)
        assert derivative == pytest.approx(difference, rel=0.1, abs=2e-3)


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", str(tmp_path), "--size", "12", "--steps", "2"]
    outcomes = inverse.main(arguments)
    assert [o.title for o in outcomes] == list(inverse.PROBLEMS)
    printed = capsys.readouterr()
    for outcome in outcomes:
        assert all(len(v) == 2 for v in outcome.losses.values())
        assert outcome.title in printed.out
        assert outcome.title in printed.err
        for suffix in ("", "_loss"):
            with Image.open(tmp_path / f"{outcome.title}{suffix}.png") as file:
                assert file.width > 12
    with Image.open(tmp_path / "inverse_shape.png") as file:
        assert file.size == (6 * 12, 5 * 16 - 4)
