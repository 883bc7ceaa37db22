"""What is outside of a construct stays as it is: objects that its functions reach.

A body, branch or callable runs for some of the elements, and is traced once. An array
that it leaves in an attribute of an object, a list or a variable of its surroundings
would hold symbolic or unmasked values. Owns comparing the places that `reach` finds,
putting them back, and the error. Plain Python values may change: a counter counts how
often Python runs a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.compiler import trace
from lumijit.compiler.evaluate import data
from lumijit.compiler.ops.structural import EVALUATED, LITERAL, WRITTEN
from lumijit.compiler.trace import Node
from lumijit.control.culprit import assignment, methods_of
from lumijit.control.places import (
    MISSING,
    ClassAttributes,
    Globals,
    Items,
    Place,
)
from lumijit.control.reach import LIMIT, PLAIN, Reach
from lumijit.control.state import describe, with_node
from lumijit.nested import NestedArray
from lumijit.runtime.errors import StateError, message, where

Ignored = Callable[[Place, Any], bool]
_CALL_REASON = (
    "a call runs for the elements that select it, but this exists once for all of "
    "them, so it was put back"
)
_CALL_FIX = "return the value instead, or lumijit.scatter it to an array."
_BODY_REASON = (
    "this isn't state of the construct, so it would hold values of elements that "
    "aren't active, or symbolic ones; it was put back"
)
_BODY_FIX = (
    "assign it in the function that contains the construct, make it a state variable, "
    "or lumijit.scatter to an array."
)


class Span(NamedTuple):
    """Places, arrays and functions that were found from one root."""

    places: slice
    arrays: slice
    functions: slice


WHOLE = Span(slice(None), slice(None), slice(None))


@dataclass
class Change:
    """An entry that held or holds arrays, and what it was and became."""

    place: Place
    key: Any
    before: Any
    after: Any


class Outside:
    """The objects that the functions of one construct must leave as they are."""

    def __init__(self, own_names: frozenset[str] = frozenset()) -> None:
        self.reach = Reach(own_names=own_names)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to watch."""
        return not self.reach.places

    def leave(self, value: Any, label: str) -> None:
        """Leave what is state, or an argument, to the construct.

        Objects in it that are no PyTrees are followed.
        """
        reach = self.reach
        if isinstance(value, NestedArray):
            reach.ignore(value)
            for item in value._items:
                self.leave(item, label)
        elif isinstance(value, FlatArray):
            reach.ignore(value)
        elif pytree.is_container(value):
            reach.ignore(value)
            for key, child in pytree.children(value):
                is_name = isinstance(key, str) and type(value) is not dict
                self.leave(child, f"{label}.{key}" if is_name else f"{label}[{key!r}]")
        else:
            reach.follow(value, label)

    def follow(self, roots: Iterable[Any], limit: int = LIMIT) -> Span:
        """Remember what is reached from objects or functions; return which it is."""
        reach = self.reach
        starts = (len(reach.places), len(reach.arrays), len(reach.functions))
        for root in roots:
            reach.follow(root, limit=limit)
        ends = (len(reach.places), len(reach.arrays), len(reach.functions))
        return Span(*(slice(a, b) for a, b in zip(starts, ends, strict=True)))

    def restore(self, span: Span, ignored: Ignored | None = None) -> list[Change]:
        """Put back what changed and has to do with arrays; return what that was."""
        changes: list[Change] = []
        reach = self.reach
        nodes, holders = reach.nodes[span.arrays], reach.holders[span.arrays]
        for array, node, place in zip(
            reach.arrays[span.arrays], nodes, holders, strict=True
        ):
            now = array._node
            if now is not node and not _is_written(array) and not _is_equal(node, now):
                array._node = node
                before, after = (with_node(type(array), n) for n in (node, now))
                key = _key_of(place, array)
                changes.append(Change(place, key, before, after))
        for place in reach.places[span.places]:
            if not place.is_same():
                changes += self._restored(place, ignored)
        return changes

    def during(
        self,
        run: Callable[[], Any],
        refuse: Callable[[Change], Exception],
        span: Span = WHOLE,
        ignored: Ignored | None = None,
    ) -> Any:
        """Return `run()`; refuse the changes that it makes and undo them."""
        # A scatter asks who else refers to the nodes of an array.
        held = trace.state.held
        held.append(self.reach.nodes)
        try:
            result = run()
        except BaseException:
            self.restore(WHOLE, ignored)
            raise
        finally:
            held.pop()
        changes = self.restore(span, ignored)
        if changes:
            raise refuse(changes[0])
        return result

    def _restored(self, place: Place, ignored: Ignored | None) -> list[Change]:
        changes = []
        for key, before, after in place.changes():
            if ignored is not None and ignored(place, key):
                continue
            if self._contents(before) != self._contents(after):
                changes.append(Change(place, key, before, after))
        if changes and isinstance(place, Items):
            # Other items may have moved.
            place.owner[:] = place.kept
        else:
            for change in changes:
                place.put(change.key, change.before)
        return changes

    def _contents(self, value: Any) -> list[tuple[type[Any], int]]:
        """List types and nodes of the arrays in a value.

        Objects known from before count as plain values, whatever arrays they hold.
        """
        if isinstance(value, FlatArray):
            return [(type(value), id(value._node))]
        inner = Reach(known=self.reach)
        inner.follow(value, limit=16)
        return [
            (type(array), id(node))
            for array, node, place in zip(
                inner.arrays, inner.nodes, inner.holders, strict=True
            )
            if not isinstance(place, (ClassAttributes, Globals))
        ]

    def error(
        self,
        construct: str,
        who: str,
        change: Change,
        reason: str,
        fix: str,
        span: Span = WHOLE,
    ) -> StateError:
        """Word the error for a change that `who` made."""
        place, root = change.place, change.place
        names = [change.key]
        while root.parent is not None:
            names.append(_key_of(root.parent, root.owner))
            root = root.parent
        functions = self.reach.functions[span.functions]
        classes = {type(place.owner), type(root.owner)}
        methods = [m for cls in classes for m in methods_of(cls)]
        line = assignment([n for n in names if isinstance(n, str)], functions, methods)
        shown = f"'{place.path(change.key)}'"
        if root.label == "self":
            shown += f" of a {type(root.owner).__name__!r} object"
        before = "nothing" if change.before is MISSING else describe(change.before)
        after = "nothing" if change.after is MISSING else describe(change.after)
        problem = (
            f"{who} changes {shown} (it held {before}, and would hold {after}): {reason}"
        )
        text = message(construct, problem, fix)
        if line:
            text = f"{line}: {text.removeprefix(where() + ': ')} (The construct is at {where()}.)"
        return StateError(text)


