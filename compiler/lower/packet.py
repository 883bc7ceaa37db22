"""Lowers a program to a kernel that processes packets of lanes (the CPU target).

Owns the shape of the kernel (argument loads, the packet loop, loops and branches
under masks, output stores). Memory access is in `access`; what single operations
become is in their records. The kernel's signature is
`void(i64 begin, i64 end, i32 thread, ptr args)`; `args` has 8-byte slots in the
order that `Layout` records.

Masks that cross basic blocks travel in their wide form (see `builder`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lumijit.compiler.lower.access import Access
from lumijit.compiler.lower.builder import Builder, TargetInfo
from lumijit.compiler.lower.gathers import Gathers
from lumijit.compiler.lower.outline import Outlined
from lumijit.compiler.ops import mathematics as m
from lumijit.compiler.ops.logic import SELECT
from lumijit.compiler.ops.structural import (
    BITCAST,
    BRANCH,
    CAST,
    COUNTER,
    EFFECTS,
    EVALUATED,
    GATHER,
    LITERAL,
    LOOP,
    PROJECT,
    REGIONS,
    SCATTER,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.program import Program, is_baked, iterate_all
from lumijit.compiler.regions import Block, Branch, Loop
from lumijit.compiler.trace import Node
from lumijit.runtime.dtypes import BOOL, INT32, UINT32, DType

FLAT_BRANCH_COST = 24
MANY_OPERATIONS = 1000
_SINCOS = {m.SIN: 0, m.COS: 1}


@dataclass(frozen=True)
class Code:
    """The text of a kernel and facts about it."""

    ir: str
    width: int
    operation_count: int
    cost: int
    has_loops: bool


class PacketLowering:
    """Writes one program as LLVM IR."""

    def __init__(self, program: Program, width: int, target: TargetInfo) -> None:
        self.program = program
        self.b = Builder(width, target)
        self.entry: list[str] = []
        self.values: dict[Node, str] = {}
        self.addresses: dict[Node, str] = {}
        self.mask: str | None = None
        self.count = 0
        self.index_name = "%index"
        self.access = Access(self)
        self.gathers = Gathers(self)
        self.pairs: dict[Node, tuple[str, str]] = {}
        self.loop_depth = 0
        self.outlined = Outlined(program)

    # The kernel as a whole

    def lower(self, name: str) -> str:
        """Return the module text with one kernel called `name`."""
        b = self.b
        program = self.program
        self._load_arguments()
        b.block("packet")
        b.line("%index = phi i64 [ %begin, %entry ], [ %next, %packet.end ]")
        if self._needs_tail_mask():
            self._set_mask(self._tail_mask())
        for node in program.nodes:
            self.node(node)
        slot = self._output_slot
        for k, node in enumerate(program.outputs):
            self._store(node, slot + k)
        b.branch("packet.end")
        b.block("packet.end")
        b.line(f"%next = add nuw i64 %index, {b.width}")
        b.line("%more = icmp ult i64 %next, %end")
        b.branch_if("%more", "packet", "exit")
        b.block("exit")
        b.line("ret void")
        return self._module(name)

    def _module(self, name: str) -> str:
        b = self.b
        head = (
            f"define void @{name}(i64 %begin, i64 %end, i32 %thread, "
            "ptr noalias %args) nounwind {"
        )
        entry = ["entry:", *self.entry, "  br label %packet"]
        parts = [head, *entry, *b.lines, "}", *b.helpers.values()]
        parts += b.declarations.values()
        parts.append("!0 = !{}")
        parts.append("!1 = !{i32 1}")
        return "\n".join(parts) + "\n"

    def _in_entry(self, text: str) -> str:
        name = self.b.name()
        self.entry.append(f"  {name} = {text}")
        return name

    def slot_pointer(self, slot: int) -> str:
        """Return the address of an argument slot."""
        return self._in_entry(f"getelementptr i8, ptr %args, i64 {8 * slot}")

    def load_slot(self, slot: int, ty: str) -> str:
        """Load a scalar argument in the kernel's entry."""
        return self._in_entry(f"load {ty}, ptr {self.slot_pointer(slot)}, align 8")

    def splat_in_entry(self, dtype: DType, scalar: str) -> str:
        """Broadcast a scalar in the kernel's entry."""
        b = self.b
        lines, b.lines = b.lines, self.entry
        result = b.splat(dtype, scalar)
        b.lines = lines
        return result

    def _load_arguments(self) -> None:
        program = self.program
        for slot, node in enumerate(program.arguments):
            if node.op is LITERAL:
                scalar = self.load_slot(slot, node.type.llvm)
                self.values[node] = self.splat_in_entry(node.type, scalar)
                continue
            address = self.load_slot(slot, "ptr")
            self.addresses[node] = address
            if node.size == 1 and id(node) in program.value_ids:
                self.values[node] = self._load_uniform(node.type, address)
        slot = self._output_slot = len(program.arguments)
        self.output_addresses = [
            self.load_slot(slot + k, "ptr") for k in range(len(program.outputs))
        ]
        slot += len(program.outputs)
        if program.has_loops:
            self.cancel_address = self.load_slot(slot, "ptr")
            slot += 1
        for target in program.targets.values():
            target.slot = slot
            slot += self.access.bind_target(target, slot)

    def _load_uniform(self, dtype: DType, address: str) -> str:
        scalar = self._in_entry(f"load {dtype.memory_llvm}, ptr {address}")
        if dtype is BOOL:
            scalar = self._in_entry(f"icmp ne i8 {scalar}, 0")
            if not self.b.has_plain_masks:
                scalar = self._in_entry(f"sext i1 {scalar} to i32")
                return self.b.note_wide(self.splat_in_entry(INT32, scalar))
        return self.splat_in_entry(dtype, scalar)

    def _needs_tail_mask(self) -> bool:
        guarded = {GATHER, LOOP, *EFFECTS}
        return any(n.op in guarded for n in iterate_all(self.program.nodes))

    def lane_numbers(self) -> str:
        """Return the constant vector 0 … W - 1."""
        lanes = ", ".join(f"i32 {k}" for k in range(self.b.width))
        return f"<{lanes}>"

    def counter(self) -> str:
        """Return the element index of every lane."""
        b = self.b
        scalar = b.emit(f"trunc i64 {self.index_name} to i32")
        return b.add(UINT32, b.splat(UINT32, scalar), self.lane_numbers())

    def _tail_mask(self) -> str:
        b = self.b
        left = b.emit(f"sub i64 %end, {self.index_name}")
        most = b.emit(f"call i64 @llvm.umin.i64(i64 {left}, i64 {b.width})")
        b.declarations["llvm.umin.i64"] = "declare i64 @llvm.umin.i64(i64, i64)"
        count = b.splat(INT32, b.emit(f"trunc i64 {most} to i32"))
        return b.compare("sgt", INT32, count, self.lane_numbers())

    # Masks

    def _set_mask(self, mask: str | None) -> None:
        self.mask = mask

    def under_mask(self, mask: str) -> str:
        """Combine a mask with the active lanes."""
        if self.mask is None:
            return mask
        if mask == self.b.const(BOOL, True):
            return self.mask
        return self.b.binary("and", BOOL, mask, self.mask)

    # Nodes

    def value(self, node: Node) -> str:
        """Return the operand that holds a node's value."""
        return self.values[node]

    def node(self, node: Node) -> None:
        """Lower one node, whose operands have been lowered."""
        op = node.op
        if op.lower is not None:
            self.count += 1
            if op in _SINCOS and self._sincos(node):
                return
            operand_type = node.type if op is SELECT else node.deps[0].type
            args = [self.values[d] for d in node.deps]
            if node.attr is not None:
                args.append(node.attr)
            if self.outlined.wants(op, operand_type, self.loop_depth):
                self.values[node] = self.outlined.call(self.b, op, operand_type, args)
            else:
                self.values[node] = op.lower(self.b, operand_type, *args)
            return
        if op is LITERAL:
            if is_baked(node):
                self.values[node] = self.b.const(node.type, node.attr)
        elif op is EVALUATED:
            if node not in self.values and id(node) in self.program.value_ids:
                self.values[node] = self._load(node)
        elif op is CAST:
            self.count += 1
            source = node.deps[0]
            self.values[node] = self.b.cast(source.type, self.values[source], node.type)
        elif op is BITCAST:
            source = node.deps[0]
            self.values[node] = self.b.bitcast(
                source.type, self.values[source], node.type
            )
        elif op is COUNTER:
            self.values[node] = self.counter()
        elif op is UNDEFINED:
            self.values[node] = self.b.const(node.type, 0)
        elif op is GATHER:
            self.count += 1
            self.gathers.lower(node)
        elif op is SCATTER:
            self.count += 1
            self.access.scatter(node)
        elif op in EFFECTS:
            self.count += 1
            self.values[node] = self.access.scatter_inc(node)
        elif op is LOOP:
            self._loop(node)
        elif op is BRANCH:
            self._branch(node)
        elif op is PROJECT or op is WRITTEN:
            return
        else:
            raise AssertionError(f"no lowering for {op.name}")

    def _sincos(self, node: Node) -> bool:
        """Compute sine and cosine of one argument together."""
        from lumijit.compiler.lower.mathlib import FUNCTIONS

        arg = node.deps[0]
        if arg.type.bits == 16 or arg not in self._angle_pairs():
            return False
        pair = self.pairs.get(arg)
        if pair is None:
            pair = FUNCTIONS["sincos"](self.b, arg.type, self.values[arg])
            self.pairs[arg] = pair
        self.values[node] = pair[_SINCOS[node.op]]
        return True

    def _angle_pairs(self) -> set[Node]:
        """Return the arguments of which both are wanted in one scope."""
        cached: set[Node] | None = getattr(self, "_angles", None)
        if cached is None:
            seen: dict[Node, set[tuple[int, int]]] = {}
            for node in iterate_all(self.program.nodes):
                if node.op in _SINCOS:
                    use = (_SINCOS[node.op], id(node.scope))
                    seen.setdefault(node.deps[0], set()).add(use)
            cached = {
                arg
                for arg, uses in seen.items()
                if len(uses) == 2 and len({s for _, s in uses}) == 1
            }
            self._angles = cached
        return cached

    def _load(self, node: Node) -> str:
        b = self.b
        t = node.type
        address = b.emit(
            f"getelementptr {t.memory_llvm}, ptr {self.addresses[node]}, "
            f"i64 {self.index_name}"
        )
        ty = f"<{b.width} x {t.memory_llvm}>"
        raw = b.emit(f"load {ty}, ptr {address}, align {t.size_bytes}")
        if t is BOOL:
            return b.emit(f"icmp ne {ty} {raw}, zeroinitializer")
        return raw

    def _store(self, node: Node, slot: int) -> None:
        b = self.b
        t = node.type
        base = self.output_addresses[slot - self._output_slot]
        value = self.values[node]
        ty = f"<{b.width} x {t.memory_llvm}>"
        if t is BOOL:
            value = b.emit(f"zext {b.type(BOOL)} {b.narrow(value)} to {ty}")
        address = b.emit(
            f"getelementptr {t.memory_llvm}, ptr {base}, i64 {self.index_name}"
        )
        streaming = ", !nontemporal !1" if self.program.is_streaming else ""
        align = min(64, b.width * t.size_bytes)
        b.line(f"store {ty} {value}, ptr {address}, align {align}{streaming}")

    # Regions

    def _loop(self, node: Node) -> None:
        b = self.b
        loop: Loop = node.attr
        self._widen_captures(node)
        live = self._live_state(node)
        names = {k: b.label("s") for k in live}
        pre, head, body, latch, done = (
            b.label(s) for s in ("pre", "head", "body", "latch", "done")
        )
        outer_mask = self.mask
        outer_wide = None if outer_mask is None else b.wide(outer_mask)
        inits = {k: self._cross(node.deps[k]) for k in live}
        if loop.label:
            b.line(f"; loop: {_comment(loop.label)}")
        b.branch(pre)
        b.block(pre)
        b.branch(head)
        b.block(head)
        for k in live:
            ty = self._cross_type(loop.args[k].type)
            b.line(
                f"%{names[k]} = phi {ty} [ {inits[k]}, %{pre} ], "
                f"[ %{names[k]}.n, %{latch} ]"
            )
        for k, arg in enumerate(loop.args):
            if k in live:
                self.values[arg] = self._arrive(arg.type, f"%{names[k]}")
            elif loop.body.outputs[k] is arg:
                self.values[arg] = self.values[node.deps[k]]
        self._set_mask(outer_wide)
        self.loop_depth += 1
        self._block(loop.header)
        running = self.under_mask(self.values[loop.header.outputs[0]])
        wide = b.wide(running)
        word = b.emit(f"load volatile i32, ptr {self.cancel_address}, align 4")
        alive = b.emit(f"icmp eq i32 {word}, 0")
        goes_on = b.emit(f"and i1 {b.any_lane(running)}, {alive}")
        b.branch_if(goes_on, body, done)
        b.block(body)
        self._set_mask(wide)
        wanted = self._wanted_in_body(loop, live)
        self._block(loop.body, wanted)
        self.loop_depth -= 1
        b.branch(latch)
        b.block(latch)
        for k in live:
            arg, out = loop.args[k], loop.body.outputs[k]
            old = self._arrive(arg.type, f"%{names[k]}")
            new = b.select(arg.type, wide, self.values[out], old)
            self._cross_as(arg.type, new, f"%{names[k]}.n")
        b.branch(head)
        b.block(done)
        for k in live:
            self.values[loop.args[k]] = self._arrive(loop.args[k].type, f"%{names[k]}")
        self._set_mask(outer_wide)
        self._publish_results(node, [self.values.get(a, "") for a in loop.args])

    def _publish_results(self, region: Node, results: list[str]) -> None:
        for node in self._projections(region):
            self.values[node] = results[node.attr]

    def _projections(self, region: Node) -> list[Node]:
        """Return the projections of a region that something uses."""
        table: dict[Node, list[Node]] | None = getattr(self, "_projected", None)
        if table is None:
            table = {}
            for node in iterate_all(self.program.nodes):
                if node.op is PROJECT:
                    table.setdefault(node.deps[0], []).append(node)
            self._projected = table
        return table.get(region, [])

    def _live_state(self, node: Node) -> list[int]:
        """Return the loop arguments whose values anybody needs."""
        loop: Loop = node.attr
        position = {arg: k for k, arg in enumerate(loop.args)}
        changed = [
            k for k, arg in enumerate(loop.args) if loop.body.outputs[k] is not arg
        ]
        live: set[int] = set()
        reached: set[Node] = set()
        inside = {*loop.header.nodes, *loop.body.nodes}
        stack: list[Node] = [loop.header.outputs[0]]
        stack += [n for n in loop.body.nodes if _has_effect(n)]
        stack += [loop.body.outputs[p.attr] for p in self._projections(node)]
        live.update(p.attr for p in self._projections(node))
        while stack:
            current = stack.pop()
            if current in reached:
                continue
            reached.add(current)
            k = position.get(current)
            if k is not None:
                if k in changed and k not in live:
                    live.add(k)
                if k in changed:
                    stack.append(loop.body.outputs[k])
                continue
            if current in inside:
                stack.extend(current.deps)
        return [k for k in changed if k in live]

    def _wanted_in_body(self, loop: Loop, live: list[int]) -> set[Node] | None:
        """Return the body's nodes that the live state needs; None means all."""
        if len(live) == len(loop.args):
            return None
        stack = [loop.body.outputs[k] for k in live]
        stack += [n for n in loop.body.nodes if _has_effect(n)]
        wanted: set[Node] = set()
        inside = set(loop.body.nodes)
        while stack:
            node = stack.pop()
            if node in inside and node not in wanted:
                wanted.add(node)
                stack.extend(node.deps)
        return wanted

    def _block(self, block: Block, wanted: set[Node] | None = None) -> None:
        for node in block.nodes:
            if wanted is None or node in wanted:
                self.node(node)

    def _cross_type(self, t: DType) -> str:
        return self.b.mask_type if t is BOOL else self.b.type(t)

    def _cross(self, node: Node) -> str:
        value = self.values[node]
        return self.b.wide(value) if node.type is BOOL else value

    def _cross_as(self, t: DType, value: str, name: str) -> None:
        b = self.b
        ty = self._cross_type(t)
        crossing = b.wide(value) if t is BOOL else value
        # A phi needs a fixed name; the bitcast costs no instruction.
        b.line(f"{name} = bitcast {ty} {crossing} to {ty}")

    def _arrive(self, t: DType, value: str) -> str:
        return self.b.note_wide(value) if t is BOOL else value

    def _widen_captures(self, node: Node) -> None:
        """Bring the masks that a region refers to into their crossing form."""
        for dep in node.deps:
            if dep.type is BOOL and dep in self.values:
                self.values[dep] = self.b.wide(self.values[dep])

    def _branch(self, node: Node) -> None:
        branch: Branch = node.attr
        self._widen_captures(node)
        condition = self.values[node.deps[0]]
        used = sorted({p.attr for p in self._projections(node)})
        if _is_flat(branch):
            self._block(branch.true)
            self._block(branch.false)
            results = {
                k: self.b.select(
                    branch.true.outputs[k].type,
                    condition,
                    self.values[branch.true.outputs[k]],
                    self.values[branch.false.outputs[k]],
                )
                for k in used
            }
        else:
            results = self._divergent(branch, condition, used)
        for projection in self._projections(node):
            self.values[projection] = results[projection.attr]

    def _divergent(
        self, branch: Branch, condition: str, used: list[int]
    ) -> dict[int, str]:
        b = self.b
        outer = self.mask
        outer_wide = None if outer is None else b.wide(outer)
        wide_condition = b.wide(condition)
        if branch.label:
            b.line(f"; branch: {_comment(branch.label)}")
        sides: list[dict[int, str]] = []
        for block, positive in ((branch.true, True), (branch.false, False)):
            self._set_mask(outer_wide)
            chosen = wide_condition
            if not positive:
                chosen = b.binary("xor", BOOL, chosen, 1)
            chosen = self.under_mask(chosen)
            sides.append(self._side(block, chosen, used))
        self._set_mask(outer_wide)
        results = {}
        for k in used:
            t = branch.true.outputs[k].type
            results[k] = b.select(t, wide_condition, sides[0][k], sides[1][k])
        return results

    def _side(self, block: Block, mask: str, used: list[int]) -> dict[int, str]:
        """Lower one side, entered only if some lane wants it."""
        b = self.b
        inside = set(block.nodes)
        direct = {
            k: self.values[block.outputs[k]]
            for k in used
            if block.outputs[k] not in inside
        }
        if not any(k not in direct for k in used) and not any(
            _has_effect(n) for n in block.nodes
        ):
            return direct
        start, enter, leave, join = (
            b.label(s) for s in ("test", "enter", "leave", "join")
        )
        wide = b.wide(mask)
        any_lane = b.any_lane(mask)
        b.branch(start)
        b.block(start)
        b.branch_if(any_lane, enter, join)
        b.block(enter)
        self._set_mask(wide)
        self._block(block)
        crossing = {k: self._cross(block.outputs[k]) for k in used if k not in direct}
        b.branch(leave)
        b.block(leave)
        b.branch(join)
        b.block(join)
        phis = {}
        for k, value in crossing.items():
            ty = self._cross_type(block.outputs[k].type)
            phis[k] = b.emit(
                f"phi {ty} [ {value}, %{leave} ], [ zeroinitializer, %{start} ]"
            )
        for k, value in phis.items():
            direct[k] = self._arrive(block.outputs[k].type, value)
        return direct


