"""Memory of arrays to which others might write: who still can.

`buffers.exposed` lists it.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from lumijit.runtime import buffers, recorders
from lumijit.runtime.buffers import Buffer


def forget_unexposed() -> None:
    """Take those out of `exposed` to which nobody can write any more."""
    for key, entry in list(buffers.exposed.items()):
        buffer = entry()
        if buffer is None or _is_ours(buffer):
            buffers.exposed.pop(key, None)
        del buffer


def _is_ours(buffer: Buffer) -> bool:
    """Tell whether nobody has a view of a buffer's memory, nor its owner."""
    if buffer.is_foreign:
        owner: Any = buffer._owner
        if not owner.flags.writeable:
            return True
        if sys.getrefcount(owner) > _OWNED:
            return False
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
            if sys.getrefcount(owner) > _HELD:
                return False
        if owner.base is not None:
            return False
    known = recorders.present().references(buffer) if recorders.listening else 0
    return sys.getrefcount(buffer) - known <= _UNSHARED


def _count_references() -> int:
    """Count references to what one other object holds, as `_is_ours` sees them."""
    held = [object()]
    entry = held[0]
    return (lambda buffer: sys.getrefcount(buffer))(entry)


_UNSHARED: Final = _count_references()
# The buffer's, its claim's, and those of `_is_ours`.
_OWNED: Final = 4
# A base's: its view's, and those of `_is_ours`.
_HELD: Final = 3
