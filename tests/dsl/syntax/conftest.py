from __future__ import annotations

from collections.abc import Iterator

import pytest

from lumijit.control import install
from lumijit.syntax import targets
from tests.dsl.syntax.fake_control import Control

# It must not aim it at the real ones later.
assert install


@pytest.fixture(autouse=True)
def control() -> Iterator[Control]:
    """Aim the rewriting at the stand-ins for the time of a test."""
    before = dict(vars(targets))
    fake = Control()
    vars(targets).update(fake.targets())
    yield fake
    vars(targets).update(before)
