"""From a program to LLVM IR for packets of lanes."""
