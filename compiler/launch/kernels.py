"""Kernels by structure: look up, or lower, build, link and remember.

The memory cache maps a program's key to its kernel. A miss consults the disk
cache under a hash of the key; only then is IR written and compiled. What is built is
the general form of a program, in which equal numbers are arguments of their own
(`general`). Every miss is explained (`recompiles`).
"""

from __future__ import annotations

import functools
import time
from collections import deque
from dataclasses import dataclass, field
from importlib import import_module
from struct import error as StructError
from typing import Any, cast

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.ir.nodes import Interrupted, interruptions
from lumijit.compiler.launch.recompiles import explain
from lumijit.compiler.plan import general, signature
from lumijit.compiler.plan import target as targets
from lumijit.compiler.plan.general import General, Selection, Source
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.signature import Packer, Signature, Wide
from lumijit.compiler.plan.target import Target
from lumijit.runtime import cache, cpu, device
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.errors import KernelBuildError
from lumijit.runtime.log import LogLevel, log
from lumijit.runtime.settings import settings

# How reading an entry of the disk cache fails that is whole, but of no use.
_USELESS = (
    ArithmeticError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    StructError,
    KernelBuildError,
)
# The numbers in an entry, and the largest that make sense.
_NUMBERS = {
    "width": 1024,
    "operations": 1 << 40,
    "cost": 1 << 40,
    "loops": 1,
    "scratch": 1 << 30,
}

#: Where targets are, by name. (Tests have another one.)
TARGETS = {
    "packet": "lumijit.compiler.lower.packet.target",
    "ptx": "lumijit.compiler.lower.thread.ptx",
}

# A kernel of this cost for each lane of singles takes 5 to 20 µs, about as long as
# handing it over and waiting. (Writes go lane by lane, however many there are.)
SMALL_COST = 50_000
SMALL_WRITES = 400_000
# The general form of shorter programs is made in two milliseconds.
NOTED_FROM = 400


@dataclass
class Built:
    """A kernel in memory and how to launch it."""

    kernel: Any
    hash: str
    pack: Packer
    operation_count: int
    cost: int
    has_loops: bool
    # So many elements aren't worth a hand-over to threads.
    small_size: int
    is_hit: bool = False
    is_disk_hit: bool = False
    codegen_us: float = 0.0
    backend_us: float = 0.0
    reason: str = ""
    ir: str = field(default="", repr=False)
    # Memory that each thread needs for large local buffers.
    scratch_bytes: int = 0
    # How many kernels had been looked up in vain when this was used last.
    last_used: int = 0


_KERNELS: dict[Any, Built] = {}
# What the newest of them compute.
_STRUCTURES: deque[Any] = deque(maxlen=64)
# By the key of the general form; and the newest of them, with their programs.
_GENERAL: dict[Any, Built] = {}
_RECENT: deque[tuple[Program, Built]] = deque(maxlen=64)
_target: TargetInfo | None = None
_misses = 0
_size_bytes = 0
# What a kernel takes beyond its code and its text, and what an entry of a key takes.
_KERNEL_BYTES = 16384
_ROW_BYTES = 128
# How much of what may be kept is, once there was too much.
_KEPT = 0.75


def target() -> TargetInfo:
    """Return what the lowering may assume of this processor."""
    global _target
    if _target is None:
        host = cpu.host()
        has_avx512 = host.has_avx512
        _target = TargetInfo(
            host.lanes_f32,
            has_masks=has_avx512,
            has_avx512=has_avx512,
            has_fast_gathers=host.has("fast-gather"),
        )
    return _target


def use(chosen: Target) -> None:
    """Write kernels for a target from now on; forget those in memory."""
    targets.use(chosen)
    flush()


def count() -> int:
    """Return how many kernels are in memory."""
    return len(_GENERAL)


def flush() -> None:
    """Forget all kernels in memory; those on disk stay."""
    global _size_bytes
    _size_bytes = 0
    _KERNELS.clear()
    _STRUCTURES.clear()
    _GENERAL.clear()
    _RECENT.clear()


def structural_hash(key: Any) -> str:
    """Return the hexadecimal name of a structure and everything its code depends on.

    It is the same in every process on the same processor with the same versions.
    """
    return cache.full_key(
        repr((targets.in_use().name, target(), key)), cpu.environment_key()
    )


def find(key: Any) -> Built | None:
    """Return the kernel that was looked up under a key before."""
    known = _KERNELS
    built = known.get(key)
    if built is None or (unusual and flags.print_ir):
        return None
    built.is_hit = True
    built.last_used = _misses
    return built


