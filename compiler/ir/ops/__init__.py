"""The operations of the trace, one record each, grouped by family."""

from lumijit.compiler.ir.ops import arithmetic, logic, mathematics, structural
from lumijit.compiler.ir.ops.record import REGISTRY, Op

__all__ = ["REGISTRY", "Op", "arithmetic", "logic", "mathematics", "structural"]
