"""What an operation is: one frozen record each, in one registry.

A record says everything the rest of the system needs: accepted types, result
type, NumPy reference evaluation, algebraic simplifications and the lowering
through `emit.builder`. Operators, folding, the scalar namespace, the reference
evaluator and the op list in the docs derive from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lumijit.compiler.emit.builder import Builder
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, VALUES, DType

Reference = Callable[..., Any]
Lower = Callable[..., str]


@dataclass(frozen=True, eq=False)
class Op:
    """One operation of the trace.

    `lower(builder, operand_type, *operands)` writes the instruction(s) and
    returns the result; `reference(*arrays)` evaluates on NumPy arrays of the
    operand type. An operation whose nodes have an attr gets it as last argument in
    both. Structural operations (literals, memory, regions) have neither:
    the passes know them by identity. Where kernels on floats may round otherwise than
    the reference (`own_rounding`), literals are folded by a kernel, too.
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
