"""Arrays of the `cuda` namespace without a device: traced, and shown as PTX."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import backend, cuda, llvm
from lumijit.compiler.ir import placement
from lumijit.compiler.launch import evaluate
from lumijit.cuda import Array3f, Bool, Float, Float64, Int, TensorXf, UInt
from lumijit.runtime import nvptx
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, BackendError
from tests.emulated_device import emulated
from tests.tools.assembling import assemble

pytestmark = [pytest.mark.host("devices besides"), pytest.mark.usefixtures("no_gpu")]

NO_DEVICE = r"lumijit\.cuda: there is no device: .* Fix: compute with the types of"


@pytest.fixture(autouse=True)
def _no_writes_pending() -> Iterator[None]:
    yield
    with contextlib.suppress(BackendError):
        dr.eval()


@dr.syntax
def loop(x: Any) -> Any:
    i = dr.uint32_array_t(type(x))(0)
    while i < 10:
        x = dr.sin(x) * 2
        if x > 1:
            x -= 1
        i += 1
    return x


def gradient(m: Any) -> Any:
    x = dr.arange(m.ad.Float, 10)
    dr.enable_grad(x)
    y = dr.sin(x) * dr.exp(x)
    dr.backward(y)
    return dr.grad(x)


def called(m: Any) -> Any:
    bodies = [lambda x: x + 1, lambda x: dr.exp(x), lambda x: x * x]
    return dr.switch(dr.arange(m.UInt, 10) % 3, bodies, dr.arange(m.Float, 10))


def written(m: Any) -> Any:
    target = dr.zeros(m.Float, 5)
    dr.scatter_add(target, dr.arange(m.Float, 10), dr.arange(m.UInt, 10) // 2)
    return target


def local(m: Any) -> Any:
    buffer = dr.alloc_local(m.Float, 3, m.Float(1))
    buffer[dr.arange(m.UInt, 9) % 2] = dr.arange(m.Float, 9)
    return buffer[dr.arange(m.UInt, 9) % 3]


def texture(m: Any) -> Any:
    made = m.Texture2f((4, 4), 1)
    made.set_value(m.Float(np.arange(16)))
    return made.eval(m.Array2f(dr.linspace(m.Float, 0, 1, 10), 0.5))[0]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda m: dr.fma(dr.arange(m.Float, 10), 2, 1),
    "data": lambda m: m.Float([1, 2, 3]) + m.Float(np.ones(3)),
    "masks": lambda m: dr.select(dr.arange(m.Int, 10) > 3, m.Int(1), 2),
    "nested": lambda m: dr.norm(m.Array3f(dr.arange(m.Float, 10), 1, 2)),
    "matrix": lambda m: (
        (m.Matrix2f(1, 2, 3, 4) @ m.Array2f(dr.arange(m.Float, 9), 1)).x
    ),
    "complex": lambda m: dr.exp(m.Complex2f(0, dr.linspace(m.Float, 0, 1, 9))).real,
    "random": lambda m: m.PCG32(10).next_float32(),
    "grid": lambda m: dr.meshgrid(dr.arange(m.Float, 3), dr.arange(m.Float, 4))[0],
    "opaque": lambda m: dr.opaque(m.Float, 2, 3) * 2,
    "gather": lambda m: dr.gather(m.Float, m.Float(1, 2, 3), dr.arange(m.UInt, 9) % 3),
    "loop": lambda m: loop(dr.arange(m.Float, 10)),
    "call": called,
    "gradient": gradient,
    "write": written,
    "texture": texture,
    "tensor": lambda m: (m.TensorXf(np.ones((2, 3))) * 2).array,
    "local": local,
}


def without_numbers(text: str) -> str:
    """LLVM numbers the calls of all modules."""
    return re.sub("callseq [0-9]+", "", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_traced_as_those_of_the_cpu(name: str, tmp_path: Path) -> None:
    """Their code is the same, and computing them says what is missing."""
    ours, theirs = PROGRAMS[name](cuda), PROGRAMS[name](llvm)
    assert type(ours).__module__.startswith("lumijit.cuda")
    assert len(ours) == len(theirs)
    texts = dr.ptx(ours)
    assert texts
    assert list(map(without_numbers, texts)) == [*map(without_numbers, dr.ptx(theirs))]
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.ptx"
        path.write_text(text)
        if nvptx.assembler():
            assemble(path)
    with pytest.raises(BackendError, match=NO_DEVICE):
        dr.eval(ours)
    dr.eval(theirs)
    assert np.isfinite(theirs.numpy()).all()


@pytest.mark.parametrize(
    "ask",
    [
        repr,
        lambda x: x[1],
        lambda x: x.numpy(),
        list,
        dr.sum,
        dr.prefix_sum,
        dr.sort,
        lambda x: dr.compress(x > 1),
        lambda x: dr.any(x > 1),
        lambda x: dr.block_sum(x, 3),
        dr.make_opaque,
        llvm.Float,
    ],
)
def test_contents_need_a_device(ask: Any) -> None:
    for x in (dr.arange(Float, 6) + 1, Float(1, 2, 3) + 1):
        with pytest.raises(BackendError, match=NO_DEVICE):
            ask(x)
    assert (dr.arange(llvm.Float, 3) + 1)[1] == 2


def test_data_of_the_host_is_read_without_a_device() -> None:
    """It goes to the device when a kernel needs it."""
    assert repr(Float(1, 2, 3)) == "[1, 2, 3]"
    assert Float(7)[0] == 7
    assert Float(dr.arange(llvm.Float, 3) * 2).numpy().tolist() == [0, 2, 4]
    assert TensorXf(np.ones((2, 2))).shape == (2, 2)
    x, y = Float(5), Float(6)
    x.numpy()
    dr.make_opaque(y)
    for made in (x, y, Float(1, 2), dr.opaque(Float, 1)):
        with pytest.raises(BackendError, match=NO_DEVICE):
            dr.eval(made + 1)
    with pytest.raises(BackendError, match=NO_DEVICE):
        dr.sum(Float(1, 2, 3))


def test_nodes_of_backends_are_different() -> None:
    x, y = dr.arange(Float, 5) * 2, dr.arange(llvm.Float, 5) * 2
    assert x._node is not y._node
    assert (dr.arange(Float, 5) * 2)._node is x._node
    dr.eval(y)
    with pytest.raises(BackendError, match=NO_DEVICE):
        dr.eval(x)


def test_devices_are_found_inside_of_regions() -> None:
    @dr.syntax
    def program() -> Float:
        i, x = UInt(0), dr.zeros(Float, 4)
        while i < 3:
            x += dr.arange(Float, 4)
            i += 1
        return x

    with pytest.raises(BackendError, match=NO_DEVICE):
        dr.eval(program())


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, y: x + y,
        lambda x, y: dr.select(x > 1, x, y),
        lambda x, y: dr.fma(x, y, 1),
        lambda x, y: Array3f(1, 2, x) + llvm.Array3f(1, 2, y),
        lambda x, y: dr.gather(Float, y, UInt(0)),
        lambda x, y: dr.scatter(x, y, UInt(0)),
        lambda x, y: dr.concat((x, y)),
        lambda x, y: dr.reinterpret_array(UInt, y),
        lambda x, y: dr.atan2(x, y),
    ],
)
def test_backends_dont_mix(mix: Any) -> None:
    x, y = dr.arange(Float, 3), dr.arange(llvm.Float, 3)
    expected = "backends '(cuda|llvm)' and '(cuda|llvm)' don't mix"
    with pytest.raises(ArrayTypeError, match=expected):
        mix(x, y)


def test_automatic_types_can_be_those_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    dr.set_backend("cuda")
    try:
        assert dr.auto.Float is Float  # type: ignore[comparison-overlap]
        assert dr.auto.ad.Float is cuda.ad.Float  # type: ignore[comparison-overlap]
    finally:
        dr.set_backend(dr.JitBackend.LLVM)
    assert dr.auto.Float is llvm.Float
    # What nobody has chosen is what there is.
    monkeypatch.setattr(backend, "_current", "")
    assert dr.auto.Float is llvm.Float
    with emulated():
        monkeypatch.setattr(backend, "_current", "")
        assert dr.auto.Float is Float  # type: ignore[comparison-overlap]
        assert dr.has_backend(dr.JitBackend.CUDA)
    assert dr.has_backend(dr.JitBackend.LLVM)
    assert not dr.has_backend(dr.JitBackend.CUDA)
    assert not dr.has_backend(dr.JitBackend.Invalid)


def test_types_of_results() -> None:
    assert type(dr.arange(Int, 3) + Float64(1)) is Float64
    assert type(dr.arange(Int, 3) > 1) is Bool
    assert dr.backend_v(dr.arange(Float, 3)) is dr.JitBackend.CUDA


def test_kernels_that_need_others_have_no_ptx_yet() -> None:
    x = dr.arange(Float, 9) + 1
    source = dr.select(loop(x) > 1, dr.sin(x), dr.cos(x))
    y = dr.gather(Float, source, UInt(dr.sqrt(x)))
    with pytest.raises(ArrayValueError, match="take 2 kernels one after the other"):
        dr.ptx(y)
    assert dr.ptx() == dr.ptx(Float(1)) == dr.ptx(Float(1, 2)) == []
    assert len(dr.ptx(x, dr.arange(Float, 5) + 1)) == 2
    (text,) = dr.ptx([x], processor="sm_90")
    assert ".target sm_90" in text


def test_without_arrays_of_devices_nothing_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (placement, evaluate):
        monkeypatch.setattr(module, "used", set())
    monkeypatch.setattr(placement, "by_device", None)
    assert (dr.arange(llvm.Float, 3) + 1)[1] == 2


def test_arrays_of_the_host_are_written_in_place_beside_others() -> None:
    """What looks for devices mustn't hold what it has looked at."""
    others = dr.arange(cuda.Float, 3)
    x = dr.arange(llvm.Float, 1000) + 1
    dr.eval(x)
    memory = x._node.buffer
    dr.scatter(x, llvm.Float(7), llvm.UInt(5))
    dr.eval(x)
    assert x._node.buffer is memory
    assert (x[5], dr.width(others)) == (7, 3)
