"""From trace to machine code: the IR, its operations, scheduling and lowering."""
