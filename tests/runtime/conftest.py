"""Fixtures of the runtime's tests: a cache folder of their own, kernels, threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lumijit.runtime import cache, workers
from lumijit.runtime.config import settings
from tests.runtime.support import Counter, Holder


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    settings.cache_dir = str(folder)
    os.environ["LUMIJIT_CACHE_DIR"] = settings.cache_dir


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "cache"
    monkeypatch.setattr(settings, "cache_dir", str(folder))
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
