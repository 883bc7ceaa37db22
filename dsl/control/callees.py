"""Which callable an index selects: targets, indices and the masks they make.

Owns finding equal callables and the conversion of indices; running the callables
is the work of `calls`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.compiler import memory, trace
from lumijit.compiler.evaluate import from_numpy
from lumijit.compiler.ops.logic import AND, EQ, LE, LT, OR
from lumijit.compiler.ops.structural import LITERAL
from lumijit.compiler.trace import Node
from lumijit.control.state import is_array
from lumijit.runtime.dtypes import BOOL, UINT32, UINT64
from lumijit.runtime.errors import ArrayIndexError, ArrayTypeError, message

# Positions per callable, on average, from which on a table tells the callable.
LOOKUP = 8


@dataclass
class Callee:
    """One distinct callable, and the indices that select it."""

    function: Callable[..., Any]
    positions: list[int]

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"callable {self.positions[0]} ({name})"


def distinct(targets: Sequence[Callable[..., Any]], name: str) -> list[Callee]:
    """List the different callables with all of their positions."""
    found: dict[Any, Callee] = {}
    for k, target in enumerate(targets):
        if not callable(target):
            raise ArrayTypeError(
                message(
                    name,
                    f"targets[{k}] is of type {type(target).__name__!r} "
                    "(expected a callable)",
                    "pass a sequence of functions.",
                )
            )
        key: Any = id(target)
        if isinstance(target, MethodType):
            # Each access of a bound method makes a new object.
            key = (id(target.__self__), id(target.__func__))
        found.setdefault(key, Callee(target, [])).positions.append(k)
    return list(found.values())


def _wrong_index(index: Any, name: str) -> ArrayTypeError:
    return ArrayTypeError(
        message(
            name,
            f"the index is of type {type(index).__name__!r} (expected a Python int "
            "or a flat integer array of a JIT backend)",
            "pass a UInt32 array.",
        )
    )


def scalar_index(index: Any, count: int, name: str) -> int:
    """Return a Python index, if there is a target for it."""
    try:
        position = operator.index(index)
    except TypeError:
        raise _wrong_index(index, name) from None
    if not 0 <= position < count:
        raise ArrayIndexError(
            message(
                name,
                f"the index {position} is out of range (there are {count} targets)",
                f"use an index from 0 to {count - 1}." if count else "add a target.",
            )
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


def conditions(
    index: Node, callees: list[Callee], count: int, active: Node
) -> list[Node]:
    """Return for each callable where the index is one of its positions.

    Many positions are looked up in a table: one read instead of many comparisons,
    and the kernel stays the same when their number changes.
    """
    is_looked_up = count >= LOOKUP * len(callees) and index.op is not LITERAL
    if is_looked_up:
        numbers = np.zeros(count, dtype=np.uint32)
        for k, callee in enumerate(callees):
            numbers[callee.positions] = k
        inside = trace.emit2(LT, index, trace.literal(UINT32, count))
        active = trace.emit2(AND, inside, active)
        with trace.masked_only(None), memory.guarded(None):
            index = memory.gather(from_numpy(numbers), index, active)
    found = []
    for k, callee in enumerate(callees):
        chosen = trace.literal(BOOL, False)
        for position in [k] if is_looked_up else callee.positions:
            number = trace.literal(UINT32, position)
            chosen = trace.emit2(OR, chosen, trace.emit2(EQ, index, number))
        found.append(trace.emit2(AND, chosen, active) if is_looked_up else chosen)
    return found
