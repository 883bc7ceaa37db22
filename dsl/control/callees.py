"""Which callable an index selects: targets, indices and the masks they make.

Owns finding equal callables and the conversion of indices; running the callables
is the work of `calls`.
"""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import EQ, LE, LT, OR
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch.evaluate import from_numpy
from lumijit.compiler.record import memory
from lumijit.control.state import is_array
from lumijit.initialize import check_callable
from lumijit.instance_registry import Domain, contents
from lumijit.runtime.dtypes import BOOL, UINT32, UINT64
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
)

# Positions of a callable, from which on a table tells where it is selected.
LOOKUP = 8


@dataclass
class Callee:
    """One distinct callable, and the indices that select it."""

    function: Callable[..., Any]
    positions: list[int]

    @property
    def name(self) -> str:
        """What the callable calls itself."""
        name: str = getattr(self.function, "__name__", type(self.function).__name__)
        return name

    @property
    def roots(self) -> tuple[Any, ...]:
        """The objects and functions that it reaches others from."""
        function = self.function
        return function.roots if isinstance(function, _Bound) else (function,)

    def __str__(self) -> str:
        if not self.positions or isinstance(self.function, _Bound):
            return self.name
        return f"callable {self.positions[0]} ({self.name})"


def distinct(targets: Sequence[Callable[..., Any]], name: str) -> list[Callee]:
    """List the different callables with all of their positions."""
    found: dict[Any, Callee] = {}
    if isinstance(targets, ArrayBase) or not hasattr(targets, "__getitem__"):
        raise ArrayTypeError(
            name,
            f"the targets are of type {type(targets).__name__!r} (expected a sequence "
            "of callables)",
            "pass the index first, then a list of functions.",
        )
    for k, target in enumerate(targets):
        if not callable(target):
            raise ArrayTypeError(
                name,
                f"targets[{k}] is of type {type(target).__name__!r} "
                "(expected a callable)",
                "pass a sequence of functions.",
            )
        key: Any = id(target)
        if isinstance(target, MethodType):
            # Each access of a bound method makes a new object.
            key = (id(target.__self__), id(target.__func__))
        found.setdefault(key, Callee(target, [])).positions.append(k)
    return list(found.values())


def _wrong_index(index: Any, name: str) -> ArrayTypeError:
    return ArrayTypeError(
        name,
        f"the index is of type {type(index).__name__!r} (expected a Python int "
        "or a flat integer array of a JIT backend)",
        "pass a UInt32 array.",
    )


def scalar_index(index: Any, count: int, name: str) -> int:
    """Return a Python index, if there is a target for it."""
    try:
        position = operator.index(index)
    except TypeError:
        raise _wrong_index(index, name) from None
    if not 0 <= position < count:
        raise ArrayIndexError(
            name,
            f"the index {position} is out of range (there are {count} targets)",
            f"use an index from 0 to {count - 1}." if count else "add a target.",
        )
    return position


def index_node(index: ArrayBase, name: str) -> Node:
    """Return an index as a UInt32 node; what doesn't fit gets the largest value."""
    if not is_array(index) or not index._node.type.is_int:
        raise _wrong_index(index, name)
    node: Node = index._node
    if node.type.bits == 64:
        wide = trace.cast_to(node, UINT64)
        largest = trace.literal(UINT64, UINT32.wrap(-1))
        fits = trace.emit2(LE, wide, largest)
        node = trace.select(fits, wide, largest)
    return trace.cast_to(node, UINT32)


def of_object(target: Callable[..., Any], instance: Any) -> Callee:
    """Return the callable of one instance that isn't in an array."""
    return Callee(_Bound(target, instance), [])


def of_instances(
    inst: Any, target: Callable[..., Any], name: str
) -> tuple[list[Callee], int]:
    """List the instances that an array may contain, and how many numbers there are."""
    domain: Domain = type(inst)._domain
    if not callable(target):
        raise ArrayTypeError(
            name,
            f"the target is of type {type(target).__name__!r} (expected a callable)",
            "pass a function of an instance and the arguments.",
        )
    callees = [
        Callee(_Bound(target, instance), [number - 1])
        for number, instance in domain.instances(contents(inst._node))
    ]
    if not callees:
        # Any object tells the type of the result.
        callees = [
            Callee(_Bound(target, instance), [])
            for _, instance in itertools.islice(domain.instances(None), 1)
        ]
    if not callees:
        raise ArrayValueError(
            name,
            f"no instance of {domain.base.__name__!r} that was put into an array is "
            "alive, so the type of the result isn't known",
            "make an array of an instance first, and keep the objects.",
        )
    return callees, domain.limit - 1


