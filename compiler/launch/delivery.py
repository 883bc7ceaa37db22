"""Reports on what a kernel noted: carried out, then delivered to the user.

A bounds check or a symbolic print writes its findings to arrays of its own by
ordinary scatters, so that it works inside regions. The evaluation that executes
them reads the findings and delivers the report. Owns what waits for an evaluation in
each thread; what a report says is decided by its class.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from weakref import ref

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED, WRITTEN
from lumijit.runtime import contexts, recorders


class Report:
    """Something to tell the user once the array of `holder` has been written."""

    holder: Holder
    attempt: contexts.Attempt | None = None

    @property
    def holders(self) -> list[Holder]:
        """All that is written: the array, and others that it tells of."""
        return [self.holder]

    def deliver(self) -> None:
        """Tell it; all arrays of the report are in memory."""
        raise NotImplementedError


class Waiting:
    """What waits for the next evaluation in a thread."""

    __slots__ = ("collected", "reports", "scheduled")

    def __init__(self) -> None:
        # Nodes that have been scheduled, by their ids.
        self.scheduled: dict[int, ref[Node]] = {}
        # Reports, in the order in which they were made.
        self.reports: list[Report] = []
        # What was delivered since somebody asked to know of it.
        self.collected: list[Report] | None = None


class _Queue(threading.local):
    def __init__(self) -> None:
        self.state = Waiting()


#: Returns what waits in this thread. (In compiled modules, C that remembers it.)
waiting: Callable[[], Waiting] = partial(attrgetter("state"), _Queue())


def register(report: Report) -> None:
    """Queue a report, unless nothing can be written to its array."""
    reports = waiting().reports
    if report.holder._node.op is WRITTEN and report not in reports:
        report.attempt = contexts.running_attempt()
        reports.append(report)


def nodes() -> list[Node]:
    """Return what the next evaluation has to carry out for the reports."""
    # A region that was traced again or given up has withdrawn its writes.
    states = (WRITTEN, EVALUATED)
    reports = waiting().reports
    reports[:] = [r for r in reports if r.holder._node.op in states]
    found = (r.holder._node for r in reports)
    return [n for n in found if n.op is WRITTEN and not trace.is_symbolic(n)]


@contextlib.contextmanager
def collecting(found: list[Report]) -> Iterator[None]:
    """Add the reports that are delivered meanwhile to a list, too."""
    state = waiting()
    outer = state.collected
    state.collected = found
    try:
        yield
    finally:
        state.collected = outer


def deliver() -> None:
    """Deliver the reports whose findings are in memory.

    If one raises (a warning made an error, say), the next evaluation tells the rest.
    """
    state = waiting()
    reports = state.reports
    ready = [r for r in reports if r.holder._node.op is EVALUATED]
    # Off the queue first: delivering may evaluate something, and come back here.
    reports[:] = [r for r in reports if r.holder._node.op is not EVALUATED]
    if state.collected is not None:
        state.collected += ready
    ready.reverse()
    with recorders.hearing(None) if recorders.listening else contextlib.nullcontext():
        _deliver(ready)


def _deliver(ready: list[Report]) -> None:
    """Deliver reports, the last one first."""
    try:
        while ready:
            report = ready.pop()
            contexts.when_kept(report.attempt, report.deliver)
    finally:
        waiting().reports[:0] = reversed(ready)
