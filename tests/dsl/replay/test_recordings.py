"""`@kernel`: what can't be recorded, which recordings are kept, what they tell."""

from __future__ import annotations

import gc
import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.llvm.ad import Array3f, Float, UInt32
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.errors import ArrayTypeError, RecordingError
from tests.dsl.replay import support
from tests.dsl.replay.support import Ray, Sampler, array, assert_equal
from tests.fuzz import kernels

OFFSET = Float(1, 2) + 0


def test_printing_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        dr.print("outside {}", x)
        i = UInt32(0)
        while i < 1:
            dr.print("inside {}", x)
            i += 1
        return x + 1

    for k in range(3):
        f(array(k, 2))
        shown = capsys.readouterr().out
        assert f"outside [{k}, 2]" in shown
        assert f"inside [{k}, 2]" in shown
    assert f.n_recordings == 1


def test_nested_kernels_are_recorded_as_one() -> None:
    @dr.kernel
    def inner(x: Float, k: int) -> Any:
        return x * k

    @dr.kernel
    def outer(x: Float, k: int) -> Any:
        return inner(x, k + 1) + 1

    for k in range(3):
        assert_equal(outer(array(1, 2), k), array(1, 2) * (k + 1) + 1)
    assert outer.n_recordings == 1
    assert inner.n_recordings == 0


def test_within_constructs_a_kernel_is_a_plain_function() -> None:
    @dr.kernel
    def double(x: Any) -> Any:
        return x * 2

    @dr.syntax
    def f(x: Any) -> Any:
        i = UInt32(0)
        while i < 3:
            x = double(x)
            i += 1
        return x

    assert_equal(f(array(1, 2)), [8, 16])
    assert double.n_recordings == 0


@pytest.mark.parametrize("switch", ["flag", "parameter"])
def test_it_can_be_switched_off(switch: str) -> None:
    @dr.kernel(enabled=switch != "parameter")
    def f(x: Float) -> Any:
        return x * x[0] if len(x) else x

    with dr.scoped_set_flag(dr.JitFlag.KernelFreezing, switch != "flag"):
        assert_equal(f(array(2, 3)), [4, 6])
    assert f.n_recordings == 0


def test_flags_belong_to_the_recording() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return x * 3

    f(array(1, 2))
    with dr.scoped_set_flag(dr.JitFlag.FastMath, True):
        f(array(1, 2))
        f(array(1, 2))
    f(array(1, 2))
    assert f.history == ["the first call", "flags have changed"]


def test_new_objects_are_an_error() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        made = Sampler()
        made.v = x * 2
        return made

    with pytest.raises(RecordingError, match="a new object of type 'Sampler'"):
        f(array(1, 2))


def test_arrays_from_nowhere_are_an_error() -> None:
    hidden = {"x": array(1, 2)}

    @dr.kernel
    def f(x: Float) -> Any:
        return x * eval("v", {"v": FINDERS[0]()["x"]})

    FINDERS[:] = [lambda: hidden]
    assert_equal(f(array(1, 1)), [1, 2])
    gc.collect()


FINDERS: list[Any] = []


@pytest.mark.parametrize("wrong", [lambda: (yield 1), int, 3, Sampler])
def test_only_functions_can_be_decorated(wrong: Any) -> None:
    with pytest.raises(ArrayTypeError, match="@kernel: it decorates an object of type"):
        dr.kernel(wrong)


def test_an_error_leaves_numbers_as_they_were() -> None:
    class State:
        count = 1

    state = State()
    state.rate = 0.5  # type: ignore[attr-defined]
    items = [1, 2.5]

    @dr.kernel
    def f(x: Any, items: Any) -> Any:
        state.count = state.count + 1
        items[0] = items[0] + state.rate  # type: ignore[attr-defined]
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        f(array(1, 2), items)
    assert items == [1.5, 2.5]
    assert [type(v) for v in items] == [float, float]
    assert type(state.rate) is float  # type: ignore[attr-defined]
    assert state.count == 2
    assert type(state.count) is int


def test_the_oldest_recordings_are_forgotten() -> None:
    @dr.kernel(limit=2)
    def f(x: Float) -> Any:
        return x + 1

    for n in (1, 2, 3, 2, 1):
        assert_equal(f(dr.zeros(Float, n) + array(1)), dr.full(Float, 2, n))
    assert f.n_cached_recordings == 2
    assert f.n_recordings == 4