class Member:
    """A function that calls a method of an instance, or reads an attribute of it."""

    def __init__(self, name: str, is_method: bool) -> None:
        self.name = name
        self.is_method = is_method

    def __call__(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the method, or read the attribute."""
        found = getattr(instance, self.name)
        return found(*args, **kwargs) if self.is_method else found


class _Bound:
    """A function with its first argument."""

    def __init__(self, function: Callable[..., Any], instance: Any) -> None:
        self.function = function
        self.instance = instance
        self.__name__ = type(instance).__name__
        if isinstance(function, Member):
            self.__name__ += f".{function.name}"

    def asked(self, args: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[Any]]:
        """Return what takes some arguments, and all that it takes."""
        function = self.function
        if isinstance(function, Member) and function.is_method:
            return getattr(self.instance, function.name), args
        return function, (self.instance, *args)

    @property
    def roots(self) -> tuple[Any, ...]:
        """The instance, and the function that it is called with."""
        function: Any = self.function
        if isinstance(function, Member):
            function = getattr(type(self.instance), function.name, None)
            function = getattr(function, "fget", function)
        return (self.instance, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)


def called(
    callee: Callee, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a callable; a signature that doesn't fit is an error of the construct."""
    try:
        return callee.function(*args, **kwargs)
    except TypeError:
        function = callee.function
        check_callable(name, "a callable", getattr(function, "function", function))
        refuse_arity(callee, name, args, kwargs)
        raise


def refuse_arity(
    callee: Callee, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise the error for arguments that a callable doesn't take, if that is so."""
    error = _wrong_arity(callee, name, args, kwargs)
    if error is not None:
        raise error from None


def parameters_of(callee: Callee) -> list[str]:
    """List the names of what a callable takes by position, as far as they are known."""
    function: Any = callee.function
    first: Sequence[Any] = ()
    if isinstance(function, _Bound):
        function, first = function.asked(())
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    by_position = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return [p.name for p in found if p.kind in by_position][len(first) :]


def _wrong_arity(
    callee: Callee, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> ArrayTypeError | None:
    function: Any = callee.function
    if isinstance(function, _Bound):
        function, args = function.asked(args)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        reason = str(error)
    else:
        return None
    plain = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(plain, "__code__", None)
    place = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    count = f"{len(args)} argument{'' if len(args) == 1 else 's'}"
    named = f" and {', '.join(f'{key}=…' for key in kwargs)}" if kwargs else ""
    return ArrayTypeError(
        name,
        f"{callee}{place} takes {signature}, but the call passes {count}{named} "
        f"({reason})",
        "pass what all callables take, or give the callable the same parameters "
        "as the others.",
    )


def body_numbers(callees: Sequence[Callee], count: int) -> Any:
    """Return for each position the number of its callable plus 1, or 0."""
    kind = np.uint16 if len(callees) < 1 << 16 else np.uint32
    numbers = np.zeros(count, kind)
    for k, callee in enumerate(callees):
        numbers[callee.positions] = k + 1
    return numbers


def is_selected(index: Node, positions: Sequence[int]) -> Node:
    """Return where an index is one of some positions.

    Many positions are looked up in a table: one read instead of many comparisons,
    and the kernel stays the same when their number changes.
    """
    if len(positions) <= LOOKUP or index.op is LITERAL:
        chosen = trace.literal(BOOL, False)
        for position in positions:
            number = trace.literal(UINT32, position)
            chosen = trace.emit2(OR, chosen, trace.emit2(EQ, index, number))
        return chosen
    table = np.zeros(max(positions) + 1, np.bool_)
    table[positions] = True
    inside = trace.emit2(LT, index, trace.literal(UINT32, len(table)))
    with trace.unmasked(), trace.guarded(None):
        return memory.entries(from_numpy(table), index, inside)
