"""Derivatives of traces: rules for operations and regions, and their traversal."""
