"""Runs mypy and pyright, against the package as wheels have it.

Pyright is basedpyright, which comes from PyPI whole. That package's files by the names
that they have when installed are the fixture `installed`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# File, line and text of a message.
Message = tuple[str, int, str]


def _run(*args: object, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, args)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    return done.stdout + done.stderr


def mypy(folder: Path, *targets: Path) -> list[Message]:
    """Return the errors that mypy finds."""
    return mypy_messages(folder, *targets)["error"]


def mypy_messages(folder: Path, *targets: Path) -> dict[str, list[Message]]:
    """Return what mypy says, by kind: errors and notes."""
    pytest.importorskip("mypy")
    output = _run(
        "mypy",
        "--strict",
        f"--config-file={ROOT / 'pyproject.toml'}",
        f"--cache-dir={ROOT / '.mypy_cache' / 'programs'}",
        "--follow-imports=silent",
        "--no-error-summary",
        "--hide-error-context",
        *targets,
        folder=folder,
    )
    found: dict[str, list[Message]] = {"error": [], "note": []}
    lines = re.findall(r"^(.+?):(\d+): (error|note): (.*)$", output, re.MULTILINE)
    assert lines or not output.strip(), output
    for path, line, kind, text in lines:
        found[kind].append((path, int(line), text))
    return found


def pyright(folder: Path, *targets: Path) -> list[Message]:
    """Return the errors that pyright finds."""
    pytest.importorskip("basedpyright")
    settings = folder / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {
                "extraPaths": [str(folder), str(ROOT)],
                "include": [str(target) for target in targets],
                "pythonVersion": "3.10",
                "typeCheckingMode": "standard",
            }
        )
    )
    output = _run(
        *("basedpyright", "-p", settings, "--outputjson"),
        *("--pythonpath", sys.executable),
        folder=folder,
    )
    return [
        (entry["file"], entry["range"]["start"]["line"] + 1, entry["message"])
        for entry in json.loads(output)["generalDiagnostics"]
        if entry["severity"] == "error"
    ]
