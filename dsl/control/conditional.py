"""`if_stmt`: conditionals over arrays, in scalar, symbolic and evaluated mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lumijit.compiler import regions, trace
from lumijit.compiler.evaluate import evaluate
from lumijit.compiler.ops.logic import NOT
from lumijit.compiler.ops.structural import LITERAL, WRITTEN
from lumijit.compiler.trace import Node, Scope
from lumijit.control.loop import check_mode
from lumijit.control.state import (
    Leaf,
    common_type,
    condition_node,
    flatten,
    inconsistent,
    rebuild,
    with_node,
    zeros_like,
)
from lumijit.rewriting.undefined import Undefined
from lumijit.runtime.config import flags
from lumijit.runtime.errors import StateError, message


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
    if mode is None:
        if isinstance(cond, bool) or not hasattr(cond, "_node"):
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
    if mode == "symbolic":
        return sides.symbolic(node, true_fn, false_fn)
    return sides.evaluated(node, true_fn, false_fn)


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

    def _run(self, function: Callable[..., Any]) -> Any:
        """Call one side; arrays that it changes in place get restored.

        Writes by index are no such changes: the scope takes care of them.
        """
        arrays = [f.value for f in self.arg_leaves if f.is_array]
        before = [a._node for a in arrays]
        writes = trace.state.scope.writes
        is_root = trace.state.scope is trace.ROOT
        copies = rebuild(self.args, [f.value for f in self.arg_leaves])
        try:
            value = function(*copies)
            kept = [self._keep(f, writes) for f in flatten((value,), ("",))]
            return rebuild((value,), kept)[0]
        finally:
            for array, node in zip(arrays, before, strict=True):
                written = is_root and array._node.op is WRITTEN
                if id(array) not in writes and not written:
                    array._node = node

    def _keep(self, leaf: Leaf, writes: dict[int, Any]) -> Any:
        """Return a leaf that later changes to the same array don't reach."""
        if not leaf.is_array or id(leaf.value) in writes:
            return leaf.value
        return with_node(type(leaf.value), leaf.value._node)

    def _align(self, yes: Any, no: Any) -> tuple[list[Leaf], list[Leaf]]:
        """List the leaves of both results; an undefined entry becomes zeros."""
        if type(yes) is tuple and type(no) is tuple and len(yes) == len(no):
            pairs = [_defined(a, b) for a, b in zip(yes, no, strict=True)]
            yes = tuple(a for a, _ in pairs)
            no = tuple(b for _, b in pairs)
        first, second = self._leaves(yes), self._leaves(no)
        self._check_structure(first, second)
        return first, second

    def _leaves(self, value: Any) -> list[Leaf]:
        if type(value) is tuple:
            labels = self.rv_labels or [f"result[{k}]" for k in range(len(value))]
            return flatten(value, labels)
        return flatten((value,), ("result",))

    def _check_structure(self, yes: list[Leaf], no: list[Leaf]) -> None:
        if [f.name for f in yes] != [f.name for f in no]:
            names = {f.name for f in yes} ^ {f.name for f in no}
            raise StateError(
                message(
                    self.name,
                    "the two branches return different structures "
                    f"(they differ in {', '.join(sorted(names))})",
                    "let both branches return the same PyTree.",
                )
            )

    def symbolic(
        self, cond: Node, true_fn: Callable[..., Any], false_fn: Callable[..., Any]
    ) -> Any:
        """Trace both sides into a region."""
        with regions.scope(self.name) as first:
            value = self._run(true_fn)
            try:
                held = _swap_writes(first)
                trace.state.scope = first.parent  # type: ignore[assignment]
                with regions.scope(self.name) as second:
                    other = self._run(false_fn)
                    yes, no = self._align(value, other)
                    pairs = [self._pair(f, g) for f, g in zip(yes, no, strict=True)]
                trace.state.scope = first
            except BaseException:
                trace.state.scope = first
                raise
            _restore_versions(first, held)
        arrays = [k for k, pair in enumerate(pairs) if isinstance(pair, tuple)]
        moved: dict[int, Any] = {}
        for k in arrays:
            for node, inner, leaf in (
                (pairs[k][0], first, yes[k]),
                (pairs[k][1], second, no[k]),
            ):
                if node.op is WRITTEN and node.scope is inner:
                    moved[k] = leaf.value
        plain = [k for k in arrays if k not in moved]
        _, results = regions.close_branch(
            cond,
            (first, second),
            (
                tuple(pairs[k][0] for k in plain),
                tuple(pairs[k][1] for k in plain),
            ),
        )
        finals = [p if not isinstance(p, tuple) else None for p in pairs]
        finals = [_unwrap(p) for p in finals]
        for k, node in zip(plain, results, strict=True):
            finals[k] = with_node(self._type(yes[k].value, no[k].value), node)
        for k, holder in moved.items():
            finals[k] = holder
        return self._join(_merged(value, other), finals)

    def evaluated(
        self, cond: Node, true_fn: Callable[..., Any], false_fn: Callable[..., Any]
    ) -> Any:
        """Run both sides on all elements and blend."""
        evaluate([cond])
        with trace.masked(cond):
            value = self._run(true_fn)
        with trace.masked(trace.emit1(NOT, cond)):
            other = self._run(false_fn)
        yes, no = self._align(value, other)
        finals: list[Any] = []
        for f, g in zip(yes, no, strict=True):
            pair = self._pair(f, g)
            if not isinstance(pair, tuple):
                finals.append(_unwrap(pair))
            elif pair[0] is pair[1]:
                finals.append(f.value)
            elif pair[0].op is WRITTEN or pair[1].op is WRITTEN:
                finals.append(g.value)
            else:
                node = trace.select(cond, *pair)
                finals.append(with_node(self._type(f.value, g.value), node))
        return self._join(_merged(value, other), finals)

    def _type(self, yes: Any, no: Any) -> type[Any]:
        if type(yes) is type(no):
            return type(yes)
        return common_type(yes, no, self.mask_type) or type(yes)

    def _pair(self, yes: Leaf, no: Leaf) -> Any:
        """Return the two nodes to blend, or what both sides agree on."""
        a, b = yes.value, no.value
        if yes.is_array and no.is_array and type(a) is type(b):
            return a._node, b._node
        if not yes.is_array and not no.is_array and (a is b or _agree(a, b)):
            return _Agreed(a)
        cls = common_type(a, b, self.mask_type)
        if cls is not None:
            nodes = [v._node if type(v) is cls else cls(v)._node for v in (a, b)]
            return nodes[0], nodes[1]
        if not self.strict and not yes.is_array and not no.is_array:
            return _Agreed(a)
        raise inconsistent(
            self.name,
            yes.name,
            a,
            b,
            f"let both branches give '{yes.name}' the same array type.",
        )

    def _join(self, value: Any, finals: list[Any]) -> Any:
        if type(value) is tuple:
            return rebuild(value, finals)
        return rebuild((value,), finals)[0]


