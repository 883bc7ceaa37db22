from __future__ import annotations

from collections.abc import Iterator

import pytest

from lumijit.syntax import targets
from tests.dsl.syntax.fake_control import Control


@pytest.fixture(autouse=True)
def control() -> Iterator[Control]:
    """Aim the rewriting at the stand-ins for the time of a test."""
    before = dict(vars(targets))
    fake = Control()
    vars(targets).update(vars(fake.targets()))
    yield fake
    vars(targets).update(before)
