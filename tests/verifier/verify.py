"""Checks of the trace and of what the stages make of it.

`verify` checks nodes and all they depend on (the rules are in `grammar`),
`verify_plan` a schedule and `verify_program` one kernel's worth. Nothing here
repairs anything, and no user mistake ends here: a `VerificationError` is an error
of lumijit itself. The tests run these checks on every evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.structural import (
    EVALUATED,
    LEAVES,
    LITERAL,
    REGIONS,
    WRITTEN,
)
from lumijit.compiler.ir.roles import (
    is_effect,
    source_deps,
    value_deps,
    written_deps,
)
from lumijit.compiler.plan.program import Program, target_root
from lumijit.compiler.plan.schedule import Plan
from lumijit.runtime.dtypes import VALUES
from tests.verifier.grammar import check_node
from tests.verifier.rules import VerificationError, open_scopes, require

__all__ = ["VerificationError", "verify", "verify_plan", "verify_program"]


def verify(nodes: Iterable[Node]) -> None:
    """Check nodes and everything they depend on.

    Raises:
        VerificationError: it names the rule and the node.

    >>> from lumijit.compiler.ir.ops.arithmetic import ADD
    >>> from lumijit.compiler.ir.trace import counter, emit2
    >>> total = emit2(ADD, counter(4), counter(4))
    >>> verify([total])
    >>> total.size = 5
    >>> verify([total])
    Traceback (most recent call last):
    ...
    tests.verifier.rules.VerificationError: the size is that of the operands \
(expected 4, got 5) at <add UInt32[5]>(<counter UInt32[4]>, <counter UInt32[4]>)
    """
    scopes = open_scopes(trace.state.scope)
    entered: set[int] = set()
    done: set[int] = set()
    for root in nodes:
        stack = [(root, False)]
        while stack:
            node, is_left = stack.pop()
            key = id(node)
            if is_left:
                done.add(key)
                check_node(node)
                continue
            if key in done:
                continue
            require(key not in entered, "no node depends on itself", node)
            entered.add(key)
            require(node.scope in scopes, "the scope of a node is open", node)
            stack.append((node, True))
            stack.extend((dep, False) for dep in node.deps if id(dep) not in done)


def verify_plan(plan: Plan) -> None:
    """Check a schedule: groups in order, every node once and in its size's group.

    Raises:
        VerificationError: it names the rule and the node.
    """
    seen: set[int] = set()
    phase = 0
    for group in plan.groups:
        for node in (*group.outputs, *group.effects):
            require(group.phase >= phase, "groups come in the order of phases", node)
            require(node.size == group.size, "a group has one size", node)
        for node in group.outputs:
            require(id(node) not in seen, "a node is stored once", node)
            is_stored = node.type in VALUES or is_local(node)
            require(is_stored, "only values are stored", node)
            seen.add(id(node))
        for node in group.effects:
            require(is_effect(node), "an effect writes", node)
        phase = group.phase


def verify_program(program: Program) -> None:
    """Check a kernel's worth of trace: order, sizes, arguments and key.

    Raises:
        VerificationError: it names the rule and the node.
    """
    known: set[int] = set()
    roots = {id(target.root) for target in program.targets.values()}
    for node in program.nodes:
        require(node.scope is ROOT, "a kernel's nodes belong to the program", node)
        require(id(node) not in known, "a kernel computes a node once", node)
        for dep in value_deps(node):
            if node.op is not WRITTEN:
                require(dep.op is not WRITTEN, "a version is read in memory", node)
            require(id(dep) in known, "operands come before their uses", node)
        for dep in source_deps(node):
            in_memory = dep.op is EVALUATED and dep in program.pointers
            require(in_memory, "indexed arrays lie in memory", node)
        for dep in written_deps(node):
            is_bound = id(target_root(dep)) in roots
            require(is_bound, "written arrays are targets of the kernel", node)
        known.add(id(node))
        if node in program.values and node.op not in LEAVES:
            fits = node.size in (1, program.size) or node.op in REGIONS
            require(fits, "values have the kernel's size, or size 1", node)
    for node in program.arguments:
        is_argument = node.op in (LITERAL, EVALUATED)
        require(is_argument, "arguments are literals or lie in memory", node)
    for node in program.outputs:
        require(node.size == program.size, "outputs have the kernel's size", node)
        require(id(node) in known, "outputs are computed", node)
    if program.nodes:
        _check_key(program)


def _check_key(program: Program) -> None:
    """The key must be a value: hashable, and spelled the same in every process."""
    first = program.nodes[0]
    hash(program.key)
    spelled = repr(program.key)
    require(" at 0x" not in spelled, "a key holds no addresses", first, spelled)
    limit = max((t.root.size for t in program.targets.values()), default=0)
    args = program.size, program.outputs, program.effects
    again = [Program(*args, 0), Program(*args, limit)]
    is_same = any(program.key == other.key for other in again)
    require(is_same, "the same nodes give the same key", first)
