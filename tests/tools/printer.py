"""Prints a trace as text, for people: one line per node, regions indented.

The same trace gives the same text in every process: nodes are numbered in the
order of the listing, and memory is described without its address.
"""

from __future__ import annotations

from collections.abc import Iterable

from lumijit.compiler.ir.effects import Reduction
from lumijit.compiler.ir.nodes import Node, operands_first
from lumijit.compiler.ir.ops.structural import (
    CALL,
    EVALUATED,
    LITERAL,
    LOOP,
    PROJECT,
    REGIONS,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.ir.roles import source_deps, value_deps, written_deps
from lumijit.runtime.dtypes import VOID

_INDENT = "  "


def format_nodes(nodes: Iterable[Node]) -> str:
    """Return a listing of nodes and of everything they depend on.

    Each line reads `number = operation type[size] operands`; literals stand where
    they are used. The last line names the nodes asked for.

    >>> from lumijit.compiler.ir.ops.arithmetic import ADD, MUL
    >>> from lumijit.compiler.ir.trace import counter, emit2, literal
    >>> from lumijit.runtime.dtypes import UINT32
    >>> n = counter(8)
    >>> triple = emit2(MUL, n, literal(UINT32, 3))
    >>> print(format_nodes([emit2(ADD, triple, n)]))
    %0 = counter u32[8]
    %1 = mul u32[8] %0, 3
    %2 = add u32[8] %1, %0
    return %2
    """
    roots = list(nodes)
    printer = _Printer()
    printer.print_all(roots)
    printer.line(f"return {printer.operands(roots)}")
    return "\n".join(printer.lines)


class _Printer:
    """The lines so far and the names of the nodes in them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.depth = 0

    def line(self, text: str) -> None:
        """Append a line at the current indentation."""
        self.lines.append(_INDENT * self.depth + text)

    def print_all(self, roots: Iterable[Node]) -> None:
        """Print nodes, each after what it depends on."""
        for node in operands_first(roots, lambda n: reversed(n.deps)):
            if id(node) not in self.names and node.op is not LITERAL:
                self.node(node)

    def operands(self, nodes: Iterable[Node]) -> str:
        """Name operands, separated by commas."""
        return ", ".join(self.operand(node) for node in nodes)

    def operand(self, node: Node) -> str:
        """Name an operand; a literal is its value."""
        if node.op is not LITERAL:
            return self.names.get(id(node), "%?")
        value = str(node.attr).lower() if node.type.is_bool else repr(node.attr)
        return value if node.size == 1 else f"{value}[{node.size}]"

    def node(self, node: Node) -> None:
        """Print one node, a region with its body."""
        # Bodies of a call may share nodes, which keep their names.
        name = self.names.setdefault(id(node), f"%{len(self.names)}")
        kind = "" if node.type is VOID else node.type.short
        text = f"{name} = {node.op.name} {kind}[{node.size}]"
        if node.op in REGIONS:
            self._region(node, text)
            return
        note = _note(node)
        operands = self.operands(node.deps)
        self.line(" ".join(part for part in (text, operands, note) if part))

    def _region(self, node: Node, text: str) -> None:
        region = node.attr
        label = f' "{region.label}"' if region.label else ""
        self.line(f"{text}{label} {{")
        self.depth += 1
        titles: tuple[str, ...]
        if node.op is LOOP:
            for arg, init in zip(region.args, node.deps, strict=False):
                name = self.names[id(arg)] = f"%{len(self.names)}"
                kind = f"{arg.type.short}[{arg.size}]"
                self.line(f"{name} = argument {kind} from {self.operand(init)}")
            first, titles = len(region.args), ("while", "body")
        elif node.op is CALL:
            self.line(f"select {self.operand(node.deps[0])}")
            count = len(region.bodies)
            first, titles = 1, tuple(f"body {k + 1}" for k in range(count))
        else:
            self.line(f"if {self.operand(node.deps[0])}")
            first, titles = 1, ("true", "false")
        for title, deps in (
            ("captures", value_deps(node)[first:]),
            ("reads", source_deps(node)),
            ("writes", written_deps(node)),
        ):
            if deps:
                self.line(f"{title} {self.operands(deps)}")
        for title, block in zip(titles, region.blocks, strict=True):
            self._block(title, block)
        self.depth -= 1
        self.line("}")

    def _block(self, title: str, block: Block) -> None:
        self.line(f"{title}:")
        self.depth += 1
        for node in block.nodes:
            self.node(node)
        self.line(f"yield {self.operands(block.outputs)}".rstrip())
        self.depth -= 1


def _note(node: Node) -> str:
    """Describe a node's attribute, in parentheses."""
    attr = node.attr
    if node.op is EVALUATED:
        is_foreign = node.buffer is not None and node.buffer.is_foreign
        return "(foreign memory)" if is_foreign else ""
    if isinstance(attr, Reduction):
        group = f", group {attr.group}" if attr.group else ""
        return f"({attr.op}, {attr.mode}{group})"
    if node.op is PROJECT or (node.op is WRITTEN and node.deps[0].op in REGIONS):
        return f"({attr})"
    return f"({attr})" if isinstance(attr, str) else ""
