"""Arrays that other frameworks read in memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import MissingPackageError

ARRAYS = [
    llvm.Float(1, 2, 3),
    ad.Float64(1, 2, 3),
    llvm.UInt8(1, 2),
    llvm.Int64(-1, 2),
    llvm.Bool(True, False),
    llvm.Float16(1, 2),
    llvm.Array3f([1, 2], 3, [4, 5]),
    llvm.TensorXf([[1, 2, 3], [4, 5, 6]]),
    llvm.Matrix2f(1, 2, 3, 4),
    scalar.Array3f(1, 2, 3),
    llvm.Float(),
]


@pytest.mark.host("NumPy takes what the CPU has")
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: type(a).__name__)
def test_dlpack(array) -> None:
    found = np.from_dlpack(array)
    np.testing.assert_array_equal(found, array.numpy())
    assert found.dtype == array.numpy().dtype
    assert array.__dlpack_device__() == (1, 0)


@pytest.mark.host("views of a device's memory are copies")
@pytest.mark.parametrize("module", [llvm, scalar])
def test_arrays_are_made_of_what_only_has_dlpack(module) -> None:
    class Foreign:
        def __init__(self, array) -> None:
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    numbers = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    found = module.TensorXf(Foreign(numbers))
    assert found.numpy().tolist() == numbers.tolist()
    assert list(module.ArrayXi(Foreign(np.arange(3)))) == [0, 1, 2]


def test_flat_arrays_are_not_copied() -> None:
    x = dr.opaque(llvm.Float, 1, shape=4)
    np.from_dlpack(x)
    view = x.numpy()
    view[1] = 5
    assert np.from_dlpack(x)[1] == 5


@pytest.mark.host("NumPy takes what the CPU has")
def test_what_a_derivative_needs_is_copied() -> None:
    x = ad.Float(1, 2, 3)
    dr.enable_grad(x)
    y = x * x
    copy = np.from_dlpack(x)
    assert copy.tolist() == [1, 2, 3]
    dr.backward(y)
    assert x.grad.numpy().tolist() == [2, 4, 6]


@pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
def test_a_missing_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, f"{name}.numpy", None)
    method = {"tensorflow": "tf"}.get(name, name)
    with pytest.raises(MissingPackageError, match=f"{name}.*is not installed"):
        getattr(llvm.Float(1), method)()


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: type(a).__name__)
def test_torch(array) -> None:
    torch = pytest.importorskip("torch")
    found = array.torch()
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.cpu().numpy(), array.numpy())


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: type(a).__name__)
def test_jax(array) -> None:
    jax = pytest.importorskip("jax")
    found = array.jax()
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(np.array(found), array.numpy())


def test_arrays_are_made_of_foreign_ones() -> None:
    torch = pytest.importorskip("torch")
    assert list(llvm.Float(torch.tensor([1.0, 2.0]))) == [1, 2]
    assert llvm.TensorXf(torch.ones(2, 3)).shape == (2, 3)
    assert llvm.Array2f(torch.ones(2, 3)).shape == (2, 3)
