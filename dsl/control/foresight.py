"""What a run of a construct found out, for the next run of the same one.

A body is traced anew when a trace shows that a variable grows, stays constant or must
become an array. A loop that runs in each frame would be traced twice each time, one
inside of it four times. So the next run begins with what the last one ended with, if
its state looks alike; what would show in the result is checked once more. So it is with
entries of objects that a construct was found to change: they are its state at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.roles import value_deps
from lumijit.compiler.record import local
from lumijit.control.locations import Location
from lumijit.control.state import can_be_state, node_of
from lumijit.control.twins import twins
from lumijit.pytree import Parts
from lumijit.syntax.site import Memory

# Telling the path of an entry may take a look at all entries of what it is in.
_MOST_CANDIDATES = 256


class Start:
    """How a run begins: the kinds of its leaves, which are twins, the largest size."""

    __slots__ = ("kinds", "size", "twins")

    def __init__(self, kinds: list[Any], size: int, twins: dict[int, int]) -> None:
        self.kinds = kinds
        self.size = size
        self.twins = twins


class Findings:
    """What a run found out about leaves, by their numbers; see `SymbolicLoop`."""

    __slots__ = (
        "constant",
        "indexed",
        "numbers",
        "sizes",
        "start",
        "variable",
        "widths",
        "written",
    )

    def __init__(self, start: Start, found: Knowledge) -> None:
        leaves = found.parts.leaves
        self.start = start
        self.sizes = dict(found.sizes)
        self.constant = set(found.constant)
        self.variable = set(found.variable)
        self.indexed = set(found.indexed)
        #: The types that Python numbers got.
        self.numbers = {k: type(leaves[k]) for k in found.numbers}
        #: Literals that the body writes to.
        self.written = set(found.written)
        #: How wide local buffers became, in the order in which they were accessed.
        self.widths = found.found_widths

    def sizes_for(self, start: Start) -> tuple[dict[int, int], dict[int, int]] | None:
        """Return sizes and widths to begin with; None if the run looks otherwise."""
        if start.kinds != self.start.kinds or start.twins != self.start.twins:
            return None
        sizes, widths = self.sizes, self.widths
        if start.size == self.start.size:
            return sizes, widths
        if start.size > 1 and {*sizes.values(), *widths.values()} <= {self.start.size}:
            return dict.fromkeys(sizes, start.size), dict.fromkeys(widths, start.size)
        return None


_memories: WeakKeyDictionary[Any, Memory] = WeakKeyDictionary()


def memory_of(body: Callable[..., Any]) -> Memory:
    """Return the memory of a loop that isn't a site: that of its body's code."""
    if not isinstance(body, FunctionType):
        return Memory()
    memory = _memories.get(body.__code__)
    if memory is None:
        memory = _memories[body.__code__] = Memory()
    return memory


def start_of(leaves: Sequence[Any], width: int, twins: dict[int, int]) -> Start:
    """Describe how a run begins, whose first condition has a width."""
    kinds: list[Any] = [width > 1]
    size = width
    for leaf in leaves:
        kinds.append(type(leaf))
        node = node_of(leaf)
        if node is not None:
            kinds += (node.size > 1, node.op is LITERAL)
            if node.size > size:
                size = node.size
    return Start(kinds, size, twins)


class Knowledge:
    """What is known of the leaves of a loop's state, by their numbers."""

    def __init__(self, parts: Parts, width: int, memory: Memory) -> None:
        self.parts = parts
        self.twins = twins(parts)
        # The number of elements, as far as known.
        self.width = width
        # The sizes of the arguments, where the initial value is of size 1.
        self.sizes: dict[int, int] = {}
        # Arrays that the body indexes; it gets the very objects.
        self.indexed: set[int] = set()
        # Literals that the body leaves alone; and those it turned out to change.
        self.constant: set[int] = set()
        self.variable: set[int] = set()
        # Those among the indexed ones that are literals which the body writes to.
        self.written: set[int] = set()
        # Python numbers that became arrays, as they were.
        self.numbers: dict[int, Any] = {}
        # Leaves that are one array at first, of which the body makes several: those of
        # one number stay one.
        self.separate: dict[int, int] = {}
        # Local buffers that become wider, by the order in which they are accessed: as
        # was foreseen, and as it is.
        self.widths: dict[int, int] = {}
        self.found_widths: dict[int, int] = {}
        # What the last run found out, as long as that is believed.
        self.foreseen: Findings | None = None
        # Local buffers that turned out wider than they were given to the body.
        self.grown: list[local.Buffer] = []
        self._memory = memory
        self._start = start_of(parts.leaves, width, self.twins)
        self._first: list[Any] | None = list(parts.leaves)

    def foresee(self) -> None:
        """Begin with what the last run found out."""
        found: Findings | None = self._memory.findings
        sizes = found.sizes_for(self._start) if found is not None else None
        if found is None or sizes is None:
            return
        self.foreseen = found
        self.sizes.update(sizes[0])
        self.widths.update(sizes[1])
        self.constant.update(found.constant)
        self.variable.update(found.variable)
        self.indexed.update(found.indexed)
        self.written.update(found.written)
        for k, cls in found.numbers.items():
            self.promote(k, cls)

    def promote(self, k: int, cls: type[Any]) -> None:
        """Make a number an array, or an array of another type."""
        leaves = self.parts.leaves
        number = self.numbers.setdefault(k, leaves[k])
        twin = leaves[self.twins.get(k, k)]
        leaves[k] = twin if type(twin) is cls else cls(number)

    def begin_anew(self, parts: Parts | None = None) -> None:
        """Forget what was found out; `parts`: the state, if it is another one now."""
        self._memory.findings = self.foreseen = None
        for buffer in self.grown:
            buffer.width = 1
        if parts is not None:
            self.parts, self._first = parts, None
            self.twins = twins(parts)
        elif self._first is not None:
            self.parts.leaves[:] = self._first
        for known in (self.indexed, self.written, self.constant, self.variable):
            known.clear()
        self.separate.clear()
        self.sizes.clear()
        self.widths.clear()
        self.numbers.clear()

    def part(
        self, group: Sequence[int], moved: int, other: int, after: Sequence[Any]
    ) -> None:
        """Make a group of leaves that were one array two: as `moved`, and as `other`.

        Those that are still one `after` the body stay together: several names may have
        an object that has the array.
        """
        if self.separate.get(moved) == moved:
            moved = other
        for k in group:
            if after[k] is after[moved]:
                self.separate[k] = moved

    def remember(self, is_as_before: bool) -> None:
        """Keep for the next run what was found out of the state that was given.

        `is_as_before`: it is what was foreseen, perhaps of arrays of another size.
        """
        if self.separate or self._first is None:
            return
        known = self.foreseen
        if is_as_before and known is not None and known.start.size == self._start.size:
            return
        self._memory.findings = Findings(self._start, self)

    def is_as_foreseen(
        self, args: dict[int, Node], outputs: dict[int, Node], inner: Scope
    ) -> bool:
        """Tell whether what was expected to change, to grow or to be written does so.

        Args:
            args: the arguments of the body.
            outputs: what it makes of them.
            inner: its scope.
        """
        if self.foreseen is None:
            return True
        for k in self.foreseen.numbers:
            if k not in self.twins and (k not in args or outputs[k] is args[k]):
                return False
        for k in self.written:
            if id(self.parts.leaves[k]) not in inner.writes:
                return False
        if not (self.foreseen.sizes or self.widths):
            return True
        expected = {args[k]: outputs[k] for k in self.foreseen.sizes if k in args}
        expected.update(local.foreseen(inner))
        return not expected or _grow(expected, inner)


