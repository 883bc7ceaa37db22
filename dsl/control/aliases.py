"""The caller's arrays in symbolic loops: which are changed, and by how many names.

The body changes an array in place, as `x += 1` does, and may then give the name `x`
another one, as `x = x * 2` does. In the first iteration that changes the caller's
array, later the one that the name got in the iteration before. Names for one array
that get different ones would see each other's changes in the first iteration only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lumijit.compiler.ir import captures, trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import LITERAL, SYMBOLIC
from lumijit.compiler.record import regions
from lumijit.control.held_arrays import same_items
from lumijit.control.state import is_array
from lumijit.nested import NestedArray
from lumijit.pytree import Parts
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import StateError


class Carried:
    """A value that a loop carries; the final one goes to `holder`, if there is one."""

    __slots__ = ("argument", "holder", "initial", "output")

    def __init__(
        self, holder: Any, initial: Node, argument: Node, output: Node
    ) -> None:
        self.holder = holder
        self.initial = initial
        self.argument = argument
        self.output = output


def besides(
    loop: Any,
    own: Parts,
    given: Parts,
    after: Parts,
    args: dict[int, Node],
    read: Callable[[], set[int]],
    is_seen: Callable[[], bool],
) -> list[Carried]:
    """Carry what the body changes of the caller's besides the final state.

    Args:
        loop: the loop: its name, its width, and which leaves were numbers at first.
        own: the caller's arrays.
        given: those that the body got in their place.
        after: what the state consists of when the body ends.
        args: the arguments, by leaf.
        read: tells the ids of arguments that the body reads.
        is_seen: tells whether it matters that names are one array at first.
    """
    leaves = given.leaves
    changed = [k for k, arg in args.items() if leaves[k]._node is not arg]
    if changed:
        if _may_part(own, after, args):
            _check_parting(loop.name, own, given, after, args, changed, read, is_seen)
        changed = [k for k in changed if k not in loop.numbers]
    elif not given.nested:
        return []
    _check_nested(loop.name, own, given, args, read)
    found = _changed_first(own, given, after, changed)
    return _carried(found, loop.width, len(args))


def _changed_first(
    own: Parts, given: Parts, after: Parts, changed: Iterable[int]
) -> list[tuple[Any, Node]]:
    """List arrays that only the first iteration changes, with what they hold then."""
    found: list[tuple[Any, Node]] = []
    for k in changed:
        array = given.leaves[k]
        if after.leaves[k] is not array:
            found.append((own.leaves[k], array._node))
    known: set[int] = set()
    for k, array in enumerate(given.nested):
        holder = own.nested[k]
        is_known = id(holder) in known or after.nested[k] is array
        known.add(id(holder))
        if not is_known and not same_items(array._items, given.items[k]):
            found += _changed_items(holder, given.items[k], array._items)
    return found


def _changed_items(
    holder: Any, given: Sequence[Any], after: Sequence[Any]
) -> Iterator[tuple[Any, Node]]:
    """Give a nested array items of its own where the first iteration replaces them."""
    own, old, new = (Parts((v,)) for v in ([*holder._items], given, after))
    items = []
    for item, before, value in zip(own.leaves, old.leaves, new.leaves, strict=True):
        if value is not before:
            item = wrap(type(item), item._node)
            yield item, value._node
        items.append(item)
    holder._items[:] = own.together(items, old.same_nested(new))[0]


def _carried(
    changed: Sequence[tuple[Any, Node]], width: int, count: int
) -> list[Carried]:
    """Carry what the first iteration does to arrays; `count` arguments are there."""
    if not changed:
        return []
    no, yes = (trace.literal(BOOL, value) for value in (False, True))
    is_first = regions.argument(BOOL, width, count)
    found = [Carried(None, yes, is_first, no)]
    for holder, node in changed:
        argument = regions.argument(node.type, node.size, count + len(found))
        output = trace.select(is_first, node, argument)
        found.append(Carried(holder, holder._node, argument, output))
    return found


def _may_part(own: Parts, after: Parts, args: dict[int, Node]) -> bool:
    """Tell whether names share an array, before the loop or after a turn."""
    starts, ends = {id(own.leaves[k]) for k in args}, set(map(id, after.leaves))
    return len(starts) < len(args) or len(ends) < len(after.leaves)


def _check_parting(
    construct: str,
    own: Parts,
    given: Parts,
    after: Parts,
    args: dict[int, Node],
    changed: Sequence[int],
    read: Callable[[], set[int]],
    is_seen: Callable[[], bool],
) -> None:
    """Refuse names that share an array in some iterations only, and see its changes."""
    # Names that exchange arrays share none, in no iteration.
    count = Counter(map(id, after.leaves))
    places = {id(given.leaves[k]): k for k in changed}
    for k in args:
        array = own.leaves[k]
        others = [j for j in args if j != k and own.leaves[j] is array]
        if k not in changed:
            others = [j for j in others if j in changed]
        end = id(after.leaves[k])
        later = places.get(end, k) if count[end] > 1 else k
        if later != k:
            others.append(later)
        is_used = bool(others) and (k in changed or id(args[k]) in read())
        if is_used and (later != k or is_seen()):
            one, other = own.names[others[0]], own.names[k]
            raise _parting(construct, one, other, array)


def _check_nested(
    construct: str,
    own: Parts,
    given: Parts,
    args: dict[int, Node],
    read: Callable[[], set[int]],
) -> None:
    """Refuse names for one nested array that part, and of which one sees a change.

    That is if the body gives one of them other components, and reads another one's.
    """
    alike: dict[int, list[int]] = {}
    for k, array in enumerate(own.nested):
        alike.setdefault(id(array), []).append(k)
    for places in alike.values():
        parted = {id(given.nested[k]): k for k in places}
        if len(parted) < 2:
            continue
        for k in parted.values():
            if same_items(given.nested[k]._items, given.items[k]):
                continue
            for j in parted.values():
                if j != k and _is_read(given.items[j], given, args, read()):
                    names = [
                        name for name, _, v in own.nodes() if isinstance(v, NestedArray)
                    ]
                    raise _parting(construct, names[k], names[j], own.nested[j])


def _is_read(
    items: Sequence[Any], given: Parts, args: dict[int, Node], read: set[int]
) -> bool:
    """Tell whether a body reads a component that a nested array has at first."""
    inside = set(map(id, Parts((list(items),)).leaves))
    return any(
        id(given.leaves[k]) in inside and id(arg) in read for k, arg in args.items()
    )


def _parting(construct: str, one: str, other: str, array: Any) -> StateError:
    return StateError(
        construct,
        f"'{one}' and '{other}' are one array in some iterations, not in "
        "others, and the body changes it in place, which both would see",
        f"assign copies, as in {other} = {type(array).__name__}(…), or "
        f"replace the array, as in {one} = {one} + 1 for {one} += 1.",
    )


def shape_of(
    leaves: Sequence[Any],
    condition: Node,
    after: Sequence[Any],
    args: dict[int, Node],
    inner: Scope,
) -> tuple[list[Any], Any]:
    """Describe what a traced body does (`captures.shape`), as if names were joined."""
    known: dict[int, int] = {}
    for k, leaf in enumerate(leaves):
        known.setdefault(id(leaf), -1 - k)
    labels = {arg: known[id(leaves[k])] for k, arg in args.items()}
    nodes = [leaf._node for leaf in after if is_array(leaf)]
    return captures.shape((condition, *nodes, *inner.effects), inner, labels)


def arguments_in(roots: Iterable[Node], inner: Scope) -> set[int]:
    """Return the ids of the arguments of a scope that nodes depend on."""
    depth = inner.depth
    nodes = [node for node in roots if node.scope.depth >= depth]
    seen = set(nodes)
    found: set[int] = set()
    for node in nodes:
        if node.op is SYMBOLIC:
            found.add(id(node))
        for dep in node.deps:
            if dep.scope.depth >= depth and dep not in seen:
                seen.add(dep)
                nodes.append(dep)
    return found


def is_same(a: Node, b: Node) -> bool:
    """Tell whether an array was left alone; the first write may renew a literal."""
    if a.op is LITERAL and b.op is LITERAL:
        return (a.type, a.size, repr(a.attr)) == (b.type, b.size, repr(b.attr))
    return a is b
