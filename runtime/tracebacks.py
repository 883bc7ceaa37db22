"""Tracebacks that show the user's frames, not those of this package in between.

A construct calls the user's functions from deep inside. An error that one of them
raises passes dozens of our frames on its way out, and its own few are hard to find
among them. Owns which frames are shown; messages are worded in `errors`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar, cast

from lumijit.runtime.config import flags
from lumijit.runtime.errors import LumijitError, is_internal

F = TypeVar("F", bound=Callable[..., object])


def hides_frames(function: F) -> F:
    """Make errors leave a function without the frames of this package.

    With flag `FullTracebacks` they keep them. An error that isn't raised on purpose
    shows how it came about inside this package in any case.
    """

    @functools.wraps(function)
    def bordered(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if not flags.full_tracebacks:
                _shorten(error)
            raise

    return cast(F, bordered)


def _shorten(error: BaseException) -> None:
    """Take this package's frames out of a traceback, which begins with one of ours."""
    own = error.__traceback__
    assert own is not None
    shown: list[TracebackType] = []
    last: list[TracebackType] = []
    entry = own.tb_next
    while entry is not None:
        if is_internal(entry.tb_frame.f_code.co_filename):
            last.append(entry)
        else:
            shown.append(entry)
            last = []
        entry = entry.tb_next
    if not isinstance(error, LumijitError):
        shown += last
    following = None
    for entry in reversed(shown):
        entry.tb_next = following
        following = entry
    # Python 3.10 raises with the entries that it has, later versions with these.
    own.tb_next = following
    error.__traceback__ = following
