"""The arithmetic of the benchmark table; the numbers themselves are no test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import table


def test_ratio_is_below_one_where_we_are_faster() -> None:
    time = table.Row("g", "c", "ms", "ms")
    rate = table.Row("g", "c", "Mops_per_s", "M", is_better_when_higher=True)
    assert time.ratio(ours=1.0, peers=2.0) == 0.5
    assert rate.ratio(ours=2.0, peers=1.0) == 0.5


def test_summary_takes_the_best_round_or_the_median_of_differences() -> None:
    assert table.Row("g", "c", "ms", "ms").summary([3.0, 1.0, 2.0]) == 1.0
    rate = table.Row("g", "c", "r", "r", is_better_when_higher=True)
    assert rate.summary([3.0, 1.0, 2.0]) == 3.0
    cold = table.Row("g", "c", "ms", "ms", home="empty")
    assert cold.summary([3.0, 1.0, 9.0]) == 3.0


def test_geometric_mean() -> None:
    assert table.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_rows_name_cases_that_exist() -> None:
    from tests.benchmarks import cases

    assert {row.case for row in table.ROWS} <= set(cases.CASES)
    assert len(set(table.ROWS)) == len(table.ROWS)


def test_format_row_shows_ratio_and_bound() -> None:
    row = table.Row("Kernels", "saxpy", "ms", "ms", limit=5.0)
    line = table.format_row(row, [1.0, 4.0])
    assert line == "| Kernels | `saxpy` | 1 ms | 4 ms | 0.25 | ≤ 5 ms |"
    assert table.format_row(row, [1.0]).count("|") == 7


def test_failing_case_is_an_error_that_names_it(tmp_path: Path) -> None:
    runner = table.Runner(tmp_path)
    library = table.Library("no_such_module", sys.executable)
    with pytest.raises(RuntimeError, match="saxpy failed with no_such_module"):
        runner.measure(library, table.Row("Kernels", "saxpy", "ms", "ms"))


def test_a_case_runs_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, str(table.CASES), "lumijit", "small_launch"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["us"] > 0


def test_homes_are_shared_or_fresh_as_the_row_says(tmp_path: Path) -> None:
    runner = table.Runner(tmp_path)
    library = table.Library("lumijit", sys.executable)
    kept = table.Row("g", "c", "ms", "ms")
    filled = table.Row("g", "c", "ms", "ms", home="filled")
    empty = table.Row("g", "c", "ms", "ms", home="empty")
    assert runner.home(library, kept) == runner.home(library, kept)
    assert runner.home(library, kept) != runner.home(library, filled)
    fresh = [runner.home(library, empty) for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert all(not list(path.iterdir()) for path in fresh)
