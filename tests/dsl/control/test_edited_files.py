"""Functions whose file was edited after its import run as they were, or not at all."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from lumijit import llvm
from lumijit.runtime.errors import SyntaxTransformError

EDITED = '''
from __future__ import annotations
import lumijit as dr
from lumijit.llvm import Float, UInt

def make(scale: float):
    class Film:
        """A film."""
        __gain = 2

        @dr.syntax
        def add(self, x: Float, n: int = 3) -> Float:
            """Add."""
            total: Float = x * scale
            def part(v):
                return [v - k for k in range(2)]
            if (x > 1) & (x < 8):
                total = x * 2 + self.__gain + sum(part(x)[:1]) - len(f"{n}")
            i = UInt(0)
            while i < 3 and total is not None:
                total -= 1
                i += 1
            return total

    return Film()

class Base:
    def value(self):
        return 1.5

class Derived(Base):
    @dr.syntax
    def value(self, x=None):
        return super().value() * (x if x is not None else -1)
'''


@pytest.mark.parametrize("change", ["x * 2", "x > 1", "range(2)", "total -= 1"])
def test_files_edited_after_their_import(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"edited_{abs(hash(change))}"
    path = tmp_path / f"{name}.py"
    path.write_text(EDITED)
    module = importlib.import_module(name)
    assert module.Derived().value() == -1.5
    other = change.translate(str.maketrans("12*", "34+"))
    path.write_text(EDITED.replace(change, other))
    with pytest.raises(SyntaxTransformError, match="is not that of this function"):
        module.make(2.0)
    path.write_text(EDITED)
    assert list(module.make(1.0).add(llvm.Float(1, 3))) == [-2, 7]
    # What has been read already runs on.
    path.write_text(EDITED.replace(change, other))
    assert list(module.make(1.0).add(llvm.Float(1, 3))) == [-2, 7]
