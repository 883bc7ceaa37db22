"""The PTX target: kernels in which each thread of a GPU computes one element.

The code of an element is that of `kernel`; owns the kernel around it and what GPUs
lack. Translating it is up to `runtime.nvptx`.
"""

from __future__ import annotations

from contextlib import closing

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import TEXEL
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.cooperative import kernels as cooperative
from lumijit.compiler.lower.cooperative.nvvm import DEVICE_SCOPE
from lumijit.compiler.lower.thread import bins, several, warps
from lumijit.compiler.lower.thread.bins import BINS_BYTES, Bins
from lumijit.compiler.lower.thread.kernel import ThreadLowering
from lumijit.compiler.plan.program import Destination, Program, target_root
from lumijit.compiler.plan.signature import PRIVATE_SLOTS
from lumijit.compiler.plan.target import Code, Collectives, Target
from lumijit.runtime import nvptx
from lumijit.runtime.dtypes import DType

# Local memory of a thread, of which GPUs keep ready what all threads can need that run
# at once: some GiB. What is larger is in memory for fewer threads, which go on with
# the elements of others.
LOCAL_BYTES = 16 << 10
SCRATCH_BYTES = 1 << 30
_NVVM = cooperative.nvvm()

_REGISTERS = {"block": "ctaid", "blocks": "nctaid", "threads": "ntid", "own": "tid"}
# What a thread computes before its first element.
_ENTRY = """\
  %before = mul i32 %block, %threads
  %thread = add i32 %before, %own
  %number = zext i32 %thread to i64
  %wide = zext i32 %threads to i64
  %high = zext i32 %blocks to i64
  %all = mul i64 %wide, %high
  %own.wide = zext i32 %own to i64"""
# A block computes as many elements as its threads at once, which are neighbours.
_SEVERAL = """\
  %first.before = sub i64 %number, %own.wide
  %first.of.block = mul i64 %first.before, {count}
  %first = add i64 %first.of.block, %own.wide
  %grid = mul i64 %all, {count}"""
# The first threads compute, if there isn't memory for all.
_FEW = """\
  %is.few = icmp ult i64 %all, {threads}
  %grid = select i1 %is.few, i64 %all, i64 {threads}
  %has.memory = icmp ult i64 %number, {threads}
  %first = select i1 %has.memory, i64 %number, i64 %size"""
# A grid has a limit: its threads go on with the elements behind it.
_BEGIN = """\
  br label %test
test:
  %index = phi i64 [ %first, %{before} ], [ %after, %next ]
  %is_element = icmp ult i64 %index, %size
  br i1 %is_element, label %element, label %exit"""
_END = """\
  br label %next
next:
  %after = add i64 %index, %grid
  br label %test
exit:"""