def _comment(label: str) -> str:
    return label.replace("\n", " ")


def _has_effect(node: Node) -> bool:
    """Tell whether a node, or the region it is, writes to memory."""
    if node.op in EFFECTS:
        return True
    return node.op in REGIONS and bool(len(node.deps) > node.attr.targets)


def _is_flat(branch: Branch) -> bool:
    """Tell whether executing both sides is cheaper than testing the lanes."""
    cost = 0
    for block in branch.blocks:
        for node in block.nodes:
            if node.op in REGIONS or node.op in EFFECTS or node.op is GATHER:
                return False
            cost += node.op.cost
    return cost <= FLAT_BRANCH_COST


def operation_cost(program: Program) -> tuple[int, int, int]:
    """Return operations, cost per element (loops count 16 times) and gathers."""
    count = cost = gathers = 0
    stack: list[tuple[tuple[Node, ...] | list[Node], int]] = [(program.nodes, 1)]
    while stack:
        nodes, weight = stack.pop()
        for node in nodes:
            count += 1
            cost += weight * node.op.cost
            gathers += node.op is GATHER
            if node.op in REGIONS:
                inner = weight * 16 if node.op is LOOP else weight
                stack.extend((block.nodes, inner) for block in node.attr.blocks)
    return count, cost, gathers


