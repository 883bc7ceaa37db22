"""Arrays of `lumijit.cuda` on a GPU, where there is one: what can't be emulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from examples import gallery
from lumijit import cuda, llvm
from lumijit.runtime import device
from lumijit.runtime.cuda import CudaDevice
from lumijit.runtime.device import DeviceId
from lumijit.runtime.errors import AllocationError, BackendError
from tests.dsl.test_cuda import PROGRAMS
from tests.dsl.test_devices import MORE

pytestmark = pytest.mark.host("devices besides")
WIDTH = 96


@pytest.fixture
def gpu() -> CudaDevice:
    try:
        found = device.find(DeviceId("cuda"))
    except BackendError as error:
        pytest.skip(str(error))
    assert isinstance(found, CudaDevice)
    return found


def in_a_process(code: str) -> str:
    """Run code in a process of its own; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "LUMIJIT_NO_DISK_CACHE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [*PROGRAMS, *MORE])
def test_programs_give_what_they_give_on_the_cpu(gpu: CudaDevice, name: str) -> None:
    program: Callable[[Any], Any] = PROGRAMS.get(name) or MORE[name]
    expected = program(llvm).numpy()
    made = program(cuda)
    dr.eval(made)
    if made._node.buffer is not None and name not in ("empty", "literal"):
        assert made._node.buffer.device is gpu
    found = made.numpy()
    assert found.dtype == expected.dtype
    # (Texture units have weights in steps of 1/256.)
    atol = 1 / 256 if name == "texture" else 1e-6
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=atol)
    gpu.wait()


@pytest.mark.parametrize("picture", gallery.PICTURES, ids=lambda p: p.TITLE)
def test_pictures_are_those_of_the_cpu(gpu: CudaDevice, picture: Any) -> None:
    from tests.targets import standing_in

    def pixels() -> np.ndarray[Any, Any]:
        height = round(WIDTH / picture.ASPECT)
        _, found = gallery.measure(picture, WIDTH, height, picture.VARIANTS[0])
        return np.array(found.numpy())

    expected = pixels()
    with standing_in("gpu"):
        found = pixels()
    assert np.mean(np.abs(found - expected) > 1e-5) < 1e-3


def test_recordings_are_replayed(gpu: CudaDevice) -> None:
    f = dr.kernel(lambda x, k: dr.sin(x) * k + dr.sum(x))
    for k in range(4):
        x = np.array([1, 2, k], np.float32)
        found = f(cuda.Float(x), k + 0.5)
        np.testing.assert_allclose(
            found.numpy(), np.sin(x) * (k + 0.5) + x.sum(), rtol=1e-6
        )
    assert "replayed 3 times" in f.explain()


