"""The state of loops and branches: what may become of a leaf.

Owns the checks that a leaf stays what it was, and how its errors are worded;
`pytree.Parts` takes states apart. A leaf is either a flat array of a JIT backend (it
has a node) or any other Python object, which tracing can't follow.
"""

from __future__ import annotations

import copy
import reprlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from lumijit import traits, type_traits
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder, wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.control.buffers import COPIED
from lumijit.nested import NestedArray
from lumijit.pytree import Parts, is_container, kind_of
from lumijit.pytree_walks import flat_map
from lumijit.runtime.errors import (
    ArrayValueError,
    SizeError,
    StateError,
)
from lumijit.spec import TENSOR
from lumijit.syntax.undefined import Undefined
from lumijit.undeclared import differs, undeclared

NUMBERS = (bool, int, float, np.integer, np.floating, np.bool_)
_WITHOUT = (list, tuple, dict)
_MUTABLE = (set, deque, *COPIED)
MODES = ("scalar", "symbolic", "evaluated", None)
State = tuple[Any, ...]


def check_mode(mode: str | None, construct: str) -> None:
    """Refuse an unknown mode."""
    if mode not in MODES:
        raise ArrayValueError(
            construct,
            f"unknown mode {mode!r}",
            "use 'scalar', 'symbolic', 'evaluated' or None.",
        )


def is_array(value: Any) -> bool:
    """Tell whether a value is a flat array of a JIT backend; array classes aren't."""
    return isinstance(value, FlatArray)


def node_of(value: Any) -> Node | None:
    """Return an array's node, or None for any other object."""
    return node_in(value) if isinstance(value, FlatArray) else None


def node_in(array: Holder) -> Node:
    """Return the node of what is known to be an array."""
    return array._node


def known_condition(node: Node | None) -> bool | None:
    """Return what a condition of one entry is, if that is known while tracing."""
    if node is None or node.op is not LITERAL or node.size != 1:
        return None
    return bool(node.attr) if node.type.is_bool else None


def zeros_like(value: Any) -> Any:
    """Return a PyTree of zeros of the same types; other objects stay as they are."""
    return flat_map(_zero, value)


def _zero(leaf: Any) -> Any:
    if not is_array(leaf):
        return leaf
    dtype = leaf._node.type
    return wrap(type(leaf), trace.literal(dtype, dtype.wrap(0)))


def can_be_state(value: Any) -> bool:
    """Tell whether a construct can hand a value on."""
    return isinstance(value, (*NUMBERS, ArrayBase)) or is_container(value)


def same_object(a: Any, b: Any) -> bool:
    """Tell whether two Python objects count as the same state."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is Undefined:
        return True
    try:
        if type(a) is FunctionType:
            return _origin(a) == _origin(b)
        return bool(a == b)
    except Exception:
        return False


def _origin(function: FunctionType) -> tuple[Any, ...]:
    """Return what two runs of one `def` must have in common to do the same."""
    cells = [id(cell) for cell in function.__closure__ or ()]
    defaults = function.__defaults__, function.__kwdefaults__
    return function.__code__, cells, defaults


def is_late(old: Any, new: Any) -> bool:
    """Tell whether a state variable gets its first value in the body."""
    return type(old) is Undefined and type(new) is not Undefined


def name_at(parts: Parts, position: int) -> str:
    """Return the name of a leaf; only errors need it."""
    return parts.names[position]


def check_sizes(
    construct: str, name: Callable[[], str], before: Any, after: Any
) -> None:
    """Refuse an array whose size changes, other than growing from 1."""
    old, new = before._node.size, after._node.size
    if old != new and old != 1 and new != 1:
        fix = f"keep the size of '{name()}' the same in every iteration."
        raise inconsistent(construct, name(), before, after, fix)


def wrong_width(
    construct: str, name: str, before: Any, after: Any, width: int
) -> StateError:
    """Word the error for a value that has other elements than the loop."""
    return inconsistent(
        construct,
        name,
        before,
        after,
        f"the loop runs over {width} elements: replace '{name}' by an array of that "
        "size, or change it with lumijit.scatter.",
    )


def never_ends(construct: str, reason: str) -> StateError:
    """Word the error for a loop that nothing can end."""
    return StateError(
        construct,
        f"the loop would never end: its condition {reason}",
        "compute the condition from a state variable that the body changes.",
    )


def type_of_numbers(numbers: Iterable[Any], mask_type: type[Any]) -> type[Any]:
    """Return the array type that holds Python numbers next to masks of a type."""
    values = map(_of_python, numbers)
    value = max(values, key=lambda v: (issubclass(v.__class__, float), abs(v)))
    if isinstance(value, bool):
        return mask_type
    if issubclass(value.__class__, int):
        fits = -(1 << 31) <= value < 1 << 31
        wanted = type_traits.int32_array_t if fits else type_traits.int64_array_t
    else:
        wanted = type_traits.float32_array_t
    result: type[Any] = wanted(mask_type)
    return result


def _of_python(value: Any) -> Any:
    """Return a number of NumPy as Python's, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def common_type(a: Any, b: Any, mask_type: type[Any]) -> type[Any] | None:
    """Return the array type that holds both of two leaves; None if there is none."""
    if type(a) is type(b) and is_array(a):
        return type(a)
    a, b = _of_python(a), _of_python(b)
    if is_array(a) and isinstance(b, NUMBERS):
        return _holding(type(a), b)
    if is_array(b) and isinstance(a, NUMBERS):
        return _holding(type(b), a)
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        if isinstance(a, bool) != isinstance(b, bool):
            return None
        return type_of_numbers((a, b), mask_type)
    return None


