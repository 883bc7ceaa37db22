"""The caller's arrays in symbolic loops: which are changed, and by how many names.

The body changes an array in place, as `x += 1` does, and may then give the name `x`
another one, as `x = x * 2` does. In the first iteration that changes the caller's
array, later the one that the name got in the iteration before. Names for one array
that get different ones would see each other's changes in the first iteration only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lumijit.compiler.ir import captures, trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node, Scope, begin_walk
from lumijit.compiler.ir.ops.arithmetic import ADD, MOD
from lumijit.compiler.ir.ops.logic import EQ
from lumijit.compiler.ir.ops.structural import LITERAL, SYMBOLIC
from lumijit.compiler.record import regions
from lumijit.control.sameness import same_items
from lumijit.control.state import is_array, node_in
from lumijit.nested import NestedArray
from lumijit.pytree import Parts
from lumijit.runtime.dtypes import UINT32
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
        changed = [k for k in changed if k not in loop.numbers]
        _check_parting(loop, turn, changed)
    elif not given.nested:
        return []
    if given.nested:
        _check_nested(loop, turn)
    return _carried(_left(turn, changed), loop.width, len(args))


class Left:
    """An array of the caller's that loses its name in the loop, and what changes it.

    That is what the n-th turn makes of it, or None; again and again, if it gets its
    name back after as many turns.
    """

    __slots__ = ("contents", "holder", "is_back")

    def __init__(
        self, holder: Any, contents: Sequence[Node | None], is_back: bool
    ) -> None:
        self.holder = holder
        self.contents = contents
        self.is_back = is_back


def _left(turn: Turn, changed: Iterable[int]) -> list[Left]:
    """List arrays of the caller's that lose their names, and are changed."""
    own, given, after = turn.own, turn.given, turn.after
    changes: dict[int, Node] = {k: given.leaves[k]._node for k in changed}
    found: list[Left] = []
    if changes:
        for holder, names, is_back in _moving(own.leaves, given.leaves, after.leaves):
            contents = [
                next((changes[k] for k in now if k in changes), None) for now in names
            ]
            if any(contents):
                found.append(Left(holder, contents, is_back))
    for holder, names, is_back in _moving(own.nested, given.nested, after.nested):
        turns = [(given.items[k], given.nested[k]._items) for k, *_ in names]
        if not all(same_items(old, new) for old, new in turns):
            found += _changed_items(holder, turns, is_back)
    return found


def _moving(
    own: Sequence[Any], given: Sequence[Any], after: Sequence[Any]
) -> Iterator[tuple[Any, list[list[int]], bool]]:
    """Yield arrays that lose their names: the names in each turn, and if it comes back.

    What was given under a name may have another one in the next turn.
    """
    places = {id(value): k for k, value in reversed([*enumerate(given)])}
    takers: dict[int, list[int]] = {}
    for k, value in enumerate(after):
        takers.setdefault(places.get(id(value), -1), []).append(k)
    for k, array in enumerate(own):
        if after[k] is given[k]:
            continue
        names = [[k]]
        while True:
            following = [j for name in names[-1] for j in takers.get(name, ())]
            if not following or k in following:
                break
            names.append(following)
        yield array, names, bool(following)


def _changed_items(
    holder: Any, turns: Sequence[tuple[Sequence[Any], Sequence[Any]]], is_back: bool
) -> Iterator[Left]:
    """Give a nested array items of its own where a turn replaces them.

    `turns` are the items that it has at first and at last, turn by turn.
    """
    old = [Parts((before,)) for before, _ in turns]
    new = [Parts((after,)) for _, after in turns]
    own = Parts(([*holder._items],))
    kept = map(all, zip(*map(Parts.same_nested, old, new), strict=True))
    items = []
    for k, item in enumerate(own.leaves):
        if any(b.leaves[k] is not a.leaves[k] for a, b in zip(old, new, strict=True)):
            item = wrap(type(item), item._node)
            yield Left(item, [parts.leaves[k]._node for parts in new], is_back)
        items.append(item)
    holder._items[:] = own.together(items, kept)[0]


