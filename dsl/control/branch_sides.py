"""The two sides of a branch: running each, and joining what they leave.

A side gets the caller's arrays. What it changes in place is undone, so that the other
one doesn't see it, and becomes a result besides what is returned. Owns which of the
joined arrays are objects of the caller: those that both sides have at one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lumijit import pytree
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.trace import Node
from lumijit.control.held_arrays import Held, same_items
from lumijit.control.recursion import LEFT_OUT
from lumijit.control.state import (
    NUMBERS,
    Leaf,
    check_contents,
    common_type,
    contents,
    describe,
    flatten,
    is_array,
    rebuild,
    same_object,
    same_structure,
    zeros_like,
)
from lumijit.nested import NestedArray
from lumijit.runtime.errors import StateError
from lumijit.syntax.undefined import Undefined


@dataclass
class Side:
    """What one side left: its result, and the arguments as it left them.

    `kept` is a copy of `value`, and `leaves` are its leaves; `versions` were written by
    index. `nodes` and `items` are what arrays among the arguments held in the end.
    """

    value: Any
    held: Held
    versions: dict[int, Node]
    nodes: dict[int, Node]
    items: dict[int, list[Any]]
    kept: Any = None
    leaves: Sequence[Leaf] = ()


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
        nested: list[Leaf] = []
        leaves = flatten(args, arg_labels, nested)
        self.held = Held(leaves, nested)
        self.contents = contents(leaves)
        self.rv_labels = rv_labels
        self.name = name
        self.strict = strict
        self.mask_type = mask_type
        # For what a side is known to have returned: the object; the array if it
        # handed that back but for writes by index. Both by the id of what is kept.
        self.originals: dict[int, tuple[Any, Any]] = {}
        self.sources: dict[int, tuple[Any, Any]] = {}
        self.running: Callable[..., Any] | None = None

    def run(
        self, function: Callable[..., Any], written: Callable[[], dict[int, Node]]
    ) -> Side:
        """Call one side and copy what it returns, so that later changes don't reach it.

        Arguments that it changes in place get restored. Writes by index are no such
        changes: `written` gives the last versions of the arrays written so far, and
        such arrays are returned as they are.
        """
        self.running = function
        held = self.held.again()
        try:
            value = function(*pytree.copied(self.args))
            check_contents(self.name, self.contents)
            versions = written()
            held.follow(versions)
            now = held.current_nodes(), held.current_items()
            side = Side(value, held, versions, *now)
            side.kept, side.leaves = self.keep(side, value, self.leaves_of(value))
            return side
        finally:
            held.restore()

    def leaves_of(self, value: Any) -> list[Leaf]:
        """List the leaves of a result, with the user's names."""
        if type(value) is not tuple:
            return flatten((value,), ("result",))
        labels, count = self.rv_labels, len(value)
        if len(labels) < count:
            missing = [f"result[{k}]" for k in range(len(labels), count)]
            labels = (*labels, *missing)
        return flatten(value, labels)

    def keep(
        self, side: Side, value: Any, leaves: list[Leaf]
    ) -> tuple[Any, list[Leaf]]:
        """Copy a PyTree as a side left it, but for arrays written by index."""
        for leaf in leaves:
            array = leaf.value
            if leaf.is_array:
                node = side.nodes.get(id(array), array._node)
                is_version = side.versions.get(id(array)) is node
                copy = array if is_version else wrap(type(array), node)
                self.originals[id(copy)] = (copy, array)
                if side.held.nodes.get(id(array), node) is node:
                    self.sources[id(copy)] = (copy, array)
                leaf.value = copy
        return rebuild((value,), [leaf.value for leaf in leaves])[0], leaves

    def source(self, kept: Any) -> Any:
        """Return the array that a side handed back but for writes by index."""
        return self.sources.get(id(kept), (None, None))[1]

    def original(self, kept: Any) -> Any:
        """Return the object of which a side's result was kept."""
        return self.originals.get(id(kept), (None, kept))[1]

    def changed(self, yes: Side, no: Side) -> Iterator[tuple[Leaf, Any, Any]]:
        """List arguments that a side changed in place, with what both sides left.

        Of flat arrays that is kept in the sides, of nested ones it's a list of items.
        """
        left, before = (yes.nodes, no.nodes), (yes.held.nodes, no.held.nodes)
        if left != before:
            for key, leaf in self.held.leaves.items():
                if any(n[key] is not b[key] for n, b in zip(left, before, strict=True)):
                    yield leaf, leaf.value, leaf.value
        for key, leaf in self.held.nested.items():
            if not all(same_items(s.items[key], s.held.items[key]) for s in (yes, no)):
                yield leaf, yes.items[key], no.items[key]

    def stand_in(self, side: Side) -> Side:
        """Return what a side that is left out has for results of the other.

        Arrays from outside of the branch stay; what was computed is replaced by
        zeros. Nobody reads them: no element enters it.
        """
        depth = max(trace.state.scope.depth, 1)
        leaves = self.leaves_of(side.kept)
        for leaf in leaves:
            source = self.source(leaf.value) if leaf.is_array else None
            same = zeros_like(leaf.value)
            if source is leaf.value:
                # It has been written to, and is what both sides return.
                self.sources[id(same)] = (same, source)
            elif source is not None and source._node.scope.depth < depth:
                same = wrap(type(source), source._node)
            if source is not None:
                self.originals[id(same)] = (same, source)
            leaf.value = same
        value = rebuild((side.kept,), [leaf.value for leaf in leaves])[0]
        held = side.held
        return Side(side.value, held, {}, held.nodes, held.items, value, leaves)


