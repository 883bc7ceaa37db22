"""Python's garbage collector, tuned for long traces.

A trace is many small objects without cycles: reference counts free them, and the
cyclic collector only ever walks over them in vain. With CPython's default it looks
after every 700 (or 2,000) new objects, which took 60 % of the tracing time of a
chain of 100,000 operations.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from lumijit.runtime.settings import settings

YOUNG_OBJECTS: Final = 25_000
# More than an import makes: none of it is garbage.
IMPORTED_OBJECTS: Final = 200_000
# Cycles are looked for whenever arrays hold this times what was left the last time.
_GROWTH: Final = 1.5
_LEAST_BYTES: Final = 64 << 20
# A program that freezes objects freezes more than Python 3.12 does itself (375).
_FROZEN: Final = 2_000
_NOT_CHOSEN: Final = (700, 2000, IMPORTED_OBJECTS)


def relax(young_objects: int = YOUNG_OBJECTS) -> None:
    """Collect young objects less often, unless the program chose its own rate."""
    young, *older = gc.get_threshold()
    if not settings.keep_gc and young in _NOT_CHOSEN:
        gc.set_threshold(young_objects, *older)


def keep() -> None:
    """Take all objects for old ones, without walking through them.

    What imports make stays. The collector would look at all of it soon, some 12 ms in
    the middle of the first call.
    """
    if not settings.keep_gc and gc.get_freeze_count() < _FROZEN:
        gc.freeze()
        gc.unfreeze()


class _Limit:
    def __init__(self) -> None:
        self.bytes = _LEAST_BYTES


_limit: Final = _Limit()


def relieve(live_bytes: Callable[[], int], is_short: bool = False) -> None:
    """Collect cycles if arrays hold much more than when they were last looked for.

    Args:
        live_bytes: returns what arrays hold.
        is_short: whether there is no memory left.
    """
    if not is_short and (live_bytes() < _limit.bytes or not gc.isenabled()):
        return
    # What has died lately is seldom old.
    gc.collect(1)
    if is_short or live_bytes() * _GROWTH > _limit.bytes:
        gc.collect()
    _limit.bytes = max(_LEAST_BYTES, int(live_bytes() * _GROWTH))


def undisturbed(run: Callable[..., None], *args: object) -> None:
    """Call a function that makes many objects; nothing is collected meanwhile."""
    was_enabled = gc.isenabled() and not settings.keep_gc
    try:
        if was_enabled:
            gc.disable()
        run(*args)
    finally:
        if was_enabled:
            gc.enable()
