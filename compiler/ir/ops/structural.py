"""Operations with a meaning of their own: sources, memory access and regions.

They carry no lowering or reference of their own. The roles of their operands tell the
passes what these are; `interpret`, and each target, have a table of what they do.
"""

from __future__ import annotations

from typing import Any

from lumijit.compiler.ir.ops.record import (
    REGISTRY,
    NotDifferentiable,
    Op,
    Role,
    define,
)

# Sources
LITERAL = define("literal", 0, doc="A uniform constant; attr is its Python value.")
COUNTER = define("counter", 0, doc="The index of the element, 0 … size - 1.")
UNDEFINED = define("undefined", 0, doc="Contents nobody has written yet.")
EVALUATED = define("evaluated", 0, doc="An array in memory; `buffer` holds it.")
CONSUMED = define("consumed", 0, doc="What a write returned that was carried out.")
SYMBOLIC = define("symbolic", 0, doc="A region's argument; attr is its position.")

# Conversions (the result type is the node's own)
CAST = define("cast", 1, doc="Conversion of values; floats saturate to integers.")
BITCAST = define("bitcast", 1, doc="The same bits read as another type.")

_INDEXED = (Role.INDEX, Role.MASK)


def _access(name: str, *roles: Role, **facts: Any) -> Op:
    """Declare an access to memory by index."""
    return define(name, len(roles), roles=roles, **facts)


# Memory (attr of reads: a constant to add to the index)
GATHER = _access("gather", Role.SOURCE, *_INDEXED, cost=8, doc="An entry of an array.")
GATHER_AT = _access(
    "gather_at", Role.ADDRESS, *_INDEXED, cost=8, doc="An entry of an array (UInt64)."
)
SCATTER = _access(
    "scatter",
    Role.TARGET,
    Role.VALUE,
    *_INDEXED,
    cost=8,
    results=0,
    doc="A write; attr: Reduction.",
)
SCATTER_INC = _access(
    "scatter_inc", Role.TARGET, *_INDEXED, cost=16, doc="Counts; the old value."
)
SCATTER_ERROR = _access(
    "scatter_error",
    Role.TARGET,
    Role.VALUE,
    *_INDEXED,
    cost=16,
    doc="Adds; what rounding took from the sum.",
)
SCATTER_FETCH = _access(
    "scatter_fetch",
    Role.TARGET,
    Role.VALUE,
    *_INDEXED,
    cost=16,
    derivative=NotDifferentiable("what an element finds depends on the order of all"),
    doc="An update; the old value. attr: Reduction.",
)
SCATTER_CAS = _access(
    "scatter_cas",
    Role.TARGET,
    Role.VALUE,
    Role.VALUE,
    *_INDEXED,
    cost=16,
    doc="The first value, if the second is there; the old value.",
)
WRITTEN = define(
    "written",
    1,
    roles=(Role.EFFECT,),
    doc="A target after an effect; attr: which of a region's.",
)

# Matrices in arrays (attr: their `Matrix`, that of a write: a `Reduction` with one)
PRODUCT = define(
    "product",
    -1,
    roles=(Role.SOURCE, Role.VALUE),
    results=-1,
    doc="A matrix times a vector. deps: array, entries of the vector, first summands.",
)
OUTER = define(
    "outer",
    -1,
    roles=(Role.TARGET, Role.MASK, Role.VALUE),
    results=0,
    doc="Adds a column times a row to a matrix. deps: array, mask, column, row.",
)

# Textures (attr: four times the number of dimensions, and the channel)
TEXEL = define(
    "texel",
    4,
    roles=(Role.VALUE,) * 4,
    cost=8,
    derivative=NotDifferentiable("texture units look up what nobody tracks"),
    doc="A lookup by a texture unit. deps: handle (UInt64), x, y, z.",
)

# Local memory (the type is a `local.LocalType`, but for what is read; attr: serial)
LOCAL = define(
    "local",
    -1,
    cost=4,
    is_ordered=True,
    doc="A new buffer per lane; deps: value, or none.",
)
LOCAL_READ = _access(
    "local_read", Role.BUFFER, *_INDEXED, cost=8, is_ordered=True, doc="An entry."
)
LOCAL_WRITE = _access(
    "local_write",
    Role.BUFFER,
    Role.INDEX,
    Role.VALUE,
    Role.MASK,
    cost=8,
    is_ordered=True,
    doc="A buffer after a write.",
)


def _region(name: str, heads: str) -> Op:
    """Declare a kind of region; attr: Region. Its captures follow the `heads`."""
    doc = f"deps: {heads}, captured values, arrays read, arrays written."
    return define(name, -1, operands=None, results=-1, doc=doc)


# Regions
LOOP = _region("loop", "initial state")
BRANCH = _region("branch", "condition")
CALL = _region("call", "selector")
PROJECT = define(
    "project",
    1,
    roles=(Role.EFFECT,),
    doc="One result of a region or product; attr is its position.",
)

VALUE_WRITES = frozenset({SCATTER, SCATTER_ERROR, SCATTER_FETCH})
TRACKED_WRITES = VALUE_WRITES | {OUTER}
LEAVES = frozenset({LITERAL, COUNTER, UNDEFINED, EVALUATED, CONSUMED, SYMBOLIC})
REGIONS = frozenset({LOOP, BRANCH, CALL})
# What waits for memory: reads by index, and all that is done with local buffers.
READS = frozenset(
    op
    for op in REGISTRY.values()
    if op.is_ordered or not {Role.SOURCE, Role.ADDRESS}.isdisjoint(op.roles)
)
