"""Collective kernels for blocks of threads, written once for GPUs and the CPU."""
