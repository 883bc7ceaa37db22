"""Array types of the `llvm.ad` namespace, which track derivatives."""

from __future__ import annotations

from lumijit.random import make_pcg32
from lumijit.typezoo import make_namespace

_types = make_namespace("llvm.ad")
_types["PCG32"] = make_pcg32("llvm.ad")
globals().update(_types)
__all__ = sorted(_types)
