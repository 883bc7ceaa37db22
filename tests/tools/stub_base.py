"""Writes the stub of `ArrayBase`, and of what stands between it and the types.

Owns how operators, items and components are typed. A type's bases say what its entries
are (`Floats`, `Integers`, `Masks`), how it is indexed (`Flat`, `Rows`), which size
other operands may have (`Size3`) and which components it has (`Static3`); `stub_types`
chooses them. Type checkers alone know these classes.
"""

from __future__ import annotations

import itertools

from lumijit.compiler.ir.ops.arithmetic import MUL
from lumijit.compiler.ir.ops.logic import AND
from lumijit.operators import BINARY, Binary
from lumijit.runtime.dtypes import BOOL, FLOAT32, INT32, DType
from tests.tools.stub_types import ARRAYS_OF_NUMPY, SIZES, WRITTEN, orders

# Those that only results have are covariant: where `x < y` is asked to be iterable, it
# is a `MaskT` that is.
_TAKEN = ("SelfCpT", "ValCpT", "LeafT", "ImagCpT")
PARAMETERS = ("SelfT", "SelfCpT", "ValT", "ValCpT", "RedT", "PlainT", "MaskT")
ARRAY = f"ArrayBase[{', '.join(PARAMETERS)}]"
_HEAD = f"""# What all array types have in common. {WRITTEN}
# mypy: disable-error-code="misc, override, overload-overlap, overload-cannot-match"
# pyright: basic

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, ClassVar, Generic, NoReturn, overload

import numpy as np
from lumijit.compiler.ir.nodes import Node
from lumijit.enums import VarState
from lumijit.spec import ArraySpec
from typing_extensions import Never, Self, TypeVar

"""
_ARRAY_BASE = f"""
class ArrayBase(Generic[{", ".join(PARAMETERS)}]):
    _spec: ClassVar[ArraySpec]
    __meta__: ClassVar[str]
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def numpy(self) -> np.ndarray[Any, Any]: ...
    def torch(self) -> Any: ...
    def jax(self) -> Any: ...
    def tf(self) -> Any: ...
    def item(self) -> Any: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __copy__(self) -> SelfT: ...
    def __deepcopy__(self, memo: object) -> SelfT: ...
    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]: ...
    def __hash__(self) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[ValT]: ...
    def __bool__(self) -> bool: ...
    @overload
    def __getitem__(self, key: int, /) -> ValT: ...
    @overload
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __delitem__(self, key: NoReturn, /) -> None: ...
    @property
    def array(self) -> PlainT: ...
    @array.setter
    def array(self, value: Any) -> None: ...
    @property
    def real(self) -> Any: ...
    @property
    def imag(self) -> Any: ...
    @property
    def T(self) -> SelfT: ...
    @property
    def mT(self) -> SelfT: ...
    @property
    def grad(self) -> SelfT: ...
    @grad.setter
    def grad(self, value: Any) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def state(self) -> VarState: ...
    @property
    def index(self) -> int: ...
    @property
    def index_ad(self) -> int: ...
    @property
    def label(self) -> str | None: ...
    @label.setter
    def label(self, name: str) -> None: ...
    def __neg__(self) -> SelfT: ...
    def __pos__(self) -> SelfT: ...
    def __invert__(self) -> SelfT: ...
    def __abs__(self) -> SelfT: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
"""
# What mypy makes of arrays of several types, as in `[Float(1), Array3f(2)]`: it joins
# types at the base whose own bases are the most. All types list it last, so that they
# are an `ArrayBase` with parameters of their own first.
_ANY_ARRAY = "class AnyArray(ArrayBase): ..."
# `**` takes what products take.
_OPERATORS = (*BINARY, Binary("pow", MUL, "**"))
# What entries are indexed by; what is read may be written to under a mask.
_FLAT = """
class Flat(Generic[SelfT, ValT]):
    _node: Node
    def _become(self, node: Node) -> None: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> ValT: ...
    @overload
    def __getitem__(self, key: Any, /) -> SelfT: ...

# Entries that become floats beside Python's floats and flat arrays of floats.
class Whole(Generic[FloatT, LeafT, SelfCpT]): ...

class Real(Generic[ComplexT]): ...

# For `range(n)` in functions with `@syntax`; other code raises where it asks for this.
class Counts:
    def __index__(self) -> int: ...

class NoArray: ...

class Ravels(Generic[FlatT]): ...

class Rows(Generic[ValT, FlatT]):
    @overload
    def __getitem__(self, key: int, /) -> ValT: ...
    @overload
    def __getitem__(self, key: tuple[int, int], /) -> FlatT: ...
    @overload
    def __getitem__(self, key: Any, /) -> Any: ...

class Component(Generic[ValT, ValCpT]):
    @overload
    def __get__(self, owner: None, cls: Any = None) -> Any: ...
    @overload
    def __get__(self, owner: Any, cls: Any = None) -> ValT: ...
    def __set__(self, owner: Any, value: ValCpT) -> None: ...
"""
_WITH_IMAG = f"{', '.join(PARAMETERS)}, ImagT, ImagCpT"
_KINDS = f"""
class Numbers(Floats[{", ".join(PARAMETERS)}], Generic[{_WITH_IMAG}]):
    real: Component[ValT, ValCpT]
    imag: Component[ImagT, ImagCpT]
    def __complex__(self) -> complex: ...
    def __abs__(self) -> ValT: ...

class Matrices(Floats[{", ".join(PARAMETERS)}]):
{{products}}
    @overload
    def __matmul__(self, other: ValT, /) -> ValT: ...
    @overload
    def __matmul__(self, other: SelfT, /) -> SelfT: ...
    @overload
    def __matmul__(self, other: Any, /) -> Any: ...
"""
_PCG32 = """
class PCG32Base(Generic[UIntT, UInt64T, Float16T, FloatT, Float64T]):
    state: UInt64T
    inc: UInt64T
    def __init__(
        self, size: Any = 1, initstate: Any = ..., initseq: Any = ...
    ) -> None: ...
    def __add__(self, steps: Any) -> Self: ...
    def __iadd__(self, steps: Any) -> Self: ...
    @overload
    def __sub__(self, other: PCG32Base) -> Any: ...
    @overload
    def __sub__(self, other: Any) -> Self: ...
    def __isub__(self, steps: Any) -> Self: ...
    def seed(self, initstate: Any = ..., initseq: Any = ...) -> None: ...
    def next_uint32(self, mask: Any = True) -> UIntT: ...
    def prev_uint32(self, mask: Any = True) -> UIntT: ...
    def next_uint64(self, mask: Any = True) -> UInt64T: ...
    def prev_uint64(self, mask: Any = True) -> UInt64T: ...
    def next_uint32_bounded(self, bound: Any, mask: Any = True) -> UIntT: ...
    def next_uint64_bounded(self, bound: Any, mask: Any = True) -> UInt64T: ...
    def next_float(self, dtype: type[FloatsT], mask: Any = True) -> FloatsT: ...
    def next_float_normal(self, dtype: type[FloatsT], mask: Any = True) -> FloatsT: ...
    def prev_float(self, dtype: type[FloatsT], mask: Any = True) -> FloatsT: ...
    def prev_float_normal(self, dtype: type[FloatsT], mask: Any = True) -> FloatsT: ...
"""
_DRAWS = """
    def {direction}_float{bits}(self, mask: Any = True) -> {result}: ...
    def {direction}_float{bits}_normal(self, mask: Any = True) -> {result}: ...
"""


