# cython: annotation_typing=True
"""Literals for Python's numbers: those that operators met last are at hand."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign
from typing import Any

from lumijit import initialize
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.runtime.dtypes import DType

_MOST = 256
# What each operator has at hand: by number, and the two zeros.
_KEPT: list[tuple[dict[Any, Node], list[Node | None]]] = []


def forget_literals() -> None:
    """Let go of the literals that are kept for numbers to come."""
    for cache, zeros in _KEPT:
        cache.clear()
        zeros[:] = None, None


def literals_of(dtype: DType, construct: str) -> Callable[[Any], Node]:
    """Return a function from Python numbers to literals, with a small cache."""
    cache: dict[Any, Node] = {}
    # Plus and minus zero, which are one key.
    zeros: list[Node | None] = [None, None]
    _KEPT.append((cache, zeros))

    def literal(value: Any) -> Node:
        node = cache.get(value)
        if node is not None:
            return node
        if value == 0:
            sign = copysign(1.0, value) < 0
            node = zeros[sign]
            if node is None:
                stored = initialize.number(value, dtype, construct)
                node = zeros[sign] = trace.literal(dtype, stored)
            return node
        stored = initialize.number(value, dtype, construct)
        node = trace.literal(dtype, stored)
        if len(cache) >= _MOST:
            cache.clear()
        cache[value] = node
        return node

    return literal
