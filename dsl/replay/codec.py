"""What recordings are told by, as JSON: values, and names of what can be imported.

Nothing is unpickled: types, functions and modules are found by name, and a function
has to have the code that it had.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import sys
import types
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.control.bytecode import functions_in, is_own, is_users
from lumijit.instances import InstanceArray
from lumijit.replay.playback import EVERY
from lumijit.replay.tokens import Same, Shape
from lumijit.runtime import dtypes
from lumijit.runtime.digest import blake2b
from lumijit.runtime.dtypes import DType

# Types that are built in and have no name there.
_TYPES = {v: k for k, v in vars(types).items() if isinstance(v, type)}
_PLAIN = (bool, int, str, type(None))
_SEQUENCES = (tuple, list, frozenset)


class UnknownValueError(Exception):
    """A value that can't be told to another process."""


class ChangedCodeError(Exception):
    """A function that isn't what it was."""


def encode(value: Any) -> Any:
    """Return a value as JSON: plain ones as they are, others as `[tag, …]`.

    Raises:
        UnknownValueError: if another process couldn't find it.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return ["float", repr(value)]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is complex:
        return ["complex", repr(value)]
    if kind is range:
        return ["range", value.start, value.stop, value.step]
    if isinstance(value, np.generic):
        return ["numpy", value.dtype.str, value.tobytes().hex()]
    if kind in _SEQUENCES:
        items = sorted(value, key=repr) if kind is frozenset else value
        return [kind.__name__, *map(encode, items)]
    if value is EVERY:
        return ["every"]
    if kind is DType:
        return ["dtype", value.name]
    if kind is Same:
        if value.member_of is None:
            return ["same", encode(value.value)]
        cls, name = value.member_of
        return ["same", ["own", encode(cls), name]]
    if kind is Shape:
        return ["shape", *map(encode, value.tokens)]
    if isinstance(value, pytree.Kind):
        return ["kind", encode(value.cls)]
    if isinstance(value, enum.Enum):
        return ["enum", encode(kind), value.name, repr(value.value)]
    if isinstance(value, ModuleType):
        return ["module", value.__name__]
    if isinstance(value, type) and issubclass(value, InstanceArray):
        raise UnknownValueError("arrays of instances")
    if isinstance(value, property) and value.fget is not None:
        return _encode_member(value, value.fget)
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, type):
        return ["member", encode(value.__self__), value.__name__]
    # (Functions of compiled modules have a type of their own.)
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return _encode_named(value)
    raise UnknownValueError(f"an object of type {kind.__name__!r}")


def _encode_named(value: Any) -> Any:
    if isinstance(value, type) and value in _TYPES:
        return ["named", "types", _TYPES[value], 0]
    module, name = value.__module__, value.__qualname__
    classes = [
        v for v in vars(sys.modules.get(module, sys)).values() if type(v) is type
    ]
    if getattr(sys.modules["lumijit"], name, None) is value:
        return ["named", "lumijit", name, 0]
    # (Methods that dataclasses get are named after what makes them.)
    owners = [c.__qualname__ for c in classes if value.__name__ in vars(c)]
    for known in (name, *(f"{owner}.{value.__name__}" for owner in owners)):
        try:
            found = _decorated(module, known)
        except (ImportError, AttributeError, ValueError):
            continue
        depth = next((k for k, v in enumerate(found) if v is value), None)
        if depth is None:
            continue
        code = [digest_of(value)] if _has_code(value) else []
        return ["named", module, known, depth, *code]
    raise UnknownValueError(f"{name!r}, which can't be imported from {module!r}")


def _encode_member(value: Any, function: Any) -> Any:
    """Name what a class has under the name of a function: a property, by its getter."""
    owner, _, name = function.__qualname__.rpartition(".")
    with contextlib.suppress(ImportError, AttributeError, ValueError):
        (cls, *_) = _decorated(function.__module__, owner)
        if vars(cls).get(name) is value:
            return ["member", encode(cls), name]
    raise UnknownValueError(f"an object of type {type(value).__name__!r}")


def _enum_member(cls: Any, name: str, value: str) -> Any:
    found = decode(cls)
    if name not in found.__members__ or repr(found[name].value) != value:
        raise ChangedCodeError(f"'{found.__name__}.{name}' has changed")
    return found[name]


def _member(cls: Any, name: str) -> Any:
    try:
        return getattr(decode(cls), name)
    except AttributeError:
        raise ChangedCodeError(f"there is no {name!r} any more") from None


def _own(cls: Any, name: str) -> Any:
    """Return what a class itself has under a name, as it has it."""
    try:
        return vars(decode(cls))[name]
    except KeyError:
        raise ChangedCodeError(f"there is no {name!r} any more") from None


def decode(data: Any) -> Any:
    """Return what `encode` was given.

    Raises:
        ChangedCodeError: if a function has other code now, or is gone.
    """
    if not isinstance(data, list):
        return data
    tag, *rest = data
    return _DECODERS[tag](*rest)


def _named(module: str, name: str, depth: int, *code: str) -> Any:
    try:
        found = _decorated(module, name)[depth]
    except (ImportError, AttributeError, IndexError):
        raise ChangedCodeError(f"{name!r} isn't in {module!r} any more") from None
    if code and not (_has_code(found) and digest_of(found) == code[0]):
        raise ChangedCodeError(f"the code of {name!r} has changed")
    return found


_DECODERS: dict[str, Callable[..., Any]] = {
    "tuple": lambda *items: tuple(map(decode, items)),
    "list": lambda *items: list(map(decode, items)),
    "frozenset": lambda *items: frozenset(map(decode, items)),
    "float": float,
    "complex": complex,
    "range": range,
    "numpy": lambda dtype, data: np.frombuffer(bytes.fromhex(data), dtype)[0],
    "bytes": bytes.fromhex,
    "every": lambda: EVERY,
    "dtype": dtypes.BY_NAME.__getitem__,
    "same": lambda value: Same(decode(value)),
    "shape": lambda *tokens: Shape(tuple(map(decode, tokens))),
    "kind": lambda cls: pytree.kind_of(decode(cls)),
    "enum": _enum_member,
    "module": importlib.import_module,
    "named": _named,
    "member": _member,
    "own": _own,
}


def _decorated(module: str, name: str) -> list[Any]:
    """Return what a name refers to, what that decorates, and functions in these."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return _with_decorated(found)


