"""Lowers regions for threads: loops, branches and calls as the processor has them."""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.lower.common.lowering import Lowering

# How often loops look whether they are to end, in turns; a power of two.
_TURNS = 64


def lower_branch(low: Lowering, node: Node) -> None:
    """Lower a branch: one side is run."""
    b, branch = low.b, node.attr
    assert isinstance(branch, Region)
    condition = low.operand(node.deps[0])
    used = low.demand.results(node)
    join, starts = b.label("join"), [b.label("yes"), b.label("no")]
    b.branch_if(condition, *starts)
    sides, ends = [], []
    for block, start in zip(branch.blocks, starts, strict=True):
        b.block(start)
        low.block(block)
        sides.append({k: low.operand(block.outputs[k]) for k in used})
        ends.append(b.current)
        b.branch(join)
    b.block(join)
    found = {}
    for k in used:
        if not is_local(branch.true.outputs[k]):
            values = [side[k] for side in sides]
            found[k] = _phi(low, branch.true.outputs[k], values, ends)
    free = low.scratch.free_areas(node)
    for k in used:
        if k not in found:
            found[k] = low.scratch.merge(condition, sides[0][k], sides[1][k], free)
    low.results[node] = found


def _phi(low: Lowering, node: Node, values: list[str], ends: list[str]) -> str:
    """Join what blocks have computed; `node` has the type."""
    return low.b.phi(node.type.llvm, *zip(values, ends, strict=True))


def lower_loop(low: Lowering, node: Node, cancel: str = "") -> None:
    """Lower a loop, which ends, too, if the word at `cancel` isn't zero any more.

    Each `_TURNS`-th turn looks there.
    """
    b, loop = low.b, node.attr
    assert isinstance(loop, Region)
    state = low.demand.results(node)
    buffers = [k for k in state if is_local(loop.args[k])]
    low.scratch.enter_loop(node, buffers)
    first = {k: low.operand(node.deps[k]) for k in state if k not in buffers}
    for k, arg in enumerate(loop.args):
        if loop.body.outputs[k] is arg and arg in low.demand.wanted:
            low.values[arg] = low.operand(node.deps[k])
    before, (head, body, done) = (
        b.current,
        (b.label(s) for s in ("loop", "body", "done")),
    )
    b.branch(head)
    b.block(head)
    # The phis are written when it is known what they join.
    place = len(b.lines)
    for k in first:
        low.values[loop.args[k]] = b.name()
    low.loop_depth += 1
    low.block(loop.header)
    goes_on = "true"
    for term in loop.terms:
        goes_on = b.emit(f"and i1 {low.operand(term)}, {goes_on}")
    b.branch_if(goes_on, body, done)
    b.block(body)
    turn, next_turn = b.name(), b.name()
    if cancel:
        b.line(f"{next_turn} = add i32 {turn}, 1")
        _leave_if_set(b, cancel, next_turn, done)
    low.block(loop.body)
    low.scratch.leave_body(node, buffers, None)
    low.loop_depth -= 1
    b.line(f"br label %{head}")
    counted = f"  {turn} = phi i32 [ 0, %{before} ], [ {next_turn}, %{b.current} ]"
    b.lines[place:place] = [counted] * bool(cancel) + [
        f"  {low.values[loop.args[k]]} = phi {loop.args[k].type.llvm} "
        f"[ {value}, %{before} ], "
        f"[ {low.operand(loop.body.outputs[k])}, %{b.current} ]"
        for k, value in first.items()
    ]
    b.block(done)
    low.results[node] = {k: low.values[loop.args[k]] for k in state}


def _leave_if_set(b: Builder, word: str, turn: str, done: str) -> None:
    """Leave a loop, in some turns, if a word isn't zero."""
    ask, stay = b.label("ask"), b.label("stay")
    rest = b.emit(f"and i32 {turn}, {_TURNS - 1}")
    b.branch_if(b.emit(f"icmp eq i32 {rest}, 0"), ask, stay)
    b.block(ask)
    found = b.emit(f"load volatile i32, ptr {word}, align 4")
    b.branch_if(b.emit(f"icmp eq i32 {found}, 0"), stay, done)
    b.block(stay)


def lower_call(low: Lowering, node: Node) -> None:
    """Lower a call: one body is run, or none; then the results are zero.

    Results that are local buffers get their areas before, and every body leaves them
    there. The last body returns the buffers as they were.
    """
    b, call = low.b, node.attr
    assert isinstance(call, Region)
    bodies = call.bodies
    used = low.demand.results(node)
    homes, outside = low.scratch.enter_call(node)
    plain = [k for k in used if k not in homes]
    join, labels = b.label("join"), [b.label("body") for _ in bodies]
    cases = " ".join(f"i32 {k + 1}, label %{s}" for k, s in enumerate(labels))
    ends = [b.current]
    found = {k: [b.const(bodies[0].outputs[k].type, 0)] for k in plain}
    b.line(f"switch i32 {low.operand(node.deps[0])}, label %{join} [ {cases} ]")
    for body, label in zip(bodies, labels, strict=True):
        b.block(label)
        low.forget(body)
        low.block(body)
        low.scratch.leave_call(node, body, homes, None)
        for k in plain:
            found[k].append(low.operand(body.outputs[k]))
        ends.append(b.current)
        b.branch(join)
    b.block(join)
    results = {k: _phi(low, bodies[0].outputs[k], found[k], ends) for k in plain}
    low.values.update(outside)
    low.results[node] = results | homes
