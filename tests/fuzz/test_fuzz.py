"""Some random programs of each pattern, and of all mixed, agree with plain Python."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import pytest

from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.packet import numbers
from tests.fuzz import check as checks
from tests.fuzz import speed
from tests.fuzz.__main__ import chosen, draw
from tests.fuzz.shrink import shrink
from tests.fuzz.writer import Program, Statement, Writer

#: So many programs of each pattern.
COUNT = 20
PATTERNS = ("local", "apart", "calls", "indices", "inplace", "objects")


def run(program: Program, number: int) -> None:
    for mode in chosen(checks.modes_of(program, checks.MODES), number, False):
        try:
            checks.check(program, mode)
        except checks.Refused:
            continue
        except checks.Mismatch as error:
            pytest.fail(f"{mode}: {error}\n{program.columns}\n{program.text()}")


@pytest.mark.parametrize("number", range(COUNT))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_programs_of_a_pattern_agree_with_plain_python(
    pattern: str, number: int
) -> None:
    run(Writer(f"{pattern} {number}", [pattern]).program(), number)


@pytest.mark.parametrize("number", range(2 * COUNT))
def test_programs_of_mixed_patterns_agree_with_plain_python(number: int) -> None:
    run(draw(1, number, PATTERNS), number)


@pytest.mark.parametrize("number", range(COUNT))
def test_values_that_are_read_late(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few kernels have as many numbers and arrays of one entry as it takes."""
    monkeypatch.setattr(numbers, "MANY_NUMBERS", 0)
    kernels.flush()
    run(draw(7, number, PATTERNS), number)


def test_a_seed_stands_for_a_program() -> None:
    patterns = ("local", "objects")
    texts = [draw(3, 5, patterns).text() for _ in range(2)]
    assert texts[0] == texts[1] != draw(3, 6, patterns).text()


def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"a": [1], "b": [2], "c": [3], "zero": [0]}
    statements = (Statement("a = a + 1"),)
    program = Program(statements, frozenset(), columns, [0], 3, 0, False)
    checks.check(program, "symbolic")
    monkeypatch.setattr(checks, "run_plain", lambda _: {"result 0": [5]})
    with pytest.raises(checks.Mismatch, match=r"result 0: expected \[5\], got \[2\]"):
        checks.check(program, "symbolic")


def test_failing_programs_are_made_small() -> None:
    program = draw(0, 7, ("inplace",))
    wanted = Statement("img += a")
    block = Statement("if a > 3:", [*program.statements, wanted], [Statement("b = c")])
    program = replace(program, statements=(*program.statements, block))
    small = shrink(program, lambda p: "img += a" in p.text())
    assert small.statements == (wanted,)
    assert small.lanes == 1


def test_programs_keep_to_the_lanes_own_entries() -> None:
    """Shared arrays end alike in whatever order lanes run."""
    program = draw(0, 3, ("indices",))
    backwards = program.without_lanes(range(program.lanes)[::-1])
    assert checks.run_plain(program)["bins"] == checks.run_plain(backwards)["bins"]


def test_every_statement_is_python() -> None:
    for number in range(50):
        compile(draw(2, number, ("local", "objects", "inplace")).text(), "f", "exec")


@pytest.mark.parametrize("is_whole", [False, True])
def test_programs_whose_speed_is_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_whole: bool
) -> None:
    monkeypatch.setattr(speed, "REPETITIONS", 1)
    kinds = [*speed.KINDS]
    options = {"first": 0, "count": 60, "threads": 0, "size": 64, "whole": is_whole}
    speed.measure("lumijit", argparse.Namespace(kinds=kinds, **options))
    found = dict(map(json.loads, capsys.readouterr().out.splitlines()))
    assert len({speed.source(seed, kinds)[0] for seed in found}) > len(kinds) - 4
    assert not [v for v in found.values() if isinstance(v, str)]
