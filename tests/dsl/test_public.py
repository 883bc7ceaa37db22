"""The public names: documented, with an example that runs."""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import inspect
import subprocess
import sys

import pytest

import lumijit as dr

OURS = (
    "lumijit.backend",
    "lumijit.constants",
    "lumijit.debug",
    "lumijit.enums",
    "lumijit.functions",
    "lumijit.random",
    "lumijit.traits",
    "lumijit.type_traits",
)


def public():
    for name in dir(dr):
        value = getattr(dr, name)
        module = getattr(value, "__module__", "") or ""
        if not name.startswith("_") and module.startswith(OURS):
            yield pytest.param(value, id=name)


@pytest.mark.parametrize("value", list(public()))
def test_examples_run(value):
    assert inspect.getdoc(value)
    finder = doctest.DocTestFinder(recurse=False)
    examples = [t for t in finder.find(value, module=False, globs={}) if t.examples]
    assert examples
    for example in examples:
        result = doctest.DocTestRunner().run(example)
        assert result.failed == 0


@pytest.mark.parametrize(
    "module",
    [
        "pytree",
        "printing",
        "initialize",
        "dda",
        "random.pcg32",
        "random.generator",
        "control.local_memory",
        "debug.whos",
        "debug.template",
        "debug.formatting",
        "opt.methods",
        "opt.optimizer",
        "debug.events",
        "hashgrid",
        "nn.modules",
        "nn.vectors",
        "nn.views",
        "opt.scaling",
    ],
)
def test_examples_of_helpers_run(module):
    name = f"lumijit.{module}"
    found = __import__(name, fromlist=["x"])
    assert doctest.testmod(found).failed == 0


def test_only_public_names_are_listed():
    modules = [name for name in dir(dr) if inspect.ismodule(getattr(dr, name))]
    expected = ["auto", "cuda", "dda", "hashgrid", "llvm", "nn", "opt", "pytree"]
    expected += ["random", "scalar"]
    assert modules == expected
    assert set(dr.__all__) <= set(dir(dr))
    assert not [name for name in dr.__all__ if name.startswith("_")]


def test_the_version_is_that_of_the_package():
    assert dr.__version__ == importlib.metadata.version("lumijit")


def test_what_is_imported_later_is_found():
    for home, names in vars(dr)["_LATER"].items():
        for name in names:
            found = getattr(dr, name)
            module = importlib.import_module(f"lumijit.{home or name}")
            assert found is (getattr(module, name) if home else module)
    with pytest.raises(AttributeError, match="no attribute 'sinus'"):
        dr.sinus  # type: ignore[attr-defined]  # noqa: B018


def test_importing_leaves_for_later_what_not_every_program_needs() -> None:
    wanted = "['gast', 'llvmlite', 'lumijit.compiler.lower.packet.kernel', "
    wanted += "'lumijit.compiler.derive.traversal', 'lumijit.control.install']"
    code = f"import lumijit, sys; print([m for m in {wanted} if m in sys.modules])"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_what_is_imported_later_is_there_whichever_comes_first() -> None:
    code = "import lumijit as dr; dr.while_loop; dr.Local; assert callable(dr.syntax)"
    subprocess.run([sys.executable, "-c", code], check=True)
