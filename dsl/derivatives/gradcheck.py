"""`gradcheck`: are derivatives what differences of the function say?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.compiler.derive import rules, traversal
from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.vertices import Vertex
from lumijit.derivatives.functional import Call
from lumijit.derivatives.gradients import (
    detach,
    mapped,
    tracked_leaves,
    with_same_nodes,
)
from lumijit.initialize import check_callable
from lumijit.pytree import tree_leaves, tree_map
from lumijit.runtime.config import JitFlag, flags, scoped_set_flag
from lumijit.runtime.dtypes import FLOAT64
from lumijit.runtime.errors import ArrayTypeError, DerivativeError
from lumijit.type_traits import diff_array_t, float64_array_t

# What functions here return isn't all that they do (see `syntax.meanings`).
HAS_EFFECTS = True

Function = Callable[..., Any]
Matrix = np.ndarray[Any, Any]
_FLAGS = (JitFlag.SymbolicLoops, JitFlag.SymbolicConditionals, JitFlag.SymbolicCalls)
# One-sided differences that differ by more than this are those of a kink or jump.
_KINK = 1e-2


@dataclass(frozen=True)
class _Tolerance:
    rtol: float
    atol: float

    def agrees(self, found: Matrix, expected: Matrix) -> Matrix:
        """Tell where two figures agree; there is nothing to say about NaN."""
        with np.errstate(invalid="ignore"):
            size = np.maximum(np.abs(found), np.abs(expected))
            is_near = np.abs(found - expected) <= self.atol + self.rtol * size
        agrees: Matrix = is_near | ~np.isfinite(expected)
        return agrees


def gradcheck(
    function: Function,
    *inputs: Any,
    eps: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> bool:
    """Compare derivatives in forward and reverse mode with central differences.

    The function runs in double precision, with symbolic control flow and with
    evaluated. Each entry of each input is moved, and each entry of the results is
    differentiated: pass small arrays, and none where the function has a kink.

    Args:
        function: takes and returns arrays and PyTrees, the same at each call.
        *inputs: its arguments. Arrays of floats become those of `Float64` in the
            `.ad` namespace; other values are passed on as they are.
        eps: how far entries are moved, relative to those larger than 1.
        rtol: how far figures may differ, relative to the larger one.
        atol: and in absolute terms.

    Returns:
        True.

    Raises:
        ArrayTypeError: if no input can be differentiated.
        DerivativeError: if figures differ; it names the entries, the figures, who
            disagrees and, if it can be told, the operation.

    >>> import lumijit as dr
    >>> from lumijit.llvm.ad import Float
    >>> dr.gradcheck(lambda x, y: dr.sum(dr.sin(x) * y), Float(1, 2), Float(3))
    True
    """
    check_callable("lumijit.gradcheck", "the function", function)
    variables = tuple(tree_map(_in_double, value) for value in inputs)
    if not list(tracked_leaves(variables)):
        raise ArrayTypeError(
            "lumijit.gradcheck",
            "no input is an array of floats of a namespace that tracks derivatives",
            "pass arrays of floats, such as lumijit.llvm.ad.Float.",
        )
    for is_symbolic in (True, False):
        with _control_flow(is_symbolic):
            _Check(function, variables, eps, _Tolerance(rtol, atol)).compare()
    return True


def _in_double(value: Any) -> Any:
    if not isinstance(value, ArrayBase) or not value._spec.dtype.is_float:
        return value
    cls: Any = float64_array_t(diff_array_t(type(value)))
    return cls(detach(value, preserve_type=False))


@contextmanager
def _control_flow(is_symbolic: bool) -> Iterator[None]:
    with ExitStack() as stack:
        for flag in _FLAGS:
            stack.enter_context(scoped_set_flag(flag, is_symbolic))
        yield


class _Check:
    """One function at one place, with control flow of one kind.

    Figures for derivatives have a row for each entry of the results, and a column for
    each of the inputs.
    """

    def __init__(
        self,
        function: Function,
        variables: tuple[Any, ...],
        eps: float,
        tolerance: _Tolerance,
    ) -> None:
        self._function = function
        self._variables = variables
        self._tolerance = tolerance
        self._leaves = [leaf.numpy() for leaf in tracked_leaves(variables)]
        entries = np.concatenate(self._leaves)
        self._steps = eps * np.maximum(1.0, np.abs(entries))

    def compare(self) -> None:
        """Raise unless all figures agree."""
        construct = "lumijit.gradcheck"
        call = Call(construct, lambda v: self._function(*v), [self._variables])
        forward = _passes(call.push, call.variables).T
        reverse = _passes(call.pull, call.outputs).reshape(-1, len(self._steps))
        columns = range(len(self._steps))
        above, below = (
            np.stack([self._moved(k, sign) for k in columns], axis=1)
            for sign in (1.0, -1.0)
        )
        with np.errstate(invalid="ignore"):
            expected = (above - below) / (2 * self._steps)
        wrong = [~self._tolerance.agrees(f, expected) for f in (forward, reverse)]
        found = np.argwhere(wrong[0] | wrong[1])
        if len(found):
            row, column = (int(k) for k in found[0])
            modes = ("forward", "reverse")
            raise self._error(
                (row, column),
                [expected[row, column], forward[row, column], reverse[row, column]],
                [
                    m
                    for m, where in zip(modes, wrong, strict=True)
                    if where[row, column]
                ],
                call.outputs,
            )

    def _moved(self, column: int, sign: float) -> Matrix:
        """Return the results, with one entry of the inputs moved."""
        variables = with_same_nodes(self._variables)
        start = 0
        for leaf, values in zip(tracked_leaves(variables), self._leaves, strict=True):
            moved = values.copy()
            if start <= column < start + len(values):
                moved[column - start] += sign * self._steps[column]
            start += len(values)
            leaf._become(type(leaf)(moved)._node)
        return _entries(self._function(*variables))

    def _error(
        self,
        place: tuple[int, int],
        figures: list[float],
        modes: list[str],
        outputs: Any,
    ) -> DerivativeError:
        row, column = place
        expected, forward, reverse = figures
        problem = (
            f"the derivative of {_entry(outputs, 'result', row)} by "
            f"{_entry(self._variables, 'inputs', column)} should be {expected:.9g}, as "
            f"differences say, but {' and '.join(modes)} mode disagree"
            f"{'s' * (len(modes) == 1)} (forward: {forward:.9g}, reverse: "
            f"{reverse:.9g}, with {self._control_flow()} control flow)"
        )
        suspect = _suspect(outputs, self._tolerance)
        if suspect:
            problem += f"; the operation {suspect!r} disagrees with its own differences"
        fix = "mend the derivative"
        middle = _entries(self._function(*with_same_nodes(self._variables)))[row]
        sides = [
            sign * (self._moved(column, sign)[row] - middle) / self._steps[column]
            for sign in (-1.0, 1.0)
        ]
        if abs(sides[1] - sides[0]) > _KINK * (1 + abs(expected)):
            problem += f"; to either side, differences are {sides[0]:.4g} and "
            problem += f"{sides[1]:.4g}"
            fix = "move the inputs away from the kink or jump, if there is one"
        return DerivativeError("lumijit.gradcheck", problem, f"{fix}.")

    @staticmethod
    def _control_flow() -> str:
        return "symbolic" if flags.symbolic_loops else "evaluated"


def _passes(run: Callable[[Any], Any], source: Any) -> Matrix:
    """Pass each entry of the source on by itself; return what arrives, row by row."""
    rows = []
    for k, leaf in enumerate(tracked_leaves(source)):
        for place in range(len(leaf)):
            seeds = mapped(source, _zeros)
            values = np.zeros(len(leaf))
            values[place] = 1
            list(tracked_leaves(seeds))[k]._become(type(leaf)(values)._node)
            rows.append(_entries(run(seeds)))
    return np.array(rows)


def _entries(value: Any) -> Matrix:
    leaves = [leaf.numpy() for leaf in tracked_leaves(value)]
    return np.concatenate([np.zeros(0), *leaves])


def _zeros(node: Node) -> Node:
    return trace.literal(node.type, node.type.wrap(0), node.size)


def _entry(value: Any, name: str, position: int) -> str:
    """Return the name of an entry of the arrays in a PyTree."""
    for path, leaf in tree_leaves(value, name):
        parts = list(tracked_leaves(leaf))
        for k, part in enumerate(parts):
            if position < len(part):
                component = f" (component {k})" if len(parts) > 1 else ""
                return f"entry {position} of {path}{component}"
            position -= len(part)
    raise IndexError(position)


def _suspect(outputs: Any, tolerance: _Tolerance) -> str | None:
    """Return the first operation whose own derivative isn't right, if there is one."""
    leaves = [leaf for leaf in tracked_leaves(outputs) if leaf._node.vertex is not None]
    found = traversal.depended_on([leaf._node.vertex for leaf in leaves])
    with vertices.selecting(vertices.NOTHING):
        for vertex in found:
            if vertex.op is None or vertex.is_cut or vertex.type is not FLOAT64:
                continue
            cls = float64_array_t(type(leaves[0]))
            for k, parent in zip(vertex.inputs, vertex.parents, strict=True):
                rule = _Rule(vertex, k, cls)
                if parent.type is FLOAT64 and not rule.is_right(tolerance):
                    return str(vertex.op.name)
    return None


