"""`switch`: calls of functions chosen per element by an index.

Owns the choice of mode, the arguments and both ways to run the callables. Finding
which elements run which is the work of `callees`, joining what they return that of
`results`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lumijit import traits, type_traits
from lumijit.base import ArrayBase
from lumijit.compiler import checks, memory, reductions, regions, trace
from lumijit.compiler.evaluate import evaluate
from lumijit.compiler.ops.logic import AND, COPY
from lumijit.compiler.ops.structural import LITERAL, REGIONS, WRITTEN
from lumijit.compiler.trace import Node
from lumijit.control.callees import (
    Callee,
    conditions,
    distinct,
    index_node,
    scalar_index,
)
from lumijit.control.compressed import entries
from lumijit.control.results import Results
from lumijit.control.state import (
    flatten,
    is_array,
    rebuild,
    refuse_in_region,
    versions_in,
    with_node,
)
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import BOOL, UINT32
from lumijit.runtime.errors import (
    ArrayValueError,
    StateError,
    message,
)


def switch(
    index: Any,
    targets: Sequence[Callable[..., Any]],
    *args: Any,
    mode: str | None = None,
    label: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return `targets[index](*args, **kwargs)`, per element.

    Every distinct callable is called at most once, whatever the number of
    elements. In symbolic mode all of them are traced into the kernel. In evaluated
    mode a callable gets the arrays of the elements that select it; one that no
    element selects isn't called. (If that goes for all, the first is called with
    empty arrays and without effects, which tells the types of the results.)

    A Bool array given as the last positional argument or as keyword `active` is a
    mask: elements where it isn't set run nothing and return 0. So do elements whose
    index is out of range. The callables get True in its place.

    Args:
        index: a Python int, or an integer array (converted to UInt32).
        targets: the callables; they return PyTrees of the same types.
        args: positional arguments for the callables; arrays and PyTrees of arrays.
        mode: "symbolic", "evaluated", or None to choose by the type of the index
            and flag SymbolicCalls.
        label: name of the call, for messages and the generated code.
        kwargs: keyword arguments for the callables.

    Returns:
        What the callables return, element by element; a Python number as an array.

    Raises:
        ArrayIndexError: a Python int is out of range.
        ArrayTypeError: the index is no integer, or a target no callable.
        StateError: the callables return incompatible values.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> dr.switch(UInt(0, 0, 1, 1), [lambda x: x, lambda x: x * 10], UInt(1, 2, 3, 4))
    [1, 2, 30, 40]
    """
    name = label or "switch"
    if mode not in (None, "symbolic", "evaluated"):
        raise ArrayValueError(
            message(
                name,
                f"unknown mode {mode!r}",
                "use 'symbolic', 'evaluated' or None.",
            )
        )
    callees = distinct(targets, name)
    if trace.state.lane is not None and isinstance(index, ArrayBase):
        active, given = _without_mask(args, kwargs)
        position = int(index)
        if 0 <= position < len(targets) and trace.state.lane.known(active).attr:
            return targets[position](*given[0], **given[1])
    if not isinstance(index, ArrayBase):
        return targets[scalar_index(index, len(targets), name)](*args, **kwargs)
    if not callees:
        raise ArrayValueError(
            message(name, "there are no targets", "pass at least one callable.")
        )
    calls = _Calls(name, callees, args, kwargs, type_traits.mask_t(type(index)))
    node = index_node(index, name)
    masks = calls.masks(node, len(targets))
    if mode is None:
        mode = "symbolic" if flags.symbolic_calls else "evaluated"
    if mode == "symbolic":
        return calls.symbolic(masks)
    refuse_in_region(name)
    return calls.evaluated(masks)


Masks = list[tuple[Callee, Node]]


