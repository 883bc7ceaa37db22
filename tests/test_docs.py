"""The documents hold what they promise: links, commands and program blocks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lumijit.runtime.config import Flags, JitFlag
from tests.tools import reference

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|<img[^>]+src=\"([^\"]+)\"")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


def programs() -> list[tuple[str, str]]:
    """List the Python blocks of all documents, by place."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append((f"{identify(path)}:{line}", match.group(1)))
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=identify)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = [a or b for a, b in LINK.findall(text)]
    local = [t for t in targets if "://" not in t]
    missing = [t for t in local if not (path.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize(
    ("place", "program"), programs(), ids=[place for place, _ in programs()]
)
def test_program_blocks_run(place: str, program: str, tmp_path: Path) -> None:
    """Each block is a whole program that asserts its own result."""
    assert "assert " in program, f"{place}: the block asserts nothing"
    file = tmp_path / "block.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, f"{place}:\n{done.stderr}"


def test_contributing_names_the_commands_that_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = re.findall(r"^make (\w+)", script, re.MULTILINE)
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "test" in commands
    for command in commands:
        assert f"make {command}" in guide
    documented = re.findall(r"^make (\w+)", guide, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in documented:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


def test_glossary_says_each_term_once_and_in_order() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\*\*(.+?)\*\*", glossary, re.MULTILINE)
    assert terms == sorted(set(terms), key=str.casefold)


def test_the_operations_are_up_to_date() -> None:
    text = reference.OPS.read_text(encoding="utf-8")
    assert text == reference.operations(), "run python -m tests.tools.reference"


def test_the_differences_are_up_to_date() -> None:
    text = reference.DIFFERENCES.read_text(encoding="utf-8")
    assert text == reference.differences(), "run python -m tests.tools.reference"


@pytest.mark.parametrize(("path", "mark", "written"), reference.PARTS)
def test_repeated_parts_are_up_to_date(
    path: Path, mark: str, written: Callable[[], str]
) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == reference.renewed(text, mark, written()), (
        "run python -m tests.tools.reference"
    )


def test_the_guide_names_flags_that_exist_with_their_defaults() -> None:
    text = reference.GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (on|off) \|", text, re.MULTILINE)
    assert rows
    defaults = Flags()
    for name, default in rows:
        attribute = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        assert JitFlag[name], name
        assert getattr(defaults, attribute) is (default == "on"), name
