"""The examples under `@kernel`: the same pictures, and one recording for all frames."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from tests.targets import DEVICES

# Sizes, and how many of the numbers of the program Python asks for.
PICTURES = {
    "quickstart": (48, 1),
    "mandelbrot": (40, 1),
    "sdf_sphere": (40, 1),
    "ambient_occlusion": (24, 1),
    "materials": (24, 1),
    "bumpy_sphere": (40, 3),
}


@pytest.mark.parametrize("name", PICTURES)
def test_frames_are_those_of_the_function_itself(
    name: str, pytestconfig: pytest.Config
) -> None:
    module: Any = importlib.import_module(f"examples.{name}")
    size, count = PICTURES[name]
    render = dr.kernel(module.render)
    for look in (*module.VARIANTS, *module.VARIANTS):
        found, expected = render(size, size, look), module.render(size, size, look)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-4)
    # What computes on a device is never recorded, and so not once for each number.
    if pytestconfig.getoption("--target") not in DEVICES:
        assert render.n_recordings == count, render.history


def test_a_camera_that_moves() -> None:
    module: Any = importlib.import_module("examples.quickstart")
    render = dr.kernel(module.render)
    seen = set()
    for frame in range(200):
        look = dataclasses.replace(module.Parameters(), camera_distance=2 + frame / 400)
        found = render(32, 32, look)
        if frame % 50 == 0:
            expected = module.render(32, 32, look)
            np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)
        seen.add(found.numpy().tobytes())
    assert render.n_recordings == 1
    assert len(seen) > 150


def test_steps_of_the_inverse_examples_are_recorded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texture: Any = importlib.import_module("examples.inverse_texture")
    shape: Any = importlib.import_module("examples.inverse_shape")
    made = []
    kernel = dr.kernel

    def recorded(function: Any) -> Any:
        made.append(kernel(function))
        return made[-1]

    monkeypatch.setattr(dr, "kernel", recorded)
    list(texture.optimize(texture.begin(), 16, 4))
    for opt in shape.begin().values():
        list(shape.optimize(opt, 16, 4))
    network: Any = importlib.import_module("examples.inverse_network")
    list(network.optimize(network.Network(16, 2), 4, 256))
    assert [step.n_recordings for step in made] == [1, 1, 1, 1]
