"""The stand-in for a variable that has no value.

Owns the `Undefined` object, which the rewritten code passes where a state
variable is unbound, and the error that reading such a variable raises. When a
merge of two branches may meet one is decided in `runtime`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from lumijit.runtime import errors


class UndefinedVariableError(errors.LumijitError, UnboundLocalError):
    """A variable was read that has no value on some path to this line."""


class Undefined:
    """Takes the place of the value of the unbound variable, or attribute, `name`.

    Every use raises `UndefinedVariableError`. `reason` says how it came about;
    `construct` is the place, `file:line`, that left it without a value.
    """

    __slots__ = ("_construct", "_name", "_reason")
    __hash__ = object.__hash__

    def __init__(self, name: str, construct: str = "", reason: str = "") -> None:
        """Describe the variable `name`, left unbound by `construct`."""
        self._name = name
        self._construct = construct
        self._reason = reason

    def __repr__(self) -> str:
        """Name the variable."""
        return f"<undefined {self._what()} {self._name!r}>"

    def _what(self) -> str:
        return "attribute" if "." in self._name else "variable"

    def __getattr__(self, attribute: str) -> NoReturn:
        """Refuse, except to say that special methods are missing."""
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        fail(self)

    def __copy__(self) -> Undefined:
        """Return itself: it has no contents."""
        return self

    def __deepcopy__(self, _memo: Any) -> Undefined:
        """Return itself: it has no contents."""
        return self

    @property
    def is_left(self) -> bool:
        """Whether a construct left it so, which is worth telling."""
        return bool(self._construct)

    @property
    def variable(self) -> str:
        """The name of the variable."""
        return self._name


def fail(value: Undefined) -> NoReturn:
    """Raise the error for a read of `value`."""
    name = value._name
    problem = f"{value._what()} {name!r} is read, but it has no value here"
    if value._reason:
        problem += f": {value._reason}"
    if value._construct:
        problem += f" ({value._construct})"
    fix = f"assign {name!r} before that statement, or on every path through it."
    raise UndefinedVariableError("@syntax", problem, fix)


def note_unset(unset: dict[int, Undefined], left: Sequence[Any]) -> None:
    """Note what has no value, if possible with what left it so."""
    for k, value in enumerate(left):
        if type(value) is Undefined and (k not in unset or value.is_left):
            unset[k] = value


def _refuse_use(self: Undefined, *_args: Any, **_kwargs: Any) -> NoReturn:
    fail(self)


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
_OTHERS = (
    "neg pos abs invert lt le gt ge eq ne bool int float complex index round len iter "
    "next contains getitem setitem delitem call enter exit"
)

for _use in _BINARY.split():
    for _how in ("", "r", "i"):
        setattr(Undefined, f"__{_how}{_use}__", _refuse_use)
for _use in _OTHERS.split():
    setattr(Undefined, f"__{_use}__", _refuse_use)
