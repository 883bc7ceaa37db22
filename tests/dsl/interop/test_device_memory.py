"""Arrays of a device that other libraries see, by DLPack and CUDA's array interface.

The device is emulated, so nothing else can read its memory: stand-ins speak the
protocols of the other side.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda, llvm
from lumijit.interop.dlpack import Contents, Taken, capsule_of
from lumijit.runtime import cuda as driver
from lumijit.runtime.dtypes import from_numpy
from lumijit.runtime.errors import (
    ArrayAttributeError,
    ArrayTypeError,
    ArrayValueError,
    BackendError,
    ExchangeError,
    RecordingError,
    SymbolicError,
)
from tests.emulated_device import EmulatedDevice, emulated

pytestmark = pytest.mark.host("devices besides")
THEIRS = 77


@pytest.fixture
def emu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDevice]:
    with emulated() as made:
        monkeypatch.setattr(driver, "number_at", lambda address: 0)
        yield made


class Foreign:
    """An array of another library in the device's memory, of which it makes capsules.

    `offset` is where it begins in its memory, in bytes.
    """

    def __init__(self, emu: EmulatedDevice, data: Any, offset: int = 0) -> None:
        self.data = np.ascontiguousarray(data)
        self.emu = emu
        self.memory = emu.allocate(self.data.nbytes + offset)
        self.address = self.memory.address + offset
        self.put(self.data)
        self.strides: Any = None
        self.asked: list[Any] = []
        self.released = 0

    def put(self, data: Any) -> None:
        """Write to the memory, as the library might."""
        self.emu.write(self.address, np.ascontiguousarray(data).tobytes())

    def release(self) -> None:
        self.released += 1


class ByCapsule(Foreign):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.emu.id.number)

    def __dlpack__(self, stream: Any = None) -> Any:
        self.asked.append(stream)
        device = self.__dlpack_device__()
        shape, dtype = self.data.shape, self.data.dtype
        contents = Contents(self.address, dtype, shape, self.strides, device)
        return capsule_of(contents, self.release)


class ByInterface(Foreign):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        strides = self.strides and tuple(4 * s for s in self.strides)
        return {
            "shape": self.data.shape,
            "typestr": self.data.dtype.str,
            "data": (self.address, False),
            "strides": strides,
            "stream": THEIRS,
            "version": 3,
        }


KINDS = [ByCapsule, ByInterface]


def address_of(array: Any) -> int:
    return int(array._node.buffer.address)


def contents(emu: EmulatedDevice, found: Contents | dict[str, Any]) -> Any:
    """Read what another library would."""
    if isinstance(found, dict):
        shape, dtype = found["shape"], np.dtype(found["typestr"])
        address = found["data"][0]
    else:
        address, dtype, shape = found[:3]
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(emu.copy_out(address, size), dtype).reshape(shape)


ARRAYS = {
    "flat": lambda: dr.arange(cuda.Float, 5) * 2,
    "literal": lambda: cuda.Float64(3),
    "zeros": lambda: dr.zeros(cuda.Int, 4),
    "mask": lambda: dr.arange(cuda.UInt, 5) > 2,
    "half": lambda: cuda.Float16(np.arange(3)),
    "of the host": lambda: cuda.Int64(np.arange(4)),
    "tensor": lambda: cuda.TensorXf(np.arange(6).reshape(2, 3)),
    "nested": lambda: cuda.Array3f(dr.arange(cuda.Float, 2), 7, [1, 2]),
    "matrix": lambda: cuda.Matrix2f(1, 2, 3, 4),
    "empty": lambda: cuda.Float(),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_given(emu: EmulatedDevice, name: str) -> None:
    array = ARRAYS[name]()
    assert array.__dlpack_device__() == (2, 0)
    taken = Taken(array.__dlpack__(), "test")
    assert taken.contents.device == (2, 0)
    read = contents(emu, taken.contents)
    np.testing.assert_array_equal(read, array.numpy())
    assert read.dtype == array.numpy().dtype
    if name in ("nested", "matrix"):
        with pytest.raises(ArrayAttributeError, match="hand it over by DLPack"):
            _ = array.__cuda_array_interface__
        return
    info = array.__cuda_array_interface__
    assert (info["version"], info["strides"], info["stream"]) == (3, None, emu.stream)
    np.testing.assert_array_equal(contents(emu, info), array.numpy())
    if name == "flat":
        assert taken.contents.address == info["data"][0] == address_of(array)


def test_arrays_of_the_cpu_have_no_such_interface() -> None:
    for array in (llvm.Float(1, 2), dr.scalar.Array3f(1)):
        assert not hasattr(array, "__cuda_array_interface__")
        assert array.__dlpack_device__() == (1, 0)


def test_streams_wait_for_what_was_launched(emu: EmulatedDevice) -> None:
    x = dr.arange(cuda.Float, 5) + 1
    for given, waits in ((None, 1), (1, 1), (2, 2), (THEIRS, THEIRS)):
        x.__dlpack__(stream=given)
        assert emu.ordered[-1] == (emu.stream, waits)
    emu.ordered.clear()
    x.__dlpack__(stream=-1)
    assert emu.ordered == []
    for wrong in (0, -2, "1", True):
        with pytest.raises(ExchangeError, match="names no stream of a GPU"):
            x.__dlpack__(stream=wrong)


def test_memory_comes_back_behind_what_others_do(emu: EmulatedDevice) -> None:
    for stream, order in ((1, (1, emu.stream)), (THEIRS, (0, emu.stream)), (-1, None)):
        x = dr.arange(cuda.Float, 1000) + 1
        taken = Taken(x.__dlpack__(stream=stream), "test")
        address = taken.contents.address
        del x
        emu.collect()
        assert emu.at_address(address) is not None
        emu.ordered.clear()
        del taken
        emu.collect()
        assert emu.ordered == ([order] if order else [])
        assert emu.at_address(address) is None


def test_a_capsule_that_nobody_takes_lets_go(emu: EmulatedDevice) -> None:
    x = dr.arange(cuda.Float, 1000) + 1
    capsule = x.__dlpack__()
    address = address_of(x)
    del x
    emu.collect()
    assert emu.at_address(address) is not None
    del capsule
    emu.collect()
    assert emu.at_address(address) is None


def test_the_interface_keeps_memory_as_long_as_the_array(emu: EmulatedDevice) -> None:
    x = dr.arange(cuda.Float, 1000) + 1
    info = x.__cuda_array_interface__
    assert x.__cuda_array_interface__ == info
    x += 1
    dr.eval(x)
    emu.collect()
    np.testing.assert_array_equal(contents(emu, info), np.arange(1000) + 1)
    del x
    gc.collect()
    emu.collect()
    assert emu.at_address(info["data"][0]) is None


def test_what_is_written_to_an_array_others_do_not_see(emu: EmulatedDevice) -> None:
    x = dr.arange(cuda.Float, 4) + 0
    taken = Taken(x.__dlpack__(), "test")
    x[1] = 7
    assert x.numpy().tolist() == [0, 7, 2, 3]
    assert contents(emu, taken.contents).tolist() == [0, 1, 2, 3]


def test_what_others_write_shows(emu: EmulatedDevice) -> None:
    x = dr.arange(cuda.Float, 4) + 0
    taken = Taken(x.__dlpack__(), "test")
    emu.write(taken.contents.address, np.full(4, 5, np.float32).tobytes())
    assert x.numpy().tolist() == [5] * 4


def test_what_a_derivative_needs_is_given_as_a_copy(emu: EmulatedDevice) -> None:
    x = cuda.ad.Float(np.arange(4))
    dr.enable_grad(x)
    y = x * x
    taken = Taken(x.__dlpack__(), "test")
    assert contents(emu, taken.contents).tolist() == [0, 1, 2, 3]
    emu.write(taken.contents.address, bytes(16))
    dr.backward(y)
    assert x.grad.numpy().tolist() == [0, 2, 4, 6]


def test_what_was_given_is_copied_when_a_derivative_needs_it(
    emu: EmulatedDevice,
) -> None:
    w = cuda.ad.Float(np.arange(4)) + 0
    taken = Taken(w.__dlpack__(), "test")
    x = dr.arange(cuda.ad.Float, 4)
    dr.enable_grad(x)
    y = x * w
    emu.write(taken.contents.address, bytes(16))
    dr.backward(y)
    assert x.grad.numpy().tolist() == [0, 1, 2, 3]


def test_copies_and_the_cpu(emu: EmulatedDevice) -> None:
    x = dr.arange(cuda.Float, 4) + 1
    copy = Taken(x.__dlpack__(copy=True), "test")
    assert copy.contents.address != address_of(x)
    assert contents(emu, copy.contents).tolist() == [1, 2, 3, 4]
    assert "dltensor" in repr(x.__dlpack__(dl_device=(1, 0)))
    assert "dltensor" in repr(x.__dlpack__(dl_device=(2, 0)))
    for options in ({"dl_device": (2, 1)}, {"dl_device": (1, 0), "copy": False}):
        with pytest.raises(ExchangeError, match=r"on device \(2, 0\), and are wanted"):
            x.__dlpack__(**options)


@dr.syntax
def symbolic(x: Any, method: str) -> Any:
    i = cuda.UInt(0)
    while i < 3:
        getattr(x, method) if "cuda" in method else x.__dlpack__()
        i += 1
        x += 1
    return x


@pytest.mark.parametrize("method", ["__dlpack__", "__cuda_array_interface__"])
def test_what_has_no_contents_is_not_given(emu: EmulatedDevice, method: str) -> None:
    with pytest.raises(SymbolicError, match=method):
        symbolic(dr.arange(cuda.Float, 3), method)
    f = dr.kernel(lambda x: (x + 1).__dlpack__() and x)
    with pytest.raises(RecordingError, match="contents of an array are read"):
        f(dr.arange(cuda.Float, 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u8", "f2", "?"])
def test_arrays_of_others_are_taken(emu: EmulatedDevice, kind: Any, dtype: str) -> None:
    theirs = kind(emu, np.array([1, 0, 1, 1, 0]).astype(dtype))
    cls = getattr(cuda, from_numpy(theirs.data.dtype).name)  # type: ignore[union-attr]
    x = cls(theirs)
    assert address_of(x) == theirs.address
    assert x.numpy().tolist() == theirs.data.tolist()
    if kind is ByCapsule:
        assert theirs.asked == [emu.stream]
    else:
        assert emu.ordered == [(THEIRS, emu.stream)]
    assert (cuda.Float(theirs) * 2).numpy().tolist() == [2, 0, 2, 2, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_have_the_shape_of_others(emu: EmulatedDevice, kind: Any) -> None:
    theirs = kind(emu, np.arange(6, dtype=np.float32).reshape(2, 3))
    for strides in (None, (3, 1)):
        theirs.strides = strides
        x = cuda.TensorXf(theirs)
        assert x.shape == (2, 3)
        assert address_of(x.array) == theirs.address
        np.testing.assert_array_equal((x + 1).numpy(), theirs.data + 1)
    with pytest.raises(ArrayTypeError, match=r"has 2 dimensions \(expected 1\)"):
        cuda.Float(theirs)
    theirs.strides = (1, 2)
    message = r"aren't in order \(shape \(2, 3\), strides \(1, 2\)\)"
    with pytest.raises(ArrayValueError, match=message):
        cuda.TensorXf(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_kernels_cannot_use_is_copied(
    emu: EmulatedDevice, kind: Any
) -> None:
    theirs = kind(emu, np.arange(5, dtype=np.float32), offset=4)
    x = cuda.Float(theirs)
    assert address_of(x) != theirs.address
    theirs.put(np.zeros(5, np.float32))
    assert x.numpy().tolist() == [0, 1, 2, 3, 4]


def test_arrays_of_others_live_as_long_as_they_are_needed(emu: EmulatedDevice) -> None:
    theirs = ByCapsule(emu, np.arange(5, dtype=np.float32))
    x = cuda.Float(theirs)
    y = x + 1
    del x
    emu.collect()
    assert theirs.released == 0
    dr.eval(y)
    emu.wait()
    emu.collect()
    assert theirs.released == 1
    assert y.numpy().tolist() == [1, 2, 3, 4, 5]


def test_arrays_of_others_are_not_written_to(emu: EmulatedDevice) -> None:
    theirs = ByCapsule(emu, np.arange(5, dtype=np.float32))
    x = cuda.Float(theirs)
    x[1] = 9
    dr.scatter_add(x, cuda.Float(1), cuda.UInt(0))
    assert x.numpy().tolist() == [1, 9, 2, 3, 4]
    assert cuda.Float(theirs).numpy().tolist() == [0, 1, 2, 3, 4]


def test_derivatives_keep_what_others_may_write_to(emu: EmulatedDevice) -> None:
    theirs = ByInterface(emu, np.arange(4, dtype=np.float32))
    x = cuda.ad.Float(theirs)
    dr.enable_grad(x)
    y = x * x
    theirs.put(np.zeros(4, np.float32))
    dr.backward(y)
    assert x.grad.numpy().tolist() == [0, 2, 4, 6]


def test_collectives_of_memory_of_others(emu: EmulatedDevice) -> None:
    theirs = ByCapsule(emu, np.arange(5000, dtype=np.int32)[::-1])
    x = cuda.Int(theirs)
    assert dr.sum(x)[0] == 5000 * 4999 // 2
    np.testing.assert_array_equal(dr.sort(x).numpy(), np.arange(5000))
    step = dr.kernel(lambda v, k: dr.prefix_sum(v) * k)
    for k in (2, 3):
        expected = (np.cumsum(theirs.data) - theirs.data) * k
        np.testing.assert_array_equal(step(cuda.Int(theirs), k).numpy(), expected)


def test_what_no_array_can_be(emu: EmulatedDevice) -> None:
    theirs: Any = ByInterface(emu, np.arange(4, dtype=np.complex64))
    with pytest.raises(ArrayTypeError, match="dtype complex64 have no counterpart"):
        cuda.Float(theirs)
    theirs = ByInterface(emu, np.arange(4, dtype=np.float32))

    class Wrong:
        def __init__(self, **fields: Any) -> None:
            self.__cuda_array_interface__ = {
                **theirs.__cuda_array_interface__,
                **fields,
            }

    with pytest.raises(ArrayTypeError, match="entries of the array are masked"):
        cuda.Float(Wrong(mask=object()))
    with pytest.raises(ArrayValueError, match="names the stream 0, which is none"):
        cuda.Float(Wrong(stream=0))
    assert cuda.Float(Wrong(stream=None)).numpy().tolist() == [0, 1, 2, 3]
    assert len(cuda.Float(Wrong(shape=(0,), data=(0, False)))) == 0

    class NoCapsule(ByCapsule):
        def __dlpack__(self, stream: Any = None) -> Any:
            return 3

    with pytest.raises(ArrayTypeError, match="something else than an unused capsule"):
        cuda.Float(NoCapsule(emu, np.arange(3)))
    capsule = ByCapsule(emu, np.arange(3)).__dlpack__()
    Taken(capsule, "test")
    with pytest.raises(ArrayTypeError, match="something else than an unused capsule"):
        Taken(capsule, "test")


@pytest.mark.parametrize("name", ["torch", "jax.dlpack", "tensorflow"])
def test_frameworks_take_what_the_device_has(
    emu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def from_dlpack(given: Any) -> Any:
        return Taken(given if name == "tensorflow" else given.__dlpack__(), name)

    module: Any = types.ModuleType(name)
    module.from_dlpack = from_dlpack
    module.experimental = types.SimpleNamespace(dlpack=module)
    monkeypatch.setitem(sys.modules, name.partition(".")[0], module)
    monkeypatch.setitem(sys.modules, name, module)
    x = dr.arange(cuda.Float, 5) + 1
    method = {"torch": x.torch, "jax.dlpack": x.jax, "tensorflow": x.tf}[name]
    assert method().contents.address == address_of(x)


def test_arrays_of_another_device() -> None:
    with emulated(0) as first, emulated(1) as second:
        x = cuda.Float(ByCapsule(second, np.arange(3, dtype=np.float32)))
        assert (x * 2).numpy().tolist() == [0, 2, 4]
        assert x.__dlpack_device__() == (x * 2).__dlpack_device__() == (2, 1)
        assert not first.launched
        assert second.launched
        with pytest.raises(BackendError, match="several devices meet"):
            dr.eval(x + dr.arange(cuda.Float, 3))
