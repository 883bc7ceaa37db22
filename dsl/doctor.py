"""`python -m lumijit doctor`: what lumijit runs on, what it uses, and what to mend.

Owns the list of what is looked at; each finding is told in a line, and where something
can be done, a second line says what.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lumijit.compiler.ir import nodes
from lumijit.llvm import Float
from lumijit.runtime import buffers, cache, cpu, nvptx, pages, workers
from lumijit.runtime.compiled import is_compiled
from lumijit.runtime.errors import LumijitError
from lumijit.runtime.pool import core_count
from lumijit.runtime.settings import ENVIRONMENT, settings
from lumijit.runtime.version import VERSION

_MIB = 1 << 20
_FEW_MIB = 1024


class Finding(NamedTuple):
    """One thing looked at: what, how it is, and what to do about it, if anything.

    `is_wrong` tells whether lumijit does without something that it should have.
    """

    subject: str
    state: str
    remedy: str = ""
    is_wrong: bool = False


def _versions() -> Iterable[Finding]:
    import llvmlite
    import llvmlite.binding as llvm

    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("lumijit", f"{VERSION} on {platform.system()} {platform.machine()}")
    yield Finding("Python", python)
    yield Finding("NumPy", np.__version__)
    numbers = ".".join(map(str, llvm.llvm_version_info))
    yield Finding("LLVM", f"{numbers}, of llvmlite {llvmlite.__version__}")


def _processor() -> Iterable[Finding]:
    host = cpu.host()
    names = ("avx", "avx2", "fma", "f16c", "avx512f", "neon")
    found = ", ".join(n for n in names if host.has(n)) or "none that matter"
    lanes = f"{host.lanes_f32} single-precision numbers a register"
    yield Finding("processor", f"{host.name}: {found}; {lanes}")
    if settings.cpu_without:
        yield Finding(
            "processor features",
            f"without {settings.cpu_without}",
            "unset LUMIJIT_CPU_WITHOUT to use all that there are.",
        )


def _threads() -> Iterable[Finding]:
    threads, cores = workers.thread_count(), core_count()
    remedy = ""
    if threads != cores:
        remedy = "unset LUMIJIT_THREADS to have one a core."
    yield Finding("threads", f"{threads}, with {cores} cores to use", remedy)


def _memory() -> Iterable[Finding]:
    available = pages.available_bytes(0) // _MIB
    held = buffers.memory_stats()["live_bytes"] // _MIB
    remedy = ""
    if available < _FEW_MIB:
        remedy = "end other programs, or give the container more memory."
    yield Finding("memory", f"{available} MiB available, arrays hold {held}", remedy)


def _cache() -> Iterable[Finding]:
    if settings.no_disk_cache:
        yield Finding(
            "kernel cache",
            "in memory only",
            "unset LUMIJIT_NO_DISK_CACHE, or programs compile each time they start.",
            is_wrong=True,
        )
        return
    problem = cache.problem()
    if problem:
        yield Finding(
            "kernel cache",
            f"in memory only: {problem}",
            "set LUMIJIT_CACHE_DIR to a folder that only you can write to.",
            is_wrong=True,
        )
        return
    folder = cache.directory()
    count, size = cache.contents()
    limit = settings.cache_size_mb
    state = f"{folder}: {count} kernels, {size / _MIB:.1f} of {limit} MiB"
    yield Finding("kernel cache", state)
    free = shutil.disk_usage(_existing(folder)).free // _MIB
    if free < limit:
        yield Finding(
            "kernel cache",
            f"its disk has {free} MiB left",
            "free some, or lower LUMIJIT_CACHE_SIZE_MB.",
        )


def _existing(folder: str) -> str:
    """Return a folder, or the first one around it that exists."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _compiler() -> Iterable[Finding]:
    """Build and run something."""
    values = np.arange(5, dtype=np.float32)
    found = (Float(values.copy()) * 3 + 1).numpy()
    if np.array_equal(found, values * 3 + 1):
        yield Finding("a kernel", "was built and computed what it should")
    else:
        yield Finding(
            "a kernel",
            f"computed {found}",
            "please report this as a bug of lumijit.",
            is_wrong=True,
        )


def _tracer() -> Iterable[Finding]:
    if is_compiled(nodes):
        yield Finding("tracer", "compiled")
    elif settings.no_compiled:
        remedy = "unset LUMIJIT_NO_COMPILED, and install lumijit without it."
        yield Finding("tracer", "Python, as LUMIJIT_NO_COMPILED says", remedy)
    else:
        yield Finding(
            "tracer",
            "Python (installed in place, or without a C compiler)",
            "install gcc and Python's headers, then lumijit anew: tracing takes half.",
        )


def _gpu() -> Iterable[Finding]:
    driver = shutil.which("nvidia-smi")
    assembler = nvptx.assembler()
    yield Finding(
        "GPU",
        f"{'a driver is there' if driver else 'no driver'}, "
        f"{'ptxas at ' + assembler if assembler else 'no ptxas'}; "
        "kernels run on the CPU (PTX is only written, see 'make ptx')",
    )


def _environment() -> Iterable[Finding]:
    chosen = [
        f"{v.name}={os.environ[v.name]}" for v in ENVIRONMENT if v.name in os.environ
    ]
    known = {v.name for v in ENVIRONMENT}
    yield Finding("settings", ", ".join(chosen) or "all as by default")
    for name in sorted(os.environ):
        if name.startswith("LUMIJIT_") and name not in known:
            yield Finding(
                "settings",
                f"{name} is none",
                f"unset it; there are {', '.join(sorted(known))}.",
                is_wrong=True,
            )


_LOOKS: tuple[Callable[[], Iterable[Finding]], ...] = (
    *(_versions, _processor, _threads, _memory, _cache, _compiler, _tracer, _gpu),
    _environment,
)


def findings() -> list[Finding]:
    """Look at everything; what can't be looked at is a finding, too."""
    found: list[Finding] = []
    for look in _LOOKS:
        try:
            found += look()
        except (LumijitError, OSError, ImportError, RuntimeError) as error:
            subject = look.__name__.strip("_")
            found.append(Finding(subject, f"{type(error).__name__}: {error}", "", True))
    return found


def report(found: Sequence[Finding]) -> str:
    """Return findings as text."""
    width = max(len(finding.subject) for finding in found)
    lines = []
    for finding in found:
        lines.append(f"{finding.subject:{width}}  {finding.state}")
        if finding.remedy:
            lines.append(f"{'':{width}}  -> {finding.remedy}")
    return "\n".join(lines)
