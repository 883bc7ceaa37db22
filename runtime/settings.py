"""Settings: what a process reads once from its environment, with defaults, in a table.

No compiled module is imported here, as one setting has these ignored (`compiled`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

_T = TypeVar("_T")


#: How many times as long idle workers spin while kernels come soon after each other.
LONG_SPIN: Final = 20
LOG_LEVELS: Final = ("disable", "error", "warn", "info", "infosym", "debug", "trace")


_told: Final[list[tuple[str, tuple[str, ...]]]] = []


def _setting(default: _T, meaning: str, choices: tuple[str, ...] = ()) -> _T:
    """Describe a setting: its default, what it means, and what it may be."""
    _told.append((meaning, choices))
    return default


class Settings:
    """The choices made once per process; zero and "" mean "find out".

    Each is overridden by a variable: `LUMIJIT_CACHE_DIR` is that of `cache_dir`.
    """

    cache_dir: str = _setting("", "folder of cached kernels")
    cache_size_mb: int = _setting(1024, "size at which old kernels go")
    no_disk_cache: bool = _setting(False, "keep kernels in memory only")
    kernel_memory_mb: int = _setting(
        256, "size at which kernels in memory that were not used lately go"
    )
    threads: int = _setting(0, "worker threads, 0: one a core")
    spin_us: int = _setting(
        50,
        f"how long idle workers spin, {LONG_SPIN} times as long if kernels come soon",
    )
    no_futex: bool = _setting(False, "wait on Python semaphores, not futexes")
    log_level: str = _setting("warn", "what is written to stderr", LOG_LEVELS)
    cpu: str = _setting("", "processor that code is scheduled for")
    cpu_without: str = _setting("", "features that code leaves unused, such as avx512*")
    no_loader: bool = _setting(False, "link kernels with LLVM, not our own loader")
    memory_limit_mb: int = _setting(0, "what arrays may take together")
    keep_gc: bool = _setting(False, "leave Python's garbage collector as it is")
    no_compiled: bool = _setting(False, "ignore (or don't build) compiled modules")


class EnvironmentVariable(NamedTuple):
    """How a setting is overridden from outside, and what it may be."""

    setting: str
    name: str
    meaning: str
    choices: tuple[str, ...]


ENVIRONMENT: Final = tuple(
    EnvironmentVariable(name, f"LUMIJIT_{name.upper()}", *told)
    for name, told in zip(Settings.__annotations__, _told, strict=True)
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