def as_arrays(cls: type[Any], values: Iterable[Any]) -> list[Any]:
    """Return leaves as arrays of the type that holds them."""
    return [v if type(v) is cls else cls(v) for v in values]


def _holding(cls: type[Any], value: Any) -> type[Any] | None:
    """Return an array type if it can hold a Python number without loss of kind."""
    if isinstance(value, bool):
        return cls if traits.is_mask_v(cls) else None
    if traits.is_mask_v(cls):
        return None
    if issubclass(value.__class__, float) and not traits.is_float_v(cls):
        return None
    return cls


def describe(value: Any) -> str:
    """Name a value's type for a message, with the size of an array."""
    cls = type(value)
    if cls is Undefined:
        return "no value"
    if value is None:
        return "None"
    if isinstance(value, FlatArray):
        return f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}[{value._node.size}]"
    if isinstance(value, NUMBERS):
        whose = "NumPy" if isinstance(value, np.generic) else "Python"
        return f"{whose} {cls.__name__} {value}"
    if traits.is_array_v(value):
        return f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}"
    if isinstance(value, (str, bytes, complex)):
        return f"Python object of type {cls.__name__}, {reprlib.repr(value)}"
    return f"Python object of type {cls.__name__}"


def inconsistent(
    construct: str, name: str, before: Any, after: Any, fix: str = ""
) -> StateError:
    """Word the error for a state variable that changed what it is."""
    return StateError(
        construct,
        f"the state variable '{name}' is inconsistent "
        f"(expected {describe(before)}, got {describe(after)})",
        fix or _mend(name, before, after),
    )


def _mend(name: str, before: Any, after: Any) -> str:
    """Say what to do about a state variable that changed what it is."""
    kinds = (before, after)
    if any(is_array(v) for v in kinds) or all(isinstance(v, NUMBERS) for v in kinds):
        return (
            f"give '{name}' the same array type everywhere, for example by "
            f"starting with an array instead of a Python number."
        )
    if hasattr(before, "_holders") and type(before) is type(after):
        return f"keep the same object in '{name}' and change its contents."
    cls = type(before)
    if cls is type(after) and hasattr(before, "__dict__") and not callable(before):
        return (
            f"make {cls.__name__!r} a dataclass, or give it DRJIT_STRUCT, so that its "
            f"arrays are part of the state; or change the object in '{name}' in place "
            "of making another one."
        )
    return (
        f"a Python object can't differ between elements or iterations: use an array "
        f"for '{name}', or change it outside; strict=False lets it change while "
        f"tracing."
    )


def contents(parts: Parts) -> list[tuple[Any, Any]]:
    """Copy what is in mutable Python objects of the state."""
    return [
        (v, copy.copy(v))
        for v in parts.leaves
        if not isinstance(v, FlatArray) and isinstance(v, _MUTABLE)
    ]


def check_contents(construct: str, parts: Parts, before: list[tuple[Any, Any]]) -> None:
    """Refuse Python objects that were changed in place."""
    for value, old in before:
        if isinstance(old, np.ndarray):
            is_same = old.tobytes() == value.tobytes()
        elif isinstance(old, deque):
            is_same = len(old) == len(value) and all(map(same_object, old, value))
        else:
            is_same = old == value
        if not is_same:
            name, kind = parts.name_of(value), type(old).__name__
            raise StateError(
                construct,
                f"the Python object '{name}' (of type {kind}) was changed in "
                "place, for all elements alike and once per tracing",
                f"use an array for '{name}', and lumijit.scatter to change "
                "its entries; or change it outside.",
            )


