"""Kernels made, found again, started and waited for: evaluation."""
