"""`@kernel`: what is recorded, when it is replayed, and what a replay leaves."""

from __future__ import annotations

import array as py_array
import copy
import ctypes
import enum
import functools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.instances import instance_array_t
from lumijit.llvm import ad
from lumijit.llvm.ad import PCG32, Array2f, Array3f, Float, TensorXf, UInt32
from lumijit.runtime.errors import RecordingError
from tests.dsl.replay.support import Ray, Sampler, array, assert_equal

OFFSET = Float(1, 2) + 0
LEVEL = 3


@dr.kernel
def doubled(x: Float) -> Float:
    if x > 2:
        x = x * 2
    return x


def test_kernels_are_pickled_and_copied_as_functions_are() -> None:
    assert pickle.loads(pickle.dumps([doubled])) == [doubled]
    assert copy.copy(doubled) is copy.deepcopy([doubled])[0] is doubled
    local = dr.kernel(lambda x: x)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(local)


def test_a_kernel_is_vectorized_already() -> None:
    assert dr.syntax(doubled) is doubled
    assert list(doubled(Float(1, 3))) == [1, 6]


def test_arrays_may_change() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        y = dr.sin(x)
        return y + dr.sum(y), [y * 2]

    for k in range(3):
        x = array(k, 1, 2)
        y = dr.sin(x)
        assert_equal(f(x), (y + dr.sum(y), [y * 2]))
    assert f.n_recordings == 1


@pytest.mark.parametrize("kind", [int, float])
def test_numbers_may_change(kind: Any) -> None:
    @dr.kernel
    def f(x: Float, number: Any, *, scale: float) -> Any:
        return x * (number * 2 + 1) * scale, number + 1

    x = array(1, 2)
    for k in range(4):
        found, number = f(x, kind(k), scale=k / 4)
        assert_equal(found, x * (2 * k + 1) * (k / 4))
        assert type(number) is kind
        assert number == k + 1
    assert f.n_recordings == 1


def test_what_python_asks_of_numbers_belongs_to_the_recording() -> None:
    def plain(x: Any, n: int, s: float) -> Any:
        if n > 2:
            x = x * 2
        for _ in range(n):
            x = x + s
        return x

    f = dr.kernel(plain)
    x = array(1, 2)
    for n, s in [(1, 2.0), (1, 3.0), (3, 1.0), (1, 4.0), (3, 5.0)]:
        assert_equal(f(x, n, s), plain(x, n, s))
    assert f.n_recordings == 2
    assert "Python uses the value of 'n', which has changed" in f.history[1]


@pytest.mark.parametrize("number", [2**40, -1, 0.5])
def test_a_number_that_does_not_fit_is_the_functions_own_error(number: Any) -> None:
    @dr.kernel
    def f(x: UInt32, number: Any) -> Any:
        return x + UInt32(number) if number < 0 or number > 1 else x * number

    x = UInt32(1, 2) + 0
    f(x, 3)
    if number == 0.5:
        assert_equal(f(x, number), x * number)
        return
    with pytest.raises(ValueError, match="doesn't fit into UInt32"):
        f(x, number)
    assert_equal(f(x, 4), Float(5, 6))


def test_static_numbers_belong_to_the_recording() -> None:
    @dr.kernel(static=["n"])
    def f(x: Float, n: int) -> Any:
        return x * n

    for n in (1, 2, 1):
        assert_equal(f(array(1, 2), n), [n, 2 * n])
    assert f.n_recordings == 2


def test_other_constants_belong_to_the_recording() -> None:
    class Mode(enum.Enum):
        ADD = 1
        MUL = 2

    @dr.kernel
    def f(x: Float, mode: Any) -> Any:
        return x + 1 if mode in (Mode.ADD, "add", True) else x * 3

    x = array(1, 2)
    for mode in (Mode.ADD, Mode.MUL, "add", "mul", True, False, None, Mode.ADD):
        added = mode in (Mode.ADD, "add", True)
        assert_equal(f(x, mode), x + 1 if added else x * 3)
    assert f.n_recordings == 7


def test_sizes_belong_to_the_recording() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return x + dr.arange(Float, dr.width(x))

    for n in (3, 4, 3, 1, 0, 100_000):
        assert_equal(f(dr.full(Float, 2, n)), 2 + dr.arange(Float, n))
    assert "arrays have other sizes" in f.history[1]


def test_one_array_twice_is_another_call() -> None:
    @dr.kernel
    def f(x: Float, y: Float) -> Any:
        x += 1
        return x * y

    x, y = array(1, 2), array(3, 4)
    assert_equal(f(x, y), Float(6, 12))
    assert_equal(f(x, x), Float(9, 16))
    assert_equal(f(x, Float(x)), [12, 20])
    assert_equal(f(y, array(1, 1)), [4, 5])


