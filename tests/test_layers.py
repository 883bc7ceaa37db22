"""The house rules that a program can check: directions, sizes, docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Each folder, and the layers that it may import.
LAYERS = {
    "runtime": ("runtime",),
    "compiler": ("compiler", "runtime"),
    "dsl": ("dsl", "compiler", "runtime"),
}
MAX_LINES = 450
MAX_TEST_LINES = 600
MAX_FUNCTION_LINES = 90


def modules(*folders: str) -> list[Path]:
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]


SOURCES = modules(*LAYERS)
OTHERS = modules("tests", "examples")


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> str:
    """Return the dotted package that a source file's relative imports start from."""
    folder, *rest = path.relative_to(ROOT).parent.parts
    return ".".join(("lumijit", *([] if folder == "dsl" else [folder]), *rest))


def imports(path: Path, tree: ast.AST) -> list[tuple[int, str]]:
    """List (line, module) of everything a file imports, also inside functions.

    `from a import b` counts as `a.b`, since `b` may be a module.
    """
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package_of(path).split(".")
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def layer_of(module: str) -> str | None:
    """Return the layer that a dotted name belongs to, None outside the package."""
    if module.split(".")[0] != "lumijit":
        return None
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "dsl"


def violations(path: Path, source: str) -> list[str]:
    """List the imports of a file that its layer forbids."""
    layer = path.relative_to(ROOT).parts[0]
    wrong: list[str] = []
    for line, module in imports(path, ast.parse(source)):
        if module.split(".")[0] in LAYERS:
            wrong.append(f"{identify(path)}:{line} imports the folder {module}")
        elif layer_of(module) not in (None, *LAYERS[layer]):
            wrong.append(f"{identify(path)}:{line} imports {module}")
    return wrong


def test_sources_are_found() -> None:
    assert {p.relative_to(ROOT).parts[0] for p in SOURCES} == set(LAYERS)


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_imports_keep_their_direction(path: Path) -> None:
    assert violations(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("runtime/x.py", "from lumijit.compiler.ir.trace import Node"),
        ("runtime/x.py", "from lumijit import compiler"),
        ("runtime/x.py", "import lumijit"),
        ("runtime/x.py", "from lumijit import Float"),
        ("runtime/x.py", "from ..compiler import trace"),
        ("runtime/x.py", "def f():\n    import lumijit.arrays"),
        ("runtime/x.py", "from runtime import dtypes"),
        ("compiler/lower/x.py", "from lumijit.arrays import ArrayBase"),
        ("compiler/lower/x.py", "from ...arrays import ArrayBase"),
        ("compiler/x.py", "import lumijit.syntax"),
        ("dsl/x.py", "import compiler.trace"),
    ],
)
def test_a_wrong_import_is_noticed(file: str, line: str) -> None:
    assert violations(ROOT / file, line + "\n") != []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("runtime/x.py", "from lumijit.runtime import dtypes"),
        ("runtime/x.py", "from . import dtypes"),
        ("compiler/x.py", "from lumijit.runtime.dtypes import BOOL"),
        ("compiler/lower/x.py", "from ..trace import Node"),
        ("dsl/x.py", "from lumijit.compiler import trace"),
        ("dsl/functions/x.py", "from lumijit.arrays import ArrayBase"),
        ("dsl/x.py", "import numpy as np"),
    ],
)
def test_a_right_import_is_allowed(file: str, line: str) -> None:
    assert violations(ROOT / file, line + "\n") == []


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
