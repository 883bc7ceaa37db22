"""Control flow primitives: loops, conditionals and calls over arrays."""

from lumijit.control.calls import dispatch, switch
from lumijit.control.conditional import if_stmt
from lumijit.control.local_memory import Local, alloc_local
from lumijit.control.loop import while_loop

__all__ = [
    "Local",
    "alloc_local",
    "dispatch",
    "if_stmt",
    "switch",
    "while_loop",
]
