"""Finds what to compute before a write, so that its target need not be copied.

`x[k] = f(x[k])` reads the array that it writes to. What is read has to be as it was,
also for others who may still refer to it, so the kernel writes to a copy. If the write
concerns a small part of a large array, the copy costs most. Then what is written is
computed by a kernel before, and the copy takes the memory that it was to be made of
if nobody else refers to that any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import getrefcount

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL, SCATTER, WRITTEN

# Copying fewer bytes takes less than one more launch.
_LARGE = 1 << 19
_PROBE = (object(),)
_BASE_REFERENCES = getrefcount(_PROBE[0])


def ahead(wanted: Iterable[Node]) -> list[Node]:
    """Return operands of writes among `wanted` to be computed before them."""
    found = []
    for effect in _small_writes(wanted):
        (source,) = effect.deps[0].deps
        found += [dep for dep in effect.deps[1:] if _reads(dep, source)]
    return found


def superfluous_copies(wanted: Iterable[Node]) -> list[Node]:
    """Return copies of arrays that nobody else refers to, made for writes to them."""
    return [
        effect.deps[0]
        for effect in _small_writes(wanted)
        if getrefcount(effect.deps[0].deps[0]) == _BASE_REFERENCES
    ]


def _small_writes(wanted: Iterable[Node]) -> Iterator[Node]:
    """Iterate over writes to small parts of copies of large arrays in memory."""
    for node in wanted:
        if node.op is WRITTEN and node.deps[0].op is SCATTER:
            effect = node.deps[0]
            target = effect.deps[0]
            is_part = 2 * effect.size <= target.size
            is_large = target.size * target.type.size_bytes >= _LARGE
            is_copy = target.op is COPY and target.vertex is None
            if is_part and is_large and is_copy and _is_plain(target.deps[0]):
                yield effect


def _is_plain(node: Node) -> bool:
    """Tell whether a node is an array in memory, and nothing besides."""
    return node.op is EVALUATED and node.attr is None


def _reads(node: Node, source: Node) -> bool:
    """Tell whether a value will be computed from an array in memory."""
    stack, seen = [node], set()
    while stack:
        node = stack.pop()
        if id(node) not in seen and node.op is not EVALUATED and node.op is not LITERAL:
            seen.add(id(node))
            if any(dep is source for dep in node.deps):
                return True
            stack += node.deps
    return False
