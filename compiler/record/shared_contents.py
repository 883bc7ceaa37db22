"""Arrays that share their contents with others, one of which a region writes to.

Outside of regions, a write first gives its array a node of its own (`writes.claim`). In
a region nobody knows who else has a node, until the region is closed. Owns the errors
of that, and tracing once more what would do with a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import ROOT, Scope
from lumijit.runtime.errors import LumijitError, StateError, SymbolicError

Result = TypeVar("Result")


class SharedContentsError(LumijitError):
    """An array is written to whose contents are asked for otherwise, too."""

    def __init__(self, holder: Holder, construct: str, problem: str, fix: str) -> None:
        super().__init__(construct, problem, fix)
        self.holder = holder


class ReadError(SharedContentsError, SymbolicError):
    """A loop reads them."""


class SecondWriteError(SharedContentsError, StateError):
    """Another array has them that is written to."""


def with_copies(run: Callable[[], Result]) -> Result:
    """Return `run()`; give arrays contents of their own where that is what it takes.

    If one is read itself, a copy doesn't help: its node is asked for again.
    """
    copied = {}
    try:
        while True:
            try:
                return run()
            except SharedContentsError as found:
                holder = found.holder
                if trace.state.scope is not ROOT or id(holder) in copied:
                    raise
                copied[id(holder)] = holder, holder._node
                holder._rehouse(trace.copied(holder._node))
    except BaseException:
        for holder, node in copied.values():
            holder._go_back(node)
        raise


def check_single_version(scopes: Sequence[Scope]) -> None:
    """Refuse two array objects that share contents and are both written."""
    seen: dict[int, int] = {}
    for inner in scopes:
        for key, (holder, original) in inner.writes.items():
            if seen.setdefault(id(original), key) != key:
                raise SecondWriteError(
                    holder,
                    "scatter",
                    "two arrays that share their contents are both written "
                    "inside one symbolic region",
                    "make a copy of one with lumijit.copy or opaque first.",
                )
