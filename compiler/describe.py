"""What a launch is recognized by: one walk gives its key and its arguments.

A program that neither writes nor needs anything to be put into memory first is one
kernel as it stands, without a plan. If the kernel is known by the key, no `Program`
is made, either.
"""

from __future__ import annotations

from typing import Any

from lumijit.compiler.blocks import attr_key, weight
from lumijit.compiler.local import is_local
from lumijit.compiler.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    GATHER,
    LITERAL,
    PROJECT,
    REGIONS,
    UNDEFINED,
)
from lumijit.compiler.program import is_baked, is_streaming, leaked_symbol
from lumijit.compiler.trace import ROOT, Node
from lumijit.runtime.dtypes import BOOL

# What a leaf is, to which the index of its type is added (below 16).
_NUMBER = 0
_UNDEFINED = 16
_BAKED = 32
_MEMORY = 64
_COUNTER = 255
_CONVERSIONS = (CAST, BITCAST)

# A key, the arguments in order, and how many operations there are.
Description = tuple[tuple[Any, ...], list[Node], int]


def describe(outputs: list[Node]) -> Description | None:
    """Return what tells the kernel that computes nodes from all others.

    Nodes are told in the order in which they are first reached, later uses by their
    number (below 0). How many operands follow, and which of them are indexed, is
    settled by what is told of a node. Equal keys mean equal programs (`Program.key`).

    Args:
        outputs: different nodes that have not been computed.

    Returns:
        None if they are no single kernel as they stand: if something is written or
        local memory used, if an indexed array must be computed before, or if sizes
        differ.

    Raises:
        SymbolicError: a node belongs to a region.
    """
    size = outputs[0].size
    key: list[Any] = []
    arguments: list[Node] = []
    numbers: dict[int, int] = {}
    inside = 0
    root_scope = ROOT
    for output in outputs:
        if output.size != size or output.op is UNDEFINED or output.op is EVALUATED:
            return None
        reached = [output]
        for node in reached:
            if id(node) in numbers:
                key.append(numbers[id(node)])
                continue
            numbers[id(node)] = ~len(numbers)
            op = node.op
            if op is EVALUATED:
                kind = _MEMORY + 2 * node.type.index
                if kind >= _COUNTER:
                    return None
                key.append(kind + (node.size == 1))
                arguments.append(node)
            elif op is LITERAL:
                dtype = node.type
                if (node.attr == 0 or dtype is BOOL) and is_baked(node):
                    key.append(_BAKED + 2 * dtype.index + bool(node.attr))
                else:
                    key.append(_NUMBER + dtype.index)
                    arguments.append(node)
            elif node.scope is not root_scope:
                raise leaked_symbol(node)
            elif op is COUNTER:
                key.append(_COUNTER)
            elif op is UNDEFINED:
                key.append(_UNDEFINED + node.type.index)
            elif op.lower is not None or op in _CONVERSIONS or _is_ready(node):
                kind = (op.index + 1) << 8 | node.type.index
                attr = node.attr
                if attr is None:
                    key.append(kind)
                elif op in REGIONS:
                    inside += weight(node)
                    key.append((kind, attr.key, attr.pointers, len(node.deps)))
                else:
                    key.append((kind, attr_key(node)))
                reached += node.deps
            else:
                return None
    key.append((size == 1, is_streaming(outputs, size)))
    operations = len(numbers) - len(arguments) + inside
    return tuple(key), arguments, operations


def _is_ready(node: Node) -> bool:
    """Tell whether an indexed read, or a region, can be computed at once."""
    op = node.op
    if op is GATHER:
        return node.deps[0].op is EVALUATED
    if op is PROJECT:
        return not is_local(node)
    if op not in REGIONS:
        return False
    region = node.attr
    if region.is_consumed or len(node.deps) > region.targets:
        return False
    return all(dep.op is EVALUATED for dep in node.deps[region.pointers :])
