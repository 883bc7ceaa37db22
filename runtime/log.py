"""Log messages on stderr, by level.

Owns the level and the format of a line. Callers in hot paths test
`log.level >= LogLevel.X` themselves when making the arguments costs something.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Final

from lumijit.runtime.config import unusual
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.runtime.named_enum import NamedEnum
from lumijit.runtime.settings import LOG_LEVELS, settings


class LogLevel(NamedEnum):
    """How much is written: everything up to the chosen level."""

    Disable = 0
    Error = 1
    Warn = 2
    Info = 3
    InfoSym = 4
    Debug = 5
    Trace = 6


_NAMES: Final = ("", "error", "warning", "info", "info", "debug", "trace")

level: int = 0


def log_level() -> LogLevel:
    """Return the current level."""
    return LogLevel(level)


def set_log_level(new_level: LogLevel | int) -> None:
    """Choose what is written from now on.

    Args:
        new_level: a `LogLevel`, or its number (0 to 6).
    """
    global level
    if isinstance(new_level, bool) or not isinstance(new_level, int):
        raise ArrayTypeError(
            "set_log_level()",
            f"{new_level!r} is no level (expected LogLevel or int, got "
            f"{type(new_level).__name__})",
            "pass a member of LogLevel, such as LogLevel.Info.",
        )
    if not 0 <= new_level <= LogLevel.Trace:
        raise ArrayValueError(
            "set_log_level()",
            f"there is no level {new_level} (expected 0 to 6)",
            "pass a member of LogLevel, such as LogLevel.Info.",
        )
    level = int(new_level)
    if level >= LogLevel.Info:
        unusual.add("log")


def log(at: int, text: str, *args: object) -> None:
    """Write a line if the level asks for it; `args` are put in with `%`."""
    if at > level:
        return
    line = text % args if args else text
    # There may be no stderr, or one that is closed or full: no reason to fail.
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"lumijit {_NAMES[at]}: {line}\n")


set_log_level(LOG_LEVELS.index(settings.log_level))
