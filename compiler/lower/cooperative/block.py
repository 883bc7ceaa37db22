"""A block of threads that share memory and wait for each other, as code is written.

Owns what collective kernels are written in: values of threads, operations on them,
loops and conditions that all threads of a block share. How a block runs is up to the
kinds of it: `nvvm`, on GPUs, and that of the tests, in step on the CPU.

Control flow is the same in all threads of a block; what differs is masked. So a block
can be carried out in step, and barriers can be checked here: between a write to shared
memory and what another thread does there, there must be one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.emit.type_names import bits_of, is_float, mangled
from lumijit.compiler.lower.cooperative.values import LANES, Shape, Shared, Value
from lumijit.runtime.dtypes import DType

#: Writes an instruction: the result's name, the spelled type and names of operands.
Writer = Callable[..., str]


class Block(ABC):
    """Writes one kernel.

    `begin` and `end` are the elements that a block is to work on, `number` its own:
    `begin` is `number` times the size of blocks, as in the kernels for packets.
    """

    #: How many names a value of each thread has.
    copies: int
    #: What a thread does before it looks at a flag again.
    pause: str
    #: Whom flags tell, where that isn't everybody.
    scope = ""
    begin: Value
    end: Value
    thread: Value
    lane: Value
    warp: Value

    def __init__(self, shape: Shape, name: str) -> None:
        self.name = name
        self.shape = shape
        #: How many slots are read.
        self.slots = 0
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.current = "entry"
        self._count = 0
        self._shared: list[Shared] = []
        self._accesses: list[tuple[Shared | None, str]] = []
        self._touched: dict[Shared, str] = {}

    # What differs between blocks of GPUs and of the CPU

    @property
    @abstractmethod
    def number(self) -> Value:
        """Return the block's number."""

    @abstractmethod
    def spell(self, ty: str, varies: bool) -> str:
        """Spell the type of one name of a value."""

    @abstractmethod
    def vary(self, value: Value) -> Value:
        """Give each thread a value that all have in common."""

    @abstractmethod
    def read(self, ty: str, address: Value) -> Value:
        """Read from an address of each thread."""

    @abstractmethod
    def write(self, value: Value, address: Value, where: Value) -> None:
        """Write to an address of each thread for which a mask is set."""

    @abstractmethod
    def alone(self, code: Callable[[], None]) -> None:
        """Run code that is the same for all threads in one of them."""

    @abstractmethod
    def shuffle(self, value: Value, kind: str, by: int) -> Value:
        """Return the value of another lane of the warp.

        `kind` is "up" or "down" (the lane `by` below or above: if there is none, the
        own one) or "at" (of lane `by`, for all).
        """

    @abstractmethod
    def ballot(self, mask: Value) -> Value:
        """Return the masks of all lanes of the warp as the bits of an i32."""

    @abstractmethod
    def wait(self, kind: str) -> None:
        """Wait for all threads of the block ("sync") or of the warp ("sync_warp")."""

    @abstractmethod
    def until_set(self, flags: Value, first: Value, count: Value, step: int) -> None:
        """Wait until flags are set, and see what was written before they were.

        They are `count` flags (i32), at most one for each thread, from `first` on.
        """

    @abstractmethod
    def told(self, words: Value, first: Value, count: Value, step: int) -> Value:
        """Wait for words that blocks `tell`, as `until_set` does, and return them.

        They are zero in threads that don't ask.
        """

    @abstractmethod
    def module(self) -> str:
        """Return the text of the kernel's module."""

    # Instructions

    def fresh(self) -> str:
        """Return a name that isn't in use yet, without its percent sign."""
        self._count += 1
        return f"v{self._count}"

    def each(self, ty: str, write: Writer, *operands: Value) -> Value:
        """Write an instruction for each name of its operands."""
        varies = any(x.varies for x in operands)
        if varies:
            operands = tuple(map(self.vary, operands))
        spelled = self.spell(operands[0].ty, varies)
        names = []
        for copy in range(self.copies if varies else 1):
            name = self.fresh()
            self.lines.append(write(name, spelled, *(x.names[copy] for x in operands)))
            names.append(f"%{name}")
        return Value(self, ty, tuple(names), varies)

    def constant(self, ty: str, text: str) -> Value:
        """Return a number that stands in the code."""
        return Value(self, ty, (text,), False)

    def binary(self, instruction: str, x: Value, y: Value) -> Value:
        """Write an instruction on two values of one type."""
        return self.each(
            x.ty, lambda n, t, a, c: f"  %{n} = {instruction} {t} {a}, {c}", x, y
        )

    def compare(self, condition: str, x: Value, y: Value) -> Value:
        """Compare integers."""
        return self.each(
            "i1", lambda n, t, a, c: f"  %{n} = icmp {condition} {t} {a}, {c}", x, y
        )

    def select(self, mask: Value, x: Value, y: Value) -> Value:
        """Choose one of two values."""
        varies = mask.varies or x.varies or y.varies
        masks, values = self.spell("i1", varies), self.spell(x.ty, varies)
        return self.each(
            x.ty,
            lambda n, _, c, a, z: (
                f"  %{n} = select {masks} {c}, {values} {a}, {values} {z}"
            ),
            mask,
            x,
            y,
        )

    def cast(self, kind: str, value: Value, ty: str) -> Value:
        """Convert to another type."""
        to = self.spell(ty, value.varies)
        return self.each(ty, lambda n, t, a: f"  %{n} = {kind} {t} {a} to {to}", value)

    def combine(self, op: str, t: DType, x: Value, y: Value) -> Value:
        """Combine two values as a reduction does."""
        return self.each(
            x.ty, lambda n, ty, a, c: combine_text(op, t, ty, n, a, c), x, y
        )

    def call(self, ty: str, intrinsic: str, *operands: Value) -> Value:
        """Call an LLVM intrinsic on values of type `ty`."""
        varies = any(x.varies for x in operands)
        spelled = self.spell(ty, varies)
        short = mangled(ty)
        suffix = f"v{LANES}{short}" if spelled != ty else short
        function = f"@llvm.{intrinsic}.{suffix}"
        listed = ", ".join([spelled] * len(operands))
        self.declarations[function] = f"declare {spelled} {function}({listed})"

        def write(n: str, t: str, *names: str) -> str:
            given = ", ".join(f"{t} {name}" for name in names)
            return f"  %{n} = call {spelled} {function}({given})"

        return self.each(ty, write, *operands)

    # Memory

    def argument(self, slot: int, ty: str = "ptr") -> Value:
        """Load a slot of the argument block."""
        self.slots = max(self.slots, slot + 1)
        at, name = self.fresh(), self.fresh()
        self.lines.append(f"  %{at} = getelementptr i64, ptr %args, i64 {slot}")
        self.lines.append(f"  %{name} = load {ty}, ptr %{at}")
        return Value(self, ty, (f"%{name}",), False)

    def address(self, ty: str, base: Value, index: Value) -> Value:
        """Return where an entry of an array lies."""
        (start,) = base.names
        return self.each(
            "ptr",
            lambda n, t, i: f"  %{n} = getelementptr {ty}, ptr {start}, {t} {i}",
            index,
        )

    def load(self, ty: str, base: Value, index: Value) -> Value:
        """Read an entry of an array."""
        return self._read(ty, self.address(ty, base, index))

    def _read(self, ty: str, address: Value) -> Value:
        if address.varies:
            return self.read(ty, address)
        return self.each(ty, lambda n, t, a: f"  %{n} = load {ty}, {t} {a}", address)

    def store(self, value: Value, base: Value, index: Value, where: Value) -> None:
        """Write an entry of an array, in the threads for which a mask is set."""
        address = self.address(value.ty, base, index)
        self.write(self.vary(value), self.vary(address), self.vary(where))

    def load_row(self, ty: str, base: Value, index: Value, count: int) -> list[Value]:
        """Read neighbouring entries; the index is a multiple of their number."""
        return [self.load(ty, base, index + k) for k in range(count)]

    def store_row(
        self, values: Sequence[Value], base: Value, index: Value, where: Value
    ) -> None:
        """Write neighbouring entries; the index is a multiple of their number."""
        for k, value in enumerate(values):
            self.store(value, base, index + k, where)

    def store_alone(self, value: Value, base: Value, index: Value) -> None:
        """Write what all threads have in common."""
        self.alone(lambda: self._store_once(value, base, index))

    def _store_once(self, value: Value, base: Value, index: Value) -> None:
        (to,), (name,) = self.address(value.ty, base, index).names, value.names
        self.lines.append(f"  store {value.ty} {name}, ptr {to}")

    def publish(self, value: Value, base: Value, flags: Value, index: Value) -> None:
        """Write a value, and then set the flag that says so."""

        def write() -> None:
            self._store_once(value, base, index)
            (flag,) = self.address("i32", flags, index).names
            self.lines.append(
                f"  store atomic i32 1, ptr {flag} {self.scope}release, align 4"
            )

        self.alone(write)

    def tell(self, value: Value, words: Value, index: Value) -> None:
        """Write a value of 32 bits at most into a word that says that it is there."""

        def write() -> None:
            bits = f"i{bits_of(value.ty)}"
            raw = self.cast("bitcast", value, bits) if is_float(value.ty) else value
            word = (raw.to("i64") << 32) | 1
            (place,) = self.address("i64", words, index).names
            self.lines.append(
                f"  store atomic i64 {word.names[0]}, ptr {place} {self.scope}"
                "monotonic, align 8"
            )

        self.alone(write)

    def in_word(self, ty: str, word: Value) -> Value:
        """Return the value in a word."""
        bits = (word >> 32).to(f"i{bits_of(ty)}")
        return self.cast("bitcast", bits, ty) if is_float(ty) else bits

    def poll(self, flag: str, ty: str = "i32", order: str = "acquire") -> str:
        """Look at a flag until it is set; return what it is."""
        stem, align = self.fresh(), bits_of(ty) // 8
        poll, idle, seen = (f"{stem}.{s}" for s in ("poll", "idle", "seen"))
        self.lines.append(f"  br label %{poll}")
        self.label(poll)
        self.lines += [
            f"  %{stem} = load atomic {ty}, ptr {flag} {self.scope}{order}, "
            f"align {align}",
            f"  %{stem}.set = icmp ne {ty} %{stem}, 0",
            f"  br i1 %{stem}.set, label %{seen}, label %{idle}",
        ]
        self.label(idle)
        self.lines += [f"  {self.pause}", f"  br label %{poll}"]
        self.label(seen)
        return f"%{stem}"

    # Shared memory

    def shared(self, ty: str, size: int, owner: str = "block") -> Shared:
        """Make shared memory; its contents are undefined."""
        made = Shared(f"{self.name}.shared{len(self._shared)}", ty, size, owner)
        self._shared.append(made)
        return made

    @abstractmethod
    def place(self, memory: Shared, index: Value) -> Value:
        """Return where an entry of shared memory lies."""

    def get(self, memory: Shared, index: Value | int) -> Value:
        """Read an entry of shared memory."""
        self._access(memory, "read")
        return self._read(memory.ty, self.place(memory, self._index(index)))

    def put(
        self, memory: Shared, index: Value | int, value: Value, where: Value
    ) -> None:
        """Write an entry of shared memory, where a mask is set."""
        self._access(memory, "write")
        address = self.place(memory, self._index(index))
        self.write(self.vary(value), self.vary(address), self.vary(where))

    def _index(self, index: Value | int) -> Value:
        return self.constant("i64", str(index)) if isinstance(index, int) else index

    def sync(self) -> None:
        """Wait for all threads of the block."""
        self._access(None, "sync")
        self.wait("sync")

    def sync_warp(self) -> None:
        """Wait for all threads of the warp."""
        self._access(None, "sync_warp")
        self.wait("sync_warp")

    def _access(self, memory: Shared | None, kind: str) -> None:
        """Check that no access to shared memory needs a barrier that isn't there."""
        self._accesses.append((memory, kind))
        if memory is None:
            for touched in list(self._touched):
                if kind == "sync" or touched.owner == "warp":
                    del self._touched[touched]
            return
        if memory.owner == "thread":
            return
        before = self._touched.get(memory)
        assert before is None or before == kind == "read", (
            f"{self.name}: no barrier between a {before} and a {kind} of {memory.name}"
        )
        self._touched[memory] = kind

    # Control flow that all threads share

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name}:")
        self.current = name

    def loop(
        self,
        start: Value,
        stop: Value,
        step: Value | int,
        carried: Sequence[Value],
        body: Callable[..., Sequence[Value]],
    ) -> list[Value]:
        """Run `body(i, *carried)` from `start` on while `i` is below `stop`.

        What it returns is carried to the next turn; what is left is returned.
        """
        assert not start.varies
        assert not stop.varies
        stem = self.fresh()
        head, inside, after = (f"{stem}.{s}" for s in ("loop", "body", "done"))
        initial, before = [start, *carried], self.current
        self.lines.append(f"  br label %{head}")
        self.label(head)
        place = len(self.lines)
        phis = [
            Value(self, x.ty, tuple(f"%{self.fresh()}" for _ in x.names), x.varies)
            for x in initial
        ]
        (goes_on,) = (phis[0] < stop).names
        self.lines.append(f"  br i1 {goes_on}, label %{inside}, label %{after}")
        self.label(inside)
        first_access = len(self._accesses)
        following = [phis[0] + step, *body(*phis)]
        for memory, kind in self._accesses[first_access:]:
            self._access(memory, kind)
        end = self.current
        self.lines.append(f"  br label %{head}")
        self.lines[place:place] = [
            f"  {name} = phi {self.spell(phi.ty, phi.varies)} "
            f"[ {x}, %{before} ], [ {y}, %{end} ]"
            for phi, old, new in zip(phis, initial, following, strict=True)
            for name, x, y in zip(
                phi.names,
                old.names,
                (self.vary(new) if phi.varies else new).names,
                strict=True,
            )
        ]
        self.label(after)
        return phis[1:]

    def when(self, condition: Value, body: Callable[[], None]) -> None:
        """Run code if a condition holds that all threads share."""
        assert not condition.varies
        self.branch(condition, body)

    def branch(self, condition: Value, body: Callable[[], None]) -> str:
        """Run code past a branch, in blocks `….in` and, behind it, `….out`."""
        stem, (name,) = self.fresh(), condition.names
        self.lines.append(f"  br i1 {name}, label %{stem}.in, label %{stem}.out")
        self.label(f"{stem}.in")
        body()
        self.lines.append(f"  br label %{stem}.out")
        self.label(f"{stem}.out")
        return stem
