"""Array types of the `scalar` namespace: plain Python, one element at a time."""

from __future__ import annotations

from lumijit.random import make_pcg32
from lumijit.typezoo import make_namespace

_types = make_namespace("scalar")
_types["PCG32"] = make_pcg32("scalar")
globals().update(_types)
__all__ = sorted(_types)
