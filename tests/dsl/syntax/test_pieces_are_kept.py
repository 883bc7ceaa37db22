"""What is known of pieces of a tree holds for these only, however memory is reused."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import lumijit as lj
from lumijit.syntax import rewriting


class Counter:
    def __init__(self, seed: Any) -> None:
        self.seed = seed
        self.calls = 0

    def next(self) -> Any:
        self.calls += 1
        return (self.seed * 75 + self.calls * 74) % 97


def chains(k: Any) -> Any:
    counter = Counter(k)
    one = 0 < k < counter.next() % 10 < counter.next() % 20
    two = 1 < k < counter.next() % 30 + 2 < counter.next() % 70 < counter.next()
    three = 2 < k < counter.next() % 7 + 3 < counter.next() % 13 + 1
    return (1 if one else 0), (1 if two else 0), (1 if three else 0)


def choices(k: Any) -> Any:
    counter = Counter(k)
    one = counter.next() if k > 3 and counter.next() > 9 else counter.next() % 5
    two = counter.next() if k < 3 or counter.next() > 5 else counter.next() % 7
    while k < 9 and (one > 3 or counter.next() % 2 == 0):
        k += 1 if counter.next() > 4 and k > 2 else 2
    return one, two, k


@pytest.mark.parametrize("function", [chains, choices])
def test_code_does_not_depend_on_the_collector(
    function: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def written() -> str:
        lj.syntax(print_code=True)(function)
        return capsys.readouterr().out

    gc.disable()
    try:
        expected = written()
    finally:
        gc.enable()
    named = rewriting._NameSource.__call__

    def collecting(source: Any, stem: str) -> str:
        # What the collector frees is taken by what is made next.
        gc.collect()
        return named(source, stem)

    monkeypatch.setattr(rewriting._NameSource, "__call__", collecting)
    # Else each collection goes through what other tests have left.
    gc.freeze()
    try:
        assert [written() for _ in range(3)] == [expected] * 3
    finally:
        gc.unfreeze()
