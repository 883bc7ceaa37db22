"""Python numbers whose use is recorded: what a replay computes of its inputs anew.

While a function is recorded, a `Number` stands for a Python number that may be another
one in the next call. Arithmetic gives further numbers; what asks for the very value (a
size, a branch of Python) makes it a *guard*: the recording holds for that value only.
Nothing that doesn't know of this class can use a number without one or the other.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import os
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

import numpy as np

from lumijit.runtime.errors import RecordingError, where

Operation = Callable[..., Any]
Step = tuple[Operation | None, tuple[Any, ...]]
_PLAIN = (bool, int, float)


# Threads whose numbers stand in objects that others may see, and what is another object
# after each change of these.
_showing: dict[int, None] = {}
_moment = [object()]


def moment() -> object | None:
    """Return what stays the same as long as objects hold what they hold.

    None while they hold another thread's recorded numbers.
    """
    return None if _showing else _moment[0]


@contextlib.contextmanager
def shown() -> Iterator[bool]:
    """Have other threads know that objects hold numbers of this one, in a block.

    It gets whether it is the only one to do so.
    """
    mine = get_ident()
    _showing[mine] = None
    _moment[0] = object()
    try:
        yield len(_showing) == 1
    finally:
        del _showing[mine]
        _moment[0] = object()


def _after_fork_in_child() -> None:
    for thread in [t for t in _showing if t != get_ident()]:
        del _showing[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class Guard:
    """That something has one value in all calls which a recording serves."""

    __slots__ = ("expected", "has_reads", "index", "inputs", "where")

    def __init__(
        self, index: int, expected: Any, inputs: frozenset[int], has_reads: bool
    ) -> None:
        self.index = index
        self.expected = expected
        # Those that it is computed of, and whether entries of arrays are among it.
        self.inputs = inputs
        self.has_reads = has_reads
        self.where = where()


class Arithmetic:
    """What a recorded function computes of Python numbers, in order.

    Values are numbered: first the inputs, then what each step gives. A step is an
    operation with operands, which are the numbers of values, or constants; or, without
    an operation, it reads an entry of an array, whose number in the order of reading is
    the one operand.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.steps: list[Step] = []
        self.guards: list[Guard] = []
        self.is_open = True
        # Other threads may see its numbers, too, in what objects hold meanwhile.
        self._thread = get_ident()
        # Makes a traced value of a number, for who records.
        self.node_of: Callable[[Number, Any, str, bool], Any] | None = None
        self._known: dict[tuple[int, str], Any] = {}

    def listens(self) -> bool:
        """Tell whether what this thread does with numbers is recorded."""
        return self.is_open and get_ident() == self._thread

    def input(self, index: int, value: Any) -> Number:
        """Return what stands for an input."""
        return Number(self, index, value)

    def read(self, number: int, value: Any) -> Any:
        """Return what stands for an entry of an array, whose value is known now."""
        index = len(self.names) + len(self.steps)
        self.steps.append((None, (number,)))
        if type(value) is bool:
            self.guard(index, value)
            return value
        return Number(self, index, value)

    def apply(self, operation: Operation, *operands: Any) -> Any:
        """Apply an operation to numbers, some of them recorded."""
        values = [o.value if type(o) is Number else o for o in operands]
        result = operation(*values)
        if not self.listens() or type(result) not in _PLAIN:
            for operand in operands:
                if type(operand) is Number:
                    operand.exact()
            return result
        index = len(self.names) + len(self.steps)
        self.steps.append((operation, tuple(map(_operand, operands))))
        if type(result) is bool:
            self.guard(index, result)
            return result
        return Number(self, index, result)

    def guard(self, index: int, value: Any) -> None:
        """Have the recording hold only where a value is as it is now."""
        key = (index, repr(value))
        if self.listens() and key not in self._known:
            guard = self._known[key] = Guard(index, value, *self._inputs(index))
            self.guards.append(guard)

    def _inputs(self, index: int) -> tuple[frozenset[int], bool]:
        """Return the inputs of which a value is computed, and whether of entries."""
        found: set[int] = set()
        has_reads = False
        stack = [index]
        while stack:
            index = stack.pop()
            if index < len(self.names):
                found.add(index)
            else:
                operation, operands = self.steps[index - len(self.names)]
                if operation is None:
                    has_reads = True
                else:
                    stack += [o for o in operands if type(o) is int]
        return frozenset(found), has_reads

    @staticmethod
    def restored(names: list[str], steps: list[Any], guards: list[Guard]) -> Arithmetic:
        """Return what was recorded in another process."""
        made = Arithmetic(names)
        made.steps, made.guards, made.is_open = steps, guards, False
        return made

    def compiled(self) -> Callable[..., Any]:
        """Return a function from inputs to all values, or to the guard that fails.

        It takes a second argument where entries are read: what does that, given the
        number of the entry and the values so far.
        """
        return functools.partial(_computed, self.steps, self._by_index())

    def _by_index(self) -> dict[int, list[Guard]]:
        found: dict[int, list[Guard]] = {}
        for guard in self.guards:
            found.setdefault(guard.index, []).append(guard)
        return found


def _operand(value: Any) -> Any:
    return value._index if type(value) is Number else (value,)