def test_variables_outside_may_change() -> None:
    offset, count = array(1, 2), 0

    @dr.kernel
    def f(x: Float) -> Any:
        nonlocal count
        count += 1
        return x * offset + count + OFFSET

    x = array(1, 1)
    for k in range(1, 5):
        assert_equal(f(x), x * offset + k + OFFSET)
        assert type(count) is int
        assert count == k
        offset += 1
    assert f.n_recordings == 1
    offset = array(7, 7)
    assert_equal(f(x), x * offset + 5 + OFFSET)
    assert f.n_recordings == 1


def test_constants_outside_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return x * LEVEL

    x = array(1, 2)
    assert_equal(f(x), Float(3, 6))
    monkeypatch.setitem(globals(), "LEVEL", 4)
    assert_equal(f(x), Float(4, 8))
    assert f.n_recordings == 2


def test_what_methods_leave_in_objects() -> None:
    sampler, expected = Sampler(), array(0, 0)
    x = array(1, 2)
    for k in range(5):
        before = sampler.v
        held = before.numpy().copy()
        found = sampler.step(x)
        expected = expected + x * (k + 1) * 2
        assert_equal(sampler.v, expected)
        assert_equal(found, expected * 2)
        assert_equal(before, Float(held))
        assert sampler.t == k + 1
        assert_equal(sampler.kept["last"], x)
    # The first call adds an entry to the dictionary.
    assert Sampler.step.n_recordings == 2
    other = Sampler()
    other.step(x)
    assert_equal(other.v, x * 2)
    assert Sampler.step.n_recordings == 2


def test_lists_and_dictionaries_of_the_caller() -> None:
    def plain(items: list[Any], names: dict[str, Any], x: Any) -> None:
        if len(items) < 3:
            items.append(x * 2)
        items[0] = items[0] + names["k"]
        names["k"] += 1
        names["x"] = x

    f = dr.kernel(plain)
    states: list[Any] = [([array(1, 2)], {"k": 1}) for _ in range(2)]
    for k in range(6):
        x = array(k, 4)
        f(states[0][0], states[0][1], x)
        plain(states[1][0], states[1][1], x)
        for a, b in zip(*states, strict=True):
            assert_equal(a, b)
        assert states[0][1]["k"] == k + 2


@dataclass(frozen=True)
class Frozen:
    x: Float
    k: int


def test_dataclasses() -> None:
    def plain(ray: Ray, x: Any) -> Any:
        ray.t = ray.t * 2
        ray.o.x = ray.o.x + ray.t
        return Ray(ray.o * x, ray.t + 1)

    f = dr.kernel(plain)
    rays = [Ray(Array3f(1, 2, 3) + array(0, 1), 1.0) for _ in range(2)]
    for k in range(4):
        x = array(k, 2)
        a, b = f(rays[0], x), plain(rays[1], x)
        assert_equal(a.o, b.o)
        assert a.t == b.t
        assert_equal(rays[0].o, rays[1].o)
        assert rays[0].t == rays[1].t
    assert f.n_recordings == 1


def test_frozen_dataclasses_and_tuples() -> None:
    @dr.kernel
    def f(pair: Any) -> Any:
        frozen, (k, x) = pair
        return Frozen(frozen.x * frozen.k + k * x, frozen.k + k)

    for k in range(3):
        made = f((Frozen(array(1, 2), k), (k + 1, array(3, 4))))
        assert_equal(made.x, array(1, 2) * k + (k + 1) * array(3, 4))
        assert made.k == 2 * k + 1
    assert f.n_recordings == 1


def test_results_of_all_kinds() -> None:
    @dr.kernel
    def f(x: Float, k: float) -> Any:
        return {
            "same": x,
            "vector": Array3f(x, k, 1),
            "plain": (k, k + 1, "s", None, True),
            "number": Float(k),
            "zeros": dr.zeros(Float, 3),
            "tensor": TensorXf(x * 2, (2, 1)),
        }

    for k in (1.5, 2.5):
        x = array(1, 2)
        made = f(x, k)
        assert made["same"] is x
        assert_equal(made["vector"], Array3f(x, k, 1))
        assert made["plain"] == (k, k + 1, "s", None, True)
        assert_equal(made["number"], k)
        assert_equal(made["zeros"], Float(0, 0, 0))
        assert made["tensor"].shape == (2, 1)
        assert_equal(made["tensor"].array, x * 2)
    assert f.n_recordings == 1