def _key_of(place: Place, value: Any) -> Any:
    """Return the key of the entry that held an object."""
    for key, kept in zip(place.keys, place.kept, strict=True):
        if kept is value:
            return key
    return None


def _is_written(array: Any) -> bool:
    """Tell whether an array has a new version by a write, which is masked."""
    node = array._node
    scope = trace.state.scope
    if node.op is WRITTEN and node.scope is scope and id(array) in scope.writes:
        return True
    entry = (trace.state.watched or {}).get(id(array))
    return entry is not None and entry.last is node


def _is_equal(before: Node, after: Node) -> bool:
    """Tell whether a literal was only renewed, or put into memory."""
    if before.op is not LITERAL or before.type is not after.type:
        return False
    if after.op is LITERAL:
        return before.size == after.size and repr(before.attr) == repr(after.attr)
    if after.op is not EVALUATED or before.size != after.size:
        return False
    value = np.asarray(before.attr, before.type.numpy)
    return data(after).tobytes() == np.full(after.size, value).tobytes()


def call_error(
    outside: Outside, construct: str, who: str, change: Change, span: Span
) -> StateError:
    """Word the error for what a function chosen per element changed."""
    return outside.error(construct, who, change, _CALL_REASON, _CALL_FIX, span)


def left_alone(
    run: Callable[[], Any],
    function: Callable[..., Any],
    construct: str,
    who: str,
    state: Iterable[tuple[str, Any]],
    owned: Sequence[tuple[Any, str]] = (),
    own_names: frozenset[str] = frozenset(),
) -> Any:
    """Return `run()`, which calls a body; refuse its changes of what is no state.

    `state` are the values that the body gets, by name; `owned` attributes and the
    variables `own_names` are state, too.
    """
    outside = Outside(own_names)
    for owner, name in owned:
        outside.leave(getattr(owner, name, None), name)
    for label, value in state:
        if type(value) not in PLAIN:
            outside.leave(value, label)
    outside.follow((function,))
    if outside.is_empty:
        return run()

    def is_state(place: Place, key: Any) -> bool:
        return any(place.owner is owner and key == name for owner, name in owned)

    def refuse(change: Change) -> StateError:
        return outside.error(construct, who, change, _BODY_REASON, _BODY_FIX)

    return outside.during(run, refuse, ignored=is_state)


def watched(
    function: Callable[..., Any], construct: str, who: str, labels: Sequence[str]
) -> Callable[..., Any]:
    """Return a body function that may not change objects besides its arguments."""

    def body(*args: Any) -> Any:
        names = [labels[k] if k < len(labels) else f"state[{k}]" for k in range(len(args))]
        state = zip(names, args, strict=True)
        return left_alone(lambda: function(*args), function, construct, who, state)

    return body
