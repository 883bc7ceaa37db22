"""Random numbers: PCG32, and generators of random arrays as NumPy has them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import the class of `lumijit.rng`'s generators when it is first asked for."""
    if name != "Generator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.generator").Generator
