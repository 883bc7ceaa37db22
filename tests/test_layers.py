"""The house rules that a program can check: sizes, docstrings, packages.

Which way imports run is checked by import-linter (`make lint`).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FOLDERS = ("dsl", "compiler", "runtime")
MAX_LINES = 450
MAX_TEST_LINES = 600
MAX_FUNCTION_LINES = 90


def modules(*folders: str) -> list[Path]:
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]


SOURCES = modules(*FOLDERS)
OTHERS = modules("tests", "examples")


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> str:
    """Return the dotted package that a source file's relative imports start from."""
    folder, *rest = path.relative_to(ROOT).parent.parts
    return ".".join(("lumijit", *([] if folder == "dsl" else [folder]), *rest))


def test_sources_are_found() -> None:
    assert {p.relative_to(ROOT).parts[0] for p in SOURCES} == set(FOLDERS)


@pytest.mark.parametrize("path", SOURCES + OTHERS, ids=identify)
def test_files_stay_readable(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    limit = MAX_LINES if path in SOURCES else MAX_TEST_LINES
    assert len(lines) <= limit, "split it: one idea in one place"


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_functions_stay_readable(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = [
        f"{node.name}: {(node.end_lineno or node.lineno) - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_modules_say_what_they_own(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, "a module begins with a docstring: what it owns, what it doesn't"


def test_every_package_is_installed() -> None:
    """A package missing in pyproject.toml would be missing for users only."""
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for init in SOURCES:
        if init.name == "__init__.py":
            package = package_of(init)
            assert f'"{package}"' in listed, f"pyproject.toml does not list {package}"


# `operators` writes `wrap` out, where tracing speed is decided.
PUTS_NODES = ("compiler/ir/effects.py", "dsl/operators.py")


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_nodes_are_put_into_arrays_in_one_place(path: Path) -> None:
    if identify(path) in PUTS_NODES:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "_node"
        and isinstance(node.ctx, ast.Store)
    ]
    assert found == [], "use wrap(), or the methods of Holder that say what changes"