class _Rule:
    """The derivative of one operation by one of its operands, where it was used."""

    def __init__(self, vertex: Vertex, position: int, cls: Any) -> None:
        self._vertex = vertex
        self._step = Step(vertex)
        self._position = position
        self._cls = cls

    def is_right(self, tolerance: _Tolerance) -> bool:
        """Compare it in both modes, and with differences of elementwise operations."""
        forward, reverse = self._pushed(), self._pulled()
        if not np.all(tolerance.agrees(reverse.sum(), forward.sum())):
            return False
        op = self._step.op
        if not isinstance(op, Op) or not isinstance(op.derivative, tuple):
            return True
        above, below = self._moved(op, 1e-6), self._moved(op, -1e-6)
        return bool(np.all(tolerance.agrees(forward, (above - below) / 2e-6)))

    def _values(self, node: Node) -> Matrix:
        found: Matrix = wrap(self._cls, node).numpy()
        return found

    def _pushed(self) -> Matrix:
        ones = trace.literal(FLOAT64, 1.0, self._step.deps[self._position].size)
        pushed = rules.push(self._step, {self._position: ones})
        return self._values(trace.resized(pushed, self._vertex.size))

    def _pulled(self) -> Matrix:
        into = Adjoint(self._step.deps[self._position])
        by = Adjoint(self._vertex, trace.literal(FLOAT64, 1.0, self._vertex.size))
        rules.pull(self._step, {self._position: into}, by)
        return self._values(into.complete())

    def _moved(self, op: Op, by: float) -> Matrix:
        deps = list(self._step.deps)
        moved = trace.emit2(ADD, deps[self._position], trace.literal(FLOAT64, by))
        deps[self._position] = moved
        size = self._vertex.size
        node = trace.append(op, FLOAT64, tuple(deps), self._step.attr, size)
        return self._values(node)
