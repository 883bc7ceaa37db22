"""Writes the stub of the package: what `import lumijit` gives.

Owns how functions are typed that are generic over arrays, as a table of forms: what
each form takes and returns, and which functions have it. All others are as their
sources annotate them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import lumijit as dr
from tests.tools.stub_base import PARAMETERS
from tests.tools.stub_types import SIZES, WRITTEN

Case = tuple[list[str], str]
# No more parameters than are asked for. And a union, though of one: with a generic
# type as the context, mypy would expect it of the call that is the argument.
_ARRAY = "ArrayBase[SelfT, SelfCpT] | NoArray"
_REDUCED = "ArrayBase[Any, SelfCpT, Any, Any, RedT] | NoArray"
_MASKED = "ArrayBase[Any, Any, Any, Any, Any, Any, MaskT]"
_ANY = ", ".join(["Any"] * len(PARAMETERS))
# Arrays that become floats, or integers, where they meet Python's numbers.
_WHOLE = "Whole[FloatT, LeafT] | NoArray"
_WHOLE_ALIKE = "Whole[FloatT, Any, SelfCpT] | NoArray"
_MASKS = f"Masks[{_ANY}, FloatT, LeafT, IntT] | NoArray"
_OPERANDS = "ArrayBase | Composed | float"
_HEAD = f"""# What `import lumijit` gives. {WRITTEN}
# mypy: disable-error-code="misc, overload-overlap, overload-cannot-match"

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload
from types import EllipsisType

from typing_extensions import TypeVar