class Merge:
    """What both sides returned, leaf by leaf.

    `traced` are the leaves whose two values get blended. `late` are those where a
    side returns an array that it wrote to, and the other one something else: its
    contents are known once both sides have run.
    """

    def __init__(self, sides: Sides, yes: Side, no: Side) -> None:
        self.sides = sides
        if yes.value is LEFT_OUT:
            yes = sides.stand_in(no)
        elif no.value is LEFT_OUT:
            no = sides.stand_in(yes)
        self.objects = yes.value, no.value
        self.value = yes.kept
        self.yes, self.no = list(yes.leaves), list(no.leaves)
        if any(type(leaf.value) is Undefined for leaf in (*self.yes, *self.no)):
            self._define(yes.kept, no.kept)
        self._check_structure()
        self.changed: list[tuple[Any, Any, tuple[Any, Any]]] = []
        for leaf, a, b in sides.changed(yes, no):
            label = (leaf.name,)
            kept, mine = sides.keep(yes, a, flatten((a,), label))
            self.yes += mine
            self.no += sides.keep(no, b, flatten((b,), label))[1]
            self.changed.append((leaf.value, kept, (a, b)))
            self._check_structure()
        self.finals: list[Any] = []
        self.types: dict[int, type[Any]] = {}
        self.pairs: dict[int, tuple[Node, Node]] = {}
        # The array of the caller that a result goes to, and the leaf that has the
        # same result already.
        self.holders: dict[int, Any] = {}
        self.repeated: dict[int, int] = {}
        self.computed: dict[int, Node] = {}
        known: dict[tuple[int, int], int] = {}
        for k, (a, b) in enumerate(zip(self.yes, self.no, strict=True)):
            final = None
            if a.is_array and b.is_array:
                both = sides.original(a.value), sides.original(b.value)
                known_k = known.setdefault((id(both[0]), id(both[1])), k)
                if known_k != k:
                    self.repeated[k] = known_k
                elif both[0] is both[1]:
                    self.holders[k] = both[0]
            if k not in self.repeated:
                final = self._agreed(k, a, b)
            self.finals.append(final)
        self.traced = list(self.pairs)
        self.late: dict[int, tuple[bool, bool]] = {}

    def _define(self, yes: Any, no: Any) -> None:
        """Give entries that one side alone has defined a value on the other side."""
        are_tuples = type(yes) is tuple and type(no) is tuple
        if are_tuples and len(yes) == len(no):
            entries = [_defined(a, b) for a, b in zip(yes, no, strict=True)]
            self.value = tuple([a for a, _ in entries])
            self.yes = self.sides.leaves_of(self.value)
            self.no = self.sides.leaves_of(tuple([b for _, b in entries]))

    def _check_structure(self) -> None:
        if same_structure(self.yes, self.no):
            return
        names = {f.name for f in self.yes} ^ {f.name for f in self.no}
        shown = ", ".join(f"'{n}'" for n in sorted(names))
        raise StateError(
            self.sides.name,
            "the two branches return different structures "
            f"({len(self.yes)} and {len(self.no)} leaves; they differ in {shown})",
            "let both branches return the same PyTree.",
        )

    def _agreed(self, k: int, yes: Leaf, no: Leaf) -> Any:
        """Return the Python object that both sides give, or note arrays to blend."""
        a, b = yes.value, no.value
        is_plain = not yes.is_array and not no.is_array
        if is_plain and same_object(a, b):
            return a
        same_type = yes.is_array and type(a) is type(b)
        cls = type(a) if same_type else common_type(a, b, self.sides.mask_type)
        if cls is None:
            if is_plain and not self.sides.strict:
                return a
            raise self._disagreement(yes.name, a, b, "array type")
        a, b = (v if type(v) is cls else cls(v) for v in (a, b))
        holder = self.holders.get(k)
        if holder is not None and holder._node is a._node is b._node:
            return holder
        if len({a._node.size, b._node.size} - {1}) > 1:
            raise self._disagreement(yes.name, a, b, "size")
        self.types[k] = cls
        self.pairs[k] = (a._node, b._node)
        return None

    def _disagreement(self, name: str, yes: Any, no: Any, what: str) -> StateError:
        has_arrays = any(is_array(v) or isinstance(v, NUMBERS) for v in (yes, no))
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
            a, b = self.yes[k].value, self.no[k].value
            is_first, is_second = id(a) in first, id(b) in second
            if not is_first and not is_second:
                continue
            self.traced.remove(k)
            source = self.sides.source(a)
            if source is not None and source is self.sides.source(b):
                self.finals[k] = source
            elif is_root:
                self.late[k] = (is_first, is_second)
            else:
                raise self._disagreement(self.yes[k].name, a, b, "array")

    def wanted(self) -> tuple[list[int], list[tuple[Node, Node]]]:
        """Return the leaves that a region must compute, and both sides' nodes."""
        pairs = {k: self.pairs[k] for k in self.traced}
        for k, (is_first, is_second) in self.late.items():
            yes, no = self.pairs[k]
            zero = trace.literal(yes.type, yes.type.wrap(0))
            if not (is_first and is_second):
                pairs[k] = (zero if is_first else yes, zero if is_second else no)
        return list(pairs), list(pairs.values())

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
            self.finals[k] = wrap(self.types[k], node)
        else:
            holder._become(node)
            self.finals[k] = holder

    def result(self) -> Any:
        """Put the results together, and into arrays that were changed in place."""
        for k, first in self.repeated.items():
            self.finals[k] = self.finals[first]
        finals = iter(self.finals)
        result = _joined(self.value, *self.objects, finals)
        for holder, kept, both in self.changed:
            value = _joined(kept, *both, finals)
            if isinstance(holder, NestedArray):
                holder._items[:] = value
        return result


