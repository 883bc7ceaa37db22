"""What operators, items and components of arrays are; each claim is run, too."""

import numpy as np
from typing_extensions import assert_type

from lumijit import scalar
from lumijit.llvm import (
    Array2f,
    Array3b,
    Array3f,
    Array3f64,
    Array3i,
    Array3u,
    Array4f,
    Array22f,
    Bool,
    Complex2f,
    Float,
    Float64,
    Int,
    Matrix3f,
    Quaternion4f,
    TensorXf,
    UInt,
    ad,
)

f, d, i, u = Float(1, 2), Float64(1, 2), Int(1, 2), UInt(1, 2)
v, w, k = Array3f(1, 2, 3), Array3u(1, 2, 3), Array3f64(1, 2, 3)
b, m = f < 2, v < 2
matrix, complex_, quaternion = Matrix3f(1), Complex2f(1, 2), Quaternion4f(1, 2, 3, 4)
tensor = TensorXf([[1, 2], [3, 4]])

# Promotion: entries, dimensions, namespaces.
assert_type(f + f, Float)
assert_type(f + i, Float)
assert_type(i + f, Float)
assert_type(i * u, UInt)
assert_type(f - d, Float64)
assert_type(v * f, Array3f)
assert_type(f * v, Array3f)
assert_type(v + w, Array3f)
assert_type(w + v, Array3f)
assert_type(w + f, Array3f)
assert_type(k / v, Array3f64)
assert_type(v + scalar.Array3f(1, 2, 3), Array3f)
assert_type(scalar.Array3f(1, 2, 3) + v, Array3f)
assert_type(v + ad.Array3f(1), ad.Array3f)
assert_type(ad.Float(1) + f, ad.Float)
assert_type(ad.Array3f(1) * f, ad.Array3f)
assert_type(scalar.Array3f(1) * scalar.Array3u(2), scalar.Array3f)
assert_type(tensor + f, TensorXf)

# Python's numbers keep the type, but a float makes integers floats.
assert_type(f + 1, Float)
assert_type(1 - f, Float)
assert_type(i + 1, Int)
assert_type(2 * i, Int)
assert_type(i * 0.5, Float)
assert_type(0.5 * w, Array3f)
assert_type(v * 2, Array3f)
assert_type(v + [1, 2, 3], Array3f)
assert_type(v + [f, 2, 3], Array3f)
assert_type(i + [1.5, 2], Float)
assert_type(Array22f(1) + [[1, 2], [3, 4]], Array22f)
assert_type(tensor + [[1, 2], [3, 4]], TensorXf)
total: Float = f + np.ones(2, np.float32)
assert_type(f < np.ones(2, np.float32), Bool)
scaled: Float = f * np.float32(2)
assert_type({f, f}, set[Float])
assert_type(b * 2, Int)
assert_type(m * 2, Array3i)
assert_type(b * 0.5, Float)
assert_type(f**2, Float)
assert_type(2**f, Float)
assert_type(i**2, Int)
assert_type(i // 2, Int)
assert_type(i % 2, Int)
assert_type(i << 1, Int)
assert_type(-v, Array3f)
assert_type(+v, Array3f)
assert_type(abs(v), Array3f)
assert_type(~i, Int)

# Comparisons give masks.
assert_type(f < f, Bool)
assert_type(f <= i, Bool)
assert_type(i > 0.5, Bool)
assert_type(v == v, Array3b)
assert_type(v != w, Array3b)
assert_type(1 < v, Array3b)
assert_type(scalar.Array3f(1) < 2, scalar.Array3b)
assert_type(ad.Float(1) < f, ad.Bool)
assert_type(b & b, Bool)
assert_type(b | True, Bool)
assert_type(m & b, Array3b)
assert_type(~m, Array3b)
assert_type(v & m, Array3f)
assert_type(f & b, Float)

# Components and items.
assert_type(v.x, Float)
assert_type(v.xy, Array2f)
assert_type(v.zyx, Array3f)
assert_type(v.xxyy, Array4f)
assert_type(v[0], Float)
assert_type(f[0], float)
assert_type(f[UInt(0, 1)], Float)
assert_type(f[:1], Float)
assert_type(matrix[0], Array3f)
assert_type(matrix[0, 1], Float)
assert_type(tensor[0], TensorXf)
assert_type(tensor[0, :], TensorXf)
assert_type(scalar.Array3f(1).x, float)
assert_type(scalar.Array3f(1)[0], float)
assert_type(v.shape, tuple[int, ...])
assert_type(len(v), int)
assert_type(float(Float(1)), float)
for component in v:
    assert_type(component, Float)
for entry in f:
    assert_type(entry, float)
v.x = f
v.y += 1
v.z = 0
v.xy = Array2f(1)
v[0] = i
v[v > 2] = 0
f[b] = 1
f[b] += 1
v += 1
v *= f

# Arrays of several types in one container.
for several in ([v, f], [w, v], [f, i], [tensor, matrix], [v, Array4f(1)]):
    several[0].numpy() + (several[0] * 2).numpy()
named = {"a": complex_, "b": v}
abs(named["a"] + 1).item()

# Matrices, complex numbers, quaternions.
assert_type(matrix @ matrix, Matrix3f)
assert_type(matrix @ v, Array3f)
assert_type(matrix * v, Array3f)
assert_type(matrix * 2, Matrix3f)
halved: Matrix3f = matrix * np.float32(0.5)
assert_type(matrix.T, Matrix3f)
assert_type(matrix + f, Matrix3f)
assert_type(complex_ * complex_, Complex2f)
assert_type(complex_ * f, Complex2f)
assert_type(f + complex_, Complex2f)
assert_type(complex_.real, Float)
assert_type(abs(complex_), Float)
assert_type(complex_ * 1j, Complex2f)
assert_type(2 + complex_**1j, Complex2f)
assert_type(f * 1j, Complex2f)
assert_type(1j - f, Complex2f)
complex_ += 1j
complex_.real = 1
complex_.imag += f
quaternion.imag = [1, 2, 3]
assert_type(complex(Complex2f(1, 2)), complex)
assert_type(quaternion * quaternion, Quaternion4f)
assert_type(quaternion.imag, Array3f)
assert_type(quaternion.real, Float)
assert_type(quaternion.x, Float)
assert_type(tensor.array, Float)
tensor.array = tensor.array * 2
assert_type(complex_.array, Array2f)
assert_type(v.array, Array3f)
