"""Calls each public function here and in the peer, and prints what differs.

`python -m tests.fuzz.interface --peer-python PATH` runs the same expressions in both:
each function on values of each type that it may take, among them what it refuses.
Types, shapes and entries are compared, and that both refuse. What differs on purpose is
in `KNOWN`, with the reason; `docs/differences.md` is written from it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

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
    "float": "0.5",
    "int": "3",
}
UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "cot",
    "csc",
    "deg2rad",
    "erf",
    "erfinv",
    "exp",
    "exp2",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log2",
    "rad2deg",
    "rcp",
    "round",
    "rsqrt",
    "sec",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "safe_acos",
    "safe_asin",
    "safe_sqrt",
    "brev",
    "lzcnt",
    "popcnt",
    "tzcnt",
    "log2i",
    "det",
    "trace",
    "diag",
    "transpose",
    "inverse",
    "frob",
    "conj",
    "real",
    "imag",
    "normalize",
    "norm",
    "squared_norm",
    "ravel",
    "sum",
    "prod",
    "min",
    "max",
    "mean",
    "all",
    "any",
    "none",
    "count",
    "cumsum",
    "prefix_sum",
    "reverse",
    "sort",
    "argsort",
    "argmin",
    "argmax",
    "shape",
    "width",
    "itemsize_v",
    "ndim",
    "copy",
    "detach",
    "zeros_like",
    "ones_like",
    "hypot_1",
    "sincos",
    "sincosh",
    "arg",
    "std",
    "var",
    "median",
]
BINARY = [
    "minimum",
    "maximum",
    "power",
    "atan2",
    "hypot",
    "fmod",
    "dot",
    "copysign",
    "mulsign",
    "mulsign_neg",
    "nextafter",
    "step",
    "ldexp",
    "cross",
    "abs_dot",
    "squared_dot",
    "matmul",
    "fmin",
    "fmax",
    "fma_1",
    "lerp_1",
]
OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "@",
]
OTHERS = """
fma(Float(1, 2), 2, Float(3, 4))
fma(Array3f(1, 2, 3), Float(1, 2), 1)
lerp(Float(1, 2), Float(3, 4), 0.25)
clip(Float(-1, 2), 0, 1)
select(Bool(True, False), Float(1, 2), 0)
select(Bool(True, False), Array3f(1, 2, 3), Float(7, 8))
select(Float(1, 2) > 1, 1, 0.5)
gather(Float, Float(1, 2, 3), UInt(2, 0))
gather(Array3f, Float(range(9)), UInt(0, 2))
gather(Float, Float(1, 2, 3), UInt(2, 0), Bool(True, False))
arange(Float, 4)
arange(Int, 2, 8, 3)
linspace(Float, 0, 1, 5)
linspace(Float, 0, 1, 5, endpoint=False)
zeros(Array3f, 2)
zeros(TensorXf, (2, 2))
zeros(Matrix3f, 2)
ones(Quaternion4f)
full(Array3f, 3, 2)
identity(Matrix3f)
tile(Float(1, 2), 2)
repeat(Float(1, 2), 2)
concat([Float(1, 2), Float(3)])
meshgrid(Float(1, 2), Float(3, 4, 5))
block_sum(Float(1, 2, 3, 4), 2)
block_reduce(ReduceOp.Max, Float(1, 3, 2, 4), 2)
compress(Bool(True, False, True))
reshape(Array3f, Float(range(6)), (3, -1))
reshape(TensorXf, Float(range(6)), (3, -1))
unravel(Array3f, Float(range(6)))
ravel(Array3f([1, 2], [3, 4], [5, 6]))
sum(TensorXf([[1, 2], [3, 4]]), axis=0)
sum(TensorXf([[1, 2], [3, 4]]), axis=-1)
sum(Array3f(1, 2, 3), axis=None)
mean(TensorXf([[1, 2], [3, 4]]), axis=(0, 1))
max(Array3f([1, 5], [2, 4], 3), axis=1)
rotate(Quaternion4f, Array3f(0, 0, 1), 0.5)
rotate(Matrix3f, Array3f(0, 0, 1), 0.5)
quat_to_matrix(Matrix3f, Quaternion4f(0, 0, 0.6, 0.8))
matrix_to_quat(Matrix3f(0, -1, 0, 1, 0, 0, 0, 0, 1))
quat_to_euler(Quaternion4f(0, 0, 0.6, 0.8))
euler_to_quat(Array3f(0.1, 0.2, 0.3))
quat_apply(Quaternion4f(0, 0, 0.6, 0.8), Array3f(1, 2, 3))
slerp(Quaternion4f(0, 0, 0, 1), Quaternion4f(0, 0, 0.6, 0.8), 0.5)
transform_decompose(Matrix4f(1, 0, 0, 1, 0, 2, 0, 2, 0, 0, 3, 3, 0, 0, 0, 1))
transform_compose(Matrix3f(2), Quaternion4f(0, 0, 0.6, 0.8), Array3f(1, 2, 3))
polar_decomp(Matrix3f(1, 2, 0, 0, 1, 0, 0, 0, 1))
moveaxis(TensorXf([[1, 2], [3, 4]]), 0, 1)
mul_wide(UInt(4000000000), UInt(5))
slice_index(UInt, (2, 3), (0, slice(None)))
sh_eval(Array3f(0, 0, 1), 2)
morton_encode(Array2u(3, 5))
morton_decode(Array2u, UInt(39))
reinterpret_array(UInt, Float(1))
prefix_sum(Float(1, 2, 3), exclusive=False)
quantile_0(1)
linear_to_srgb(Float(0.2, 0.001))
srgb_to_linear(Float(0.2, 0.001))
scatter_inc(UInt(0), UInt(0))
binary_search(0, 10, lambda i: i < 3)
upsample(TensorXf([[1., 2], [3, 4]]), shape=(4, 4))
""".strip().splitlines()
SUBSCRIPTS = """
Array3f(1, 2, 3)[1]
Array3f(1, 2, 3)[-1]
Array3f(1, 2, 3)[3]
Array3f([1, 2], 3, 4).zyx
TensorXf([[1, 2, 3], [4, 5, 6]])[1]
TensorXf([[1, 2, 3], [4, 5, 6]])[:, 1:]
TensorXf([[1, 2, 3], [4, 5, 6]])[..., None, 0]
TensorXf([[1, 2, 3], [4, 5, 6]])[:, ::-1]
TensorXf([[1, 2, 3], [4, 5, 6]])[:, UInt(2, 0)]
TensorXf([[1, 2, 3], [4, 5, 6]])[2]
Matrix3f(1, 2, 3, 4, 5, 6, 7, 8, 9)[1, 2]
Matrix3f(1, 2, 3, 4, 5, 6, 7, 8, 9).T
Float(1, 2, 3)[UInt(2, 0)]
Float(1, 2, 3)[1:]
""".strip().splitlines()

_SPECIAL = r"(Complex2f|Quaternion4f|Matrix3f)\("
#: What differs on purpose: patterns of expressions, with the reason.
KNOWN = {
    rf"dr\.(minimum|maximum|fmin|fmax|copysign|mulsign|atan2|hypot)\(.*{_SPECIAL}": (
        "has no meaning for such numbers; Dr.Jit applies it to each part"
    ),
    rf"dr\.(safe_\w+|cbrt|ceil|erf\w*|floor|lgamma|round|trunc)\({_SPECIAL}": (
        "has no meaning for such numbers; Dr.Jit applies it to each part"
    ),
    rf"dr\.(prod|min|max)\({_SPECIAL}": "has no meaning for the parts of such numbers",
    rf"dr\.(power|dot|abs_dot)\(.*{_SPECIAL}": "follows the kind's own rules",
    rf".* \*\* .*{_SPECIAL}": "follows the kind's own rules",
    r"Matrix3f.* / ": "a quotient of a matrix and a vector has no meaning",
    r"dr\.\w+\(Quaternion4f": "Dr.Jit applies real functions to each part",
    r"dr\.step\(": "the common type, as of other functions; Dr.Jit gives integers",
    r"dr\.mulsign\(": "the common type, as `a * sign(b)` has; unsigned have no sign",
    r"dr\.copysign\(.*(UInt|Bool)\(": "unsigned numbers have no sign",
    r"(Matrix3f|Quaternion4f).* \*\* ": "a matrix has whole powers only",
    r"dr\.(dot|abs_dot)\(.*ArrayXf.*Array22f|dr\.(dot|abs_dot)\(Array22f.*ArrayXf": (
        "a dynamic array is no row of a static one"
    ),
    r".* (//|%) Bool\(": "a mask counts as 0 and 1; division by 0 gives 0",
    r"dr\.count\((?!Bool)": "counts masks; Dr.Jit sums up anything",
    r"dr\.is\w+\(Matrix3f": "Dr.Jit tests for infinity wrongly at 0",
    r"dr\.sign\(Bool": "masks have no sign",
    r"dr\.erfinv\(Matrix3f": "erfinv(1) is infinite; Dr.Jit gives NaN",
    r"dr\.arg\((0\.5|3)\)": "a float, also of a whole number",
    r"Array22f\((ArrayXf|Complex2f)": "a row for each row, as of an Array2f in both",
}


def expressions() -> Iterator[str]:
    """List the expressions, which both systems understand."""
    for name, value in itertools.product(UNARY, VALUES.values()):
        yield f"dr.{name}({value})"
    pairs = list(itertools.product(VALUES.values(), repeat=2))
    for name, (a, b) in itertools.product(BINARY, pairs):
        yield f"dr.{name}({a}, {b})"
    for symbol, (a, b) in itertools.product(OPERATORS, pairs):
        yield f"{a} {symbol} {b}"
    for cls, value in itertools.product(VALUES, VALUES.values()):
        yield f"{cls}({value})"
    yield from (f"dr.{call}" for call in OTHERS)
    yield from SUBSCRIPTS


def described(value: Any) -> Any:
    """Return type, shape and entries of a result."""
    if isinstance(value, (tuple, list)):
        return [described(part) for part in value]
    if isinstance(value, dict):
        return {str(key): described(part) for key, part in value.items()}
    if hasattr(value, "numpy"):
        data = value.numpy()
        entries = [str(complex(v)) for v in data.ravel().tolist()]
        return [type(value).__name__, list(data.shape), entries]
    if isinstance(value, (bool, int, float)):
        return [type(value).__name__, [], [str(complex(value))]]
    return repr(value)


def evaluate(first: int) -> Iterator[Any]:
    """Evaluate expressions from some on with the system that is installed here."""
    try:
        import lumijit as dr
        import lumijit.llvm.ad as types
    except ImportError:
        import drjit as dr  # type: ignore[import-not-found, no-redef]
        import drjit.llvm.ad as types  # type: ignore[import-not-found, no-redef]
    own = {"dr": dr, "ReduceOp": dr.ReduceOp}
    names = {cls: getattr(types, cls) for cls in dir(types) if cls[0].isupper()} | own
    for text in itertools.islice(expressions(), first, None):
        try:
            yield described(eval(text, dict(names)))
        except Exception as error:
            yield ["!", type(error).__name__]


def evaluated_by(python: str) -> list[Any]:
    """Have another Python evaluate all expressions; some end its process."""
    found: list[Any] = []
    count = sum(1 for _ in expressions())
    while len(found) < count:
        command = [python, __file__, "--evaluate", str(len(found))]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        found += map(json.loads, run.stdout.splitlines())
        if len(found) < count:
            found.append(["!", "the process ended"])
    return found


def is_same(ours: Any, theirs: Any) -> bool:
    """Compare two results; errors are alike whatever their types."""
    if isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        if ours[0] == "!" or theirs[0] == "!":
            return bool(ours[0] == theirs[0])
        if len(ours) != len(theirs):
            return False
        return all(map(is_same, ours, theirs))
    try:
        a, b = complex(ours), complex(theirs)
    except (TypeError, ValueError):
        return bool(ours == theirs)
    if a != a or b != b:
        return a != a and b != b
    return a == b or abs(a - b) <= 2e-5 * max(1, abs(a), abs(b))


def main() -> None:
    """Compare both systems, and print the differences."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.interface", description=__doc__)
    parser.add_argument("--peer-python", help="a Python that has the peer")
    parser.add_argument("--evaluate", type=int, help="print results, from some on")
    options = parser.parse_args()
    if options.evaluate is not None:
        for result in evaluate(options.evaluate):
            print(json.dumps(result), flush=True)
        return
    texts = list(expressions())
    theirs = dict(zip(texts, evaluated_by(options.peer_python), strict=True))
    ours = dict(zip(texts, evaluate(0), strict=True))
    differing = [text for text in ours if not is_same(ours[text], theirs[text])]
    refused = [text for text in differing if theirs[text][:1] == ["!"]]
    known = [text for text in differing if _reason(text) and text not in refused]
    for text in differing:
        if text not in known and text not in refused:
            print(f"{text}\n    {ours[text]}\n    {theirs[text]}")
    ended = sum(theirs[text] == ["!", "the process ended"] for text in refused)
    print(
        f"{len(ours)} expressions, {len(differing)} differ: {len(refused)} are refused "
        f"there ({ended} end the process), {len(known)} differ on purpose"
    )


def _reason(text: str) -> str:
    return next((why for form, why in KNOWN.items() if re.match(form, text)), "")


if __name__ == "__main__":
    main()
