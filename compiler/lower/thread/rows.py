"""Reads of neighbouring entries, which a thread makes with one load where it can.

Gathers that differ by a constant offset only (the components of a vector, the channels
of a texel) are one load of two or four entries, if the address allows it: GPUs want it
to be a multiple of the load's size, which is not known of an index. So it is tested.
Mostly it is the same for all threads, as rows are as long as what is read of them;
that is why only two, four, eight or sixteen entries count.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import GATHER
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.plan.program import Program
from lumijit.runtime.dtypes import DType

# What a thread reads at once: so many bytes, and entries, at most.
_BYTES, _ENTRIES = 16, 4
_SIZES = (2, 4, 8)
_LENGTHS = (2, 4, 8, 16)


def find_rows(program: Program, demand: Demand) -> dict[Node, list[Node]]:
    """Return, for gathers, those that are read at once, in the order of entries."""
    families: dict[tuple[int, ...], dict[int, Node]] = {}
    for node in program.all_nodes():
        is_wanted = node.op is GATHER and node in demand.wanted
        if is_wanted and node.type.size_bytes in _SIZES:
            key = (id(node.scope), *map(id, node.deps))
            families.setdefault(key, {})[int(node.attr or 0)] = node
    rows: dict[Node, list[Node]] = {}
    for family in families.values():
        offsets = sorted(family)
        count, first = len(offsets), offsets[0]
        if count in _LENGTHS and offsets[-1] == first + count - 1:
            nodes = [family[offset] for offset in offsets]
            step = min(count, _ENTRIES, _BYTES // nodes[0].type.size_bytes)
            for k in range(0, count, step):
                rows |= dict.fromkeys(nodes[k : k + step], nodes[k : k + step])
    return rows


def read_row(b: Builder, t: DType, address: str, count: int) -> list[str]:
    """Read neighbouring entries, at once if the address is a multiple of their size."""
    element, size = t.memory_llvm, count * t.size_bytes
    number = b.emit(f"ptrtoint ptr {address} to i64")
    rest = b.emit(f"and i64 {number}, {size - 1}")
    together, apart, done = (b.label(n) for n in ("together", "apart", "read"))
    b.branch_if(b.emit(f"icmp eq i64 {rest}, 0"), together, apart)
    b.block(together)
    row = b.load(f"<{count} x {element}>", address, size)
    parts = [
        b.emit(f"extractelement <{count} x {element}> {row}, i32 {k}")
        for k in range(count)
    ]
    b.branch(done)
    b.block(apart)
    others = [b.load_at(element, address, k) for k in range(count)]
    b.branch(done)
    b.block(done)
    pairs = zip(parts, others, strict=True)
    return [b.phi(element, (x, together), (y, apart)) for x, y in pairs]
