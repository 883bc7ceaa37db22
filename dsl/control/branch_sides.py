"""The two sides of a branch: running each, and joining what they leave.

A side gets the caller's arrays. What it changes in place is undone, so that the other
one doesn't see it, and becomes a result besides what is returned. Owns which of the
joined arrays are objects of the caller: those that both sides have at one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from lumijit.arrays import FlatArray
from lumijit.compiler.ir import blends, trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.vertices import variables
from lumijit.control.held_arrays import Held
from lumijit.control.one_sided import filled
from lumijit.control.recursion import LEFT_OUT
from lumijit.control.sameness import same_items
from lumijit.control.state import (
    NUMBERS,
    as_arrays,
    check_contents,
    check_labels,
    check_loose,
    common_type,
    contents,
    describe,
    is_array,
    loose,
    node_in,
    node_of,
    same_object,
    zeros_like,
)
from lumijit.control.structure import are_alike, differences
from lumijit.control.twins import common_twins
from lumijit.control.write_rules import Where, versions_in
from lumijit.nested import NestedArray
from lumijit.pytree import Parts, copied
from lumijit.runtime.errors import StateError
from lumijit.standing import STANDING, like, stand_if
from lumijit.syntax.undefined import Undefined

_T = TypeVar("_T")


class Kept:
    """A leaf as a side left it: later changes don't reach `value`.

    `original` is the object of which it was kept, and `source` is that too if the side
    handed it back as it was, but for writes by index.
    """

    __slots__ = ("original", "source", "value")

    def __init__(self, value: Any, original: Any, source: Any = None) -> None:
        self.value = value
        self.original = original
        self.source = source


class Side:
    """What one side left: its result, and the arguments as it left them.

    `kept` is what `parts`, the result, held; `versions` were written by index. `nodes`
    and `items` are what arrays among the arguments, and in these, held in the end.
    """

    __slots__ = ("held", "items", "kept", "nodes", "parts", "value", "versions")

    def __init__(
        self,
        value: Any,
        parts: Parts,
        held: Held,
        versions: dict[int, Node],
        nodes: dict[int, Node],
        items: dict[int, list[Any]],
    ) -> None:
        self.value = value
        self.parts = parts
        self.held = held
        self.versions = versions
        self.nodes = nodes
        self.items = items
        self.kept: list[Kept] = []

    def apart(self, take: Callable[[], _T]) -> _T:
        """Take values apart, or look at them, as the side left them.

        What nested arrays hold has been put back since.
        """
        before = self.held.current_items()
        try:
            self.held.put(self.items)
            return take()
        finally:
            self.held.put(before)

    def keep(self, parts: Parts) -> list[Kept]:
        """Copy leaves as the side left them, but for arrays written by index."""
        kept = []
        nodes, before, versions = self.nodes, self.held.nodes, self.versions
        for leaf in parts.leaves:
            found = node_of(leaf)
            if found is None:
                kept.append(Kept(leaf, leaf))
                continue
            key = id(leaf)
            node = nodes.get(key, found)
            value = leaf if versions.get(key) is node else like(leaf, node)
            source = leaf if before.get(key, node) is node else None
            kept.append(Kept(value, leaf, source))
        return kept

    def stand_in(self) -> Side:
        """Return what a side that is left out has for results of this one.

        Arrays from outside of the branch stay; what was computed is replaced by
        zeros. Nobody reads them: no element enters it.
        """
        depth = max(trace.state.scope.depth, 1)
        kept = []
        for entry in self.kept:
            value, source = entry.value, entry.source
            same = zeros_like(value)
            if source is value:
                # It has been written to, and is what both sides return.
                kept.append(Kept(same, source, source))
                continue
            if source is not None and source._node.scope.depth < depth:
                same = wrap(type(source), source._node)
            kept.append(Kept(same, same if source is None else source))
        held = self.held
        side = Side(self.value, self.parts, held, {}, held.nodes, held.items)
        side.kept = kept
        return side


class Sides:
    """Runs both functions on the same arguments and joins what they return.

    The functions get the caller's arrays, in copies of the containers. What they
    change in place is undone after each, and joined like what they return.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        arg_labels: Sequence[str],
        rv_labels: Sequence[str],
        name: str,
        strict: bool,
        mask_type: type[Any],
    ) -> None:
        self.args = args
        self.held = Held(Parts(args, arg_labels))
        self.contents = contents(self.held.parts)
        self.loose = loose(self.held.parts)
        self.rv_labels = rv_labels
        self.name = name
        self.strict = strict
        self.mask_type = mask_type
        self.running: Callable[..., Any] | None = None

    def run(self, function: Callable[..., Any], where: Where) -> Side:
        """Call one side and copy what it returns, so that later changes don't reach it.

        Arguments that it changes in place get restored. Writes by index are no such
        changes: arrays that were written so far, which is noted `where` it runs, are
        returned as they are.
        """
        self.running = function
        held = self.held.again()
        try:
            args = copied(self.args) if held.parts.containers else self.args
            given = Parts(args) if self.loose else held.parts
            value = function(*args)
            if self.contents:
                check_contents(self.name, held.parts, self.contents)
            if self.loose:
                check_loose(self.name, held.parts, given, self.loose)
            versions = versions_in(where, self.name, *held.before())
            held.follow(versions)
            nodes, items = held.current_nodes(), held.current_items()
            for key, left in items.items():
                if not same_items(left, held.items[key]):
                    # New ones may have been written, which is undone after the side.
                    inner = Parts(left)
                    for leaf in inner.leaves:
                        nodes[id(leaf)] = leaf._node
            parts = self.parts_of(value)
            side = Side(value, parts, held, versions, nodes, items)
            side.kept = side.keep(parts)
            return side
        finally:
            held.restore()

    def parts_of(self, value: Any) -> Parts:
        """Take a result apart, with the user's names."""
        if type(value) is not tuple:
            return Parts((value,), ("result",))
        count = len(value)
        check_labels("if_stmt", self.rv_labels, "results", count)
        return Parts(value, self.rv_labels or [f"result[{k}]" for k in range(count)])

    def changed(self, yes: Side, no: Side) -> list[tuple[Any, Any, Any]]:
        """List arguments that a side changed in place, with what both sides left.

        Of flat arrays that is kept in the sides, of nested ones it's a list of items.
        """
        found: list[tuple[Any, Any, Any]] = []
        for key, array in self.held.flat.items():
            is_same = yes.nodes[key] is yes.held.nodes[key]
            if not (is_same and no.nodes[key] is no.held.nodes[key]):
                found.append((array, array, array))
        for key, array in self.held.nested.items():
            is_same = same_items(yes.items[key], yes.held.items[key])
            if not (is_same and same_items(no.items[key], no.held.items[key])):
                found.append((array, yes.items[key], no.items[key]))
        return found


