"""The expressions that `interface` evaluates in both systems.

Each function on values of each kind, operators, conversions, gradients, and the lines
of `interface.txt`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path


def names(text: str) -> list[str]:
    """List the names of a text."""
    return text.split()


VALUES = {
    "Float": "Float(0.25, 0.5, 0.75)",
    "Float64": "Float64(0.25, 0.5, 0.75)",
    "Int": "Int(1, 2, 3)",
    "UInt": "UInt(1, 2, 3)",
    "Bool": "Bool(True, False, True)",
    "Array3f": "Array3f([0.1, 0.2], [0.3, 0.4], [0.5, 0.6])",
    "ArrayXf": "ArrayXf([0.1, 0.2], [0.3, 0.4])",
    "Array22f": "Array22f([[0.1, 0.2], [0.3, 0.5]])",
    "TensorXf": "TensorXf([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])",
    "Complex2f": "Complex2f(0.3, 0.4)",
    "Quaternion4f": "Quaternion4f(0.1, 0.2, 0.3, 0.9)",
    "Matrix3f": "Matrix3f(2, 1, 0, 0.5, 3, 0.25, 0, 0.125, 1)",
    "Float16": "Float16(0.25, 0.5, 0.75)",
    "Int64": "Int64(1, 2, 3)",
    "Array3u": "Array3u([1, 2], [3, 4], [5, 6])",
    "Array3b": "Array3b([True, False], True, False)",
    "float": "0.5",
    "int": "3",
    "bool": "True",
}
UNARY = names(
    """
abs acos acosh asin asinh atan atanh cbrt ceil cos cosh deg2rad erf erfinv exp exp2
floor isfinite isinf isnan lgamma log log2 rad2deg rcp round rsqrt sign sin sinh sqrt
square tan tanh trunc safe_acos safe_asin safe_sqrt brev lzcnt popcnt tzcnt log2i det
trace diag transpose inverse frob conj real imag normalize norm squared_norm ravel sum
prod min max mean all any none count cumsum prefix_sum reverse sort argsort argmin
argmax shape width itemsize_v copy detach zeros_like ones_like sincos sincosh arg std
var median sqr  all_nested any_nested none_nested sum_nested prod_nested min_nested
max_nested schedule eval opaque_width squeeze split grad grad_enabled
comp_ellint_2 linear_to_srgb srgb_to_linear backend_v type_v size_v depth_v is_half_v
is_special_v
"""
)
#: Functions of types.
TRAITS = names(
    """
is_arithmetic_v is_array_v is_complex_v is_diff_v is_dynamic_v is_float_v is_half_v
is_integral_v is_jit_v is_mask_v is_matrix_v is_quaternion_v is_signed_v is_special_v
is_struct_v is_tensor_v is_unsigned_v is_vector_v itemsize_v size_v depth_v backend_v
type_v value_t scalar_t mask_t array_t leaf_t int_array_t uint_array_t float_array_t
int8_array_t
uint8_array_t
int32_array_t int64_array_t uint32_array_t uint64_array_t float16_array_t
float32_array_t float64_array_t detached_t diff_array_t matrix_t quaternion_t tensor_t
epsilon one_minus_epsilon recip_overflow smallest largest zeros ones opaque
"""
)
BINARY = names(
    """
minimum maximum power atan2 hypot dot copysign mulsign step cross abs_dot matmul fmin
fmax mul_hi mul_wide rotl rotr unit_angle sphdir ellint_1 ellint_2
comp_ellint_3 expr_t
"""
)
OPERATORS = names(
    """
+ - * / // % ** & | ^ << >> == != < <= > >= @
"""
)
#: Functions whose derivatives are compared, and values to take them at.
SMOOTH = names(
    """
abs acos asin asinh acosh atan atanh cbrt ceil cos cosh cumsum prefix_sum erf erfinv exp
exp2 floor lgamma log log2 max mean min norm normalize prod rad2deg rcp reverse round
rsqrt safe_acos safe_asin safe_sqrt sign sin sinh sqrt square squared_norm std sum tan
tanh trunc var sort median comp_ellint_1 comp_ellint_2 linear_to_srgb srgb_to_linear det
inverse trace diag transpose conj real imag arg frob ravel copy sqr
"""
)
SMOOTH_PAIRS = names(
    """
minimum maximum power atan2 hypot dot copysign mulsign cross abs_dot fmin fmax matmul
ellint_1 ellint_2 comp_ellint_3 unit_angle
"""
)
TRACKED = names(
    """
Float Float64 Array3f ArrayXf Array22f TensorXf Complex2f Quaternion4f Matrix3f Float16
"""
)


def expressions() -> list[str]:
    """List the expressions, which both systems understand."""
    return list(dict.fromkeys(itertools.chain(_values(), written(), _derivatives())))


def _values() -> Iterator[str]:
    for name, value in itertools.product(UNARY, VALUES.values()):
        yield f"dr.{name}({value})"
    pairs = list(itertools.product(VALUES.values(), repeat=2))
    for name, (a, b) in itertools.product(BINARY, pairs):
        yield f"dr.{name}({a}, {b})"
    # Its result is a Python bool here, as the reference says, and a mask there.
    yield from (f"bool(dr.allclose({a}, {b}))" for a, b in pairs)
    for symbol, (a, b) in itertools.product(OPERATORS, pairs):
        yield f"{a} {symbol} {b}"
    for cls, value in itertools.product(VALUES, VALUES.values()):
        yield f"{cls}({value})"
    for name, cls in itertools.product(TRAITS, VALUES):
        yield f"dr.{name}({cls})"


def _derivatives() -> Iterator[str]:
    """List gradients of sums of all entries, by each argument."""
    for name, cls in itertools.product(SMOOTH, TRACKED):
        value = f"x := {VALUES[cls]}, dr.enable_grad(x)"
        yield f"[{value}, y := dr.{name}(x), dr.backward(y), x.grad]"
    for name, (a, b) in itertools.product(
        SMOOTH_PAIRS, itertools.product(TRACKED, repeat=2)
    ):
        value = f"x := {VALUES[a]}, z := {VALUES[b]}, dr.enable_grad(x, z)"
        yield f"[{value}, y := dr.{name}(x, z), dr.backward(y), x.grad, z.grad]"


def written(file: str = "interface.txt") -> list[str]:
    """List the expressions that are written down one by one."""
    lines = Path(__file__).with_name(file).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]