def _joined(kept: Any, yes: Any, no: Any, finals: Iterator[Any]) -> Any:
    """Put leaves together like `kept`; nested arrays that both sides have stay."""
    if isinstance(kept, NestedArray) and kept._spec.is_jit:
        first, second = (dict(enumerate(getattr(v, "_items", ()))) for v in (yes, no))
        items = [
            _joined(item, first.get(k), second.get(k), finals)
            for k, item in enumerate(kept._items)
        ]
        if yes is no:
            return yes
        result = object.__new__(type(kept))
        result._items = items
        return result
    if not pytree.is_container(kept):
        return next(finals)
    left, right = (_entries(side, type(kept)) for side in (yes, no))
    parts = [
        _joined(child, left.get(key), right.get(key), finals)
        for key, child in pytree.children(kept)
    ]
    return pytree.rebuild(kept, parts)


def _entries(value: Any, cls: type[Any]) -> dict[Any, Any]:
    return dict(pytree.children(value)) if type(value) is cls else {}


def _defined(a: Any, b: Any) -> tuple[Any, Any]:
    """Replace an undefined entry by zeros like the other side's."""
    if type(a) is Undefined and type(b) is not Undefined:
        return zeros_like(b), b
    if type(b) is Undefined and type(a) is not Undefined:
        return a, zeros_like(a)
    return a, b
