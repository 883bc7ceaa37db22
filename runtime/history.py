"""The history of kernel launches, for profiling.

Owns the list of entries and their fields. Whether launches are recorded (flag
`KernelHistory`) and what is known of each is decided where they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from lumijit.runtime import workers
from lumijit.runtime.errors import ArrayTypeError
from lumijit.runtime.named_enum import NamedEnum

Entry = dict[str, Any]


class JitBackend(NamedEnum):
    """What runs a kernel."""

    Invalid = 0
    CUDA = 1
    LLVM = 2


class KernelType(NamedEnum):
    """What a kernel does."""

    JIT = 0
    Reduce = 1
    Other = 2


# Times are in µs.
_DEFAULTS: Final[Entry] = {
    "backend": JitBackend.LLVM,
    "type": KernelType.JIT,
    "hash": "",
    "ir": "",
    "operation_count": 0,
    "cache_hit": False,
    "cache_disk": False,
    "codegen_time": 0.0,
    "backend_time": 0.0,
    "execution_time": 0.0,
    "uses_optix": False,
    "size": 0,
    "input_count": 0,
    "output_count": 0,
    "recompile_reason": "",
}

_entries: list[Entry] = []


def record(entry: Entry) -> None:
    """Add a launch; what is missing gets a neutral value.

    Args:
        entry: the fields of `kernel_history`. An additional `ticket` names the
            job, whose `execution_time` is then filled in when it has completed.
    """
    unknown = entry.keys() - _DEFAULTS.keys() - {"ticket"}
    assert not unknown, f"unknown fields {sorted(unknown)}"
    full = {**_DEFAULTS, **entry}
    ticket = full.pop("ticket", 0)
    if ticket:
        workers.watch(ticket, full)
    _entries.append(full)


def kernel_history(types: Sequence[KernelType] = ()) -> list[Entry]:
    """Return the launches recorded so far, once they have completed, and clear them.

    Args:
        types: return only launches of these types; by default, all.

    Returns:
        A dictionary per launch with the entries `backend`, `type`, `hash`, `ir`,
        `operation_count`, `cache_hit`, `cache_disk`, `codegen_time`,
        `backend_time`, `execution_time` (µs), `uses_optix`, `size`,
        `input_count`, `output_count` and `recompile_reason`.
    """
    if isinstance(types, KernelType) or not isinstance(types, Iterable):
        raise ArrayTypeError(
            "kernel_history()",
            f"'types' is '{types!r}' (expected a sequence of KernelType, got "
            f"{type(types).__name__})",
            "pass a list, such as [KernelType.JIT].",
        )
    wanted = tuple(types)
    for kind in wanted:
        if not isinstance(kind, KernelType):
            raise ArrayTypeError(
                "kernel_history()",
                f"'types' holds '{kind!r}' (expected KernelType, got "
                f"{type(kind).__name__})",
                "pass members of KernelType, such as [KernelType.JIT].",
            )
    workers.sync()
    found = list(_entries)
    del _entries[: len(found)]
    return [entry for entry in found if not wanted or entry["type"] in wanted]


def kernel_history_clear() -> None:
    """Clear the history."""
    _entries.clear()


def recorded() -> tuple[int, int]:
    """Return how many launches are in the history, and how many hit a known kernel."""
    hits = sum(bool(entry["cache_hit"]) for entry in _entries)
    return len(_entries), hits
