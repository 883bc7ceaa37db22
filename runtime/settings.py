"""Settings: what a process reads once from its environment, with defaults, in a table.

No compiled module is imported here, as one setting has these ignored (`compiled`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, TypeVar

_T = TypeVar("_T")


@dataclass
class Settings:
    """The choices made once per process; zero and "" mean "find out"."""

    cache_dir: str = ""
    cache_size_mb: int = 1024
    no_disk_cache: bool = False
    kernel_memory_mb: int = 256
    threads: int = 0
    spin_us: int = 50
    no_futex: bool = False
    log_level: str = "warn"
    cpu: str = ""
    cpu_without: str = ""
    no_loader: bool = False
    memory_limit_mb: int = 0
    keep_gc: bool = False
    no_compiled: bool = False
    target: str = "packet"


class EnvironmentVariable(NamedTuple):
    """How a setting is overridden from outside, and what it may be."""

    setting: str
    name: str
    meaning: str
    choices: tuple[str, ...] = ()


TARGETS: Final = ("packet", "thread")
LOG_LEVELS: Final = ("disable", "error", "warn", "info", "infosym", "debug", "trace")

ENVIRONMENT: Final = (
    EnvironmentVariable("cache_dir", "LUMIJIT_CACHE_DIR", "folder of cached kernels"),
    EnvironmentVariable(
        "cache_size_mb", "LUMIJIT_CACHE_SIZE_MB", "size at which old kernels go"
    ),
    EnvironmentVariable(
        "no_disk_cache", "LUMIJIT_NO_DISK_CACHE", "keep kernels in memory only"
    ),
    EnvironmentVariable(
        "kernel_memory_mb",
        "LUMIJIT_KERNEL_MEMORY_MB",
        "size at which kernels in memory that were not used lately go",
    ),
    EnvironmentVariable("threads", "LUMIJIT_THREADS", "worker threads, 0: one a core"),
    EnvironmentVariable(
        "spin_us", "LUMIJIT_SPIN_US", "how long an idle worker spins before it sleeps"
    ),
    EnvironmentVariable(
        "no_futex", "LUMIJIT_NO_FUTEX", "wait on Python semaphores, not futexes"
    ),
    EnvironmentVariable(
        "log_level", "LUMIJIT_LOG_LEVEL", "what is written to stderr", LOG_LEVELS
    ),
    EnvironmentVariable("cpu", "LUMIJIT_CPU", "processor that code is scheduled for"),
    EnvironmentVariable(
        "cpu_without",
        "LUMIJIT_CPU_WITHOUT",
        "features that code leaves unused, such as avx512*",
    ),
    EnvironmentVariable(
        "no_loader", "LUMIJIT_NO_LOADER", "link kernels with LLVM, not our own loader"
    ),
    EnvironmentVariable(
        "memory_limit_mb", "LUMIJIT_MEMORY_LIMIT_MB", "what arrays may take together"
    ),
    EnvironmentVariable(
        "keep_gc", "LUMIJIT_KEEP_GC", "leave Python's garbage collector as it is"
    ),
    EnvironmentVariable(
        "no_compiled", "LUMIJIT_NO_COMPILED", "ignore (or don't build) compiled modules"
    ),
    EnvironmentVariable(
        "target",
        "LUMIJIT_TARGET",
        "how kernels are written: for packets of lanes, or for one thread an element",
        TARGETS,
    ),
)

_YES: Final = ("1", "true", "yes", "on")
_NO: Final = ("0", "false", "no", "off", "")
_LARGEST: Final = 2**31 - 1


def _parse(variable: EnvironmentVariable, default: _T, text: str) -> _T:
    """Read one variable as the type of its default; warn and keep that if bad."""
    value: Any = None
    word = text.strip().lower()
    expected = "text"
    if isinstance(default, bool):
        expected = "0 or 1"
        value = True if word in _YES else False if word in _NO else None
    elif isinstance(default, int):
        expected = f"a whole number from 0 to {_LARGEST}"
        is_short = word.isdecimal() and len(word) <= len(str(_LARGEST))
        value = int(word) if is_short and int(word) <= _LARGEST else None
    elif variable.choices:
        expected = "one of " + ", ".join(variable.choices)
        if word.isdecimal() and int(word) < len(variable.choices):
            word = variable.choices[int(word)]
        value = word if word in variable.choices else None
    else:
        value = text
    if value is None:
        warnings.warn(
            f"{variable.name}={text!r} is ignored: expected {expected}; "
            f"the default ({default!r}) is used.",
            RuntimeWarning,
            stacklevel=2,
        )
        return default
    result: _T = value
    return result


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Make the settings that an environment asks for."""
    settings = Settings()
    for variable in ENVIRONMENT:
        text = environment.get(variable.name)
        if text is not None:
            default = getattr(settings, variable.setting)
            setattr(settings, variable.setting, _parse(variable, default, text))
    return settings


settings: Final = read_settings(os.environ)
assert {v.setting for v in ENVIRONMENT} == {f.name for f in fields(Settings)}
