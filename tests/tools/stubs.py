"""Writes the stubs that type checkers read: `python -m tests.tools.stubs`.

They say of array types and of functions over them what Python's annotations in the
sources can't, and are never imported. A test compares them with what is written here.
"""

from __future__ import annotations

from pathlib import Path

from tests.tools.stub_base import base_stub
from tests.tools.stub_functions import package_stub
from tests.tools.stub_types import NAMESPACES, auto_stub, namespace_stub

ROOT = Path(__file__).resolve().parents[2] / "dsl"
_FILES = {
    "scalar": "scalar/__init__.pyi",
    "llvm": "llvm/__init__.pyi",
    "llvm.ad": "llvm/ad.pyi",
    "cuda": "cuda/__init__.pyi",
    "cuda.ad": "cuda/ad.pyi",
}


def stubs() -> dict[Path, str]:
    """Return the contents of the stubs by path."""
    found = {ROOT / _FILES[name]: namespace_stub(name) for name in NAMESPACES}
    found[ROOT / "typed.pyi"] = base_stub()
    found[ROOT / "__init__.pyi"] = package_stub()
    ad = "from lumijit.auto import ad as ad"
    found[ROOT / "auto/__init__.pyi"] = auto_stub("llvm", ad)
    found[ROOT / "auto/ad.pyi"] = auto_stub("llvm.ad", "")
    return found


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
