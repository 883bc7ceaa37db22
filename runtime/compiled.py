"""The compiled modules: whether they are used.

Installing lumijit builds some modules with Cython where there is a C compiler
(`setup.py`); Python then imports these in place of the sources beside them. Owns the
setting that has them ignored, which has to be read before any of them is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

from lumijit.runtime.settings import settings


class _Sources:
    """Finds the sources of modules, also where there is a compiled one."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of lumijit's is; packages are left to others."""
        if path is not None and name.startswith("lumijit."):
            for folder in path:
                stem = os.path.join(folder, name.rpartition(".")[2])
                if os.path.isfile(f"{stem}.py") and not os.path.isdir(stem):
                    return spec_from_file_location(name, f"{stem}.py")
        return None


def is_compiled(module: ModuleType) -> bool:
    """Tell whether a module is a compiled one."""
    return not (module.__file__ or "").endswith(".py")


if settings.no_compiled:
    sys.meta_path.insert(0, _Sources)
