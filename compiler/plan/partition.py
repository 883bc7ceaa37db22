"""Cuts traces that are too long for one kernel into a sequence of kernels.

LLVM's time and memory grow with the kernel, so a trace of a million operations
must not become one. A cut stores what later kernels need; it is placed where that
is least. Chunks of a repetitive trace have the same structure, hence one kernel.

All that a group (`schedule`) reads by index lies in memory by then, and writes are
carried out in the order in which they depend on each other. So any group can be cut,
but not between a region and its results, nor while local memory is in use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from lumijit.compiler.ir.local_types import LocalType
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LEAVES, PROJECT, REGIONS, WRITTEN
from lumijit.compiler.ir.region_types import weight
from lumijit.compiler.plan.schedule import Group

MAX_OPERATIONS = 3000
# An array that is stored counts as so many operations: its address, and in tables of
# values the place in the table, are kept in registers.
STORE_COST = 16
# What a node adds to the price of a cut if it can't be stored.
_FORBIDDEN = 1 << 40


def room(stores: int) -> int:
    """Return how many operations a kernel may have that stores so many arrays."""
    return MAX_OPERATIONS - STORE_COST * stores


def _is_stored(node: Node) -> bool:
    """Tell whether a node has a value that a later kernel can read."""
    return node.op.results > 0 and node.op not in LEAVES and node.op is not WRITTEN


def in_order(roots: Iterable[Node]) -> list[Node]:
    """Return what roots need, operands first and results right behind their region."""
    results: dict[int, list[Node]] = {}
    order: list[Node] = []
    done: set[int] = set()
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) not in done:
                count = len(stack)
                for dep in node.deps:
                    if id(dep) not in done:
                        if dep.deps:
                            stack.append(dep)
                        else:
                            done.add(id(dep))
                            order.append(dep)
                if len(stack) > count:
                    continue
                done.add(id(node))
                if node.op is PROJECT:
                    results.setdefault(id(node.deps[0]), []).append(node)
                else:
                    order.append(node)
            stack.pop()
    if results:
        order = [n for k in order for n in (k, *results.get(id(k), ()))]
    return order


def _cuts(order: list[Node], last_use: dict[int, int], wanted: set[int]) -> list[int]:
    """Return the positions at which to cut an ordered trace, the end included."""
    price = _prices(order, last_use)
    weights = [
        (weight(n) if n.op in REGIONS else 1) + STORE_COST * (id(n) in wanted)
        for n in order
    ]
    reached = [0, *accumulate(weights)]
    found: list[int] = []
    start = 0
    while reached[-1] - reached[start] > MAX_OPERATIONS:
        best = _cheapest(price, reached, start)
        if not best:
            break
        found.append(best)
        start = best
    found.append(len(order))
    return found


def _cheapest(price: list[int], reached: list[int], start: int) -> int:
    """Return where the piece that begins at a position ends best; 0: nowhere.

    It is half as long as it may be, or longer, unless a long region follows.
    """
    best = 0
    early = reached[start] + MAX_OPERATIONS // 2
    late = reached[start] + MAX_OPERATIONS
    first = max(bisect_left(reached, early), start + 1)
    end = len(reached) - 1
    if first <= end and first > start + 1 and reached[first] > late:
        first -= 1
    for k in range(first, end):
        if reached[k] > late and best:
            break
        if price[k] < _FORBIDDEN and (not best or price[k] <= price[best]):
            best = k
    return best


def _prices(order: list[Node], last_use: dict[int, int]) -> list[int]:
    """Return for each position how many earlier nodes are needed from there on."""
    change = [0] * (len(order) + 2)
    for k, node in enumerate(order):
        is_region = node.op in REGIONS
        if not is_region and not _is_stored(node):
            continue
        end = last_use.get(id(node), k)
        is_kept = is_region or isinstance(node.type, LocalType)
        price = _FORBIDDEN if is_kept else 1
        change[k + 1] += price
        change[end + 1] -= price
    prices = []
    total = 0
    for step in change[:-1]:
        total += step
        prices.append(total)
    return prices


def pieces(group: Group) -> Iterator[Group]:
    """Yield what to run before a group, which keeps what is left of it.

    A piece has been run by the time the next one is asked for. Nothing here keeps
    nodes that are done with alive.
    """
    order = in_order((*group.outputs, *group.effects))
    wanted = {id(n) for n in group.outputs}
    effects = {id(n) for n in group.effects}
    last_use = {id(d): k for k, n in enumerate(order) for d in n.deps}
    last_use.update(dict.fromkeys(wanted, len(order)))
    ends = _cuts(order, last_use, wanted)
    order.reverse()
    start = 0
    for end in ends[:-1]:
        body = [order.pop() for _ in range(end - start)]
        start = end
        needed = [
            n
            for n in body
            if last_use.get(id(n), 0) >= end and (_is_stored(n) or id(n) in wanted)
        ]
        for size in sorted({n.size for n in needed} - {group.size}):
            smaller = Group(group.phase, size)
            smaller.outputs = [n for n in needed if n.size == size]
            yield smaller
            del smaller
        piece = Group(group.phase, group.size)
        piece.outputs = [n for n in needed if n.size == group.size]
        piece.effects = [n for n in body if id(n) in effects]
        done = {id(n) for n in (*piece.outputs, *piece.effects)}
        group.outputs = [n for n in group.outputs if id(n) not in done]
        group.effects = [n for n in group.effects if id(n) not in done]
        del body, needed
        if done:
            yield piece
        del piece
