"""Array types of the `scalar` namespace: plain Python, one element at a time."""

from __future__ import annotations

from typing import Any

from lumijit.array_types import declare_namespace, member
from lumijit.spec import SCALAR

__all__ = declare_namespace(SCALAR, is_diff=False)


def __getattr__(name: str) -> Any:
    return member("scalar", name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
