"""What is compared with the peer is the whole public interface."""

from __future__ import annotations

import re

import lumijit as dr
from tests.fuzz import expressions
from tests.fuzz.interface import KNOWN, is_same

#: Functions without a result to compare: of the environment, or not in the peer.
OTHERS = expressions.names(
    """
assert_allclose checkpoint_memory dispatch empty empty_like enqueue
expand_threshold flush_kernel_cache flush_thread format freeze func gradcheck
graphviz graphviz_ad hvp instance_array_t isolate_grad jvp kernel kernel_history
log_level print profile_enable profile_mark profile_range ptx
reinterpret_array_t relative_grad reorder_threads resume_grad run_lane
scoped_set_flag set_backend set_checkpoint_memory set_expand_threshold
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


def test_results_are_compared_in_their_precision() -> None:
    half, single = ["Float16", [1], ["0.5"]], ["Float", [1], ["0.5"]]
    assert is_same(half, ["Float16", [1], ["0.5005"]])
    assert not is_same(single, ["Float", [1], ["0.5005"]])
    assert not is_same(half, single)
    assert is_same(["!", "TypeError"], ["!", "ValueError"])
    assert not is_same(["!", "TypeError"], single)
