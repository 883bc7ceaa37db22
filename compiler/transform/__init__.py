"""Traces from traces: copies of nodes with other operands, at other positions."""
