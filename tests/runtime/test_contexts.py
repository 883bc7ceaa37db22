"""What a construct sets ends with it, and what it did is undone if it raises."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextvars import ContextVar
from threading import get_ident
from typing import Any

import pytest

import lumijit as dr
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.compiler.record import regions, writes
from lumijit.llvm import Float
from lumijit.runtime.config import flags
from lumijit.runtime.contexts import Variable, apart, on_error, settle
from lumijit.runtime.device import DeviceId, chosen
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


ORDERS = list(itertools.permutations(range(3)))


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_end_in_any_order(order: tuple[int, ...]) -> None:
    blocks = [_DEPTH.block(value) for value in (1, 2, 3)]
    for block in blocks:
        block.__enter__()
    still_open = [0, 1, 2, 3]
    for k in order:
        assert _DEPTH.get() == still_open[-1]
        blocks[k].__exit__()
        still_open.remove(k + 1)
    assert _DEPTH.get() == 0


def test_a_block_that_ends_after_its_construct() -> None:
    blocks = [_DEPTH.block(1), _DEPTH.block(2)]
    apart(blocks[0].__enter__)
    blocks[1].__enter__()
    blocks[0].__exit__()
    assert _DEPTH.get() == 2
    blocks[1].__exit__()
    assert _DEPTH.get() == 0


@pytest.mark.parametrize("is_last_first", [False, True])
def test_flags_and_devices_of_generators(is_last_first: bool) -> None:
    def opened(block: Any) -> Iterator[None]:
        with block:
            yield

    def flag(value: bool) -> Iterator[None]:
        return opened(dr.scoped_set_flag(dr.JitFlag.Debug | dr.JitFlag.FastMath, value))

    def device(number: int) -> Iterator[None]:
        return opened(dr.scoped_device(number))

    def now() -> tuple[bool, bool, DeviceId | None]:
        here = get_ident()
        return flags.debug, flags.fast_math, chosen.get(here)

    before = now()
    running = [flag(True), device(0), flag(False), device(1)]
    for one in running:
        next(one)
    for one in reversed(running) if is_last_first else running:
        one.close()  # type: ignore[attr-defined]
        if one is running[1] and not is_last_first:
            assert now() == (False, False, DeviceId("cuda", 1))
        if one is running[2] and is_last_first:
            assert now() == (True, True, DeviceId("cuda", 0))
    assert now() == before
    again = dr.scoped_set_flag(dr.JitFlag.Debug)
    with again, again:
        assert flags.debug
    assert now() == before


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