def test_sizes_that_come_once_are_not_recorded() -> None:
    @dr.kernel
    def f(x: Float, k: int) -> Any:
        return dr.mean(x) * k + x

    def call(n: int, k: int = 2) -> None:
        x = dr.arange(Float, n) + array(1)
        assert_equal(f(x, k), x.numpy() + np.mean(x.numpy()) * k)

    for n in range(2, 22):
        call(n)
    assert f.n_recordings == 4
    assert "16 calls ran as they are" in f.explain()
    # What has been recorded is replayed; what comes again is recorded, and replayed.
    for k in range(3):
        call(5, k)
        call(20, k)
    assert f.n_recordings == 5
    # Another structure is recorded at once, and its sizes count apart.
    x = array(1, 2, 3)
    assert_equal(f(x, 1.5), x + 3)  # type: ignore[arg-type]
    assert f.n_recordings == 6
    f.clear()
    call(7)
    assert f.n_recordings == 1
    assert "ran as they are" not in f.explain()


def test_random_numbers_of_any_generator_are_refused() -> None:
    generators: list[Any] = [np.random.default_rng(1), np.random.RandomState(2)]
    generators.append(random.Random(3))

    @dr.kernel
    def f(x: Float, k: int) -> Any:
        return x + (generators[k].random() if k < 3 else 0)

    assert_equal(f(array(1, 2), 3), [1, 2])
    for k in range(3):
        with pytest.raises(RecordingError, match=r"draws random numbers"):
            f(array(1, 2), k)


def test_generators_are_refused() -> None:
    numbers = (k * 2 for k in range(1, 10))

    def f(x: Float) -> Any:
        return x + next(numbers)

    with pytest.raises(RecordingError, match=r"generator.*Fix: call next\(\) outside"):
        dr.kernel(f)(array(1, 2))
    as_it_is = dr.kernel(f, graph_breaks=True)
    for k in (2, 4, 6):
        assert_equal(as_it_is(array(1, 2)), [1 + k, 2 + k])
    assert "runs as it is, since the function reaches a generator" in as_it_is.explain()


def test_a_warning_after_many_recordings() -> None:
    @dr.kernel(warn_after=3)
    def f(x: Float, n: int) -> Any:
        return x * float(n)

    f(array(1), 0)
    f(array(1), 1)
    with pytest.warns(RuntimeWarning, match=r"3 times, this time because Python uses"):
        f(array(1), 2)
    f(array(1), 3)


def test_clear_lets_go_of_memory() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return dr.sum(dr.erf(x))

    before = llvm_bytes()
    f(dr.ones(Float, 1 << 20) + array(1))
    gc.collect()
    assert llvm_bytes() > before + (1 << 20)
    f.clear()
    gc.collect()
    assert llvm_bytes() < before + (1 << 16)
    assert f.n_cached_recordings == 0


def llvm_bytes() -> int:
    from lumijit.runtime import buffers, device

    for opened in device.opened.values():
        opened.collect()
    others = sum(opened.live_bytes for opened in device.opened.values())
    return buffers.memory_stats()["live_bytes"] + others


def test_a_recording_keeps_no_results() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return {"a": [x + 1, x * 2]}

    x = dr.ones(Float, 1 << 18) + array(1)
    f(x)
    gc.collect()
    before = llvm_bytes()
    kept = f(x)
    del kept
    gc.collect()
    assert llvm_bytes() <= before


def test_kernel_history_tells_of_replays() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return dr.sum(x + 1)

    f(array(1, 2))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        f(array(1, 2))
        dr.kernel_history_clear()
        f(array(3, 4))
        found = dr.kernel_history()
    assert [entry["size"] for entry in found] == [2, 2]
    assert all(entry["cache_hit"] for entry in found)


def test_explain_lists_inputs() -> None:
    @dr.kernel
    def f(ray: Ray, k: float) -> Any:
        return ray.o.x * k * OFFSET

    f(Ray(Array3f(1, 2, 3) + array(0, 1), 2.0), 1.0)
    text = f.explain()
    assert "f: 1 recordings" in text
    for name in ("ray.o[0]", "OFFSET", "ray.t", "k"):
        assert name in text


@pytest.mark.parametrize("space", [dr.scalar, llvm])
def test_namespaces_without_derivatives(space: Any) -> None:
    vector = space.Array3f

    @dr.kernel
    def f(x: Any, k: float) -> Any:
        return x * k + 1

    for k in (1.0, 2.0):
        assert_equal(f(vector(1, 2, 3), k), vector(1, 2, 3) * k + 1)


def test_freeze_is_the_same() -> None:
    @dr.freeze(limit=-1, auto_opaque=False)
    def f(x: Float) -> Any:
        return x + 1

    f(array(1))
    f(array(2))
    assert f.n_recordings == 1


