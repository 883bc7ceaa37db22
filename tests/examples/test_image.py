"""Tone mapping and PNG files, against the formulas in double precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

import lumijit as dr
from examples import image
from lumijit.llvm import Array3f, Float


def ravel(colour: Array3f) -> np.ndarray:
    return np.asarray(dr.ravel(colour).numpy())


def test_pixel_index_runs_row_by_row() -> None:
    column, row = image.pixel_index(3, 2)
    assert list(column.numpy()) == [0, 1, 2, 0, 1, 2]
    assert list(row.numpy()) == [0, 0, 0, 1, 1, 1]


def test_to_srgb_follows_the_standard() -> None:
    linear = np.linspace(0, 1, 999)
    encoded = ravel(image.to_srgb(Array3f(Float(linear.astype(np.float32)))))
    expected = np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
    )
    np.testing.assert_allclose(encoded.reshape(-1, 3)[:, 1], expected, atol=2e-6)


def test_filmic_stays_below_one_and_grows() -> None:
    radiance = np.geomspace(1e-3, 1e3, 101).astype(np.float32)
    values = ravel(image.filmic(Array3f(Float(radiance)), 0.8)).reshape(-1, 3)[:, 0]
    np.testing.assert_allclose(
        values, -np.expm1(-0.8 * radiance.astype(np.float64)), atol=2e-6
    )
    assert values.max() <= 1
    assert (np.diff(values) >= 0).all()


def test_quantize_rounds_and_clips() -> None:
    values = np.array([-1, 0, 0.5 / 255, 0.499 / 255, 1, 2], np.float32)
    assert list(image.quantize(values)) == [0, 0, 1, 0, 255, 255]


def test_save_png_keeps_the_order_of_pixels(tmp_path: Path) -> None:
    pixels = Float([1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0])
    image.save_png(tmp_path / "p.png", pixels, 3, 2)
    with Image.open(tmp_path / "p.png") as picture:
        assert picture.size == (3, 2)
        assert picture.getpixel((1, 0)) == (0, 255, 0)
        assert picture.getpixel((2, 1)) == (255, 255, 0)
