"""Symbolic loops: tracing a body into a region of the kernel.

The body is traced once more whenever a trace shows that a state variable is no state
after all (it stays constant), that a number must become an array, or that one grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lumijit.compiler.derive.isolation import resume
from lumijit.compiler.ir import blends, ranges, trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import LITERAL, WRITTEN
from lumijit.compiler.ir.vertices import variables
from lumijit.compiler.record import local, memory, regions
from lumijit.control.aliases import Turn, besides, is_same
from lumijit.control.foresight import Knowledge
from lumijit.control.progress import check_progress
from lumijit.control.stand_ins import StandIns
from lumijit.control.state import (
    NUMBERS,
    State,
    call,
    check_contents,
    check_loose,
    check_sizes,
    common_type,
    condition_node,
    contents,
    inconsistent,
    is_array,
    is_late,
    loose,
    name_at,
    node_in,
    node_of,
    of_entries,
    same_object,
    wrong_width,
    zeros_like,
)
from lumijit.control.structure import are_alike, structure_changed
from lumijit.instance_registry import Pointers
from lumijit.pytree import Parts
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.contexts import apart, on_error
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import LumijitError, StateError
from lumijit.standing import STANDING, like, stand, stand_if
from lumijit.syntax.site import Memory

MAX_TRACES = 16


class _Retrace(Exception):
    """The body must be traced again, because what is known of a leaf changed."""


class SymbolicLoop(Knowledge):
    """Traces one loop.

    `width` is the number of elements, as far as known; `bound` is that of turns.
    """

    def __init__(
        self,
        state: State,
        cond: Callable[..., Any],
        body: Callable[..., State],
        labels: Sequence[str],
        name: str,
        strict: bool,
        width: int,
        bound: int | None,
        memory: Memory,
    ) -> None:
        super().__init__(Parts(state, labels), width, memory)
        self.cond = cond
        self.body = body
        self.labels = labels
        self.name = name
        self.strict = strict
        self.contents = contents(self.parts)
        self.loose = loose(self.parts)
        self.bound = bound
        # What arrays of instances may hold, if there are any.
        self.pointers: Pointers | None = None
        # Python numbers that became others; and first leaves that are the same array.
        self.replaced: dict[int, Any] = {}
        self.leaders: dict[int, int] = {}
        # What the body is if these are one array, as in the first iteration.
        self.joined: tuple[list[Any], Any] | None = None
        self.is_joining = False
        self.mask_type: type[Any] | None = None
        self.stand_ins = StandIns()

    def run(self) -> State:
        """Trace until what is known of the state settles; return the final state."""
        self.foresee()
        for count in range(MAX_TRACES + 6 * len(self.parts.leaves)):
            try:
                final = apart(self._attempt)
            except _Retrace:
                continue
            except LumijitError:
                is_first = self.foreseen is None
                if not is_first:
                    self.stand_ins.entries.clear()
                self.begin_anew()
                if is_first:
                    raise
                continue
            leaves, stood_in = self.parts.leaves, self.stand_ins.entries
            self.written = {k for k in self.indexed if id(leaves[k]) in stood_in}
            if len(self.written) == len(stood_in) and not self.joined:
                self.remember(count == 0)
            return final
        raise StateError(
            self.name,
            "the types of the loop state don't settle",
            "start every state variable with the array type that it ends with.",
        )

    def _arguments(self, inner: Scope) -> tuple[list[Any], dict[int, Node]]:
        """Return what the body gets, and the arguments among it.

        Each array of the state is one in the body, too. `inner` learns what it was.
        """
        values: list[Any] = []
        args: dict[int, Node] = {}
        known: dict[Any, int] = {}
        leaders = self.leaders = {}
        for k, value in enumerate(self.parts.leaves):
            node = node_of(value)
            if node is None or k in self.indexed:
                values.append(value)
                continue
            key: Any = id(value)
            if self.separate and not self.is_joining:
                key = key, self.separate.get(k, -1)
            first = known.setdefault(key, k)
            leaders[k] = first
            if first != k:
                values.append(values[first])
                continue
            if k not in self.constant:
                size = self.sizes.get(k, self.width) if node.size == 1 else node.size
                args[k] = regions.argument(node.type, size, len(args), node)
                if size == node.size:
                    inner.tables[id(args[k])] = node
                node = args[k]
                if node.type is UINT32 and value._spec.is_instance:
                    self.pointers = self.pointers or Pointers()
                    self.pointers.assume(k, value, node)
            stand_in = like(value, node)
            values.append(stand_in)
            if k in self.numbers:
                stand(stand_in)
        return values, args

    def _hold(self) -> dict[int, Node]:
        """Return the indexed arrays' contents; put them back if the body raises."""
        if not self.indexed:
            return {}
        leaves = self.parts.leaves
        before = {k: leaves[k]._node for k in self.indexed}

        def restore() -> None:
            for k, node in before.items():
                leaves[k]._go_back(node)

        on_error(restore)
        return before

    def _writes_literals(self, inner: Scope) -> bool:
        """Tell whether the body writes to literals, and let others stand in for them.

        Only once: arrays that the body makes anew are others each time.
        """
        if len(self.stand_ins.entries) > len(self.written):
            return False
        return self.stand_ins.note_writes(inner)

    def _attempt(self) -> State:
        leaves = self.parts.leaves
        if self.written or self.stand_ins.entries:
            self.stand_ins.put([leaves[k] for k in self.written])
        resume()
        before = self._hold()
        scope = regions.scope(self.name, self.width, is_loop=True, bound=self.bound)
        with scope as inner:
            inner.widths = self.widths
            values, args = self._arguments(inner)
            given = Parts(state := self.parts.together(values), self.labels)
            try:
                condition = of_entries(self.cond(*state))
                cond_node = condition_node(condition, self.name)
                if inner.locals:
                    local.check_condition(inner, self.name)
                self.mask_type = type(condition)
                is_masked = trace.current_mask() is not None
                if is_masked:
                    cond_node = trace.under_mask(cond_node)
                ranges.note_condition(cond_node)
                returned = self._turn(state, is_masked)
            except memory.IndexedArgument as used:
                raise self._note_indexed(used, args) from None
            self._define(returned)
            if self.contents:
                check_contents(self.name, self.parts, self.contents)
            if self.loose:
                check_loose(self.name, self.parts, given, self.loose)
            if before:
                self._check_in_place(before, inner)
            after = Parts(returned, self.labels)
            turn = Turn(self.parts, given, after, args, cond_node, inner)
            if self.is_joining:
                self.joined, self.is_joining = turn.shape(), False
                raise _Retrace
            outputs = turn.outputs = self._outputs(values, after, args, inner)
            for k, arg in args.items():
                holds = node_in(given.leaves[k])
                if id(arg) in inner.indexed and (
                    holds is not arg or outputs[k] is not arg
                ):
                    raise self._indexed_and_changed(k)
            if not inner.writes:
                check_progress(self.name, self.parts, cond_node, args, outputs, inner)
            others = besides(self, turn)
            wider = local.grown(inner) if inner.locals else []
            self.grown += wider
            if wider or (inner.writes and self._writes_literals(inner)):
                raise _Retrace
            if not self.is_as_foreseen(args, outputs, inner):
                self.stand_ins.entries.clear()
                self.begin_anew()
                raise _Retrace
            self.found_widths = local.widths(inner) if inner.locals else {}
        nodes = {k: node_in(leaves[k]) for k in args}
        _, results = regions.close_loop(
            inner,
            (*nodes.values(), *[entry.initial for entry in others]),
            (*args.values(), *[entry.argument for entry in others]),
            cond_node,
            (*[outputs[k] for k in args], *[entry.output for entry in others]),
            self.stand_ins.literals(),
        )
        found = {k: results[position] for position, k in enumerate(args)}
        for position, entry in enumerate(others, len(args)):
            if entry.holder is not None:
                entry.holder._become(results[position])
        finals = self._finals(values, after.leaves, found)
        return self.parts.together(finals, given.same_nested(after))

    def _turn(self, state: State, is_masked: bool) -> Any:
        """Call the body; what is masked outside takes its mask from the condition."""
        if not is_masked:
            return call(self.body, state, self.name)
        with trace.unmasked():
            return call(self.body, state, self.name)

    def is_seen(self, turn: Turn) -> bool:
        """Tell whether names for one array see each other's changes.

        Then the body is another one if they are one array than if they aren't.
        """
        if self.joined is None:
            self.is_joining = True
            raise _Retrace
        return turn.shape()[0] != self.joined[0]

    def _finals(
        self, given: list[Any], after: list[Any], results: dict[int, Node]
    ) -> list[Any]:
        """Return the final leaves.

        An array is the caller's if it is the one that the body was given.
        """
        finals: list[Any] = []
        for k, leaf in enumerate(self.parts.leaves):
            first = self.leaders.get(k, k)
            value = self.replaced.get(k, leaf)
            if first != k:
                value = finals[first]
            elif k in results and after[k] is given[k]:
                if variables:
                    blends.note(results[k], (node_in(value),), 0)
                value._become(results[k])
            elif k in results:
                value = wrap(type(value), results[k])
                if STANDING or not is_array(after[k]):
                    stand_if(value, after[k])
            finals.append(value)
        return finals

    def _define(self, returned: State) -> None:
        """Start state variables that had no value before with zeros."""
        values = self.parts.values
        for k, new in enumerate(returned):
            if is_late(values[k], new):
                break
        else:
            return
        pairs = zip(values, returned, strict=True)
        state = [zeros_like(new) if is_late(old, new) else old for old, new in pairs]
        self.begin_anew(Parts(state, self.labels))
        raise _Retrace

    def _note_indexed(
        self, used: memory.IndexedArgument, args: dict[int, Node]
    ) -> BaseException:
        """Hand an indexed argument to the body as the array that it is."""
        for k, arg in args.items():
            if arg is used.node:
                if k in self.variable:
                    return self._indexed_and_changed(k)
                self.indexed.update(j for j, f in self.leaders.items() if f == k)
                return _Retrace()
        return used

    def _indexed_and_changed(self, k: int) -> StateError:
        return StateError(
            self.name,
            f"the state variable '{self.parts.names[k]}' is both indexed and replaced "
            "by the body, so its entries would have to be in memory before the loop "
            "has computed them",
            "index another array, use lumijit.alloc_local, or mode='evaluated'.",
        )

    def _check_in_place(self, before: dict[int, Node], inner: Scope) -> None:
        """Refuse indexed arrays that the body changes other than by index."""
        for k, node in before.items():
            array = self.parts.leaves[k]
            found = array._node
            is_new = found.op is WRITTEN and found.scope is inner
            if not ((is_new and id(array) in inner.writes) or is_same(found, node)):
                raise self._indexed_and_changed(k)

    def _outputs(
        self,
        given: list[Any],
        after: Parts,
        args: dict[int, Node],
        inner: Scope,
    ) -> dict[int, Node]:
        """Check the new state against the old and return its nodes."""
        if not are_alike(self.parts, after):
            raise structure_changed(self.name, self.parts, after)
        outputs: dict[int, Node] = {}
        self.replaced = {}
        again = False
        news = after.leaves
        for k, leaf in enumerate(self.parts.leaves):
            new = news[k]
            if self.leaders.get(k, k) != k and k not in self.indexed:
                again |= self._repeated_leaf(k, given, news)
            elif k in args:
                node = self._array_leaf(k, leaf, new, args[k])
                again |= node is None
                if node is not None:
                    outputs[k] = node
            elif k in self.indexed:
                if node_of(new) is not leaf._node:
                    raise self._indexed_and_changed(k)
            elif k in self.constant:
                again |= self._constant_leaf(k, leaf, given[k], new, inner)
            else:
                again |= self._object_leaf(k, leaf, new)
        if again:
            raise _Retrace
        return outputs

    def _array_leaf(self, k: int, before: Any, value: Any, arg: Node) -> Node | None:
        """Return a traced leaf's new node, or None if it must be traced again."""
        cls = type(before)
        if type(value) is not cls:
            if isinstance(value, NUMBERS) and common_type(before, value, cls):
                value = cls(value)
            elif k in self.numbers and self._promote(k, before, value):
                return None
            else:
                raise inconsistent(self.name, self.parts.names[k], before, value)
        node = node_in(value)
        if node.size != before._node.size:
            check_sizes(self.name, partial(name_at, self.parts, k), before, value)
        if node is not arg:
            if node.size > 1 < self.width != node.size:
                name = self.parts.names[k]
                raise wrong_width(self.name, name, before, value, self.width)
            if node.size > arg.size == 1:
                self.sizes[k] = node.size
                return None
            known = self.pointers
            return node if known is None or known.suffice(k, arg, node) else None
        is_literal = before._node.op is LITERAL and k not in self.variable
        if is_literal and (not unusual or flags.optimize_loops):
            self.constant.add(k)
            return None
        return node

    def _repeated_leaf(self, k: int, given: list[Any], after: list[Any]) -> bool:
        """Look at another name for an array; tell whether they must part."""
        first = self.leaders[k]
        if after[k] is after[first]:
            return False
        group = [j for j, leader in self.leaders.items() if leader == first]
        moved, other = (first, k) if after[k] is given[k] else (k, first)
        self.part(group, moved, other, after)
        return True

    def _promote(self, k: int, before: Any, value: Any) -> bool:
        """Make a number an array that also holds `value`; tell whether one can."""
        assert self.mask_type is not None
        cls = common_type(self.numbers.get(k, before), value, self.mask_type)
        if cls is not None:
            self.promote(k, cls)
        return cls is not None

    def _constant_leaf(
        self, k: int, before: Any, given: Any, value: Any, inner: Scope
    ) -> bool:
        """Check a literal that the body should leave alone; tell if it doesn't."""
        if id(given) in inner.writes:
            self.constant.discard(k)
            self.indexed.add(k)
            return True
        if node_of(value) is before._node is given._node:
            return False
        self.constant.discard(k)
        self.variable.add(k)
        return True

    def _object_leaf(self, k: int, before: Any, value: Any) -> bool:
        """Check a Python object; tell whether it became an array."""
        if same_object(before, value):
            return False
        if self._promote(k, before, value):
            return True
        if self.strict:
            raise inconsistent(self.name, self.parts.names[k], before, value)
        self.replaced[k] = value
        return False
