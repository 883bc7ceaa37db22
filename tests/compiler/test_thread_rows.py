"""Threads read neighbouring entries with one load where their address allows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.functions.gathering import gather_run
from lumijit.llvm import Float, Float16, Float64, Int, UInt, UInt64
from tests.compiler.test_ptx import values
from tests.targets import written_for
from tests.tools.ptx import translating

pytestmark = pytest.mark.host("its kernels are translated")


def rows(t: Any, length: int, step: int, n: int = 65) -> Any:
    """Read rows that begin at any entry, under masks, in a loop and elsewhere."""
    source = t(np.arange(n * step + length) % 251)
    i = dr.arange(UInt, n) * step
    first = gather_run(t, source, i, length, i % 7 > 1)

    def body(j: Any, total: Any) -> Any:
        found = gather_run(t, source, j, length, True)
        # (Sums are exact.)
        return j + 1, sum((x * (k + 1) for k, x in enumerate(found)), total)

    _, total = dr.while_loop((i, t(first[0])), lambda j, _: j < i + 3, body)
    return (*first, total)


@pytest.mark.parametrize("t", [Float, Float64, Float16, Int, UInt64])
@pytest.mark.parametrize(("length", "step"), [(2, 1), (2, 2), (4, 4), (4, 3), (8, 8)])
def test_rows_are_what_packets_read(t: Any, length: int, step: int) -> None:
    with written_for("packet"):
        expected = values(rows(t, length, step))
    with written_for("thread"):
        found = values(rows(t, length, step))
    for x, y in zip(expected, found, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("t", "length", "load"),
    [
        (Float, 2, "v2.b32"),
        (Float, 4, "v4.b32"),
        (Float64, 4, "v2.b64"),
        (Float, 3, ""),
        (Float, 5, ""),
    ],
)
def test_gpus_load_vectors(t: Any, length: int, load: str, tmp_path: Path) -> None:
    with translating(tmp_path, is_quiet=True) as target:
        values(rows(t, length, length))
    assert target.failures == []
    text = "".join(path.read_text() for path in target.files)
    kinds = set(re.findall(r"ld\.global\.(v[24]\.\w+)", text.replace(".f", ".b")))
    assert kinds == ({load} if load else set()), text


def test_writes_in_between_are_not_read() -> None:
    def program() -> Any:
        x = dr.arange(Float, 8) + 0
        dr.eval(x)
        i = dr.arange(UInt, 2) * 4
        old = gather_run(Float, x, i, 2, True)
        dr.scatter(x, Float(100), i + 1)
        new = gather_run(Float, x, i, 2, True)
        return (*old, *new)

    with written_for("packet"):
        expected = values(program())
    with written_for("thread"):
        np.testing.assert_array_equal(values(program()), expected)
