"""The caller's arrays in symbolic loops: which are changed, and by how many names.

The body changes an array in place, as `x += 1` does, and may then give the name `x`
another one, as `x = x * 2` does. In the first iteration that changes the caller's
array, later the one that the name got in the iteration before. Names for one array
that get different ones would see each other's changes in the first iteration only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lumijit.compiler.ir import captures, trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node, Scope, begin_walk
from lumijit.compiler.ir.ops.structural import LITERAL, SYMBOLIC
from lumijit.compiler.record import regions
from lumijit.control.sameness import same_items
from lumijit.control.state import is_array, node_in
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


class Turn:
    """A turn of a loop as it was traced.

    `own` are the caller's arrays, `given` those that the body got in their place, and
    `after` is what the state consists of when it ends. `args` are the arguments, by
    leaf, and `outputs` what the turn makes of them.
    """

    __slots__ = ("after", "args", "condition", "given", "inner", "outputs", "own")

    def __init__(
        self,
        own: Parts,
        given: Parts,
        after: Parts,
        args: dict[int, Node],
        condition: Node,
        inner: Scope,
    ) -> None:
        self.own = own
        self.given = given
        self.after = after
        self.args = args
        self.condition = condition
        self.inner = inner
        self.outputs: dict[int, Node] = {}

    def read(self) -> set[int]:
        """Return the ids of arguments that are read."""
        inner = self.inner
        roots = (self.condition, *self.outputs.values(), *inner.effects)
        return arguments_in(roots, inner)

    def shape(self) -> tuple[list[Any], Any]:
        """Describe what happens (`captures.shape`), as if names were joined."""
        known: dict[int, int] = {}
        leaves, inner = self.own.leaves, self.inner
        for k, leaf in enumerate(leaves):
            known.setdefault(id(leaf), -1 - k)
        labels = {arg: known[id(leaves[k])] for k, arg in self.args.items()}
        nodes = [leaf._node for leaf in self.after.leaves if is_array(leaf)]
        return captures.shape((self.condition, *nodes, *inner.effects), inner, labels)


def besides(loop: Any, turn: Turn) -> list[Carried]:
    """Carry what the body changes of the caller's besides the final state.

    Args:
        loop: the loop: its name, its width, and which leaves were numbers at first;
            `is_seen` tells whether it matters that names are one array at first.
        turn: a turn of it.
    """
    given, args = turn.given, turn.args
    leaves = given.leaves
    changed = [k for k, arg in args.items() if node_in(leaves[k]) is not arg]
    if changed:
        # Arguments are of different arrays, unless these are to part.
        ends = turn.after.leaves
        if loop.separate or len(set(map(id, ends))) < len(ends):
            _check_parting(loop, turn, changed)
        changed = [k for k in changed if k not in loop.numbers]
    elif not given.nested:
        return []
    if given.nested:
        _check_nested(loop.name, turn)
    found = _changed_first(turn.own, given, turn.after, changed)
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


def _check_parting(loop: Any, turn: Turn, changed: Sequence[int]) -> None:
    """Refuse names that share an array in some iterations only, and see its changes."""
    own, given, after, args = turn.own, turn.given, turn.after, turn.args
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
        is_used = bool(others) and (k in changed or id(args[k]) in turn.read())
        if is_used and (later != k or loop.is_seen(turn)):
            one, other = own.names[others[0]], own.names[k]
            raise _parting(loop.name, one, other, array)


def _check_nested(construct: str, turn: Turn) -> None:
    """Refuse names for one nested array that part, and of which one sees a change.

    That is if the body gives one of them other components, and reads another one's.
    """
    own, given = turn.own, turn.given
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
                if j != k and _is_read(given.items[j], turn):
                    names = [
                        name for name, _, v in own.nodes() if isinstance(v, NestedArray)
                    ]
                    raise _parting(construct, names[k], names[j], own.nested[j])


def _is_read(items: Sequence[Any], turn: Turn) -> bool:
    """Tell whether a body reads a component that a nested array has at first."""
    given, args, read = turn.given, turn.args, turn.read()
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


def arguments_in(roots: Iterable[Node], inner: Scope) -> set[int]:
    """Return the ids of the arguments of a scope that nodes depend on."""
    depth = inner.depth
    walk = begin_walk()
    nodes = [node for node in roots if node.scope.depth >= depth]
    found: set[int] = set()
    for node in nodes:
        node.walk = walk
        if node.op is SYMBOLIC:
            found.add(id(node))
        for dep in node.deps:
            if dep.walk != walk and dep.scope.depth >= depth:
                dep.walk = walk
                nodes.append(dep)
    return found


def is_same(a: Node, b: Node) -> bool:
    """Tell whether an array was left alone; the first write may renew a literal."""
    if a.op is LITERAL and b.op is LITERAL:
        return (a.type, a.size, repr(a.attr)) == (b.type, b.size, repr(b.attr))
    return a is b