def lookup(program: Program, key: Any = None) -> Built:
    """Return the kernel for a program, building it if need be.

    Args:
        program: what is to be computed.
        key: what it is to be found by; its own key unless given.

    Raises:
        Interrupted: if somebody has evaluated meanwhile.
    """
    if key is None:
        key = program.key
    found = find(key)
    if found is None:
        before = interruptions.count
        built, chosen = _searched(program)
        if interruptions.count != before:
            raise Interrupted
        found = _packed(built, chosen.packer(built.pack))
        _STRUCTURES.append(program.key)
        _remember(key, found)
    return found


def _packed(built: Built, pack: Packer) -> Built:
    """Return a kernel that is launched with other arguments.

    (`dataclasses.replace` takes 5 µs, as much as all of the rest of a look-up.)
    """
    return Built(
        built.kernel,
        built.hash,
        pack,
        built.operation_count,
        built.cost,
        built.has_loops,
        built.small_size,
        built.is_hit,
        built.is_disk_hit,
        built.codegen_us,
        built.backend_us,
        built.reason,
        built.ir,
        built.scratch_bytes,
        built.last_used,
    )


def _remember(key: Any, built: Built) -> None:
    """Keep a kernel, and forget others if they take too much memory."""
    global _misses, _size_bytes
    _misses += 1
    built.last_used = _misses
    _KERNELS[key] = built
    _size_bytes += _kept_bytes(key, built)
    if _size_bytes > settings.kernel_memory_mb << 20:
        _forget()


def _kept_bytes(key: Any, built: Built) -> int:
    text = len(built.ir) + len(key) * _ROW_BYTES
    return int(built.kernel.size_bytes) + text + _KERNEL_BYTES


def _forget() -> None:
    """Forget the kernels that were used least recently.

    Their code goes when no launch uses it; on disk it stays.
    """
    global _size_bytes
    used: dict[int, int] = {}
    for built in _KERNELS.values():
        kernel = id(built.kernel)
        used[kernel] = max(used.get(kernel, 0), built.last_used)
    found = sorted(_KERNELS.items(), key=lambda e: used[id(e[1].kernel)])
    limit = int(_KEPT * (settings.kernel_memory_mb << 20))
    count = len(found)
    _KERNELS.clear()
    _size_bytes = 0
    # The newest is about to be launched.
    while found and (not _KERNELS or _size_bytes <= limit):
        key, built = found.pop()
        _KERNELS[key] = built
        _size_bytes += _kept_bytes(key, built)
    log(LogLevel.Info, "%d of %d kernels are forgotten", len(found), count)
    kept = {id(built.kernel) for built in _KERNELS.values()}
    for key in [k for k, built in _GENERAL.items() if id(built.kernel) not in kept]:
        del _GENERAL[key]
    recent = [entry for entry in _RECENT if id(entry[1].kernel) in kept]
    _RECENT.clear()
    _RECENT.extend(recent)


def _searched(program: Program) -> tuple[Built, Selection]:
    """Return a kernel that no key leads to yet, and what it takes of the arguments."""
    own_name = ""
    if len(program.all_nodes()) >= NOTED_FROM:
        own_name = structural_hash(program.key)
        found = _noted(program, own_name)
        if found is not None:
            return found
    wanted = general.generalized(program)
    built, sources = _known(program, wanted)
    if built is None:
        built = _build(program, wanted.program)
        sources = wanted.sources
        _GENERAL[wanted.program.key] = built
        # Copies only: the program itself would keep its arrays in memory.
        if wanted.program is not program:
            _RECENT.append((wanted.program, built))
    chosen = general.selection(program, sources)
    if own_name and built.hash != own_name:
        _note(own_name, built, chosen)
    return built, chosen


def _note(name: str, built: Built, chosen: Selection) -> None:
    """Note on disk which kernel serves a program: that spares its general form."""
    meta = {"kernel": built.hash, "picks": chosen.picks, "numbers": chosen.numbers}
    cache.store(name, b"", meta)


def _noted(program: Program, name: str) -> tuple[Built, Selection] | None:
    """Return the kernel on disk that was noted for a program, or that is its own."""
    if flags.print_ir:
        return None
    started = time.perf_counter()
    stored = cache.lookup(name)
    if stored is None:
        return None
    _, meta = stored
    count = len(program.arguments)
    chosen = Selection(count, tuple(range(count)), ())
    if "kernel" in meta:
        try:
            noted, picks, numbers = meta["kernel"], meta["picks"], meta["numbers"]
            chosen = Selection(count, tuple(picks), tuple(numbers))
            is_known = isinstance(noted, str) and all(
                type(p) is int and 0 <= p < count + len(numbers) for p in picks
            )
        except (KeyError, TypeError):
            is_known = False
        if not is_known:
            cache.drop(name, "it names no kernel")
            return None
        name = noted
        stored = cache.lookup(name)
        if stored is None:
            return None
    built = _from_disk(name, stored, started, program, chosen)
    if built is not None:
        built.reason = explain(program, _STRUCTURES)
        return built, chosen
    return None


