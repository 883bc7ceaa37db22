"""One kernel for all numbers, also where some of them coincide.

Value numbering makes equal numbers one literal, and operations on them one
operation, so that the trace's structure depends on which numbers are equal. The
kernels that are built don't: `generalized` gives every use of a literal, or every
kind of use, an argument of its own, and `match` finds out whether a known kernel
computes a program in which numbers coincide, or are zero, that were different before.
Both run only where a kernel isn't known by the program's own key (`kernels.lookup`).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, cast

from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    BRANCH,
    EVALUATED,
    LITERAL,
    LOOP,
    PROJECT,
    REGIONS,
    SYMBOLIC,
)
from lumijit.compiler.ir.region_types import Block, Region, attr_key, make_region
from lumijit.compiler.ir.roles import (
    is_effect,
    read_deps,
    source_deps,
    value_deps,
    written_deps,
)
from lumijit.compiler.plan.arrangement import FEW, arranged
from lumijit.compiler.plan.program import Program, is_baked

# The uses of a number with more than this are hardly all there by chance: those by one
# operation stay one argument.
MAX_USES = 8
# With more arguments than this, builds take too long to save others.
MAX_ARGUMENTS = 1000

# What serves as one argument: a node of the program, or a number.
Source = Node | int | float
_new_node = cast(Any, Node.__new__)


class Remembered(Node):
    """A node of a program that a kernel was built from, and no value of anybody's.

    Lists of the values that live leave it out.
    """

    __slots__ = ()


class General(NamedTuple):
    """A program whose literals have one kind of use, and what its arguments are."""

    program: Program
    sources: list[Source]


def generalized(program: Program) -> General:
    """Return a copy of a program in which uses of a literal are literals of their own.

    Programs without literals stay as they are.
    """
    singled = _count_uses(program)
    if singled is None:
        return General(program, list(program.arguments))
    copier = _Copier(singled)
    found = copier.program(program)
    return General(found, [copier.origins[id(n)] for n in found.arguments])


def ordered(program: Program) -> Program:
    """Return a program like another, with its operations `arranged` for lowering.

    Nodes are copied if their attributes hold code that may take another order, or if
    they are values of a user's.
    """
    is_own = not program.nodes or isinstance(program.nodes[0], Remembered)
    if is_own and all(is_short(n.attr) for n in program.nodes if n.op in REGIONS):
        found = copy(program)
        found._all_nodes = None
    else:
        found = _Copier(None).program(program)
    found.nodes = arranged(found.nodes, (*found.outputs, *found.effects))
    return found


def is_short(region: Region) -> bool:
    """Tell whether all code of a region, also inside of it, has the order it keeps."""
    for block in region.blocks:
        if len(block.nodes) > FEW:
            return False
        for node in block.nodes:
            if node.op in REGIONS and not is_short(node.attr):
                return False
    return True


def _count_uses(program: Program) -> set[int] | None:
    """Return the literals each use of which becomes one; None if there are none."""
    uses: dict[int, int] = {}
    for node in program.all_nodes():
        if node.op in REGIONS:
            continue
        for dep in node.deps:
            if dep.op is LITERAL and not is_baked(dep):
                uses[id(dep)] = uses.get(id(dep), 0) + 1
    for node in program.arguments:
        if node.op is LITERAL:
            uses.setdefault(id(node), 0)
    if not uses:
        return None
    singled = {k for k, count in uses.items() if count <= MAX_USES}
    return singled if sum(uses[k] for k in singled) <= MAX_ARGUMENTS else set()


# What uses an operand: an operation, at a position.
Use = tuple[Op, int] | None


class _Copier:
    """Copies a program's nodes; `origins` tells what sources were copied from.

    Each use of a `singled` literal is a literal of its own, and the uses of others
    are one by the operation and the position of the operand. If that is None, literals
    are copied like other nodes, and the code of regions is `arranged`.
    """

    def __init__(self, singled: set[int] | None) -> None:
        self.singled = singled
        self.copies: dict[int, Node] = {}
        self.origins: dict[int, Node] = {}
        self.scopes: dict[int, Scope] = {}
        self.shared: dict[tuple[int, Use], Node] = {}
        # The literals used inside of each region that is being copied.
        self.used: list[dict[int, Node]] = []

    def program(self, original: Program) -> Program:
        """Copy a program."""
        for node in original.nodes:
            self.copy(node)
        return Program(
            original.size,
            [self.operand(n) for n in original.outputs],
            [self.copies[id(n)] for n in original.effects],
            original.expand_limit,
        )

    def _scope(self, original: Scope) -> Scope:
        if original is ROOT:
            return original
        found = self.scopes.get(id(original))
        if found is None:
            found = self.scopes[id(original)] = Scope()
        return found

    def _make(self, node: Node, deps: tuple[Node, ...], attr: Any) -> Node:
        made: Node = _new_node(Remembered)
        made.op, made.type, made.size = node.op, node.type, node.size
        # What an array in memory keeps alive (a table's textures) is no structure.
        made.attr = None if node.op is EVALUATED else attr
        made.deps, made.buffer, made.uses = deps, None, None
        made.walk = 0
        made.scope = self._scope(node.scope)
        return made

    def _is_split(self, node: Node) -> bool:
        """Tell whether uses of a node have copies of their own."""
        return self.singled is not None and node.op is LITERAL and not is_baked(node)

    def operand(self, node: Node, use: Use = None) -> Node:
        """Return the copy of a node for one use of it."""
        if not self._is_split(node):
            return self.copy(node)
        assert self.singled is not None
        fresh = None
        is_shared = id(node) not in self.singled
        if is_shared:
            fresh = self.shared.get((id(node), use))
        if fresh is None:
            fresh = self._make(node, (), node.attr)
            self.origins[id(fresh)] = node
            if is_shared:
                self.shared[id(node), use] = fresh
        for used in self.used:
            used[id(fresh)] = fresh
        return fresh

    def copy(self, node: Node) -> Node:
        """Return the one copy of a node, whose operands have been copied."""
        found = self.copies.get(id(node))
        if found is None:
            op = node.op
            if op in REGIONS:
                found = self._region(node)
            else:
                # What is written to is no value, and stays one array.
                deps = [self.copy(d) for d in written_deps(node)]
                for k, dep in enumerate(read_deps(node)):
                    if dep.op is LITERAL:
                        deps.append(self.operand(dep, (op, k)))
                    else:
                        deps.append(self.copies.get(id(dep)) or self.copy(dep))
                found = self._make(node, tuple(deps), node.attr)
                self.origins[id(found)] = node
            self.copies[id(node)] = found
        return found

    def _region(self, node: Node) -> Node:
        old: Region = node.attr
        count = len(old.args) if old.op is LOOP else 1
        heads = [self.operand(d) for d in node.deps[:count]]
        captures = value_deps(node)[count:]
        kept = [self.copy(d) for d in captures if not self._is_split(d)]
        self.used.append({})
        args = tuple([self.copy(a) for a in old.args])
        blocks = [self._block(block) for block in old.blocks]
        literals = self.used.pop().values()
        read = [self.copy(d) for d in source_deps(node)]
        written = [self.copy(d) for d in written_deps(node)]
        roles = ([*heads, *kept, *literals], read, written)
        new, deps = make_region(old.op, args, blocks, old.label, roles, old.is_consumed)
        return self._make(node, deps, new)

    def _block(self, block: Block) -> Block:
        is_arranged = self.singled is None
        nodes = arranged(block.nodes, block.outputs) if is_arranged else block.nodes
        copies = tuple([self.copy(n) for n in nodes])
        outputs = tuple([self.operand(n) for n in block.outputs])
        return Block(copies, outputs)


def match(known: Program, program: Program) -> list[Source] | None:
    """Return what a known kernel's arguments must be to compute a program.

    None if it computes something else. The known kernel's literals have one kind of
    use each, so every operation of it stands for exactly one of the program, while
    several may stand for the same.
    """
    if known.key[-1] != program.key[-1]:
        return None
    found = _Match()
    if not found.pairs(known.outputs, program.outputs):
        return None
    if not found.pairs(known.effects, program.effects):
        return None
    if not found.run() or not found.has_same_targets(known, program):
        return None
    if any(id(n) not in found.images for n in known.arguments):
        return None
    return [found.images[id(n)] for n in known.arguments]


class _Match:
    """Finds for every node of one program the node of another that it stands for."""

    def __init__(self) -> None:
        self.images: dict[int, Any] = {}
        self.stack: list[tuple[Node, Node]] = []

    def pairs(self, ours: Any, theirs: Any) -> bool:
        """Have two lists of nodes compared; tell whether they are of one length."""
        self.stack += zip(ours, theirs, strict=False)
        return len(ours) == len(theirs)

    def run(self) -> bool:
        """Compare everything; tell whether all of it fits."""
        while self.stack:
            ours, theirs = self.stack.pop()
            image = self.images.get(id(ours))
            if image is None:
                self.images[id(ours)] = theirs
                if not self._fits(ours, theirs):
                    return False
            elif image is not theirs:
                return False
        return True

    def _fits(self, ours: Node, theirs: Node) -> bool:
        op = ours.op
        if ours.type is not theirs.type:
            return False
        if op is not theirs.op:
            return self._is_disguised(ours, theirs)
        if op is LITERAL:
            # An argument may stand for a zero, which has no argument there.
            same = is_baked(theirs) and bool(ours.attr == theirs.attr)
            return same or not is_baked(ours)
        if op is EVALUATED:
            return (ours.size == 1) == (theirs.size == 1)
        if op is SYMBOLIC:
            # A region's arguments are paired when the region is.
            return False
        if op in REGIONS:
            return self._region(ours, theirs)
        if attr_key(ours) != attr_key(theirs):
            return False
        return self.pairs(ours.deps, theirs.deps)

    def _is_disguised(self, ours: Node, theirs: Node) -> bool:
        """Tell whether coinciding or special numbers made another operation of ours.

        A product by a power of two is a shift; the result of a branch whose sides
        agree is that of one side. What a number is here must not depend on anything
        but their program's key.
        """
        if ours.op is PROJECT and ours.deps[0].op is BRANCH:
            sides = [block.outputs[ours.attr] for block in ours.deps[0].attr.blocks]
            return self.pairs(sides, [theirs, theirs])
        if not ours.deps or ours.deps[-1].op is not LITERAL or is_baked(ours.deps[-1]):
            return False
        number = ours.deps[-1]
        if ours.op is not ar.MUL or theirs.op is not lo.SHL_BY:
            return False
        value = number.type.wrap(1 << theirs.attr)
        if self.images.setdefault(id(number), value) != value:
            return False
        self.stack.append((ours.deps[0], theirs.deps[0]))
        return True

    def _region(self, ours: Node, theirs: Node) -> bool:
        old, new = ours.attr, theirs.attr
        if len(old.args) != len(new.args):
            return False
        count = len(old.args) if old.op is LOOP else 1
        self.images.update(zip(map(id, old.args), new.args, strict=True))
        if len(old.blocks) != len(new.blocks):
            return False
        for a, b in zip(old.blocks, new.blocks, strict=True):
            if not self.pairs(a.outputs, b.outputs):
                return False
            effects = [list(filter(is_effect, block.nodes)) for block in (a, b)]
            if not self.pairs(*effects):
                return False
        return self.pairs(ours.deps[:count], theirs.deps[:count])

    def has_same_targets(self, known: Program, program: Program) -> bool:
        """Tell whether the same writes go to arrays in the same order.

        Then no two arrays of the known program may stand for one, either.
        """
        pairs = list(
            zip(known.targets.values(), program.targets.values(), strict=False)
        )
        if len(known.targets) != len(program.targets):
            return False
        for ours, theirs in pairs:
            if self.images.get(id(ours.root)) is not theirs.root:
                return False
            if ours.private_op != theirs.private_op:
                return False
        if not pairs:
            return True
        arrays = [self.images[id(n)] for n in known.arguments if n.op is EVALUATED]
        return len({id(a) for a in arrays}) == len(arrays)


@dataclass(frozen=True)
class Selection:
    """Which of a program's `count` arguments another's kernel takes, in order.

    Positions from `count` on stand for `numbers`.
    """

    count: int
    picks: tuple[int, ...]
    numbers: tuple[Any, ...]

    def packer(self, pack: Any) -> Any:
        """Return the function that packs a program's arguments for the kernel.

        It takes what the program's own would: the arguments, then the rest.
        """
        count, picks, numbers = self.count, self.picks, self.numbers
        if picks == tuple(range(count)):
            return pack
        pick: Any = None

        def packed(*values: Any) -> Any:
            nonlocal pick
            if pick is None:
                length = len(values)
                places = [p if p < count else p - count + length for p in picks]
                places += range(count, length)
                # Of one place, it would return no tuple.
                pick = itemgetter(*places) if len(places) > 1 else tuple
            return pack(*pick(values + numbers))

        return packed


def selection(program: Program, sources: list[Source]) -> Selection:
    """Return which arguments of a program `sources` are."""
    position = {id(n): k for k, n in enumerate(program.arguments)}
    count = len(position)
    picks: list[int] = []
    numbers: list[Any] = []
    for source in sources:
        place = position.get(id(source))
        if place is None:
            place = count + len(numbers)
            numbers.append(source.attr if isinstance(source, Node) else source)
        picks.append(place)
    return Selection(count, tuple(picks), tuple(numbers))
