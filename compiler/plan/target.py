"""Targets: how kernels are written for one kind of machine.

A `Program` says what is computed. `Target.plan` chooses how (the width of packets,
say), `Target.lower` writes the code. What differs between the kernels of two launches
of one structure (private copies of what is written to, stores past the caches) is
chosen before, as the key tells it: `program` asks the target in use whether it has
these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lumijit.runtime.errors import BackendError

if TYPE_CHECKING:
    from lumijit.compiler.emit.builder import TargetInfo
    from lumijit.compiler.plan.program import Program
    from lumijit.compiler.plan.signature import Wide


@dataclass(frozen=True)
class Code:
    """The text of a kernel and facts about it.

    `cost` is that of an element; `scratch_bytes` is memory that each thread needs, and
    `wide` are the slots that the kernel wants as packets, too.
    """

    ir: str
    width: int
    operations: int
    cost: int
    scratch_bytes: int
    wide: tuple[Wide, ...] = ()


class Target(ABC):
    """One way of writing kernels; its name is part of every key.

    `has_private_copies`: reductions can go to a copy per thread, merged afterwards.
    `has_streaming_stores`: large outputs can be written past the caches.
    """

    name: str
    has_private_copies: bool
    has_streaming_stores: bool

    @abstractmethod
    def plan(self, program: Program, info: TargetInfo) -> Any:
        """Choose how a program is lowered for a processor."""

    @abstractmethod
    def lower(self, program: Program, plan: Any, name: str) -> Code:
        """Write a program's kernel as a module of LLVM IR."""

    def code(self, program: Program, name: str, info: TargetInfo) -> Code:
        """Plan and lower a program for a processor."""
        return self.lower(program, self.plan(program, info), name)

    def lacks(self, feature: str) -> BackendError:
        """Word the error for a program that needs what the target doesn't have."""
        return BackendError(
            f"target '{self.name}'",
            f"the kernel needs {feature}, which this target has not",
            "use less of it, or another target (LUMIJIT_TARGET).",
        )


_in_use: Target


def in_use() -> Target:
    """Return the target for which kernels are written."""
    return _in_use


def use(target: Target) -> None:
    """Write kernels for a target from now on (see `launch.kernels.use`)."""
    global _in_use
    _in_use = target