def test_writes_in_place() -> None:
    @dr.kernel
    def f(x: Float, y: Float) -> None:
        x += y
        dr.scatter(y, Float(7), UInt32(0))

    x, y = array(1, 2), array(3, 4)
    for k in range(3):
        kept, before = Float(y), y.numpy().copy()
        f(x, y)
        assert_equal(y, Float(7, 4))
        assert_equal(kept, Float(before))
        assert_equal(x, Float(4 + 7 * k, 6 + 4 * k))
    assert f.n_recordings == 1


def test_random_numbers_go_on() -> None:
    @dr.kernel
    def f(rng: PCG32) -> Any:
        return rng.next_float32()

    a, b = PCG32(5), PCG32(5)
    for _ in range(4):
        assert_equal(f(a), b.next_float32())
    assert_equal(a.next_float32(), b.next_float32())
    assert f.n_recordings == 1


def test_control_flow_local_memory_and_scans() -> None:
    @dr.kernel
    def f(x: Float, n: int) -> Any:
        memory = dr.alloc_local(Float, 4)
        i = UInt32(0)
        while i < n:
            if x > 1:
                x = x * 0.5
            else:
                x = x + 1
            memory[i & 3] = x
            i += 1
        return dr.prefix_sum(memory[0] + memory[1]) + dr.sum(x)

    def plain(values: Any, n: int) -> Any:
        values, last = np.array(values, np.float64), np.zeros((4, len(values)))
        for i in range(n):
            values = np.where(values > 1, values * 0.5, values + 1)
            last[i & 3] = values
        return np.cumsum(np.append(0, last[0] + last[1]))[:-1] + values.sum()

    for n in (2, 5, 9):
        x = array(0.5, 1.5, 3)
        assert_equal(f(x, n), Float(plain(x.numpy(), n)))
    assert f.n_recordings == 1


class Shape:
    pass


class Scaled(Shape):
    def __init__(self, factor: float) -> None:
        self.factor = Float(factor)
        self.table = array(factor, 2 * factor)

    def value(self, x: Any) -> Any:
        return x * self.factor + dr.gather(Float, self.table, UInt32(x) & 1)


class Shifted(Shape):
    def value(self, x: Any) -> Any:
        return x + 1


def test_methods_of_instances() -> None:
    pointer = instance_array_t(Float, Shape)
    shapes: list[Any] = [Scaled(2), Scaled(3), Shifted()]

    def plain(p: Any, x: Any) -> Any:
        return dr.dispatch(p, lambda s, x: s.value(x), x)

    f = dr.kernel(plain)
    p, x = pointer(shapes), array(1, 2, 3)
    for k in range(4):
        assert_equal(f(p, x), plain(p, x))
        shapes[0].factor = Float(10 * k)
        shapes[1].table = array(k, -k)
    assert f.n_recordings == 1
    assert_equal(
        f(pointer([shapes[2], shapes[0], shapes[2]]), x),
        plain(pointer([shapes[2], shapes[0], shapes[2]]), x),
    )


def test_textures() -> None:
    data = np.arange(16, dtype=np.float32).reshape(4, 4, 1)
    texture = ad.Texture2f(TensorXf(data))

    @dr.kernel
    def f(pos: Any) -> Any:
        return texture.eval(pos)[0]

    for k in range(3):
        pos = Array2f(array(0.2, 0.3 + k / 8), 0.4)
        assert_equal(f(pos), texture.eval(pos)[0])
    texture.set_tensor(TensorXf(data * 2))
    assert_equal(f(pos), texture.eval(pos)[0])


@pytest.mark.parametrize("method", ["SGD", "Adam", "RMSProp", "AdamW"])
def test_steps_of_an_optimizer(method: str) -> None:
    def run(decorate: Any) -> Any:
        opt = getattr(dr.opt, method)(lr=0.05, params={"x": Float(1, 2, 3)})
        target = array(0.5, 0.2, 0.1)

        @decorate
        def step(rate: float) -> Any:
            opt.set_learning_rate(rate)
            loss = dr.mean(dr.square(opt["x"] - target))
            dr.backward(loss)
            opt.step()
            return dr.detach(loss)

        losses = [step(0.05 / (k + 1)).numpy()[0] for k in range(6)]
        return losses, opt["x"], step

    expected, x, _ = run(dr.syntax)
    found, y, step = run(dr.kernel)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert_equal(dr.detach(x), dr.detach(y))
    assert step.n_recordings <= 2


def test_gradients_arrive_at_the_callers_arrays() -> None:
    @dr.kernel
    def f(x: Float) -> None:
        dr.backward(x * x * x)

    for k in range(3):
        x = Float(1, 2 + k)
        dr.enable_grad(x)
        f(x)
        assert_equal(x.grad, 3 * dr.square(dr.detach(x)))
    f(x)
    assert_equal(x.grad, 6 * dr.square(dr.detach(x)))


