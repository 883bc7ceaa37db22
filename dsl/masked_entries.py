"""What `x[mask]` is when it is read: entries that a mask chooses, to be assigned.

There are as many of them as `x` has, since how many a mask chooses isn't known while
tracing. Arithmetic is that of all entries; only an assignment under the same mask gives
it an end, so that nobody takes it for the entries under the mask alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from lumijit.base import Array, ArrayBase, Composed
from lumijit.runtime.errors import ArrayTypeError


class MaskedEntries(Composed):
    """What `x[mask]` is on the way to `x[mask] = x[mask] * 2` or `x[mask] += 1`.

    Operators and functions that act on entries compute all of them; the assignment
    takes those under the mask.
    """

    __slots__ = ("_array", "_mask")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: Array, mask: Any) -> None:
        self._array = array
        self._mask = mask

    def __repr__(self) -> str:
        """Say what this is."""
        return f"<entries of {type(self._array).__name__} under a mask, to be assigned>"

    def __neg__(self) -> MaskedEntries:
        """Negate all entries."""
        return MaskedEntries(-self._array, self._mask)

    def __invert__(self) -> MaskedEntries:
        """Invert all entries."""
        return MaskedEntries(~self._array, self._mask)

    def __abs__(self) -> MaskedEntries:
        """Take the absolute value of all entries."""
        return MaskedEntries(abs(self._array), self._mask)

    def __bool__(self) -> bool:
        """Refuse to be a condition."""
        raise self.refusal("bool")

    def __iter__(self) -> Iterator[Any]:
        """Refuse to be a sequence."""
        raise self.refusal("iteration")

    def _map(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        found = function(*[unmasked(arg, self._mask) for arg in args])
        return MaskedEntries(found, self._mask)

    def refusal(self, construct: str) -> ArrayTypeError:
        """Return the error for a function that takes arrays only."""
        return ArrayTypeError(
            construct,
            "MaskedEntries are as many as the array has, so these are no array",
            "assign it under the same mask, or use lumijit.select or compress.",
        )

    def __getattr__(self, name: str) -> Any:
        """Say why there is nothing else."""
        text = f"{self!r} has no attribute {name!r}: use lumijit.select, or compress"
        raise AttributeError(text, name=name, obj=self)


def entries_under(array: Array, mask: Any) -> MaskedEntries:
    """Return the entries that an array has under a mask now, whatever it gets later."""
    kept = mask._copy() if isinstance(mask, ArrayBase) else copy(mask)
    return MaskedEntries(array._copy(), kept)


def unmasked(value: Any, mask: Any) -> Any:
    """Return all of which entries are to be assigned under a mask."""
    if not isinstance(value, MaskedEntries):
        return value
    if not _is_same(value._mask, mask):
        raise ArrayTypeError(
            "x[mask]",
            "entries under one mask meet those under another one",
            "use the very same mask, or choose entries with lumijit.select.",
        )
    return value._array


def _is_same(first: Any, second: Any) -> bool:
    """Tell whether two masks are surely equal, without computing them."""
    if first is second:
        return True
    if type(first) is not type(second) or not isinstance(first, ArrayBase):
        return False
    if not first._spec.is_jit:
        return np.array_equal(first.numpy(), second.numpy())
    if hasattr(first, "_items"):
        pairs = zip(first._items, second._items, strict=False)
        is_long = len(first._items) == len(second._items)
        return is_long and all(_is_same(a, b) for a, b in pairs)
    if hasattr(first, "_flat"):
        return first.shape == second.shape and _is_same(first._flat, second._flat)
    return first._node is second._node


def _applied(name: str) -> Callable[[MaskedEntries, Any], MaskedEntries]:
    """Return the method of an operator or a comparison."""
    function = getattr(operator, name)

    def applied(self: MaskedEntries, value: Any) -> MaskedEntries:
        found = function(self._array, unmasked(value, self._mask))
        return MaskedEntries(found, self._mask)

    return applied


def _define(name: str) -> None:
    """Give `MaskedEntries` an operator, its reflected and its in-place form."""
    function = getattr(operator, name)
    update = getattr(operator, f"i{name.strip('_')}")

    def reflected(self: MaskedEntries, value: Any) -> MaskedEntries:
        return MaskedEntries(function(value, self._array), self._mask)

    def updated(self: MaskedEntries, value: Any) -> MaskedEntries:
        # The operator may change its first operand.
        found = update(self._array._copy(), unmasked(value, self._mask))
        return MaskedEntries(found, self._mask)

    plain = name.strip("_")
    setattr(MaskedEntries, f"__{plain}__", _applied(name))
    setattr(MaskedEntries, f"__r{plain}__", reflected)
    setattr(MaskedEntries, f"__i{plain}__", updated)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _define(_name)
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(MaskedEntries, f"__{_name}__", _applied(_name))
for _name in ("and_", "or_", "xor", "lshift", "rshift"):
    _define(_name)