"""


_BESIDE_NUMBERS: list[Case] = [
    ([_MASKS, "int"], "IntT"),
    (["int", _MASKS], "IntT"),
    ([_WHOLE, "LeafT"], "FloatT"),
    (["LeafT", _WHOLE], "FloatT"),
]
_REDUCED_BESIDE_FLOATS: list[Case] = [
    (["Whole | NoArray", "float"], "Any"),
    (["float", "Whole | NoArray"], "Any"),
]
# Vectors of networks, beside which everything becomes one.
_COMPOSED: list[Case] = [
    (["ComposedT", "ComposedT | ArrayBase | float"], "ComposedT"),
    (["ArrayBase | float", "ComposedT"], "ComposedT"),
]
# Floats, whatever the operands are.
_FLOATS: list[Case] = [
    ([_WHOLE, "float"], "FloatT"),
    (["float", _WHOLE], "FloatT"),
    ([_WHOLE_ALIKE, "SelfCpT"], "FloatT"),
    (["SelfCpT", _WHOLE_ALIKE], "FloatT"),
]


def _promoted(result: str, numbers: tuple[str, ...]) -> list[Case]:
    """Two operands, of which one keeps its type."""
    array = _REDUCED if result == "RedT" else _ARRAY
    return [
        ([array, "SelfCpT"], result),
        (["SelfCpT", array], result),
        *(_BESIDE_NUMBERS if result == "SelfT" else _REDUCED_BESIDE_FLOATS),
        *[([number, number], number) for number in numbers],
        *(_COMPOSED if result == "SelfT" else []),
        *[([f"Size{n}", f"Size{n}"], "Any") for n in SIZES],
    ]


def _promoted_by_three(*numbers: str) -> list[Case]:
    return [
        ([_ARRAY, "SelfCpT", "SelfCpT"], "SelfT"),
        (["SelfCpT", _ARRAY, "SelfCpT"], "SelfT"),
        (["SelfCpT", "SelfCpT", _ARRAY], "SelfT"),
        *[([number] * 3, number) for number in numbers],
        ([_OPERANDS] * 3, "Any"),
    ]


_REAL: Case = (["ArrayT"], "ArrayT")
_FLOAT: Case = (["float"], "float")
_INT: Case = (["int"], "int")
_TESTS: list[Case] = [([f"{_MASKED} | NoArray"], "MaskT"), (["float"], "bool")]
_PARTS: list[Case] = [_REAL, _INT, (["complex"], "float")]
_AXIS = "Literal[0] | EllipsisType = ..."
# For each form: the functions, and what they take and return. A case without an
# `axis` is followed by one in which there is any.
FORMS: dict[str, tuple[str, list[Case]]] = {
    "math": (
        "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfinv exp exp2 "
        "floor lgamma log log2 rcp round rsqrt sin sinh sqrt tan tanh trunc",
        [_REAL, _FLOAT],
    ),
    "math of integers, too": (
        "comp_ellint_1 comp_ellint_2 deg2rad linear_to_srgb rad2deg safe_acos "
        "safe_asin safe_sqrt srgb_to_linear",
        [([_WHOLE], "FloatT"), _REAL, _FLOAT],
    ),
    "numbers": (
        "brev log2i lzcnt popcnt sign tzcnt",
        [_REAL, _INT, _FLOAT],
    ),
    "magnitude": (
        "abs",
        [
            (["Numbers[Any, Any, ValT, Any, Any, Any, Any, Any]"], "ValT"),
            _REAL,
            _INT,
            _FLOAT,
        ],
    ),
    "vectors": (
        "linear_srgb_to_oklab oklab_to_linear_srgb transpose",
        [_REAL],
    ),
    "directions": (
        "normalize",
        [
            (["Matrices[Any, Any, ValT] | NoArray"], "ValT"),
            (["Whole | NoArray"], "Any"),
            _REAL,
        ],
    ),
    "pairs": (
        "sincos sincosh",
        [(["ArrayT"], "tuple[ArrayT, ArrayT]"), (["float"], "tuple[float, float]")],
    ),
    "tests": ("isnan", _TESTS),
    "tests of numbers as a whole": (
        "isfinite isinf",
        [
            ([f"Numbers[Any, Any, {_MASKED}] | NoArray"], "MaskT"),
            (["Numbers[Any, Any, float] | NoArray"], "bool"),
            *_TESTS,
        ],
    ),
    "operators": (
        "fmax fmin maximum minimum mulsign copysign",
        _promoted("SelfT", ("int", "float")),
    ),
    "powers": (
        "power",
        [(["float", _WHOLE], "FloatT"), *_promoted("SelfT", ("float",))],
    ),
    "functions of two": ("atan2", _promoted("SelfT", ("float",))),
    "steps": (
        "step",
        [*_COMPOSED, (["float", "float"], "int"), ([_OPERANDS] * 2, "Any")],
    ),
    "floats of two": (
        "comp_ellint_3 ellint_1 ellint_2",
        [*_FLOATS, *_promoted("SelfT", ("float",))],
    ),
    "lengths of two": (
        "hypot",
        [
            (["Numbers | NoArray", "Any"], "Any"),
            (["Any", "Numbers | NoArray"], "Any"),
            *_FLOATS,
            *_promoted("SelfT", ("float",)),
        ],
    ),
    "bits": ("mul_hi rotl rotr", _promoted("SelfT", ("int",))),
    "cross products": ("cross", _promoted("SelfT", ())),
    "products": (
        "abs_dot dot",
        [*_promoted("RedT", ("int", "float")), (["Sequence[Any]"] * 2, "Any")],
    ),
    "angles": (
        "unit_angle",
        [
            (["Whole | NoArray", _OPERANDS], "Any"),
            ([_OPERANDS, "Whole | NoArray"], "Any"),
            *_promoted("RedT", ("float",)),
        ],
    ),
    "functions of three": (
        "clamp clip fma",
        _promoted_by_three("int", "float"),
    ),
    "means": ("lerp", _promoted_by_three("float")),
    "floats of three": (
        "ellint_3",
        [
            (["Whole | NoArray", _OPERANDS, _OPERANDS], "Any"),
            ([_OPERANDS, "Whole | NoArray", _OPERANDS], "Any"),
            ([_OPERANDS, _OPERANDS, "Whole | NoArray"], "Any"),
            *_promoted_by_three("float"),
        ],
    ),
    "selection": (
        "select",
        [
            (["SelfCpT", _ARRAY, "SelfCpT"], "SelfT"),
            (["SelfCpT", "SelfCpT", _ARRAY], "SelfT"),
            (["bool", "T", "T"], "T"),
            ([_MASKS, "int", "int"], "IntT"),
            ([_MASKS, "LeafT", "LeafT"], "FloatT"),
            ([_OPERANDS] * 3, "Any"),
            (["ArrayBase", "T", "T"], "T"),
        ],
    ),
    "matrices": ("det frob trace", [(["Rows[Any, FlatT]"], "FlatT"), (["Any"], "Any")]),
    "parts": (
        "imag",
        [
            (["Numbers[Any, Any, Any, Any, Any, Any, Any, ImagT] | NoArray"], "ImagT"),
            *_PARTS,
        ],
    ),
    "real parts": (
        "real",
        [
            (["Numbers[Any, Any, ValT, Any, Any, Any, Any, Any] | NoArray"], "ValT"),
            *_PARTS,
        ],
    ),
    "flat arrays": (
        "ravel",
        [
            (["Ravels[FlatT] | NoArray"], "FlatT"),
            _INT,
            _FLOAT,
            (["Sequence[Any] | ArrayBase"], "Any"),
        ],
    ),
    "inverse": ("inverse", [_REAL, _FLOAT]),
    "unchanged types": (
        "block_prefix_sum block_sum conj copy cumsum empty_like grad ones_like "
        "prefix_sum reverse sort sqr square zeros_like",
        [(["T"], "T")],
    ),
    "gradients replaced": (
        "replace_grad",
        [
            ([_ARRAY, "SelfCpT"], "SelfT"),
            (["SelfCpT", _ARRAY], "SelfT"),
            ([_OPERANDS] * 2, "Any"),
            (["T"] * 2, "T"),
        ],
    ),
    "more of the same": ("repeat tile", [(["T", "int"], "T"), (["Any", "Any"], "Any")]),
    "creation": (
        "arange empty full gather identity linspace ones quat_to_matrix "
        "reinterpret_array rotate unravel zeros",
        [(["type[T]"], "T")],
    ),
    "opaque ones": ("opaque", [(["type[T]"], "T"), (["T"], "T")]),
    "types": (
        "mask_t",
        [([f"type[{_MASKED}] | {_MASKED}"], "type[MaskT]"), (["Any"], "type[bool]")],
    ),
    "types of items": (
        "value_t",
        [
            (
                ["type[ArrayBase[Any, Any, ValT]] | ArrayBase[Any, Any, ValT]"],
                "type[ValT]",
            )
        ],
    ),
    "reductions": (
        "max min prod squared_norm sum",
        [(["ArrayBase[Any, Any, Any, Any, RedT] | NoArray"], "RedT"), _INT, _FLOAT],
    ),
    "reductions to floats": (
        "mean norm std var",
        [
            (["Whole | NoArray"], "Any"),
            (["ArrayBase[Any, Any, Any, Any, RedT] | NoArray"], "RedT"),
            _FLOAT,
        ],
    ),
    "reductions of masks": (
        "all any none",
        [
            (["ArrayBase[Any, Any, Any, Any, RedT] | NoArray"], "RedT"),
            (["bool"], "bool"),
        ],
    ),
}
# What is written out: functions that take functions.
_WRITTEN = {
    "syntax": """
