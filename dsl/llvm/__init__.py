"""Array types of the `llvm` namespace, compiled for the CPU."""

from __future__ import annotations

from lumijit.llvm import ad as ad
from lumijit.random import make_pcg32
from lumijit.typezoo import make_namespace

_types = make_namespace("llvm")
_types["PCG32"] = make_pcg32("llvm")
globals().update(_types)
__all__ = sorted(_types)
