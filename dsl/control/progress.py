"""Whether a symbolic loop can end: refuses those whose condition nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import LITERAL, SYMBOLIC
from lumijit.compiler.record import local
from lumijit.control.aliases import arguments_in
from lumijit.control.state import never_ends, node_in
from lumijit.pytree import Parts


def check_progress(
    construct: str,
    parts: Parts,
    condition: Node,
    args: dict[int, Node],
    outputs: dict[int, Node],
    inner: Scope,
) -> None:
    """Refuse a loop whose condition no iteration can change.

    Args:
        construct: what errors call the loop.
        parts: its state.
        condition: what the condition is in the body's scope `inner`.
        args: the arguments, by leaf.
        outputs: what a turn makes of them.
    """
    reason = "is the constant True and doesn't depend on the loop state"
    if condition.op is not LITERAL:
        leaves = parts.leaves
        deps = condition.deps
        used = [k for k, arg in args.items() if arg in deps]
        if _changing(used, args, outputs, leaves):
            return
        reached = arguments_in([condition], inner)
        used = [k for k, arg in args.items() if id(arg) in reached]
        if _changing(used, args, outputs, leaves) or local.decides(inner, reached):
            return
        names = [parts.names[k] for k in used if outputs[k] is args[k]]
        reason = "depends on nothing that the body changes"
        if names:
            reason += f" (only on {', '.join(map(repr, names))})"
    elif not condition.attr:
        return
    raise never_ends(construct, reason)


def _changing(
    used: Iterable[int],
    args: dict[int, Node],
    outputs: dict[int, Node],
    leaves: Sequence[Any],
) -> bool:
    """Tell whether a turn changes any of some arguments.

    It doesn't if it computes one anew from what it leaves alone, as that began: so is
    the condition of `while f(x)`, if nothing changes `x`.
    """
    before: dict[int, Node] | None = None
    for k in used:
        output, initial = outputs[k], node_in(leaves[k])
        if output is args[k]:
            continue
        if output.op is not initial.op and output.op is not SYMBOLIC:
            return True
        if before is None:
            same = [j for j, arg in args.items() if outputs[j] is arg]
            before = {id(args[j]): node_in(leaves[j]) for j in same}
        if not _is_again(initial, output, before):
            return True
    return False


def _is_again(initial: Node, output: Node, before: dict[int, Node]) -> bool:
    """Tell whether a node is what another was; `before` tells what arguments were."""
    pairs, seen = [(initial, output)], set()
    while pairs:
        old, new = pairs.pop()
        if old is before.get(id(new), new) or (id(old), id(new)) in seen:
            continue
        seen.add((id(old), id(new)))
        if old.op is not new.op or old.type is not new.type:
            return False
        is_alike = old.attr is new.attr or (
            old.attr.__class__ in (int, float, str) and old.attr == new.attr
        )
        if not (is_alike and 0 < len(old.deps) == len(new.deps)):
            return False
        pairs += zip(old.deps, new.deps, strict=True)
    return True
