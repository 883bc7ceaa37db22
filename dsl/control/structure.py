"""Whether what a block leaves has the structure of what there was, or of another's."""

from __future__ import annotations

import math
from typing import Any

from lumijit.pytree import Parts
from lumijit.runtime.errors import StateError
from lumijit.tensors.storage import TensorArray


def are_alike(a: Parts, b: Parts) -> bool:
    """Tell whether two states have the same leaves, in containers of the same classes.

    Tensors have the same shapes, too, unless one has a single entry.
    """
    if not a.is_same(b):
        return False
    if a.containers:
        for one, other in zip(a.containers, b.containers, strict=True):
            if one is not other and _is_other_shape(one, other):
                return False
    return True


def _is_other_shape(a: Any, b: Any) -> bool:
    if not isinstance(a, TensorArray) or a.shape == b.shape:
        return False
    return 1 not in (math.prod(a.shape), math.prod(b.shape))


def structure_changed(construct: str, before: Parts, after: Parts) -> StateError:
    """Word the error for a state that has other leaves than before."""
    return StateError(
        construct,
        "the structure of the loop state changed "
        f"(differs in {differences(before, after)})",
        "let the body return PyTrees of the structure they had before.",
    )


def differences(a: Parts, b: Parts) -> str:
    """Name the leaves that one of two states alone has, or containers that differ."""
    names = {*a.names} ^ {*b.names}
    if names:
        return ", ".join(f"'{n}'" for n in sorted(names))
    for (name, kind, value), (_, other, new) in zip(a.nodes(), b.nodes(), strict=False):
        if kind is None or other is None:
            continue
        if kind != other:
            return f"'{name}', of type {kind.cls.__name__} and {other.cls.__name__}"
        if _is_other_shape(value, new):
            return f"'{name}', of shape {value.shape} and {new.shape}"
    return "the order of the entries"
