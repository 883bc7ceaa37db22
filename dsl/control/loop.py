"""`while_loop`: loops over arrays, in scalar, symbolic and evaluated mode.

The symbolic mode traces the body once more whenever the first trace shows that a
state variable is no state after all (it is only indexed, or stays constant), or
that a Python number changes and must become an array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lumijit.compiler import memory, regions, trace
from lumijit.compiler.ops.structural import LITERAL, WRITTEN
from lumijit.compiler.trace import Node
from lumijit.control.state import (
    NUMBERS,
    Leaf,
    call,
    common_type,
    condition_node,
    flatten,
    inconsistent,
    is_late,
    rebuild,
    same_structure,
    same_value,
    with_node,
    zeros_like,
)
from lumijit.control.wavefront import EvaluatedLoop
from lumijit.runtime.config import flags
from lumijit.runtime.errors import ArrayValueError, StateError, message

MODES = ("scalar", "symbolic", "evaluated", None)
MAX_TRACES = 16
State = tuple[Any, ...]


def check_mode(mode: str | None, construct: str) -> None:
    """Refuse an unknown mode."""
    if mode not in MODES:
        raise ArrayValueError(
            message(
                construct,
                f"unknown mode {mode!r}",
                "use 'scalar', 'symbolic', 'evaluated' or None.",
            )
        )


def while_loop(
    state: State,
    cond: Callable[..., Any],
    body: Callable[..., State],
    labels: Sequence[str] = (),
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
    compress: bool | None = None,
    max_iterations: int | None = None,
) -> State:
    """Repeat `state = body(*state)` while `cond(*state)` holds, per element.

    The same in plain Python, for one element:

        while cond(*state):
            state = body(*state)

    Args:
        state: the state variables: arrays and PyTrees of arrays.
        cond: returns a bool or a Bool array; must not change anything.
        body: returns the new state, a tuple of the same structure and types.
        labels: names of the state variables, for messages.
        label: name of the loop, for messages and the generated code.
        mode: "scalar", "symbolic", "evaluated", or None to choose by the type of
            the condition and flag SymbolicLoops.
        strict: raise an error if a Python object in the state changes.
        compress: drop finished elements after every iteration of an evaluated
            loop; None asks flag CompressLoops.
        max_iterations: an upper bound on the iterations. It is not needed.

    Returns:
        The final state.

    Raises:
        StateError: a state variable changes its type, size or structure.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt32
    >>> i, n = UInt32(0, 1, 2), UInt32(10)
    >>> dr.while_loop((i,), lambda i: i < n, lambda i: (i + 4,))[0]
    [12, 13, 10]
    """
    check_mode(mode, "while_loop")
    if not isinstance(state, tuple):
        raise StateError(
            message(
                "while_loop",
                f"'state' must be a tuple (got {type(state).__name__})",
                "write state=(a, b), or state=(a,) for a single variable.",
            )
        )
    del max_iterations
    name = label or "while_loop"
    first: Any = None
    if mode is None:
        first = cond(*state)
        if isinstance(first, bool) or not hasattr(first, "_node"):
            return _scalar(state, cond, body, name, first)
        mode = "symbolic" if flags.symbolic_loops else "evaluated"
    if mode == "scalar":
        return _scalar(state, cond, body, name, cond(*state))
    if mode == "symbolic":
        return _SymbolicLoop(state, cond, body, labels, name, strict).run()
    use_compression = flags.compress_loops if compress is None else compress
    loop = EvaluatedLoop(cond, body, labels, name, strict)
    if use_compression:
        return loop.run_compressed(state)
    return loop.run(state)


def _scalar(
    state: State,
    cond: Callable[..., Any],
    body: Callable[..., State],
    name: str,
    holds: Any,
) -> State:
    while holds:
        state = call(body, state, name)
        holds = cond(*state)
    return state


class _Retrace(Exception):
    """The body must be traced again, because what is known of a leaf changed."""


class _SymbolicLoop:
    """Traces one loop into a region."""

    def __init__(
        self,
        state: State,
        cond: Callable[..., Any],
        body: Callable[..., State],
        labels: Sequence[str],
        name: str,
        strict: bool,
    ) -> None:
        self.state = state
        self.cond = cond
        self.body = body
        self.labels = labels
        self.name = name
        self.strict = strict
        self.leaves = flatten(state, labels)
        # Leaves handed to the body as they are: arrays that are only indexed or
        # written by index, and constants.
        self.fixed: set[int] = set()
        self.mask_type: type[Any] | None = None

    def run(self) -> State:
        """Trace until what is known of the state settles; return the final state."""
        for _ in range(MAX_TRACES + len(self.leaves)):
            try:
                return self._attempt()
            except _Retrace:
                continue
        raise StateError(
            message(
                self.name,
                "the types of the loop state don't settle",
                "start every state variable with the array type that it ends with.",
            )
        )

    def _arguments(self) -> tuple[list[Any], dict[int, Node]]:
        values: list[Any] = []
        args: dict[int, Node] = {}
        for k, leaf in enumerate(self.leaves):
            if leaf.is_array and k not in self.fixed:
                node = leaf.value._node
                args[k] = regions.argument(node.type, node.size, len(args))
                values.append(with_node(type(leaf.value), args[k]))
            else:
                values.append(leaf.value)
        return values, args

    def _attempt(self) -> State:
        with regions.scope(self.name) as inner:
            values, args = self._arguments()
            state = rebuild(self.state, values)
            try:
                condition = self.cond(*state)
                cond_node = condition_node(condition, self.name)
                self.mask_type = type(condition)
                self._check_progress(cond_node)
                returned = call(self.body, state, self.name)
                self._define(returned, inner)
                after = flatten(returned, self.labels)
            except memory.IndexedArgument as used:
                raise self._fix_indexed(used.node, args) from None
            outputs = self._outputs(after, args, inner)
        order = list(args)
        _, results = regions.close_loop(
            inner,
            tuple(self.leaves[k].value._node for k in order),
            tuple(args[k] for k in order),
            cond_node,
            tuple(outputs[k] for k in order),
        )
        finals: list[Any] = []
        by_leaf = dict(zip(order, results, strict=True))
        for k, leaf in enumerate(self.leaves):
            if k in by_leaf:
                finals.append(with_node(type(leaf.value), by_leaf[k]))
            else:
                finals.append(self.static_results.get(k, leaf.value))
        return rebuild(self.state, finals)

    def _define(self, returned: State, inner: trace.Scope) -> None:
        """Start state variables that had no value before with zeros."""
        pairs = list(zip(self.state, returned, strict=True))
        if not any(is_late(old, new) for old, new in pairs):
            return
        self.state = tuple(
            zeros_like(new) if is_late(o, new) else o for o, new in pairs
        )
        self.leaves = flatten(self.state, self.labels)
        self.fixed.clear()
        regions.restore_writes(inner)
        raise _Retrace

    def _check_progress(self, cond_node: Node) -> None:
        """Refuse a loop whose condition no iteration can change."""
        if cond_node.op is LITERAL and cond_node.attr:
            raise StateError(
                message(
                    self.name,
                    "the loop would never end: its condition is the constant True "
                    "and doesn't depend on the loop state",
                    "compute the condition from an array that the body changes "
                    "(Python numbers aren't tracked; use UInt32(0) as a counter).",
                )
            )

    def _fix_indexed(self, node: Node, args: dict[int, Node]) -> Exception:
        """Hand an indexed argument to the body as the array that it is."""
        for k, arg in args.items():
            if arg is node:
                self.fixed.add(k)
                return _Retrace()
        return StateError(
            message(
                self.name,
                "an array that changes from iteration to iteration is indexed",
                "use lumijit.alloc_local, or mode='evaluated'.",
            )
        )

    def _outputs(
        self,
        after: list[Leaf],
        args: dict[int, Node],
        inner: trace.Scope,
    ) -> dict[int, Node]:
        """Check the new state against the old and return its nodes."""
        self._check_structure(after)
        outputs: dict[int, Node] = {}
        self.static_results: dict[int, Any] = {}
        again = False
        for k, (leaf, new) in enumerate(zip(self.leaves, after, strict=True)):
            if k not in args:
                again |= self._static_leaf(k, leaf, new, inner)
                continue
            node = self._array_leaf(leaf, new)
            constant = node is args[k] and leaf.value._node.op is LITERAL
            if constant and flags.optimize_loops:
                self.fixed.add(k)
                again = True
            outputs[k] = node
        if again:
            regions.restore_writes(inner)
            raise _Retrace
        return outputs

    def _check_structure(self, after: list[Leaf]) -> None:
        if same_structure(self.leaves, after):
            return
        names = {leaf.name for leaf in self.leaves} ^ {leaf.name for leaf in after}
        shown = ", ".join(sorted(names)) or "the order of the entries"
        raise StateError(
            message(
                self.name,
                f"the structure of the loop state changed (differs in {shown})",
                "let the body return PyTrees of the structure they had before.",
            )
        )

    def _array_leaf(self, leaf: Leaf, new: Leaf) -> Node:
        cls = type(leaf.value)
        value = new.value
        if isinstance(value, NUMBERS):
            if common_type(leaf.value, value, cls) is None:
                raise inconsistent(self.name, leaf.name, leaf.value, value)
            value = cls(value)
        if type(value) is not cls:
            raise inconsistent(self.name, leaf.name, leaf.value, value)
        sizes = {leaf.value._node.size, value._node.size} - {1}
        if len(sizes) > 1:
            raise inconsistent(
                self.name,
                leaf.name,
                leaf.value,
                value,
                f"keep the size of '{leaf.name}' the same in every iteration.",
            )
        result: Node = value._node
        return result

    def _static_leaf(self, k: int, leaf: Leaf, new: Leaf, inner: trace.Scope) -> bool:
        """Check a leaf that isn't traced; tell whether to trace again with it."""
        old, value = leaf.value, new.value
        if leaf.is_array:
            return self._fixed_leaf(k, leaf, value, inner)
        if value is old or same_value(old, value):
            return False
        assert self.mask_type is not None
        cls = common_type(old, value, self.mask_type)
        if cls is not None:
            leaf.value = cls(old)
            return True
        if self.strict:
            raise inconsistent(self.name, leaf.name, old, value)
        self.static_results[k] = value
        return False

    def _fixed_leaf(self, k: int, leaf: Leaf, value: Any, inner: trace.Scope) -> bool:
        node = getattr(value, "_node", None)
        if node is leaf.value._node:
            return False
        written = node is not None and node.op is WRITTEN and node.scope is inner
        if written:
            return False
        # The array was taken for a constant, but the body replaces it.
        self.fixed.discard(k)
        if isinstance(value, NUMBERS) or type(value) is type(leaf.value):
            return True
        raise inconsistent(self.name, leaf.name, leaf.value, value)
