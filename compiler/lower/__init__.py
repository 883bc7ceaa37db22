"""Lowering: from scheduled nodes to LLVM IR text for packets and threads."""
