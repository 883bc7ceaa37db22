"""Which traced values live, and a table of them: `whos`.

Nobody keeps a list of nodes while tracing, which would cost time and memory;
Python's garbage collector knows them all when somebody asks.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any, Literal, overload

from lumijit.arrays import node_state
from lumijit.compiler.ir.nodes import Node, all_of
from lumijit.compiler.launch import kernels
from lumijit.enums import VarState
from lumijit.labels import label_of
from lumijit.literals import forget_literals
from lumijit.runtime import buffers, history

_COLUMNS = "{:>6}  {:<8}  {:<11}  {:<12}  {:>12}  {:>10}  {}"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def live_nodes() -> list[Node]:
    """Return all nodes that arrays, or other nodes, refer to.

    What lumijit keeps for itself isn't among them: the programs that kernels remember
    (`general.Remembered`), and literals at hand for operators.
    """
    forget_literals()
    gc.collect()
    # (Another thread may be making one.)
    return [n for n in all_of(Node) if getattr(n, "op", None) is not None]


@overload
def whos(as_string: Literal[False] = False) -> None: ...
@overload
def whos(as_string: Literal[True]) -> str: ...
@overload
def whos(as_string: bool) -> str | None: ...


def whos(as_string: bool = False) -> str | None:
    """List the traced values that live: what they are, and the memory they take.

    Below the table are totals: memory that is in use and kept for later arrays, the
    kernels known, and, with flag KernelHistory, how many launches it holds.

    Args:
        as_string: return the text instead of printing it.

    Returns:
        The text, if asked for.

    >>> import lumijit as dr
    >>> x = dr.arange(dr.llvm.Float, 3) + 1
    >>> dr.set_label(x, "positions")
    >>> "positions" in dr.whos(as_string=True)
    True
    """
    nodes = live_nodes()
    rows: list[Iterable[Any]] = [
        ("ID", "Type", "State", "Operation", "Size", "Memory", "Label")
    ]
    for number, node in enumerate(nodes, 1):
        row = (
            number,
            node.type.short,
            node_state(node).name,
            node.op.name,
            node.size,
            readable_size(node.buffer.size_bytes) if node.buffer is not None else "",
            label_of(node) or "",
        )
        rows.append(row)
    return table(_COLUMNS, rows, _totals(nodes), as_string)


def table(
    columns: str, rows: Iterable[Iterable[Any]], ending: Iterable[str], as_string: bool
) -> str | None:
    """Write a table, the titles of which are its first row, or return it as text."""
    titles, *lines = (columns.format(*row).rstrip() for row in rows)
    rule = "=" * 80
    text = "\n".join((titles, rule, *lines, rule, *ending)) + "\n"
    if as_string:
        return text
    sys.stdout.write(text)
    return None


def _totals(nodes: list[Node]) -> list[str]:
    held = {id(n.buffer): n.buffer.size_bytes for n in nodes if n.buffer is not None}
    waiting = sum(
        n.size * n.type.size_bytes
        for n in nodes
        if node_state(n) is VarState.Unevaluated
    )
    memory = buffers.memory_stats()
    launched, hits = history.recorded()
    return [
        f"Values   : {len(nodes)}; {readable_size(sum(held.values()))} in memory, "
        f"{readable_size(waiting)} unevaluated",
        f"Memory   : {readable_size(memory['live_bytes'])} in use, "
        f"{readable_size(memory['cached_bytes'])} kept for later, "
        f"{readable_size(memory['peak_bytes'])} in use at most",
        f"Kernels  : {kernels.count()} known; {launched} launches in the history, "
        f"{hits} of them of a known kernel",
    ]


def readable_size(size_bytes: int) -> str:
    """Write a number of bytes with a unit.

    >>> readable_size(12), readable_size(3000)
    ('12 B', '2.93 KiB')
    """
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size /= 1024
        unit += 1
    return f"{size:.4g} {_UNITS[unit]}"
