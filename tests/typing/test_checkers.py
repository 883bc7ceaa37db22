"""What static type checkers infer of programs is what runs.

Owns running mypy and pyright (in the form that comes from PyPI whole, basedpyright) on
the programs of this folder and on the examples, against the package as wheels have it.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import GenericAlias

import pytest
import typing_extensions

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
CLAIMS = ("functions", "generic", "operators")
_LINE = re.compile(
    r"(?P<file>[^:]+\.py):(?P<line>\d+)(:\d+)?:? -? ?error: (?P<text>.*)"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package's files by the names that they have when installed."""
    folder = tmp_path_factory.mktemp("installed")
    package = folder / "lumijit"
    package.mkdir()
    for source in (ROOT / "dsl").iterdir():
        (package / source.name).symlink_to(source)
    for name in ("compiler", "runtime"):
        (package / name).symlink_to(ROOT / name)
    return folder


def _run(*args, folder):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, args)],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    return done.stdout + done.stderr


def _mypy(folder, *targets):
    """Return file, line and text of each error."""
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
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", output, re.MULTILINE)
    assert found or not output.strip(), output
    return [(path, int(line), text) for path, line, text in found]


def _pyright(folder, *targets):
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


CHECKERS = [
    pytest.param(_mypy, id="mypy"),
    pytest.param(_pyright, id="pyright"),
]


@pytest.mark.parametrize("check", CHECKERS)
def test_examples_are_typed(check, installed):
    pytest.importorskip("PIL")
    found = check(installed, *(ROOT / "examples").glob("*.py"))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("check", CHECKERS)
def test_checkers_agree_with_claims_and_find_mistakes(check, installed):
    found = check(installed, *PROGRAMS.glob("*.py"))
    others = [error for error in found if "mistakes.py" not in error[0]]
    assert not others, "\n".join(map(str, others))
    lines = (PROGRAMS / "mistakes.py").read_text().splitlines()
    wrong = {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert {line for _, line, _ in found} == wrong


def _is_of(value, claim):
    """Tell whether a value, or class, is what a claim says."""
    if claim == tuple[int, ...]:
        return all(type(entry) is int for entry in value)
    if not isinstance(claim, GenericAlias):
        return type(value) is claim
    if claim.__origin__ is type:
        return value is claim.__args__[0]
    return all(map(_is_of, value, claim.__args__))


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_hold_when_run(name, monkeypatch):
    def check(value, claim, /):
        assert _is_of(value, claim), f"{type(value)} is no {claim}"
        return value

    monkeypatch.setattr(typing_extensions, "assert_type", check)
    module = f"tests.typing.programs.{name}"
    sys.modules.pop(module, None)
    importlib.import_module(module)
    del sys.modules[module]
