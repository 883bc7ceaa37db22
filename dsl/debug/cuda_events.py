"""`lumijit.cuda.Event`: a place in the order of what is launched on a GPU."""

from __future__ import annotations

from lumijit.debug import events
from lumijit.spec import CUDA

__all__ = ["Event"]


class Event(events.Event):
    """A place in the order of what is launched on a GPU.

    That is the GPU in use when the event is recorded: see `lumijit.scoped_device`.

    Args:
        enable_timing: whether to note when that is.
    """

    _backend = CUDA
