"""`Loop`: a `while` statement that records its body, for programs without decorators.

A thin layer on the regions of the compiler. What the body may change is what a
function returns (`state`); as the body is ordinary code, it is traced once only, so
each variable has to start as the array that it stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.derive.isolation import resume
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.captures import Captures, in_order
from lumijit.compiler.ir.nodes import Node, begin_walk_after
from lumijit.compiler.ir.ops.logic import AND
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import local, reductions, regions
from lumijit.compiler.transform.rewriting import Rewriter
from lumijit.control.modes import mode_by_flag
from lumijit.control.state import condition_node
from lumijit.pytree import Parts
from lumijit.runtime.config import flags
from lumijit.runtime.errors import ArrayTypeError, StateError


class Loop:
    """Records a loop: `while loop(condition): body`.

    Args:
        label: name of the loop, in code and messages.
        state: function that returns the variables that the body changes, as a tuple
            of arrays and PyTrees. It is asked before and after the body; what it
            returns afterwards is filled with the final values.

    The condition is a mask; elements leave the loop one by one. With flag
    `SymbolicLoops` off, the body runs once per turn, on all elements.

    Raises:
        ArrayTypeError: if `state` is no function.
        StateError: if a variable is no array, or changes its type or size.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Loop, UInt32
    >>> i, n = UInt32(0, 5), UInt32(3, 7)
    >>> loop = Loop("count", lambda: (i,))
    >>> while loop(i < n):
    ...     i += 2
    >>> i
    [4, 7]
    """

    # (Also of a loop that was never made, for wrong arguments.)
    _scope: Any = None
    # In evaluated mode: the elements that run, and who did before.
    _mask: Node | None = None
    _outer: Node | None = None

    def __init__(
        self,
        label: str | Callable[[], Any] = "",
        state: Callable[[], Any] | None = None,
    ) -> None:
        given: Any = state
        if not isinstance(label, str) and state is None:
            label, given = "", label
        if not callable(given):
            raise ArrayTypeError(
                "Loop",
                f"'state' is {given!r}",
                "pass a function that returns the loop's variables: lambda: (x, i).",
            )
        self._label = str(label or "Loop")
        self._state = given
        self._is_symbolic = mode_by_flag("Loop", flags.symbolic_loops) == "symbolic"
        self._turn = 0
        self._cond: Node | None = None
        self._leaves = self._read()
        self._inits = [leaf._node for leaf in self._leaves]
        self._width = max((node.size for node in self._inits), default=1)
        if self._is_symbolic:
            self._begin()

    def _read(self) -> list[Any]:
        """Ask for the state."""
        values = self._state()
        values = values if isinstance(values, tuple) else (values,)
        self._parts = Parts(values)
        leaves = self._parts.leaves
        seen: set[int] = set()
        for k, leaf in enumerate(leaves):
            if not isinstance(leaf, FlatArray):
                raise StateError(
                    self._label,
                    f"the variable '{self._parts.names[k]}' has type "
                    f"{type(leaf).__name__!r} (expected a traced array)",
                    "start it as an array such as lumijit.llvm.UInt32(0).",
                )
            if id(leaf) in seen:
                raise StateError(
                    self._label,
                    f"the variable '{self._parts.names[k]}' is the same array as "
                    "another one",
                    "name each array once, or copy it first with lumijit.copy.",
                )
            seen.add(id(leaf))
        return leaves

    def _begin(self) -> None:
        """Enter the loop's scope, where arguments stand for the variables."""
        resume()
        self._scope = regions.scope(self._label, self._width, is_loop=True)
        self._inner = self._scope.__enter__()
        self._args = []
        for k, (leaf, node) in enumerate(zip(self._leaves, self._inits, strict=True)):
            size = self._width if node.size == 1 else node.size
            self._args.append(regions.argument(node.type, size, k, node))
            leaf._rehouse(self._args[k])

    def __del__(self) -> None:
        """Leave a loop that an exception has cut short."""
        self._give_up()

    def _give_up(self) -> None:
        if self._mask is not None and trace.state.mask is self._mask:
            trace.state.mask = self._outer
        scope, self._scope = self._scope, None
        if scope is None:
            return
        for leaf, node in zip(self._leaves, self._inits, strict=True):
            leaf._go_back(node)
        regions.restore_writes(self._inner)
        if trace.state.scope is self._inner:
            scope.__exit__(StateError, None, None)

    def __call__(self, condition: Any, /) -> bool:
        """Tell Python's `while` statement whether to go through the body."""
        try:
            if self._is_symbolic:
                return self._record(condition)
            return self._evaluate(condition)
        except BaseException:
            self._give_up()
            raise

    def _record(self, condition: Any) -> bool:
        self._turn += 1
        if self._turn == 1:
            self._cond = condition_node(condition, self._label)
            local.check_condition(self._inner, self._label)
            return True
        if self._turn > 2 or self._cond is None:
            raise StateError(
                self._label,
                "the loop is over",
                "make another Loop for another 'while' statement.",
            )
        self._end(self._cond)
        return False

    def _end(self, condition: Node) -> None:
        """Close the region and fill the variables."""
        after = self._read()
        outputs = self._outputs(after)
        condition, outputs = self._widened(condition, outputs)
        scope, self._scope = self._scope, None
        scope.__exit__(None, None, None)
        args, inits = tuple(self._args), tuple(self._inits)
        _, results = regions.close_loop(self._inner, inits, args, condition, outputs)
        for leaf, node in zip(self._leaves, inits, strict=True):
            leaf._go_back(node)
        for leaf, node in zip(after, results, strict=True):
            leaf._become(node)

    def _widened(
        self, condition: Node, outputs: tuple[Node, ...]
    ) -> tuple[Node, tuple[Node, ...]]:
        """Have variables of one entry begin with as many as they end with.

        That is known afterwards only, so the code is made again for wider arguments.
        """
        width = max(node.size for node in (condition, *outputs))
        if width == self._width:
            return condition, outputs
        inner, old = self._inner, self._args
        if inner.locals:
            raise self._grown("state", self._width, width)
        self._args = [
            regions.argument(arg.type, width if arg.size == 1 else arg.size, k, init)
            for k, (arg, init) in enumerate(zip(old, self._inits, strict=True))
        ]
        images = {id(a): b for a, b in zip(old, self._args, strict=True)}
        rewriter = Rewriter(images, is_tracking=True)
        roots = (condition, *inner.effects, *outputs)
        nodes = in_order(roots, inner, begin_walk_after(old), Captures())
        rewriter.copy(nodes, inner)
        inner.effects = list(map(rewriter.image, inner.effects))
        self._width = inner.width = width
        return rewriter.image(condition), tuple(map(rewriter.image, outputs))

    def _grown(self, name: str, before: int, after: int) -> StateError:
        return StateError(
            self._label,
            f"the variable '{name}' changes its size from {before} to {after}",
            "start it with the size that it ends with (lumijit.zeros, full).",
        )

    def _outputs(self, after: list[Any]) -> tuple[Node, ...]:
        """Check the variables after the body, and return their nodes."""
        if len(after) != len(self._leaves):
            raise StateError(
                self._label,
                f"the state has {len(after)} arrays after the body, {len(self._inits)} "
                "before it",
                "return the same variables each time.",
            )
        rows = zip(self._parts.names, self._leaves, after, self._sizes(), strict=True)
        for name, leaf, new, size in rows:
            if type(new) is not type(leaf):
                raise StateError(
                    self._label,
                    f"the variable '{name}' changes its type from "
                    f"{type(leaf).__name__} to {type(new).__name__}",
                    "start it with the type that it ends with.",
                )
            if size > 1 and len(new) not in (1, size):
                raise self._grown(name, size, len(new))
        return tuple(leaf._node for leaf in after)

    def _sizes(self) -> list[int]:
        if self._is_symbolic:
            return [arg.size for arg in self._args]
        return [max(node.size, self._width) for node in self._inits]

    def _evaluate(self, condition: Any) -> bool:
        """Keep what elements had that have left the loop; tell if any go on."""
        if self._turn:
            trace.state.mask = self._outer
            self._blend()
        else:
            self._outer = trace.state.mask
        self._turn += 1
        cond = condition_node(condition, self._label)
        if self._cond is not None:
            cond = trace.emit2(AND, cond, self._cond)
        self._cond = cond
        leaves = self._read()
        self._inits = [leaf._node for leaf in leaves]
        self._leaves = leaves
        evaluate.evaluate([cond, *self._inits])
        is_over = not (cond.attr if cond.op is LITERAL else reductions.is_any_set(cond))
        if not is_over:
            self._mask = trace.state.mask = trace.under_mask(cond)
        return not is_over

    def _blend(self) -> None:
        assert self._cond is not None
        after = self._read()
        outputs = self._outputs(after)
        for leaf, new, old in zip(after, outputs, self._inits, strict=True):
            if new is not old:
                leaf._become(trace.select(self._cond, new, old))


class PlainLoop:
    """A loop of the scalar namespace: what Python's `while` statement does.

    >>> from lumijit.scalar import Loop
    >>> i = 0
    >>> loop = Loop("count", lambda: (i,))
    >>> while loop(i < 3):
    ...     i += 1
    >>> i
    3
    """

    def __init__(self, label: str = "", state: Any = None) -> None:
        pass

    def __call__(self, condition: Any, /) -> bool:
        """Tell whether to go through the body."""
        return bool(condition)
