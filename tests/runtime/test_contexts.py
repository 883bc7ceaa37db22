"""What a construct sets ends with it, and what it did is undone if it raises."""

from __future__ import annotations

import functools
from contextvars import ContextVar

import pytest

import lumijit as dr
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.compiler.record import regions, writes
from lumijit.llvm import Float
from lumijit.runtime.config import flags
from lumijit.runtime.contexts import Variable, apart, on_error, settle
from lumijit.runtime.dtypes import BOOL

_DEPTH = Variable("depth", 0)
_FOREIGN: ContextVar[str] = ContextVar("foreign", default="")


def test_variables_end_with_what_set_them() -> None:
    def inner() -> int:
        _DEPTH.set(_DEPTH.get() + 1)
        return _DEPTH.get() + (apart(inner) if _DEPTH.get() < 3 else 0)

    assert apart(inner) == 1 + 2 + 3
    assert _DEPTH.get() == 0
    with _DEPTH.during(7):
        assert apart(_DEPTH.get) == 7
    assert _DEPTH.get() == 0


def test_context_variables_of_the_user_keep_their_values() -> None:
    def increased(x: Float) -> Float:
        _FOREIGN.set("set in a branch")
        return x + 1

    x = Float(1, 2)
    found = dr.if_stmt((x,), x > 1, increased, lambda x: x)
    assert found.numpy().tolist() == [1, 3]
    assert _FOREIGN.get() == "set in a branch"


def test_errors_are_undone_from_the_last_to_the_first() -> None:
    done: list[str] = []

    def failing() -> None:
        for name in "abc":
            on_error(functools.partial(done.append, name))
        kept = done.clear
        on_error(kept)
        settle(kept)
        raise KeyError

    on_error(done.clear)
    with pytest.raises(KeyError):
        apart(failing)
    assert done == ["c", "b", "a"]


def test_an_undoing_that_is_interrupted_is_done_once_more() -> None:
    done: list[str] = []

    def undo() -> None:
        done.append("a")
        if len(done) == 1:
            raise KeyboardInterrupt

    def failing() -> None:
        on_error(lambda: done.append("b"))
        on_error(undo)
        raise KeyError

    with pytest.raises(KeyboardInterrupt):
        apart(failing)
    assert done == ["a", "a", "b"]


def test_nothing_is_undone_after_a_success() -> None:
    def succeeding() -> int:
        on_error(lambda: pytest.fail("was undone"))
        return 1

    assert apart(succeeding) == 1


def test_blocks_that_are_never_left_end_with_the_construct() -> None:
    # As if a Ctrl-C came at the first instruction of each `__exit__`.
    x = Float(1, 2)

    def failing() -> None:
        trace.masked(trace.literal(BOOL, True, 3)).__enter__()
        trace.guarded(print).__enter__()
        writes.watched().__enter__()
        dr.scatter(x, Float(5), 0)
        regions.scope("loop").__enter__()
        dr.scatter(x, Float(7), 1)
        assert flags.symbolic_scope
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apart(failing)
    assert trace.state.scope is ROOT
    assert trace.state.mask is None
    assert trace.state.guard is None
    assert trace.state.watched is None
    assert not flags.symbolic_scope
    assert x.numpy().tolist() == [1, 2]
