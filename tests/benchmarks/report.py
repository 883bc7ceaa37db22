"""Writes the benchmark's tables in Markdown: rows, means by group, what is slow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.benchmarks.declare import LAUNCH, PEAK, Case

Metrics = dict[str, float]

#: What is shown of a case, and how columns of ratios are called.
COLUMNS = {
    "run": "run",
    "cpu": "CPU time",
    "first": "first call",
    "warm": "start from disk",
    "python": "Python",
}

#: Where less makes no difference: 1 ms to build, 1 MiB. (The peer's sums are built in.)
LEAST = {"first": 1e3, "peak": 1.0}


@dataclass(frozen=True)
class Row:
    """What was measured of a case, by the libraries' labels."""

    case: Case
    metrics: dict[str, Metrics]
    errors: dict[str, str]

    def ratio(self, metric: str, other: str) -> float | None:
        """Return our value over another library's: below 1 is better."""
        ours, theirs = self.metrics.get("ours"), self.metrics.get(other)
        if ours is None or theirs is None:
            return None
        least = LEAST.get(metric, 1e-3)
        return max(ours[metric], least) / max(theirs[metric], least)


def time_text(microseconds: float) -> str:
    """Write a time with three digits."""
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3g} ms"
    return f"{microseconds:.3g} µs"


def ratio_text(ratio: float | None) -> str:
    """Write a ratio, or nothing."""
    return "" if ratio is None else f"{ratio:.2f}"


def _table(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def head(others: Sequence[str]) -> str:
    """Return the first two lines of the table of cases."""
    cells = ["group", "case"]
    for key, title in COLUMNS.items():
        cells += [title] if key != "cpu" else []
        cells += [f"{title}/{other}" for other in others]
    return f"{_table(cells)}\n{'|---' * len(cells)}|"


def line(row: Row, others: Sequence[str]) -> str:
    """Return a case's line."""
    cells = [row.case.group, f"`{row.case.name}`"]
    ours = row.metrics.get("ours")
    for key in COLUMNS:
        if key != "cpu":
            cells.append(time_text(ours[key]) if ours else "failed")
        cells += [ratio_text(row.ratio(key, other)) for other in others]
    return _table(cells)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(math.log(v) for v in values) / len(values))


def _ratios(rows: Iterable[Row], metric: str, other: str) -> list[float]:
    return [r for row in rows if (r := row.ratio(metric, other)) is not None]


def groups(rows: Sequence[Row], other: str, by: str) -> str:
    """Return the geometric means of the groups' ratios, and the worst cases."""
    names = list(dict.fromkeys(row.case.group for row in rows))
    titles = [f"{title}/{other}" for title in COLUMNS.values()]
    lines = [
        _table(["group", "cases", *titles, "worst"]),
        "|---" * (len(titles) + 3) + "|",
    ]
    measured = [row for row in rows if row.ratio(by, other) is not None]
    parts = {name: [r for r in measured if r.case.group == name] for name in names}
    parts["all but launches"] = [r for r in measured if LAUNCH not in r.case.tags]
    parts["all"] = measured
    for name, members in parts.items():
        if not members:
            continue
        means = [
            f"{geometric_mean(_ratios(members, metric, other)):.2f}"
            for metric in COLUMNS
        ]
        worst = max(members, key=lambda row: row.ratio(by, other) or 0.0)
        what = f"`{worst.case.name}` {ratio_text(worst.ratio(by, other))}"
        lines.append(_table([name, str(len(members)), *means, what]))
    return "\n".join(lines)


def _listed(
    rows: Iterable[Row],
    metric: str,
    other: str,
    limit: Callable[[Case], float],
    most: int = 1000,
) -> str:
    found = [
        (ratio, row.case)
        for row in rows
        if (ratio := row.ratio(metric, other)) is not None and ratio > limit(row.case)
    ]
    found.sort(key=lambda pair: -pair[0])
    texts = [
        f"`{case.name}` {ratio:.2f}" + "".join(f" ({tag})" for tag in sorted(case.tags))
        for ratio, case in found[:most]
    ]
    if len(found) > most:
        texts.append(f"and {len(found) - most} more")
    return ", ".join(texts) or "none"


def summary(rows: Sequence[Row], others: Sequence[str], by: str) -> str:
    """Return what follows the table of cases."""
    parts: list[str] = []
    for other in others:
        parts.append(groups(rows, other, by))
        slow = _listed(rows, by, other, lambda case: case.limit)
        parts.append(f"Slower than allowed against {other} ({COLUMNS[by]}): {slow}.")
        small = _listed(
            rows, by, other, lambda case: 1.0 if math.isinf(case.limit) else math.inf
        )
        parts.append(f"Launches above 1.0 against {other}: {small}.")
        for metric in ("first", "python"):
            above = _listed(rows, metric, other, lambda case: 1.0, 12)
            parts.append(f"{COLUMNS[metric]} above 1.0 against {other}: {above}.")
        memory = [row for row in rows if PEAK in row.case.tags]
        grown = ", ".join(
            f"`{row.case.name}` {row.metrics['ours']['peak']:.0f} MiB "
            f"({ratio_text(row.ratio('peak', other))})"
            for row in memory
            if "ours" in row.metrics
        )
        if grown:
            parts.append(f"Growth of the process, against {other}: {grown}.")
    errors = [error for row in rows for error in row.errors.values()]
    if errors:
        parts.append("Errors:\n\n" + "\n".join(f"- {error}" for error in errors))
    return "\n" + "\n\n".join(parts)
