"""The modules built with Cython: which they are, that they can be ignored."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import lumijit
from lumijit.compiler.ir import nodes
from lumijit.runtime.compiled import is_compiled

ROOT = Path(__file__).resolve().parents[2]
TYPED = [
    path
    for folder in ("dsl", "compiler", "runtime")
    for path in (ROOT / folder).rglob("*.pxd")
    if path.name != "__init__.pxd"
]


def run(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_types_belong_to_a_module() -> None:
    assert TYPED
    for path in TYPED:
        assert path.with_suffix(".py").exists(), path


@pytest.mark.parametrize(
    "path", [p for p in TYPED if ROOT / "dsl" in p.parents], ids=lambda p: p.stem
)
def test_numbers_are_asked_for_their_class(path: Path) -> None:
    """A recorded number is an `int` to Python's `isinstance`, and not to that of C."""
    for node in ast.walk(ast.parse(path.with_suffix(".py").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            kinds = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            assert not kinds & {"int", "float"}, f"{path.stem}:{node.lineno}"


@pytest.mark.parametrize("path", TYPED, ids=lambda p: str(p.relative_to(ROOT)))
def test_types_are_of_what_a_module_has(path: Path) -> None:
    """What isn't there any more fails to compile: all would be plain Python."""
    text = re.sub(
        r"^cdef extern.*?(?=^\S)", "", path.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    typed = set(re.findall(r"^(?:cp?def )[^(\n:]*?(\w+)\s*[(:]", text, re.MULTILINE))
    tree = ast.parse(path.with_suffix(".py").read_text())
    defined = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    assert typed <= set(defined)
    for name, body in re.findall(r"^cdef class (\w+):\n((?:    .*\n|\n)*)", text, re.M):
        fields = set(re.findall(r"^    cdef [\w :\[\]]+ (\w+)$", body, re.M))
        # Any name in a class will do: fields are slots, annotations, or made in
        # `__init__`. (Without slots, classes can be referred to weakly anyway.)
        words = set(re.findall(r"\w+", ast.unparse(defined[name])))
        assert fields - {"__weakref__"} <= words, name
        assert slots(defined[name]) <= fields, name
        assert "__dict__" in body or assigned(defined[name]) <= fields, name


def slots(node: ast.AST) -> set[str]:
    """Return the fields that a class lists."""
    assert isinstance(node, ast.ClassDef)
    for entry in node.body:
        if (
            isinstance(entry, ast.Assign)
            and ast.unparse(entry.targets[0]) == "__slots__"
        ):
            return {*ast.literal_eval(entry.value)}
    return set()


def assigned(node: ast.AST) -> set[str]:
    """Return the fields that the methods of a class assign, unless it inherits some."""
    assert isinstance(node, ast.ClassDef)
    if [base for base in node.bases if ast.unparse(base) != "Holder"]:
        return set()
    return {
        field.attr
        for field in ast.walk(node)
        if isinstance(field, ast.Attribute)
        and isinstance(field.ctx, ast.Store)
        and ast.unparse(field.value) == "self"
    }


def test_in_place_nothing_is_compiled() -> None:
    """It would hide edits."""
    assert list((ROOT / "compiler").rglob("*.so")) == []
    assert list((ROOT / "dsl").rglob("*.so")) == []
    assert list((ROOT / "runtime").rglob("*.so")) == []


def test_where_there_is_a_compiler_it_is_used() -> None:
    installed = Path(lumijit.__file__).parent
    if installed.name == "dsl":
        pytest.skip("installed in place")
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not shutil.which("gcc") or not header.exists():
        pytest.skip("there is no C compiler here")
    expected = "LUMIJIT_NO_COMPILED" not in os.environ
    assert is_compiled(nodes) == expected
    for path in TYPED:
        folder, *rest = path.relative_to(ROOT).parts
        place = installed.joinpath(*([] if folder == "dsl" else [folder]), *rest)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        assert place.with_name(path.stem + suffix).exists()


def test_compiled_modules_can_be_ignored() -> None:
    code = (
        "import sys, lumijit; print({m.__file__.rpartition('.')[2] for n, m in"
        " sys.modules.items() if n.split('.')[0] == 'lumijit'})"
    )
    assert run(code, LUMIJIT_NO_COMPILED="1") == "{'py'}"


def test_without_a_c_compiler_the_sources_are_installed(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    command = [sys.executable, "setup.py", "build", "--build-base", str(tmp_path)]
    command += ["egg_info", "--egg-base", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "CC": "/bin/false", "LUMIJIT_NO_COMPILED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "installed as plain Python" in done.stdout + done.stderr
    (tree,) = tmp_path.glob("lib*")
    assert (tree / "lumijit/compiler/ir/nodes.py").exists()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert list(tree.rglob(f"*{suffix}")) == []
    # Kernels that need no trace come along.
    assert len(list((tree / "lumijit/runtime/prebuilt").glob("*.kernel"))) > 200


def test_errors_show_no_frames_of_compiled_modules() -> None:
    code = (
        "import traceback, lumijit as dr\n"
        "from lumijit.llvm import Float, UInt\n"
        "try:\n"
        "    dr.switch(UInt(0, 0), [lambda x: x + Float(1, 2, 3)], Float(1, 2))\n"
        "except Exception:\n"
        "    print(traceback.format_exc())\n"
    )
    assert run(code).count("SizeError") == 1
    assert "lumijit/compiler" not in run(code)
