"""Scopes whose `with` a Ctrl-C cut short: nothing goes on as if inside of them."""

from __future__ import annotations

from lumijit.compiler import memory, regions, trace
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import BOOL


def test_scopes_that_end_late_change_nothing() -> None:
    # As if interrupted after the inner one had been made, before its `with` began.
    with regions.scope("outer"):
        late = regions.scope("inner")
        late.__enter__()
    assert trace.state.scope is trace.ROOT
    assert not flags.symbolic_scope
    del late
    assert trace.state.scope is trace.ROOT
    assert not flags.symbolic_scope


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
