"""Array types of the `llvm` namespace, compiled for the CPU."""

from __future__ import annotations

from lumijit.typezoo import make_namespace

_types = make_namespace("llvm")
globals().update(_types)
__all__ = sorted(_types)  # noqa: PLE0605