class PtxLowering(ThreadLowering):
    """Writes the code of one thread of a GPU, with what its warp can do together."""

    # Looking whether to end takes three instructions a turn.
    polled_cost = 32
    # The channels that are wanted, by lookup; made when there is one.
    _texels: dict[tuple[int, ...], list[Node]] | None = None

    def __init__(self, program: Program, demand: Demand, info: TargetInfo) -> None:
        super().__init__(program, demand, info)
        self.b.current = "entry"
        self.bins = Bins(self.b)
        self.scratch.stack_bytes = LOCAL_BYTES

    def kernel(self, name: str) -> str:
        """Return a module whose kernel computes each element in a thread."""
        for register, source in _REGISTERS.items():
            read = f"@llvm.nvvm.read.ptx.sreg.{source}.x"
            self.b.declarations[read] = f"declare i32 {read}()"
            self.entry.append(f"  %{register} = call i32 {read}()")
        self.entry.append(_ENTRY)
        self.b.scope = DEVICE_SCOPE
        self.write()
        slots = self.signature.size_bytes // 8
        given = nvptx.slots_parameter(slots)
        head = f"define ptx_kernel void @{name}(i64 %size, {given} %args) {{"
        lines = self.functions(head, self.b.lines)
        return "\n".join([*self.bins.arrays, *lines])

    def close_entry(self) -> None:
        """Say which threads compute."""
        if self.scratch.thread_bytes:
            self.entry.append(_FEW.format(threads=self.threads_at_once))
        else:
            self.entry.append(_SEVERAL.format(count=self.at_once))

    def bind_target(self, target: Destination, slot: int) -> None:
        """Load where a target lies; blocks have copies of some."""
        super().bind_target(target, slot)
        root = target.root
        if target.private_op is not None:
            told = [self.load_slot(slot + k, "i64") for k in range(1, PRIVATE_SLOTS)]
            place = self.bases[id(root)]
            place = self.bins.add(target.private_op, root.type, place, *told)
            self.bases[id(root)] = place

    def compute_all(self) -> None:
        """Write what computes an element, or several side by side."""
        lines = self.b.lines
        start = len(lines)
        super().compute_all()
        self.at_once = several.worthwhile(self.program, lines[start:])
        if self.at_once > 1:
            lines[start:] = several.side_by_side(lines[start:], self.at_once)

    @property
    def scratch_bytes(self) -> int:
        """How much memory all threads take that have some beside local memory."""
        thread_bytes = self.scratch.thread_bytes
        return thread_bytes and thread_bytes * self.threads_at_once

    @property
    def threads_at_once(self) -> int:
        """How many threads have memory, where local memory isn't enough."""
        whole = SCRATCH_BYTES // self.scratch.thread_bytes
        return max(256, whole // 256 * 256)

    def _texel(self, node: Node) -> None:
        """Look up a texture; one instruction gives all channels."""
        if node in self.values:
            return
        if self._texels is None:
            self._texels = {}
            for other in self.program.all_nodes():
                if other.op is TEXEL and other in self.demand.wanted:
                    self._texels.setdefault(_lookup_of(other), []).append(other)
        dimensions = node.attr // 4
        handle, *position = map(self.operand, node.deps[: dimensions + 1])
        given = [f"i64 {handle}", *(f"float {x}" for x in position)]
        row = "{ float, float, float, float }"
        # (LLVM's intrinsics end the process where a handle is more than a parameter.)
        places = ", ".join(["$5", "$6", "$7", "$7"][: 2 ** (dimensions - 1)])
        text = f"tex.{dimensions}d.v4.f32.f32 {{$0, $1, $2, $3}}, [$4, {{{places}}}];"
        kinds = "=f,=f,=f,=f,l" + ",f" * dimensions
        found = self.b.emit(f'call {row} asm "{text}", "{kinds}"({", ".join(given)})')
        for other in self._texels[_lookup_of(node)]:
            channel = other.attr % 4
            self.values[other] = self.b.emit(f"extractvalue {row} {found}, {channel}")

    def begin(self) -> None:
        """Go from the entry to the thread's elements."""
        self.entry += self.bins.entry
        self.bins.clear()
        self.b.line(_BEGIN.format(before=self.b.current).strip())
        self.b.block("element")

    def end(self) -> None:
        """Go on to the thread's next element, or end."""
        self.b.line(_END.strip())
        self.b.current = "exit"
        self.bins.merge()
        self.b.line("ret void")

    def update(self, node: Node, t: DType, address: str, item: str) -> None:
        """Combine with an entry; what lanes have for one entry first, where it pays.

        That is where the program asks for it, unless blocks have copies, and where all
        threads have one entry; else, in memory, where neighbours happen to meet.
        """
        mode, index = node.attr.mode, node.deps[-2]
        has_copies = self._has_copies(node)
        is_asked = mode == "local" or (mode == "expand" and not has_copies)
        if is_asked or (mode == "auto" and index.size == 1):
            warps.aggregate(self.b, node.attr.op, t, address, item)
        elif mode == "auto" and not has_copies:
            warps.aggregate_neighbours(self.b, node.attr.op, t, address, item)
        else:
            super().update(node, t, address, item)

    def _has_copies(self, node: Node) -> bool:
        root = target_root(node.deps[0])
        return self.program.targets[id(root)].private_op is not None


PtxLowering.methods = {**ThreadLowering.methods, TEXEL: PtxLowering._texel}


def _lookup_of(node: Node) -> tuple[int, ...]:
    return (id(node.scope), node.attr // 4, *map(id, node.deps))


class PtxTarget(Target):
    """Writes kernels for GPUs, as LLVM IR that `runtime.nvptx` translates."""

    name = "ptx"
    copy_bytes = BINS_BYTES
    has_private_copies = False
    has_streaming_stores = False

    @property
    def collectives(self) -> Collectives:
        """The kernels for what isn't elementwise."""
        return _NVVM

    def copies(self, root: Node) -> tuple[int, int, int]:
        """Return which lanes have a copy, and how many entries these are apart."""
        return bins.copies(root.size)

    def plan(self, program: Program, info: TargetInfo) -> Demand:
        """Find what is wanted."""
        return Demand(program)

    def lower(self, program: Program, plan: Demand, name: str) -> Code:
        """Write a program's kernel; of the processor, nothing is assumed."""
        with closing(PtxLowering(program, plan, TargetInfo(lanes_f32=1))) as lowering:
            return lowering.code(name)


TARGET = PtxTarget()
