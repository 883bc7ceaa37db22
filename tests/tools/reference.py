"""Writes what the documents repeat of the code: `python -m tests.tools.reference`.

The list of operations (`docs/ops.md`) comes from the operations' records, the
table of settings in the guide from `runtime.config`. A test compares both with
the files, so a change of the code can't leave them behind.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from lumijit.compiler.ir.ops import arithmetic, logic, mathematics, structural
from lumijit.compiler.ir.ops.record import REGISTRY, Op
from lumijit.runtime import config, dtypes

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "docs" / "ops.md"
GUIDE = ROOT / "docs" / "guide.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"

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
in [`compiler/ir/ops/`](../compiler/ops/); don't edit it here.

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
    defaults = config.Settings()
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for variable in config.ENVIRONMENT:
        default = getattr(defaults, variable.setting)
        shown = f"`{int(default)}`" if isinstance(default, int) else f"`{default}`"
        shown = shown if default != "" else "not set"
        meaning = variable.meaning
        if variable.choices:
            meaning += ": " + ", ".join(f"`{c}`" for c in variable.choices)
        lines.append(f"| `{variable.name}` | {shown} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def guide(text: str) -> str:
    """Return the guide with its table of settings brought up to date."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + settings() + END + after


def main() -> None:
    """Write both documents."""
    OPS.write_text(operations(), encoding="utf-8")
    text = GUIDE.read_text(encoding="utf-8")
    GUIDE.write_text(guide(text), encoding="utf-8")


if __name__ == "__main__":
    main()
