"""Inconsistent state: the message names variable, construct, line, types and mend."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.llvm import Array2f, Array3f, Bool, Float, Float64, Int, UInt
from lumijit.runtime.errors import ArrayValueError, StateError, SymbolicError
from lumijit.syntax.undefined import UndefinedVariableError

MODES = ["symbolic", "evaluated"]
THIS = re.escape(__file__)


@pytest.fixture(autouse=True)
def _scope_is_restored() -> Any:
    yield
    assert trace.state.scope is ROOT
    assert trace.state.mask is None
    assert trace.state.watched is None
    assert trace.state.guard is None


def loop(body: Callable[..., Any], *state: Any, mode: str = "symbolic") -> Any:
    labels = ["i", "x", "y"][: 1 + len(state)]
    i = Int(0, 1, 2)
    return lj.while_loop((i, *state), lambda i, *_: i < 5, body, labels, mode=mode)


def branch(yes: Any, no: Any, mode: str = "symbolic", **options: Any) -> Any:
    cond = Int(1, 2, 3) > 1
    names = {"rv_labels": ["x"], "mode": mode, **options}
    return lj.if_stmt((), cond, lambda: (yes,), lambda: (no,), **names)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        (Int(1, 2, 3), Float(1, 2, 3), r"expected llvm\.Int\[3\], got llvm\.Float"),
        (Float(1), Float64(2), r"expected llvm\.Float\[1\], got llvm\.Float64"),
        (Int(1, 2, 3), Int(1, 2), r"expected llvm\.Int\[3\], got llvm\.Int\[2\]"),
        (Int(1), 2.5, r"expected llvm\.Int\[1\], got Python float 2\.5"),
        (True, Int(1), r"expected Python bool True, got llvm\.Int"),
        ("a", "b", r"expected Python object of type str, 'a', got Python ob"),
        (None, Float(1), r"expected None, got llvm\.Float"),
    ],
)
def test_changed_leaf(mode: str, before: Any, after: Any, types: str) -> None:
    pattern = rf"^{THIS}:\d+ in loop: while_loop: .*'x' is inconsistent \({types}"
    with pytest.raises(StateError, match=pattern + r".*Fix: "):
        loop(lambda i, x: (i + 1, after), before, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"a": Int(1)}, {"b": Int(1)}, r"'x\['a'\]', 'x\['b'\]'"),
        ([Int(1)], [Int(1), Int(2)], r"'x\[1\]'"),
        (Array2f(1), Array3f(1), r"'x\[2\]'"),
        (Float(1), Array2f(1), r"'x', 'x\[0\]', 'x\[1\]'"),
    ],
)
def test_changed_structure(mode: str, before: Any, after: Any, names: str) -> None:
    pattern = rf"while_loop: the structure .* changed \(differs in {names}\)\. ?Fix: "
    with pytest.raises(StateError, match=pattern.replace(r"\. ?", ".{0,2}")):
        loop(lambda i, x: (i + 1, after), before, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_wrong_number_of_values(mode: str) -> None:
    with pytest.raises(StateError, match=r"expected 2, got 1 entries"):
        loop(lambda i, x: (i + 1,), Int(1), mode=mode)
    with pytest.raises(StateError, match=r"expected 2, got a value of type Int"):
        loop(lambda i, x: i + 1, Int(1), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_condition_of_the_wrong_type(mode: str) -> None:
    match = r"condition has the wrong type \(expected bool or a Bool array, got llvm"
    with pytest.raises(StateError, match=match):
        lj.while_loop((Int(1, 2),), lambda i: i, lambda i: (i,), mode=mode)
    with pytest.raises(StateError, match=match):
        lj.if_stmt((), Float(1, 2), lambda: 1, lambda: 2, mode=mode)


def test_constant_condition() -> None:
    with pytest.raises(StateError, match=r"would never end.*constant True"):
        lj.while_loop((Int(1, 2),), lambda i: Bool(True), lambda i: (i + 1,))


def test_arguments_of_the_primitives() -> None:
    with pytest.raises(ArrayValueError, match="while_loop: unknown mode 'fast'"):
        lj.while_loop((Int(1),), lambda i: i < 3, lambda i: (i,), mode="fast")
    with pytest.raises(ArrayValueError, match="if_stmt: unknown mode 'fast'"):
        lj.if_stmt((), Bool(True), lambda: 1, lambda: 2, mode="fast")
    with pytest.raises(StateError, match=r"'state' must be a tuple \(got list"):
        lj.while_loop([Int(1)], lambda i: i < 3, lambda i: (i,))  # type: ignore[type-var]
    with pytest.raises(StateError, match=r"'args' must be a tuple \(got Int"):
        lj.if_stmt(Int(1), Bool(True), lambda i: 1, lambda i: 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("yes", "no", "types"),
    [
        (Int(1), Float(2), r"llvm\.Int\[1\], the false branch llvm\.Float\[1\]"),
        (Int(1, 2, 3), Int(1, 2), r"llvm\.Int\[3\], the false branch llvm\.Int\[2\]"),
        ("a", "b", r"Python object of type str"),
        (1, Bool(True), r"Python int 1, the false branch llvm\.Bool"),
    ],
)
def test_branches_disagree(mode: str, yes: Any, no: Any, types: str) -> None:
    match = rf"^{THIS}:\d+ in branch: if_stmt: .*disagree on 'x' .*{types}.*Fix: "
    with pytest.raises(StateError, match=match):
        branch(yes, no, mode)


@pytest.mark.parametrize("mode", MODES)
def test_branches_of_different_structure(mode: str) -> None:
    with pytest.raises(StateError, match=r"structures .*'x\[1\]'.*make keys"):
        branch([Int(1)], [Int(1), Int(2)], mode)


@pytest.mark.parametrize("mode", MODES)
def test_lenient_state(mode: str) -> None:
    assert branch("a", "b", mode, strict=False)[0] == "a"
    state = (Int(0, 1), "a")
    result = lj.while_loop(
        state,
        lambda i, s: i < 3,
        lambda i, s: (i + 1, s + "b"),
        mode=mode,
        strict=False,
    )
    assert result[1].startswith("ab")


@pytest.mark.parametrize("mode", MODES)
def test_variable_without_a_value(mode: str) -> None:
    @lj.syntax
    def late(x: Any) -> Any:
        y = x
        while lj.hint(x < 3, mode=mode):
            y = x * 2
            x += 1
        if lj.hint(x > 100, mode=mode):
            z = y + 1
        return z

    with pytest.raises(UndefinedVariableError, match="'z'"):
        late(Int(1, 2))


@pytest.mark.parametrize("mode", MODES)
def test_arrays_keep_their_contents_when_a_body_raises(mode: str) -> None:
    bins, x, other = Int(1, 2, 3), Int(5, 6, 7), lj.zeros(Int, 3)

    def body(i: Any, x: Any, bins: Any) -> Any:
        lj.scatter_add(bins, 10, UInt(0))
        lj.scatter_add(other, x, i)
        x += 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        lj.while_loop((UInt(0, 1, 2), x, bins), lambda i, *_: i < 9, body, mode=mode)
    with pytest.raises(KeyError, match="mine"):
        lj.if_stmt((UInt(0, 1, 2), x, bins), x > 5, body, body, mode=mode)
    with pytest.raises(KeyError, match="mine"):
        lj.if_stmt(
            (UInt(0, 1, 2), x, bins),
            x > 5,
            lambda i, x, b: lj.scatter(b, x, i),
            body,
            mode=mode,
        )
    assert [list(a) for a in (bins, x, other)] == [[1, 2, 3], [5, 6, 7], [0, 0, 0]]
    assert list(bins + x) == [6, 8, 10]


def test_second_iteration_raises() -> None:
    bins, count = Int(1, 2, 3), []

    def body(i: Any, bins: Any) -> Any:
        lj.scatter_add(bins, 10, i)
        count.append(i.numpy())
        if len(count) == 2:
            raise KeyError("mine")
        return i + 1, bins

    with pytest.raises(KeyError, match="mine"):
        lj.while_loop((UInt(0, 1), bins), lambda i, _: i < 9, body, mode="evaluated")
    assert list(bins) == [1, 2, 3]


def test_closing_errors_undo_writes() -> None:
    bins = Int(1, 2, 3)

    def yes() -> Any:
        lj.scatter_add(bins, Int(1, 2), UInt(0, 1))
        return Int(1)

    with pytest.raises(ValueError, match="sizes"):
        lj.if_stmt((), Int(1, 2, 3) > 1, yes, lambda: Int(2), mode="symbolic")
    assert list(bins) == [1, 2, 3]


def test_indexed_and_changed() -> None:
    def body(i: Any, x: Any) -> Any:
        return i + 1, x + lj.gather(Int, x, UInt(0))

    match = "'x' is both indexed and replaced by the body.*Fix: "
    with pytest.raises(StateError, match=match):
        loop(body, Int(1, 2, 3))
    result = loop(body, Int(1, 2, 3), mode="evaluated")
    assert list(result[1]) == [32, 17, 10]


def test_in_place_change_of_an_indexed_array() -> None:
    x = Int(1, 2, 3)

    def body(i: Any, x: Any) -> Any:
        i = i + lj.gather(Int, x, UInt(0))
        x += 1
        return i, x

    with pytest.raises(StateError, match="'x' is both indexed and replaced"):
        loop(body, x)
    assert list(x) == [1, 2, 3]


def _plain(x: Any, entry: Any) -> Any:
    return lj.gather(UInt, x, entry)


def _in_branch(x: Any, entry: Any) -> Any:
    return lj.if_stmt(
        (x,), entry > 1, lambda x: lj.gather(UInt, x, entry), lambda x: UInt(0)
    )


def _in_loop(x: Any, entry: Any) -> Any:
    return lj.while_loop(
        (UInt(0), UInt(0)),
        lambda i, found: i < 1,
        lambda i, found: (i + 1, lj.gather(UInt, x, entry)),
    )[1]


def _in_call(x: Any, entry: Any) -> Any:
    return lj.switch(entry, [lambda: lj.gather(UInt, x, entry)] * 4)


@pytest.mark.parametrize("read", [_plain, _in_branch, _in_loop, _in_call])
@pytest.mark.parametrize(
    "make",
    [lambda: lj.zeros(UInt, 4), lambda: lj.empty(UInt, 4), lambda: lj.arange(UInt, 4)],
)
def test_read_before_written_in_a_loop(read: Any, make: Any) -> None:
    """Iterations would miss the writes of those before."""
    entry = lj.arange(UInt, 4)

    def body(i: Any, total: Any, x: Any) -> Any:
        total = total + read(x, entry)
        lj.scatter(x, i, entry)
        return i + 1, total, x

    with pytest.raises(SymbolicError, match="reads an array that it also writes to"):
        lj.while_loop((UInt(0), UInt(0), make()), lambda i, t, x: i < 3, body)


def test_used_and_written_in_a_loop() -> None:
    x, entry = lj.arange(UInt, 4) * 3, lj.arange(UInt, 4)

    def body(i: Any, total: Any, x: Any) -> Any:
        total = total + x
        lj.scatter_add(x, UInt(1), entry)
        return i + 1, total, x

    state, ends = (UInt(0), UInt(0), x), lambda i, total, x: i < 3
    with pytest.raises(SymbolicError, match=r"also writes to by index.*Fix: "):
        lj.while_loop(state, ends, body)
    assert list(x) == [0, 3, 6, 9]
    found = lj.while_loop(state, ends, body, mode="evaluated")
    assert list(found[1]) == [3, 12, 21, 30]
    assert list(found[2]) == [3, 6, 9, 12]


def test_read_and_written_arrays_may_be_different_ones() -> None:
    table, entry = lj.arange(UInt, 4), lj.arange(UInt, 4)
    out = lj.zeros(UInt, 4)

    def body(i: Any, total: Any) -> Any:
        total = total + lj.gather(UInt, table, entry)
        lj.scatter_add(out, UInt(1), entry)
        return i + 1, total

    _, total = lj.while_loop((UInt(0), UInt(0)), lambda i, total: i < 3, body)
    assert list(total) == [0, 3, 6, 9]
    assert list(out) == [3, 3, 3, 3]


def test_written_and_changed_in_one_branch() -> None:
    def yes(x: Any) -> Any:
        lj.scatter(x, 7, UInt(0))
        x += 1
        return x

    with pytest.raises(StateError, match="both written by index and changed in place"):
        lj.if_stmt((Int(1, 2),), Int(1, 2) > 1, yes, lambda x: x, mode="symbolic")


def test_evaluated_inside_symbolic() -> None:
    def body(i: Any) -> Any:
        return lj.while_loop(
            (i,), lambda i: i < 3, lambda i: (i + 1,), mode="evaluated"
        )

    match = "evaluated mode can't be nested in outer, which is symbolic.*Fix: "
    with pytest.raises(SymbolicError, match=match):
        lj.while_loop((Int(0, 1),), lambda i: i < 5, body, label="outer")

    def choose(i: Any) -> Any:
        return (lj.if_stmt((i,), i > 1, lambda i: i, lambda i: -i, mode="evaluated"),)

    with pytest.raises(SymbolicError, match="if_stmt: evaluated mode can't be nested"):
        lj.while_loop((Int(0, 1),), lambda i: i < 5, choose)


def test_other_array_than_the_written_one() -> None:
    """One side returns an array that it wrote to, the other one another array."""
    for mode in MODES:
        written, other = Int(1, 2, 3), Int(10, 20, 30)

        def yes(a: Any, b: Any) -> Any:
            lj.scatter_add(a, 100, UInt(0, 1, 2))
            return a

        cond = Bool(True, False, True)
        args = (written, other)
        result = lj.if_stmt(args, cond, yes, lambda a, b: b, mode=mode)
        assert list(written) == [101, 2, 103]
        assert list(result) == [101, 20, 103]


@lj.syntax
def count_by(n: Any, step: Any) -> Any:
    total = UInt(0)
    for i in range(UInt(0), n, step):
        total += i + 1
    return total


def test_steps_known_to_be_zero() -> None:
    for step in (0, UInt(0), lj.opaque(UInt, 0)):
        with pytest.raises(ArrayValueError, match=r"'range' got a step of zero.*Fix:"):
            count_by(UInt(1, 2, 3), step)


def test_steps_of_zero_among_others() -> None:
    steps = UInt(1, 0, 2)
    assert list(count_by(UInt(1, 2, 3), steps)) == [1, 0, 4]
    match = (
        rf"{re.escape(__file__)}:\d+ in count_by: range\(\): the step of an element is "
        r"zero, so that it gets no items.* Fix: give a step that isn't zero"
    )
    with lj.scoped_set_flag(lj.JitFlag.Debug, True):
        with pytest.warns(RuntimeWarning, match=match):
            lj.eval(count_by(UInt(1, 2, 3), steps))
        lj.eval(count_by(UInt(1, 2, 3), UInt(1, 3, 2)))


def returned_in_a_branch(x: Any, log: Any) -> Any:
    try:
        if x > 2:
            return log
    finally:
        log[0] = log[0] + 1
    return log


def returned_in_a_loop(x: Any, log: Any) -> Any:
    try:
        while x > 0:
            x = x - 1
            if x == 2:
                return log
    finally:
        log.reverse()
    return log


def returned_beside(x: Any, log: Any) -> Any:
    if x > 2:
        try:
            return log
        finally:
            log[0] = log[0] + 1
    return log


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [returned_in_a_branch, returned_in_a_loop])
def test_finally_does_not_miss_what_some_elements_return(
    function: Callable[..., Any], mode: str
) -> None:
    flag = lj.JitFlag.SymbolicLoops
    with lj.scoped_set_flag(flag, mode == "symbolic"):
        pattern = rf"^{THIS}:\d+ in {function.__name__}: return: .*'finally'.*Fix: "
        with pytest.raises(StateError, match=pattern):
            lj.syntax(function)(Int(1, 5), [Int(0, 0)])
        assert lj.syntax(returned_beside)(Int(1, 5), [Int(0, 0)])[0][1] == 1


@pytest.mark.parametrize("mode", ["scalar", *MODES, None])
@pytest.mark.parametrize("value", [None, 5, 2.5, [], "x", (Float(1, 2),)])
def test_a_condition_is_a_bool_or_a_mask(value: Any, mode: str | None) -> None:
    pattern = rf"^{THIS}:\d+ in .*: \w+: the condition has the wrong type .*Fix: "
    pattern += "return the condition" if value is None else "compare"
    with pytest.raises(StateError, match=pattern):
        lj.while_loop((Int(1, 2),), lambda i: value, lambda i: (i + 1,), mode=mode)
    with pytest.raises(StateError, match=pattern):
        lj.if_stmt((), value, lambda: 1, lambda: 2, mode=mode)


@pytest.mark.parametrize("value", [False, np.bool_(False), Bool(False)])
def test_a_condition_that_is_known(value: Any) -> None:
    assert lj.if_stmt((), value, lambda: 1, lambda: 2) == 2
    assert lj.while_loop((1,), lambda i: value, lambda i: (i + 1,)) == (1,)


class Opaque:
    def __init__(self, x: Any) -> None:
        self.x = x


def test_objects_that_are_no_pytrees_say_how_to_become_some() -> None:
    @lj.syntax
    def loop(n: Any) -> Any:
        i, o = UInt(0), Opaque(Float(0))
        while i < n:
            o = Opaque(o.x + 1)
            i += 1
        return o.x

    with pytest.raises(StateError, match="make 'Opaque' a dataclass, or give it DRJ"):
        loop(UInt(1, 2))


MIXED = "both written by index and changed in place"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_literal", [False, True])
@pytest.mark.parametrize("construct", ["if", "outside", "while", "switch", "reached"])
def test_changed_in_place_before_a_write(
    construct: str, is_literal: bool, mode: str
) -> None:
    """The change is for all elements, and what the write leaves isn't blended."""
    array = lj.zeros(Float, 4) if is_literal else Float(1, 2, 3, 4)
    before, at = list(array), UInt(0, 1, 1, 1)

    def change(at: Any, array: Any) -> Any:
        other = array
        other += 10
        lj.scatter(other, Float(100), at)
        return at

    def leave(at: Any, array: Any) -> Any:
        return at

    def run() -> Any:
        chosen = Bool(True, False, True, False)
        which = lj.select(chosen, UInt(0), 1)
        if construct == "if":
            return lj.if_stmt((at, array), chosen, change, leave, mode=mode)
        if construct == "outside":
            functions = (lambda at: change(at, array)), (lambda at: leave(at, array))
            return lj.if_stmt((at,), chosen, *functions, mode=mode)
        if construct == "switch":
            return lj.switch(which, [change, leave], at, array, mode=mode)
        if construct == "reached":
            reaching = [lambda at: change(at, array), lambda at: at]
            return lj.switch(which, reaching, at, mode=mode)

        def body(k: Any, at: Any, array: Any) -> Any:
            return k + 1, change(at, array), array

        state = UInt(0), at, array
        return lj.while_loop(state, lambda k, *_: k < UInt(0, 1, 2, 0), body, mode=mode)

    lj.eval(array)
    # Of literals, the symbolic change is one, too.
    is_met = mode == "evaluated" or (is_literal and construct != "while")
    is_given = construct in ("if", "while", "switch")
    match = MIXED if is_given else "changes 'array'"
    with pytest.raises(
        StateError if is_met else SymbolicError,
        match=match if is_met else "the array is symbolic",
    ):
        run()
    assert list(array) == before


