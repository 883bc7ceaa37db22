"""What a benchmark case is, and how one is declared.

A case is a function of a number of entries that makes its inputs and returns the
program: a function without arguments, whose result is evaluated (or None, where only
tracing is measured). Cases stand in `programs/`, by theme, written as users write
them, with `import lumijit as dr`; `measure` puts another library in its place.

Half of the cases, by a hash of their names, are for tuning and half for judging, so
that nobody picks those that suit a change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lumijit as dr

Program = Callable[[], Any]
Setup = Callable[[int], Program]

#: Waits for memory, not for the processor.
MEMORY = "memory"
#: Launches kernels of fewer than 10,000 entries, or none: Python is what it measures.
LAUNCH = "launch"
#: What it shows is the memory that it takes.
PEAK = "peak"

#: How much slower than the peer a case may be, by tag.
LIMITS = {MEMORY: 1.1, LAUNCH: float("inf")}


@dataclass(frozen=True)
class Case:
    """One measured program.

    `size` is what `setup` gets for run times, `tiny` for first calls and Python's
    share. `strays` is the share of entries that may differ between libraries by more
    than `rtol`, as roundings do where they decide when a loop ends.
    """

    name: str
    group: str
    setup: Setup
    size: int
    tiny: int
    tags: frozenset[str]
    rtol: float
    strays: float

    @property
    def half(self) -> str:
        """Whether the case is for tuning or for judging."""
        digest = hashlib.sha256(self.name.encode()).digest()
        return ("tune", "judge")[digest[0] & 1]

    @property
    def limit(self) -> float:
        """The largest ratio to the peer's run time that is good enough."""
        return max((LIMITS.get(tag, 1.0) for tag in self.tags), default=1.0)

    @property
    def what(self) -> str:
        """What the case does, in a line."""
        return (self.setup.__doc__ or "").splitlines()[0]


CASES: dict[str, Case] = {}


def case(
    group: str,
    size: int,
    *tags: str,
    tiny: int = 64,
    rtol: float = 1e-4,
    strays: float = 0.0,
) -> Callable[[Setup], Setup]:
    """Declare a case under its function's name."""

    def declare(setup: Setup) -> Setup:
        name = setup.__name__
        assert name not in CASES, name
        few = min(tiny, size)
        CASES[name] = Case(name, group, setup, size, few, frozenset(tags), rtol, strays)
        return setup

    return declare


def ready(*inputs: Any) -> Any:
    """Evaluate inputs and wait for them; return them."""
    dr.eval(inputs)
    dr.sync_thread()
    return inputs if len(inputs) > 1 else inputs[0]
