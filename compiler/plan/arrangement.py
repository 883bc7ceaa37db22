"""The order of operations in a kernel: of two operands, what takes more comes first.

In `acc + f(x)`, `acc` may be such a sum itself, and each `x` follow from the last. With
`acc` first, each `x` is used before the next is computed. With `f(x)` first, all `x`
would be computed, and wait in registers. The order follows from the code alone, so that
equal programs have equal kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lumijit.compiler.ir import local_types
from lumijit.compiler.ir.nodes import Node

# So little code hardly needs more registers than there are.
FEW = 32
# Sums of shared operations double; from here on, which is larger hardly matters.
_MOST = 1e300


def arranged(nodes: Sequence[Node], roots: Iterable[Node]) -> list[Node]:
    """Return nodes in order: what `roots` need, then the others as they come.

    Accesses to local memory stay in the order in which they were made.
    """
    if len(nodes) <= FEW or (local_types.in_use() and local_types.accesses(nodes)):
        return [*nodes]
    weights: dict[Node, float] = {}
    for node in nodes:
        known = [weights[dep] for dep in node.deps if dep in weights]
        weights[node] = min(sum(known, 1.0), _MOST)
    order: dict[Node, None] = {}
    for root in (*roots, *nodes):
        stack = [root] if root in weights else []
        while stack:
            node = stack[-1]
            missing = [d for d in node.deps if d in weights and d not in order]
            if missing and node not in order:
                # The last comes first; of equal ones, that is the first operand.
                stack += sorted(reversed(missing), key=weights.__getitem__)
            else:
                order[stack.pop()] = None
    return [*order]