def test_changed_between_writes() -> None:
    array = Float(1, 2, 3, 4)

    def change(array: Any) -> Any:
        lj.scatter(array, Float(100), UInt(0, 1, 1, 1))
        array += 10
        lj.scatter(array, Float(200), UInt(0, 1, 1, 1))
        return array

    with pytest.raises(StateError, match=MIXED):
        lj.if_stmt((array,), array > 2, change, lambda array: array, mode="evaluated")
    assert list(array) == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", MODES)
def test_writes_in_nested_branches_follow_each_other(mode: str) -> None:
    array = Float(1, 2, 3, 4)
    other, at = Float(array), UInt(0, 1, 1, 1)

    def inner() -> Any:
        lj.scatter(array, Float(300), at + 1)
        lj.scatter(other, Float(300), at + 1)
        return at

    def outer() -> Any:
        lj.scatter(array, Float(100), at)
        lj.if_stmt((), at > 0, inner, lambda: at, mode=mode)
        lj.scatter(array, Float(200), at + 2)
        return at

    chosen = Bool(True, False, True, False)
    lj.if_stmt((), chosen, outer, lambda: at, mode=mode)
    assert list(array) == [100, 100, 200, 200]
    assert list(other) == [1, 2, 300, 4]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_returned", [False, True])
