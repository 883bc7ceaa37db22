"""Targets: how kernels are written for one kind of machine.

A `Program` says what is computed. `Target.plan` chooses how (the width of packets,
say), `Target.lower` writes the code. What differs between the kernels of two launches
of one structure (private copies of what is written to, stores past the caches) is
chosen before, as the key tells it: `program` asks the target in use whether it has
these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lumijit.runtime import device
from lumijit.runtime.device import away

if TYPE_CHECKING:
    from lumijit.compiler.emit.builder import TargetInfo
    from lumijit.compiler.ir.nodes import Node
    from lumijit.compiler.plan.program import Program
    from lumijit.compiler.plan.signature import Wide
    from lumijit.runtime.dtypes import DType


class Code(NamedTuple):
    """The text of a kernel and facts about it.

    `width` elements are computed at a time, by a packet or a thread. `cost` is that of
    an element; `scratch_bytes` is memory that each thread needs, and
    `wide` are the slots that the kernel wants as packets, too.
    """

    ir: str
    width: int
    operations: int
    cost: int
    scratch_bytes: int
    wide: tuple[Wide, ...] = ()


class Collectives(Protocol):
    """The kernels for what isn't elementwise: each function returns the IR of one.

    Their slots are those of `lower.collectives`. Constants are how many entries, lines
    of memory or blocks a launch is cut into.
    """

    #: Threads of a block; 0 where that is up to the machine.
    THREADS: int
    #: Entries that are combined to one at a time.
    REDUCE_BLOCK: int
    #: Entries that are sorted at a time, unless that makes too many blocks: so many.
    SORT_BLOCK: int
    SORT_BLOCKS: int
    #: Lines of 64 bytes that are copied or filled at a time: so many, or fewer.
    LINES: int
    FEW_LINES: int
    #: Entries of a piece of a run whose extreme is looked for.
    EXTREME_BLOCK: int

    def scan_block(self, t: DType, /) -> int:
        """Return how many entries of an array are scanned at a time."""

    def reduce_ir(self, name: str, op: str, t: DType, /) -> str:
        """Combine all entries."""

    def blocks_by(self, t: DType, block: int, /) -> tuple[str, Callable[..., str], int]:
        """Return a name for how runs are combined, what writes that, and its shape."""

    def rows_ir(self, name: str, op: str, t: DType, /) -> str:
        """Combine rows of entries."""

    @property
    def extreme_ir(self) -> Callable[[str, str, DType], str] | None:
        """Find extremes in pieces of runs; None if keys are combined instead."""

    @property
    def select_ir(self) -> Callable[[str, str, DType], str] | None:
        """Find entries of a rank; None if runs are sorted instead."""

    def scan_ir(
        self, name: str, op: str, t: DType, exclusive: bool, past: bool, /
    ) -> str:
        """Scan all entries."""

    def runs_by(self, block: int, /) -> tuple[str, Callable[..., str]]:
        """Return a name for how runs are scanned, and what writes that."""

    @property
    def columns_ir(self) -> Callable[[str, str, DType, bool, str], str] | None:
        """Scan columns of rows; None if these are put side by side first."""

    @property
    def columns_by(self) -> Callable[[DType, int], tuple[str, int]] | None:
        """Tell how `columns_ir` scans rows of a length; None where there is none."""

    def compress_ir(self, name: str, /) -> str:
        """List the set entries of a mask."""

    def count_ir(self, name: str, t: DType, /) -> str:
        """Count digits, for a sort."""

    @property
    def apart_ir(self) -> Callable[[str, DType, bool], str] | None:
        """Sort blocks by themselves; None if that is done digit by digit."""

    def move_ir(
        self, name: str, t: DType, has_keys: bool, indices: str, is_alone: bool, /
    ) -> str:
        """Put entries where counts of digits say."""

    def tile_shape(self, t: DType, /) -> tuple[int, int]:
        """Return how many rows and columns of a product are computed together."""

    def product_ir(self, name: str, t: DType, /) -> str:
        """Multiply matrices."""

    def copy_ir(self, name: str, /) -> str:
        """Copy lines of memory."""

    def fill_ir(self, name: str, /) -> str:
        """Fill lines of memory."""

    def collect_ir(self, name: str, element: str, bits: int, /) -> str:
        """Copy single values from many places."""


class Target(ABC):
    """One way of writing kernels; its name is part of every key.

    `has_private_copies`: reductions can go to a copy per thread, merged afterwards.
    `copy_bytes`: they can go to a copy per block of threads, so large, which the kernel
    merges itself.
    `has_streaming_stores`: large outputs can be written past the caches.
    `has_folds`: there are kernels that combine what they compute.
    """

    name: str
    has_folds = False
    copy_bytes = 0
    has_private_copies: bool
    has_streaming_stores: bool

    @property
    @abstractmethod
    def collectives(self) -> Collectives:
        """The kernels for what isn't elementwise."""

    @abstractmethod
    def plan(self, program: Program, info: TargetInfo) -> Any:
        """Choose how a program is lowered for a processor."""

    def copies(self, root: Node) -> tuple[int, int, int]:
        """Return what a kernel is told of copies that it makes itself of an array.

        That is what lies in the three slots behind the array's address (`signature`).
        """
        return 0, 0, root.size

    @abstractmethod
    def lower(self, program: Program, plan: Any, name: str) -> Code:
        """Write a program's kernel as a module of LLVM IR."""

    def fold(
        self, program: Program, info: TargetInfo, op: str, by_rows: bool, name: str
    ) -> str:
        """Write the kernel that combines what a program computes, by runs or rows."""
        raise NotImplementedError

    def code(self, program: Program, name: str, info: TargetInfo) -> Code:
        """Plan and lower a program for a processor."""
        return self.lower(program, self.plan(program, info), name)


_in_use: Target
# Returns a target by its name.
_named: Callable[[str], Target]


def in_use() -> Target:
    """Return the target for which kernels are written: that of the present device."""
    if away:
        name = device.present().target
        if name:
            return _named(name)
    return _in_use


def environment() -> str:
    """Return what kernels of a name are told by: their target, or their device."""
    return device.present().environment if away else _in_use.name


def collectives() -> Collectives:
    """Return the collective kernels of the target in use."""
    return in_use().collectives if away else _in_use.collectives


def use(target: Target) -> None:
    """Write kernels for a target from now on (see `launch.kernels.use`)."""
    global _in_use
    _in_use = target


def find_by(named: Callable[[str], Target]) -> None:
    """Say how the target of a device is found by its name."""
    global _named
    _named = named
