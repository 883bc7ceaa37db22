"""`if_stmt`: conditionals over arrays, in scalar, symbolic and evaluated mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lumijit.compiler import memory, regions, trace
from lumijit.compiler.evaluate import evaluate
from lumijit.compiler.ops.logic import NOT
from lumijit.compiler.ops.structural import LITERAL
from lumijit.compiler.trace import Node
from lumijit.control.outside import watched
from lumijit.control.recursion import LEFT_OUT, left_out
from lumijit.control.state import (
    NUMBERS,
    Leaf,
    check_contents,
    check_depth,
    check_mode,
    check_writes,
    common_type,
    condition_node,
    contents,
    describe,
    flatten,
    is_array,
    rebuild,
    refuse_in_region,
    same_object,
    versions_in,
    with_node,
    zeros_like,
)
from lumijit.rewriting.recursion import BoundReached
from lumijit.rewriting.undefined import Undefined
from lumijit.runtime.config import flags
from lumijit.runtime.errors import StateError, message
from lumijit.runtime.tracebacks import hides_frames


@hides_frames
def if_stmt(
    args: tuple[Any, ...],
    cond: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    arg_labels: Sequence[str] = (),
    rv_labels: Sequence[str] = (),
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
) -> Any:
    """Return `true_fn(*args)` or `false_fn(*args)`, per element.

    The same in plain Python, for one element:

        true_fn(*args) if cond else false_fn(*args)

    Args:
        args: what the functions get; arrays and PyTrees of arrays.
        cond: a bool or a Bool array.
        true_fn: called for the elements whose condition is set.
        false_fn: called for the others; returns the same types.
        arg_labels: names of the arguments, for messages.
        rv_labels: names of the entries of a returned tuple, for messages.
        label: name of the conditional, for messages and the generated code.
        mode: "scalar", "symbolic", "evaluated", or None to choose by the type of
            the condition and flag SymbolicConditionals.
        strict: raise an error if the functions return different Python objects.

    Raises:
        StateError: the functions return incompatible values.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> x = Float(-2, 3)
    >>> dr.if_stmt((x,), x > 0, lambda x: x * 10, lambda x: -x)
    [2, 30]
    """
    return run_if(
        args, cond, true_fn, false_fn, arg_labels, rv_labels, label, mode, strict, True
    )


def run_if(
    args: tuple[Any, ...],
    cond: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    arg_labels: Sequence[str] = (),
    rv_labels: Sequence[str] = (),
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
    is_watched: bool = False,
) -> Any:
    """Do what `if_stmt` does; `@syntax` watches its functions itself."""
    check_mode(mode, "if_stmt")
    if not isinstance(args, tuple):
        raise StateError(
            message(
                "if_stmt",
                f"'args' must be a tuple (got {type(args).__name__})",
                "write args=(a, b), or args=(a,) for a single argument.",
            )
        )
    name = label or "if_stmt"
    check_depth(cond, name)
    if trace.state.lane is not None:
        mode = "scalar"
    if mode is None:
        if isinstance(cond, bool) or not is_array(cond):
            mode = "scalar"
        else:
            mode = "symbolic" if flags.symbolic_conditionals else "evaluated"
    if mode == "scalar":
        return true_fn(*args) if cond else false_fn(*args)
    if isinstance(cond, bool):
        return true_fn(*args) if cond else false_fn(*args)
    node = condition_node(cond, name)
    if node.op is LITERAL and node.size == 1:
        return true_fn(*args) if node.attr else false_fn(*args)
    sides = _Sides(args, arg_labels, rv_labels, name, strict, type(cond))
    if mode == "evaluated":
        refuse_in_region(name)
    if is_watched:
        true_fn = watched(true_fn, name, "the true branch", arg_labels)
        false_fn = watched(false_fn, name, "the false branch", arg_labels)
    run = sides.symbolic if mode == "symbolic" else sides.evaluated
    try:
        return run(node, true_fn, false_fn)
    except BoundReached as reached:
        # One side recurses too deeply: it is left out, unless both do.
        if sides.running is true_fn:
            return run(node, left_out(reached), false_fn)
        return run(node, true_fn, left_out(reached))


class _Sides:
    """Runs both functions on the same arguments and joins what they return."""

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
        self.arg_leaves = flatten(args, arg_labels)
        self.rv_labels = rv_labels
        self.name = name
        self.strict = strict
        self.mask_type = mask_type
        self.sources: dict[int, tuple[Any, Any]] = {}
        self.running: Callable[..., Any] | None = None

    def _run(
        self, function: Callable[..., Any], written: Callable[[], dict[int, Node]]
    ) -> Any:
        """Call one side and copy what it returns, so that later changes don't reach it.

        Arguments that it changes in place get restored. Writes by index are no such
        changes: `written` gives the last versions of the arrays written so far, and
        such arrays are returned as they are.
        """
        self.running = function
        objects = contents(self.arg_leaves)
        arrays = [f.value for f in self.arg_leaves if f.is_array]
        before = {id(a): a._node for a in arrays}
        try:
            value = function(*rebuild(self.args, [f.value for f in self.arg_leaves]))
            check_contents(self.name, objects)
            versions = written()
            before.update((k, v) for k, v in versions.items() if k in before)
            kept = []
            for leaf in flatten((value,), ("",)):
                array = leaf.value
                if leaf.is_array:
                    kept.append(self._keep(array, before, versions))
                else:
                    kept.append(array)
            return rebuild((value,), kept)[0]
        finally:
            for array in arrays:
                array._node = before[id(array)]

    def _keep(
        self, array: Any, before: dict[int, Node], versions: dict[int, Node]
    ) -> Any:
        """Return an array if it was written by index, else a copy."""
        node = array._node
        is_version = versions.get(id(array)) is node
        kept = array if is_version else with_node(type(array), node)
        if before.get(id(array), node) is node:
            self.sources[id(kept)] = (kept, array)
        return kept

    def source(self, kept: Any) -> Any:
        """Return the array that a side handed back but for writes by index."""
        return self.sources.get(id(kept), (None, None))[1]

    def stand_in(self, value: Any) -> Any:
        """Return what a side that is left out has for results of the other.

        Arrays from outside of the branch stay; what was computed is replaced by
        zeros. Nobody reads them: the elements that would are reported.
        """
        depth = max(trace.state.scope.depth, 1)
        kept = []
        for leaf in flatten((value,), ("",)):
            source = self.source(leaf.value) if leaf.is_array else None
            same = zeros_like(leaf.value)
            if source is leaf.value:
                # It has been written to, and is what both sides return.
                self.sources[id(same)] = (same, source)
            elif source is not None and source._node.scope.depth < depth:
                same = with_node(type(source), source._node)
            kept.append(same)
        return rebuild((value,), kept)[0]

    def symbolic(
        self, cond: Node, true_fn: Callable[..., Any], false_fn: Callable[..., Any]
    ) -> Any:
        """Trace both sides into a region."""
        with regions.scope(self.name, cond.size) as first:
            yes = self._run(true_fn, lambda: versions_in(first, self.name))
            # The other side sees arrays as they were before this one wrote to them.
            held = {key: holder._node for key, (holder, _) in first.writes.items()}
            regions.restore_writes(first)
            trace.state.scope = first.parent or trace.ROOT
            with regions.scope(self.name, cond.size, [first]) as second:
                no = self._run(false_fn, lambda: versions_in(second, self.name))
                merge = _Merge(self, yes, no)
                is_root = first.parent is trace.ROOT
                merge.share(set(first.writes), set(second.writes), is_root)
            for key, node in held.items():
                first.writes[key][0]._node = node
        wanted, nodes = merge.wanted()
        with regions.undone_on_error(first, second):
            _, results = regions.close_branch(
                cond,
                (first, second),
                (tuple(a for a, _ in nodes), tuple(b for _, b in nodes)),
            )
        for k, node in zip(wanted, results, strict=True):
            merge.enter(k, node)
        for k in merge.late:
            merge.enter(k, trace.select(cond, *merge.current(k)))
        return merge.result()

    def evaluated(
        self, cond: Node, true_fn: Callable[..., Any], false_fn: Callable[..., Any]
    ) -> Any:
        """Run both sides on all elements and blend; if one raises, undo its writes."""
        evaluate([cond])
        with memory.watched():
            with memory.watched() as first, trace.masked(cond):
                yes = self._run(true_fn, lambda: _last_versions(first))
            opposite = trace.emit1(NOT, cond)
            with memory.watched() as second, trace.masked(opposite):
                no = self._run(false_fn, lambda: _last_versions(second))
            merge = _Merge(self, yes, no)
            merge.share(set(first), set(second), True)
            wide = [
                (merge.yes[k].name, max(merge.pairs[k], key=lambda node: node.size))
                for k in merge.traced
                if merge.pairs[k][0] is not merge.pairs[k][1]
            ]
            check_writes(self.name, cond, (*first.values(), *second.values()), wide)
        for k in (*merge.traced, *merge.late):
            merge.enter(k, trace.select(cond, *merge.current(k)))
        return merge.result()


class _Merge:
    """What both sides returned, leaf by leaf.

    `traced` are the leaves whose two values get blended. `late` are those where a
    side returns an array that it wrote to, and the other one something else: its
    contents are known once both sides have run.
    """

    def __init__(self, sides: _Sides, yes: Any, no: Any) -> None:
        self.sides = sides
        if yes is LEFT_OUT:
            yes = sides.stand_in(no)
        elif no is LEFT_OUT:
            no = sides.stand_in(yes)
        if type(yes) is tuple and type(no) is tuple and len(yes) == len(no):
            entries = [_defined(a, b) for a, b in zip(yes, no, strict=True)]
            yes = tuple(a for a, _ in entries)
            no = tuple(b for _, b in entries)
        self.value = yes
        self.yes, self.no = self._leaves(yes), self._leaves(no)
        self._check_structure()
        self.finals: list[Any] = []
        self.types: dict[int, type[Any]] = {}
        self.pairs: dict[int, tuple[Node, Node]] = {}
        for k, (a, b) in enumerate(zip(self.yes, self.no, strict=True)):
            self.finals.append(self._agreed(k, a, b))
        self.traced = list(self.pairs)
        self.late: dict[int, tuple[bool, bool]] = {}

    def _leaves(self, value: Any) -> list[Leaf]:
        if type(value) is tuple:
            given = self.sides.rv_labels
            return flatten(
                value,
                [
                    given[k] if k < len(given) else f"result[{k}]"
                    for k in range(len(value))
                ],
            )
        return flatten((value,), ("result",))

    def _check_structure(self) -> None:
        names = {f.name for f in self.yes} ^ {f.name for f in self.no}
        if not names and len(self.yes) == len(self.no):
            return
        shown = ", ".join(f"'{n}'" for n in sorted(names))
        raise StateError(
            message(
                self.sides.name,
                "the two branches return different structures "
                f"({len(self.yes)} and {len(self.no)} leaves; they differ in {shown})",
                "let both branches return the same PyTree.",
            )
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
        if len({a._node.size, b._node.size} - {1}) > 1:
            raise self._disagreement(yes.name, a, b, "size")
        self.types[k] = cls
        self.pairs[k] = (a._node, b._node)
        return None

    def _disagreement(self, name: str, yes: Any, no: Any, what: str) -> StateError:
        has_arrays = any(is_array(v) or isinstance(v, NUMBERS) for v in (yes, no))
        return StateError(
            message(
                self.sides.name,
                f"the branches disagree on '{name}' (the true branch gives "
                f"{describe(yes)}, the false branch {describe(no)})",
                f"let both branches give '{name}' the same {what}."
                if has_arrays
                else f"a Python object can't differ between elements: use arrays, or "
                f"lumijit.switch to choose between functions, in place of '{name}'.",
            )
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
        computed = getattr(self.finals[k], "_node", None)
        yes = self.yes[k].value._node if is_first else computed or yes
        no = self.no[k].value._node if is_second else computed or no
        return yes, no

    def enter(self, k: int, node: Node) -> None:
        """Enter a blended leaf."""
        self.finals[k] = with_node(self.types[k], node)

    def result(self) -> Any:
        """Put the results together."""
        if type(self.value) is tuple:
            return rebuild(self.value, self.finals)
        return rebuild((self.value,), self.finals)[0]


def _defined(a: Any, b: Any) -> tuple[Any, Any]:
    """Replace an undefined entry by zeros like the other side's."""
    if type(a) is Undefined and type(b) is not Undefined:
        return zeros_like(b), b
    if type(b) is Undefined and type(a) is not Undefined:
        return a, zeros_like(a)
    return a, b


def _last_versions(writes: dict[int, memory.Writes]) -> dict[int, Node]:
    return {key: entry.last for key, entry in writes.items()}
