"""Array types of the backend chosen with `lumijit.set_backend` (default: llvm)."""

from __future__ import annotations

from typing import Any

from lumijit import backend
from lumijit.auto import ad as ad
from lumijit.llvm import __all__


def __getattr__(name: str) -> Any:
    return backend.find_type(name)


def __dir__() -> list[str]:
    return sorted(__all__)
