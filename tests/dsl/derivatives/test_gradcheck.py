"""`gradcheck` finds what is wrong, says what it is, and passes what is right."""

from __future__ import annotations

from typing import Any

import pytest

import lumijit as dr
from lumijit.compiler.derive.rules import RULES, Rule
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.mathematics import SIN
from lumijit.compiler.ir.ops.structural import GATHER
from lumijit.llvm.ad import Array2f, Float, Float16, Float64, UInt32
from lumijit.runtime.errors import ArrayTypeError, DerivativeError


def test_right_derivatives_pass() -> None:
    def function(tree: dict[str, Any], number: int) -> Any:
        loop = dr.while_loop(
            (UInt32(0), tree["x"]),
            lambda i, x: i < 3,
            lambda i, x: (i + 1, dr.sin(x) * tree["y"]),
        )
        return [loop[1] * number, dr.norm(tree["p"])]

    tree = {"x": Float(1, 2), "y": Float16(0.5), "p": Array2f(3, [4, 5])}
    assert dr.gradcheck(function, tree, 3)


def test_results_of_other_sizes_in_other_modes() -> None:
    def function(x: Any, w: Any) -> Any:
        state = (UInt32(0), x, w)
        return dr.while_loop(
            state, lambda i, x, w: i < 3, lambda i, x, w: (i + 1, x * w, w * 2)
        )[1:]

    assert dr.gradcheck(function, Float(1, 2, 3), Float(2))


def test_wrong_derivatives_are_named() -> None:
    def function(x: Any) -> Any:
        return {"z": dr.replace_grad(x * x, 2 * x)}

    with pytest.raises(
        DerivativeError,
        match=r"test_gradcheck.py:\d+ in .*gradcheck: the derivative of entry 1 of "
        r"result\['z'\] by entry 1 of inputs\[0\] should be 5, as differences say, but "
        r"forward and reverse mode disagree \(forward: 2, reverse: 2, with symbolic",
    ):
        dr.gradcheck(function, Float(1, 2.5))


def test_wrong_records_are_named() -> None:
    right = SIN.derivative
    object.__setattr__(SIN, "derivative", (lambda r, x: r,))
    try:
        with pytest.raises(DerivativeError, match="the operation 'sin' disagrees"):
            dr.gradcheck(lambda x: dr.exp(dr.sin(x)) * x, Float64(1, 2))
    finally:
        object.__setattr__(SIN, "derivative", right)


def test_rules_that_differ_between_modes_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = RULES[GATHER]

    def pull(step: Any, into: Any, by: Any) -> None:
        right.pull(step, into, trace.emit2(ADD, by, by))

    monkeypatch.setitem(RULES, GATHER, Rule(pull, right.push))
    with pytest.raises(
        DerivativeError, match=r"but reverse mode disagrees .*operation 'gather'"
    ):
        dr.gradcheck(lambda x: dr.gather(Float64, x * x, UInt32(1, 0)), Float64(1, 2))


def test_kinks_are_named() -> None:
    with pytest.raises(
        DerivativeError, match=r"differences are 1 and 2. Fix: move the inputs away"
    ):
        dr.gradcheck(lambda x: dr.maximum(x, 2 * x), Float64(0))


def test_entries_of_components_are_named() -> None:
    with pytest.raises(
        DerivativeError, match=r"by entry 0 of inputs\[0\] \(component 1\) should be 1,"
    ):
        dr.gradcheck(lambda p: p.x + dr.detach(p.y), Array2f(1, [2, 3]))


def test_nothing_to_differentiate() -> None:
    with pytest.raises(ArrayTypeError, match="no input is an array of floats"):
        dr.gradcheck(lambda x: x, UInt32(1), 3.0)