@pytest.mark.parametrize("number", range(24))
def test_random_functions(number: int, tmp_path: Path) -> None:
    kernels.check(number, 8, tmp_path)


GENERATOR = np.random.default_rng(0)
DRAWS = {
    "python": lambda: random.random(),
    "numpy": lambda: np.random.rand(),
    "generator": lambda: GENERATOR.random(),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_random_numbers_of_others_are_an_error(draw: Any) -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return x * draw()

    with pytest.raises(RecordingError, match="draws random numbers of Python or NumPy"):
        f(array(1, 2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_of_a_fork_can_replay() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return dr.sum(x * 2)

    f(array(1, 2))
    f._lock.acquire()
    child = os.fork()
    if child == 0:
        thread = threading.Thread(target=lambda: f(array(2, 2)).numpy(), daemon=True)
        thread.start()
        thread.join(20)
        os._exit(int(thread.is_alive()))
    f._lock.release()
    assert os.waitpid(child, 0)[1] == 0


def test_constants_of_other_modules_are_guarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return x * support.FACTOR

    for factor in (2.0, 3.0, 2.0):
        monkeypatch.setattr(support, "FACTOR", factor)
        assert_equal(f(array(1, 2)), Float(factor, 2 * factor))
    assert f.n_recordings == 2


def test_what_kernels_inside_reach_is_reached() -> None:
    factor, table = 2.0, array(1, 2)

    @dr.kernel
    def inner(x: Float) -> Any:
        return x * factor + table

    @dr.kernel
    def outer(x: Float) -> Any:
        return inner(x) + 1

    for k in range(3):
        assert_equal(outer(array(1, k)), array(1, k) * factor + table + 1)
        factor, table = factor + k, table + k


def test_kernels_among_the_arguments() -> None:
    @dr.kernel
    def double(x: Float) -> Any:
        return x * 2

    @dr.kernel
    def triple(x: Float) -> Any:
        return x * 3

    @dr.kernel
    def f(function: Any, x: Float) -> Any:
        return function(x)

    for function, k in ((double, 2), (triple, 3), (double, 2)):
        assert_equal(f(function, array(1, 2)), Float(k, 2 * k))
    assert f.n_recordings == 2


@pytest.mark.parametrize("place", ["outside", "argument", "attribute"])
def test_generators_go_on(place: str) -> None:
    generator, expected = dr.rng(seed=1), dr.rng(seed=1)

    class Holder:
        rng = generator

    holder = Holder()

    @dr.kernel
    def f(given: Any = None) -> Any:
        if place == "attribute":
            return holder.rng.random(Float, 3)
        return (generator if given is None else given).random(Float, 3)

    for _ in range(4):
        found = f(generator) if place == "argument" else f()
        assert_equal(found, expected.random(Float, 3))
    assert f.n_recordings == 1


def test_a_scaler_of_gradients() -> None:
    def run(decorate: Any) -> Any:
        scaler = dr.opt.GradScaler(init_scale=4)
        opt = dr.opt.SGD(lr=0.1, params={"x": Float(1, 2)})

        @decorate
        def step() -> Any:
            loss = dr.sum(opt["x"] * opt["x"])
            dr.backward(scaler.scale(loss))
            scaler.step(opt)
            return dr.detach(loss)

        return [step().numpy()[0] for _ in range(4)]

    np.testing.assert_allclose(run(dr.kernel), run(dr.syntax), rtol=1e-5)


@pytest.mark.parametrize("place", ["outside", "argument"])
def test_local_memory_from_outside_is_an_error(place: str) -> None:
    memory = dr.alloc_local(Float, 2)

    @dr.kernel
    def f(x: Float, given: Any = None) -> Any:
        buffer = memory if given is None else given
        buffer[0] = x
        return buffer[0]

    given = [memory] if place == "argument" else []
    with pytest.raises(RecordingError, match="local memory that was made outside"):
        f(array(1, 2), *given)


def test_a_recording_keeps_no_arrays_of_the_recorded_call() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        y = dr.sin(x)
        dr.eval(y)
        z = dr.prefix_sum(y)
        dr.eval(z)
        return z * 2

    def made() -> int:
        gc.collect()
        dr.sync_thread()
        found = [o for o in gc.get_objects() if isinstance(o, Buffer)]
        return sum(b.capacity_bytes for b in found if id(b) not in before)

    x = dr.arange(Float, 100) * 2
    dr.eval(x)
    before = {id(o) for o in gc.get_objects() if isinstance(o, Buffer)}
    f(x)
    kept = made()
    f(x)
    assert made() == kept
    # What serves each replay.
    assert f"replayed 1 times, {kept} bytes of memory" in f.explain()
