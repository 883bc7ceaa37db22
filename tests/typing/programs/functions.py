"""What functions over arrays return; each claim is run, too."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_type

import lumijit as dr
from lumijit import auto, scalar
from lumijit.llvm import (
    PCG32,
    Array2b,
    Array2f,
    Array3b,
    Array3f,
    Array3i,
    Array3u,
    Bool,
    Complex2f,
    Float,
    Int,
    Matrix3f,
    Quaternion4f,
    TensorXf,
    UInt,
    UInt32,
    ad,
)

f, i = Float(0.5, 0.25), Int(1, 2)
v, w = Array3f(1, 2, 3), Array3u(1, 2, 3)
matrix, complex_, quaternion = Matrix3f(1), Complex2f(1, 2), Quaternion4f(1, 2, 3, 4)
tensor = TensorXf([[1, 2], [3, 4]])

# The example of the reference.
assert_type(dr.maximum(w, v), Array3f)
assert_type(dr.maximum(v, w), Array3f)
assert_type(dr.maximum(1, 2), int)

# One operand.
assert_type(dr.sin(f), Float)
assert_type(dr.sin(1.0), float)
assert_type(dr.sqrt(v), Array3f)
assert_type(dr.exp(complex_), Complex2f)
assert_type(dr.sqrt(dr.abs(dr.sin(v))), Array3f)
assert_type(dr.abs(-1), int)
assert_type(dr.abs(complex_), Float)
assert_type(dr.abs(i), Int)
assert_type(dr.sincos(f), tuple[Float, Float])
assert_type(dr.isnan(v), Array3b)
assert_type(dr.isfinite(1.0), bool)
assert_type(dr.popcnt(i), Int)
assert_type(dr.normalize(v), Array3f)
assert_type(dr.square(v), Array3f)
assert_type(list(dr.isnan(f)), list[bool])
assert_type(dr.isfinite(complex_), Bool)
assert_type(dr.isinf(scalar.Complex2f(1)), bool)
assert_type(dr.isnan(complex_), Array2b)
assert_type(list(dr.fmin(f, 2)), list[float])

# Several.
assert_type(dr.minimum(f, 0), Float)
assert_type(dr.minimum(dr.maximum(0, f), v.x), Float)
assert_type(dr.maximum(i, 0.5), Float)
assert_type(dr.maximum(v, f), Array3f)
assert_type(dr.atan2(f, 1), Float)
assert_type(dr.power(dr.maximum(v, 0.1), 1 / 2.4), Array3f)
assert_type(dr.fma(f, 2, v), Array3f)
assert_type(dr.fma(2, v.x, v.y * v.y), Float)
assert_type(dr.lerp(0, 1, f), Float)
assert_type(dr.clip(v, 0, 1), Array3f)
assert_type(dr.hypot(1.0, 2.0), float)
assert_type(dr.cross(v, v), Array3f)
assert_type(dr.cross(Array3f(0, 1, 0), dr.normalize(v)), Array3f)
assert_type(dr.dot(v, v), Float)
assert_type(dr.dot(w, v), Float)
assert_type(dr.dot(scalar.Array3f(1), scalar.Array3f(2)), float)
assert_type(dr.norm(dr.maximum(v, 0)), Float)
assert_type(dr.matmul(matrix, v), Array3f)
assert_type(dr.det(matrix), Float)
assert_type(dr.inverse(matrix), Matrix3f)
assert_type(dr.real(complex_), Float)
assert_type(dr.imag(quaternion), Array3f)
assert_type(list(dr.imag(complex_)), list[float])
assert_type(dr.real(2.5), float)
assert_type(dr.imag(3), int)
assert_type(dr.real(1j), float)

# Selection.
assert_type(dr.select(f < 1, f, 0), Float)
assert_type(dr.select(f < 1, 0, v), Array3f)
assert_type(dr.select(f < 1, 1.0, 2.0), Float)
assert_type(dr.select(v < 1, 1, 2), Array3i)
assert_type(dr.select(f < 1, dr.select(f < 0.3, f, 1), 2), Float)
assert_type(dr.select(v < 1, v, 0), Array3f)
assert_type(dr.select(True, 1, f), Float)
assert_type(dr.select(True, 1, 2), int)

# Reductions.
assert_type(dr.sum(v), Float)
assert_type(dr.sum(f), Float)
assert_type(dr.sum(v, axis=0), Float)
assert_type(dr.mean(dr.squared_norm(v)), Float)
assert_type(dr.prod(scalar.Array3f(1)), float)
assert_type(dr.all(v < 1), Bool)
assert_type(dr.any(f < 1), Bool)
assert_type(dr.all(scalar.Array3f(1) < 2), bool)
assert_type(dr.sum(tensor), TensorXf)
assert_type(dr.max(f)[0], float)
dr.abs_dot([1, 2], (3, 4))
for several in ([f, v], [i, f]):
    dr.maximum(dr.abs(several[0]), 0)
    dr.ravel(several[1])

# Making arrays, reading and writing memory.
assert_type(dr.zeros(Array3f, 2), Array3f)
assert_type(dr.arange(UInt32, 3), UInt)
assert_type(dr.linspace(Float, 0, 1, 3), Float)
assert_type(dr.full(Float, 2, 3), Float)
assert_type(dr.gather(Float, f, UInt32(0)), Float)
assert_type(dr.gather(Array3f, Float(1, 2, 3), UInt32(0)), Array3f)
assert_type(dr.zeros_like(v), Array3f)
assert_type(dr.ravel(v), Float)
assert_type(dr.ravel(matrix), Float)
assert_type(dr.ravel(tensor), Float)
assert_type(dr.ravel(0.5), float)
dr.ravel([1.5, 2])
assert_type(dr.unravel(Array2f, Float(1, 2)), Array2f)
assert_type(dr.cumsum(f), Float)
assert_type(dr.reverse(f), Float)
assert_type(dr.width(f), int)
assert_type(dr.meshgrid(f, f)[0], Float)
dr.scatter(dr.zeros(Float, 2), f, UInt32(0, 1))

# Derivatives.
x = ad.Array3f(1, 2, 3)
dr.enable_grad(x)
assert_type(dr.grad(x), ad.Array3f)
assert_type(dr.detach(x), ad.Array3f)
assert_type(dr.dot(x, v), ad.Float)

# Types.
assert_type(dr.mask_t(v), type[Array3b])
assert_type(dr.mask_t(Array3f), type[Array3b])
assert_type(dr.value_t(v), type[Float])
assert_type(auto.Float(1), Float)
assert_type(auto.ad.Array3f(1), ad.Array3f)
assert_type(PCG32().next_float32(), Float)
assert_type(PCG32().next_float_normal(Float), Float)
assert_type(f.grad, Float)
assert_type(scalar.PCG32().next_uint32(), int)
assert_type(PCG32() + UInt(1), PCG32)


# Control flow.
@dataclass
class Ray:
    o: Array3f
    d: Array3f


@dr.syntax
def halve(x: Float, n: int) -> Float:
    while x > n:
        x *= 0.5
    return x


@dr.syntax(recursive=True)
def double(x: Float) -> Float:
    if x < 1:
        x = x + x
    return x


@dr.kernel
def scaled(x: Float, factor: float) -> Array3f:
    return Array3f(x, x, factor)


class Walker:
    @dr.kernel(static=["steps"])
    def walk(self, x: Float, steps: int) -> Float:
        return x * steps


def next_state(x: Float, n: Int) -> tuple[Float, Int]:
    return x * 0.5, n + 1


assert_type(halve(f, 2), Float)
assert_type(double(f), Float)
assert_type(scaled(f, 2), Array3f)
assert_type(scaled.n_recordings, int)
unknown: Any = next_state
dr.syntax(unknown)(f, i)
dr.kernel(unknown)(f, i)
dr.func(unknown)(f, i)
assert_type(Walker().walk(f, 2), Float)
state = dr.while_loop((f, i), lambda x, n: x > 0.1, next_state)
assert_type(state, tuple[Float, Int])
ray = dr.if_stmt((v,), f < 1, lambda v: Ray(v, v), lambda v: Ray(v, -v))
assert_type(ray, Ray)
targets: list[Callable[[Float], Float]] = [lambda x: x, lambda x: x * 2]
assert_type(dr.switch(UInt32(0, 1), targets, f), Float)
assert_type(dr.select(True, ray, ray), Ray)
assert_type(dr.zeros(Ray), Ray)
stack = dr.alloc_local(Float, 4, value=0)
stack[UInt32(1)] = 2
stack.write(i[:1], 0)
assert_type(stack[0], Float)
for mode in ("symbolic", "evaluated"):
    dr.hint(f < 1, mode=mode)
dr.binary_search(0, 9, lambda k, last=3: k < last)
assert_type(dr.whos(as_string=True), str)

# Networks.
vector = dr.nn.CoopVec(f, 0.5)
assert_type(dr.maximum(vector, 0), dr.nn.CoopVec)
assert_type(dr.maximum(0, vector), dr.nn.CoopVec)
assert_type(dr.tanh(vector), dr.nn.CoopVec)
dr.fma(vector, 2, vector)
