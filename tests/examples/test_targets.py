"""The pictures are the same, bit by bit, on threads and on an emulated device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from examples import gallery
from tests.emulated_device import standing_in
from tests.targets import written_for

WIDTH = 24


def pixels(picture: Any) -> np.ndarray[Any, Any]:
    height = round(WIDTH / picture.ASPECT)
    _, found = gallery.measure(picture, WIDTH, height, picture.VARIANTS[0])
    return np.array(found.numpy())


@pytest.mark.host("compares it with others")
@pytest.mark.parametrize("picture", gallery.PICTURES, ids=lambda p: p.TITLE)
def test_pictures_are_the_same(picture: Any) -> None:
    with written_for("packet"):
        expected = pixels(picture)
    assert np.ptp(expected) > 0.1
    with written_for("thread"):
        np.testing.assert_array_equal(pixels(picture), expected)
    with standing_in() as device:
        before = len(device.launched)
        np.testing.assert_array_equal(pixels(picture), expected)
        assert len(device.launched) > before