def _with_decorated(found: Any) -> list[Any]:
    rows = [found]
    if isinstance(getattr(found, "func", None), FunctionType):
        # It is a cached property.
        rows.append(found.func)
    while hasattr(rows[-1], "__wrapped__"):
        rows.append(rows[-1].__wrapped__)
    for row in rows:
        if not isinstance(row, FunctionType):
            continue
        for cell in row.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                piece = cell.cell_contents
                is_known = any(piece is other for other in rows)
                if isinstance(piece, FunctionType) and not is_known:
                    rows.append(piece)
    return rows


def code_of(function: Any) -> list[str]:
    """Return what tells the code of a function, and of those that it decorates."""
    return [digest_of(row) for row in _with_decorated(function) if _has_code(row)]


def _has_code(value: Any) -> bool:
    """Tell whether a value is a function, or a class of a program."""
    return isinstance(value, FunctionType) or (
        isinstance(value, type) and is_own(value)
    )


def digest_of(value: Any) -> str:
    """Return what tells the code of a function or class, wherever it stands."""
    found = blake2b(digest_size=16)
    functions = [value] if isinstance(value, FunctionType) else _methods_of(value)
    stack: list[Any] = [f.__code__ for f in functions]
    while stack:
        item = stack.pop()
        if isinstance(item, CodeType):
            names = (item.co_names, item.co_varnames, item.co_freevars, item.co_flags)
            found.update(repr((item.co_code, names)).encode())
            stack += item.co_consts
        elif isinstance(item, frozenset):
            found.update(repr(sorted(map(repr, item))).encode())
        else:
            found.update(repr(item).encode())
    return found.hexdigest()


def _methods_of(cls: type[Any]) -> list[FunctionType]:
    """List the methods of a class, its bases, its metaclass and classes inside of it.

    It isn't known which of them are called.
    """
    found: list[FunctionType] = []
    classes = [cls]
    for known in classes:
        around = (*known.__mro__, *type(known).__mro__)
        for base in filter(is_own, around):
            members = [vars(base)[name] for name in sorted(vars(base))]
            for member in members:
                # (A cached property has a `func`.)
                held: list[Any] = [*functions_in(member), getattr(member, "func", None)]
                found += [f for f in held if isinstance(f, FunctionType)]
                is_inside = isinstance(member, type) and member not in classes
                if is_inside and member.__qualname__.startswith(base.__qualname__):
                    classes.append(member)
    return [f for f in found if is_users(f.__module__ or "")]


def encode_tree(value: Any) -> Any:
    """Return the outline of a PyTree, whose arrays are all literals."""
    if isinstance(value, FlatArray):
        return ["array", encode(type(value)), value._node.size]
    kind = pytree.kind_of(type(value))
    if kind is None:
        return None
    keys = list(value) if isinstance(value, dict) else kind.keys(value)
    children = [encode_tree(child) for child in kind.parts(value, keys)]
    is_tensor = hasattr(kind.cls, "_rebuilt")
    if is_tensor and not issubclass(kind.cls, ArrayBase):
        raise UnknownValueError(f"a result of type {kind.cls.__name__!r}")
    shape = value.shape if is_tensor else None
    return ["tree", encode(kind.cls), encode(tuple(keys)), encode(shape), children]


def decode_tree(data: Any) -> Any:
    """Return the PyTree that `encode_tree` was given."""
    if data is None:
        return None
    cls = decode(data[1])
    if data[0] == "array":
        dtype = cls._spec.dtype
        return wrap(cls, trace.literal(dtype, dtype.wrap(0), data[2]))
    keys, shape, items = decode(data[2]), decode(data[3]), [*map(decode_tree, data[4])]
    if shape is not None:
        return cls(items[0], shape)
    if cls is dict:
        return dict(zip(keys, items, strict=True))
    kind = pytree.kind_of(cls)
    assert kind is not None
    return kind.build(None, keys, items)
