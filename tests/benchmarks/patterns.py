"""What small programs take from the call to their results, beside the peer's time.

    python -m tests.benchmarks.patterns [--peer PYTHON] [--above RATIO] [--only TEXT]

256 entries each, so what is measured is Python: tracing, planning, launching. All are
traced anew in each call and evaluated; numbers that change are among them, as are
derivatives. Microseconds, the best of many rounds; the worst ratio comes first.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from tests.benchmarks.beside import compare

SIZE = 256


def programs(module: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the programs, by name."""
    dr: Any = importlib.import_module(module)
    types: Any = importlib.import_module(f"{module}.llvm.ad")
    Float, UInt, Bool, Int = types.Float, types.UInt, types.Bool, types.Int
    Array2f, Array3f, Array4f = types.Array2f, types.Array3f, types.Array4f
    Matrix3f, Complex2f, TensorXf = types.Matrix3f, types.Complex2f, types.TensorXf
    x = dr.arange(Float, SIZE) / SIZE + 0.1
    y = dr.sqrt(x)
    places = SIZE - 1 - dr.arange(UInt, SIZE)
    bins = dr.arange(UInt, SIZE) % 16
    v = Array3f(x, y, 1 - x)
    m = Matrix3f(*[x + k for k in range(9)])
    mask = x > 0.5
    tensor = TensorXf(dr.arange(Float, 240), (4, 6, 10))
    texture = types.Texture2f(TensorXf(dr.arange(Float, 16 * 16 * 3), (16, 16, 3)))
    film = dr.zeros(Float, SIZE)
    dr.eval(x, y, places, bins, v, m, mask, tensor, film)
    numbers = count(2)
    rng = dr.rng(seed=1)

    def evaluated(call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            dr.eval(call())

        return run

    found: dict[str, Callable[[], Any]] = {}

    def program(call: Callable[[], Any]) -> None:
        found[call.__name__] = evaluated(call)

    @program
    def one_operation() -> Any:
        return x * 2

    @program
    def new_number() -> Any:
        return x * next(numbers)

    @program
    def ten_operations() -> Any:
        return dr.sin(x) * y + dr.exp(-x * x) / (1 + y * y) - dr.sqrt(x)

    @program
    def two_results() -> Any:
        return x + y, x - y

    @program
    def normalized() -> Any:
        return dr.normalize(v)

    @program
    def matrix_vector() -> Any:
        return m @ v

    @program
    def matrix_inverse() -> Any:
        return dr.rcp(m)

    @program
    def complex_product() -> Any:
        c = Complex2f(x, y)
        return c * c + c

    @program
    def gathered() -> Any:
        return dr.gather(Float, x, places)

    @program
    def gathered_vectors() -> Any:
        return dr.gather(Array3f, dr.ravel(v), places)

    @program
    def scattered() -> Any:
        target = dr.zeros(Float, SIZE)
        dr.scatter(target, x, places)
        return target

    @program
    def scattered_vectors() -> Any:
        target = dr.zeros(Float, 3 * SIZE)
        dr.scatter(target, v, places)
        return target

    @program
    def histogram() -> Any:
        target = dr.zeros(UInt, 16)
        dr.scatter_add(target, UInt(1), bins)
        return target

    @program
    def film_of_frames() -> Any:
        dr.scatter_add(film, x, places)
        return film

    @program
    def queue() -> Any:
        size = UInt(0)
        target = dr.zeros(UInt, SIZE)
        slot = dr.scatter_inc(size, UInt(0), mask)
        dr.scatter(target, places, slot, mask)
        return target, size

    @program
    def compressed() -> Any:
        return dr.compress(x > 0.3)

    @program
    def total() -> Any:
        return dr.sum(x * 2)

    @program
    def total_in_python() -> Any:
        return float((dr.sum(x * 2))[0]) and x

    @program
    def mean_square() -> Any:
        return dr.mean(dr.square(x - y))

    @program
    def running_sum() -> Any:
        return dr.cumsum(x)

    @program
    def block_sums() -> Any:
        return dr.block_sum(x, 16)

    @program
    def extremes() -> Any:
        return dr.min(x), dr.max(x)

    @program
    def entry_set() -> Any:
        target = dr.copy(x)
        target[3] = 5.0
        return target

    @program
    def masked_assignment() -> Any:
        target = Float(x)
        target[mask] = 0.0
        return target

    @program
    def sliced_tensor() -> Any:
        return tensor[1:3, ::2, 4]

    @program
    def tensor_axis_sum() -> Any:
        return dr.sum(tensor, axis=1)

    @program
    def tensor_broadcast() -> Any:
        return tensor + tensor[:, :1, :]

    @program
    def tensor_update() -> Any:
        t = TensorXf(tensor)
        t[0, 1:3] = 7.0
        return t

    @program
    def texture_lookup() -> Any:
        return texture.eval(Array2f(x, y))

    @program
    def random_numbers() -> Any:
        return rng.uniform(Float, SIZE)

    @program
    def pcg() -> Any:
        r = types.PCG32(SIZE, next(numbers))
        return r.next_float32() + r.next_float32()

    @program
    def branch() -> Any:
        return dr.if_stmt((x,), mask, lambda a: (dr.sin(a),), lambda a: (a * 2,))

    @program
    def loop() -> Any:
        return dr.while_loop(
            (UInt(0), x), lambda i, a: i < 10, lambda i, a: (i + 1, a * 1.5)
        )

    @program
    def loop_that_scatters() -> Any:
        target = dr.zeros(Float, SIZE)

        def body(i: Any, a: Any, target: Any) -> Any:
            dr.scatter_add(target, a, places)
            return i + 1, a * 1.5, target

        return dr.while_loop((UInt(0), x, target), lambda i, a, target: i < 4, body)[2]

    @program
    def loop_with_branch() -> Any:
        def body(i: Any, a: Any) -> Any:
            (a,) = dr.if_stmt((a,), a > 1, lambda a: (a * 0.5,), lambda a: (a + 1,))
            return i + 1, a

        return dr.while_loop((UInt(0), x), lambda i, a: i < 10, body)

    @program
    def switch_of_four() -> Any:
        calls = [dr.sin, dr.cos, dr.exp, dr.sqrt]
        return dr.switch(bins % 4, calls, x)

    @dr.syntax
    def collatz(n: Any, turns: Any) -> Any:
        while n > 1:
            if n & 1 == 0:
                n >>= 1
            else:
                n = 3 * n + 1
            turns += 1
        return turns

    @program
    def syntax_loop() -> Any:
        return collatz(places + 1, UInt(0))

    @program
    def local_memory() -> Any:
        heap = dr.alloc_local(Float, 4, value=Float(0))
        for k in range(4):
            heap[k] = x * k
        return heap[bins & 3]

    def parameter() -> Any:
        value = Float(x)
        dr.enable_grad(value)
        return value

    @program
    def gradient_of_ten_operations() -> Any:
        p = parameter()
        dr.backward(dr.sin(p) * y + dr.exp(-p * p) / (1 + p * p) - dr.sqrt(p))
        return dr.grad(p)

    @program
    def gradient_of_loss() -> Any:
        p = parameter()
        dr.backward(dr.mean(dr.square(p * y - x)))
        return dr.grad(p)

    @program
    def gradient_of_number() -> Any:
        p = Float(0.5)
        dr.enable_grad(p)
        dr.backward(dr.mean(dr.square(p * y - x)))
        return dr.grad(p)

    @program
    def gradient_of_gather() -> Any:
        p = parameter()
        dr.backward(dr.square(dr.gather(Float, p, places)))
        return dr.grad(p)

    @program
    def gradient_of_normalize() -> Any:
        p = Array3f(v)
        dr.enable_grad(p)
        dr.backward(dr.normalize(p).x)
        return dr.grad(p)

    @program
    def gradient_of_branch() -> Any:
        p = parameter()
        (r,) = dr.if_stmt((p,), mask, lambda a: (dr.sin(a),), lambda a: (a * a,))
        dr.backward(r)
        return dr.grad(p)

    @program
    def gradient_of_loop() -> Any:
        p = parameter()
        _, r = dr.while_loop(
            (UInt(0), p),
            lambda i, a: i < 5,
            lambda i, a: (i + 1, dr.sin(a)),
            max_iterations=5,
        )
        dr.backward(r)
        return dr.grad(p)

    @program
    def gradient_of_switch() -> Any:
        p = parameter()
        dr.backward(dr.switch(bins % 2, [dr.sin, dr.exp], p))
        return dr.grad(p)

    @program
    def gradient_of_texture() -> Any:
        values = dr.arange(Float, 16 * 16 * 3)
        dr.enable_grad(values)
        image = types.Texture2f(TensorXf(values, (16, 16, 3)))
        dr.backward(dr.sum(dr.square(image.eval(Array2f(x, y))[0])))
        return dr.grad(values)

    @program
    def forward_derivative() -> Any:
        p = parameter()
        r = dr.sin(p) * dr.exp(p)
        dr.forward(p)
        return dr.grad(r)

    optimizer = importlib.import_module(f"{module}.opt").Adam(lr=1e-3)
    optimizer["a"], optimizer["b"] = Float(x), Array3f(v)

    @program
    def optimizer_step() -> Any:
        a, b = optimizer["a"], optimizer["b"]
        dr.backward(dr.mean(dr.square(a - y)) + dr.mean(dr.square(b.x - a)))
        optimizer.step()
        return optimizer["a"], optimizer["b"]

    @program
    def fifty_launches() -> Any:
        a = x
        for _ in range(50):
            a = a * 1.01 + y
            dr.eval(a)
        return a

    @program
    def image_of_rows() -> Any:
        u, w = dr.meshgrid(dr.linspace(Float, 0, 1, 16), dr.linspace(Float, 0, 1, 16))
        color = Array4f(u, w, u * w, 1)
        return TensorXf(dr.ravel(color), (16, 16, 4))

    @program
    def quotient_by_number() -> Any:
        return Int(places) // 7 + Int(places) % 5

    @program
    def any_of_mask() -> Any:
        return dr.any(mask & Bool(x > 0.7)), x

    yield from found.items()


if __name__ == "__main__":
    compare(__doc__, __file__, programs, sys.argv[1:], round_of=20)