@overload
def syntax(
    f: F, *, recursive: bool = ..., print_ast: bool = ..., print_code: bool = ...
) -> F: ...
@overload
def syntax(
    *,
    recursive: bool = ...,
    print_ast: bool = ...,
    print_code: bool = ...,
) -> Callable[[F], F]: ...
""",
    "func": """
@overload
def func(f: F, *, backend: JitBackend | None = None) -> F: ...
@overload
def func(*, backend: JitBackend | None = None) -> Callable[[F], F]: ...
""",
    "if_stmt": """
def if_stmt(
    args: tuple[Any, ...],
    cond: Any,
    true_fn: Callable[..., T],
    false_fn: Callable[..., T],
    arg_labels: Sequence[str] = ...,
    rv_labels: Sequence[str] = ...,
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
) -> T: ...
""",
    "while_loop": """
def while_loop(
    state: StateT,
    cond: Callable[..., Any],
    body: Callable[..., tuple[Any, ...]],
    labels: Sequence[str] = ...,
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
    compress: bool | None = None,
    max_iterations: int | None = None,
) -> StateT: ...
""",
    # Numbers that functions return become arrays.
    "switch": """
@overload
def switch(
    index: Any,
    targets: Sequence[Callable[..., float]],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> Any: ...
@overload
def switch(
    index: Any,
    targets: Sequence[Callable[..., T]],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> T: ...
""",
    "dispatch": """
def dispatch(
    inst: Any,
    target: Callable[..., T],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> T: ...
""",
    "concat": """
def concat(arrays: Sequence[T], /, axis: int | None = 0) -> T: ...
""",
    "meshgrid": """
def meshgrid(*args: T, indexing: str = "xy") -> tuple[T, ...]: ...
""",
    "detach": """
@overload
def detach(arg: T, preserve_type: Literal[True] = True) -> T: ...
@overload
def detach(arg: Any, preserve_type: bool) -> Any: ...
""",
    "matmul": """
@overload
def matmul(a: Matrices[SelfT, Any, ValT, Any, Any, Any, Any], b: ValT, /) -> ValT: ...
@overload
def matmul(a: Matrices[SelfT, Any, ValT, Any, Any, Any, Any], b: SelfT, /) -> SelfT: ...
@overload
def matmul(a: Any, b: Any, /) -> Any: ...
""",
}


def _parameters(name: str, types: list[str], axis: str) -> str:
    """Write a function's parameters, of which the first have the types given."""
    found = []
    kind = None
    for parameter in inspect.signature(getattr(dr, name)).parameters.values():
        if kind is parameter.POSITIONAL_ONLY and parameter.kind is not kind:
            found.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and kind is not parameter.kind:
            found.append("*")
        kind = parameter.kind
        if types:
            text = f"{parameter.name}: {types[0]}"
            types = types[1:]
        elif parameter.name == "axis" and axis:
            text = f"axis: {axis}"
        else:
            text = f"{parameter.name}: Any"
            text += "" if parameter.default is parameter.empty else " = ..."
        found.append(text)
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        found.append("/")
    return ", ".join(found)


def _function(name: str, cases: list[Case]) -> str:
    parameters = inspect.signature(getattr(dr, name)).parameters
    rows = [(types, result, "") for types, result in cases]
    if "axis" in parameters and any(result == "RedT" for _, result in cases):
        rows = [(types, result, _AXIS) for types, result in cases]
        rows.append((["Any"], "Any", ""))
    lines = []
    for types, result, axis in rows:
        if len(rows) > 1:
            lines.append("@overload")
        lines.append(f"def {name}({_parameters(name, types, axis)}) -> {result}: ...")
    return "\n".join(lines)


def _homes() -> Iterator[tuple[str, str]]:
    """Yield where each public name comes from, with the name."""
    for table in ("_NOW", "_LATER"):
        for home, names in vars(dr)[table].items():
            for name in names:
                yield f"lumijit.{home}".rstrip("."), name


def package_stub() -> str:
    """Return the stub of the package."""
    typed = {name for names, _ in FORMS.values() for name in names.split()}
    typed |= _WRITTEN.keys()
    lines = [_HEAD]
    for home, name in sorted(_homes()):
        if name not in typed:
            home = "lumijit.typed" if name == "ArrayBase" else home
            lines.append(f"from {home} import {name} as {name}")
    others = ["FlatT", "FloatT", "ImagT", "IntT", "LeafT", "Masks"]
    others += ["Matrices", "NoArray", "Numbers", "Ravels", "Rows", "Whole"]
    others += [f"Size{n}" for n in SIZES]
    lines += [
        "from lumijit.base import Composed",
        f"from lumijit.typed import {', '.join(PARAMETERS)}",
        f"from lumijit.typed import {', '.join(others)}",
        "",
        f"__all__ = {sorted(dr.__all__)}",
        "__version__: str",
        'T = TypeVar("T")',
        'ArrayT = TypeVar("ArrayT", bound=ArrayBase | Composed)',
        'ComposedT = TypeVar("ComposedT", bound=Composed)',
        'StateT = TypeVar("StateT", bound=tuple[Any, ...])',
        'F = TypeVar("F", bound=Callable[..., Any])',
        "",
    ]
    for names, cases in FORMS.values():
        lines += [_function(name, cases) for name in names.split()]
    lines += [text.strip() for text in _WRITTEN.values()]
    return "\n".join([*lines, ""])
