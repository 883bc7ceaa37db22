"""What was traced for one callable of a call.

Making one of those that are alike is the work of `merging`, the call that of `calls`.
"""

from __future__ import annotations

from typing import Any

from lumijit.compiler.ir.captures import Code
from lumijit.compiler.ir.nodes import Node, Scope


class Body:
    """What was traced for one callable; `positions` are the indices that select it.

    `writes` are the arrays that it writes, `locals` the local buffers from outside
    that it accesses, as in `Scope`. Bodies of one call are traced in one scope and
    share nodes.
    """

    __slots__ = (
        "_code",
        "effects",
        "locals",
        "outputs",
        "positions",
        "scope",
        "writes",
    )

    def __init__(
        self,
        scope: Scope,
        effects: list[Node],
        writes: dict[int, Any],
        outputs: tuple[Node, ...],
        positions: list[int],
        buffers: dict[int, Any] | None = None,
    ) -> None:
        self.scope = scope
        self.effects = effects
        self.writes = writes
        self.outputs = outputs
        self.positions = positions
        self.locals: dict[int, Any] = {} if buffers is None else buffers
        self._code: Code | None = None

    @property
    def code(self) -> Code:
        """What it computes, in order."""
        if self._code is None:
            self._code = Code((*self.effects, *self.outputs), self.scope)
        return self._code

    def changed(self) -> None:
        """Forget the code, after effects or results were replaced."""
        self._code = None