def _carried(left: Sequence[Left], width: int, count: int) -> list[Carried]:
    """Carry what turns do to arrays that lose their names, beside `count` arguments."""
    if not left:
        return []
    one = trace.literal(UINT32, 1)
    number = regions.argument(UINT32, width, count)
    following = trace.emit2(ADD, number, one)
    found = {0: Carried(None, trace.literal(UINT32, 0), number, following)}
    for array in left:
        holder, contents = array.holder, array.contents
        known = found.get(id(holder))
        if known is None:
            initial = holder._node
            size = max(node.size for node in (initial, *contents) if node is not None)
            argument = regions.argument(initial.type, size, count + len(found))
            known = found[id(holder)] = Carried(holder, initial, argument, argument)
        turn = number
        if array.is_back:
            turn = trace.emit2(MOD, number, trace.literal(UINT32, len(contents)))
        for k, node in enumerate(contents):
            if node is not None:
                is_now = trace.emit2(EQ, turn, trace.literal(UINT32, k))
                known.output = trace.select(is_now, node, known.output)
    return [*found.values()]


def _check_parting(loop: Any, turn: Turn, changed: Sequence[int]) -> None:
    """Refuse names that share an array in some iterations only, and see its changes."""
    own, given, after, args = turn.own, turn.given, turn.after, turn.args
    # (What is no argument is an array that no turn replaces.)
    names = [k for k, leaf in enumerate(own.leaves) if k in args or is_array(leaf)]
    # Arguments are of different arrays, unless these are to part.
    if not loop.separate and are_others([after.leaves[k] for k in names]):
        return
    read = turn.read()
    for j, k, is_later in _shared(own.leaves, given.leaves, after.leaves, names):
        is_used = k in changed or k not in args or id(args[k]) in read
        if j in changed and is_used and (is_later or loop.is_seen(turn)):
            is_taker = after.leaves[j] is not given.leaves[j]
            pair = own.names[j], own.names[k]
            raise parting(loop.name, pair, is_taker, own.leaves[k])


def _check_nested(loop: Any, turn: Turn) -> None:
    """Refuse names for one nested array that part, and of which one sees a change.

    That is if the body gives one of them other components, and reads another one's.
    """
    own, given, after = turn.own, turn.given, turn.after
    if are_others(own.nested) and are_others(after.nested):
        return
    arrays, items = given.nested, given.items
    places = range(len(arrays))
    changed = {k for k in places if not same_items(arrays[k]._items, items[k])}
    for j, k, _ in _shared(own.nested, arrays, after.nested, places):
        if j in changed and (k in changed or _is_read(items[k], turn)):
            names = [name for name, _, v in own.nodes() if isinstance(v, NestedArray)]
            is_taker = after.nested[j] is not arrays[j]
            raise parting(loop.name, (names[j], names[k]), is_taker, own.nested[k])


def are_others(values: Sequence[Any]) -> bool:
    """Tell whether no object is among others twice."""
    return len(set(map(id, values))) == len(values)


def _shared(
    own: Sequence[Any], given: Sequence[Any], after: Sequence[Any], names: Sequence[int]
) -> Iterator[tuple[int, int, bool]]:
    """Yield pairs of names that are for one array when some turn begins.

    That is the first turn, or a later one: a turn gave both the same array, or two that
    were one. What the body is given as one array isn't meant.
    """
    places = {id(value): k for k, value in reversed([*enumerate(given)])}
    sources = {k: places.get(id(after[k]), -1 - k) for k in names}
    pairs = [(j, k) for j in names for k in names if given[j] is not given[k]]
    first = {(j, k) for j, k in pairs if own[j] is own[k]}
    later = {(j, k) for j, k in pairs if after[j] is after[k]}
    size = 0
    while len(later) > size:
        size = len(later)
        known = first | later
        later |= {(j, k) for j, k in pairs if (sources[j], sources[k]) in known}
    for j, k in pairs:
        if (j, k) in later or (j, k) in first:
            yield j, k, (j, k) in later


def _is_read(items: Sequence[Any], turn: Turn) -> bool:
    """Tell whether a body reads a component that a nested array has at first."""
    given, args, read = turn.given, turn.args, turn.read()
    inside = set(map(id, Parts((list(items),)).leaves))
    return any(
        id(leaf) in inside and (k not in args or id(args[k]) in read)
        for k, leaf in enumerate(given.leaves)
    )


def parting(
    construct: str, names: tuple[str, str], is_taker: bool, array: Any
) -> StateError:
    """Return the error for two names of one array, the first of which changes it.

    `is_taker` tells whether it got the array from the other one.
    """
    one, other = names
    return StateError(
        construct,
        f"'{one}' and '{other}' are one array in some iterations, not in "
        "others, and the body changes it in place, which both would see",
        f"assign copies, as in {names[not is_taker]} = {type(array).__name__}(…), or "
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