def _computed(
    steps: list[Step],
    guards: dict[int, list[Guard]],
    inputs: list[Any],
    entry: Callable[[int, list[Any]], Any] | None = None,
) -> Any:
    values = list(inputs)
    if guards:
        for index, value in enumerate(values):
            for guard in guards.get(index, ()):
                if not is_same(value, guard.expected):
                    return guard
    for operation, operands in steps:
        index = len(values)
        if operation is None:
            assert entry is not None
            values.append(entry(operands[0], values))
        else:
            known = [o[0] if type(o) is tuple else values[o] for o in operands]
            values.append(operation(*known))
        for guard in guards.get(index, ()):
            if not is_same(values[index], guard.expected):
                return guard
    return values


def is_same(a: Any, b: Any) -> bool:
    """Tell whether two numbers are of one type and value, and zeros of one sign."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return repr(a) == repr(b)
    return bool(a == b)


class Number:
    """A Python int or float, of which is recorded what becomes of it.

    To `isinstance` it is what it stands for.
    """

    __slots__ = ("_arithmetic", "_index", "value")

    def __init__(self, arithmetic: Any, index: Any = None, value: Any = None) -> None:
        if index is None:
            raise RecordingError(
                "@kernel",
                "type() of a number whose use is recorded isn't the number's own type",
                "call n.__class__ instead of type(n), or int or float.",
            )
        self._arithmetic: Arithmetic = arithmetic
        self._index: int = index
        self.value = value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.value)

    @property
    def index(self) -> int:
        """Which of the recorded values it is."""
        return self._index

    @property
    def arithmetic(self) -> Arithmetic:
        """What it is recorded in."""
        return self._arithmetic

    def seen(self) -> Any:
        """Return what this thread sees: the value, if another one records it."""
        return self if self._arithmetic.listens() else self.value

    def exact(self) -> Any:
        """Return the value, on which the recording depends from here on."""
        self._arithmetic.guard(self._index, self.value)
        return self.value

    def node(self, dtype: Any, construct: str, cuts: bool) -> Any:
        """Return a traced value of one entry of a type; None once nobody records."""
        make = self._arithmetic.node_of
        if make is None or not self._arithmetic.listens():
            return None
        return make(self, dtype, construct, cuts)

    def __getattr__(self, name: str) -> Any:
        """Return what the value itself has under a name."""
        if not hasattr(type(self.value), name):
            kind = type(self.value).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        return getattr(self.exact(), name)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    def __reduce__(self) -> Any:
        """Pickle the value."""
        return type(self.value), (self.exact(),)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the value as NumPy takes it."""
        return np.asarray(self.exact(), *args, **kwargs)

    # (NumPy's arrays keep their types beside a Python number, not beside an array.)
    def __array_ufunc__(
        self, ufunc: np.ufunc, how: str, *inputs: Any, **options: Any
    ) -> Any:
        """Apply an operation of NumPy to the value."""
        return getattr(ufunc, how)(*_exact(inputs), **_exact(options))

    def __array_function__(
        self, function: Operation, kinds: Any, inputs: Any, options: Any
    ) -> Any:
        """Apply a function of NumPy to the value."""
        return function(*_exact(inputs), **_exact(options))

    def __float__(self) -> float:
        """Return the value as a float."""
        return float(self.exact())

    def __int__(self) -> int:
        """Return the value as an int."""
        value = int(self.value)
        self._arithmetic.apply(_is_int, self, value)
        return value

    def __index__(self) -> int:
        """Return the value as an index."""
        return operator.index(self.exact())

    def __complex__(self) -> complex:
        """Return the value as a complex number."""
        return complex(self.exact())

    def __bool__(self) -> bool:
        """Tell whether the value isn't zero."""
        return bool(self._arithmetic.apply(bool, self))

    def __hash__(self) -> int:
        """Hash the value."""
        return hash(self.exact())

    def __repr__(self) -> str:
        return repr(self.exact())

    def __str__(self) -> str:
        return str(self.exact())

    def __format__(self, spec: str) -> str:
        """Write the value as a format says."""
        return format(self.exact(), spec)

    def __round__(self, digits: int | None = None) -> Any:
        """Round to an int, or to decimal digits."""
        others = () if digits is None else (digits,)
        return self._arithmetic.apply(round, self, *others)


def _exact(value: Any) -> Any:
    """Return values without recorded numbers among them."""
    if type(value) is Number:
        return value.exact()
    if type(value) is dict:
        return {key: _exact(item) for key, item in value.items()}
    return type(value)(map(_exact, value)) if type(value) in (list, tuple) else value


def _is_int(value: Any, expected: int) -> bool:
    return int(value) == expected


def _binary(operation: Operation, is_reflected: bool = False) -> Operation:
    def apply(self: Number, other: Any) -> Any:
        if type(other) is Number or type(other) in _PLAIN:
            operands = (other, self) if is_reflected else (self, other)
            return self._arithmetic.apply(operation, *operands)
        if isinstance(other, np.generic) or type(other) is complex:
            value = self.exact()
            return operation(other, value) if is_reflected else operation(value, other)
        return NotImplemented

    return apply


def _unary(operation: Operation) -> Operation:
    def apply(self: Number) -> Any:
        return self._arithmetic.apply(operation, self)

    return apply


def _add_operators() -> None:
    both = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift divmod"
    for name in both.split():
        operation = getattr(operator, name, divmod)
        plain = name.rstrip("_")
        setattr(Number, f"__{plain}__", _binary(operation))
        setattr(Number, f"__r{plain}__", _binary(operation, is_reflected=True))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Number, f"__{name}__", _binary(getattr(operator, name)))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(Number, f"__{name}__", _unary(getattr(operator, name)))
    for name in ("floor", "ceil", "trunc"):
        setattr(Number, f"__{name}__", _unary(getattr(math, name)))


_add_operators()
