"""Operations with a meaning of their own: sources, memory access and regions.

They carry no lowering or reference of their own; `schedule`, `lower.packet.kernel` and
`interpret` know each by identity.
"""

from __future__ import annotations

from lumijit.compiler.ir.ops.record import define

# Sources
LITERAL = define("literal", 0, doc="A uniform constant; attr is its Python value.")
COUNTER = define("counter", 0, doc="The index of the element, 0 … size - 1.")
UNDEFINED = define("undefined", 0, doc="Contents nobody has written yet.")
EVALUATED = define("evaluated", 0, doc="An array in memory; `buffer` holds it.")
SYMBOLIC = define("symbolic", 0, doc="A region's argument; attr is its position.")

# Conversions (the result type is the node's own)
CAST = define("cast", 1, doc="Conversion of values; floats saturate to integers.")
BITCAST = define("bitcast", 1, doc="The same bits read as another type.")

# Memory
GATHER = define("gather", 3, cost=8, doc="deps: source, index, mask.")
GATHER_AT = define(
    "gather_at", 3, cost=8, doc="deps: address (UInt64) of an array, index, mask."
)
SCATTER = define(
    "scatter", 4, cost=8, doc="deps: target, value, index, mask; attr: Reduction."
)
SCATTER_INC = define(
    "scatter_inc", 3, cost=16, doc="deps: target, index, mask; the old value."
)
SCATTER_ERROR = define(
    "scatter_error",
    4,
    cost=16,
    doc="deps: target, value, index, mask; what rounding took from the sum.",
)
WRITTEN = define(
    "written", 1, doc="A target after an effect; deps: effect (or region)."
)

# Local memory (the type is a `local.LocalType`, but for what is read; attr: serial)
LOCAL = define("local", -1, cost=4, doc="A new buffer per lane; deps: value, or none.")
LOCAL_READ = define("local_read", 3, cost=8, doc="deps: buffer, index, mask.")
LOCAL_WRITE = define(
    "local_write",
    4,
    cost=8,
    doc="A buffer after a write; deps: buffer, index, value, mask.",
)

# Regions
LOOP = define("loop", -1, doc="attr: blocks.Loop; deps: initial state, captures.")
BRANCH = define("branch", -1, doc="attr: blocks.Branch; deps: condition, captures.")
CALL = define("call", -1, doc="attr: blocks.Call; deps: index, mask, arguments.")
PROJECT = define("project", 1, doc="One result of a region; attr is its position.")

SOURCES = frozenset({LITERAL, COUNTER, UNDEFINED, EVALUATED, SYMBOLIC})
REGIONS = frozenset({LOOP, BRANCH, CALL})
READS = frozenset({GATHER, GATHER_AT})
# Effects with a result, which only the kernel that carries them out can have.
RETURNING = frozenset({SCATTER_INC, SCATTER_ERROR})
EFFECTS = RETURNING | {SCATTER}
LOCALS = frozenset({LOCAL, LOCAL_READ, LOCAL_WRITE})
