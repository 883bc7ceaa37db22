"""Cuts traces that are too long for one kernel into a sequence of kernels.

LLVM's time and memory grow with the kernel, so a trace of a million operations
must not become one. A cut stores what later kernels need; it is placed where that
is least. Chunks of a repetitive trace have the same structure, hence one kernel.

All that a group (`schedule`) reads by index lies in memory by then, and writes are
carried out in the order in which they depend on each other. So any group can be cut,
but not between a region and its results, nor while local memory is in use.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import partial

from lumijit.compiler.ir.local_types import LocalType
from lumijit.compiler.ir.nodes import Node, begin_walk, undisturbed
from lumijit.compiler.ir.ops.structural import LEAVES, PROJECT, REGIONS, WRITTEN
from lumijit.compiler.ir.region_types import operations
from lumijit.compiler.plan.schedule import Group

MAX_OPERATIONS = 4000
# An array that is stored counts as so many operations: its address, and in tables of
# values the place in the table, are kept in registers.
STORE_COST = 16
# What a node adds to the price of a cut if it can't be stored.
_FORBIDDEN = 1 << 40


def room(stores: int) -> int:
    """Return how many operations a kernel may have that stores so many arrays."""
    most, cost = MAX_OPERATIONS, STORE_COST
    return most - cost * stores


def _is_stored(node: Node) -> bool:
    """Tell whether a node has a value that a later kernel can read."""
    return node.op.results > 0 and node.op not in LEAVES and node.op is not WRITTEN


def in_order(roots: Iterable[Node]) -> list[Node]:
    """Return what roots need, operands first and results right behind their region.

    Nodes have their places as numbers, until somebody else walks.
    """
    walk = begin_walk()
    results: dict[int, list[Node]] = {}
    order: list[Node] = []
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node.walk != walk:
                count = len(stack)
                for dep in node.deps:
                    if dep.walk != walk:
                        if dep.deps:
                            stack.append(dep)
                        else:
                            dep.walk = walk
                            order.append(dep)
                if len(stack) > count:
                    continue
                node.walk = walk
                if node.op is PROJECT:
                    results.setdefault(id(node.deps[0]), []).append(node)
                else:
                    order.append(node)
            stack.pop()
    if results:
        order = [n for k in order for n in (k, *results.get(id(k), ()))]
    for place, node in enumerate(order):
        node.number = place
    return order


def _numbers(count: int) -> array[int]:
    """Make room for so many numbers, as C has them."""
    return array("q", bytes(8 * count))


def _last_uses(order: list[Node], outputs: list[Node]) -> array[int]:
    """Return for each place in an order where its node is used last, or its own."""
    last = _numbers(len(order))
    found = last
    for place, node in enumerate(order):
        found[place] = place
        for dep in node.deps:
            found[dep.number] = place
    for node in outputs:
        found[node.number] = len(order)
    return last


def _cuts(order: list[Node], last: array[int]) -> list[int]:
    """Return the places at which to cut an ordered trace, the end included."""
    price, reached = _prices(order, last)
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


def _cheapest(price: array[int], reached: array[int], start: int) -> int:
    """Return where the piece that begins at a position ends best; 0: nowhere.

    It is half as long as it may be, or longer, unless a long region follows.
    """
    best, first, end = 0, start + 1, len(reached) - 1
    early = reached[start] + MAX_OPERATIONS // 2
    late = reached[start] + MAX_OPERATIONS
    while first <= end and reached[first] < early:
        first += 1
    if first <= end and first > start + 1 and reached[first] > late:
        first -= 1
    for k in range(first, end):
        if reached[k] > late and best:
            break
        if price[k] < _FORBIDDEN and (not best or price[k] <= price[best]):
            best = k
    return best


def _price(node: Node) -> int:
    """Return what a cut costs for a node that no formula of entries computes."""
    if node.op in REGIONS or isinstance(node.type, LocalType):
        return _FORBIDDEN
    return 1 if _is_stored(node) else 0


def _prices(order: list[Node], uses: array[int]) -> tuple[array[int], array[int]]:
    """Return what is needed of earlier nodes at each place, and operations before it.

    Of the latter, what is stored in the end counts more.
    """
    end = len(order)
    found = _numbers(end + 2), _numbers(end + 1)
    prices, reached = found
    last = uses
    total = 0
    for place, node in enumerate(order):
        cost, price = 1, 1
        if node.op.lower is None:
            price = _price(node)
            if node.op in REGIONS:
                cost = operations(node)
        use = last[place]
        total += cost
        if use == end:
            total += STORE_COST
        reached[place + 1] = total
        if price:
            prices[place + 1] += price
            prices[use + 1] -= price
    total = 0
    for place in range(end + 1):
        total += prices[place]
        prices[place] = total
    return found


def _needed(body: list[Node], last: array[int], start: int, end: int) -> list[Node]:
    """Return which nodes of a piece, from one place to another, others need."""
    whole = len(last)
    found = []
    for k, node in enumerate(body):
        use = last[start + k]
        if use == whole or (use >= end and _is_stored(node)):
            found.append(node)
    return found


def _ordered(group: Group) -> tuple[list[Node], array[int]]:
    """Return what a group needs, in order, and where it is used last."""
    order = in_order((*group.outputs, *group.effects))
    return order, _last_uses(order, group.outputs)


def pieces(group: Group) -> Iterator[Group]:
    """Yield what to run before a group, which keeps what is left of it.

    A piece has been run by the time the next one is asked for. Nothing here keeps
    nodes that are done with alive.
    """
    order, last = undisturbed(partial(_ordered, group))
    effects = {id(n) for n in group.effects}
    ends = _cuts(order, last)
    order.reverse()
    start = 0
    for end in ends[:-1]:
        body = [order.pop() for _ in range(end - start)]
        needed = _needed(body, last, start, end)
        start = end
        for size in sorted({n.size for n in needed} - {group.size}):
            smaller = Group(group.phase, size)
            smaller.outputs = [n for n in needed if n.size == size]
            yield smaller
            del smaller
        piece = Group(group.phase, group.size)
        piece.outputs = [n for n in needed if n.size == group.size]
        if effects:
            piece.effects = [n for n in body if id(n) in effects]
        done = {id(n) for n in (*piece.outputs, *piece.effects)}
        group.outputs = [n for n in group.outputs if id(n) not in done]
        group.effects = [n for n in group.effects if id(n) not in done]
        del body, needed
        if done:
            yield piece
        del piece
