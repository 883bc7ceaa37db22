"""Rotations and affine transformations: quaternions, angles, matrices."""

from __future__ import annotations

from typing import Any

from lumijit import promotion
from lumijit.base import ArrayBase
from lumijit.constants import epsilon
from lumijit.functions.elementwise import rsqrt, sqrt
from lumijit.functions.matrices import det, matmul, polar_decomp
from lumijit.functions.selection import select
from lumijit.functions.transcendental import atan2, sin, sincos
from lumijit.functions.vectors import cross, dot, normalize, squared_norm
from lumijit.runtime.errors import ArrayTypeError
from lumijit.spec import require
from lumijit.traits import is_float_v, is_matrix_v, is_quaternion_v, size_v, type_of
from lumijit.type_traits import matrix_t, quaternion_t


def _check(holds: bool, construct: str, value: Any, expected: str) -> None:
    if not holds:
        raise ArrayTypeError(
            construct,
            f"an argument is of type {type_of(value).__name__!r} (expected {expected})",
            "convert it first.",
        )


def _check_matrix(value: Any, construct: str, *sizes: int) -> None:
    holds = is_matrix_v(value) and size_v(value) in sizes
    _check(holds, construct, value, " or ".join(f"a {n}x{n} matrix" for n in sizes))


def _vector(value: Any, like: Any, construct: str) -> Any:
    """Return three components; of what is no array, in the types of an array."""
    if not isinstance(value, ArrayBase):
        value = require(like._spec.replaced(outer=(3,)).plain(), construct)(value)
    holds = value._spec.outer == (3,) and is_float_v(value)
    _check(holds, construct, value, "a vector of three floats")
    return value


def rotate(dtype: type[Any], axis: Any, angle: Any) -> Any:
    """Make the rotation about an axis.

    Args:
        dtype: quaternion type, or type of 3x3 or 4x4 matrices.
        axis: vector of length 1.
        angle: in radians, number or flat array of floats.

    Returns:
        The rotation, counterclockwise where the axis points to the viewer.

    Raises:
        ArrayTypeError: if there are no rotations of this type.

    >>> import lumijit as dr
    >>> dr.rotate(dr.llvm.Quaternion4f, [0, 0, 1], dr.pi / 2)
    [0.707107k+0.707107]
    """
    construct = "lumijit.rotate"
    if is_matrix_v(dtype):
        return quat_to_matrix(dtype, rotate(_quaternions(dtype), axis, angle))
    _check(is_quaternion_v(dtype), construct, dtype, "a type of rotations")
    sine, cosine = sincos(angle * 0.5)
    x, y, z = _vector(axis, dtype, construct)
    return dtype(x * sine, y * sine, z * sine, cosine)


def _quaternions(cls: Any) -> Any:
    found = quaternion_t(cls)
    assert found is not None
    return found


def quat_apply(q: Any, v: Any, /) -> Any:
    """Rotate a vector by a quaternion: q v conj(q).

    Args:
        q: quaternion of length 1.
        v: vector of three components.

    Returns:
        The rotated vector.

    Raises:
        ArrayTypeError: if the arguments are of other types.

    >>> import lumijit as dr
    >>> q = dr.rotate(dr.llvm.Quaternion4f64, [0, 0, 1], dr.pi / 2)
    >>> dr.quat_apply(q, [2, 0, 1])
    [[4.44089e-16, 2, 1]]
    """
    _check(is_quaternion_v(q), "lumijit.quat_apply", q, "a quaternion")
    v = _vector(v, q, "lumijit.quat_apply")
    w, u = q.real, q.imag
    return v * (w * w - dot(u, u)) + u * (2 * dot(u, v)) + cross(u, v) * (2 * w)


def quat_to_matrix(dtype: type[Any], q: Any) -> Any:
    """Turn a quaternion into a rotation matrix.

    Args:
        dtype: type of 3x3 or 4x4 matrices.
        q: quaternion of length 1.

    Returns:
        The matrix, with a row and a column of the identity added in a 4x4 matrix.

    Raises:
        ArrayTypeError: if the arguments are of other types.

    >>> import lumijit as dr
    >>> q = dr.scalar.Quaternion4f(1, 0, 0, 0)
    >>> dr.quat_to_matrix(dr.scalar.Matrix3f, q)
    [[1, 0, 0],
     [0, -1, 0],
     [0, 0, -1]]
    """
    construct = "lumijit.quat_to_matrix"
    _check_matrix(dtype, construct, 3, 4)
    _check(is_quaternion_v(q), construct, q, "a quaternion")
    x, y, z, w = q
    xx, yy, zz = x * x, y * y, z * z
    xy, xz, yz = x * y, x * z, y * z
    xw, yw, zw = x * w, y * w, z * w
    rows = [
        [1 - 2 * (yy + zz), 2 * (xy - zw), 2 * (xz + yw)],
        [2 * (xy + zw), 1 - 2 * (xx + zz), 2 * (yz - xw)],
        [2 * (xz - yw), 2 * (yz + xw), 1 - 2 * (xx + yy)],
    ]
    if size_v(dtype) == 4:
        rows = [*([*row, 0] for row in rows), [0, 0, 0, 1]]
    return dtype(rows)


