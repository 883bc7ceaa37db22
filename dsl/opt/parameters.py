"""Parameters of optimizers: values, and what a method remembers of their entries."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

from lumijit.arrays import FlatArray
from lumijit.derivatives.gradients import enable_grad, grad, tracked_leaves
from lumijit.derivatives.scopes import resume_grad
from lumijit.functions.evaluation import make_opaque, opaque
from lumijit.pytree import Parts
from lumijit.type_traits import detached_t, float32_array_t, float64_array_t

State = dict[str, Any]


class Entry:
    """A flat array that is optimized, with what a method remembers of it.

    Computed in `cls`, which is single precision for arrays of half precision.
    """

    _holds_arrays = True

    def __init__(self, array: FlatArray, slots: tuple[str, ...]) -> None:
        self.array = array
        cls = detached_t(array)
        self.cls = float32_array_t(cls) if cls._spec.dtype.bits < 32 else cls
        # What rates are stored as.
        self.wide = float64_array_t(self.cls)
        self._slots = slots
        self.reset()

    def reset(self) -> None:
        """Begin as at the first step."""
        # An array if some steps are taken on a condition: see `Optimizer.step`.
        self.count: Any = 0
        self.state: State = {
            slot: opaque(self.cls, 0, len(self.array)) for slot in self._slots
        }

    def gradient(self) -> Any:
        """Return the gradient, or None if none has arrived."""
        found = grad(self.array, preserve_type=False)
        vertex = self.array._node.vertex
        return None if vertex is None or vertex.grad is None else self.cls(found)

    def become(self, value: Any) -> None:
        """Take another value, whose derivatives aren't tracked yet."""
        self.array._assign(type(self.array)(value))

    def saved(self) -> State:
        """Return all that can be saved, by name."""
        return {"value": self.array, "count": self.count, **self.state}

    def restore(self, saved: State) -> None:
        """Take what `saved` has returned, as arrays of NumPy."""
        self.become(_restored(self.cls, saved.pop("value")))
        self.count = np.asarray(saved.pop("count")).item()
        self.state = {slot: _restored(self.cls, saved[slot]) for slot in self._slots}


def _restored(cls: type[Any], data: Any) -> Any:
    value = cls(np.array(data))
    make_opaque(value)
    return value


def track(arrays: Any) -> None:
    """Track derivatives, whatever the program suspends at present."""
    with resume_grad():
        enable_grad(arrays)


class Parameter:
    """What a key of an optimizer stands for: a PyTree, and its entries."""

    _holds_arrays = True

    def __init__(self, value: Any, slots: tuple[str, ...]) -> None:
        self.value = value
        self.entries = [Entry(leaf, slots) for leaf in tracked_leaves(value)]

    def take(self, value: Any) -> bool:
        """Take another value, if it is made alike; tell whether it is."""
        own, other = Parts((self.value,)), Parts((value,))
        pairs = list(zip_longest(own.leaves, other.leaves))
        is_alike = own.is_same(other) and all(
            type(a) is type(b) and isinstance(a, FlatArray) and len(a) == len(b)
            for a, b in pairs
        )
        if is_alike:
            for a, b in pairs:
                a._assign(b)
        return is_alike

    @property
    def kinds(self) -> list[tuple[type[Any], int]]:
        """Types and sizes, for which a state is made."""
        return [(type(e.array), len(e.array)) for e in self.entries]
