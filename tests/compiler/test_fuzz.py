"""Entries of the disk cache with random faults, under a checksum that is right.

Whatever is in a file, reading it ends with a kernel or with a fresh build. (What is
run is never one of these: who can write to the folder can have any code run.)
`LUMIJIT_FUZZ` says how many of each kind are tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower import collectives
from lumijit.compiler.plan.program import Program
from lumijit.runtime import cache, cpu, loader
from lumijit.runtime.dtypes import FLOAT32
from lumijit.runtime.errors import KernelBuildError
from lumijit.runtime.settings import settings
from tests.compiler.support import array, lit

COUNT = int(os.environ.get("LUMIJIT_FUZZ", "400"))
NUMBERS = (0, 1, 7, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
VALUES: tuple[Any, ...] = (None, True, -1, 0, 2**70, 1.5, float("nan"), "", "<9999999x")
VALUES += ("<Q", [], [[]], [[64, 0, 10**9]], [[0, 0, 1]], [-1], ["a"], {}, {"a": 1})

CALLS = """
declare double @fmod(double, double)
declare i32 @sched_yield()
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
  %x = call double @fmod(double 7.25, double 0x400921FB54442D18)
  store double %x, ptr %args
  %status = call i32 @sched_yield()
  ret void
}
"""


def objects() -> list[bytes]:
    scan = collectives.scan_ir("kernel", "add", FLOAT32, True, False)
    return [cpu.compile_ir(text) for text in (CALLS, scan)]


def damaged(data: bytes, rng: random.Random, tables: list[int]) -> bytes:
    """Return data with some faults: in bytes, in numbers, in the length."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        kind = rng.randrange(4)
        at = rng.choice(tables) + rng.randrange(64) if tables else None
        if at is None or rng.random() < 0.2 or at + 8 > len(result):
            at = rng.randrange(max(len(result) - 8, 1))
        if kind == 0:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            size, code = rng.choice(((2, "<H"), (4, "<I"), (8, "<Q")))
            number = rng.choice(NUMBERS) & (1 << 8 * size) - 1
            result[at : at + size] = struct.pack(code, number)
        elif kind == 2 and rng.random() < 0.3:
            del result[rng.randrange(len(result)) :]
            result += b"\0" * 16
        else:
            other = rng.randrange(max(len(result) - 8, 1))
            result[at : at + 8] = result[other : other + 8]
    return bytes(result)


@pytest.mark.skipif(not loader.is_available(), reason="LLVM links")
def test_damaged_objects_are_refused() -> None:
    refused = 0
    for data in objects():
        (offset,) = struct.unpack_from("<Q", data, 40)
        (count,) = struct.unpack_from("<H", data, 60)
        tables = [0, *(offset + 64 * k for k in range(count))]
        # Symbols and relocations, too.
        sections = [struct.unpack_from("<IIQQQQ", data, t) for t in tables[1:]]
        tables += [start for _, kind, _, _, start, _ in sections if kind in (2, 4)]
        for seed in range(COUNT):
            rng = random.Random(seed)
            try:
                loader.load(damaged(data, rng, tables), ("kernel",))
            except (loader.BrokenObject, loader.UnknownObject):
                refused += 1
    assert refused > COUNT / 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def refuse(*unused: object) -> None:
        raise KernelBuildError("LLVM is not asked")

    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(settings, "cache_dir", str(folder))
    monkeypatch.setattr(cpu, "_link_with_llvm", refuse)
    monkeypatch.setattr(kernels, "NOTED_FROM", 4)
    return folder


def program() -> Program:
    """Return one that is noted on disk, as some of its numbers coincide."""
    node: Node = array(np.arange(10), FLOAT32)
    for number in (2.5, 3.5, 2.5, 4.5):
        node = emit2(ar.ADD, emit2(ar.MUL, node, lit(FLOAT32, number)), node)
    return Program(10, [node], [], 0)


def check() -> None:
    """Look the program's kernel up, and pack its arguments as a launch would."""
    wanted = program()
    kernels.flush()
    built = kernels.lookup(wanted)
    values = [0 if n.buffer is not None else n.attr for n in wanted.arguments]
    assert len(built.pack(*values, 0, 0)) > 8


def changed(value: Any, rng: random.Random) -> Any:
    """Return a description with something else in some place."""
    if rng.random() < 0.3 or not isinstance(value, (dict, list)) or not value:
        return rng.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = rng.choice(list(keys))
    copy = value.copy()
    if rng.random() < 0.2:
        del copy[key]
    else:
        copy[key] = changed(value[key], rng)
    return copy


def sealed(rest: bytes) -> bytes:
    """Return a file that is whole, with these lengths and contents."""
    checksum = hashlib.blake2b(rest, digest_size=32).digest()
    return cache._MAGIC + checksum + rest


def test_damaged_descriptions_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check()
    files = {file: file.read_bytes() for file in folder.glob("*.kernel")}
    assert len(files) >= 2
    for seed in range(COUNT):
        rng = random.Random(seed)
        for file, data in files.items():
            code, meta = cache.unpack(data, file.stem)
            described = changed(meta, rng)
            if isinstance(described, dict):
                described = {**described, "key": file.stem}
            text = json.dumps(described).encode()
            lengths = struct.pack("<QQ", len(text), len(code))
            file.write_bytes(sealed(lengths + text + code))
        check()
    assert "is dropped" in capsys.readouterr().err


def test_damaged_files_are_refused(folder: Path) -> None:
    check()
    files = {file: file.read_bytes() for file in folder.glob("*.kernel")}
    nested = b"[" * 100_000
    for seed in range(COUNT):
        rng = random.Random(seed)
        for file, data in files.items():
            length = struct.unpack_from("<Q", data, 40)[0]
            rest = data[40:]
            if seed == 0:
                rest = struct.pack("<QQ", len(nested), 0) + nested
            else:
                # The code stays: it isn't this test's business.
                head = damaged(rest[: 16 + length], rng, [0])
                rest = head + rest[16 + length :]
            file.write_bytes(sealed(rest))
            cache.lookup(file.stem)
    check()
