from __future__ import annotations

from pathlib import Path

import pytest

from tests.typing.checkers import ROOT


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files by the names that they have when installed."""
    folder = tmp_path_factory.mktemp("installed")
    package = folder / "lumijit"
    package.mkdir()
    for source in (ROOT / "dsl").iterdir():
        (package / source.name).symlink_to(source)
    for name in ("compiler", "runtime"):
        (package / name).symlink_to(ROOT / name)
    return folder
