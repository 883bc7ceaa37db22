"""Numbers in memory as places: NumPy arrays, those of the standard library, bytes.

Owns what such an object held, as it was, and putting it back. (A `memoryview` is none
itself, but leads to what it shows.)
"""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import numpy as np

from lumijit.control.locations import Location

#: Those that constructs copy and compare where they are variables (`state.contents`).
COPIED = (np.ndarray, array, bytearray)
KINDS = (*COPIED, ctypes.Array)
#: Copying and comparing this much takes some microseconds.
_MOST_BYTES = 1 << 15
_ONLY = 0


class Buffer(Location):
    """The contents of an object, which can't be a variable."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return the contents under one key."""
        owner = self.owner
        has_own = isinstance(owner, (np.ndarray, array))
        return {_ONLY: owner.tobytes() if has_own else bytes(owner)}

    def followed(self) -> Any:
        """Return the values that lead on."""
        return ()

    def is_same(self) -> bool:
        """Tell whether the contents are what they were."""
        return bool(self.current() == self.before)

    def put_back(self, keys: list[Any]) -> None:
        """Give the object the contents that it had."""
        del keys
        owner, before = self.owner, self.kept[_ONLY]
        if isinstance(owner, np.ndarray):
            owner[...] = np.frombuffer(before, owner.dtype).reshape(owner.shape)
        elif isinstance(owner, array):
            owner[:] = array(owner.typecode, before)
        elif isinstance(owner, ctypes.Array):
            memoryview(owner).cast("B")[:] = before
        else:
            owner[:] = before

    def step(self, key: Any) -> str:
        """Return nothing: all entries are meant."""
        return ""


def is_buffer(value: Any) -> bool:
    """Tell whether a value consists of numbers in memory."""
    is_listed = isinstance(value, np.ndarray) and value.dtype.kind == "O"
    return isinstance(value, KINDS) and not is_listed


def is_compared(value: Any) -> bool:
    """Tell whether contents are short, and the program's to change.

    Views of what isn't NumPy's memory show what kernels write there, and so may C's
    arrays in memory that they don't own (or that refers to objects).
    """
    if isinstance(value, ctypes.Array) and (
        not value._b_needsfree_ or value._objects is not None
    ):
        return False
    if not isinstance(value, np.ndarray):
        return memoryview(value).nbytes <= _MOST_BYTES
    base: Any = value
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    is_own = isinstance(base, np.ndarray) and value.flags.writeable
    return is_own and not value.dtype.hasobject and value.nbytes <= _MOST_BYTES
