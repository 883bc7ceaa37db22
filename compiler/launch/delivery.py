"""Reports on what a kernel noted: carried out, then delivered to the user.

A bounds check or a symbolic print writes its findings to arrays of its own by
ordinary scatters, so that it works inside regions. The evaluation that executes
them reads the findings and delivers the report. Owns the queue of this thread;
what a report says is decided by its class.
"""

from __future__ import annotations

import threading

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED, WRITTEN


class Report:
    """Something to tell the user once the array of `holder` has been written."""

    holder: Holder

    def deliver(self) -> None:
        """Tell it; all arrays of the report are in memory."""
        raise NotImplementedError


class _Queue(threading.local):
    """The reports of this thread, in the order in which they were made."""

    def __init__(self) -> None:
        self.reports: list[Report] = []


queue = _Queue()


def register(report: Report) -> None:
    """Queue a report, unless nothing can be written to its array."""
    if report.holder._node.op is WRITTEN and report not in queue.reports:
        queue.reports.append(report)


def nodes() -> list[Node]:
    """Return what the next evaluation has to carry out for the reports."""
    # A region that was traced again or given up has withdrawn its writes.
    states = (WRITTEN, EVALUATED)
    queue.reports[:] = [r for r in queue.reports if r.holder._node.op in states]
    found = (r.holder._node for r in queue.reports)
    return [n for n in found if n.op is WRITTEN and not trace.is_symbolic(n)]


def deliver() -> None:
    """Deliver the reports whose findings are in memory.

    If one raises (a warning made an error, say), the next evaluation tells the rest.
    """
    ready = [r for r in queue.reports if r.holder._node.op is EVALUATED]
    # Off the queue first: delivering may evaluate something, and come back here.
    queue.reports[:] = [r for r in queue.reports if r.holder._node.op is not EVALUATED]
    ready.reverse()
    try:
        while ready:
            ready.pop().deliver()
    finally:
        queue.reports[:0] = reversed(ready)
