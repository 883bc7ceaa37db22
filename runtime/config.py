"""Flags: what can be chosen in each thread, with its default, in one table.

They steer tracing and launching. What a flag *does* is decided where it is read; what
a process reads from its environment is in `settings`.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from lumijit.runtime.contexts import Block, Setting
from lumijit.runtime.errors import ArrayTypeError
from lumijit.runtime.named_enum import format_named

_T = TypeVar("_T")


class JitFlag(enum.IntFlag):
    """Flags that control how programs are traced, compiled and launched.

    What each does is in the guide. `ReuseIndices`, `ForceOptiX` and `PacketOps` can be
    set and read as in Dr.Jit, and change nothing: nodes have no numbers that could be
    reused, there is no OptiX, and neighbouring entries are always read together where
    that is faster. `FullTracebacks`, `CheckBounds` and `CheckDerivatives` are
    lumijit's own.
    """

    Debug = 1 << 0
    ReuseIndices = 1 << 1
    ConstantPropagation = 1 << 2
    ValueNumbering = 1 << 3
    FastMath = 1 << 4
    SymbolicLoops = 1 << 5
    OptimizeLoops = 1 << 6
    CompressLoops = 1 << 7
    SymbolicCalls = 1 << 8
    OptimizeCalls = 1 << 9
    MergeFunctions = 1 << 10
    ForceOptiX = 1 << 11
    PrintIR = 1 << 12
    KernelHistory = 1 << 13
    LaunchBlocking = 1 << 14
    ScatterReduceLocal = 1 << 15
    SymbolicConditionals = 1 << 16
    SymbolicScope = 1 << 17
    FullTracebacks = 1 << 18
    CheckBounds = 1 << 19
    CheckDerivatives = 1 << 20
    KernelFreezing = 1 << 21
    PacketOps = 1 << 22
    Default = (
        ReuseIndices
        | ConstantPropagation
        | ValueNumbering
        | SymbolicLoops
        | OptimizeLoops
        | SymbolicCalls
        | OptimizeCalls
        | MergeFunctions
        | ScatterReduceLocal
        | SymbolicConditionals
        | CheckBounds
        | KernelFreezing
        | PacketOps
    )

    def __str__(self) -> str:
        names = "|".join(m.name or "" for m, _ in _ATTRIBUTES if self & m)
        return f"{type(self).__name__}.{names or int(self)}"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format_named(self, spec)


def _nowhere() -> bool:
    """Stand for what the tracer tells."""
    return False


#: Tells whether what is traced belongs to a region; the tracer sets it.
is_in_region: Callable[[], bool] = _nowhere


class _SymbolicScope:
    """Flag SymbolicScope, which is only to be read."""

    def __get__(self, instance: object, owner: object) -> bool:
        return is_in_region()

    def __set__(self, instance: object, value: bool) -> None:
        """Change nothing."""


class Flags(threading.local):
    """The flags of the current thread, one attribute each (fast to read)."""

    debug = False
    reuse_indices = True
    constant_propagation = True
    value_numbering = True
    fast_math = False
    symbolic_loops = True
    optimize_loops = True
    compress_loops = False
    symbolic_calls = True
    optimize_calls = True
    merge_functions = True
    force_optix = False
    print_ir = False
    kernel_history = False
    launch_blocking = False
    scatter_reduce_local = True
    symbolic_conditionals = True
    symbolic_scope = _SymbolicScope()
    full_tracebacks = False
    check_bounds = True
    check_derivatives = False
    kernel_freezing = True
    packet_ops = True


flags: Final = Flags()

# Members and attributes have the same names, spelled as those of their kinds.
_BY_NAME: Final = {name.lower(): m for name, m in JitFlag.__members__.items()}
_ATTRIBUTES: Final = tuple(
    (_BY_NAME[name.replace("_", "")], name)
    for name in vars(Flags)
    if not name.startswith("__")
)

#: The attributes of `flags`.
FLAG_NAMES: Final = tuple(name for _, name in _ATTRIBUTES)


#: Flags that some thread has changed, and "log" where messages are wanted. Empty nearly
#: always: asked first, as reading a flag of one thread takes ten times as long.
unusual: Final[set[str]] = set()


def _attributes_of(construct: str, which: JitFlag) -> list[str]:
    if not isinstance(which, JitFlag):
        raise ArrayTypeError(
            construct,
            f"{which!r} is no flag (expected JitFlag, got {type(which).__name__})",
            "pass a member of JitFlag, such as JitFlag.Debug.",
        )
    return [name for member, name in _ATTRIBUTES if which & member]


def flag(which: JitFlag) -> bool:
    """Tell whether a flag is set in this thread (of several: whether all are)."""
    return all(getattr(flags, name) for name in _attributes_of("flag()", which))


def set_flag(which: JitFlag, value: bool) -> None:
    """Set or clear a flag (or several) in this thread."""
    for name in _attributes_of("set_flag()", which):
        _set(name, bool(value))


def _set(name: str, value: bool) -> None:
    if value is not getattr(Flags, name):
        unusual.add(name)
    setattr(flags, name, value)


_SETTINGS: Final = {
    name: Setting(partial(getattr, flags, name), partial(_set, name))
    for name in FLAG_NAMES
}


class scoped_set_flag:
    """Context manager that sets a flag and puts back the former value at the end."""

    def __init__(self, flag: JitFlag, value: bool = True) -> None:
        self._names = _attributes_of("scoped_set_flag()", flag)
        self._value = bool(value)
        self._entered: list[list[Block[bool]]] = []

    def __enter__(self) -> None:
        blocks = [_SETTINGS[name].block(self._value) for name in self._names]
        self._entered.append(blocks)
        for block in blocks:
            block.__enter__()

    def __exit__(self, *unused: object) -> None:
        for block in self._entered.pop():
            block.__exit__()
