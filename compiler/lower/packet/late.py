"""Finds reads that are made together, and the positions that only accesses need.

Reads of runs take the scalars of their first lanes (`ends`). The vectors of positions
are needed only where reads or writes are made lane by lane, so they are computed late:
there. Reads of a block are made together: one test serves most packets, and those that
have to be made apart share what their positions are computed from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    GATHER,
    LITERAL,
    LOOP,
    REGIONS,
    SCATTER,
)
from lumijit.compiler.lower.packet.lines import Line, Lines
from lumijit.compiler.lower.packet.tables import is_table
from lumijit.compiler.plan.program import Program

# Values that are read at once take registers until they are used.
MAX_GROUP = 12


class Late:
    """What of a program is computed late, and the groups of its reads of runs.

    `fixed` is what is computed as scalars.
    """

    def __init__(
        self, program: Program, wanted: Collection[Node], fixed: Collection[Node]
    ) -> None:
        self.lines = Lines(program, fixed)
        self.groups: dict[Node, list[Node]] = {}
        self.nodes: set[Node] = set()
        self._lines = self.lines.found
        self._fixed = fixed
        self._wanted = wanted
        self._home: dict[Node, tuple[int, int]] = {}
        self._users: dict[Node, list[Node]] = {}
        self._kept: set[Node] = {*program.outputs}
        blocks = [program.nodes]
        for node in program.all_nodes():
            if node.op in REGIONS:
                blocks += [block.nodes for block in node.attr.blocks]
                self._keep(node)
        for number, nodes in enumerate(blocks):
            for k, node in enumerate(nodes):
                self._home[node] = number, k
                if node in wanted:
                    for dep in node.deps:
                        self._users.setdefault(dep, []).append(node)
        for node in reversed(program.all_nodes()):
            if node in self._wanted and self._is_late(node):
                self.nodes.add(node)
        for nodes in blocks:
            self._group(nodes)

    def is_run(self, node: Node) -> bool:
        """Tell whether the lanes of a read probably read a run."""
        if node.op is not GATHER or node in self._fixed:
            return False
        return node.deps[1] in self._lines and not is_table(node.deps[0])

    def _keep(self, region: Node) -> None:
        """Note what a region takes from and gives to others."""
        for block in region.attr.blocks:
            self._kept.update(block.outputs)
        if region.op is LOOP:
            self._kept.update(region.attr.terms)

    def _is_late(self, node: Node) -> bool:
        """Tell whether all that a value is used for takes it where it is needed."""
        is_computed = node.op.lower is not None or node.op in (CAST, BITCAST, COUNTER)
        if not is_computed or node in self._kept or node in self._fixed:
            return False
        operands = (node, *node.deps)
        if not all(n.type.is_int or n.type.is_bool for n in operands):
            return False
        home = self._home[node][0]
        return all(
            self._home[user][0] == home and self._takes_late(user, node)
            for user in self._users.get(node, ())
        )

    def _takes_late(self, user: Node, node: Node) -> bool:
        if user in self.nodes:
            return True
        if user.op is SCATTER:
            _, value, index, mask = user.deps
            is_run = index in self._lines and self._lines[index].step != 0
            is_known = mask is not node or self.lines.truth(node) is not None
            return is_run and value is not node and is_known
        if not self.is_run(user):
            return False
        _, index, mask = user.deps
        if mask is not node:
            return True
        is_asked = not is_direct(user, self._lines[index])
        return is_asked and self.lines.truth(node) is not None

    def _group(self, nodes: Iterable[Node]) -> None:
        """Put reads together that nothing stands between."""
        open_groups: dict[Node | None, list[Node]] = {}
        for node in nodes:
            if node.op in REGIONS:
                open_groups.clear()
            if node not in self._wanted or not self.is_run(node):
                continue
            _, index, mask = node.deps
            if is_direct(node, self._lines[index]):
                continue
            # Lanes that data chooses are asked for their reads only.
            key = None if self.lines.truth(mask) is not None else mask
            group = open_groups.get(key, [])
            is_open = 0 < len(group) < MAX_GROUP
            if not is_open or not self._is_there(node, group):
                group = open_groups[key] = []
            group.append(node)
            self.groups[node] = group

    def _is_there(self, node: Node, group: list[Node]) -> bool:
        """Tell whether all that a read is made of comes before the first of a group."""
        number, first = self._home[group[0]]
        stack = [*node.deps[node.deps[0].op is EVALUATED :]]
        while stack:
            part = stack.pop()
            if part in self.nodes:
                stack += part.deps
            elif part.op is not LITERAL and part in self._home:
                block, place = self._home[part]
                if block == number and place >= first:
                    return False
        return True


def is_direct(node: Node, line: Line) -> bool:
    """Tell whether a read surely is of a run that the processor can mask."""
    t = node.type
    return line.is_sure and line.step > 0 and not t.is_bool and t.size_bytes in (4, 8)
