"""Some seconds of the soak."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_a_short_soak() -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.soak",
            "--minutes",
            "0.33",
        ],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    assert "forks" in result.stdout
    assert "interrupted" in result.stdout
