"""Programs that can't be vectorized as they are: each gets an error that says why."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.control import loop_evaluated
from lumijit.llvm import Array3f, Bool, Float, Int, UInt
from lumijit.runtime.errors import (
    ArrayValueError,
    SizeError,
    StateError,
    SymbolicError,
)

from ..programs.modes import flags_of

MODES = ["symbolic", "evaluated", "compressed"]
PROGRAMS: list[Any] = []
X = Int(1, 2, 3)


def refused(
    match: str, *args: Any, error: type[Exception] = StateError
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function that every mode refuses with a message."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(
            pytest.param(function, args or (X,), error, match, id=function.__name__)
        )
        return function

    return enter


@refused(r"'y' is inconsistent \(expected llvm\.Int\[1\], got llvm\.Float.*same array")
def loop_changes_the_type(x):
    y = Int(0)
    while x < 5:
        x += 1
        y = Float(y) + 1  # type: ignore[assignment]
    return y


@refused(r"'y' is inconsistent .*Int\[1\], got llvm\.Int\[2\].*runs over 3 elements")
def loop_changes_the_size(x):
    y = Int(1)
    while x < 5:
        x += 1
        y = Int(1, 2)
    return y


@refused(r"'name' is inconsistent .*str, 'a', got .*str, 'ab'.*can't differ")
def loop_changes_a_string(x):
    name = "a"
    while x < 5:
        x += 1
        name = name + "b"
    return name


@refused(r"'z' is inconsistent .*complex, 1j, got .*complex, 2j.*strict=False")
def loop_changes_a_complex_number(x):
    z = 1j
    while x < 5:
        x += 1
        z = z * 2
    return z


@refused(r"'y' is inconsistent .*Python int 0, got Python object of type str, 'a'")
def loop_makes_a_string_of_a_number(x):
    y = 0
    while x < 5:
        x += 1
        y = "a"  # type: ignore[assignment]
    return y


@refused(r"structure of the loop state changed \(differs in 'rows\[1\]'\)")
def loop_appends_to_a_list(x):
    rows = [x]
    while x < 5:
        x += 1
        rows.append(x)
    return rows


@refused(r"disagree on 'g' .*function.*can't differ between elements.*lumijit\.switch")
def branches_define_functions(x):
    if x > 1:

        def g(v):
            return v + 1
    else:

        def g(v):
            return v - 1

    return g(x)


@refused(r"disagree on 'return value' .*Int\[3\], the false branch None")
def branches_return_none_or_an_array(x):
    if x > 1:
        return x
    return None


@refused(r"different structures .*'return value', 'return value\[0\]'")
def branches_return_one_or_two_values(x):
    if x > 1:
        return x, x
    return x


@refused(r"different structures .*: 'return value' is None in the false branch")
def one_path_ends_without_return(x):
    if x > 1:
        return x, x


@refused(r"the Python object 's' \(of type set\) was changed in place.*outside")
def branch_adds_to_a_set(x):
    s = set()
    if x > 1:
        s.add(1)
    return s


@refused(r"the Python object 'n' \(of type ndarray\) was changed in place")
def loop_writes_to_numpy(x):
    n = np.zeros(3)
    while x < 4:
        n[0] += 1
        x += 1
    return n


@refused(r"condition has the wrong type .*got llvm\.Int\[3\].*lumijit\.any")
def integers_as_condition(x):
    while x:
        x -= 1
    return x


@refused(r"condition has the wrong type .*llvm\.Array3b", Array3f([1, 2], 2, 0))
def nested_mask_as_condition(v):
    if v > 1:
        v = v * 2
    return v


@refused(r"while_loop: the condition has the wrong type", Array3f([1, 2], 2, 0))
def nested_mask_as_loop_condition(v):
    while v < 3:
        v = v + 1
    return v


@refused(r"sizes \(3, 2\).*same size", X, Int(1, 2), error=SizeError)
def sizes_that_don_t_fit(x, y):
    while x < y:
        x += 1
    return x


@refused("range' got a step of zero", error=ArrayValueError)
def range_without_a_step(x):
    for _ in range(x, x + 3, 0):
        x = x + 1
    return x


@refused(
    r"would never end: its condition (depends on nothing that the body changes "
    r"\(only on 'x'\)|hasn't depended on anything new)"
)
def condition_of_another_variable(x):
    i = Int(0)
    while x < 5:
        i += 1
    return i


MASK = Bool(True, False, True)


@refused("would never end: its condition (depends on nothing|hasn't depended on any)")
def condition_of_a_global_array(x):
    while MASK:
        x += 1
    return x


@refused("would never end: its condition", X, Int(3, 4))
def condition_of_a_table(x, table):
    i = Int(0)
    while lj.gather(Int, table, i & 1) > 0:
        x += 1
    return x


@refused("would never end: its condition (depends|hasn't depended)")
def inner_loop_that_never_ends(x):
    while x < 9:
        y = x + 0
        while y > 0:
            x += 1
        x += y
    return x


@refused("symbolic", error=SymbolicError)
def contents_of_a_symbolic_variable(x):
    while lj.hint(x > 1, mode="symbolic"):
        x -= 1
        if x[0] > 3:
            x -= 1
    return x


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("function", "args", "error", "match"), PROGRAMS)
def test_refused(
    function: Any,
    args: Any,
    error: Any,
    match: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_evaluated, "MAX_REPEATED", 20)
    place = rf"(?s)^{re.escape(__file__)}:\d+ in {function.__name__}: (?=.*Fix: ).*"
    copies = [type(a)(a) for a in args]
    with flags_of(mode), pytest.raises(error, match=place + match):
        lj.eval(lj.syntax(function)(*copies))
    assert trace.state.scope is ROOT
    assert trace.state.mask is None


@pytest.mark.parametrize("mode", MODES)
def test_loops_that_look_endless_but_are_not(mode: str) -> None:
    @lj.syntax
    def waiting(x: Any) -> Any:
        done = Bool(False)
        i = Int(0)
        while not done:
            i += 1
            if i > 40 + x:
                done = Bool(True)
        return i

    mode_of = "symbolic" if mode == "symbolic" else "evaluated"

    @lj.syntax
    def never_entered(x: Any) -> Any:
        while lj.hint(Bool(False) & (x > 1), mode=mode_of):
            x = x
        return x

    with flags_of(mode):
        assert list(waiting(X)) == [42, 43, 44]
        assert list(never_entered(X)) == [1, 2, 3]


def test_python_may_end_an_evaluated_loop() -> None:
    rounds: list[int] = []

    def body(x: Any, done: Any) -> Any:
        rounds.append(1)
        return x + 1, Bool(True) if len(rounds) > 30 else done

    x, _ = lj.while_loop(
        (Int(0, 1), Bool(False, False)), lambda x, d: ~d, body, mode="evaluated"
    )
    assert list(x) == [31, 32]


@pytest.mark.parametrize("mode", ["evaluated", "compressed"])
def test_single_writes_beside_wide_state(mode: str) -> None:
    bins, one = Int(0, 0), lj.opaque(UInt, 1)

    @lj.syntax
    def in_a_loop(x: Any, bins: Any) -> Any:
        k = lj.opaque(UInt, 0)
        while k < 3:
            x = x + 1
            lj.scatter_add(bins, 1, 0)
            k += 1
        return x

    @lj.syntax
    def in_a_branch(x: Any, bins: Any, cond: Any) -> Any:
        if cond:
            x = x + 1
            lj.scatter_add(bins, 1, 1)
        return x

    with flags_of(mode):
        assert list(in_a_loop(Int(5), bins)) == [8]
        assert list(in_a_branch(Int(5), bins, one == 1)) == [6]
        assert list(bins) == [3, 1]
        in_a_loop(X, bins)
        in_a_branch(X, bins, one == 1)
    assert list(bins) == [12, 4]


@pytest.mark.parametrize("mode", MODES)
def test_single_writes_where_the_loop_becomes_wide(mode) -> None:
    """The first turn, whose condition is known, writes once per element as well."""

    @lj.syntax
    def count(n: Any) -> Any:
        k, active, bins = UInt(0), Bool(True), lj.zeros(Int, 4)
        while active:
            lj.scatter_add(bins, 1, k)
            k += 1
            active = k < n
        return bins

    with flags_of(mode):
        assert list(count(UInt(1, 3, 4))) == [3, 2, 2, 1]


@pytest.mark.parametrize("mode", MODES)
def test_single_writes_in_turns_before_the_loop_becomes_wide(mode) -> None:
    @lj.syntax
    def count(n: Any) -> Any:
        k, active, bins = UInt(0), Bool(True), lj.zeros(Int, 2)
        while active:
            lj.scatter_add(bins, 1, 0)
            k += 1
            if lj.hint(k == 2, mode="evaluated" if mode == "evaluated" else None):
                active = n > 5
        return bins

    with flags_of(mode):
        assert list(count(UInt(1, 3, 4))) == [6, 0]


@pytest.mark.parametrize("mode", MODES)
def test_single_writes_of_a_region_where_the_loop_becomes_wide(mode) -> None:
    @lj.syntax
    def count(n: Any) -> Any:
        k, active, bins = UInt(0), Bool(True), lj.zeros(Int, 4)
        while active:
            i = UInt(0)
            while lj.hint(i < 2, mode="symbolic"):
                lj.scatter_add(bins, 1, 1)
                i += 1
            k += 1
            active = k < n
        return bins

    with flags_of(mode):
        assert list(count(UInt(1, 3, 4))) == [0, 16, 0, 0]


def test_single_writes_beside_whole_arrays_are_ambiguous() -> None:
    bins, one = lj.zeros(Int, 2), lj.opaque(Int, 1)

    @lj.syntax
    def in_a_loop(x: Any, y: Any) -> Any:
        k = lj.opaque(UInt, 0)
        while k < 3:
            x = x + 1
            y = y + 1
            lj.scatter_add(bins, 1, 0)
            k += 1
        return x, y

    @lj.syntax
    def in_a_branch(x: Any, y: Any) -> Any:
        if one == 1:
            x = x + 1
            y = y + 1
            lj.scatter_add(bins, 1, 1)
        return x, y

    match = (
        r"one entry each, beside 'x' of 3 entries: evaluated mode would write once, "
        r"symbolic mode once per element. Fix: make the index as wide as 'x'"
    )
    with flags_of("evaluated"):
        with pytest.raises(StateError, match="while_loop: .*" + match):
            in_a_loop(Int(1, 2, 3), Int(1, 2))
        with pytest.raises(StateError, match="if_stmt: .*" + match):
            in_a_branch(Int(1, 2, 3), Int(1, 2))
    assert list(bins) == [0, 0]


def is_low(x):
    return x * 2 < 10


@pytest.mark.parametrize("mode", MODES)
def test_a_condition_by_a_function_of_the_users_that_never_changes(mode):
    @lj.syntax
    def endless(x):
        i = Int(0)
        while is_low(x):
            i += 1
        return i

    @lj.syntax
    def ends(x):
        i = Int(0)
        while is_low(x):
            x = x + 1
            i += 1
        return i

    match = "would never end: its condition (depends on nothing that|hasn't depended)"
    with flags_of(mode):
        with pytest.raises(StateError, match=match):
            endless(Int(1, 7))
        assert list(ends(Int(1, 7))) == [4, 0]


def test_pieces_that_share_variables_are_called_after_the_function() -> None:
    """They are defined inside of it, as those of a method are in the class's."""

    @lj.syntax
    def outer(x: Any) -> Any:
        count = 0

        def tells() -> None:
            nonlocal count
            count = count + 1

        tells()
        if x > 0:
            count = count + 1
            if x > 1:
                count = count + x * Float(1, 2)
        return count, tells

    with pytest.raises(SizeError, match=r"\.py:\d+ in outer: mul: the operands") as at:
        outer(Int(1, 2, 3))
    assert not [at for at in at.traceback if at.name.startswith("_lj")]
    assert outer(0)[1].__qualname__.endswith("outer.<locals>.tells")
