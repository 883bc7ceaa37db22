"""Kernels that don't come from a trace: by name, cached like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from lumijit.compiler.launch.kernels import structural_hash
from lumijit.compiler.launch.starting import start
from lumijit.compiler.plan import target as targets
from lumijit.runtime import cache, device, history, log
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.config import flags

_INLINE_LIMIT = 4096


class SpecialKernel:
    """A kernel with its name; `launch` runs it."""

    __slots__ = ("hash", "is_disk_hit", "is_new", "kernel", "name")

    def __init__(self, name: str, hash_: str, kernel: Any) -> None:
        self.name = name
        self.hash = hash_
        self.kernel = kernel
        self.is_new = True
        self.is_disk_hit = False


# By device or target, and name. Beyond so many, the older half is forgotten: code goes
# when no launch uses it, and stays on disk.
_MOST = 512
_KERNELS: dict[tuple[str, str], SpecialKernel] = {}


def flush() -> None:
    """Forget all kernels in memory."""
    _KERNELS.clear()


def get(name: str, write: Callable[..., str], *args: Any) -> SpecialKernel:
    """Return the kernel called `name`; `write(symbol, *args)` gives its IR."""
    key = targets.environment(), name
    found = _KERNELS.get(key)
    if found is not None:
        found.is_new = False
        return found
    present, threads = device.present(), targets.collectives().THREADS
    hash_ = structural_hash(("special", present.environment, name))
    symbol = f"lumijit_{hash_}"
    was_compiled = False

    def build() -> bytes:
        nonlocal was_compiled
        was_compiled = True
        return present.compile(write(symbol, *args))

    def load(code: bytes) -> Any:
        return present.load(code, symbol, hash_, threads)

    kernel = SpecialKernel(name, hash_, cache.stored(hash_, build, load))
    kernel.is_disk_hit = not was_compiled
    _KERNELS[key] = kernel
    if len(_KERNELS) > _MOST:
        for oldest in list(_KERNELS)[: _MOST // 2]:
            _KERNELS.pop(oldest, None)
    return kernel


def launch(
    found: SpecialKernel,
    args: bytes,
    size: int,
    block_size: int,
    inline_limit: int = _INLINE_LIMIT,
    writes: Sequence[Buffer] = (),
    started: list[int] | None = None,
) -> None:
    """Run a kernel over `size` elements: inline if small and nothing is pending.

    `writes` are the buffers whose contents it makes; `started` is as in `workers`.
    """
    if size == 0:
        return
    if device.opened:
        here = device.away.get(get_ident())
        assert all([buffer.device is here for buffer in writes]), found.name
    start(
        found.kernel,
        args,
        size,
        block_size,
        size <= inline_limit,
        writes,
        _report,
        _summary,
        (found, size),
        started,
    )


def _report(launched: tuple[SpecialKernel, int], ticket: int, seconds: float) -> None:
    """Record a launch in the history and the log, where these are wanted."""
    found, size = launched
    if log.level >= log.LogLevel.Info:
        state = "disk hit" if found.is_disk_hit else "miss"
        if not found.is_new:
            state = "hit"
        log.log(
            log.LogLevel.Info,
            "launching %s (%s, n=%d): cache %s",
            *(found.hash[:16], found.name, size, state),
        )
    if flags.kernel_history:
        history.record(
            {
                **_summary(launched),
                "ticket": ticket,
                "execution_time": seconds * 1e6,
                "cache_hit": not found.is_new,
                "cache_disk": found.is_new and found.is_disk_hit,
            }
        )


def _summary(launched: tuple[SpecialKernel, int]) -> history.Entry:
    """Return what the history tells of every launch of a kernel."""
    found, size = launched
    kinds = history.KernelType
    is_reduction = "reduce" in found.name
    return {
        "backend": device.present().backend,
        "type": kinds.Reduce if is_reduction else kinds.Other,
        "hash": found.hash,
        "size": size,
    }