def test_the_gradient_step_of_the_benchmark() -> None:
    t = dr.linspace(Float, 0, 1, 100)
    y = dr.sin(t * 6) * 0.5
    dr.eval(t, y)

    def plain(a: Any, b: Any) -> Any:
        dr.enable_grad(a, b)
        error = a * dr.sin(t * b) - y
        dr.backward(dr.mean(error * error))
        return [dr.detach(p) - 0.1 * dr.grad(p) for p in (a, b)]

    f = dr.kernel(plain)
    first, second = [[array(0.1), array(5)] for _ in range(2)]
    for _ in range(5):
        first, second = f(*first), plain(*second)
        assert_equal(first, second)
        assert not dr.grad_enabled(first)
    assert f.n_recordings == 1


TABLES = {
    "numpy": lambda: np.array([1.0, 2.0]),
    "large": lambda: np.full(100_000, 3.0),
    "scalar": lambda: dr.scalar.Array2f(1, 2),
    "bytes": lambda: bytearray(b"ab"),
    "array": lambda: py_array.array("d", [1, 2]),
    "view": lambda: memoryview(py_array.array("i", [1, 2])),
    "ctypes": lambda: (ctypes.c_short * 2)(1, 2),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("place", ["outside", "attribute", "argument"])
def test_memory_of_the_host_is_told_by_its_contents(make: Any, place: str) -> None:
    table = make()

    class Holder:
        pass

    holder = Holder()
    holder.table = table  # type: ignore[attr-defined]

    @dr.kernel
    def f(x: Float, given: Any = None) -> Any:
        if place == "argument":
            return x * float(given[0])
        if place == "attribute":
            return x * float(holder.table[0])  # type: ignore[attr-defined]
        return x * float(table[0])

    given = [table] if place == "argument" else []
    for k in (2, 3, 3):
        table[0] = k
        assert_equal(f(array(1, 2), *given), Float(k, 2 * k))
    assert f.n_recordings == 2


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("is_argument", [True, False])
def test_memory_of_the_host_is_not_changed(make: Any, is_argument: bool) -> None:
    table = make()

    @dr.kernel
    def f(x: Float, given: Any = None) -> Any:
        (given if is_argument else table)[0] += 1
        return x

    with pytest.raises(RecordingError, match="changes memory of the host in place"):
        f(array(1, 2), *([table] if is_argument else []))


def test_memory_of_the_host_that_is_returned() -> None:
    @dr.kernel
    def f(x: Float, n: int) -> Any:
        return x * 2, py_array.array("i", [n, 2]), (ctypes.c_short * 2)(1, 2)

    for k in (1, 1):
        y, made, other = f(array(1, 2), k)
        assert_equal(y, Float(2, 4))
        assert [*made, *other] == [k, 2, 1, 2]
        made[0] = other[0] = 9


def test_functions_among_the_arguments() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = array(1, 2)

        def double(self, x: Any) -> Any:
            return self.w * x * 2

        def half(self, x: Any) -> Any:
            return self.w * x / 2

    @dr.kernel(warn_after=-1)
    def f(function: Any, x: Float) -> Any:
        return function(x) + 1

    factor, table = 2.0, array(3, 4)

    def own(x: Any) -> Any:
        return x * factor + table

    model = Model()
    functions: list[Callable[..., Any]] = [
        *(dr.sin, dr.cos, own, model.double, model.half, abs),
        *(functools.partial(dr.fma, 2), functools.partial(dr.power, 2)),
        functools.partial(own),
    ]
    for k in range(2):
        for function in functions:
            arguments = [array(k, 1)]
            if getattr(function, "func", None) is dr.fma:
                function = functools.partial(function, table)
            assert_equal(f(function, *arguments), function(*arguments) + 1)
    factor, table = 5.0, array(1, 1)
    model.w = array(7, 8)
    for function in (own, model.double, functools.partial(own)):
        assert_equal(f(function, array(1, 1)), function(array(1, 1)) + 1)


def test_containers_that_are_also_reached_from_outside() -> None:
    first, second = [array(1, 2)], [array(3, 4)]

    @dr.kernel
    def f(items: Any, x: Float) -> Any:
        items[0] = items[0] + x
        return first[0] * second[0]

    x = array(1, 1)
    for items in (first, second, first, [array(0, 0)], second):
        before = [first[0], second[0]]
        found = f(items, x)
        for held, old in zip((first, second), before, strict=True):
            assert_equal(held[0], old + x if held is items else old)
        assert_equal(found, first[0] * second[0])
