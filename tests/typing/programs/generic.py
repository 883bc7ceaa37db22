"""Code of libraries: functions and types that are generic over arrays."""

from typing import Generic, TypeVar

from typing_extensions import assert_type

import lumijit as dr
from lumijit import llvm, scalar

SelfT = TypeVar("SelfT")
SelfCpT = TypeVar("SelfCpT")
ValT = TypeVar("ValT")
ValCpT = TypeVar("ValCpT")
RedT = TypeVar("RedT")
PlainT = TypeVar("PlainT")
MaskT = TypeVar("MaskT")
T = TypeVar("T", bound=dr.ArrayBase)


def larger(
    a: dr.ArrayBase[SelfT, SelfCpT, ValT, ValCpT, RedT, PlainT, MaskT], b: SelfCpT, /
) -> SelfT:
    """Return the sum, as misc.txt declares `maximum`."""
    return a + b


def below(
    a: dr.ArrayBase[SelfT, SelfCpT, ValT, ValCpT, RedT, PlainT, MaskT], b: SelfCpT, /
) -> MaskT:
    return a < b


def first(a: "dr.ArrayBase[SelfT, SelfCpT, ValT]") -> ValT:
    return a[0]


def unchanged(x: T) -> T:
    return dr.abs(x)


def count(x: dr.ArrayBase) -> int:
    return len(x)


class Pair(Generic[T]):
    DRJIT_STRUCT: dict[str, type]

    def __init__(self, a: T, b: T) -> None:
        self.a, self.b = a, b

    def first(self) -> T:
        return dr.detach(self.a)


v = llvm.Array3f(1, 2, 3)
assert_type(larger(v, 1), llvm.Array3f)
assert_type(larger(v, llvm.Float(1)), llvm.Array3f)
assert_type(below(v, 1), llvm.Array3b)
assert_type(first(v), llvm.Float)
assert_type(first(scalar.Array3f(1)), float)
assert_type(unchanged(v), llvm.Array3f)
assert_type(count(v), int)
assert_type(count([v, llvm.Float(1)][0]), int)
assert_type(Pair(v, v).first(), llvm.Array3f)
