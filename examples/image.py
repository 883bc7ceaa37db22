"""What all pictures share: pixel grids, tone mapping and PNG files.

Everything but `save_png` is traced, hence becomes part of the picture's kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

import lumijit as dr
from lumijit.llvm import Array3f, Float, UInt32, ad

Colour = TypeVar("Colour", Array3f, ad.Array3f)


def pixel_index(width: int, height: int) -> tuple[UInt32, UInt32]:
    """Return the column and the row of every pixel, row by row from the top."""
    index = dr.arange(UInt32, width * height)
    row = index // width
    return index - row * width, row


def filmic(radiance: Array3f, exposure: float) -> Array3f:
    """Compress radiance of any brightness smoothly into [0, 1)."""
    return 1 - dr.exp(-exposure * radiance)


def to_srgb(linear: Colour) -> Colour:
    """Encode linear values in [0, 1] with the sRGB transfer function."""
    low = 12.92 * linear
    high = 1.055 * dr.power(dr.maximum(linear, 0.0031308), 1 / 2.4) - 0.055
    return dr.select(linear <= 0.0031308, low, high)


def save_png(path: Path, pixels: Float, width: int, height: int) -> None:
    """Write interleaved RGB values in [0, 1], top row first, as an 8-bit PNG."""
    from PIL import Image

    values = np.asarray(pixels.numpy()).reshape(height, width, 3)
    Image.fromarray(quantize(values)).save(path, optimize=True)


def quantize(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Round values in [0, 1] to the nearest of 256 levels."""
    return (np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8)
