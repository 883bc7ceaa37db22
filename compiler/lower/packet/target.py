"""The packet target: kernels that process several elements in vector registers.

What writes them is imported with the first kernel that isn't found in a cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lumijit.compiler.plan.target import Code, Collectives, Target
from lumijit.runtime.cached_properties import cached_property

if TYPE_CHECKING:
    from lumijit.compiler.emit.builder import TargetInfo
    from lumijit.compiler.plan.program import Program


class PacketTarget(Target):
    """Writes kernels for packets of lanes."""

    name = "packet"
    has_private_copies = True
    has_streaming_stores = True
    has_folds = True

    @cached_property
    def collectives(self) -> Collectives:
        """The kernels for what isn't elementwise."""
        from lumijit.compiler.lower import collectives

        return collectives

    def plan(self, program: Program, info: TargetInfo) -> Any:
        """Find what is wanted and uniform, and choose the width."""
        from lumijit.compiler.lower.packet import writing

        return writing.plan(program, info)

    def lower(self, program: Program, plan: Any, name: str) -> Code:
        """Write a program's kernel."""
        from lumijit.compiler.lower.packet import writing

        return writing.lower(program, plan, name)

    def fold(
        self, program: Program, info: TargetInfo, op: str, by_rows: bool, name: str
    ) -> str:
        """Write the kernel that combines what a program computes, by runs or rows."""
        from lumijit.compiler.lower.packet import writing

        return writing.fold(program, info, op, by_rows, name)


TARGET = PacketTarget()
