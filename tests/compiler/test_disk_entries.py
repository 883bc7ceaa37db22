"""Entries of the disk cache that are whole, but not what they should be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.launch import kernels, named_kernels
from lumijit.llvm import Float
from lumijit.runtime import cache, cpu, pool
from lumijit.runtime.settings import settings

Change = Callable[[bytes, dict[str, Any]], tuple[bytes, dict[str, Any]]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(settings, "cache_dir", str(folder))
    monkeypatch.setattr(cpu, "host", cpu.host.__wrapped__)
    return folder


def _run() -> None:
    """Run a program that is long enough for a note on disk, and a sum, anew."""
    dr.flush_kernel_cache()
    named_kernels.flush()
    kernels.flush()
    cpu.host()
    x = dr.arange(Float, 100)
    reference = np.arange(100, dtype=np.float32)
    for k in range(300):
        factor, summand = 0.5 + k / 1000, k / 100  # some of them coincide
        x = x * factor + summand
        reference = reference * np.float32(factor) + np.float32(summand)
    np.testing.assert_allclose(x.numpy(), reference, rtol=1e-4)
    assert dr.sum(x + 1)[0] == pytest.approx(reference.sum() + 100, rel=1e-4)


def _without(name: str) -> Change:
    def change(code: bytes, meta: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        return code, {k: v for k, v in meta.items() if k != name}

    return change


def _with(name: str, value: object) -> Change:
    def change(code: bytes, meta: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        return code, {**meta, name: value} if name in meta else meta

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda code, meta: (b"", meta),
        lambda code, meta: (code[: len(code) // 2], meta),
        lambda code, meta: (code, {}),
        _without("width"),
        _without("wide"),
        _without("picks"),
        _with("layout", "<zz"),
        _with("layout", 5),
        _with("wide", [[1]]),
        _with("picks", [99_999]),
        _with("picks", [-1]),
        _with("numbers", 5),
        _with("kernel", 5),
        _with("kernel", "none of that name"),
        _with("features", None),
        _without("triple"),
    ],
)
def test_they_are_built_anew(
    folder: Path, capsys: pytest.CaptureFixture[str], change: Change
) -> None:
    _run()
    capsys.readouterr()
    for file in folder.glob("*.kernel"):
        code, meta = cache.unpack(file.read_bytes(), file.stem)
        file.write_bytes(cache.pack(file.stem, *change(code, meta)))
    _run()
    is_dropped = change(b"", {"kernel": ""})[1].get("kernel") != "none of that name"
    assert ("is dropped" in capsys.readouterr().err) == is_dropped
    _run()
    assert capsys.readouterr().err == ""


def test_a_pool_on_disk_that_is_none_is_built_anew(folder: Path) -> None:
    pool._Native()
    (file,) = (f for f in folder.iterdir() if f.stat().st_size > 4000)
    file.write_bytes(cache.pack(file.stem, b"no object", {}))
    assert pool._Native().addresses
    assert cache.lookup(file.stem) != (b"no object", {})


def test_the_history_has_the_code_of_kernels_from_disk(folder: Path) -> None:
    history = []
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for _ in range(2):
            _run()
            history.append(dr.kernel_history())
    for built, found in zip(*history, strict=True):
        assert not built["cache_disk"]
        assert found["cache_disk"]
        assert found["hash"] == built["hash"]
        assert found["ir"] == built["ir"]
        assert bool(found["ir"]) == (found["type"] is dr.KernelType.JIT)


def test_the_log_tells_of_every_launch(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = []
    before = dr.log_level()
    x = dr.opaque(Float, 1, 100)
    dr.set_log_level(dr.LogLevel.Info)
    try:
        for flushed in (True, True, False):
            if flushed:
                named_kernels.flush()
            assert dr.sum(x)[0] == 100
            states += re.findall(
                r"launching \w+ \(reduce_add_f32, n=100\): cache (.*)\n",
                capsys.readouterr().err,
            )
    finally:
        dr.set_log_level(before)
    assert states == ["miss", "disk hit", "hit"]
