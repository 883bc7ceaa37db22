"""Marks and ranges of the user's program on its timeline.

They are lines of the log at level Debug, among those of kernel launches, and, if the
package `nvtx` has been imported, what NVIDIA's profilers show beside what GPUs do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from lumijit.runtime import log


def profile_mark(name: str, /) -> None:
    """Note that the program got to a point: in the log at level Debug, and by NVTX.

    Args:
        name: what the line says.

    >>> import lumijit as dr
    >>> dr.profile_mark("scene loaded")
    """
    if "nvtx" in sys.modules:
        sys.modules["nvtx"].mark(name)
    if log.level >= log.LogLevel.Debug:
        log.log(log.LogLevel.Debug, "%.6f s: mark %s", time.perf_counter(), name)


@contextmanager
def profile_range(name: str, /) -> Iterator[None]:
    """Note when a part of the program begins and ends.

    It is noted in the log at level Debug, and, if the package `nvtx` has been imported,
    for NVIDIA's profilers. The time is that of this thread; kernels may still be
    running at the end (see `lumijit.sync_thread`). Ranges can be nested.

    Args:
        name: what the lines say.

    >>> import lumijit as dr
    >>> with dr.profile_range("render"):
    ...     x = dr.llvm.Float(1) + 1
    """
    nvtx = sys.modules.get("nvtx")
    shown = nullcontext() if nvtx is None else nvtx.annotate(name)
    if log.level < log.LogLevel.Debug:
        with shown:
            yield
        return
    started = time.perf_counter()
    log.log(log.LogLevel.Debug, "%.6f s: begin %s", started, name)
    try:
        with shown:
            yield
    finally:
        ended = time.perf_counter()
        log.log(
            log.LogLevel.Debug,
            "%.6f s: end %s after %.3f ms",
            ended,
            name,
            (ended - started) * 1e3,
        )


def profile_enable() -> AbstractContextManager[None]:
    """Note in the log, at level Debug, which part of the program is to be profiled.

    >>> import lumijit as dr
    >>> with dr.profile_enable():
    ...     x = dr.llvm.Float(1) + 1
    """
    return profile_range("profiled")
