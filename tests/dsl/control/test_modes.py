"""Every program agrees with plain Python, lane by lane, in every mode."""

from __future__ import annotations

import pytest

import lumijit as lj
import lumijit.llvm.ad

from . import programs_plain, programs_structures
from .modes import MODES, PROGRAMS, Program, flags_of

assert programs_plain
assert programs_structures


def _name(value: object) -> str | None:
    return value.function.__name__ if isinstance(value, Program) else None


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
