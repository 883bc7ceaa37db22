"""Cuts traces that are too long for one kernel into a sequence of kernels.

LLVM's time and memory grow with the kernel, so a trace of a million operations
must not become one. A cut stores what later kernels need; it is placed where that
is least. Chunks of a repetitive trace have the same structure, hence one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from lumijit.compiler.ops.structural import SOURCES
from lumijit.compiler.trace import Node

MAX_OPERATIONS = 3000


def cuts(order: list[Node], wanted: set[int]) -> list[int]:
    """Return the positions at which to cut an ordered trace, the end included."""
    frontier = _frontier_sizes(order, wanted)
    found = []
    start = 0
    while len(order) - start > MAX_OPERATIONS:
        window = range(start + MAX_OPERATIONS // 2, start + MAX_OPERATIONS + 1)
        start = min(window, key=lambda k: (frontier[k], -k))
        found.append(start)
    found.append(len(order))
    return found


def _frontier_sizes(order: list[Node], wanted: set[int]) -> list[int]:
    """Return for each position how many earlier nodes are needed from there on."""
    position = {id(n): k for k, n in enumerate(order)}
    last_use = list(range(len(order)))
    for k, node in enumerate(order):
        for dep in node.deps:
            last_use[position[id(dep)]] = k
    change = [0] * (len(order) + 2)
    for k, node in enumerate(order):
        if node.op in SOURCES:
            continue
        end = len(order) if id(node) in wanted else last_use[k]
        change[k + 1] += 1
        change[end + 1] -= 1
    sizes = []
    total = 0
    for step in change[:-1]:
        total += step
        sizes.append(total)
    return sizes


def chunks(
    order: list[Node], wanted: list[Node]
) -> Iterator[tuple[list[Node], list[Node]]]:
    """Yield (nodes, outputs) of each kernel; the caller evaluates as it goes.

    Outputs are evaluated nodes by the time the next chunk is asked for. `order` is
    emptied meanwhile, so that what is done with can go.
    """
    wanted_ids = {id(n) for n in wanted}
    ends = cuts(order, wanted_ids)
    last_use = {id(d): k for k, n in enumerate(order) for d in n.deps}
    order.reverse()
    start = 0
    for end in ends:
        body = [order.pop() for _ in range(end - start)]
        start = end
        inside = {id(n) for n in body}
        outputs = [
            n
            for n in body
            if id(n) in wanted_ids
            or (last_use.get(id(n), 0) >= end and n.op not in SOURCES)
        ]
        before: dict[int, Node] = {}
        for node in body:
            for dep in node.deps:
                if id(dep) not in inside:
                    before[id(dep)] = dep
        del node
        yield [*before.values(), *body], outputs
