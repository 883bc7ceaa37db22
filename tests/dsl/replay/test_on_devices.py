"""Functions under `@kernel` on an emulated device: recorded there, and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda, llvm
from lumijit.runtime.errors import RecordingError
from tests.dsl.test_devices import Shape
from tests.emulated_device import EmulatedDevice, emulated

pytestmark = pytest.mark.host("devices besides")


@pytest.fixture
def emu() -> Iterator[EmulatedDevice]:
    with emulated() as made:
        yield made


def replays(function: Any) -> int:
    """Return how many calls were replayed."""
    entries = (entry for _, entry in function.entries())
    return sum(entry.call_count for entry in entries if entry.recording is not None)


def x_of(*values: float) -> Any:
    return cuda.Float(np.array(values, np.float32))


def test_launches_are_replayed(emu: EmulatedDevice) -> None:
    f = dr.kernel(lambda x, k: dr.sin(x) * k + dr.sum(x))
    for k in range(4):
        x = x_of(1, 2, k)
        before = len(emu.launched)
        found = f(x, k + 0.5)
        assert len(emu.launched) > before
        expected = np.sin(x.numpy()) * (k + 0.5) + x.numpy().sum()
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert replays(f) == 3
    assert "replayed 3 times" in f.explain()


def test_memory_is_the_devices(emu: EmulatedDevice) -> None:
    f = dr.kernel(lambda x: (dr.prefix_sum(dr.erf(x)), x + 1))
    x = dr.opaque(cuda.Float, 0.5, 5000) + dr.arange(cuda.Float, 5000)
    f(x)
    emu.collect()
    before = emu.live_bytes
    kept = [f(x) for _ in range(3)]
    emu.collect()
    # Two results each; what is temporary serves all.
    assert emu.live_bytes == before + 6 * 20032
    del kept
    f.clear()
    emu.collect()
    assert emu.live_bytes < before


def test_without_arrays_among_the_inputs(emu: EmulatedDevice) -> None:
    """That it is for a device shows while the function runs."""
    f = dr.kernel(lambda n, k: dr.arange(cuda.Float, n) * k)
    for k in range(3):
        np.testing.assert_array_equal(f(5, k + 0.5).numpy(), np.arange(5) * (k + 0.5))
    assert replays(f) == 2
    assert emu.launched


def test_literals_are_inputs(emu: EmulatedDevice) -> None:
    f = dr.kernel(lambda x, k: dr.arange(cuda.Float, 4) * x + k)
    for k in range(4):
        found = f(cuda.Float(k), k).numpy()
        np.testing.assert_array_equal(found, np.arange(4) * k + k)
    # In the first call, nothing told yet where its inputs belong.
    assert replays(f) >= 2


def test_arrays_made_of_nothing_are_made_there(emu: EmulatedDevice) -> None:
    def plain(x: Any) -> Any:
        target = dr.zeros(cuda.Float, 4)
        dr.scatter_add(target, x, dr.arange(cuda.UInt, dr.width(x)) % 4)
        start = dr.opaque(cuda.Float, 2, 4)
        dr.eval(start)
        return target * start + cuda.Float(np.arange(4))

    f = dr.kernel(plain)
    for k in range(3):
        x = dr.arange(cuda.Float, 9) + k
        expected = np.bincount(np.arange(9) % 4, x.numpy()) * 2 + np.arange(4)
        np.testing.assert_allclose(f(x).numpy(), expected)
    assert replays(f) == 2


def test_tables_of_calls(emu: EmulatedDevice) -> None:
    shapes = [Shape(cuda, 1.5), Shape(cuda, 2.5), Shape(cuda, 3.5)]
    shapes[1].size = dr.opaque(cuda.Float, 7)

    def plain(x: Any, index: Any) -> Any:
        return dr.switch(index % 3, [s.area for s in shapes], x, index % 4)

    f = dr.kernel(plain)
    for k in range(3):
        x, index = dr.arange(cuda.Float, 12) + k, dr.arange(cuda.UInt, 12) + k
        np.testing.assert_allclose(f(x, index).numpy(), plain(x, index).numpy())
        shapes[0].table = cuda.Float(np.arange(4) * (k + 2))
    assert replays(f) == 2


def test_entries_are_read_between_pieces(emu: EmulatedDevice) -> None:
    def plain(x: Any, k: float) -> Any:
        total = dr.sum(x * k)
        return x * (total[0] * 2) + k

    f = dr.kernel(plain, graph_breaks=True)
    for k in range(3):
        x = x_of(1, 2, k)
        np.testing.assert_allclose(f(x, k + 1.5).numpy(), plain(x, k + 1.5).numpy())
    assert replays(f) == 2


def test_gradients(emu: EmulatedDevice) -> None:
    def step(x: Any, rate: float) -> Any:
        dr.enable_grad(x)
        loss = dr.sum(dr.square(dr.sin(x)))
        dr.backward(loss)
        return dr.detach(x) - rate * dr.grad(x), dr.detach(loss)

    f = dr.kernel(step)
    for k in range(3):
        v = np.linspace(0, 1, 7, dtype=np.float32)
        found, loss = f(cuda.ad.Float(v), k * 0.5)
        np.testing.assert_allclose(found.numpy(), v - k * 0.5 * np.sin(2 * v), 1e-5)
        np.testing.assert_allclose(loss.numpy(), [(np.sin(v) ** 2).sum()], 1e-5)
    assert replays(f) == 2


def test_the_history_has_replayed_launches(emu: EmulatedDevice) -> None:
    f = dr.kernel(lambda x: dr.sin(x) + 1)
    f(x_of(1, 2))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        f(x_of(3, 4))
        (entry,) = dr.kernel_history()
    assert entry["backend"] is dr.JitBackend.CUDA
    assert entry["execution_time"] > 0
    with dr.scoped_set_flag(dr.JitFlag.LaunchBlocking, True):
        np.testing.assert_allclose(f(x_of(5)).numpy(), np.sin([5]) + 1, 1e-6)


def test_arrays_of_the_host_besides_run_as_they_are(emu: EmulatedDevice) -> None:
    f = dr.kernel(lambda x, y: (x + 1, y * 2))
    for k in range(3):
        x, y = f(x_of(1, k), llvm.Float(np.array([2, k], np.float32)))
        np.testing.assert_array_equal(x.numpy(), [2, k + 1])
        np.testing.assert_array_equal(y.numpy(), [4, 2 * k])
    assert replays(f) == 0
    assert "its arrays are on several devices" in f.explain()


def test_what_the_host_computes_inside_runs_as_it_is(emu: EmulatedDevice) -> None:
    def plain(n: int) -> Any:
        dr.eval(y := dr.arange(llvm.Float, n) * 2)
        return dr.arange(cuda.Float, n), y

    f = dr.kernel(plain)
    for n in (3, 3, 4):
        x, y = f(n)
        np.testing.assert_array_equal(x.numpy() * 2, y.numpy())
    assert replays(f) == 0


def test_arrays_from_nowhere_are_refused(
    emu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = x_of(1, 2) + 1
    dr.eval(hidden)
    monkeypatch.setitem(globals(), "hidden", hidden)
    f = dr.kernel(lambda y: y + globals()["".join(("hid", "den"))])
    with pytest.raises(RecordingError, match="neither among its arguments nor held"):
        f(x_of(3, 4))


def test_such_recordings_are_not_saved(emu: EmulatedDevice, tmp_path: Path) -> None:
    f = dr.kernel(lambda x: x + 1)
    f(x_of(1, 2))
    with pytest.raises(RecordingError, match="only those of the CPU can be saved"):
        f.save(tmp_path / "f")
