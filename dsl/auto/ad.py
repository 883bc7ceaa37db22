"""Like `lumijit.auto`, with derivative tracking where the backend has it."""

from __future__ import annotations

from typing import Any

from lumijit import backend
from lumijit.llvm.ad import __all__


def __getattr__(name: str) -> Any:
    return backend.find_type(name, with_derivatives=True)


def __dir__() -> list[str]:
    return sorted(__all__)