class _Calls:
    """The callables of one switch and their common arguments."""

    def __init__(
        self,
        name: str,
        callees: list[Callee],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        mask_type: type[Any],
    ) -> None:
        self.name = name
        self.callees = callees
        self.active, self.arguments = _without_mask(args, kwargs)
        self.leaves = flatten(self.arguments, ("args", "kwargs"))
        self.lanes = 1
        self.results = Results(name, mask_type)

    def masks(self, index: Node, count: int) -> Masks:
        """Return for each callable the elements that select it."""
        active = trace.under_mask(self.active)
        self.lanes = trace.broadcast_size(AND, (index, active))
        if flags.debug:
            active = checks.in_bounds("switch", count, index, active)
        chosen = conditions(index, self.callees, count, active)
        masks = [trace.emit2(AND, c, active) for c in chosen]
        sized = [trace.resized(mask, self.lanes) for mask in masks]
        return list(zip(self.callees, sized, strict=True))

    def symbolic(self, masks: Masks) -> Any:
        """Trace each callable into a branch; its other side is the result so far."""
        wanted = [(c, m) for c, m in masks if m.op is not LITERAL or m.attr]
        for callee, mask in wanted or masks[:1]:
            self._branch(callee, mask)
        return self.results.result(self.lanes)

    def _branch(self, callee: Callee, mask: Node) -> None:
        # The condition of the region includes what masks indexing around it.
        with regions.scope(self.name, mask.size) as inner, trace.masked_only(None):
            values = [leaf.value for leaf in self.leaves]
            value, written = self._invoke(
                callee, values, lambda: versions_in(inner, self.name)
            )
        with regions.scope(self.name) as other:
            pass
        with regions.undone_on_error(inner):
            arrays = self.results.match(callee, value, mask)
            late = [(e, f) for e, f in arrays if id(f.value) in written]
            if late and inner.parent is not trace.ROOT:
                raise self._written_result(callee, late[0][0].name)
            traced = [(e, f) for e, f in arrays if id(f.value) not in written]
            outputs = (
                tuple(f.value._node for _, f in traced),
                tuple(e.known() for e, _ in traced),
            )
            _, nodes = regions.close_branch(mask, (inner, other), outputs)
        for (entry, _), node in zip(traced, nodes, strict=True):
            entry.node = node
        for entry, leaf in late:
            entry.node = trace.select(mask, leaf.value._node, entry.known())

    def _written_result(self, callee: Callee, name: str) -> StateError:
        return StateError(
            message(
                self.name,
                f"{callee} returns as '{name}' an array that it writes by index, "
                "and whose entries aren't known inside of symbolic control flow",
                "don't return it: the array itself shows what was written.",
            )
        )

    def _invoke(
        self,
        callee: Callee,
        values: list[Any],
        written: Callable[[], dict[int, Node]],
    ) -> tuple[Any, set[int]]:
        """Call a function and copy what it returns, so that changes don't reach it.

        Arguments that it changes in place get restored, unless by index. The arrays
        returned as they are, because they were written by index, come along.
        """
        arrays = [value for value in values if is_array(value)]
        before = {id(a): a._node for a in arrays}
        try:
            args, kwargs = rebuild(self.arguments, values)
            value = callee.function(*args, **kwargs)
            versions = written()
            before.update((k, v) for k, v in versions.items() if k in before)
            kept, late = [], set()
            for leaf in flatten((value,), ("",)):
                array = leaf.value
                if leaf.is_array and versions.get(id(array)) is array._node:
                    late.add(id(array))
                elif leaf.is_array:
                    array = with_node(type(array), array._node)
                kept.append(array)
            return rebuild((value,), kept)[0], late
        finally:
            for array in arrays:
                array._node = before[id(array)]

    def evaluated(self, masks: Masks) -> Any:
        """Call each function that has elements with just these."""
        arrays = [leaf.value._node for leaf in self.leaves if leaf.is_array]
        evaluate([*(mask for _, mask in masks), *arrays])
        for callee, mask in masks:
            if mask.op is LITERAL:
                chosen = trace.counter(self.lanes if mask.attr else 0)
            else:
                chosen = reductions.compress(mask)
            if chosen.size:
                self._subset(callee, mask, chosen)
        if self.results.first is None:
            callee, mask = masks[0]
            self._subset(callee, mask, trace.literal(UINT32, 0, 0))
        return self.results.result(self.lanes)

    def _subset(self, callee: Callee, mask: Node, chosen: Node) -> None:
        """Call a function with the entries at some positions; enter its results."""
        # Arrays that the callable indexes: it gets all of their entries.
        tables: set[int] = set()
        value = None
        while True:
            values, compressed = self._entries(chosen, tables)
            try:
                value = self._invoke_subset(callee, values, compressed, chosen.size)
                break
            except memory.IndexedArgument as used:
                if id(used.node) not in compressed:
                    raise
                tables.add(compressed[id(used.node)])
        is_whole = chosen.size == self.lanes
        for entry, leaf in self.results.match(callee, value, mask):
            node = leaf.value._node
            if node.size not in (1, chosen.size) and not (
                is_whole and chosen.size == 1
            ):
                raise self._wrong_size(
                    callee, f"'{entry.name}'", node.size, chosen.size
                )
            if is_whole:
                entry.node = node
                continue
            holder = with_node(type(leaf.value), entry.known())
            holder._node = trace.resized(holder._node, self.lanes)
            memory.write(
                holder, node, chosen, trace.make_true(1), "identity", "permute"
            )
            entry.node = holder._node

    def _entries(
        self, chosen: Node, tables: set[int]
    ) -> tuple[list[Any], dict[int, int]]:
        """Return the arguments at some positions, and which leaf a new node is."""
        compressed: dict[int, int] = {}
        values = []
        for k, leaf in enumerate(self.leaves):
            value = leaf.value
            is_full = leaf.is_array and value._node.size == self.lanes > 1
            if is_full and chosen.size < self.lanes and k not in tables:
                value = with_node(type(value), _own(entries(value._node, chosen)))
                compressed[id(value._node)] = k
            values.append(value)
        return values, compressed

    def _invoke_subset(
        self,
        callee: Callee,
        values: list[Any],
        compressed: dict[int, int],
        size: int,
    ) -> Any:
        outer = trace.state.guard

        def check(node: Node) -> None:
            if id(node) in compressed:
                raise memory.IndexedArgument(node)
            if outer is not None:
                outer(node)

        # Uniform effects happen once per element, as in symbolic mode.
        mask = trace.literal(BOOL, size > 0, size)
        with (
            memory.watched() as writes,
            memory.guarded(check),
            trace.masked_only(mask),
        ):
            value, _ = self._invoke(
                callee, values, lambda: {k: w.last for k, w in writes.items()}
            )
            for effect in _effects(writes.values()) if size < self.lanes else ():
                # With more elements, the mask itself refuses what doesn't fit.
                if effect.size > size == 1:
                    raise self._wrong_size(callee, "a write", effect.size, size)
            return value

    def _wrong_size(
        self, callee: Callee, name: str, size: int, expected: int
    ) -> StateError:
        return StateError(
            message(
                self.name,
                f"{callee} computes {name} of size {size} for {expected} elements",
                "pass arrays as arguments instead of referring to them from inside: "
                "in evaluated mode, callables get a part of the elements.",
            )
        )


