"""The arithmetic of the benchmark table; the numbers themselves are no test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import declare, report, table
from tests.benchmarks.programs import CASES

SAXPY = CASES["saxpy"]


def metrics(run: float) -> report.Metrics:
    """Return what a process measures, all alike."""
    names = ("run", "run_median", "cpu", "first", "warm", "python")
    return dict.fromkeys(names, run) | {"peak": 0.5}


def row(name: str, ours: float, peers: float) -> report.Row:
    found = {"ours": metrics(ours), "peer": metrics(peers)}
    return report.Row(CASES[name], found, {})


def test_half_of_the_cases_are_for_judging_whatever_is_added() -> None:
    judges = [case for case in CASES.values() if case.half == "judge"]
    assert 0.35 < len(judges) / len(CASES) < 0.65
    assert SAXPY.half == replace(SAXPY, size=1, group="other").half
    assert {c.name for half in ("tune", "judge") for c in table.chosen([], half)} == {
        *CASES
    }


def test_every_kind_that_users_write_has_cases() -> None:
    groups = {case.group for case in CASES.values()}
    assert len(CASES) >= 40
    assert groups >= {"arithmetic", "loops", "gathers", "textures", "scatters"}
    assert groups >= {"sorting", "blocks", "calls", "local memory", "launches"}
    assert groups >= {"evaluated loops", "long traces", "tracing", "memory"}


def test_cases_are_chosen_by_name_or_group() -> None:
    assert [c.name for c in table.chosen(["saxpy"], None)] == ["saxpy"]
    assert {c.group for c in table.chosen(["l*ps"], None)} == {"loops"}


@pytest.mark.parametrize(
    ("tags", "limit"),
    [((), 1.0), ((declare.MEMORY,), 1.1), ((declare.LAUNCH,), float("inf"))],
)
def test_limits_follow_from_tags(tags: tuple[str, ...], limit: float) -> None:
    assert replace(SAXPY, tags=frozenset(tags)).limit == limit


def test_ratio_is_below_one_where_we_are_faster() -> None:
    assert row("saxpy", 1.0, 2.0).ratio("run", "peer") == 0.5
    assert row("saxpy", 1.0, 2.0).ratio("run", "old") is None


def test_best_takes_the_best_round_and_the_median_of_medians() -> None:
    rounds = [metrics(3.0), metrics(1.0), metrics(9.0)]
    assert table.best(rounds)["run"] == 1.0
    assert table.best(rounds)["run_median"] == 3.0


def test_geometric_mean() -> None:
    assert report.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_summary_names_the_worst_and_what_is_above_its_limit() -> None:
    rows = [row("saxpy", 1.05, 1), row("hash_u32", 3, 1), row("launch_64", 9, 1)]
    text = report.summary(rows, ["peer"], "run")
    assert "| arithmetic | 2 |" in text
    assert "`hash_u32` 3.00 |" in text
    assert "Slower than allowed against peer (run): `hash_u32` 3.00." in text
    assert "Launches above 1.0 against peer: `launch_64` 9.00 (launch)." in text


def test_a_row_shows_times_and_ratios() -> None:
    line = report.line(row("saxpy", 1500.0, 3000.0), ["peer"])
    assert line.startswith("| arithmetic | `saxpy` | 1.5 ms | 0.50 | 0.50 |")
    assert line.count("|") == report.head(["peer"]).splitlines()[0].count("|")


Difference = Callable[[np.ndarray], np.ndarray]


@pytest.mark.parametrize(
    ("change", "is_equal"),
    [
        (lambda a: a, True),
        (lambda a: a * (1 + 1e-6), True),
        (lambda a: a * 1.01, False),
        (lambda a: a[:-1], False),
        (lambda a: np.where(a == 5, 6.0, a), False),
    ],
)
def test_results_that_differ_are_found(change: Difference, is_equal: bool) -> None:
    results = np.arange(100.0)
    gap = table.difference(SAXPY, [results], [change(results)])
    assert (gap == "") == is_equal


def test_some_entries_may_stray_where_a_case_allows_it() -> None:
    case = replace(SAXPY, strays=0.02)
    results, other = np.zeros(100), np.zeros(100)
    other[:2] = 1
    assert table.difference(case, [results], [other]) == ""
    other[:3] = 1
    assert "3 of 100 entries" in table.difference(case, [results], [other])


def test_a_failing_case_is_an_error_that_names_it(tmp_path: Path) -> None:
    library = table.Library("ours", "no_such_module", sys.executable)
    with pytest.raises(table.CaseError, match="saxpy failed with ours: ModuleNotFound"):
        table.run_once(library, SAXPY, tmp_path)


def test_a_case_runs_in_a_process_of_its_own() -> None:
    library = table.Library("ours", "lumijit", sys.executable)
    found = table.compare(CASES["launch_64"], [library], 1)
    assert found.errors == {}
    assert found.metrics["ours"]["run"] > 0
    assert found.metrics["ours"]["first"] > found.metrics["ours"]["warm"]