def _beside_fields(value: Any) -> dict[str, Any]:
    """Return the attributes of a struct that are none of its fields.

    Those of a tensor are what its field stands for.
    """
    cls = type(value)
    kind = None if cls in _WITHOUT or isinstance(value, ArrayBase) else kind_of(cls)
    return {} if kind is None else undeclared(value, kind.keys(value))


def loose(parts: Parts) -> dict[int, dict[str, Any]]:
    """Return what structs of the state have besides their fields, if it is anything."""
    if not parts.containers:
        return {}
    found = {}
    for k, container in enumerate(parts.containers):
        others = _beside_fields(container)
        if others:
            found[k] = others
    return found


def check_loose(
    construct: str, own: Parts, given: Parts, before: dict[int, dict[str, Any]]
) -> None:
    """Refuse changes of attributes that are no fields: they would be lost.

    Args:
        construct: the construct.
        own: the state.
        given: what the body was given in its place.
        before: what `loose` said of the state.
    """
    for k, others in before.items():
        after = _beside_fields(given.containers[k])
        for name, value in others.items():
            if not differs(value, after.get(name, value)):
                continue
            owner = own.containers[k]
            path = own.name_of(owner)
            kind = type(owner).__name__
            raise StateError(
                construct,
                f"the body changes '{path}.{name}', which is no field of {kind!r}: it "
                "is no part of the state, and the change would be lost",
                f"make '{name}' a field: declare it in the class, or in DRJIT_STRUCT.",
            )


def check_depth(cond: Any, construct: str) -> None:
    """Refuse nested arrays as conditions."""
    if isinstance(cond, NestedArray) and trace.state.lane is None:
        condition_node(cond, construct)


def by_lane(cond: Any) -> Any:
    """Return what a condition says of each lane: of a tensor, the mask of its entries.

    A single one decides for all, as a Python bool, if it can be computed.
    """
    flat = of_entries(cond)
    if flat is cond or flat._is_symbolic():
        return flat
    return cond if flat._node.size == 1 else flat


def of_entries(cond: Any) -> Any:
    """Return the mask of a tensor's entries; what isn't a tensor's mask stays."""
    if isinstance(cond, FlatArray):
        return cond
    if not isinstance(cond, ArrayBase) or cond._spec.kind is not TENSOR:
        return cond
    return cond.array if cond._spec.is_jit and cond._spec.dtype.is_bool else cond


def condition_node(cond: Any, construct: str) -> Node:
    """Return the node of a condition; it must be a mask of depth 1, or of a tensor."""
    node = node_of(of_entries(cond))
    if node is None or not node.type.is_bool:
        raise _no_condition(cond, construct)
    return node


def truth(cond: Any, construct: str) -> bool:
    """Return a condition that is to be known, a Python bool or a mask of one entry."""
    if not isinstance(cond, (bool, np.bool_, ArrayBase)):
        raise _no_condition(cond, construct)
    return bool(cond)


def _no_condition(cond: Any, construct: str) -> StateError:
    fix = "compare, or reduce with lumijit.any / lumijit.all along axis 0."
    if cond is None:
        fix = "return the condition from its function, with 'return'."
    return StateError(
        construct,
        "the condition has the wrong type (expected bool or a Bool array, "
        f"got {describe(cond)})",
        fix,
    )


def call(function: Callable[..., Any], args: Sequence[Any], what: str) -> Any:
    """Call a body function; `what` names it in errors."""
    result = function(*args)
    if type(result) is not tuple or len(result) != len(args):
        raise StateError(
            what,
            "the body must return a tuple with one entry per state variable "
            f"(expected {len(args)}, got {_shape_of(result)})",
            "return the updated state variables in the same order.",
        )
    return result


def _shape_of(result: Any) -> str:
    if type(result) is tuple:
        return f"{len(result)} entries"
    return f"a value of type {type(result).__name__}"


def check_labels(construct: str, labels: Sequence[str], what: str, count: int) -> None:
    """Refuse another number of names than there are values."""
    if labels and len(labels) != count:
        raise SizeError(
            construct,
            f"there are {len(labels)} labels for {count} {what}",
            "pass a label for each, or none.",
        )
