"""What static type checkers infer of programs is what runs.

Owns the programs of this folder and the examples; running them is up to `checkers`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import GenericAlias

import pytest
import typing_extensions

from tests.typing.checkers import ROOT, mypy, pyright

PROGRAMS = Path(__file__).parent / "programs"
CLAIMS = ("functions", "generic", "operators")


CHECKERS = [
    pytest.param(mypy, id="mypy"),
    pytest.param(pyright, id="pyright"),
]


@pytest.mark.parametrize("check", CHECKERS)
def test_examples_are_typed(check, installed):
    pytest.importorskip("PIL")
    found = check(installed, *(ROOT / "examples").glob("*.py"))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("check", CHECKERS)
def test_checkers_agree_with_claims_and_find_mistakes(check, installed):
    found = check(installed, *PROGRAMS.glob("*.py"))
    others = [error for error in found if "mistakes.py" not in error[0]]
    assert not others, "\n".join(map(str, others))
    lines = (PROGRAMS / "mistakes.py").read_text().splitlines()
    wrong = {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert {line for _, line, _ in found} == wrong


def _is_of(value, claim):
    """Tell whether a value, or class, is what a claim says."""
    if claim == tuple[int, ...]:
        return all(type(entry) is int for entry in value)
    if not isinstance(claim, GenericAlias):
        return type(value) is claim
    if claim.__origin__ is type:
        return value is claim.__args__[0]
    return all(map(_is_of, value, claim.__args__))


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_hold_when_run(name, monkeypatch):
    def check(value, claim, /):
        assert _is_of(value, claim), f"{type(value)} is no {claim}"
        return value

    monkeypatch.setattr(typing_extensions, "assert_type", check)
    module = f"tests.typing.programs.{name}"
    sys.modules.pop(module, None)
    importlib.import_module(module)
    del sys.modules[module]