def matrix_to_quat(arg: Any, /) -> Any:
    """Turn a rotation matrix into a quaternion.

    Args:
        arg: 3x3 matrix, or 4x4 matrix of which the upper left part is used.

    Returns:
        One of the two quaternions: that with the largest part positive.

    Raises:
        ArrayTypeError: if `arg` is of another type.

    Source: M. Day, "Converting a rotation matrix to a quaternion" (2015).

    >>> import lumijit as dr
    >>> dr.matrix_to_quat(dr.scalar.Matrix3f([[0, -1, 0], [1, 0, 0], [0, 0, 1]]))
    0.707107k+0.707107
    """
    _check_matrix(arg, "lumijit.matrix_to_quat", 3, 4)
    (a, b, c), (d, e, f), (g, h, i) = (list(row)[:3] for row in list(arg)[:3])
    x, y, z = h - f, c - g, d - b
    xy, xz, yz = d + b, c + g, h + f

    def choose(below: Any, above: Any, left: Any, right: Any) -> Any:
        lower = select(a > e, below, above)
        return select(i < 0, lower, select(a < -e, left, right))

    # Four times the square of the largest part.
    t = choose(1 + a - e - i, 1 - a + e - i, 1 - a - e + i, 1 + a + e + i)
    scale = rsqrt(t) * 0.5
    parts = (
        choose(t, xy, xz, x),
        choose(xy, t, yz, y),
        choose(xz, yz, t, z),
        choose(x, y, z, t),
    )
    return _quaternions(arg)(*[part * scale for part in parts])


def euler_to_quat(arg: Any, /) -> Any:
    """Turn angles about the axes x, y and z, in this order, into a quaternion.

    Args:
        arg: vector of the three angles in radians.

    Returns:
        The quaternion.

    Raises:
        ArrayTypeError: if `arg` is no vector of three floats.

    >>> import lumijit as dr
    >>> dr.euler_to_quat(dr.scalar.Array3f(0, 0, dr.pi / 2))
    0.707107k+0.707107
    """
    construct = "lumijit.euler_to_quat"
    _check(isinstance(arg, ArrayBase), construct, arg, "a vector of three floats")
    angles = _vector(arg, arg, construct)
    (sx, cx), (sy, cy), (sz, cz) = (sincos(v * 0.5) for v in angles)
    return _quaternions(arg)(
        sx * cy * cz - cx * sy * sz,
        cx * sy * cz + sx * cy * sz,
        cx * cy * sz - sx * sy * cz,
        cx * cy * cz + sx * sy * sz,
    )


def quat_to_euler(arg: Any, /) -> Any:
    """Turn a quaternion into angles about the axes x, y and z, in this order.

    Args:
        arg: quaternion of length 1.

    Returns:
        The angles in radians, the second from -pi/2 to pi/2. At its ends, where the
        others turn about one axis, the third is zero.

    Raises:
        ArrayTypeError: if `arg` is no quaternion.

    >>> import lumijit as dr
    >>> dr.quat_to_euler(dr.scalar.Quaternion4f(1, 0, 0, 0))
    [3.14159, 0, 0]
    """
    _check(is_quaternion_v(arg), "lumijit.quat_to_euler", arg, "a quaternion")
    x, y, z, w = arg
    sine = 2 * (w * y - z * x)
    to_z, from_z = 2 * (w * z + x * y), 1 - 2 * (y * y + z * z)
    square = to_z * to_z + from_z * from_z
    # Where the second angle is a right one, both coordinates are rounding errors.
    is_locked = square < (16 * epsilon(arg)) ** 2
    to_x = select(is_locked, x, 2 * (w * x + y * z))
    from_x = select(is_locked, w, 1 - 2 * (x * x + y * y))
    first = atan2(to_x, from_x)
    cosine = select(is_locked, 0, sqrt(select(is_locked, 1, square)))
    third = atan2(select(is_locked, 0, to_z), select(is_locked, 1, from_z))
    first = select(is_locked, 2 * first, first)
    return type(arg.imag)(first, atan2(sine, cosine), third)


