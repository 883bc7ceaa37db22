"""Writes what the documents repeat of the code: `python -m tests.tools.reference`.

The list of operations (`docs/ops.md`) comes from the operations' records, that of
differences from the peer (`docs/differences.md`) from what compares them, the table of
settings in the guide from `runtime.settings`, the tree of the architecture from the
modules' docstrings. A test compares them with the files, so a change of the code can't
leave them behind.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from lumijit.compiler.ir.ops import arithmetic, logic, mathematics, structural
from lumijit.compiler.ir.ops.record import REGISTRY, Op
from lumijit.runtime import dtypes
from lumijit.runtime.settings import ENVIRONMENT, Settings
from tests.fuzz.interface import DRAWN, KNOWN

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "docs" / "ops.md"
GUIDE = ROOT / "docs" / "guide.md"
DIFFERENCES = ROOT / "docs" / "differences.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"

FAMILIES: tuple[tuple[str, ModuleType], ...] = (
    ("Arithmetic", arithmetic),
    ("Comparison, selection, bits", logic),
    ("Functions", mathematics),
    ("Sources, conversions, memory, regions", structural),
)
_KINDS = (
    ("floats", set(dtypes.FLOATS)),
    ("integers", set(dtypes.INTS)),
    ("signed integers", set(dtypes.SIGNED_INTS)),
    ("masks", {dtypes.BOOL}),
)
_HEAD = """# Operations

What a trace consists of. Written by `python -m tests.tools.reference` from the records
in [`compiler/ir/ops/`](../compiler/ir/ops/); don't edit it here.

All operands have one type (but for the mask of `select`), and the result has it too
unless the table says otherwise. *Cost* is roughly the number of instructions: it
decides whether a launch is worth a hand-over to the worker threads, and whether a
branch is executed without a test. Operations marked † commute, so that `x + y` and
`y + x` fold alike.
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").rstrip(".")


def accepted(op: Op) -> str:
    """Name the types that an operation takes, as kinds where possible."""
    left = set(op.accepts)
    if left == set(dtypes.VALUES):
        return "all"
    names = []
    for name, kind in _KINDS:
        if kind <= left:
            names.append(name)
            left -= kind
    return ", ".join([*names, *sorted(t.name for t in left)])


def _row(op: Op) -> str:
    mark = " †" if op.commutative else ""
    operands = str(op.arity) if op.arity >= 0 else "any"
    result = op.result.name if op.result else ""
    cells = (f"`{op.name}`{mark}", operands, accepted(op), result, str(op.cost))
    return f"| {' | '.join(cells)} | {_cell(op.doc)} |"


def _structural_row(op: Op) -> str:
    operands = str(op.arity) if op.arity >= 0 else "any"
    return f"| `{op.name}` | {operands} | {_cell(op.doc)} |"


def operations() -> str:
    """Return the text of `docs/ops.md`."""
    parts = [_HEAD]
    listed: set[Op] = set()
    for title, module in FAMILIES:
        ops = sorted(
            {v for v in vars(module).values() if isinstance(v, Op)} - listed,
            key=lambda op: op.index,
        )
        listed |= set(ops)
        parts.append(f"\n## {title}\n")
        if module is structural:
            parts.append("| operation | operands | meaning |\n|---|---|---|")
            parts += [_structural_row(op) for op in ops]
        else:
            head = "| operation | operands | types | result | cost | meaning |"
            parts.append(f"{head}\n|---|---|---|---|---|---|")
            parts += [_row(op) for op in ops]
    assert listed == set(REGISTRY.values()), "a family of operations is missing"
    return "\n".join(parts) + "\n"


def settings() -> str:
    """Return the guide's table of settings."""
    defaults = Settings()
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for variable in ENVIRONMENT:
        default = getattr(defaults, variable.setting)
        shown = f"`{int(default)}`" if isinstance(default, int) else f"`{default}`"
        shown = shown if default != "" else "not set"
        meaning = variable.meaning
        if variable.choices:
            meaning += ": " + ", ".join(f"`{c}`" for c in variable.choices)
        lines.append(f"| `{variable.name}` | {shown} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def tree(folder: Path, depth: int = 0) -> list[str]:
    """List what a folder of the sources holds: the first lines of the docstrings."""
    indent = "  " * depth
    lines = [f"{indent}- **`{folder.name}/`** {_summary(folder / '__init__.py')}"]
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            lines.append(f"{indent}  - `{path.stem}` {_summary(path)}")
    for child in sorted(folder.iterdir()):
        if (child / "__init__.py").exists():
            lines += tree(child, depth + 1)
    return lines


def _summary(path: Path) -> str:
    """Return the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n", 1)[0]


def architecture() -> str:
    """Return the architecture's tree of the sources."""
    folders = [ROOT / name for name in ("dsl", "compiler", "runtime")]
    return "\n".join(line for folder in folders for line in tree(folder)) + "\n"


def renewed(text: str, mark: str, written: str) -> str:
    """Return a document with what is between two marks brought up to date."""
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->\n"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return before + begin + written + end + after


_DIFFERENCES = """# Differences from Dr.Jit

Expressions that both systems evaluate, to different results, on purpose. Written by
`python -m tests.tools.reference` from the table in
[`tests/fuzz/interface.py`](../tests/fuzz/interface.py); don't edit it here. `python -m
tests.fuzz.interface --peer-python PATH` evaluates 22,000 expressions in both (each
function on each kind of value, with gradients; operators, conversions, subscripts, and
[some](../tests/fuzz/interface.txt) one by one) and prints what differs and isn't
listed. Forms are regular expressions. What these can't show (control flow, indices) is
in [Coming from Dr.Jit](from_drjit.md).

| expressions | how many | why |
|---|---|---|
"""


_DRAWN = """
## Of drawn values

With `--count 4000 --seed 1` it draws functions, types (8 to 64 bits, half to double
precision, masks, arrays of any length, nested ones, tensors, complex numbers,
quaternions, matrices, Python's numbers; `llvm.ad`, `llvm` and `scalar`) and numbers
(the ends of types, zeros of both signs, denormals, infinities and NaN among them).
Results that differ are computed again in double precision, in both, and by NumPy and
SciPy where these have the function. In two of five, an argument is itself what a drawn
call returns. What is left has these reasons. Forms that end in
`= \\['!'` are of our errors only.

| `namespace: expression = our result` | why |
|---|---|
"""


def differences() -> str:
    """Return the list of what differs from the peer on purpose."""
    rows = [
        f"| `{_cell(form)}` | {count} | {_cell(why)} |"
        for form, (count, why) in KNOWN.items()
    ]
    drawn = [f"| `{_cell(form)}` | {_cell(why)} |" for form, why in DRAWN.items()]
    return "\n".join([_DIFFERENCES + "\n".join(rows), _DRAWN + "\n".join(drawn), ""])


def main() -> None:
    """Write the documents."""
    OPS.write_text(operations(), encoding="utf-8")
    DIFFERENCES.write_text(differences(), encoding="utf-8")
    for path, mark, written in PARTS:
        text = path.read_text(encoding="utf-8")
        path.write_text(renewed(text, mark, written()), encoding="utf-8")


PARTS: tuple[tuple[Path, str, Callable[[], str]], ...] = (
    (GUIDE, "settings", settings),
    (ARCHITECTURE, "tree", architecture),
)

if __name__ == "__main__":
    main()
