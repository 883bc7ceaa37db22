"""Checks of the trace and of what the stages make of it, and what it means.

Tests run these on every evaluation: `verify` knows the rules (`grammar`), `interpret`
computes the same as kernels, one node at a time.
"""
