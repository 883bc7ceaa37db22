"""`run_lane`: one lane of a vectorized function as plain Python, under a debugger.

Owns the function. How operations compute with one entry is the work of
`compiler.record.lane`, finding what the run may change that of `control.reachability`.
Control-flow primitives and `@syntax` take plain Python paths while a lane runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from lumijit import initialize
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import ROOT
from lumijit.compiler.launch.evaluate import evaluate
from lumijit.compiler.record import writes
from lumijit.compiler.record.lane import Lane, start, stop
from lumijit.control.locations import Items
from lumijit.control.members import Members
from lumijit.control.reachability import Reach
from lumijit.control.sameness import MISSING
from lumijit.control.spans import WHOLE
from lumijit.control.state import is_array
from lumijit.pytree import Parts
from lumijit.pytree_walks import flat_map
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.contexts import apart, on_error
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    SizeError,
    SymbolicError,
)

_NAME = "lumijit.run_lane"
#: Modules that `pdb` steps over: this library and what it calls.
LIBRARY = ["lumijit", "lumijit.*", "numpy", "numpy.*", "llvmlite", "llvmlite.*"]
LIBRARY += ["abc", "collections", "collections.*", "contextlib", "ctypes", "ctypes.*"]
LIBRARY += ["dataclasses", "enum", "functools", "importlib.*", "struct", "threading"]
LIBRARY += ["typing", "weakref"]


class Debugger(Protocol):
    """What `pdb.Pdb`, and the debuggers derived from `bdb.Bdb`, offer."""

    def runcall(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function, stopping at its first line."""


def run_lane(
    function: Callable[..., Any],
    index: int,
    /,
    *args: Any,
    debugger: Debugger | bool | None = None,
    width: int | None = None,
    **kwargs: Any,
) -> Any:
    """Return `function(*args, **kwargs)` for one lane, computed by plain Python.

    The lane's entry stands in for each array of full width. Its contents are known:
    conditions are true or false, loops go round and round in Python, `print` shows
    numbers, and `breakpoint()` stops here, in `function` and in whatever it calls.
    All of it computes the very bits that the vectorized program computes.

    Arrays of another size are tables: gathers read them. An array of full width can
    be a table as well, as `gather` and `scatter` access the whole array. Arrays of
    full width that come from closures, global variables or attributes count with
    the lane's entry wherever they are used. Afterwards all of these are as they were:
    the arrays that the lane scattered to, variables, attributes and entries of
    containers. (What it adds to a list, or prints, stays.)

    An augmented assignment makes a new value, as with Python's numbers; another name
    for the array doesn't see it.

    Args:
        function: the function, decorated with `@syntax` or not.
        index: the lane, a number from 0 to the common size of the arrays, less 1.
        *args: the function's arguments; arrays and PyTrees of arrays get evaluated.
        debugger: True for `pdb`, which stops at the first line of `function`; or
            a debugger with a method `runcall`.
        width: how many lanes there are; needed where it doesn't follow from the
            arguments, as they differ in size or come in objects.
        **kwargs: the function's keyword arguments.

    Returns:
        The result, with arrays of one entry; None if you quit the debugger.

    Raises:
        ArrayIndexError: there is no such lane, or it accesses an array out of bounds.
        SizeError: the arguments differ in size and `width` isn't given.
        ArrayValueError: the function combines lanes, by `lumijit.sum` for example.
        SymbolicError: the call is inside of symbolic control flow.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Int
    >>> @dr.syntax
    ... def halvings(n):
    ...     count = Int(0)
    ...     while n > 1:
    ...         n = n >> 1
    ...         count += 1
    ...     return count
    >>> n = Int(1, 8, 100)
    >>> dr.run_lane(halvings, 2, n)
    [6]
    """
    run = function if not debugger else partial(_debugger(debugger).runcall, function)
    lane = _lane(index, width, (args, kwargs))
    entered_args, entered_kwargs = _enter(lane, (args, kwargs))
    reach = Reach()
    for root in (function, args, kwargs):
        reach.follow(root)
    entered = partial(run, *entered_args, **entered_kwargs)
    return apart(_run, (lane, reach, entered))