def slerp(a: Any, b: Any, t: Any) -> Any:
    """Interpolate between rotations, at a constant speed on the shorter way.

    Args:
        a: quaternion, scaled to length 1 first.
        b: quaternion, scaled to length 1 first.
        t: number or flat array: 0 gives `a`, and 1 gives `b` or `-b`.

    Returns:
        The quaternion, of length 1.

    Raises:
        ArrayTypeError: if `a` or `b` is no quaternion.

    >>> import lumijit as dr
    >>> from lumijit.scalar import Quaternion4f
    >>> dr.slerp(Quaternion4f(1), Quaternion4f(1, 0, 0, 0), 0.5)
    0.707107i+0.707107
    """
    for value in (a, b):
        _check(is_quaternion_v(value), "lumijit.slerp", value, "a quaternion")
    a, b = promotion.promote("lumijit.slerp", normalize(a), normalize(b))
    b = b * select(dot(a, b) < 0, -1.0, 1.0)
    chord = squared_norm(b - a)
    # There, sines are angles up to rounding errors.
    is_near = chord < epsilon(a)
    half = sqrt(select(is_near, 1, chord)) * 0.5
    angle = 2 * atan2(half, sqrt(1 - half * half))
    first = select(is_near, 1 - t, sin(angle * (1 - t)))
    second = select(is_near, t, sin(angle * t))
    return normalize(a * first + b * second)


def transform_compose(s: Any, q: Any, t: Any, /) -> Any:
    """Make the matrix that scales, then rotates, then translates.

    Args:
        s: 3x3 matrix that scales.
        q: quaternion of length 1 that rotates.
        t: vector that is added.

    Returns:
        The 4x4 matrix in homogeneous coordinates.

    Raises:
        ArrayTypeError: if the arguments are of other types.

    >>> import lumijit as dr
    >>> from lumijit.scalar import Matrix3f, Quaternion4f
    >>> dr.transform_compose(Matrix3f(2), Quaternion4f(1), [5, 6, 7])
    [[2, 0, 0, 5],
     [0, 2, 0, 6],
     [0, 0, 2, 7],
     [0, 0, 0, 1]]
    """
    construct = "lumijit.transform_compose"
    _check_matrix(s, construct, 3)
    _check(is_quaternion_v(q), construct, q, "a quaternion")
    linear = matmul(quat_to_matrix(_matrices(q), q), s)
    t = _vector(t, linear, construct)
    row, _ = promotion.promote(construct, linear[0], t)
    spec = _matrices(row)._spec.replaced(outer=(4, 4))
    rows = [[*r, v] for r, v in zip(linear, t, strict=True)]
    return require(spec, construct)([*rows, [0, 0, 0, 1]])


def _matrices(cls: Any) -> Any:
    """Return the type of 3x3 matrices of the entries of an array type."""
    vector = type_of(cls)._spec.replaced(outer=(3,))
    found = matrix_t(require(vector, "matrix"))
    assert found is not None
    return found


def transform_decompose(a: Any, it: int = 10) -> tuple[Any, Any, Any]:
    """Split an affine transformation into scaling, rotation and translation.

    Args:
        a: 4x4 matrix in homogeneous coordinates, with a last row of 0, 0, 0, 1.
        it: number of iterations of the polar decomposition.

    Returns:
        What `transform_compose` takes: a symmetric matrix that scales (and reflects),
        a quaternion that rotates, and a vector that is added.

    Raises:
        ArrayTypeError: if `a` is no 4x4 matrix.

    >>> import lumijit as dr
    >>> dr.transform_decompose(dr.scalar.Matrix4f(1))[1:]
    (1, [0, 0, 0])
    """
    _check_matrix(a, "lumijit.transform_decompose", 4)
    linear = _matrices(a)(a)
    rotation, scaling = polar_decomp(linear, it)
    sign = select(det(rotation) < 0, -1.0, 1.0)
    translation = require(a._spec.replaced(outer=(3,)), "transform_decompose")
    return (
        scaling * sign,
        matrix_to_quat(rotation * sign),
        translation([row[3] for row in list(a)[:3]]),
    )