def _nothing(yes: Parts, no: Parts) -> str:
    """Say which branch has None where the other one has a container."""
    for side, parts, other in (("true", yes, no), ("false", no, yes)):
        for name, leaf in zip(parts.names, parts.leaves, strict=True):
            if leaf is None and name not in other.names:
                return f": '{name}' is None in the {side} branch"
    return ""


class Joined:
    """What results are put together like; `holder` is an array changed in place."""

    __slots__ = ("holder", "kept", "parts")

    def __init__(self, holder: Any, parts: Parts, kept: list[bool]) -> None:
        self.holder = holder
        self.parts = parts
        self.kept = kept


class Merge:
    """What both sides returned, leaf by leaf.

    `traced` are the leaves whose two values get blended. `late` are those where a
    side returns an array that it wrote to, and the other one something else: its
    contents are known once both sides have run.
    """

    def __init__(self, sides: Sides, yes: Side, no: Side) -> None:
        self.sides = sides
        self.yes: list[Kept] = []
        self.no: list[Kept] = []
        self.joined: list[Joined] = []
        self.finals: list[Any] = []
        self.types: dict[int, type[Any]] = {}
        self.pairs: dict[int, tuple[Node, Node]] = {}
        # The caller's array that a result goes to; the leaf that has the same one.
        self.holders: dict[int, Any] = {}
        self.repeated: dict[int, int] = {}
        self.computed: dict[int, Node] = {}
        self.late: dict[int, tuple[bool, bool]] = {}
        self._join(yes, no)
        self.traced = list(self.pairs)

    def _join(self, yes: Side, no: Side) -> None:
        """Enter all that the sides left, and find out what of it is to be blended."""
        if yes.value is LEFT_OUT:
            yes = no.stand_in()
        elif no.value is LEFT_OUT:
            no = yes.stand_in()
        self.is_tuple = type(yes.value) is tuple
        if self.is_tuple is not (type(no.value) is tuple):
            raise self._error(yes.kept, no.kept, "the result, of which one is a tuple)")
        one, other = yes.parts, no.parts
        if _is_any_undefined(yes.kept) or _is_any_undefined(no.kept):
            one, other = self._define(yes, no)
        self._enter(None, one, other, yes.kept, no.kept)
        for holder, a, b in self.sides.changed(yes, no):
            label = (self.sides.held.parts.name_of(holder),)
            first = yes.apart(partial(Parts, (a,), label))
            second = no.apart(partial(Parts, (b,), label))
            self._enter(holder, first, second, yes.keep(first), no.keep(second))
        known: dict[tuple[int, int], int] = {}
        twins = common_twins(one, other)
        for k, yes_leaf in enumerate(self.yes):
            final, no_leaf = None, self.no[k]
            a, b = yes_leaf.original, no_leaf.original
            if k in twins:
                self.repeated[k] = twins[k]
            elif isinstance(a, FlatArray) and isinstance(b, FlatArray):
                known_k = known.setdefault((id(a), id(b)), k)
                if known_k != k:
                    self.repeated[k] = known_k
                elif a is b:
                    self.holders[k] = a
            if k not in self.repeated:
                final = self._agreed(k, yes_leaf.value, no_leaf.value)
            self.finals.append(final)

    def _enter(
        self, holder: Any, yes: Parts, no: Parts, mine: list[Kept], other: list[Kept]
    ) -> None:
        """Enter what both sides left of something."""
        if not are_alike(yes, no):
            raise self._error(
                mine, other, differences(yes, no) + ")" + _nothing(yes, no)
            )
        self.joined.append(Joined(holder, yes, yes.same_nested(no)))
        self.yes += mine
        self.no += other

    def _error(self, yes: list[Kept], no: list[Kept], where: str) -> StateError:
        return StateError(
            self.sides.name,
            "the two branches return different structures ("
            f"{len(yes)} and {len(no)} leaves; they differ in {where}",
            "let both branches return the same PyTree: make keys and items before "
            "the branch, or before the loop around it.",
        )

    def _define(self, yes: Side, no: Side) -> tuple[Parts, Parts]:
        """Give entries that one side alone has defined a value on the other side."""
        if not self.is_tuple or len(yes.parts.values) != len(no.parts.values):
            return yes.parts, no.parts
        found = []
        for side, other in ((yes, no), (no, yes)):
            parts = filled(side.parts, other.parts)
            known = dict(zip(map(id, side.parts.leaves), side.kept, strict=True))
            side.kept = [known.get(id(v), Kept(v, v)) for v in parts.leaves]
            found.append(parts)
        return found[0], found[1]

    def name(self, k: int) -> str:
        """Return what a user calls a leaf."""
        return [name for entry in self.joined for name in entry.parts.names][k]

    def _agreed(self, k: int, a: Any, b: Any) -> Any:
        """Return the Python object that both sides give, or note arrays to blend."""
        is_plain = not isinstance(a, FlatArray) and not isinstance(b, FlatArray)
        if is_plain and same_object(a, b):
            return a
        cls: type[Any] | None = type(a)
        if is_plain or cls is not type(b):
            cls = common_type(a, b, self.sides.mask_type)
        if cls is None:
            if is_plain and not self.sides.strict:
                return a
            raise self._disagreement(k, a, b, "array type")
        if cls is not type(a) or cls is not type(b):
            a, b = as_arrays(cls, (a, b))
        holder = self.holders.get(k)
        first, second = node_in(a), node_in(b)
        if holder is not None and node_in(holder) is first is second:
            return holder
        one, other = first.size, second.size
        if one != other and one != 1 and other != 1:
            raise self._disagreement(k, a, b, "size")
        self.types[k] = cls
        self.pairs[k] = (first, second)
        return None

    def _disagreement(self, k: int, yes: Any, no: Any, what: str) -> StateError:
        has_arrays = any(is_array(v) or isinstance(v, NUMBERS) for v in (yes, no))
        name = self.name(k)
        return StateError(
            self.sides.name,
            f"the branches disagree on '{name}' (the true branch gives "
            f"{describe(yes)}, the false branch {describe(no)})",
            f"let both branches give '{name}' the same {what}."
            if has_arrays
            else f"a Python object can't differ between elements: use arrays, or "
            f"lumijit.switch to choose between functions, in place of '{name}'.",
        )

    def share(self, first: set[int], second: set[int], is_root: bool) -> None:
        """Find the results that are arrays which a side has written by index."""
        for k in list(self.traced):
            a, b = self.yes[k], self.no[k]
            is_first, is_second = id(a.value) in first, id(b.value) in second
            if not is_first and not is_second:
                continue
            self.traced.remove(k)
            if a.source is not None and a.source is b.source:
                self.finals[k] = a.source
            elif is_root:
                self.late[k] = (is_first, is_second)
            else:
                raise self._disagreement(k, a.value, b.value, "array")

    def wanted(self) -> tuple[list[int], tuple[Node, ...], tuple[Node, ...]]:
        """Return the leaves that a region must compute, and the nodes of each side."""
        pairs = {k: self.pairs[k] for k in self.traced}
        for k, (is_first, is_second) in self.late.items():
            yes, no = self.pairs[k]
            zero = trace.literal(yes.type, yes.type.wrap(0))
            if not (is_first and is_second):
                pairs[k] = (zero if is_first else yes, zero if is_second else no)
        nodes = pairs.values()
        return list(pairs), tuple([a for a, _ in nodes]), tuple([b for _, b in nodes])

    def current(self, k: int) -> tuple[Node, Node]:
        """Return both sides' nodes, of written arrays the last versions."""
        is_first, is_second = self.late.get(k, (False, False))
        yes, no = self.pairs[k]
        computed = self.computed.get(k)
        yes = self.yes[k].value._node if is_first else computed or yes
        no = self.no[k].value._node if is_second else computed or no
        return yes, no

    def enter(self, k: int, node: Node) -> None:
        """Enter a blended leaf."""
        holder = self.holders.get(k)
        if holder is None:
            made = self.finals[k] = wrap(self.types[k], node)
            yes, no = self.yes[k].value, self.no[k].value
            if STANDING or not (is_array(yes) or is_array(no)):
                stand_if(made, yes, no)
        else:
            a, b = self.current(k)
            if variables and node is not a and node is not b:
                blends.note(node, (holder._node,), 0)
            holder._become(node)
            self.finals[k] = holder

    def result(self) -> Any:
        """Put the results together, and into arrays that were changed in place."""
        for k, first in self.repeated.items():
            self.finals[k] = self.finals[first]
        finals = iter(self.finals)
        result: Any = None
        for entry in self.joined:
            holder = entry.holder
            value = entry.parts.together(finals, entry.kept)
            if holder is None:
                result = value if self.is_tuple else value[0]
            elif isinstance(holder, NestedArray):
                holder._items[:] = value[0]
        return result


def _is_any_undefined(kept: list[Kept]) -> bool:
    """Tell whether a side has left a leaf without a value."""
    return Undefined in [type(leaf.value) for leaf in kept]
