"""Bounds checks of indexed access and calls under flag Debug.

An access or a call out of bounds is masked. The largest such index is noted in a small
array by an ordinary scatter, so it works inside regions too; the evaluation that
carries it out reads the note and warns with the user's line.
"""

from __future__ import annotations

import warnings

from lumijit.compiler import memory, trace
from lumijit.compiler.ops.logic import AND, LT, NOT
from lumijit.compiler.ops.structural import LITERAL
from lumijit.compiler.trace import Node
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import where

_KINDS = {
    "gather": "out-of-bounds read from",
    "scatter": "out-of-bounds write to",
    "scatter_inc": "out-of-bounds write to",
}


class Report:
    """Where an access is and, after evaluation, the worst index it used."""

    def __init__(self, construct: str, size: int) -> None:
        self._node = trace.literal(UINT32, 0)
        self.construct = construct
        self.size = size
        self.where = where()

    def text(self, index: int) -> str:
        """Word the warning."""
        if self.construct == "switch":
            return (
                f"{self.where}: lumijit.switch(): Attempted to invoke callable with "
                f"index {index}, but this value must be smaller than {self.size}. "
                "The call was masked. Fix: keep the index below the number of "
                "targets, or pass active=index < count."
            )
        return (
            f"{self.where}: lumijit.{self.construct}(): {_KINDS[self.construct]} "
            f"position {index} in an array of size {self.size}. The access was "
            "masked. Fix: keep the index below the size, or pass active=index < size."
        )


_reports: list[Report] = []


def in_bounds(construct: str, size: int, index: Node, mask: Node) -> Node:
    """Return the mask without the entries whose index is out of bounds."""
    inside = trace.emit2(LT, index, trace.literal(UINT32, size))
    outside = trace.emit2(AND, mask, trace.emit1(NOT, inside))
    report = Report(construct, size)
    memory.write(report, index, trace.literal(UINT32, 0), outside, "max")
    if report._node.deps:
        _reports.append(report)
    return trace.emit2(AND, mask, inside)


def pending() -> list[Node]:
    """Return the notes that the next evaluation has to carry out."""
    # A region that was traced again or given up has withdrawn its notes.
    _reports[:] = [r for r in _reports if r._node.op is not LITERAL]
    return [r._node for r in _reports if not trace.is_symbolic(r._node)]


def warn() -> None:
    """Warn of what the evaluated notes say."""
    from lumijit.compiler import evaluate

    ready = [r for r in _reports if r._node.buffer is not None]
    if not ready:
        return
    _reports[:] = [r for r in _reports if r._node.buffer is None]
    for report in ready:
        index = int(evaluate.data(report._node)[0])
        if index:
            warnings.warn(report.text(index), RuntimeWarning, stacklevel=2)