def choose_width(program: Program, target: TargetInfo) -> int:
    """Pick the packet width: two registers; four for lean loops; one for huge code.

    Wider than a register hides latency; above some 1,000 operations or 64 gathers
    it only makes the build longer. A lean loop keeps at most eleven of the sixteen
    registers busy at four registers a value; loops of 64-bit integers, which take
    several instructions each, do best at one (measured, see docs/decisions.md).
    """
    count, _, gathers = operation_cost(program)
    lanes = target.lanes_f32
    if count > MANY_OPERATIONS or gathers > 64:
        return lanes
    loops = [n for n in iterate_all(program.nodes) if n.op is LOOP]
    if not loops:
        return 2 * lanes
    if _wide_share(loops) > 0.3:
        return lanes
    is_lean = gathers == 0 and max(map(_loop_bytes, loops)) <= 11
    return 4 * lanes if is_lean else 2 * lanes


def _wide_share(loops: list[Node]) -> float:
    """Return which share of the loops' operations has 64-bit results."""
    nodes: list[Node] = [n for loop in loops for n in loop.attr.body.nodes]
    bodies = [n for n in nodes if n.op.lower is not None]
    wide = sum(n.type.size_bytes == 8 for n in bodies)
    return wide / max(1, len(bodies))


def _loop_bytes(node: Node) -> int:
    """Return the bytes per lane that a loop keeps in registers all the time."""
    loop: Loop = node.attr
    kept = (*loop.args, *node.deps[len(loop.args) : loop.pointers])
    return sum(n.type.size_bytes for n in kept if n.op is not LITERAL)


def lower(program: Program, name: str, target: TargetInfo) -> Code:
    """Lower a program to LLVM IR text."""
    width = choose_width(program, target)
    count, cost, _ = operation_cost(program)
    lowering = PacketLowering(program, width, target)
    ir = lowering.lower(name)
    loops = any(n.op is LOOP for n in iterate_all(program.nodes))
    return Code(ir, width, count, cost, loops)
