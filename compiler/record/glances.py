"""What the host sees at a glance: masks in memory of which few entries tell the result.

A look at some entries takes less time than a launch. It doesn't wait, and recordings
that listen would miss it: both are the caller's to ask (`can_look`).
"""

from __future__ import annotations

from ctypes import string_at

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED
from lumijit.runtime import recorders, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.recorders import listening

# The host looks at so many entries of a mask in less time than a launch takes.
FEW = 1 << 13
_UNSET = bytes(FEW)
# Of these, the very first most often tell.
FIRST = 64
# So many runs are looked at one by one.
FEW_RUNS = 32


def can_look(node: Node) -> bool:
    """Tell whether a node is a mask in the host's memory that nobody writes."""
    return (
        node.type is BOOL
        and node.op is EVALUATED
        and node.buffer is not None
        and node.buffer.device is None
        and workers.is_idle()
        and not (listening and recorders.is_heard())
    )


def combined(
    op: str, mask: Buffer, size: int, first: int = 0, few: int = FEW
) -> bool | None:
    """Combine entries by `and` or `or`, from `first` on; None if few don't tell."""
    if op not in ("and", "or"):
        return None
    for count in (FIRST, few):
        seen = string_at(mask.address + first, min(size, count))
        if 0 in seen if op == "and" else not _UNSET.startswith(seen):
            return op == "or"
        if size <= count:
            return op == "and"
    return None


def combined_runs(op: str, mask: Buffer, run: int, runs: int) -> bytes | None:
    """Combine the entries of each of few runs; None if few entries don't tell."""
    found = bytearray(runs)
    for k in range(runs):
        seen = combined(op, mask, run, k * run, FEW // runs)
        if seen is None:
            return None
        found[k] = seen
    return bytes(found)


def extremes(op: str, mask: Buffer, run: int, runs: int) -> list[int] | None:
    """Find the first extreme of each of few runs; None if few entries don't tell."""
    found = []
    for k in range(runs):
        place = _extreme(op, mask, run, k * run, FEW // runs)
        if place < 0:
            return None
        found.append(place)
    return found


def _extreme(op: str, mask: Buffer, run: int, first: int, few: int) -> int:
    """Find the first extreme of a run; negative if few entries don't tell."""
    for count in (FIRST, few):
        seen = string_at(mask.address + first, min(run, count))
        # Any byte but 0 is set.
        place = seen.find(0) if op == "min" else len(seen) - len(seen.lstrip(b"\0"))
        if 0 <= place < len(seen):
            return place
        if run <= count:
            return 0
    return -1