def _overloads(name: str, cases: list[tuple[str, str]], own: str = "self") -> str:
    """Write a method of two operands for what the other is and what that gives."""
    lines = []
    for other, result in cases:
        this, _, other = other.rpartition(" and ")
        own_type = f"{own}: {this}" if this else own
        if len(cases) > 1:
            lines.append("    @overload")
        lines.append(
            f"    def __{name}__({own_type}, other: {other}, /) -> {result}: ..."
        )
    return "\n".join(lines)


_OWN = ("SelfCpT", "SelfT")
# What flat arrays do with Python's complex numbers.
_COMPLEX = ("Real[ComplexT] and complex", "ComplexT")
_OF_COMPLEX = ("add", "sub", "mul", "truediv", "pow")
# Operands of other types, none of which is that of the result.
_BESIDE = [(f"Size{n} and Size{n}", "Any") for n in SIZES]


def _operators(binary: Binary, cases: list[tuple[str, str]]) -> str:
    """Write an operator, in both directions, for each case of the other operand."""
    alike = (f"SelfCpT | float | {ARRAYS_OF_NUMPY}", "MaskT")
    if binary.name in ("eq", "ne"):
        cases = [("None", "bool"), alike, ("object", "Any")]
        return _overloads(binary.name, cases)
    if binary.is_comparison:
        return _overloads(binary.name, [alike, *_BESIDE])
    if not cases:
        return "\n".join(
            _overloads(name, [("Never", "Any")])
            for name in (binary.name, f"r{binary.name}")
        )
    if binary.name in _OF_COMPLEX:
        cases = [*cases, _COMPLEX]
    # Without this case, the result would be an array of NumPy, or refused.
    forward = _overloads(binary.name, [*cases, (ARRAYS_OF_NUMPY, "Any")])
    if _OWN in cases:
        cases = [*cases, *_BESIDE]
    elif binary.name == "truediv":
        cases = [*cases, ("Floats", "Any")]
    if binary.name == "pow" and ("LeafT", "FloatT") in cases:
        # What numbers are raised to may be negative.
        cases = [("LeafT", "FloatT"), ("Floats", "Any"), _COMPLEX]
    return forward + "\n" + _overloads(f"r{binary.name}", cases)


