"""Names of LLVM's types of numbers, as elements of packets or of threads."""

from __future__ import annotations

_FLOATS = {"half": 16, "float": 32, "double": 64}


def is_float(ty: str) -> bool:
    """Tell whether a type is one of floats."""
    return ty in _FLOATS


def bits_of(ty: str) -> int:
    """Return how many bits a number has."""
    return _FLOATS.get(ty) or int(ty[1:])


def mangled(ty: str) -> str:
    """Spell a type of numbers as the names of intrinsics do."""
    return f"f{_FLOATS[ty]}" if ty in _FLOATS else ty
