"""Tokens: what tells a value that is part of a recording from others.

Equal tokens mean that a recording may serve both.
"""

from __future__ import annotations

import zlib
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.control import buffers
from lumijit.control.bytecode import PLAIN
from lumijit.control.members import called_by
from lumijit.control.reachability import DESCRIPTORS, is_followed
from lumijit.scalar_arrays import HostArray
from lumijit.syntax.entry_points import Runtime

NUMBERS = (int, float)
# Memory of the host: NumPy's, that of the scalar namespace, Python's.
HOST = (*buffers.KINDS, memoryview, HostArray)
NAMED = (type, ModuleType, FunctionType, BuiltinFunctionType)


def is_settled(kind: type[Any]) -> bool:
    """Tell whether values of a type are told by their tokens for good."""
    kinds = (ArrayBase, *HOST, np.generic, str, *NAMED)
    is_named = issubclass(kind, kinds) and not issubclass(kind, FunctionType)
    return kind in PLAIN or is_named


def value_token(value: Any) -> Any:
    """Return what tells a value that is part of the recording from others."""
    kind = type(value)
    if kind in NUMBERS:
        return kind, repr(value)
    if kind is Runtime:
        return kind
    if kind in PLAIN or kind is BuiltinFunctionType:
        return kind, value
    if isinstance(value, HOST):
        return host_token(value)
    if isinstance(value, np.generic):
        return kind, repr(value.item())
    return Same(value)


def object_token(value: Any) -> Any:
    """Return what tells an object besides what it holds: which function it calls.

    An object whose contents can't be found equals itself only.
    """
    kind = type(value)
    if isinstance(value, DESCRIPTORS):
        return kind, value.__objclass__, value.__name__
    if isinstance(value, np.generic):
        return value_token(value)
    if isinstance(value, FunctionType) or not is_followed(kind):
        return Same(value)
    function = called_by(value)
    return kind if function is None else (kind, Same(function))


def is_local_memory(value: Any) -> bool:
    """Tell whether a value is a local buffer, whose contents are no array."""
    return hasattr(type(value), "_holders")


def host_token(value: Any) -> Any:
    """Return what tells the contents of an object that can be changed in place."""
    if isinstance(value, bytearray):
        return bytearray, bytes(value)
    if not isinstance(value, (np.ndarray, HostArray)):
        view = memoryview(value)
        return type(value), view.format, view.shape, zlib.crc32(view.tobytes())
    data = np.asarray(value)
    if data.dtype == object:
        return Same(value)
    data = np.ascontiguousarray(data)
    return type(value), data.dtype.str, data.shape, zlib.crc32(data.data.cast("B"))


class Same:
    """An object as part of a key: it equals itself only, and lives as long.

    `member_of` is the class that has it, with its name there, if that is known.
    """

    __slots__ = ("member_of", "value")

    def __init__(self, value: Any, member_of: tuple[Any, str] | None = None) -> None:
        self.value = value
        self.member_of = member_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Shape:
    """A long key that is compared often: its hash is known."""

    __slots__ = ("_hash", "tokens")

    def __init__(self, tokens: tuple[Any, ...]) -> None:
        self.tokens = tokens
        self._hash = hash(tokens)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Shape) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return self._hash
