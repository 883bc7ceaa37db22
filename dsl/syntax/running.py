"""Which constructs are running, and what they and those around them hold on to."""

from __future__ import annotations

from typing import Any

from lumijit.runtime.contexts import Variable
from lumijit.syntax.slots import Slot


class Running:
    """A construct whose functions are running, in those of the one `around` it.

    `watch` is what it watches, if they can leave anything behind, or `met` are the
    arrays that it compares; `slots` are those of the constructs around it, too.
    """

    __slots__ = ("around", "met", "site", "slots", "watch")

    def __init__(
        self,
        site: Any,
        watch: Any,
        slots: tuple[Slot, ...],
        around: Running | None,
        met: Any = None,
    ) -> None:
        self.site = site
        self.watch = watch
        self.slots = slots
        self.around = around
        self.met = met


OUTERMOST = Running(None, None, (), None)
#: The innermost of them.
running = Variable("running", OUTERMOST)