@pytest.mark.parametrize("op", [dr.ReduceOp.Add, dr.ReduceOp.Max], ids=str)
@pytest.mark.parametrize(
    "t", [cuda.Float, cuda.Float64, cuda.Int, cuda.UInt64, cuda.Float16], ids=str
)
def test_neighbours_that_meet(gpu: CudaDevice, t: Any, op: Any) -> None:
    rng = np.random.default_rng(3)
    count, size = 10_007, 1 << 15
    x = rng.integers(0, 9, count)
    i = np.arange(count)
    # All of a warp, parts of it, and none; the last warp isn't whole.
    for index in (*(i // n for n in (1, 2, 3, 4, 8, 16, 32, 48, 999)), i * 7 % 64):
        expected = np.zeros(size, x.dtype)
        combine = np.add if op == dr.ReduceOp.Add else np.maximum
        for is_wanted in (np.ones(count, bool), rng.random(count) < 0.9):
            expected[:] = 0
            combine.at(expected, index[is_wanted], x[is_wanted])
            found = dr.zeros(t, size)
            mask = cuda.Bool(is_wanted)
            dr.scatter_reduce(op, found, t(x), cuda.UInt(index), mask)
            np.testing.assert_array_equal(found.numpy(), expected)


def test_replays_with_many_kernels(gpu: CudaDevice) -> None:
    def steps(x: cuda.Float, k: cuda.UInt) -> tuple[cuda.Float, cuda.Float]:
        total = cuda.Float(x)
        for _ in range(5):
            total = dr.prefix_sum(total + dr.gather(cuda.Float, x, k)) * 0.5
            dr.eval(total)
        return total, dr.sum(total)

    replayed = dr.kernel(steps)
    rng = np.random.default_rng(1)
    held = []
    for n in (7, 100, 100, 7, 100, 7, 65, 65):
        x = cuda.Float(rng.random(n).astype(np.float32))
        k = cuda.UInt(rng.permutation(n).astype(np.uint32))
        held.append((replayed(x, k), steps(x, k)))
    for found, expected in held:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert replayed.n_recordings <= 3


def test_events_tell_the_time(gpu: CudaDevice) -> None:
    begin, end = cuda.Event(), cuda.Event()
    x = dr.arange(cuda.Float, 1 << 24)
    dr.eval(x)
    begin.record()
    dr.eval(x * 2)
    end.record()
    end.wait()
    assert end.query()
    assert 0 < begin.elapsed_time(end) < 1000


def test_kernels_have_times(gpu: CudaDevice) -> None:
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(dr.arange(cuda.Float, 1 << 20) * 3)
        dr.sync_thread()
        (entry,) = dr.kernel_history((dr.KernelType.JIT,))
    assert entry["backend"] == dr.JitBackend.CUDA
    assert entry["execution_time"] > 0


def test_no_more_memory(gpu: CudaDevice) -> None:
    with pytest.raises(AllocationError, match="can't be had"):
        gpu.allocate(1 << 42)
    assert (dr.arange(cuda.Float, 3) + 1)[2] == 3


def test_a_lost_context_leaves_the_cpu(gpu: CudaDevice) -> None:
    printed = in_a_process(
        """
        import struct
        import lumijit as dr
        from lumijit import cuda, llvm
        from lumijit.compiler.lower.cooperative.kernels import nvvm
        from lumijit.runtime import device
        from lumijit.runtime.device import DeviceId
        from lumijit.runtime.errors import BackendError

        gpu, writer = device.find(DeviceId("cuda")), nvvm()
        code = gpu.compile(writer.copy_ir("wild"))
        kernel = gpu.load(code, "wild", "wild", writer.THREADS)
        gpu.launch(kernel, struct.pack("<2q", 64, 128), 64, writer.LINES)
        for again in range(2):
            try:
                print((dr.arange(cuda.Float, 3) + 1).numpy())
            except BackendError as error:
                print(error)
        print((dr.arange(llvm.Float, 3) + 1).numpy())
        """
    )
    assert printed.count("the GPU's context is lost") >= 1
    assert printed.strip().endswith("[1. 2. 3.]")


def test_large_local_memory_is_used_again(gpu: CudaDevice) -> None:
    """There is memory for some thousand threads, which go on with other elements."""

    def program(m: Any) -> Any:
        i = dr.arange(m.UInt, 50_000)
        buffer = dr.alloc_local(m.UInt, 30_000, m.UInt(0))
        for k in range(3):
            buffer[(i * 11 + k * 977) % 30_000] += i + k
        return buffer[(i * 11 + 977) % 30_000] + buffer[(i * 11) % 30_000]

    np.testing.assert_array_equal(program(cuda).numpy(), program(llvm).numpy())


@dr.syntax
def endless(x: Any) -> Any:
    while x < 2:
        x = dr.abs(dr.sin(dr.cos(dr.exp(-dr.abs(x)))))
    return x


def test_loops_end_by_interrupts(gpu: CudaDevice) -> None:
    found = endless(dr.arange(cuda.Float, 100) / 100)
    beside = found + 1
    dr.eval(found, beside)
    thread = threading.main_thread().ident
    assert thread is not None
    threading.Timer(0.3, signal.pthread_kill, (thread, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        found.numpy()
    with pytest.raises(Exception, match="Ctrl-C stopped the kernel"):
        beside.numpy()
    assert (dr.arange(cuda.Float, 3) + 1)[2] == 3


def test_torch_shares_memory(gpu: CudaDevice) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    x = dr.arange(cuda.Float, 1024) * 2
    y = x.torch()
    assert y.is_cuda
    assert x._node.buffer is not None
    assert y.data_ptr() == x._node.buffer.address
    z = y * 3
    back = cuda.Float(z)
    assert dr.sum(back)[0] == float(3 * 2 * np.arange(1024).sum())
    assert dr.sum(cuda.TensorXf(z.reshape(32, 32)), axis=None).array[0] > 0


def test_cupy_shares_memory(gpu: CudaDevice) -> None:
    cupy = pytest.importorskip("cupy")
    x = dr.arange(cuda.Float, 1024) * 2
    dr.eval(x)
    y = cupy.asarray(x)
    assert float(y.sum()) == 2 * np.arange(1024).sum()
    assert dr.sum(cuda.Float(y + 1))[0] == 2 * np.arange(1024).sum() + 1024


def test_jax_shares_memory(gpu: CudaDevice) -> None:
    pytest.importorskip("jax")
    printed = in_a_process(
        """
        import os
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        import jax
        import lumijit as dr
        from lumijit import cuda
        if not any(d.platform == "gpu" for d in jax.devices()):
            print("no GPU for JAX")
        else:
            x = dr.arange(cuda.Float, 1024)
            y = x.jax()
            print(float(y.sum()), dr.sum(cuda.Float(y + 1))[0])
        """
    )
    assert printed.strip() in ("523776.0 524800.0", "no GPU for JAX")


def test_threads_compute_at_once(gpu: CudaDevice) -> None:
    found: dict[int, float] = {}

    def compute(k: int) -> None:
        x = dr.arange(cuda.Float, 1000) * k
        for _ in range(5):
            x = x + 1
            dr.eval(x)
        found[k] = float(dr.sum(x)[0])

    threads = [threading.Thread(target=compute, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: 499500.0 * k + 5000 for k in range(4)}


SIZES = {1: (37,), 2: (13, 37), 3: (5, 13, 37)}


def texture_of(dimensions: int, channels: int, **options: Any) -> tuple[Any, Any, Any]:
    """Return a texture, positions, also outside of it, and its largest difference."""
    rng = np.random.default_rng(7)
    texels = rng.random((*SIZES[dimensions], channels), np.float32)
    made = getattr(cuda, f"Texture{dimensions}f")(cuda.TensorXf(texels), **options)
    spots = rng.uniform(-1.3, 2.3, (dimensions, 5000)).astype(np.float32)
    return made, list(map(cuda.Float, spots)), float(np.ptp(texels))


def has_lookups(value: Any) -> bool:
    return any("tex." in text for text in dr.ptx(value))


@pytest.mark.parametrize("dimensions", SIZES)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("wrap", list(dr.WrapMode))
def test_texture_units_interpolate(
    gpu: CudaDevice, dimensions: int, channels: int, wrap: Any
) -> None:
    texture, spots, largest = texture_of(dimensions, channels, wrap_mode=wrap)
    found, expected = texture.eval(spots), texture.eval_nonaccel(spots)
    assert has_lookups(found) == (channels <= 4)
    assert not has_lookups(expected)
    error = np.abs(found.numpy() - expected.numpy()).max()
    assert error <= dimensions * largest / 256 + 1e-5


@pytest.mark.parametrize("dimensions", SIZES)
def test_texture_units_find_the_nearest(gpu: CudaDevice, dimensions: int) -> None:
    options = {"filter_mode": dr.FilterMode.Nearest}
    texture, spots, _ = texture_of(dimensions, 3, **options)
    found, expected = texture.eval(spots).numpy(), texture.eval_nonaccel(spots).numpy()
    # (Between two texels, either may be the nearest.)
    assert np.mean(found != expected) < 1e-3


def test_texture_units_see_changes(gpu: CudaDevice) -> None:
    texture, spots, _ = texture_of(2, 1)
    texture.eval(spots)
    texture.set_value(texture.value() * 0 + 3)
    assert np.all(texture.eval(spots).numpy() == 3)
    texture.tensor()[:] = 5
    assert np.all(texture.eval(spots).numpy() == 5)


def test_textures_live_until_lookups_are_done(gpu: CudaDevice) -> None:
    texture, spots, _ = texture_of(3, 4)
    expected = texture.eval_nonaccel(spots).numpy()
    found = texture.eval(spots)
    del texture
    for _ in range(3):
        other, more, _ = texture_of(3, 4)
        dr.eval(other.eval(more) * 2)
    np.testing.assert_allclose(found.numpy(), expected, atol=0.02)


def test_lookups_in_loops(gpu: CudaDevice) -> None:
    texture, (x, y), _ = texture_of(2, 2)

    @dr.syntax
    def walk(x: Any, y: Any, lookup: Any) -> Any:
        i, total = cuda.UInt(0), cuda.Float(0)
        while i < 5:
            found = lookup([x + cuda.Float(i) * 0.1, y])
            if found.x > 0.5:
                total += found.y
            total += found.x
            i += 1
        return total

    found = walk(x, y, texture.eval)
    assert has_lookups(found)
    expected = walk(x, y, texture.eval_nonaccel).numpy()
    # (A branch may go the other way.)
    assert np.mean(np.abs(found.numpy() - expected) > 0.05) < 0.02


def test_what_is_tracked_is_looked_up_by_arithmetic(gpu: CudaDevice) -> None:
    texels = np.random.default_rng(1).random((6, 7, 3), np.float32)
    texture = cuda.ad.Texture2f(cuda.ad.TensorXf(texels))
    x, y = (dr.linspace(cuda.ad.Float, 0.1, 0.9, 9) for _ in range(2))
    assert has_lookups(texture.eval([x, y]))
    dr.enable_grad(x)
    found = texture.eval([x, y])
    assert not has_lookups(found)
    dr.backward(dr.sum(found.x))
    plain = llvm.ad.Texture2f(llvm.ad.TensorXf(texels))
    u, v = (dr.linspace(llvm.ad.Float, 0.1, 0.9, 9) for _ in range(2))
    dr.enable_grad(u)
    dr.backward(dr.sum(plain.eval([u, v]).x))
    np.testing.assert_allclose(dr.grad(x).numpy(), dr.grad(u).numpy(), rtol=1e-5)
