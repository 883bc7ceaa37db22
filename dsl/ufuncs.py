"""What NumPy's functions make of lumijit's arrays.

Operators between NumPy's arrays and ours are ours, on either side: `a + x` goes on
tracing. Every other use of a universal function (`np.sin(x)`, `np.add.reduce(x)`,
`a += x`) evaluates our arrays, and its result is NumPy's.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lumijit.runtime.errors import ArrayTypeError

# The operators' functions, and the methods that compute them with swapped operands.
_SWAPPED: Final = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__",
    np.remainder: "__rmod__",
    np.power: "__rpow__",
    np.matmul: "__rmatmul__",
    np.left_shift: "__rlshift__",
    np.right_shift: "__rrshift__",
    np.bitwise_and: "__rand__",
    np.bitwise_or: "__ror__",
    np.bitwise_xor: "__rxor__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
}


def apply(
    base: type[Any], ufunc: np.ufunc, how: str, inputs: tuple[Any, ...], options: Any
) -> Any:
    """Apply a universal function to inputs of which one at least is ours.

    Args:
        base: the base class of our arrays.
        ufunc: NumPy's function.
        how: the method of the function, such as `"__call__"` or `"reduce"`.
        inputs: its positional arguments.
        options: its keyword arguments; `out` can't be one of our arrays.
    """
    swapped = _SWAPPED.get(ufunc)
    is_operator = swapped is not None and how == "__call__" and not options
    if is_operator and not isinstance(inputs[0], base):
        return getattr(inputs[1], str(swapped))(inputs[0])
    if any(isinstance(target, base) for target in options.get("out", ())):
        raise ArrayTypeError(
            f"numpy.{ufunc.__name__}()",
            "'out' is an array of lumijit, to which NumPy can't write",
            "assign the result to a variable, or pass a NumPy array as 'out'.",
        )
    plain = [np.asarray(v) if isinstance(v, base) else v for v in inputs]
    return getattr(ufunc, how)(*plain, **options)
