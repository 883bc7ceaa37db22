"""What checkers infer of calls and operators is what running them returns.

Owns all functions of the stubs' table and all operators, with arguments of many types.
Where the type of a result isn't known it may be `Any`, but never another one.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.base import ArrayBase
from tests.tools.stub_functions import FORMS
from tests.typing.checkers import mypy_messages

SCOPE: dict[str, Any] = {"dr": dr, "llvm": llvm, "scalar": scalar}
HEAD = ["import lumijit as dr", "from lumijit import llvm, scalar"]
# Of functions of three arguments, and of others.
FEW = ("llvm.Float", "llvm.Int", "llvm.Bool", "llvm.Array3f", "float", "int")
KINDS = (
    *FEW,
    "llvm.Float64",
    "llvm.Array3i",
    "llvm.Complex2f",
    "llvm.Quaternion4f",
    "llvm.Matrix3f",
    "llvm.TensorXf",
    "llvm.ad.Float",
    "scalar.Array3f",
)
NUMBERS = {"float", "int", "complex"}
TAKE_TYPES = ("creation", "types", "types of items")
OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "@",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "==",
    "<",
    ">=",
]
UNKNOWN = ("Any", "lumijit.typed.AnyArray")
# Python's numbers say that they equal nothing else, and of masks that become those of
# another namespace the stubs know little.
EXCEPTIONS = re.compile(
    r"(float|int|complex)\(1\) == |scalar.* llvm.Bool|float\(1\) & llvm.Bool"
)


def _arity(name: str) -> int:
    found = inspect.signature(getattr(dr, name)).parameters.values()
    named = [p for p in found if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    return sum(p.default is p.empty for p in named)


def _calls() -> Iterator[str]:
    for form, (names, _) in FORMS.items():
        for name in names.split() if form not in TAKE_TYPES else ():
            count = _arity(name)
            kinds = KINDS if count < 3 else FEW
            for chosen in itertools.product(kinds, repeat=count):
                yield f"dr.{name}({', '.join(f'{kind}(1)' for kind in chosen)})"
    for symbol in OPERATORS:
        for a, b in itertools.product((*KINDS, "complex"), repeat=2):
            if {a, b} - NUMBERS:
                yield f"{a}(1) {symbol} {b}(1)"


def _named(value: Any) -> str:
    """Return how mypy names the type of a value."""
    if type(value) is tuple:
        return f"tuple[{', '.join(map(_named, value))}]"
    cls = type(value)
    is_ours = isinstance(value, ArrayBase)
    return f"{cls.__module__}.{cls.__name__}" if is_ours else cls.__name__


def _results() -> dict[str, str]:
    """Return what calls that are possible return."""
    found = {}
    for call in _calls():
        if not EXCEPTIONS.match(call):
            try:
                found[call] = _named(eval(call, SCOPE))
            except Exception:
                continue
    return found


def test_types_of_results(installed: Path, tmp_path: Path) -> None:
    results = _results()
    assert len(results) > 3000
    program = tmp_path / "calls.py"
    lines = [*HEAD, *(f"reveal_type({call})" for call in results)]
    program.write_text("\n".join(lines))
    messages = mypy_messages(installed, program)
    inferred = {
        line: re.sub(r"builtins\.|\?", "", re.findall('"(.*)"', text)[0])
        for _, line, text in messages["note"]
        if text.startswith("Revealed")
    }
    refused = {line for _, line, _ in messages["error"]}
    wrong = []
    for line, (call, result) in enumerate(results.items(), len(HEAD) + 1):
        if line in refused:
            wrong.append(f"{call} is refused (a {result})")
        elif inferred[line] not in (result, *UNKNOWN):
            wrong.append(f"{call} is a {result}, not a {inferred[line]}")
    assert not wrong, "\n".join(wrong)
    # What is known would else be nothing.
    assert sum(text in UNKNOWN for text in inferred.values()) < len(results) / 2
