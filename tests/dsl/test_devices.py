"""Arrays of `lumijit.cuda` on an emulated device: computed as those of the CPU are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda, llvm
from lumijit.compiler.ir import placement, trace
from lumijit.compiler.launch import evaluate, transfer
from lumijit.runtime import buffers, device
from lumijit.runtime.device import DeviceId
from lumijit.runtime.dtypes import FLOAT32
from lumijit.runtime.errors import AllocationError, BackendError
from tests.dsl.test_cuda import PROGRAMS, loop
from tests.emulated_device import EmulatedDevice, emulated

pytestmark = pytest.mark.host("devices besides")


@pytest.fixture(scope="module")
def shared() -> Iterator[EmulatedDevice]:
    with emulated() as made:
        yield made


def halves(m: Any) -> Any:
    """Evaluated loops read conditions, and write to what they carry."""
    x, n = dr.arange(m.UInt, 7) * 5, dr.zeros(m.UInt, 7)

    def body(x: Any, n: Any) -> Any:
        return x // 2, n + 1

    _, n = dr.while_loop((x, n), lambda x, n: x > 0, body, mode="evaluated")
    return n


def derivative_of_a_loop(m: Any) -> Any:
    x = dr.linspace(m.ad.Float, 0.1, 1, 33)
    dr.enable_grad(x)
    dr.backward(dr.sum(loop(x)))
    return dr.grad(x)


def forward(m: Any) -> Any:
    x = m.ad.Float(np.linspace(0, 1, 9))
    dr.enable_grad(x)
    y = dr.exp(x) * dr.gather(m.ad.Float, x, dr.arange(m.UInt, 9) // 2)
    dr.forward(x)
    return dr.grad(y)


class Shape:
    def __init__(self, m: Any, size: float) -> None:
        self.size = m.Float(size)
        self.table = m.Float(np.arange(4) * size)

    def area(self, x: Any, i: Any) -> Any:
        return self.size * x + dr.gather(type(x), self.table, i)


def instances(m: Any) -> Any:
    """Tables of calls hold addresses, and values that kernels compute."""
    shapes = [Shape(m, 1.5), Shape(m, 2.5), Shape(m, 3.5)]
    shapes[1].size = dr.opaque(m.Float, 7)
    x = dr.arange(m.Float, 12)
    index = dr.arange(m.UInt, 12)
    return dr.switch(index % 3, [s.area for s in shapes], x, index % 4)


def in_place(m: Any) -> Any:
    x = m.Float(np.arange(5))
    y = m.Float(x)
    x[1] = 7
    x[m.Float(x) > 2] = 0
    return dr.concat((x, y))


def counted(m: Any, is_joined: bool) -> Any:
    """A loop writes to what is made of literals, and the device needs what it finds."""

    def count(counter: Any, start: Any) -> Any:
        def body(i: Any, found: Any) -> Any:
            return i + 1, found + dr.scatter_inc(counter, dr.zeros(m.UInt, 9))

        return dr.while_loop((start, dr.zeros(m.UInt, 9)), lambda i, _: i < 3, body)[1]

    counters = [dr.zeros(m.UInt, 1) for _ in range(2)]
    found, beside = (count(counter, dr.zeros(m.UInt, 9)) for counter in counters)
    total = dr.zeros(m.UInt, 9)
    if is_joined:
        # The second loop is for the device, too: this write needs what both find.
        dr.scatter(total, (found + beside) >> 20, dr.zeros(m.UInt, 9))
    # (In which order elements count is another matter.)
    result = (found >> 20) + dr.arange(m.UInt, 9)
    dr.eval(result)
    return dr.concat((result, total, *counters))


def products(m: Any) -> Any:
    x = dr.reshape(m.TensorXf, dr.arange(m.Float, 12) / 7, (3, 4))
    return (x @ dr.reshape(m.TensorXf, dr.arange(m.Float, 8) / 3, (4, 2))).array


def private_sum(m: Any) -> Any:
    target = dr.zeros(m.Float, 4)
    x = dr.arange(m.Float, 1000) % 8
    dr.scatter_reduce(dr.ReduceOp.Add, target, x, m.UInt(x) % 4)
    return target


def buffers_of_threads(m: Any) -> Any:
    """A large local buffer is in memory of the device, too."""
    buffer = dr.alloc_local(m.Float, 20_000, m.Float(1))
    index = dr.arange(m.UInt, 9) * 11
    buffer[index] = dr.arange(m.Float, 9)
    return buffer[index] + buffer[index + 1]


MORE: dict[str, Callable[[Any], Any]] = {
    "evaluated loop": halves,
    "derivative of a loop": derivative_of_a_loop,
    "forward": forward,
    "instances": instances,
    "in place": in_place,
    "counted": lambda m: counted(m, False),
    "counted, joined": lambda m: counted(m, True),
    "product": products,
    "scatter_reduce": private_sum,
    "large local memory": buffers_of_threads,
    "sum": lambda m: dr.sum(dr.arange(m.UInt, 100_001)),
    "literal": lambda m: dr.sum(dr.full(m.Float, 0.5, 1000)),
    "mean": lambda m: dr.mean(dr.linspace(m.Float64, 0, 1, 777)),
    "min": lambda m: dr.min(dr.cos(dr.arange(m.Float, 100))),
    "all": lambda m: dr.all(dr.arange(m.Int, 100) < 99),
    "block_sum": lambda m: dr.block_sum(dr.arange(m.UInt, 120), 8),
    "long blocks": lambda m: dr.block_sum(dr.arange(m.UInt, 1200), 300),
    "prefix": lambda m: dr.prefix_sum(dr.arange(m.UInt, 5001)),
    "cumsum": lambda m: dr.cumsum(dr.arange(m.UInt, 5001) % 7),
    "compress": lambda m: dr.compress(dr.arange(m.UInt, 4001) % 3 == 1),
    "sort": lambda m: dr.sort(dr.sin(dr.arange(m.Float, 5000))),
    "argsort": lambda m: dr.argsort(dr.sin(dr.arange(m.Float, 999))),
    "axis": lambda m: dr.sum(dr.ones(m.TensorXf, (70, 3)) * 2, axis=0).array,
    "half": lambda m: dr.arange(m.Float16, 20) * 0.1,
    "bools": lambda m: dr.select((dr.arange(m.Int, 9) & 1) == 0, 1, 0) == 1,
    "empty": lambda m: m.Float(dr.arange(m.Float, 0)),
    "cut": lambda m: dr.arange(m.Float, 10)[2:7] + 1,
    "numbers": lambda m: dr.rng(seed=3).uniform(m.Float, 33),
    "repeat": lambda m: dr.tile(dr.repeat(dr.arange(m.Float, 5), 3), 2),
    "fetched": lambda m: dr.scatter_inc(dr.zeros(m.UInt, 1), dr.zeros(m.UInt, 9)) * 0,
    "indices": lambda m: dr.arange(m.Float, 10)[dr.arange(m.UInt, 4) * 2],
}


def test_what_others_may_write_to_is_copied_by_the_host(
    shared: EmulatedDevice,
) -> None:
    tracked = dr.arange(cuda.ad.Float, 3)
    dr.enable_grad(tracked)
    assert instances(cuda).numpy().tolist() == instances(llvm).numpy().tolist()
    del tracked


@pytest.mark.parametrize("name", [*PROGRAMS, *MORE])
def test_programs_give_what_they_give_on_the_cpu(
    shared: EmulatedDevice, name: str
) -> None:
    program = PROGRAMS.get(name) or MORE[name]
    expected = program(llvm).numpy()
    shared.launched.clear()
    made = program(cuda)
    assert type(made).__module__.startswith("lumijit.cuda")
    dr.eval(made)
    if made._node.buffer is not None and name not in ("empty", "literal"):
        assert made._node.buffer.device is shared
        assert shared.launched
    found = made.numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    assert made.numpy() is not found
    entries = np.array([made[k] for k in range(min(3, len(made)))], found.dtype)
    np.testing.assert_array_equal(entries, found[:3])
    assert type(made)(made.numpy()).numpy().tolist() == found.tolist()


def test_generators_of_either_backend_are_loop_state(shared: EmulatedDevice) -> None:
    found = []
    for chosen in ("llvm", "cuda"):
        dr.set_backend(chosen)
        try:
            for m in (llvm, cuda):
                state = dr.rng(4), dr.zeros(m.Float, 8), dr.zeros(m.UInt, 8)

                def body(rng: Any, total: Any, i: Any) -> Any:
                    return rng, total + rng.random(type(total), 8), i + 1

                _, total, _ = dr.while_loop(state, lambda rng, total, i: i < 3, body)
                found.append(total.numpy().tolist())
        finally:
            dr.set_backend("llvm")
    assert found == found[:1] * 4


def test_prints_and_checks(
    shared: EmulatedDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    x = dr.arange(cuda.Float, 4) + 1
    assert str(x) == "[1, 2, 3, 4]"

    @dr.syntax
    def program(x: Any) -> Any:
        i = cuda.UInt(0)
        while i < 2:
            dr.print("i={i}, x={x}", i=i, x=x, active=x > 3)
            i += 1
        return x * i

    dr.eval(program(x))
    assert capsys.readouterr().out == "i=[0, 1], x=[4, 4]\n"
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        dr.assert_true(x > 0)
        with pytest.raises(AssertionError):
            dr.assert_true(x > 1)
    assert shared.launched


def test_memory_goes_back(shared: EmulatedDevice) -> None:
    x = dr.arange(cuda.Float, 1000) + 1
    dr.eval(x)
    before = shared.live_bytes
    y = x * 2
    dr.eval(y)
    assert shared.live_bytes == before + 4032
    del y
    shared.collect()
    assert shared.live_bytes == before


def test_data_goes_to_the_device_once(shared: EmulatedDevice) -> None:
    data = np.arange(16, dtype=np.float32)
    x = cuda.Float(data)
    assert x._node.buffer is not None
    assert x._node.buffer.device is None
    view = x.numpy()
    view[0] = 5
    assert x[0] == 0
    dr.eval(x + 1)
    buffer = x._node.buffer
    assert buffer is not None
    assert buffer.device is shared
    data[0] = 9
    assert x[0] == 0


def test_the_first_array_may_be_a_number(
    shared: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "used", set())
    monkeypatch.setattr(evaluate, "used", placement.used)
    x = dr.opaque(dr.cuda.Float, 2, 70)
    buffer = x._node.buffer
    assert buffer is not None
    assert buffer.device is shared
    assert placement.used
    large = dr.opaque(dr.cuda.Float, 3, 5000)
    found = (x + 1).numpy(), (large * large).numpy()
    assert [set(a) for a in found] == [{3}, {9}]


def test_both_backends_at_once(shared: EmulatedDevice) -> None:
    """What is computed together goes to the device that it belongs to."""
    x, y = dr.arange(cuda.Float, 5) * 2, dr.arange(llvm.Float, 5) * 2
    dr.eval(x, y)
    assert x._node.buffer is not None
    buffer = x._node.buffer
    assert buffer is not None
    assert buffer.device is shared
    assert y._node.buffer is not None
    assert y._node.buffer.device is None
    assert llvm.Float(x).numpy().tolist() == y.numpy().tolist()
    assert cuda.Float(y).numpy().tolist() == y.numpy().tolist()
    z = cuda.Float(y) + x
    assert z.numpy().tolist() == [0, 4, 8, 12, 16]


def test_kernels_of_devices_are_kept_apart(shared: EmulatedDevice) -> None:
    dr.eval(dr.sqrt(cuda.Float(np.ones(5))))
    shared.launched.clear()
    dr.eval(dr.sqrt(cuda.Float(np.ones(6))))
    dr.eval(dr.sqrt(llvm.Float(np.ones(5))))
    assert len(shared.launched) == 1
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        dr.eval(dr.sqrt(cuda.Float(np.ones(7))))
        dr.sum(dr.arange(llvm.Float, 7) + 1)
        mine, *others = dr.kernel_history()
    assert mine["backend"] is dr.JitBackend.CUDA
    assert mine["cache_hit"]
    assert mine["execution_time"] > 0
    assert {entry["backend"] for entry in others} == {dr.JitBackend.LLVM}


def test_kernels_come_from_disk() -> None:
    def built() -> Any:
        dr.flush_kernel_cache()
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            dr.eval(dr.cbrt(dr.arange(cuda.Float, 11)))
            (entry,) = dr.kernel_history()
        return entry

    with emulated():
        first = built()
    with emulated():
        assert built()["cache_disk"]
        assert built()["hash"] == first["hash"]


def test_recorded_functions_run_as_they_are(shared: EmulatedDevice) -> None:
    calls = []

    @dr.kernel
    def step(x: Any) -> Any:
        calls.append(x)
        return dr.sin(x) + 1

    for k in range(3):
        x = dr.arange(cuda.Float, 5) + k
        expected = np.sin(np.arange(5, dtype=np.float32) + np.float32(k)) + 1
        np.testing.assert_allclose(step(x).numpy(), expected, rtol=1e-6)
    assert len(calls) == 3


def test_other_threads_compute_on_the_host(shared: EmulatedDevice) -> None:
    with placement.there([(dr.arange(cuda.Float, 3) + 1)._node]):
        assert device.present() is shared
        with device.on(None):
            assert device.present() is device.HOST
        assert device.present() is shared
    assert device.present() is device.HOST


@contextlib.contextmanager
def two_devices() -> Iterator[tuple[EmulatedDevice, EmulatedDevice]]:
    with emulated() as first, emulated(1) as second:
        yield first, second


def test_arrays_of_two_devices_dont_meet() -> None:
    with two_devices():
        made = [
            trace.from_buffer(FLOAT32, node.buffer, 4)  # type: ignore[arg-type]
            for node in (
                evaluate.from_numpy(np.ones(4, np.float32)),
                evaluate.from_numpy(np.ones(4, np.float32)),
            )
        ]
        placed = [
            placement.placed(node, DeviceId("cuda", k)) for k, node in enumerate(made)
        ]
        x, y = (placement_sum(node) for node in placed)
        evaluate.evaluate((x, y))
        assert [n.buffer.device.id.number for n in (x, y) if n.buffer] == [0, 1]
        with pytest.raises(BackendError, match=r"devices meet.*cuda:0 and .*cuda:1"):
            evaluate.evaluate((placement_sum(x, y),))


def placement_sum(x: Any, y: Any = None) -> Any:
    from lumijit.compiler.ir.ops.arithmetic import ADD

    return trace.emit2(ADD, x, x if y is None else y)


def test_a_lost_device_is_an_error_and_the_cpu_goes_on() -> None:
    with emulated() as made:
        x = dr.arange(cuda.Float, 5) + 1
        dr.eval(x)
        made._process.kill()
        for ask in (lambda: x.numpy(), lambda: dr.eval(x + 1), lambda: dr.sum(x)):
            with pytest.raises(BackendError, match="the device is lost"):
                ask()
        assert (dr.arange(llvm.Float, 3) + 1)[2] == 3


def test_memory_of_the_host_is_out_of_reach() -> None:
    lost = pytest.raises(BackendError, match=r"launching kernel .* device is lost")
    with emulated() as made, device.on(made), lost:
        target = device.allocate(1 << 16)
        transfer.copy(target, buffers.allocate(1 << 16), 1 << 16)
        made.wait()


def test_kernels_that_would_write_elsewhere_are_not_launched() -> None:
    with emulated() as made:
        target = made.allocate(1 << 16)
        with pytest.raises(AssertionError, match="fill"):
            transfer.fill(target, FLOAT32, 1.0, 1 << 14)


def test_a_device_out_of_memory() -> None:
    with emulated(limit_bytes=10_000):
        x = dr.arange(cuda.Float, 1000) + 1
        dr.eval(x)
        with pytest.raises(AllocationError, match=r"8000 bytes can't be had.*4032"):
            dr.eval(dr.arange(cuda.Float, 2000) + 1)
        assert x[999] == 1000
        del x
        assert (dr.arange(cuda.Float, 2000) + 1)[1999] == 2000


def test_arrays_go_to_the_device_with_the_table_that_addresses_them() -> None:
    def table(entries: list[int], *addressed: placement.Address) -> Any:
        made = evaluate.from_numpy(np.array(entries, np.uint64))
        made.attr = addressed
        return made

    arrays: list[Any] = [evaluate.from_numpy(np.full(4, k, np.float32)) for k in (5, 6)]
    former, other = (array.buffer for array in arrays)
    inner = table([0, other.address], placement.Address(arrays[1], other, [1]))
    # The second entry is no address: only by chance the same number.
    entries = [former.address, former.address, inner.buffer.address, former.address]
    outer = table(
        entries,
        placement.Address(arrays[0], former, [0, 3]),
        placement.Address(inner, inner.buffer, [2]),
    )
    # What is addressed is a version from before a write.
    arrays[1].buffer = evaluate.from_numpy(np.zeros(4, np.float32)).buffer
    with emulated(), placement.there([(dr.arange(cuda.Float, 3) + 1)._node]):
        for node in (inner, outer):
            placement.bring(node)
        first, second = (address.held for address in outer.attr)
        third = inner.attr[0].held
        assert first is arrays[0].buffer
        assert second is inner.buffer
        assert third is not arrays[1].buffer
        for node, wanted in (
            (outer, [first.address, entries[1], second.address, first.address]),
            (inner, [0, third.address]),
        ):
            found = buffers.as_numpy(node.buffer, node.type, node.size)
            assert found.tolist() == wanted
        assert buffers.entry(first, FLOAT32, 3) == 5
        assert buffers.entry(third, FLOAT32, 3) == 6


def test_arrays_stay_tracked_when_they_go_to_the_device(
    shared: EmulatedDevice,
) -> None:
    x = cuda.ad.Float(3)
    dr.enable_grad(x)
    y = x * x
    dr.make_opaque(y)
    dr.backward(y * dr.arange(cuda.ad.Float, 4))
    assert list(x.grad) == [6 * 6]


def test_what_literals_make_is_computed_beside_what_it_meets() -> None:
    """The host computes it first, and the device then needs it."""
    functions = [lambda v: v + 1, lambda v: v ^ 3]
    with emulated():
        b = dr.opaque(cuda.Int32, 60)
        a = dr.switch(cuda.Int32(1), functions, cuda.Int32(64))
        c = dr.select(a > b, b + 1, b)
        dr.eval(a, b, c)
        assert [x[0] for x in (a, b, c)] == [67, 60, 61]