def _from_disk(
    name: str,
    stored: tuple[bytes, cache.Meta],
    started: float,
    program: Program,
    chosen: Selection | None = None,
) -> Built | None:
    """Return a kernel from disk, or None if what is there is of no use."""
    try:
        built = _linked(name, *stored)
        pack = built.pack if chosen is None else chosen.packer(built.pack)
        signature.try_packing(pack, program)
    except _USELESS as error:
        cache.drop(name, repr(error))
        return None
    built.is_disk_hit = True
    built.backend_us = (time.perf_counter() - started) * 1e6
    return built


def _linked(name: str, code: bytes, meta: cache.Meta) -> Built:
    """Return a kernel in memory, given its object code and what is noted with it."""
    for key, most in _NUMBERS.items():
        if not isinstance(meta[key], int) or not 0 <= meta[key] <= most:
            raise ValueError(f"its '{key}' is {meta[key]!r}")
    width = meta["width"]
    wide = [Wide(*found) for found in meta["wide"]]
    # (What loops take isn't known.)
    small_cost = 0 if meta["loops"] else SMALL_COST * target().lanes_f32
    return Built(
        device.present().load(code, _symbol(name), name, 0, width),
        name,
        signature.packer(meta["layout"], wide, width),
        meta["operations"],
        meta["cost"],
        bool(meta["loops"]),
        small_cost // max(1, meta["cost"]),
        scratch_bytes=meta["scratch"],
    )


def _known(program: Program, wanted: General) -> tuple[Built | None, list[Source]]:
    """Return a kernel in memory that computes a program, and from what."""
    if flags.print_ir:
        return None, []
    built = _GENERAL.get(wanted.program.key)
    if built is not None:
        built.is_hit = True
        return built, wanted.sources
    for known, built in reversed(_RECENT):
        sources = general.match(known, program)
        if sources is not None:
            built.is_hit = True
            return built, sources
    return None, []


def _build(program: Program, wanted: Program) -> Built:
    """Read a kernel from disk or make it, for the general form of a program."""
    name = structural_hash(wanted.key)
    reason = "IR wanted for printing"
    if not flags.print_ir:
        reason = explain(program, _STRUCTURES)
    started = time.perf_counter()
    stored = None if flags.print_ir else cache.lookup(name)
    if stored is not None:
        found = _from_disk(name, stored, started, wanted)
        if found is not None:
            found.reason = reason
            return found
    lowered = _code(wanted, name)
    codegen_us = (time.perf_counter() - started) * 1e6
    if flags.print_ir:
        print(lowered.ir)
    started = time.perf_counter()
    code = device.present().compile(lowered.ir)
    meta: cache.Meta = {
        "width": lowered.width,
        "operations": lowered.operations,
        "cost": lowered.cost,
        "loops": wanted.has_loops,
        "scratch": lowered.scratch_bytes,
        "layout": Signature.of(wanted).codes,
        "wide": lowered.wide,
    }
    built = _linked(name, code, meta)
    cache.store(name, code, meta)
    built.codegen_us = codegen_us
    built.backend_us = (time.perf_counter() - started) * 1e6
    built.reason = reason
    built.ir = lowered.ir
    return built


def ir_of(program: Program, built: Built) -> str:
    """Return the IR of a program's kernel, also if that came from disk.

    Empty where the kernel was built for a program of another structure, which serves
    this one as well.
    """
    if not built.ir:
        wanted = general.generalized(program).program
        if structural_hash(wanted.key) == built.hash:
            built.ir = _code(wanted, built.hash).ir
    return built.ir


def _code(wanted: Program, name: str) -> targets.Code:
    """Write the kernel of a program in its general form."""
    arranged = general.ordered(wanted)
    return targets.in_use().code(arranged, _symbol(name), target())


def _symbol(name: str) -> str:
    return f"lumijit_{name}"


@functools.cache
def target_named(name: str) -> Target:
    """Return the target of a device, imported when first asked for."""
    return cast(Target, import_module(TARGETS[name]).TARGET)


targets.find_by(target_named)
targets.use(target_named("packet"))
