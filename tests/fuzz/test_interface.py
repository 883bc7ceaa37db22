"""What is compared with the peer is the whole public interface."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import lumijit as dr
from lumijit.runtime import errors
from tests.fuzz import expressions
from tests.fuzz.drawn import Expression, Value, drawn, in_doubles
from tests.fuzz.interface import DRAWN, KNOWN
from tests.fuzz.judged import is_right
from tests.fuzz.systems import is_better, is_same, scope

#: Functions without a result to compare: of the environment, or not in the peer.
OTHERS = expressions.names(
    """
assert_allclose checkpoint_memory dispatch empty empty_like enqueue
expand_threshold flush_kernel_cache flush_thread format freeze func gradcheck
graphviz graphviz_ad hvp instance_array_t isolate_grad jvp kernel kernel_history
log_level print profile_enable profile_mark profile_range ptx
reinterpret_array_t relative_grad reorder_threads resume_grad run_lane
scoped_device scoped_set_flag set_backend set_checkpoint_memory set_expand_threshold
set_thread_count suspend_grad syntax thread_count value_and_grad vjp whos
whos_ad wrap
"""
)


def test_each_public_function_is_compared() -> None:
    compared = set(re.findall(r"dr\.(\w+)", "\n".join(expressions.expressions())))
    functions = {
        name
        for name in dir(dr)
        if callable(getattr(dr, name)) and not isinstance(getattr(dr, name), type)
    }
    assert functions - compared - set(OTHERS) == set()


def test_differences_are_forms_of_expressions() -> None:
    texts = expressions.expressions()
    for form in KNOWN:
        assert any(re.match(form, text) for text in texts), form


def test_drawn_expressions_have_results_or_our_errors() -> None:
    scopes = {name: scope(dr, name) for name in ("llvm", "llvm.ad", "scalar")}
    computed = 0
    for expression in drawn(7, 150):
        try:
            eval(str(expression), dict(scopes[expression.namespace]))
            computed += 1
        except Exception as error:
            if type(error).__module__ == errors.__name__:
                continue
            # Python's own errors are raised by the expression itself.
            frames = traceback.extract_tb(error.__traceback__)
            assert Path(frames[-1].filename).name == "<string>", expression
    assert computed > 50


def test_what_is_drawn_can_be_drawn_again() -> None:
    assert drawn(3, 100) == drawn(3, 100)
    lanes = next(e for e in drawn(3, 300) if e.width == 3 and e.values).lanes()
    assert [lane.width for lane in lanes] == [1, 1, 1]
    assert str(Value("Array2f", (("1", "2"), ("3",))).lane(1)) == "Array2f(2, 3)"
    assert in_doubles("Float16(1) + Matrix2f(2)") == "Float64(1) + Matrix2f64(2)"
    for form in DRAWN:
        re.compile(form)


def test_who_is_right() -> None:
    value = Value("Float", (("4.0",),))
    expression = Expression("llvm", "dr.sqrt({v})", (value,))
    assert is_right(expression, ["Float", [1], ["2"]])
    assert is_right(expression, ["Float", [1], ["2.1"]]) is False
    right, wrong = ["Float", [1], ["1.00001"]], ["Float", [1], ["1.001"]]
    exact = ["Float64", [1], ["1"]]
    assert is_better(right, wrong, exact, exact)
    assert not is_better(wrong, right, exact, exact)
    assert not is_better(right, wrong, exact, ["Float64", [1], ["2"]])


def test_results_are_compared_in_their_precision() -> None:
    half, single = ["Float16", [1], ["0.5"]], ["Float", [1], ["0.5"]]
    assert is_same(half, ["Float16", [1], ["0.5005"]])
    assert not is_same(single, ["Float", [1], ["0.5005"]])
    assert not is_same(half, single)
    assert not is_same(["Float", [1], ["inf"]], ["Float", [1], ["1e30"]])
    assert not is_same(
        ["UInt64", [1], [str(2**64 - 1)]], ["UInt64", [1], [str(2**64 - 2)]]
    )
    assert is_same(["!", "TypeError"], ["!", "ValueError"])
    assert not is_same(["!", "TypeError"], single)
