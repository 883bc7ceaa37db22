"""`graphviz`: the live trace as a diagram, regions as boxes around their bodies."""

from __future__ import annotations

from typing import Any

from lumijit.arrays import node_state
from lumijit.compiler.ir.effects import Reduction
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL, LOOP, REGIONS
from lumijit.debug.whos import live_nodes
from lumijit.enums import VarState
from lumijit.labels import label_of
from lumijit.runtime.dtypes import VOID
from lumijit.runtime.errors import MissingPackageError

_COLORS = {
    VarState.Literal: "gray90",
    VarState.Evaluated: "lightblue2",
    VarState.Dirty: "salmon",
    VarState.Symbolic: "yellow",
}
HEAD = """digraph {
  rankdir=TB;
  node [shape=box fontname="monospace" style=filled fillcolor=white];
  edge [fontname="monospace"];
"""


def graphviz(as_string: bool = False) -> Any:
    """Draw the traced values that live, and how they depend on each other.

    Loops and branches are boxes around what they compute. Values in memory are
    blue, constants gray, symbolic ones yellow, arrays with pending writes red; those
    with a label (`set_label`) show it.

    Args:
        as_string: return the diagram in Graphviz's language DOT.

    Returns:
        A string, or else an object `graphviz.Source`, with a method `view`.

    Raises:
        MissingPackageError: without the package graphviz, unless `as_string` is set.

    >>> import lumijit as dr
    >>> x = dr.arange(dr.llvm.Float, 3) + 1
    >>> dr.graphviz(as_string=True).startswith("digraph")
    True
    """
    text = _Diagram(live_nodes()).text()
    return text if as_string else source(text, "lumijit.graphviz")


def source(text: str, construct: str) -> Any:
    """Return a diagram as an object of the package graphviz."""
    try:
        from graphviz import Source
    except ImportError:
        raise MissingPackageError(
            construct,
            "the Python package 'graphviz' is not installed",
            "run `pip install graphviz`, or pass as_string=True.",
        ) from None
    return Source(text)


class _Diagram:
    """The lines so far; each node is drawn once, in the box that it belongs to."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.names = {id(node): f"n{k}" for k, node in enumerate(nodes, 1)}
        self.lines: list[str] = []
        self.drawn: set[int] = set()
        self.boxes = 0

    def text(self) -> str:
        """Draw everything."""
        inside: set[int] = set()
        for node in self.nodes:
            if node.op in REGIONS:
                inside.update(map(id, _parts(node)))
        for node in self.nodes:
            if id(node) not in inside:
                self.draw(node, 1)
        for node in self.nodes:
            self._edges(node)
        return HEAD + "\n".join(self.lines) + "\n}\n"

    def draw(self, node: Node, depth: int) -> None:
        """Draw a node, or a region with all that is in it."""
        if id(node) in self.drawn or id(node) not in self.names:
            return
        self.drawn.add(id(node))
        name = self.names[id(node)]
        indent = "  " * depth
        text = f'{name} [label={quoted(_caption(node))} fillcolor="{_color(node)}"];'
        if node.op not in REGIONS:
            self.lines.append(indent + text)
            return
        region = node.attr
        self._open(f"{node.op.name} {region.label}".strip(), depth)
        self.lines.append(f"{indent}  {text}")
        titles = ("true", "false")
        if node.op is LOOP:
            titles = ("while", "body")
            for arg in region.args:
                self.draw(arg, depth + 1)
        for title, block in zip(titles, region.blocks, strict=False):
            self._open(title, depth + 1)
            for part in block.nodes:
                self.draw(part, depth + 2)
            self.lines.append(f"{indent}  }}")
        self.lines.append(f"{indent}}}")

    def _open(self, title: str, depth: int) -> None:
        self.boxes += 1
        indent = "  " * depth
        self.lines.append(f"{indent}subgraph cluster_{self.boxes} {{")
        self.lines.append(f"{indent}  label={quoted(title)};")

    def _edges(self, node: Node) -> None:
        name = self.names[id(node)]
        count = len(node.deps)
        for position, dep in enumerate(node.deps, 1):
            source = self.names.get(id(dep))
            if source is not None:
                note = f' [label="{position}"]' if count > 1 else ""
                self.lines.append(f"  {source} -> {name}{note};")


def _parts(region: Node) -> list[Node]:
    """Return what is drawn inside of a region."""
    found = [node for block in region.attr.blocks for node in block.nodes]
    if region.op is LOOP:
        found += region.attr.args
    return found


def _color(node: Node) -> str:
    if label_of(node) is not None:
        return "wheat"
    return _COLORS.get(node_state(node), "white")


def _caption(node: Node) -> str:
    lines = [label_of(node) or "", node.op.name]
    if node.op is LITERAL:
        lines[1] += f" {node.attr}"
    elif isinstance(node.attr, Reduction):
        lines[1] += f" {node.attr.op}"
    kind = "" if node.type is VOID else node.type.short
    lines.append(f"{kind}[{node.size}]")
    return "\n".join(line for line in lines if line)


def quoted(text: str) -> str:
    """Write a text in Graphviz's language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
