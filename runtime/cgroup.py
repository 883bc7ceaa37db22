"""What a container lets this process use: cores and memory, by its control groups.

Owns reading Linux's files of control groups, version 2 and version 1. A limit of any
group above this process's own holds as well. Where there are none, nothing is limited.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _folders(controller: str, root: str) -> Iterator[tuple[int, str]]:
    """Yield the version and the folder of each group that this process is in.

    A container may see the path of its group as it is outside, and below the mount
    nothing but its own group: so every part of the path is tried, down to none.
    """
    mount = os.path.join(root, "sys/fs/cgroup")
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            version, bases = 2, [mount]
        elif controller in controllers.split(","):
            names = {controller: 0, controllers: 0}
            version, bases = 1, [os.path.join(mount, name) for name in names]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for base in bases:
            for depth in range(len(parts), -1, -1):
                yield version, os.path.join(base, *parts[:depth])


def cpu_cores(root: str = "/") -> int:
    """Return how many cores' time this process may use, rounded up.

    Args:
        root: where the system's files are.
    """
    fewest = sys.maxsize
    for version, folder in _folders("cpu", root):
        if version == 2:
            quota, _, period = _read(os.path.join(folder, "cpu.max")).partition(" ")
        else:
            quota = _read(os.path.join(folder, "cpu.cfs_quota_us"))
            period = _read(os.path.join(folder, "cpu.cfs_period_us"))
        time, of = _number(quota), _number(period)
        if time and of:
            fewest = min(fewest, -(-time // of))
    return fewest


def memory_left(root: str = "/") -> int:
    """Return how many bytes this process may take beyond what its groups hold.

    Args:
        root: where the system's files are.
    """
    least = sys.maxsize
    for version, folder in _folders("memory", root):
        names = ("memory.max", "memory.current")
        if version == 1:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit, used = (_number(_read(os.path.join(folder, name))) for name in names)
        if limit is not None and used is not None:
            least = min(least, max(limit - used, 0))
    return least
