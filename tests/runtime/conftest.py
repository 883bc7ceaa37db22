"""Fixtures of the runtime's tests: cache folders, kernels, threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lumijit.runtime import cache, workers
from lumijit.runtime.settings import settings
from tests.runtime.support import Counter, Holder


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "cache"
    monkeypatch.setattr(settings, "cache_dir", str(folder))
    # The first of so many stores evicts; how many came before is chance.
    monkeypatch.setattr(cache, "_stores", itertools.count(1))
    cache._complaints.clear()
    yield folder
    cache._complaints.clear()


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def holder() -> Iterator[Holder]:
    holder = Holder()
    yield holder
    holder.release()
    workers.sync()


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = workers.thread_count()
    yield workers.set_thread_count
    workers.set_thread_count(before)