def _own(node: Node) -> Node:
    """Return an equal node that stands for nothing else."""
    if node.op is LITERAL:
        return trace.make_root(LITERAL, node.type, node.size, node.attr)
    return trace.make(COPY, node.type, node.size, (node,), None)


def _effects(writes: Iterable[memory.Writes]) -> Iterator[Node]:
    """List the effects behind the last versions, as far as not yet evaluated."""
    for entry in writes:
        version = entry.last
        while version.op is WRITTEN:
            effect = version.deps[0]
            yield effect
            is_region = effect.op in REGIONS
            first = effect.attr.targets + version.attr if is_region else 0
            version = effect.deps[first]


def _without_mask(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Node, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Take the mask out of the arguments and leave True in its place."""
    given: Any = kwargs.get("active")
    if isinstance(given, bool):
        return trace.literal(BOOL, given), (args, {**kwargs, "active": True})
    if _is_mask(given):
        kwargs = {**kwargs, "active": type(given)(True)}
        return given._node, (args, kwargs)
    if args and _is_mask(args[-1]):
        mask = args[-1]
        return mask._node, ((*args[:-1], type(mask)(True)), kwargs)
    return trace.make_true(1), (args, kwargs)


def _is_mask(value: Any) -> bool:
    return is_array(value) and traits.is_mask_v(value)
