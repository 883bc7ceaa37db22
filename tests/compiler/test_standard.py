"""Kernels that are built as lumijit is installed: which programs find theirs."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.support import run_script

BUILD = """
from lumijit.compiler.record import standard
from lumijit.runtime import cache

cache._installed = ""
standard.build()
"""

PROGRAM = """
import os

import lumijit as dr
from lumijit.compiler.launch import named_kernels
from lumijit.llvm import Bool, Float, Float64, Int, UInt, UInt64
from lumijit.runtime import cache

cache._installed = os.environ["INSTALLED"]
for Type in (Float, Float64, Int, UInt, UInt64):
    x = Type(list(range(1, 97)))
    assert dr.sum(x)[0] == 4656 and dr.max(x)[0] == 96 and dr.min(x)[0] == 1
    assert dr.block_sum(x, 3)[31] == 285
    assert dr.block_sum(dr.tile(x, 2), 96)[1] == 4656
    assert dr.cumsum(x)[95] == 4656 and dr.prefix_sum(x)[95] == 4560
    assert dr.argmax(x)[0] == 95
assert dr.all(Bool([True] * 99))[0]
assert dr.compress(Bool([True, False] * 50))[1] == 2
assert dr.sort(UInt([3, 1, 2] * 32))[0] == 1
assert dr.sin(Float(1))[0] > 0.8 and dr.exp(Float64(1))[0] > 2.7
found = named_kernels._KERNELS
assert len(found) > 30
built = [name for name, kernel in found.items() if not kernel.is_disk_hit]
assert not built, built
"""


def test_common_calls_find_their_kernels(tmp_path: Path) -> None:
    folder = tmp_path / "prebuilt"
    run_script(BUILD, timeout=120, LUMIJIT_CACHE_DIR=str(folder))
    entries = list(folder.glob("*.kernel"))
    assert len(entries) > 200
    assert sum(entry.stat().st_size for entry in entries) < 1 << 20
    other = tmp_path / "other"
    run_script(PROGRAM, INSTALLED=str(folder), LUMIJIT_CACHE_DIR=str(other))
