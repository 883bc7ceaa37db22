"""Arrays and control-flow primitives on NumPy, to test the rewriting alone.

`Lanes` is an array with elementwise operators. `if_stmt` runs both branches and
blends; `while_loop` iterates under a mask. Python numbers that become different in
different lanes are promoted.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from lumijit.syntax.undefined import Undefined


class Lanes:
    """One value per lane."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    values: np.ndarray[Any, Any]

    def __init__(self, values: Any) -> None:
        self.values = np.array(values.values if isinstance(values, Lanes) else values)

    def __repr__(self) -> str:
        return f"Lanes({self.values.tolist()})"

    def __bool__(self) -> bool:
        raise TypeError("the truth value of several lanes is ambiguous")

    def __neg__(self) -> Lanes:
        return Lanes(-self.values)

    def __invert__(self) -> Lanes:
        return Lanes(~self.values)

    def __abs__(self) -> Lanes:
        return Lanes(abs(self.values))


def _binary(name: str) -> None:
    function = getattr(operator, name)

    def forward(self: Lanes, other: Any) -> Any:
        if isinstance(other, Undefined):
            return NotImplemented
        return Lanes(function(self.values, _raw(other)))

    def backward(self: Lanes, other: Any) -> Any:
        return Lanes(function(_raw(other), self.values))

    plain = name.rstrip("_")
    setattr(Lanes, f"__{plain}__", forward)
    if plain not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Lanes, f"__r{plain}__", backward)


for _name in [
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "truediv",
    "lshift",
    "rshift",
    "and_",
    "or_",
    "xor",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
]:
    _binary(_name)


def _raw(value: Any) -> Any:
    return value.values if isinstance(value, Lanes) else value


def is_lanes(value: Any) -> bool:
    return isinstance(value, Lanes)


def _blend(mask: np.ndarray, a: Any, b: Any, label: str = "") -> Any:
    """Merge two values; containers are merged entry by entry, `b` in place."""
    if a is b or isinstance(b, Undefined):
        return a
    if isinstance(a, FunctionType) and a.__code__ is getattr(b, "__code__", None):
        return a
    if isinstance(a, Undefined):
        return b
    if isinstance(a, (list, tuple)):
        merged = [_blend(mask, x, y, label) for x, y in zip(a, b, strict=True)]
        return type(a)(merged)
    if isinstance(a, dict):
        return {k: _blend(mask, a[k], b[k], label) for k in a}
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        names = [f.name for f in dataclasses.fields(a)]
        return type(a)(
            **{n: _blend(mask, getattr(a, n), getattr(b, n), label) for n in names}
        )
    numbers = (Lanes, int, float, bool, np.generic)
    if isinstance(a, numbers) and isinstance(b, numbers):
        if type(a) is type(b) and not isinstance(a, Lanes) and a == b:
            return a
        return Lanes(np.where(mask, _raw(a), _raw(b)))
    if not isinstance(a, Lanes) and not isinstance(b, Lanes) and a == b:
        return a
    raise TypeError(f"{label!r} has incompatible values {a!r} and {b!r}")


def _copied(value: Any) -> Any:
    """Copy the containers and arrays of a tree; other objects are passed on."""
    if isinstance(value, Lanes):
        return Lanes(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_copied(v) for v in value])
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value)]
        return type(value)(**{n: _copied(getattr(value, n)) for n in names})
    return value


def _is_tree(value: Any) -> bool:
    return (
        isinstance(value, (list, dict))
        or (isinstance(value, tuple) and any(map(_is_tree, value)))
        or dataclasses.is_dataclass(value)
    )


def _nothing(*_: Any) -> Any:
    return None


def _never(*_: Any) -> bool:
    return False


def _write_back(original: Any, merged: Any) -> Any:
    """Change a mutable container in place, as Python code would have."""
    if isinstance(original, list) and isinstance(merged, list):
        original[:] = merged
        return original
    if isinstance(original, dict) and isinstance(merged, dict):
        original.update(merged)
        return original
    if dataclasses.is_dataclass(original) and type(original) is type(merged):
        vars(original).update(vars(merged))
        return original
    return merged


class Control:
    """The primitives, and a record of what was asked of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def if_stmt(
        self,
        args: tuple[Any, ...],
        cond: Any,
        true_fn: Any,
        false_fn: Any,
        arg_labels: Any = (),
        rv_labels: Any = (),
        **hints: Any,
    ) -> Any:
        assert len(args) == len(arg_labels) or not arg_labels
        self.calls.append(
            ("if_stmt", {"args": arg_labels, "results": rv_labels, **hints})
        )
        if isinstance(cond, bool):
            cond = Lanes([cond])
        a = true_fn(*_copied(args))
        b = false_fn(*_copied(args))
        originals = dict(zip(arg_labels, args, strict=False))
        merged = []
        for label, x, y in zip(rv_labels, a, b, strict=True):
            value = _blend(cond.values, x, y, label)
            merged.append(_write_back(originals.get(label), value))
        return tuple(merged)

    def while_loop(
        self,
        state: tuple[Any, ...],
        cond: Any,
        body: Any,
        labels: Any = (),
        memory: Any = None,
        **hints: Any,
    ) -> Any:
        del memory
        assert len(state) == len(labels)
        self.calls.append(("while_loop", {"state": labels, **hints}))
        active: Any = np.array(True)
        originals = state
        while True:
            test = cond(*state)
            active = active & _raw(test)
            if not np.any(active):
                break
            new = body(*_copied(state))
            state = tuple(
                _blend(active, x, y, label)
                for label, x, y in zip(labels, new, state, strict=True)
            )
        return tuple(map(_write_back, originals, state))

    def check(self, cond: Any, message: Any) -> None:
        self.calls.append(("assert", {"message": message}))

    def targets(self) -> dict[str, Callable[..., Any]]:
        """Return what rewritten code calls."""
        return dict(
            loop_mode=_nothing,
            watch=_nothing,
            standing_in=lambda *_: lambda: ([], False),
            snapshot=lambda _: lambda: None,
            holds=_never,
            known=_nothing,
            is_zero_step=_never,
            as_number=lambda value: value,
            is_idle=_never,
            runs_plain=_never,
            plain_range=range,
            is_tree=_is_tree,
            while_loop=self.while_loop,
            if_stmt=self.if_stmt,
            is_array=is_lanes,
            may_act=_never,
            is_integer_array=lambda v: is_lanes(v) and v.values.dtype.kind in "iu",
            logical_and=lambda a, b: Lanes(np.logical_and(_raw(a), _raw(b))),
            logical_or=lambda a, b: Lanes(np.logical_or(_raw(a), _raw(b))),
            logical_not=lambda a: Lanes(np.logical_not(_raw(a))),
            select=lambda m, a, b: Lanes(np.where(_raw(m), _raw(a), _raw(b))),
            checks=lambda cond: True,
            check=self.check,
        )
