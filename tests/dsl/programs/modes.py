"""Running one program lane by lane in plain Python, and vectorized in every mode.

A program is a function of a namespace (`lumijit.scalar`, `lumijit.llvm`, …), of one
argument per column of lanes and, by the names in `shared`, of arrays that all lanes
read and write. It is written once; `@syntax` makes the vectorized version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

import lumijit as lj
from lumijit import pytree

Columns = Mapping[str, tuple[str, list[Any]]]
Flag = lj.JitFlag

EVALUATED = {
    Flag.SymbolicLoops: False,
    Flag.SymbolicConditionals: False,
    Flag.SymbolicCalls: False,
}
MODES: dict[str, dict[lj.JitFlag, bool]] = {
    "symbolic": {},
    "unoptimized": {Flag.OptimizeLoops: False},
    "unfolded": {Flag.ValueNumbering: False, Flag.ConstantPropagation: False},
    "evaluated": EVALUATED,
    "compressed": {**EVALUATED, Flag.CompressLoops: True},
}


@contextlib.contextmanager
def flags_of(mode: str) -> Iterator[None]:
    """Set the flags of a mode."""
    with contextlib.ExitStack() as stack:
        for flag, value in MODES[mode].items():
            stack.enter_context(lj.scoped_set_flag(flag, value))
        yield


@dataclass(frozen=True)
class Program:
    """A program with its inputs."""

    function: Callable[..., Any]
    columns: Columns
    shared: Mapping[str, tuple[str, list[Any]]] = field(default_factory=dict)
    rtol: float = 1e-5
    #: Whether the function takes the namespace as its first argument.
    takes_space: bool = True
    #: Whether it recurses under array conditions, which takes evaluated mode.
    is_recursive: bool = False

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return len(next(iter(self.columns.values()))[1])

    def resized(self, size: int) -> Program:
        """Return the same program with another number of lanes."""
        columns = {
            name: (kind, [values[k % len(values)] for k in range(size)])
            for name, (kind, values) in self.columns.items()
        }
        return replace(self, columns=columns)

    def call(
        self,
        function: Callable[..., Any],
        space: ModuleType,
        arguments: Mapping[str, Any],
        shared: Mapping[str, Any],
    ) -> Any:
        """Call the function, or its vectorized version."""
        first = (space,) if self.takes_space else ()
        return function(*first, **arguments, **shared)

    def run_scalar(
        self, function: Callable[..., Any] | None = None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Run plain Python, or another version of the function, once per lane."""
        function = function or self.function
        shared = {
            name: getattr(lj.scalar, f"ArrayX{SHORT[kind]}")(*values)
            for name, (kind, values) in self.shared.items()
        }
        results = []
        for lane in range(self.lanes):
            arguments = {n: values[lane] for n, (_, values) in self.columns.items()}
            results.append(self.call(function, lj.scalar, arguments, shared))
        return results, {n: a.numpy() for n, a in shared.items()}

    def run_vector(self, space: ModuleType) -> tuple[Any, dict[str, Any]]:
        """Run the vectorized version once."""
        arguments = {
            name: getattr(space, kind)(values)
            for name, (kind, values) in self.columns.items()
        }
        shared = {
            name: getattr(space, kind)(values)
            for name, (kind, values) in self.shared.items()
        }
        with flags_of("evaluated" if self.is_recursive else "symbolic"):
            result = self.call(lj.syntax(self.function), space, arguments, shared)
        lj.eval(result, shared)
        return result, {n: a.numpy() for n, a in shared.items()}

    def check(self, space: ModuleType) -> None:
        """Compare the vectorized version with plain Python."""
        rows, expected_shared = self.run_scalar()
        result, shared = self.run_vector(space)
        for lane, row in enumerate(rows):
            compare(row, result, lane, self.rtol)
        for name, array in expected_shared.items():
            np.testing.assert_allclose(shared[name], array, self.rtol, err_msg=name)


SHORT = {"Int": "i", "UInt": "u", "Float": "f", "Float64": "f64", "Int64": "i64"}


def compare(expected: Any, result: Any, lane: int, rtol: float) -> None:
    """Compare the result of one lane with a PyTree of arrays."""
    leaves = list(pytree.tree_leaves(result))
    wanted = list(pytree.tree_leaves(expected))
    assert [name for name, _ in leaves] == [name for name, _ in wanted]
    for (name, value), (_, target) in zip(leaves, wanted, strict=True):
        if target is None or isinstance(target, str):
            assert value == target
            continue
        found = lane_of(value, lane)
        goal = target.numpy() if isinstance(target, lj.ArrayBase) else target
        where = f"lane {lane}, result{name}"
        np.testing.assert_allclose(found, goal, rtol, err_msg=where)


def lane_of(value: Any, lane: int) -> Any:
    """Return one lane of an array, or a plain number as it is."""
    if not isinstance(value, lj.ArrayBase):
        return value
    data = value.numpy()
    if not lj.is_jit_v(value):
        return data
    return data[..., lane if data.shape[-1] > 1 else 0]


PROGRAMS: list[Program] = []


def program(
    shared: Columns | None = None,
    rtol: float = 1e-5,
    is_recursive: bool = False,
    **columns: tuple[str, list[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into the list of programs."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        made = Program(function, columns, shared or {}, rtol, True, is_recursive)
        PROGRAMS.append(made)
        return function

    return enter


#: Programs of `x` and `y` that name no array type.
PLAIN: list[Callable[..., Any]] = []
X = [-3, 0, 1, 4, 5, 8, 13]
Y = [2, -1, 7, 0, 5, 3, 1]


def plain_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a function of `x` and `y` into the lists of programs."""
    PLAIN.append(function)
    columns = {"x": ("Int", X), "y": ("Int", Y)}
    PROGRAMS.append(Program(function, columns, takes_space=False))
    return function
