"""Calls each public function here and in the peer, and prints what differs.

`python -m tests.fuzz.interface --peer-python PATH` runs the same expressions in both:
each function on values of each type that it may take, among them what it refuses.
Types, shapes and entries are compared, gradients, and that both refuse. What differs
on purpose is in `KNOWN`, with number and reason: `docs/differences.md` lists it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Any

from tests.fuzz.expressions import expressions

_NUMBER = r"(Complex2f|Quaternion4f)\("
_UNSIGNED = r"(UInt|Array3u|Bool|Array3b)\("
#: What differs on purpose: patterns of expressions, with how many differ, and why.
#: Another number than this is printed: what differs by accident hides under no pattern.
KNOWN = {
    rf"dr\.(minimum|maximum|fmin|fmax|copysign|mulsign)\(.*{_NUMBER}": (
        306,
        "such numbers have no order and no sign; Dr.Jit acts on each part",
    ),
    rf"dr\.(atan2|hypot|cbrt|erf|erfinv|lgamma)\(.*{_NUMBER}": (
        112,
        "of real numbers only, as the reference says; Dr.Jit acts on each part",
    ),
    rf"dr\.safe_\w+\({_NUMBER}": (12, "such numbers have no order to be clipped by"),
    r"dr\.safe_a\w+\(Matrix3f": (
        2,
        "each entry, as `asin`; Dr.Jit clears those that aren't on the diagonal",
    ),
    r"dr\.power\((Quaternion4f.*, Bool|True, Quaternion4f)|"
    r"(Quaternion4f.* \*\* Bool|True \*\* Quaternion4f)": (
        4,
        "q ** 0 and 1 ** q are 1; Dr.Jit gives NaN",
    ),
    r"dr\.power\(Matrix3f|Matrix3f.* \*\* |dr\.power\(.*, Matrix3f|.* \*\* Matrix3f": (
        51,
        "a matrix has whole powers only; Dr.Jit mixes products of matrices and entries",
    ),
    r"Matrix3f.* / Array3f": (1, "a quotient of a matrix and a vector has no meaning"),
    r"dr\.(a?(cos|sin|tan)h?|sincosh?)\(Quaternion4f": (
        26,
        "functions of the whole number; Dr.Jit acts on each part",
    ),
    r"dr\.mulsign\(": (
        67,
        "the common type, as `a * sign(b)` has; Dr.Jit's that of `a`",
    ),
    rf"dr\.copysign\((.*, )?{_UNSIGNED}": (16, "unsigned numbers have no sign"),
    r"dr\.copysign\(Matrix3f": (4, "at 0, the derivative is that of `abs`, 0"),
    r".* (//|%) (Bool|Array3b)\(": (
        12,
        "a mask counts as 0 and 1; division by 0 gives 0",
    ),
    r"dr\.count\((?!Bool)": (
        6,
        "takes masks, as the reference says; Dr.Jit counts what isn't 0 in nested "
        "arrays, and refuses others",
    ),
    r"dr\.isinf\(Matrix3f": (1, "Dr.Jit tests for infinity wrongly at 0"),
    r"dr\.sign\((Bool|Array3b|True)": (3, "masks have no sign"),
    r"dr\.erfinv\((Matrix3f|True)": (3, "erfinv(1) is infinite; Dr.Jit gives NaN"),
    r"dr\.arg\((0\.5|3|True)\)": (3, "a float, also of a whole number"),
    r"Array22f\((ArrayXf|Complex2f)": (
        2,
        "a row for each row, as of an Array2f in both",
    ),
    r"dr\.has_backend\(|\[dr\.has_backend": (1, "a Python bool"),
    r"dr\.grad\(True\)": (1, "the type of the value"),
    r"dr\.is_half_v\((0\.5|float)\)": (2, "a Python float isn't of half precision"),
    r"dr\.(size_v|depth_v)\(TensorXf": (
        4,
        "one dynamic dimension, as its entries have",
    ),
    r"dr\.tensor_t\((float|int|bool)\)|dr\.replace_type_t\(float": (
        4,
        "a Python number's type has counterparts, too",
    ),
    r"dr\.opaque_width\(Array3b": (1, "the width of the whole array; Dr.Jit's of `x`"),
    r"dr\.cross\(Array3u": (1, "computed in the common type; Dr.Jit's negation wraps"),
    r"dr\.unit_angle\(.*(Int|UInt|Int64|Array3u)\(": (
        20,
        "pi where rounding leaves the domain; Dr.Jit gives NaN",
    ),
    r"dr\.sphdir\(": (5, "the common type; Dr.Jit's that of the first"),
    r"dr\.meshgrid\(Float\(1, 2\)\)": (1, "a tuple, as the reference says"),
    r"dr\.width\(\[\]\)": (1, "1 without arrays, as the reference says"),
    r"dr\.reshape\((Array3f, TensorXf|Array3f, Float\(range\(6\)\), -1)": (
        2,
        "of the type that is asked for, or an error; Dr.Jit returns another one",
    ),
    r"dr\.reshape\(TensorXf, Array3f.*order=.F": (
        1,
        "as NumPy rearranges in that order",
    ),
    r"dr\.nn\.CoopVec.* \+ 1$": (1, "the text of a vector"),
    r"list\(dr\.": (
        13,
        "components of one entry stay so; Dr.Jit gives them the vector's width",
    ),
    r"(Array22f|Complex2f|Quaternion4f|Matrix3f).* / Float16": (
        4,
        "divided in the common type; Dr.Jit takes the reciprocal in half precision",
    ),
    r"\[Complex2f.*imag": (1, "a quaternion's vector part; Dr.Jit gives zeros"),
    r"\[v := dr\.nn\.view": (2, "the text of a view; `A.T` for `A.transpose`"),
}


_DERIVATIVE = re.compile(r"\[x := (.*?\)), (z := (.*?\)), )?dr\.en.*?y := ([\w.]*)\(")


def described(value: Any) -> Any:
    """Return type, shape and entries of a result."""
    if isinstance(value, (type, Enum)):
        return value.__name__ if isinstance(value, type) else value.name
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
    return re.sub(r"drjit|lumijit| object at \w+", "", repr(value))


def evaluate(first: int) -> Iterator[Any]:
    """Evaluate expressions from some on with the system that is installed here."""
    try:
        import lumijit as dr
        import lumijit.llvm.ad as types
    except ImportError:
        import drjit as dr  # type: ignore[import-not-found, no-redef]
        import drjit.llvm.ad as types  # type: ignore[import-not-found, no-redef]
    importlib.import_module(f"{dr.__name__}.nn")
    own = {"dr": dr, "ReduceOp": dr.ReduceOp, "VarType": dr.VarType}
    names = {cls: getattr(types, cls) for cls in dir(types) if cls[0].isupper()} | own
    for text in expressions()[first:]:
        try:
            yield described(eval(text, dict(names)))
        except Exception as error:
            yield ["!", type(error).__name__]


def evaluated_by(python: str) -> list[Any]:
    """Have another Python evaluate all expressions; some end its process."""
    found: list[Any] = []
    count = len(expressions())
    while len(found) < count:
        command = [python, "-m", "tests.fuzz.interface", "--evaluate", str(len(found))]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        found += map(json.loads, run.stdout.splitlines())
        if len(found) < count:
            found.append(["!", "the process ended"])
    return found


def is_same(ours: Any, theirs: Any, tolerance: float = 2e-5) -> bool:
    """Compare two results; errors are alike whatever their types."""
    if isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        if ours[0] == "!" or theirs[0] == "!":
            return bool(ours[0] == theirs[0])
        if len(ours) != len(theirs):
            return False
        if "f16" in str(ours[0]) or "Float16" in str(ours[0]):
            tolerance = 2e-3
        return all(is_same(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))
    try:
        a, b = complex(ours), complex(theirs)
    except (TypeError, ValueError):
        return bool(ours == theirs)
    if a != a or b != b:
        return a != a and b != b
    return a == b or abs(a - b) <= tolerance * max(1, abs(a), abs(b))


def main() -> None:
    """Compare both systems, and print the differences."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.interface", description=__doc__)
    parser.add_argument("--peer-python", help="a Python that has the peer")
    parser.add_argument("--evaluate", type=int, help="print results, from some on")
    parser.add_argument("--all", action="store_true", help="print these, too")
    options = parser.parse_args()
    if options.evaluate is not None:
        for result in evaluate(options.evaluate):
            print(json.dumps(result), flush=True)
        return
    texts = expressions()
    theirs = dict(zip(texts, evaluated_by(options.peer_python), strict=True))
    ours = dict(zip(texts, evaluated_by(sys.executable), strict=True))
    differing = [text for text in ours if not is_same(ours[text], theirs[text])]
    refused = [text for text in differing if theirs[text][:1] == ["!"]]
    forms = {text: _form(text) for text in differing if text not in refused}
    counts = Counter(forms.values())
    changed = {form for form, (count, _) in KNOWN.items() if counts[form] != count}
    for text, form in forms.items():
        if not form or form in changed or options.all:
            print(f"{text}\n    {ours[text]}\n    {theirs[text]}\n    {form}")
    for form in sorted(changed):
        print(f"{counts[form]} of {form} differ, not {KNOWN[form][0]}")
    known = sum(map(bool, forms.values()))
    ended = sum(theirs[text] == ["!", "the process ended"] for text in refused)
    print(
        f"{len(ours)} expressions, {len(differing)} differ: {len(refused)} are refused "
        f"there ({ended} end the process), {known} differ on purpose"
    )


def _form(text: str) -> str:
    """Return the form of what differs on purpose; derivatives do where values do."""
    found = _DERIVATIVE.match(text)
    if found:
        first, _, second, call = found.groups()
        text = f"{call}({first}{f', {second}' if second else ''})"
    return next((form for form in KNOWN if re.match(form, text)), "")


if __name__ == "__main__":
    main()
