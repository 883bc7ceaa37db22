"""Reports of indexed access and calls out of bounds, under flag Debug.

An access or a call out of bounds is masked (`bounds`). The largest such index is noted
in a small array by an ordinary scatter, so it works inside regions too; the evaluation
that carries it out reads the note and warns with the user's line (`delivery`).
"""

from __future__ import annotations

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import AND, EQ, LT, NOT
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import delivery, evaluate
from lumijit.compiler.record import writes
from lumijit.runtime.dtypes import UINT32, DType, same_bits
from lumijit.runtime.errors import warn, where

_KINDS = {
    "gather": "out-of-bounds read from",
    "scatter": "out-of-bounds write to",
    "scatter_inc": "out-of-bounds write to",
    "Local.read": "out-of-bounds read from",
    "Local.write": "out-of-bounds write to",
    "scatter_add_kahan": "out-of-bounds write to",
}


class Finding(delivery.Report):
    """The largest of the numbers that kernels note, where zero is nothing to tell.

    `where` is the user's line.
    """

    def __init__(self, dtype: DType = UINT32) -> None:
        self.holder = Holder(trace.literal(dtype, 0))
        self.where = where()

    def note(self, number: Node, mask: Node, mode: str = "auto") -> None:
        """Have the next evaluation note a number where a mask is set, and tell it."""
        place = trace.literal(UINT32, 0)
        writes.write(self.holder, number, place, mask, "max", mode)
        delivery.register(self)

    def deliver(self) -> None:
        """Tell what was found, if anything."""
        found = int(evaluate.data(self.holder._node)[0])
        if found:
            self.tell(found)

    def tell(self, found: int) -> None:
        """Warn, or raise an error."""
        raise NotImplementedError


class Report(Finding):
    """Where an access is and, after evaluation, the worst index it used."""

    def __init__(
        self, construct: str, size: int, count: int = 1, dtype: DType = UINT32
    ) -> None:
        super().__init__(same_bits(dtype, "u"))
        self.construct = construct
        self.size = size
        self.count = count
        self.type = dtype

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

    def tell(self, found: int) -> None:
        """Warn of an access out of bounds."""
        warn(self.text(self.type.wrap(found) * self.count))


class ZeroStep(Finding):
    """Where a range has a step per element and, after evaluation, if one is zero."""

    def tell(self, _: int) -> None:
        """Warn of a step that was zero."""
        text = (
            f"{self.where}: range(): the step of an element is zero, so that it "
            "gets no items; plain Python raises a ValueError. Fix: give a step "
            "that isn't zero."
        )
        warn(text)


def nonzero_step(step: Node) -> None:
    """Have the next evaluation report steps that are zero."""
    is_zero = trace.emit2(EQ, step, trace.literal(step.type, 0))
    ZeroStep().note(trace.literal(UINT32, 1), trace.under_mask(is_zero))


def in_bounds(construct: str, size: int, index: Node, mask: Node) -> Node:
    """Return the mask without the entries whose UInt32 index is out of bounds."""
    inside = trace.emit2(LT, index, trace.literal(UINT32, size))
    note(construct, size, 1, index, mask, inside)
    return trace.emit2(AND, mask, inside)


def note(
    construct: str, size: int, count: int, index: Node, mask: Node, inside: Node
) -> None:
    """Have the next evaluation report an index that is masked in, but not inside."""
    if inside.op is LITERAL and inside.attr:
        return
    outside = trace.emit2(AND, mask, trace.emit1(NOT, inside))
    bits = trace.bitcast_to(index, same_bits(index.type, "u"))
    Report(construct, size, count, index.type).note(bits, outside)
