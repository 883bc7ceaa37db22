"""What is tracked for derivatives, as a table (`whos_ad`) and drawn (`graphviz_ad`)."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any, Literal, overload

from lumijit.compiler.ir.nodes import all_of
from lumijit.compiler.ir.vertices import Vertex
from lumijit.debug.diagram import HEAD, quoted, source
from lumijit.debug.whos import table
from lumijit.labels import label_of
from lumijit.runtime.dtypes import VOID

_COLUMNS = "{:>6}  {:<8}  {:>10}  {:<14}  {:<8}  {:<16}  {}"


def _live() -> list[Vertex]:
    """Return the vertices that arrays, or other vertices, refer to, in order."""
    gc.collect()
    found = all_of(Vertex)
    return sorted(found, key=lambda vertex: vertex.serial)


def _operation(vertex: Vertex) -> str:
    return "variable" if vertex.op is None else str(vertex.op)


def _label(vertex: Vertex) -> str:
    node = vertex.result()
    return (label_of(node) or "") if node is not None else ""


@overload
def whos_ad(as_string: Literal[False] = False) -> None: ...
@overload
def whos_ad(as_string: Literal[True]) -> str: ...
@overload
def whos_ad(as_string: bool) -> str | None: ...


def whos_ad(as_string: bool = False) -> str | None:
    """List the values whose derivatives are tracked.

    Args:
        as_string: return the text instead of printing it.

    Returns:
        The text, if asked for. `From` are the numbers of the values that one is
        computed of (`index_ad`), as far as derivatives flow from there.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> y = dr.sin(x)
    >>> "sin" in dr.whos_ad(as_string=True)
    True
    """
    rows: list[Iterable[Any]] = [
        ("ID", "Type", "Size", "Operation", "Gradient", "From", "Label")
    ]
    vertices = _live()
    for vertex in vertices:
        parents = ", ".join(str(parent.serial) for parent in vertex.parents)
        row = (
            vertex.serial,
            "" if vertex.type is VOID else vertex.type.short,
            vertex.size,
            _operation(vertex),
            "yes" if vertex.grad is not None else "",
            parents,
            _label(vertex),
        )
        rows.append(row)
    return table(_COLUMNS, rows, [f"Tracked  : {len(vertices)}"], as_string)


def graphviz_ad(as_string: bool = False) -> Any:
    """Draw the values whose derivatives are tracked, and how they depend on each other.

    Variables are green, values with a gradient blue; those with a label
    (`set_label`) show it.

    Args:
        as_string: return the diagram in Graphviz's language DOT.

    Returns:
        A string, or else an object `graphviz.Source`, with a method `view`.

    Raises:
        MissingPackageError: without the package graphviz, unless `as_string` is set.

    >>> import lumijit as dr
    >>> x = dr.llvm.ad.Float(1)
    >>> dr.enable_grad(x)
    >>> dr.graphviz_ad(as_string=True).startswith("digraph")
    True
    """
    lines = []
    for vertex in _live():
        caption = [_label(vertex), _operation(vertex)]
        kind = "" if vertex.type is VOID else vertex.type.short
        caption.append(f"a{vertex.serial}: {kind}[{vertex.size}]")
        text = quoted("\n".join(line for line in caption if line))
        name = f"a{vertex.serial}"
        lines.append(f'  {name} [label={text} fillcolor="{_color(vertex)}"];')
        lines += [f"  a{parent.serial} -> {name};" for parent in vertex.parents]
    text = HEAD + "\n".join(lines) + "\n}\n"
    return text if as_string else source(text, "lumijit.graphviz_ad")


def _color(vertex: Vertex) -> str:
    if vertex.grad is not None:
        return "lightblue2"
    return "white" if vertex.inputs else "palegreen"
