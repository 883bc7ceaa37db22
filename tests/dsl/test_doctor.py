"""`python -m lumijit doctor`: what it finds, and what it says to do about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lumijit import __main__, doctor
from lumijit.runtime import cache, nvptx, workers
from lumijit.runtime.settings import settings


def told(subject: str) -> list[doctor.Finding]:
    return [f for f in doctor.findings() if f.subject == subject]


def test_a_process_of_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "LUMIJIT_CACHE_DIR": str(tmp_path / "cache")}
    found = subprocess.run(
        [sys.executable, "-m", "lumijit", "doctor"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        cwd=tmp_path,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "a kernel      was built and computed what it should" in found.stdout
    assert str(tmp_path / "cache") in found.stdout
    for subject in ("lumijit", "Python", "LLVM", "processor", "threads", "GPU"):
        assert f"\n{subject} " in f"\n{found.stdout}"


def test_kernels_in_the_cache_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "no_disk_cache", False)
    monkeypatch.setattr(settings, "cache_dir", str(tmp_path / "cache"))
    assert cache.contents() == (0, 0)
    assert cache.problem() == ""
    assert cache.store("a" * 40, b"code", {})
    count, size = cache.contents()
    assert count == 1
    assert size > 4


def test_a_cache_that_others_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr(settings, "no_disk_cache", False)
    monkeypatch.setattr(settings, "cache_dir", str(tmp_path))
    (found,) = told("kernel cache")
    assert found.is_wrong
    assert "may be written by other users" in found.state
    assert "LUMIJIT_CACHE_DIR" in found.remedy


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "no_disk_cache", True)
    (found,) = told("kernel cache")
    assert found.is_wrong
    assert "LUMIJIT_NO_DISK_CACHE" in found.remedy


def test_a_misspelt_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LUMIJIT_THREAD", "2")
    assert __main__.main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "LUMIJIT_THREAD is none" in shown
    assert "-> unset it; there are" in shown


def test_fewer_threads_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_thread_count", 77)
    (found,) = told("threads")
    assert found.state.startswith("77, with")
    assert "LUMIJIT_THREADS" in found.remedy


def test_what_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError("gone")

    monkeypatch.setattr(nvptx, "assembler", fail)
    assert doctor.Finding("gpu", "OSError: gone", "", True) in doctor.findings()


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        __main__.main(["nurse"])
    assert "invalid choice: 'nurse'" in capsys.readouterr().err
