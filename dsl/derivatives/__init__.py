"""Automatic differentiation: what programs see of it.

The graph and the rules are in `compiler.ir.vertices` and `compiler.derive`.
"""
