"""What programs mean, for one lane, in plain Python: the reference.

A lane's number is a `Number`, which can be changed in place as arrays can. `Dr` and
`Types` stand for lumijit and its namespace of array types.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class Number:
    """A 32-bit integer of one lane."""

    is_signed = True

    def __init__(self, value: Any = 0) -> None:
        value = int(value) & 0xFFFFFFFF
        is_negative = self.is_signed and value >= 1 << 31
        self.value = value - (1 << 32) if is_negative else value

    def __int__(self) -> int:
        return self.value

    def __iadd__(self, other: Any) -> Number:
        self.value = Number(self.value + int(other)).value
        return self

    def __isub__(self, other: Any) -> Number:
        self.value = Number(self.value - int(other)).value
        return self

    def __ixor__(self, other: Any) -> Number:
        self.value = Number(self.value ^ int(other)).value
        return self

    def __setitem__(self, mask: Any, value: Any) -> None:
        """Assign where a mask holds, as to an array."""
        if mask:
            self.value = Number(value).value

    __hash__ = None  # type: ignore[assignment]


class Unsigned(Number):
    """An unsigned one, as an index."""

    is_signed = False


def _arithmetic(function: Callable[[int, int], int], is_swapped: bool) -> Any:
    def method(self: Number, other: Any) -> Number:
        a, b = (other, self) if is_swapped else (self, other)
        return type(self)(function(int(a), int(b)))

    return method


def _comparison(function: Callable[[int, int], bool]) -> Any:
    return lambda self, other: function(int(self), int(other))


for _name in ("add", "sub", "mul", "and_", "or_", "xor", "mod"):
    _function, _word = getattr(operator, _name), _name.strip("_")
    setattr(Number, f"__{_word}__", _arithmetic(_function, False))
    setattr(Number, f"__r{_word}__", _arithmetic(_function, True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparison(getattr(operator, _name)))


class Pair:
    """An Array2i: assigning a component copies the number into it."""

    entries: dict[str, Number]

    def __init__(self, x: int, y: int) -> None:
        self.__dict__["entries"] = {"x": Number(x), "y": Number(y)}

    def __getattr__(self, name: str) -> Number:
        return self.entries[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self.entries[name] = Number(value)

    def __setitem__(self, mask: Any, value: Any) -> None:
        for entry in self.entries.values():
            entry[mask] = value

    def __iadd__(self, value: Any) -> Pair:
        for entry in self.entries.values():
            entry += value
        return self


def place(index: Any, size: int) -> int | None:
    """Return the entry that an index means: negative ones count from the end."""
    index = int(index)
    if index < 0:
        index += size
    return index if 0 <= index < size else None


class Shared:
    """An array that all lanes share."""

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def __getitem__(self, index: Any) -> Number:
        at = place(index, len(self.values))
        return Number(0 if at is None else self.values[at])

    def __setitem__(self, index: Any, value: Any) -> None:
        at = place(index, len(self.values))
        if at is not None:
            self.values[at] = int(Number(value))

    def __len__(self) -> int:
        return len(self.values)


class Local:
    """A lane's own buffer; indices are in range."""

    def __init__(self, size: int, value: Any) -> None:
        self.values = [int(Number(value))] * size

    def read(self, index: Any, active: Any = True) -> Number:
        return Number(self.values[int(index)] if active else 0)

    def write(self, value: Any, index: Any, active: Any = True) -> None:
        if active:
            self.values[int(index)] = int(Number(value))

    __getitem__ = read

    def __setitem__(self, index: Any, value: Any) -> None:
        self.write(value, index)


class Dr:
    """The functions that programs call."""

    class ReduceOp:
        Max = max
        Min = min

    @staticmethod
    def alloc_local(_dtype: Any, size: int, value: Any) -> Local:
        return Local(size, value)

    @staticmethod
    def gather(_dtype: Any, source: Shared, index: Any, active: Any = True) -> Number:
        return source[index] if active else Number(0)

    @staticmethod
    def scatter(target: Shared, value: Any, index: Any, active: Any = True) -> None:
        if active:
            target[index] = value

    @staticmethod
    def scatter_add(target: Shared, value: Any, index: Any, active: Any = True) -> None:
        if active:
            target[index] = target[index] + value

    @staticmethod
    def scatter_reduce(op: Any, target: Shared, value: Any, index: Any) -> None:
        target[index] = op(int(target[index]), int(Number(value)))

    @staticmethod
    def select(condition: Any, a: Any, b: Any) -> Number:
        return Number(a if condition else b)

    @staticmethod
    def minimum(a: Any, b: Any) -> Number:
        return Number(min(int(a), int(b)))

    @staticmethod
    def maximum(a: Any, b: Any) -> Number:
        return Number(max(int(a), int(b)))

    @staticmethod
    def switch(index: Any, functions: list[Any], *arguments: Any) -> Any:
        return functions[int(index)](*arguments)


class Types:
    """The array types that programs name."""

    Int = Number
    UInt = Unsigned


def range_(*bounds: Any) -> range:
    """Return a range whose bounds may be lanes' numbers."""
    return range(*(int(bound) for bound in bounds))