def _grow(expected: dict[Node, Node], inner: Scope) -> bool:
    """Tell whether arguments that were given their final size would grow to it.

    They do if what the body makes of them depends on something else of that size.
    Local buffers that were given it may: each could otherwise be the other's reason.

    Args:
        expected: arguments, and what the body makes of them.
        inner: its scope.
    """
    small = {**expected, **local.widened(inner)}
    wide: set[Node] = set()
    for output in expected.values():
        # Who asked for a node first; all of these are wide if it is.
        before: dict[Node, Node | None] = {output: None}
        left = [output]
        while left:
            node = left.pop()
            if node in small:
                deps: tuple[Node, ...] = (small[node],)
            elif node.scope is not inner:
                deps = ()
            else:
                deps = node.deps if node.op.lower is not None else value_deps(node)
            if node in wide or (not deps and node.size > 1):
                reason: Node | None = node
                while reason is not None:
                    wide.add(reason)
                    reason = before[reason]
                break
            for dep in deps:
                if dep not in before:
                    before[dep] = node
                    left.append(dep)
        else:
            return False
    return True


def entries_at(
    places: Sequence[Location], wanted: Sequence[tuple[Any, str]]
) -> list[tuple[Location, Any, str]]:
    """Return which of some places have entries with certain keys and paths.

    Return none unless there is just one for each, with a value that can be state; nor
    if there are many to choose from, as telling their paths takes its time.
    """
    keys = {key for key, _ in wanted}
    candidates: list[tuple[Location, Any]] = []
    for place in places:
        kept = place.kept
        keys_here = [key for key in keys if key in kept and can_be_state(kept[key])]
        candidates += [(place, key) for key in keys_here]
    if len(candidates) > _MOST_CANDIDATES:
        return []
    paths = [(place, key, place.path(key)) for place, key in candidates]
    found = {entry[1:]: entry for entry in paths if entry[1:] in wanted}
    count = sum(entry[1:] in wanted for entry in paths)
    # (In their order, which kernels depend on.)
    return [found[w] for w in wanted] if len(found) == count == len(wanted) else []
