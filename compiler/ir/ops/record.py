"""What an operation is: one frozen record each, in one registry.

A record says everything the rest of the system needs: accepted types, result
type, what it does with each operand, NumPy reference evaluation, the lowering through
`emit.builder` and the derivative. Operators, folding, the scalar namespace, the
reference evaluator, the passes and the op list in the docs derive from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from lumijit.compiler.emit.builder import Builder
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, VALUES, DType

Reference = Callable[..., Any]
Lower = Callable[..., str]
#: The derivative of a result by one operand, from the result and all operands: a
#: factor, which may be a Python number, or a mask of where the result is the operand
#: itself. What it gets has operators, and `map(op)` for others (`derive.values`). If
#: it is finite wherever operands and result are, it says so by `bounded()`.
Partial = Callable[..., Any]


class Role(Enum):
    """What an operand is to a node. Each but sources and targets is read as a value."""

    VALUE = "value"
    # Where an access takes place, and for which elements.
    INDEX = "index"
    MASK = "mask"
    # Of an array, which is read by index.
    ADDRESS = "address"
    # A version of a local buffer.
    BUFFER = "buffer"
    # An array that is read by index, or written to; both have to be in memory.
    SOURCE = "source"
    TARGET = "target"
    # What writes to an array, or a region: a node that depends on its having run.
    EFFECT = "effect"


class Operands:
    """Which operands of a node are of which role, as slices of `Node.deps`.

    There is one object for each combination, so that they compare by identity.
    `values` are all that aren't addressed, `reads` all that aren't written to.
    """

    __slots__ = ("reads", "sources", "targets", "values", "writes")

    def __init__(
        self, values: slice, sources: slice, targets: slice, reads: slice
    ) -> None:
        self.values = values
        self.sources = sources
        self.targets = targets
        self.reads = reads
        #: Whether a node writes to an array: it is an effect.
        self.writes = targets != _NONE


_NONE = slice(0, 0)
_ALL = slice(None)
VALUES_ONLY = Operands(_ALL, _NONE, _NONE, _ALL)
_SOURCE_FIRST = Operands(slice(1, None), slice(1), _NONE, _ALL)
_TARGET_FIRST = Operands(slice(1, None), _NONE, slice(1), slice(1, None))


@cache
def region_operands(values: int, sources: int, targets: int) -> Operands:
    """Return what the operands of a region are, which come in this order."""
    end = values + sources
    written = slice(end, None) if targets else _NONE
    return Operands(slice(values), slice(values, end), written, slice(end))


@dataclass(frozen=True)
class NotDifferentiable:
    """Why derivatives end at an operation: its results count as constants."""

    why: str


OF_INTEGERS = NotDifferentiable("integers and masks have no derivatives")
CONSTANT = NotDifferentiable("it is constant but for jumps")


@dataclass(frozen=True, eq=False)
class Op:
    """One operation of the trace.

    `lower(builder, operand_type, *operands)` writes the instruction(s) and
    returns the result; `reference(*arrays)` evaluates on NumPy arrays of the
    operand type. An operation whose nodes have an attr gets it as last argument in
    both, and in its derivatives. Structural operations (literals, memory, regions) have
    neither, but `roles`: what each operand is (`ir.roles` answers for a node). Where
    kernels on floats may round otherwise than the reference (`own_rounding`), literals
    are folded by a kernel, too.
    """

    name: str
    arity: int
    accepts: frozenset[DType] = frozenset(VALUES)
    result: DType | None = None
    reference: Reference | None = None
    lower: Lower | None = None
    commutative: bool = False
    own_rounding: bool = False
    doc: str = ""
    cost: int = 1
    roles: tuple[Role, ...] = ()
    #: Of its nodes; None for regions, each of which has its own.
    operands: Operands | None = VALUES_ONLY
    #: How many values a node has; -1 for regions, whose results are projections.
    results: int = 1
    #: Whether nodes are numbered (attr) in the order in which they have to happen.
    is_ordered: bool = False
    #: By each operand; None where `derive.rules` has a rule for the whole.
    derivative: tuple[Partial, ...] | NotDifferentiable | None = None
    index: int = field(default=-1)

    def __repr__(self) -> str:
        return self.name

    def result_type(self, operand: DType) -> DType:
        """Return the result type for operands of type `operand`."""
        return self.result or operand


REGISTRY: dict[str, Op] = {}


def define(name: str, arity: int, **facts: Any) -> Op:
    """Declare an operation and enter it into the registry."""
    if name in REGISTRY:
        raise ValueError(f"operation {name!r} is declared twice")
    if "accepts" in facts:
        facts["accepts"] = frozenset(facts["accepts"])
    roles = facts.get("roles", ())
    if Role.SOURCE in roles:
        facts["operands"] = _SOURCE_FIRST
    elif Role.TARGET in roles:
        facts["operands"] = _TARGET_FIRST
    op = Op(name, arity, index=len(REGISTRY), **facts)
    REGISTRY[name] = op
    return op


def widened(lower: Lower) -> Lower:
    """Let a float lowering serve Float16 through single precision.

    Sums, products, quotients and square roots of halves are rounded correctly
    this way, because single precision has more than twice the digits.
    """

    def through_single(b: Builder, t: DType, *args: str) -> str:
        if t is not FLOAT16:
            return lower(b, t, *args)
        wide = [b.cast(FLOAT16, a, FLOAT32) for a in args]
        return b.cast(FLOAT32, lower(b, FLOAT32, *wide), FLOAT16)

    return through_single
