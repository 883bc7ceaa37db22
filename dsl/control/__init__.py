"""Control flow primitives: loops, conditionals and calls over arrays."""

from lumijit.control.calls import dispatch, switch
from lumijit.control.conditional import if_stmt
from lumijit.control.loop import while_loop

__all__ = ["dispatch", "if_stmt", "switch", "while_loop"]
