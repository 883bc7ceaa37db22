"""What restricts tracing, scopes and masks, is put back when it ends."""

from __future__ import annotations

import lumijit as dr
from lumijit.compiler import memory, regions, trace
from lumijit.llvm import Float
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import BOOL


def test_scopes_that_end_in_order_return_to_the_one_around() -> None:
    with regions.scope("outer") as outer:
        with regions.scope("inner") as inner:
            assert trace.state.scope is inner
        assert trace.state.scope is outer
        assert flags.symbolic_scope
    assert trace.state.scope is trace.ROOT


def test_masks_and_guards_that_end_late_change_nothing() -> None:
    # As a generator would: it ends when somebody drops the traceback that holds it.
    mask = trace.literal(BOOL, True, 3)
    for entered in (trace.masked(mask), memory.guarded(print), memory.watched()):
        with trace.masked_only(mask), memory.guarded(len), memory.watched():
            entered.__enter__()
        assert trace.state.mask is None
        del entered
        assert trace.state.mask is None
        assert trace.state.guard is None
        assert trace.state.watched is None


def test_branches_end_what_they_began() -> None:
    x = Float(1, 2)
    dr.eval(dr.if_stmt((x,), x > 1, lambda x: x * 2, lambda x: x + 1))
    assert trace.state.scope is trace.ROOT
    assert not flags.symbolic_scope
