"""Every program agrees with plain Python, lane by lane, in every mode."""

from __future__ import annotations

import pytest

import lumijit as lj
import lumijit.llvm.ad

from .programs import functions, idioms, names, plain, recursion, statements, structures
from .programs.modes import MODES, PROGRAMS, Program, compare, flags_of

MODULES = (functions, idioms, names, plain, recursion, statements, structures)


def _name(value: object) -> str | None:
    return value.function.__name__ if isinstance(value, Program) else None


def test_there_are_programs_enough() -> None:
    assert len({p.function.__name__ for p in PROGRAMS}) == len(PROGRAMS) >= 180


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
def test_scalar_mode(program: Program) -> None:
    rows, shared = program.run_scalar()
    found, found_shared = program.run_scalar(lj.syntax(program.function))
    for row, expected in zip(found, rows, strict=True):
        compare(expected, row, 0, 0)
    for name, array in shared.items():
        assert list(found_shared[name]) == list(array)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
def test_modes_agree(program: Program, mode: str) -> None:
    with flags_of(mode):
        program.check(lj.llvm)


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_differentiable_types_agree(program: Program, mode: str) -> None:
    with flags_of(mode):
        program.check(lj.llvm.ad)


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
@pytest.mark.parametrize("size", [0, 1, 67])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
def test_sizes(program: Program, mode: str, size: int) -> None:
    with flags_of(mode):
        program.resized(size).check(lj.llvm)
