"""Control flow primitives: loops and conditionals over arrays."""

from lumijit.control.conditional import if_stmt
from lumijit.control.loop import while_loop

__all__ = ["if_stmt", "while_loop"]