def _base() -> str:
    return _ARRAY_BASE + "\n".join(_operators(binary, [_OWN]) for binary in _OPERATORS)


def _entries(name: str, dtype: DType, more: tuple[str, ...]) -> str:
    """Write the class of the types with entries of some kind."""
    parameters = ", ".join((*PARAMETERS, *more))
    whole = "" if dtype.is_float else ", Whole[FloatT, LeafT, SelfCpT]"
    lines = [f"class {name}({ARRAY}{whole}, Generic[{parameters}]):"]
    for binary in _OPERATORS:
        accepts = binary.op.accepts
        cases = [_OWN] if dtype in accepts else []
        # Python's numbers, and flat arrays of floats, change the type of the entries.
        if dtype is BOOL and INT32 in accepts:
            cases.append(("int", "IntT"))
        if not dtype.is_float and FLOAT32 in accepts:
            cases.append(("LeafT", "FloatT"))
        if binary.op is AND and dtype.is_float:
            lines.append(_overloads("and", [("Masks | bool", "SelfT")]))
            lines.append(_overloads("rand", [("Never", "Any")]))
        elif cases != [_OWN] and not binary.is_comparison:
            lines.append(_operators(binary, cases))
    return "\n".join([*lines, "    ..."])


def _products() -> str:
    """Write how matrices are multiplied and divided: a vector times one is a vector."""
    vectors = [(f"Size{n} and Static{n}", "Any") for n in (2, 3, 4)]
    return "\n".join(
        [
            _overloads(
                "mul",
                [("ValT", "ValT"), *vectors, _OWN, (ARRAYS_OF_NUMPY, "Any")],
            ),
            *[
                _overloads(name, [*vectors, _OWN, *_BESIDE])
                for name in ("rmul", "rtruediv")
            ],
        ]
    )


def _sizes() -> str:
    return "\n".join(f"class Size{n}: ..." for n in SIZES)


def _static() -> str:
    """Write the classes that have components by name, and swizzles."""
    lines = []
    names = "xyzw"
    parameters = "ValT, ValCpT, Vec2T, Vec3T, Vec4T"
    before: set[str] = set()
    base = f"AnyArray, Generic[{parameters}]"
    for size in range(1, 5):
        lines.append(f"class Static{size}({base}):")
        lines.append(f"    {names[size - 1]}: Component[ValT, ValCpT]")
        for count in range(2, 5):
            for parts in itertools.product(names[:size], repeat=count):
                name = "".join(parts)
                if name not in before:
                    before.add(name)
                    lines.append(f"    {name}: Component[Vec{count}T, Any]")
        base = f"Static{size}[{parameters}]"
    return "\n".join(lines)


def _draws() -> str:
    results = {16: "Float16T", 32: "FloatT", 64: "Float64T"}
    found = [
        _DRAWS.format(direction=direction, bits=bits, result=result).strip("\n")
        for direction in ("next", "prev")
        for bits, result in results.items()
    ]
    return _PCG32 + "\n".join(found)


def base_stub() -> str:
    """Return the stub of the classes from which all array types derive."""
    # With defaults, "ArrayBase" alone is any array, and strict checkers are content.
    others = ["FloatT", "FlatT", "LeafT", "IntT", "ImagT", "ImagCpT", "Vec2T", "Vec3T"]
    others += ["Vec4T", "UIntT", "UInt64T", "Float16T", "Float64T", "ComplexT"]
    variables = [
        f'{name} = TypeVar("{name}", default=Any'
        + (")" if name in _TAKEN else ", covariant=True)")
        for name in (*PARAMETERS, *others)
    ]
    variables += [
        f'{name} = TypeVar("{name}", covariant=True)'
        for name in ("InT", "LikeT", "OfT")
    ]
    variables.append('FloatsT = TypeVar("FloatsT")')
    return "\n\n".join(
        [
            _HEAD + "\n".join(variables),
            orders(),
            "class Fits(Generic[InT, LikeT, OfT]): ...",
            _sizes(),
            _base(),
            _ANY_ARRAY,
            _entries("Floats", FLOAT32, ()),
            _entries("Integers", INT32, ("FloatT", "LeafT")),
            _entries("Masks", BOOL, ("FloatT", "LeafT", "IntT")),
            _FLAT,
            _KINDS.format(products=_products()),
            _static(),
            _draws(),
            "",
        ]
    )
