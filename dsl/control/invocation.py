"""One call of several functions: which, where, and with what arguments.

Owns running one function on given arguments, whose changes to them are undone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.logic import AND
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.control.bare_classes import LEADS, look_at_values
from lumijit.control.bytecode import is_state
from lumijit.control.callees import Callee, parameters_of, refuse_arity
from lumijit.control.captured_state import Outside
from lumijit.control.inert import Inert
from lumijit.control.refusals import CALL, Change
from lumijit.control.results import Results
from lumijit.control.spans import WHOLE, Span
from lumijit.control.state import check_loose, is_array, loose
from lumijit.pytree import Parts, is_container
from lumijit.runtime.config import flags
from lumijit.runtime.errors import SizeError, StateError

_ARGUMENT = re.compile(r"(args|kwargs)\[(.*?)\](.*)")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


#: Returns the last versions of arrays that were written, by their ids. It gets arrays,
#: and what they held before.
Written = Callable[[list[Any], list[Node]], dict[int, Node]]

_NONE: frozenset[int] = frozenset()


class Invocation:
    """The functions of one call and their common arguments.

    `index` (UInt32) selects one of `count` positions per element, `active` (Bool)
    tells which elements call at all.
    """

    __slots__ = (
        "active",
        "arguments",
        "callees",
        "count",
        "index",
        "is_flat",
        "lanes",
        "loose",
        "name",
        "outside",
        "parts",
        "results",
        "spans",
    )

    def __init__(
        self,
        name: str,
        callees: list[Callee],
        count: int,
        index: Node,
        active: Node,
        arguments: Arguments,
        mask_type: type[Any],
    ) -> None:
        self.name = name
        self.callees = _reachable(callees, index)
        self.count = count
        self.index = index
        self.active = active
        self.arguments = arguments
        self.parts = Parts(arguments, ("args", "kwargs"))
        # Rebuilding PyTrees takes as long as tracing ten operations.
        given, named = arguments
        self.is_flat = not named and all(map(is_array, given))
        self.loose = {} if self.is_flat else loose(self.parts)
        self.lanes = trace.broadcast_size(AND, (index, active))
        self.results = Results(name, mask_type)
        self.outside, self.spans = self._surroundings()

    @property
    def values(self) -> list[Any]:
        """The arguments' leaves."""
        return self.parts.leaves

    def _surroundings(self) -> tuple[Outside | None, dict[int, Span]]:
        """Remember the objects that the functions must leave as they are.

        That includes those among the arguments that are no PyTrees, and those that
        methods of PyTrees reach.
        """
        given, named = self.arguments
        values = (*given, *named.values())
        leads_on = look_at_values(values) & LEADS
        followed = self.callees if leads_on else Inert().others(self.callees, values)
        objects: list[tuple[str, Any]] = []
        if not self.is_flat:
            pairs = zip(self.parts.names, self.values, strict=True)
            objects += [(name, value) for name, value in pairs if not is_state(value)]
            trees = {f"args[{k}]": value for k, value in enumerate(given)} | named
            if leads_on:
                objects += [(n, v) for n, v in trees.items() if is_container(v)]
        if not (followed or objects):
            return None, {}
        outside = Outside()
        for leaf in self.values:
            if is_array(leaf):
                outside.reach.seen.add(id(leaf))
        start = outside.reach.mark()
        for name, value in objects:
            outside.reach.follow(value, name)
        given = Span(start, outside.reach.mark())
        spans = {id(c): given for c in self.callees} if objects else {}
        spans.update((id(c), outside.follow(c.roots)) for c in followed)
        return (None, {}) if outside.is_empty else (outside, spans)

    def check_surroundings(self) -> None:
        """Refuse what the functions changed of one another's objects."""
        outside = self.outside
        if outside is not None:
            for change in outside.restore(WHOLE)[:1]:
                raise outside.error(self.name, "a callable", change, CALL)

    def invoke(
        self,
        callee: Callee,
        values: list[Any],
        written: Written,
    ) -> tuple[Any, Set[int]]:
        """Call a function and copy what it returns, so that changes don't reach it.

        Arguments that it changes in place get restored, unless by index. The arrays
        returned as they are, because they were written by index, come along. Objects
        that it reaches otherwise must stay as they are.
        """
        outside = self.outside
        if outside is None:
            return self._invoke(callee, values, written)
        span = self.spans.get(id(callee))
        if span is None:
            return self._invoke(callee, values, written)

        def refuse(change: Change) -> StateError:
            return outside.error(self.name, str(callee), change, CALL, span)

        result: tuple[Any, Set[int]] = outside.during(
            lambda: self._invoke(callee, values, written), refuse, span
        )
        return result

    def _invoke(
        self,
        callee: Callee,
        values: list[Any],
        written: Written,
    ) -> tuple[Any, Set[int]]:
        if self.is_flat:
            arrays = values
        else:
            arrays = [value for value in values if is_array(value)]
        before = [array._node for array in arrays]
        versions: dict[int, Node] = {}
        args: Any = values
        kwargs: dict[str, Any] = {}
        try:
            if not self.is_flat:
                args, kwargs = self.parts.together(values)
            copies = Parts((args, kwargs)) if self.loose else self.parts
            value = callee.function(*args, **kwargs)
            if self.loose:
                check_loose(self.name, self.parts, copies, self.loose)
            versions = written(arrays, before)
            if not versions and is_array(value):
                return wrap(type(value), value._node), _NONE
            return self._kept(value, versions)
        except TypeError:
            refuse_arity(callee, self.name, args, kwargs)
            raise
        finally:
            for k, array in enumerate(arrays):
                if array._node is not before[k]:
                    array._go_back(versions.get(id(array), before[k]))

    def _kept(self, value: Any, versions: dict[int, Node]) -> tuple[Any, Set[int]]:
        kept: list[Any] = []
        late: set[int] = set()
        parts = Parts((value,))
        for array in parts.leaves:
            if is_array(array) and versions.get(id(array)) is array._node:
                late.add(id(array))
            elif is_array(array):
                array = wrap(type(array), array._node)
            kept.append(array)
        return parts.together(kept)[0], late

    def wrong_size(
        self, callee: Callee, name: str, size: int, expected: int
    ) -> Exception:
        """Word the error for a function that refers to whole arrays."""
        mismatch = self.mismatch()
        if mismatch is not None:
            return mismatch
        return StateError(
            self.name,
            f"{callee} computes {name} of size {size} for {expected} elements",
            "pass arrays as arguments instead of referring to them from inside: "
            "in evaluated mode, callables get a part of the elements.",
        )

    def wrong_result(
        self, callee: Callee, name: str, size: int, expected: int
    ) -> SizeError:
        """Word the error for a result of another size than the elements."""
        return SizeError(
            self.name,
            f"{callee} computes '{name}' of size {size} for {expected} elements",
            "use arrays of the same size; only size 1 broadcasts.",
        )

    def mismatch(self) -> SizeError | None:
        """Return the error for an argument of a size that doesn't fit, if there is one.

        Arrays that the functions index may have any size, so it is made only once
        something went wrong.
        """
        for k, leaf in enumerate(self.values):
            size = leaf._node.size if is_array(leaf) else 1
            if size != 1 != self.lanes != size:
                return SizeError(
                    self.name,
                    f"the argument '{self._parameter(self.parts.names[k])}' has {size} "
                    f"entries, but the call runs for {self.lanes} elements",
                    f"pass arrays of {self.lanes} entries or one; other sizes can "
                    "only be indexed (lumijit.gather, lumijit.scatter).",
                )
        return None

    def _parameter(self, name: str) -> str:
        """Return what the first function calls an argument."""
        found = _ARGUMENT.fullmatch(name)
        assert found is not None
        root, number, rest = found.groups()
        key = number.strip("'") if root == "kwargs" else ""
        if root == "args":
            names = parameters_of(self.callees[0])
            key = names[int(number)] if int(number) < len(names) else ""
        return f"{key}{rest}" if key else name


def _reachable(callees: list[Callee], index: Node) -> list[Callee]:
    """Leave out functions that a constant index doesn't select, but one."""
    if index.op is not LITERAL or not flags.optimize_calls:
        return callees
    return [c for c in callees if index.attr in c.positions] or callees[:1]