def test_components_that_are_replaced_and_written(mode: str, is_returned: bool) -> None:
    """What a block makes is blended by element, with what it has written to it."""
    point = lj.zeros(Array2f, 4)

    def change(point: Any) -> Any:
        point += Array2f(10, 20)
        lj.scatter(point.x, Float(100), UInt(0, 1, 2, 3))
        return point if is_returned else Float(1)

    def leave(point: Any) -> Any:
        return point if is_returned else Float(1)

    chosen = Bool(True, False, True, False)
    lj.if_stmt((point,), chosen, change, leave, mode=mode)
    assert list(point.x) == [100, 0, 100, 0]
    assert list(point.y) == [20, 0, 20, 0]


@pytest.mark.parametrize("flag", ["SymbolicLoops", "SymbolicConditionals"])
def test_a_flag_that_is_off_yields_to_the_region_around(flag: str) -> None:
    """Also where library code has a loop: it can't say how it runs."""

    def turn(i: Int, total: Int) -> tuple[Int, Int]:
        total += lj.if_stmt((i,), i % 2 == 0, lambda i: i, lambda i: -i)
        return i + 1, total

    def summed(n: Int) -> Int:
        state = Int(0), Int(0)
        return lj.while_loop(state, lambda i, total, n=n: i < n, turn)[1]

    def nested(n: Int) -> Int:
        return lj.switch(n % 2, [summed, lambda n: -summed(n)], n)

    wanted = list(nested(Int(3, 4, 5)))
    with (
        lj.scoped_set_flag(getattr(lj.JitFlag, flag), False),
        pytest.warns(RuntimeWarning, match=r"runs symbolically, as .* around it does"),
    ):
        assert list(nested(Int(3, 4, 5))) == wanted
