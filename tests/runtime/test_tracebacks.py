"""Which frames an error shows when it leaves a construct."""

from __future__ import annotations

import traceback

import pytest

import lumijit as dr
from lumijit.llvm import Array2f, Float, UInt
from lumijit.printing import format_array
from lumijit.runtime.errors import is_internal
from lumijit.runtime.tracebacks import hides_frames


def fail(x):
    return x + None


@dr.syntax
def in_branch(x):
    if x > 0:
        x = fail(x)
    return x


@dr.syntax
def in_loop(x):
    while x < 10:
        if x > 0:
            x = fail(x)
        x += 1
    return x


def in_primitives(x):
    return dr.while_loop(
        (x,),
        lambda x: x < 10,
        lambda x: (
            dr.if_stmt((x,), x > 0, lambda x: dr.switch(UInt(0), [fail], x), fail),
        ),
    )


PROGRAMS = [in_branch, in_loop, in_primitives]


def frames_of(function, *args):
    with pytest.raises(Exception) as caught:
        function(*args)
    return traceback.extract_tb(caught.value.__traceback__)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_frames_between_the_users_are_left_out(program, mode):
    is_symbolic = mode == "symbolic"
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, is_symbolic),
    ):
        frames = frames_of(program, Float(1, 2))
    ours = [frame for frame in frames if is_internal(frame.filename)]
    # Python 3.10 shows the border.
    assert len(ours) <= 1
    assert [frame.name for frame in frames if frame.name == "fail"] == ["fail"]
    assert frames[-1].line == "return x + None"


def test_an_error_of_ours_ends_at_the_users_line():
    frames = frames_of(in_branch, Array2f(1, 2))
    assert frames[-1].name in ("in_branch", "bordered")


def test_a_flag_shows_all_frames():
    with dr.scoped_set_flag(dr.JitFlag.FullTracebacks):
        frames = frames_of(in_loop, Float(1, 2))
    assert sum(is_internal(frame.filename) for frame in frames) > 5


def test_errors_that_nobody_raised_on_purpose_show_where_they_come_from():
    frames = frames_of(hides_frames(format_array), None)
    assert frames[-1].name == "format_array"


def test_the_errors_own_context_stays():
    @dr.syntax
    def program(x):
        if x > 0:
            try:
                x = fail(x)
            except TypeError as error:
                raise ValueError("mine") from error
        return x

    with pytest.raises(ValueError, match="mine") as caught:
        program(Float(1, 2))
    assert isinstance(caught.value.__cause__, TypeError)
