"""Reductions of short expressions, in kernels that compute these as they go.

Writing the entries to memory and reading them there would take longer than computing
them, also where they are needed once more.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    LITERAL,
)
from lumijit.compiler.launch import delivery, evaluate, kernels, named_kernels
from lumijit.compiler.lower.collectives.pieces import lanes
from lumijit.compiler.plan import target as targets
from lumijit.compiler.plan.describe import argument_values
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.signature import Signature, packer
from lumijit.runtime.buffers import Buffer

# Fewer entries stay in a cache; more arrays take as long to read twice as the entries
# to be written and read twice; and what operations cost together.
MIN_SIZE = 1 << 17
MAX_ARRAYS = 3
MAX_COST = 16
# Results of rows that a thread makes at a time.
ROW_BLOCK = 1 << 10


def is_folded(node: Node) -> bool:
    """Tell whether entries are combined where they are computed."""
    if node.size < MIN_SIZE or node.op is EVALUATED or node.scope is not ROOT:
        return False
    waiting = delivery.waiting()
    is_awaited = bool(waiting.scheduled or waiting.reports)
    return not is_awaited and targets.in_use().has_folds and _is_short(node)


def _is_short(node: Node) -> bool:
    """Tell whether few operations compute a node from few arrays in memory."""
    found, arrays, cost = [node], 0, 0
    known = {id(node)}
    for inner in found:
        op = inner.op
        if op is EVALUATED:
            arrays += inner.size > 1
        elif op.lower is not None or op in (CAST, BITCAST):
            cost += op.cost
        elif op is not LITERAL and op is not COUNTER:
            return False
        if arrays > MAX_ARRAYS or cost > MAX_COST:
            return False
        for dep in inner.deps:
            if id(dep) not in known:
                known.add(id(dep))
                found.append(dep)
    return True


def has_runs(node: Node, length: int) -> bool:
    """Tell whether runs are as long as the packets that they are combined by."""
    return length >= lanes(node.type)


def fold_runs(op: str, node: Node, target: Buffer, length: int) -> None:
    """Combine each run of entries of a node that `is_folded`; the last may be short."""
    runs = -(-node.size // length)
    step = max(1, targets.collectives().REDUCE_BLOCK // length)
    _fold(op, node, target, (length, node.size), runs, step, by_rows=False)


def fold_rows(
    op: str, node: Node, target: Buffer, count: int, row: int, period: int
) -> None:
    """Combine rows of entries of a node that `is_folded`, as `collectives.rows_ir`."""
    _fold(op, node, target, (row, period), count, ROW_BLOCK, by_rows=True)


def _fold(
    op: str,
    node: Node,
    target: Buffer,
    numbers: tuple[int, int],
    size: int,
    step: int,
    by_rows: bool,
) -> None:
    with evaluate.lock:
        program = Program(node.size, [node], [], 0)
        values = argument_values(program)
        info = kernels.target()
        how = "rows_" if by_rows else ""
        name = f"reduce_{how}{op}_of_{_name(info, program.key)}"

        def write(symbol: str) -> str:
            return targets.in_use().fold(program, info, op, by_rows, symbol)

        kernel = named_kernels.get(name, write)
        pack = packer(Signature.of(program).codes, (), 0)
        args = pack(*values, target.address, numbers[0]) + struct.pack("<q", numbers[1])
        named_kernels.launch(kernel, args, size, step, 0, (target,))


@lru_cache(256)
def _name(info: TargetInfo, key: Any) -> str:
    """Return what tells a program's kernel from others, for a processor."""
    return kernels.structural_hash(key)
