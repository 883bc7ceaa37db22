"""Array types of the `cuda.ad` namespace, which track derivatives."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lumijit.array_types import declare_namespace, member
from lumijit.spec import CUDA

__all__ = declare_namespace(CUDA, is_diff=True)


def __getattr__(name: str) -> Any:
    if name == "Event":
        return import_module("lumijit.debug.cuda_events").Event
    return member("cuda.ad", name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
