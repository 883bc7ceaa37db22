"""The measured programs, by theme; importing this declares all of them."""

from tests.benchmarks.declare import CASES
from tests.benchmarks.programs import (
    arithmetic,
    blocks,
    branches,
    calls,
    gathers,
    launches,
    loops,
    pictures,
    scatters,
    strangers,
    textures,
    tracing,
    whole,
)

__all__ = [
    "CASES",
    "arithmetic",
    "blocks",
    "branches",
    "calls",
    "gathers",
    "launches",
    "loops",
    "pictures",
    "scatters",
    "strangers",
    "textures",
    "tracing",
    "whole",
]
