"""Limits of containers, read from files as Linux shows them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lumijit.runtime import cgroup, pool


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


V2 = "sys/fs/cgroup/"
V1 = "sys/fs/cgroup/cpu/"
GROUP = "proc/self/cgroup"
JOINED = "sys/fs/cgroup/cpu,cpuacct/"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, sys.maxsize),
        ({GROUP: "0::/\n", f"{V2}cpu.max": "max 100000\n"}, sys.maxsize),
        ({GROUP: "0::/\n", f"{V2}cpu.max": "200000 100000\n"}, 2),
        ({GROUP: "0::/\n", f"{V2}cpu.max": "250000 100000\n"}, 3),
        ({GROUP: "0::/\n", f"{V2}cpu.max": "10000 100000\n"}, 1),
        # The group's own limit, and that of a group above.
        (
            {
                GROUP: "0::/a/b\n",
                f"{V2}a/b/cpu.max": "800000 100000\n",
                f"{V2}a/cpu.max": "350000 100000\n",
            },
            4,
        ),
        # The path of the group outside of the container, which sees only its own.
        ({GROUP: "0::/../x/y\n", f"{V2}cpu.max": "150000 50000\n"}, 3),
        (
            {
                GROUP: "4:cpu,cpuacct:/docker/12\n",
                f"{V1}cpu.cfs_quota_us": "120000\n",
                f"{V1}cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                GROUP: "9:name=systemd:/\n4:cpu,cpuacct:/k\n0::/\n",
                f"{JOINED}k/cpu.cfs_quota_us": "500000\n",
                f"{JOINED}k/cpu.cfs_period_us": "100000\n",
            },
            5,
        ),
        (
            {
                GROUP: "1:cpu:/\n",
                f"{V1}cpu.cfs_quota_us": "-1\n",
                f"{V1}cpu.cfs_period_us": "100000\n",
            },
            sys.maxsize,
        ),
        # Nonsense limits nothing.
        ({GROUP: "0::/\n", f"{V2}cpu.max": "100000\n"}, sys.maxsize),
        ({GROUP: "0::/\n", f"{V2}cpu.max": "1000 0\n"}, sys.maxsize),
        ({GROUP: "garbage\n::\n0:\n", f"{V2}cpu.max": "x y z\n"}, sys.maxsize),
    ],
)
def test_cores(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    assert cgroup.cpu_cores(write(tmp_path, files)) == cores


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, sys.maxsize),
        (
            {
                GROUP: "0::/a\n",
                f"{V2}a/memory.max": "1000\n",
                f"{V2}a/memory.current": "400\n",
                f"{V2}memory.max": "max\n",
                f"{V2}memory.current": "7000\n",
            },
            600,
        ),
        (
            {
                GROUP: "4:memory:/b\n",
                f"{V2}memory/memory.limit_in_bytes": "500\n",
                f"{V2}memory/memory.usage_in_bytes": "700\n",
            },
            0,
        ),
    ],
)
def test_memory(tmp_path: Path, files: dict[str, str], left: int) -> None:
    assert cgroup.memory_left(write(tmp_path, files)) == left


def test_the_pool_keeps_to_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pool.core_count()
    monkeypatch.setattr(cgroup, "cpu_cores", lambda: 1)
    assert pool.core_count() == 1
    monkeypatch.setattr(cgroup, "cpu_cores", lambda: 10**6)
    assert pool.core_count() >= before