def _run(lane: Lane, reach: Reach, function: Callable[[], Any]) -> Any:
    """Return what a function does for a lane; undo what it changes."""
    on_error(partial(_restore, reach))
    with (
        scoped_set_flag(JitFlag.ConstantPropagation, True),
        writes.watched() as found,
    ):
        start(lane)
        result = _known(lane, function())
        for entry in found.entries.values():
            entry.holder._go_back(entry.first)
        found.entries.clear()
        _restore(reach)
        stop(lane)
        return result


def _restore(reach: Reach) -> None:
    """Put back what was found; what has been added to a container stays."""
    for array, node in zip(reach.arrays, reach.nodes, strict=True):
        array._go_back(node)
    for place in reach.changed(WHOLE):
        if isinstance(place.owner, set):
            place.owner.update(place.before)
            continue
        found = place.changes()
        keys = [key for key, before, _ in found if before is not MISSING]
        if isinstance(place, Items) and not isinstance(place, Members):
            added = list(place.items)[len(place.before) :]
            place.put_back(keys)
            place.items.extend(added)
        else:
            place.put_back(keys)


def _lane(index: int, size: int | None, tree: Any) -> Lane:
    """Check the lane, the width and the place of the call."""
    if trace.state.scope is not ROOT or trace.state.mask is not None:
        raise SymbolicError(
            _NAME,
            "a lane can't run inside of vectorized control flow",
            "call it from the outermost level of your program.",
        )
    if trace.state.lane is not None:
        raise SymbolicError(_NAME, "a lane runs already", "run one at a time.")
    width = _width(tree) if size is None else size
    position = initialize.whole_number(_NAME, "the lane", index)
    if not 0 <= position < width:
        raise ArrayIndexError(
            _NAME,
            f"there is no lane {position}: the arguments have {width} lanes",
            f"choose one from 0 to {width - 1}, or say how many lanes there are "
            "with width=…, if they are in no argument.",
        )
    return Lane(position, width)


def _width(tree: Any) -> int:
    """Return the common size of the arguments."""
    sizes: dict[int, str] = {}
    parts = Parts(tree, ("args", "kwargs"))
    for name, leaf in zip(parts.names, parts.leaves, strict=True):
        if is_array(leaf) and leaf._node.size != 1:
            sizes.setdefault(leaf._node.size, name)
    if len(sizes) > 1:
        listed = ", ".join(f"{name}: {size}" for size, name in sizes.items())
        raise SizeError(
            _NAME,
            f"the arguments differ in size, so which have lanes isn't clear ({listed})",
            f"say how many lanes there are, as in width={min(sizes)}.",
        )
    return next(iter(sizes), 1)


def _enter(lane: Lane, tree: Any) -> Any:
    """Put the lane's entries in the place of wide arrays, in a copy of the tree."""
    parts = Parts(tree)
    arrays = [leaf for leaf in parts.leaves if is_array(leaf)]
    evaluate([array._node for array in arrays])
    copies: dict[int, Any] = {}
    for array in arrays:
        entry = lane.enter(array._node)
        # An array given twice stays one array.
        copies[id(array)] = array if entry is array._node else wrap(type(array), entry)
    return parts.together([copies.get(id(v), v) for v in parts.leaves])


def _known(lane: Lane, result: Any) -> Any:
    """Reduce arrays that are still wide to the lane's entry."""

    def known(leaf: Any) -> Any:
        return wrap(type(leaf), lane.known(leaf._node)) if is_array(leaf) else leaf

    return flat_map(known, result)


def _debugger(given: Any) -> Debugger:
    """Return a debugger that doesn't step into this library."""
    if given is True:
        import pdb  # needed by few programs, and slow to import

        # Afterwards, Ctrl-C is to do what it did before.
        return pdb.Pdb(skip=LIBRARY, nosigint=True)
    if not callable(getattr(given, "runcall", None)):
        problem = f"'debugger' has no method runcall (got {type(given).__name__})"
        raise ArrayTypeError(_NAME, problem, "pass True, or a pdb.Pdb() of your own.")
    result: Debugger = given
    return result
