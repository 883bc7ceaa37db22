"""What the keys of cached kernels cover: our sources, LLVM, the processor."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lumijit
from lumijit import compiler, runtime
from lumijit.runtime import cache, environment
from tests.runtime.support import run_script


@pytest.fixture
def sources(
    tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    folder = tmp_path / "sources"
    (folder / "deep").mkdir(parents=True)
    (folder / "__pycache__").mkdir()
    (folder / "one.py").write_text("1")
    (folder / "deep" / "two.py").write_text("22")
    monkeypatch.setattr(environment, "_FOLDERS", (str(folder),))
    yield folder
    environment.sources_digest.cache_clear()


def digest(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a process that begins now finds."""
    time.sleep(0.02)
    monkeypatch.setattr(environment, "_STARTED_NS", time.time_ns())
    environment.sources_digest.cache_clear()
    return environment.sources_digest()


def test_the_digest_is_that_of_the_contents(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = digest(monkeypatch)
    assert digest(monkeypatch) == first
    os.utime(sources / "one.py", (1, 1))
    assert digest(monkeypatch) == first
    (sources / "notes.txt").write_text("not code")
    (sources / "__pycache__" / "one.pyc").write_text("compiled")
    assert digest(monkeypatch) == first
    found = {first}
    # Neither its size nor the time of its last change gives it away.
    (sources / "one.py").write_text("7")
    os.utime(sources / "one.py", (1, 1))
    found.add(digest(monkeypatch))
    (sources / "deep" / "two.py").write_text("23")
    found.add(digest(monkeypatch))
    (sources / "deep" / "three.py").write_text("")
    found.add(digest(monkeypatch))
    (sources / "deep" / "three.py").rename(sources / "three.py")
    found.add(digest(monkeypatch))
    assert len(found) == 5
    (sources / "three.py").unlink()
    (sources / "deep" / "two.py").write_text("22")
    (sources / "one.py").write_text("1")
    assert digest(monkeypatch) == first


def test_sources_that_change_meanwhile_are_nobody_elses(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = digest(monkeypatch)
    (sources / "one.py").write_text("8")
    environment.sources_digest.cache_clear()
    mixed = environment.sources_digest()
    assert mixed not in (first, digest(monkeypatch))


def test_sources_that_cannot_be_read_are_nobody_elses(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(sources)
    assert digest(monkeypatch) != digest(monkeypatch)
    assert "kernels are not shared" in capsys.readouterr().err


def test_a_damaged_note_of_the_digest_is_not_believed(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = digest(monkeypatch)
    monkeypatch.setattr(cache, "lookup", lambda name: (b"", {"digest": 7}))
    assert digest(monkeypatch) == first


def test_keys_differ_by_llvm_and_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {environment.key("znver3|+avx2"), environment.key("znver3|-avx2")}
    local = {environment.local_key()}
    version, library = environment._llvm_library()
    size, *rest = library
    for found in (("99", library), (version, (size + 1, *rest))):
        monkeypatch.setattr(environment, "_llvm_library", lambda found=found: found)
        keys.add(environment.key("znver3|+avx2"))
        local.add(environment.local_key())
    monkeypatch.setattr(
        environment, "_llvm_library", lambda: (version, (size, rest[0] + 1, *rest[1:]))
    )
    local.add(environment.local_key())
    monkeypatch.setattr(environment, "VERSION", "0.0.0")
    keys.add(environment.key("znver3|+avx2"))
    assert len(keys) == 5
    assert len(local) == 4


def test_a_changed_code_generator_runs_no_old_code(
    tmp_path: Path, cache_folder: Path
) -> None:
    package = tmp_path / "path" / "lumijit"
    for module, name in ((lumijit, "."), (compiler, "compiler"), (runtime, "runtime")):
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(
            module.__path__[0], package / name, ignore=skipped, dirs_exist_ok=True
        )

    def kernels() -> int:
        script = """
            import lumijit as dr
            from lumijit.llvm import Float
            assert "path" in dr.__file__
            assert dr.sum(dr.arange(Float, 100) * 2)[0] == 9900
        """
        run_script(
            script,
            PYTHONPATH=str(package.parent),
            LUMIJIT_CACHE_DIR=str(cache_folder),
            PYTHONDONTWRITEBYTECODE="1",
        )
        return len(list(cache_folder.glob("*.kernel")))

    once = kernels()
    assert kernels() == once
    with open(package / "compiler" / "lower" / "packet" / "kernel.py", "a") as file:
        file.write("# Another way of lowering.\n")
    assert kernels() >= 2 * once - 1