class _Agreed:
    """A Python object that both sides return."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _defined(a: Any, b: Any) -> tuple[Any, Any]:
    """Replace an undefined entry by zeros like the other side's."""
    if isinstance(a, Undefined) and not isinstance(b, Undefined):
        return zeros_like(b), b
    if isinstance(b, Undefined) and not isinstance(a, Undefined):
        return a, zeros_like(a)
    return a, b


def _merged(yes: Any, no: Any) -> Any:
    """Return the structure of the result: the entries that are defined."""
    if type(yes) is tuple and type(no) is tuple:
        return tuple(
            b if isinstance(a, Undefined) else a for a, b in zip(yes, no, strict=True)
        )
    return yes


def _unwrap(entry: Any) -> Any:
    return entry.value if isinstance(entry, _Agreed) else entry


def _agree(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:
        return False


def _swap_writes(scope: Scope) -> dict[int, Node]:
    """Give arrays their former versions while the other side is traced."""
    held = {key: holder._node for key, (holder, _) in scope.writes.items()}
    regions.restore_writes(scope)
    return held


def _restore_versions(scope: Scope, held: dict[int, Node]) -> None:
    """Note the versions that the first side had made (close_branch replaces them)."""
    for key, node in held.items():
        holder, _ = scope.writes[key]
        holder._node = node
