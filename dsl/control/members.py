"""What sets, NumPy arrays and other objects without named parts hold, as places."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from lumijit.control.locations import Items


class Members(Items):
    """What a set or a NumPy array holds, or any object that the collector looks into.

    Of the latter nothing can be put back.
    """

    __slots__ = ()

    @property
    def items(self) -> Any:
        """The objects, in some order that stays while nothing changes."""
        owner = self.owner
        if isinstance(owner, np.ndarray):
            return owner.flat
        if isinstance(owner, (set, frozenset)):
            return owner
        return gc.get_referents(owner)

    def has_moved(self) -> bool:
        """Tell whether it is a set with other members, which have no keys."""
        return isinstance(self.owner, set) and not self.is_same()

    def fill(self, contents: Any) -> None:
        """Put other members or entries in the place of all."""
        if isinstance(self.owner, set):
            self.owner.clear()
            self.owner.update(contents)
        elif isinstance(self.owner, np.ndarray):
            for key, value in enumerate(contents):
                self.owner.flat[key] = value

    def step(self, key: Any) -> str:
        """Return how a program goes on to an item."""
        return f"[{key!r}]" if isinstance(self.owner, np.ndarray) else ""
