from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumijit.syntax import targets

sys.path.insert(0, str(Path(__file__).parent))

from fake_control import Control


@pytest.fixture(autouse=True)
def control() -> Iterator[Control]:
    """Aim the rewriting at the stand-ins for the time of a test."""
    before = dict(vars(targets))
    fake = Control()
    vars(targets).update(vars(fake.targets()))
    yield fake
    vars(targets).update(before)
