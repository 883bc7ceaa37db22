"""When texture units look up: on a device that says that it has some."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.cuda_textures import Kind
from tests.emulated_device import EmulatedDevice, emulated

pytestmark = pytest.mark.host("devices besides")


class Textured(EmulatedDevice):
    """Notes which textures it is to make; nobody computes with them."""

    has_textures = True
    kinds: list[Kind]

    def texture(self, kind: Kind, address: int) -> Buffer:
        self.kinds.append(kind)
        return self.allocate(8)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr("tests.emulated_device.EmulatedDevice", Textured)
    with emulated() as made:
        assert isinstance(made, Textured)
        made.kinds = []
        yield made


def texture(m: Any, channels: int = 3, **options: Any) -> Any:
    texels = np.arange(5 * 7 * channels, dtype=np.float32).reshape(5, 7, channels)
    return m.Texture2f(m.TensorXf(texels), **options)


def where(m: Any) -> Any:
    return [dr.linspace(m.Float, 0, 1, 9), dr.linspace(m.Float, 1, 0, 9)]


def is_unit(value: Any) -> bool:
    return any("tex.2d" in text for text in dr.ptx(value))


@pytest.mark.parametrize("m", [cuda, cuda.ad], ids=["cuda", "cuda.ad"])
def test_they_look_up(device: Any, m: Any) -> None:
    made = texture(m, wrap_mode=dr.WrapMode.Mirror, filter_mode=dr.FilterMode.Nearest)
    found = made.eval(where(m))
    assert is_unit(found)
    # (A thread may look up for several elements.)
    assert dr.ptx(found)[0].count("tex.2d") in (1, 4)
    assert device.kinds == [Kind((7, 5), 3, False, "mirror")]
    assert is_unit(made.eval(where(m), where(m)[0] > 0.5))
    assert len(device.kinds) == 1


def test_the_device_is_that_of_the_texels(device: Any) -> None:
    made, spots = texture(cuda), where(cuda)
    dr.eval(made.tensor(), spots)
    with dr.scoped_device(1):
        assert is_unit(made.eval(spots))


def test_texels_that_change_are_copied_anew(device: Any) -> None:
    made = texture(cuda, 1)
    made.eval(where(cuda))
    made.tensor()[2] = 5
    made.eval(where(cuda))
    made.eval(where(cuda))
    made.set_value(made.value() + 1)
    made.eval(where(cuda))
    assert len(device.kinds) == 3


def test_what_they_cannot_do_is_arithmetic(device: Any) -> None:
    x, y = where(cuda)
    assert not is_unit(texture(cuda).eval_nonaccel([x, y]))
    assert not is_unit(texture(cuda, use_accel=False).eval([x, y]))
    assert not is_unit(texture(cuda, 5).eval([x, y]))
    assert not is_unit(texture(cuda).eval([cuda.Float64(x), y]))
    assert not is_unit(texture(cuda).eval_cubic([x, y]))
    assert device.kinds == []


def test_what_is_tracked_is_arithmetic(device: Any) -> None:
    m = cuda.ad
    made, (x, y) = texture(m), where(m)
    dr.enable_grad(x)
    assert not is_unit(made.eval([x, y]))
    with dr.suspend_grad():
        assert is_unit(made.eval([x, y]))
    assert is_unit(made.eval([dr.detach(x), y]))
    dr.enable_grad(made.tensor())
    dr.eval(made.tensor())
    assert not is_unit(made.eval([dr.detach(x), y]))


@pytest.mark.parametrize("is_tracked", [False, True])
def test_bodies_of_loops_know(device: Any, is_tracked: bool) -> None:
    made, (x, y) = texture(cuda.ad), where(cuda.ad)

    @dr.syntax
    def walk(x: Any, y: Any) -> Any:
        i, total = cuda.ad.UInt(0), dr.zeros(cuda.ad.Float, 9)
        while i < 3:
            total += made.eval([x, y]).x
            x *= 0.5
            i += 1
        return total

    # (While anything is tracked, bodies are recorded as if all they get were.)
    dr.set_grad_enabled(x, is_tracked)
    with contextlib.nullcontext() if is_tracked else dr.suspend_grad():
        assert is_unit(walk(x, y)) != is_tracked


def test_texels_that_others_may_change_are_arithmetic(device: Any) -> None:
    made = texture(cuda)
    assert is_unit(made.eval(where(cuda)))
    device.lend(made.value()._node.buffer)
    assert not is_unit(made.eval(where(cuda)))
