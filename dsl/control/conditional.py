"""`if_stmt`: conditionals over arrays, in scalar, symbolic and evaluated mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.derive.isolation import isolated, resume, select_tracked
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.logic import NOT
from lumijit.compiler.ir.trace import (
    current_mask,
    emit1,
    running_lanes,
    set_mask,
    under_mask,
)
from lumijit.compiler.launch.evaluate import evaluate
from lumijit.compiler.record import regions, writes
from lumijit.compiler.record.shared_contents import with_copies
from lumijit.control.branch_sides import Merge, Side, Sides
from lumijit.control.modes import mode_by_flag, refuse_in_region
from lumijit.control.recursion import left_out
from lumijit.control.refilled import Refilled
from lumijit.control.state import (
    by_lane,
    check_depth,
    check_labels,
    check_mode,
    condition_node,
    known_condition,
    of_entries,
    truth,
)
from lumijit.control.watching import watched
from lumijit.control.write_rules import check_writes, wide_enough
from lumijit.initialize import check_callable
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.contexts import apart
from lumijit.runtime.errors import StateError
from lumijit.runtime.tracebacks import hides_frames
from lumijit.syntax.nesting import NobodyLeft
from lumijit.tensors.lanes import along


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
        cond: a bool, a Bool array, or the mask of a tensor: lanes are its entries.
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
    check_callable("if_stmt", "'true_fn'", true_fn)
    check_callable("if_stmt", "'false_fn'", false_fn)
    options = arg_labels, rv_labels, label, mode, strict, True
    refilled = Refilled(args if isinstance(args, tuple) else (), is_loop=False)
    if not refilled.is_needed:
        return run_if(args, cond, true_fn, false_fn, *options)
    yes, no = refilled.noting(true_fn), refilled.noting(false_fn)
    return refilled.result(run_if(args, cond, yes, no, *options))


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
            "if_stmt",
            f"'args' must be a tuple (got {type(args).__name__})",
            "write args=(a, b), or args=(a,) for a single argument.",
        )
    check_labels("if_stmt", arg_labels, "arguments", len(args))
    name = label or "if_stmt"
    if not isinstance(cond, FlatArray):
        given, cond = cond, by_lane(cond)
        if cond is not given:
            options = arg_labels, rv_labels, label, mode, strict, is_watched
            again = partial(run_if, args, cond, true_fn, false_fn, *options)
            return along(given, again)
        check_depth(cond, name)
    if running_lanes and trace.state.lane is not None:
        mode = "scalar"
    if mode is None:
        if not isinstance(cond, FlatArray):
            mode = "scalar"
        else:
            mode = mode_by_flag(name, not unusual or flags.symbolic_conditionals)
    if mode == "scalar":
        cond = truth(cond, name)
    if isinstance(cond, bool):
        return true_fn(*args) if cond else false_fn(*args)
    cond = of_entries(cond)
    node = condition_node(cond, name)
    known = known_condition(node)
    if known is not None:
        return true_fn(*args) if known else false_fn(*args)
    sides = _Branch(args, arg_labels, rv_labels, name, strict, type(cond))
    sides.condition = node
    if mode == "evaluated":
        refuse_in_region(name)
    if is_watched:
        true_fn = watched(true_fn, name, "the true branch", arg_labels, False)
        false_fn = watched(false_fn, name, "the false branch", arg_labels, False)
    sides.functions = true_fn, false_fn
    run = sides.symbolic if mode == "symbolic" else sides.evaluated
    try:
        return with_copies(run)
    except NobodyLeft as reached:
        # Nobody enters one side, or neither: it is left out. Undoing its
        # writes has put copies into arrays that share their contents with others.
        sides.held.restore()
        if sides.running is true_fn:
            sides.functions = left_out(reached), false_fn
        else:
            sides.functions = true_fn, left_out(reached)
        return run()


class _Branch(Sides):
    """Joins both sides, the `functions`, in a region, or by blending.

    Their elements are those that fulfil the `condition`, and the others.
    """

    condition: Node
    functions: tuple[Callable[..., Any], Callable[..., Any]]

    def symbolic(self) -> Any:
        """Trace both sides into a region."""
        return apart(self._symbolic)

    def evaluated(self) -> Any:
        """Run both sides on all elements and blend."""
        return wide_enough(self._apart)

    def _apart(self, size: int) -> Any:
        return apart(self._evaluated, (size,))

    def _symbolic(self) -> Any:
        cond, (true_fn, false_fn) = self.condition, self.functions
        resume()
        with regions.scope(self.name, cond.size) as first:
            yes = self.run(true_fn, first)
            regions.before_the_end()
            # The other side sees arrays as they were before this one wrote to them.
            held = {key: holder._node for key, (holder, _) in first.writes.items()}
            regions.restore_writes(first)
            with regions.scope(self.name, cond.size, [first]) as second:
                no = self.run(false_fn, second)
                merge = Merge(self, yes, no)
                if first.writes or second.writes:
                    is_root = first.parent is ROOT
                    merge.share(set(first.writes), set(second.writes), is_root)
            for key, node in held.items():
                first.writes[key][0]._advance(node)
        wanted, mine, other = merge.wanted()
        _, results = regions.close_branch(cond, (first, second), (mine, other))
        for k, node in enumerate(results):
            merge.computed[wanted[k]] = node
        for k in merge.traced:
            merge.enter(k, merge.computed[k])
        for k in merge.late:
            merge.enter(k, trace.select(cond, *merge.current(k)))
        return merge.result()

    def _evaluated(self, size: int) -> Any:
        """Run both sides; if one raises, undo its writes.

        There are `size` elements, or as many as the condition has entries.
        """
        cond, (true_fn, false_fn) = self.condition, self.functions
        if cond.size == 1:
            cond = trace.resized(cond, size)
        evaluate([cond])
        with writes.watched(), isolated(is_apart=True):
            first, first_side = self._run_masked(cond, true_fn)
            second, second_side = self._run_masked(emit1(NOT, cond), false_fn)
            merge = Merge(self, first_side, second_side)
            merge.share(set(first.entries), set(second.entries), True)
            has_single = first.has_single or second.has_single
            check_writes(self.name, cond, has_single, _blended(merge))
            for k in (*merge.traced, *merge.late):
                merge.enter(k, select_tracked(cond, *merge.current(k)))
            return merge.result()

    def _run_masked(
        self, active: Node, function: Callable[..., Any]
    ) -> tuple[writes.watched, Side]:
        """Run a side where elements are active; return what it wrote and left."""
        outer = current_mask()
        with writes.watched() as found:
            set_mask(under_mask(active))
            side = self.run(function, found)
        # (If the side raises, the construct ends, and its variables with it.)
        set_mask(outer)
        return found, side


def _blended(merge: Merge) -> Iterator[tuple[Callable[[], str], Node]]:
    """List the results that are blended: their names, and the wider one of each."""
    for k, (yes, no) in merge.pairs.items():
        if k in merge.traced and yes is not no:
            yield partial(merge.name, k), no if no.size > yes.size else yes
