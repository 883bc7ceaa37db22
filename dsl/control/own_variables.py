"""Which variables of functions are a construct's own, and so left to it.

Functions that the construct calls may have been made beside it, and share variables
with it. A variable of the same name in another function is none of its.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lumijit.control.bytecode import PLAIN, Facts, rebound_by
from lumijit.control.locations import Variable


class Own(NamedTuple):
    """A construct's variables: cells that its functions assign, values by name."""

    cells: Collection[int] = ()
    values: Mapping[str, Any] = MappingProxyType({})

    def has(self, variable: Variable, facts: Facts) -> bool:
        """Tell whether a variable of a function of some facts is one of them.

        Those that the construct only reads are told by what they hold. What a function
        assigns is none of these.
        """
        if id(variable.owner) in self.cells:
            return True
        name = variable.label
        if facts.rebinds and name in rebound_by(facts.code):
            return False
        value = self.values.get(name)
        return type(value) not in PLAIN and variable.kept[name] is value


NO_OWN = Own()


def own_variables(
    functions: Sequence[Callable[..., Any]],
    values: Sequence[Any],
    labels: Sequence[str],
    names: frozenset[str],
) -> Own:
    """Return the variables that a construct has.

    Args:
        functions: its functions, which share the cells of those that they assign.
        values: its inputs, called `labels`.
        labels: the names of its inputs.
        names: what it takes or assigns.
    """
    if not names:
        return NO_OWN
    cells: set[int] = set()
    for function in functions:
        code = getattr(function, "__code__", None)
        if code is not None:
            shared = zip(code.co_freevars, function.__closure__ or (), strict=True)
            cells.update(id(cell) for name, cell in shared if name in names)
    inputs = zip(labels, values, strict=True)
    return Own(cells, {name: value for name, value in inputs if name in names})
