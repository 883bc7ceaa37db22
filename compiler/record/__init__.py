"""What appends to the trace: memory access, regions, calls, reductions."""
