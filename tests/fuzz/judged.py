"""What NumPy and SciPy say of drawn expressions: who is right where results differ.

Of functions and operators that act entry by entry on real numbers, in double precision.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.fuzz.drawn import Expression, Value
from tests.fuzz.expressions import names
from tests.fuzz.systems import is_same

_NUMPY = {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "round": "rint",
    "rcp": "reciprocal",
}
_NUMPY |= {
    name: name
    for name in names(
        "cbrt ceil cos cosh deg2rad exp exp2 floor hypot isfinite isinf isnan log log2 "
        "power rad2deg sin sinh sqrt square tan tanh trunc"
    )
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"dr.{name}": getattr(np, numpys) for name, numpys in _NUMPY.items()
}
FUNCTIONS |= {
    "dr.erf": special.erf,
    "dr.erfinv": special.erfinv,
    "dr.lgamma": special.gammaln,
    "dr.rsqrt": lambda x: 1 / np.sqrt(x),
    "dr.fma": lambda x, y, z: x * y + z,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": np.power,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"(dr\.\w+)\((?:{\w}(?:, )?)+\)|{\w} (\S+) {\w}")
_REAL = re.compile(r"(Float(16|64)?|(Array\d|ArrayX|TensorX)f\d*)?$")


def is_right(expression: Expression, ours: Any) -> bool | None:
    """Tell whether a result is NumPy's; None where NumPy isn't asked."""
    found = _FORM.fullmatch(expression.form)
    function = FUNCTIONS.get(found[1] or found[2]) if found else None
    values = expression.values
    if function is None or expression.width > 1 or len(ours) != 3:
        return None
    if not all(_REAL.match(value.cls) for value in values):
        return None
    shapes = {value.shape or (len(value.entries),) for value in values} - {(1,)}
    if len(shapes) > 1:
        return None
    with np.errstate(all="ignore"):
        expected = np.atleast_1d(function(*map(_numbers, values)))
        if ours[0].endswith(("f16", "Float16")):
            expected = expected.astype(np.float16)
        elif ours[0] != "float" and not ours[0].endswith("64"):
            expected = expected.astype(np.float32)
    wanted = [str(complex(v)) for v in expected.astype(float).ravel().tolist()]
    return is_same(ours, [*ours[:2], wanted], floor=_smallest(ours[0]))


def _numbers(value: Value) -> Any:
    words = value.entries[0] if value.shape else [e[0] for e in value.entries]
    return np.array([float({"True": 1, "False": 0}.get(w, w)) for w in words])


def _smallest(cls: str) -> float:
    """Return below which numbers lose precision."""
    if cls.endswith("16"):
        return 6e-5
    return 2.3e-308 if cls == "float" or cls.endswith("64") else 1.2e-38
