"""Where derivatives are tracked, and which traversals pass where."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Array2f64, Float64, UInt32
from lumijit.runtime.errors import DerivativeError

ADFlag, ADMode = dr.ADFlag, dr.ADMode


def variables(*values: float) -> list[Any]:
    found = [Float64(v) for v in values]
    dr.enable_grad(found)
    return found


OPENERS = {
    "suspend": dr.suspend_grad,
    "resume": dr.resume_grad,
    "isolate": dr.isolate_grad,
}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_generators_end_in_any_order(order: tuple[int, ...]) -> None:
    def opened(name: str) -> Any:
        with OPENERS[name]():
            yield

    x = Float64(3)
    dr.enable_grad(x)
    running = [opened(name) for name in ("suspend", "resume", "isolate")]
    for one in running:
        next(one)
    for k in order:
        running[k].close()
        # What remains of the first two, the inner one decides.
        left = {0, 1} - set(order[: order.index(k) + 1])
        assert dr.grad_enabled(x * 2) == (left != {0})
    dr.backward(x * x)
    assert x.grad == 6


def test_two_of_one_generator() -> None:
    def opened() -> Any:
        with dr.suspend_grad():
            yield

    x = Float64(3)
    dr.enable_grad(x)
    first, second = opened(), opened()
    next(first), next(second)
    first.close()
    assert not dr.grad_enabled(x * 2)
    second.close()
    assert dr.grad_enabled(x * 2)
    again = dr.suspend_grad()
    with again, again:
        assert not dr.grad_enabled(x * 2)
    assert dr.grad_enabled(x * 2)


@pytest.mark.parametrize("is_all", [False, True])
def test_deep_copies_are_suspended_as_their_originals(is_all: bool) -> None:
    x, y = variables(2, 3)
    dr.set_grad(x, 7)
    with dr.suspend_grad(*(() if is_all else (x,))):
        a, b = copy.deepcopy((x, y))
        assert not dr.grad_enabled(a)
        assert dr.grad_enabled(b) != is_all
        with dr.resume_grad(a):
            assert dr.grad_enabled(a)
    assert a.grad == 7
    dr.clear_grad((a, x))
    dr.backward(a * b * a)
    assert values_of(a.grad, b.grad, x.grad, y.grad) == [12, 4, 0, 0]


def values_of(*arrays: Any) -> list[float]:
    return [float(array[0]) for array in arrays]


def test_suspend() -> None:
    a, b, c = variables(1, 2, 3)
    with dr.suspend_grad():
        assert not dr.grad_enabled(a, b, c)
        d = a + b + c
        new = Float64(1)
        dr.enable_grad(new)
    assert dr.grad_enabled(a)
    assert not dr.grad_enabled(d, new)


def test_suspend_some() -> None:
    a, b, c = variables(1, 2, 3)
    with dr.suspend_grad(b):
        assert [dr.grad_enabled(v) for v in (a, b, c)] == [True, False, True]
        d = a * b * c
    with dr.suspend_grad(a, when=False):
        e = a * 10
    dr.backward(d + e)
    assert [v.grad[0] for v in (a, b, c)] == [16, 0, 2]


def test_resume_some_while_suspended() -> None:
    a, b, c = variables(1, 2, 3)
    with dr.suspend_grad():
        with dr.resume_grad(a, b):
            assert [dr.grad_enabled(v) for v in (a, b, c)] == [True, True, False]
            d = a * b * c
        e = a * 5
        with dr.resume_grad():
            f = c * 100
        with dr.resume_grad(when=False):
            g = c * 1000
    assert not dr.grad_enabled(e, g)
    dr.backward(d + f)
    assert [v.grad[0] for v in (a, b, c)] == [6, 3, 100]


def test_suspended_inside_of_symbolic_loops() -> None:
    (x,) = variables(2)

    def body(i: Any, y: Any, x: Any) -> Any:
        with dr.suspend_grad():
            factor = x * x
        return i + 1, y + x * factor, x

    state = (UInt32(0), Float64(0), x)
    for mode in ("symbolic", "evaluated"):
        y = dr.while_loop(state, lambda i, y, x: i < 3, body, mode=mode)[1]
        dr.backward(y)
        assert x.grad == 12
        dr.clear_grad(x)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("is_chosen", [True, False])
@pytest.mark.parametrize("is_all", [True, False])
def test_resumed_inside_of_suspended_loops(
    mode: Any, is_chosen: bool, is_all: bool
) -> None:
    a, x = variables(2, 3)

    def body(i: Any, s: Any, a: Any, x: Any) -> Any:
        s = s * x
        with dr.resume_grad(*[a] if is_chosen else []):
            dr.backward_from(a * dr.detach(s))
        return i + 1, s, a, x

    with dr.suspend_grad(*[] if is_all else [a, x]):
        state = (UInt32(0), Float64(1), a, x)
        s = dr.while_loop(state, lambda i, *_: i < 3, body, mode=mode)[1]
    assert (s[0], a.grad[0], x.grad[0]) == (27, 3 + 9 + 27, 0)
    assert not dr.grad_enabled(s)


def test_suspended_variables_of_compressed_loops_arent_lost() -> None:
    a, b = Float64(2, 3, 4, 5), Float64(2)
    dr.enable_grad(a, b)

    def body(i: Any, n: Any, a: Any) -> Any:
        with dr.resume_grad():
            dr.backward_from(a * b)
        return i + 1, n, a

    state = (UInt32(0), UInt32(1, 2, 3, 3), a)
    how: Any = {"mode": "evaluated", "compress": True}
    with dr.suspend_grad(), pytest.raises(DerivativeError, match="has been cleared"):
        dr.while_loop(state, lambda i, n, a: i < n, body, **how)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("is_all", [True, False])
def test_resumed_inside_of_suspended_calls(mode: Any, is_all: bool) -> None:
    a, x = Float64(2, 3, 4), Float64(5, 6, 7)
    dr.enable_grad(a, x)

    def everything(a: Any, x: Any) -> Any:
        with dr.resume_grad():
            dr.backward_from(a * x)
        return a

    def some(a: Any, x: Any) -> Any:
        with dr.resume_grad(a):
            dr.backward_from(a * x)
        return a

    with dr.suspend_grad(*[] if is_all else [a, x]):
        result = dr.switch(UInt32(0, 1, 0), [everything, some], a, x, mode=mode)
    assert (list(a.grad), list(x.grad)) == ([5, 6, 7], [2, 0, 4])
    assert not dr.grad_enabled(result)


def test_results_that_are_what_was_there_are_suspended_too() -> None:
    (x,) = variables(2)
    with dr.suspend_grad():
        values = [
            x * 1,
            dr.maximum(x, x),
            Float64(x),
            Array2f64(x, 1),
            dr.gather(Float64, x, UInt32(0)),
            dr.select(dr.mask_t(x)(True), x, 0),
        ]
    assert not any(dr.grad_enabled(v) for v in values)
    assert [v[0] for v in values[:3]] == [2, 2, 2]


def test_isolate() -> None:
    (x,) = variables(3)
    y = x * x
    with dr.isolate_grad():
        z = y * 2
        dr.backward(z)
        assert x.grad == 0
        assert y.grad == 2
        dr.backward(y * 5)
        assert x.grad == 0
    assert x.grad == 6 * 7


def test_isolate_doesnt_hold_forward_mode_back() -> None:
    (x,) = variables(3)
    y = x * x
    with dr.isolate_grad():
        z = y * 2
        dr.forward(x)
        assert z.grad == 12
    (x,) = variables(3)
    y = x * x
    dr.set_grad(x, 1)
    with dr.isolate_grad():
        assert dr.forward_to(y * y) == 4 * 27


def test_nested_isolation() -> None:
    (x,) = variables(3)
    y = x * x
    with dr.isolate_grad():
        z = y * 2
        with dr.isolate_grad():
            dr.backward(z * 10)
            assert z.grad == 10
            assert y.grad == 0
        assert y.grad == 20
        assert x.grad == 0
    assert x.grad == 120


@pytest.mark.parametrize("evaluate", [dr.eval, dr.make_opaque])
def test_evaluation_between(evaluate: Any) -> None:
    x = Float64(1, 2, 3)
    dr.enable_grad(x)
    y = dr.sin(x)
    evaluate(y)
    z = y * y
    evaluate(z)
    evaluate(x)
    dr.backward(dr.sum(z))
    np.testing.assert_allclose(x.grad, np.sin([2.0, 4.0, 6.0]))


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_changes_in_place_after_recording(is_evaluated: bool) -> None:
    x, w = Float64(1, 2, 3), Float64(2, 2, 2)
    index = UInt32(0, 1, 2)
    if is_evaluated:
        dr.eval(x, w, index)
    dr.enable_grad(x)
    before = Float64(x)
    y = dr.gather(Float64, x, index) * x * w
    if is_evaluated:
        dr.eval(y)
    x += 1
    dr.scatter(x, Float64(9), UInt32(1))
    dr.scatter(w, Float64(9), UInt32(0))
    w *= 10
    dr.scatter(index, UInt32(2), UInt32(0))
    dr.backward(y)
    assert list(before.grad) == [4, 8, 12]


@pytest.mark.parametrize("which", [0, 1])
def test_changes_through_a_view_after_evaluation(which: int) -> None:
    x, w = Float64(1, 2, 3), Float64(2, 2, 2)
    dr.eval(x, w)
    dr.enable_grad(x)
    y = x * x * w
    dr.eval(y)
    view = (x, w)[which].numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[:] = 100
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(y)[:] = 100
    dr.backward(y)
    assert list(x.grad) == [4, 8, 12]


@pytest.mark.host("views of a device's memory are copies")
def test_views_can_be_written_to_where_nothing_is_recorded() -> None:
    x, w = Float64(1, 2, 3), Float64(2, 2, 2)
    dr.enable_grad(x)
    w.numpy()[0] = 100
    y = x * w
    dr.backward(y)
    assert list(x.grad) == [100, 2, 2]


def test_enqueue_in_the_other_direction() -> None:
    x, w = variables(3, 4)
    y, other = x * x * w, x * 100
    dr.set_grad(x, 1)
    dr.enqueue(ADMode.Backward, y)
    dr.traverse(ADMode.Forward, ADFlag.ClearInterior)
    assert y.grad == 24
    assert other.grad == 0
    dr.clear_grad(x, y, w)
    dr.set_grad(y, 1)
    dr.enqueue(ADMode.Forward, x)
    dr.traverse(ADMode.Backward)
    assert x.grad == 24
    assert w.grad == 0


def test_accumulating_twice() -> None:
    x, w = variables(3, 4)
    y = x * w
    for count in (1, 2):
        dr.set_grad(y, 1)
        dr.enqueue(ADMode.Backward, y)
        dr.traverse(ADMode.Backward, ADFlag.ClearVertices)
        assert x.grad == 4 * count
        assert w.grad == 3 * count


def test_traversing_what_was_cleared_is_an_error() -> None:
    (x,) = variables(3)
    y = x * x
    dr.backward(y)
    with pytest.raises(DerivativeError, match="an earlier traversal has gone along"):
        dr.backward(y)


def test_forward_mode_goes_on_from_where_it_has_arrived() -> None:
    x, w = variables(3, 5)
    y = x * w
    z = y * 2
    dr.forward(x, ADFlag.ClearEdges)
    assert dr.forward_to(z * z) == 2 * 30 * 10


@pytest.mark.parametrize("is_first", [True, False])
def test_forward_mode_must_have_arrived_from_all(is_first: bool) -> None:
    x, w = variables(3, 5)
    y = x * w
    dr.forward(x, ADFlag.ClearEdges)
    if is_first:
        dr.set_grad(w, 1)
    else:
        y = y * w
        dr.forward(w, ADFlag.ClearEdges)
    with pytest.raises(DerivativeError, match="an earlier traversal has gone along"):
        dr.forward_to(y * 2)


def test_reverse_mode_leaves_no_beginning_for_forward_mode() -> None:
    (x,) = variables(3)
    y = x * x
    dr.backward(y, ADFlag.ClearEdges)
    assert y.grad == 1
    with pytest.raises(DerivativeError, match="an earlier traversal has gone along"):
        dr.forward_to(y * 2)


def test_flags_of_gradients() -> None:
    (x,) = variables(3)
    y = x * x
    z = y * 2
    dr.backward(z, ADFlag.ClearNone)
    assert [v.grad[0] for v in (z, y, x)] == [1, 2, 12]
    dr.clear_grad(x, y, z)
    dr.backward(z, ADFlag.ClearInterior)
    assert [v.grad[0] for v in (z, y, x)] == [1, 0, 12]
    dr.clear_grad(x, y, z)
    dr.backward(z, ADFlag.ClearInput)
    assert [v.grad[0] for v in (z, y, x)] == [0, 2, 12]
    # Something depends on y: it isn't an input, also where a traversal begins there.
    dr.clear_grad(x, y, z)
    dr.backward(y, ADFlag.ClearInput)
    assert [v.grad[0] for v in (z, y, x)] == [0, 1, 6]
    dr.clear_grad(x, y, z)
    dr.backward(y, ADFlag.ClearInterior)
    assert [v.grad[0] for v in (z, y, x)] == [0, 0, 6]
    for flags, left in (
        (ADFlag.ClearInput, [12, 6, 1]),
        (ADFlag.ClearInterior, [12, 0, 1]),
    ):
        dr.clear_grad(x, y, z)
        dr.set_grad(y, 6)
        dr.set_grad(x, 1)
        dr.enqueue(ADMode.Forward, y)
        dr.traverse(ADMode.Forward, flags)
        assert [v.grad[0] for v in (z, y, x)] == left
    dr.clear_grad(x, y, z)
    dr.backward(z, ADFlag.ClearInput)
    # What is left between isn't an input of the next traversal: it adds up.
    dr.backward(z, ADFlag.ClearInput)
    assert [v.grad[0] for v in (z, y, x)] == [0, 4, 36]
    dr.clear_grad(x, y, z)
    dr.backward(z)
    assert [v.grad[0] for v in (z, y, x)] == [0, 0, 12]


@pytest.mark.parametrize("kind", ["literal", "evaluated", "shared", "computed"])
def test_variables_of_any_kind(kind: str) -> None:
    if kind == "literal":
        x = Float64(2)
    else:
        x = Float64(np.full(3, 2.0))
    other = Float64(x) if kind == "shared" else Float64(2)
    if kind == "computed":
        x = x * 1
    before = x * 7
    dr.enable_grad(x)
    assert not dr.grad_enabled(other, before)
    again = x * 7
    assert dr.grad_enabled(again)
    dr.backward(dr.sum(x * 7 + before + again + 0 * x))
    assert set(x.grad) == {14.0}
    assert list(other) == [2] * len(other)


def test_replaced_gradients() -> None:
    x, w = variables(3, 4)
    y = dr.replace_grad(x * x, w * 10)
    assert y == 9
    dr.backward(y * 2)
    assert x.grad == 0
    assert w.grad == 20


@dr.syntax
def _products(x):
    i, y = UInt32(0), Float64(0, 0)
    while i < 3:
        y += dr.gather(Float64, dr.detach(x), i) * dr.gather(Float64, x, i)
        i += 1
    return y


@pytest.mark.parametrize("is_symbolic", [True, False])
def test_an_array_that_is_detached_in_a_loop_can_be_indexed(is_symbolic: bool) -> None:
    x = Float64(1, 2, 3)
    dr.enable_grad(x)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic):
        dr.backward(_products(x))
    assert dr.all(x.grad == Float64(2, 4, 6))


@pytest.mark.parametrize("depth", [1, 2])
def test_isolated_traversals_go_on_along_what_was_enqueued(depth: int) -> None:
    a, b, c = variables(2, 3, 5)
    u = a * b
    v = u * c
    dr.set_grad(v, 1)
    with dr.isolate_grad():
        with dr.isolate_grad(when=depth > 1):
            dr.backward_to(b)
        assert b.grad == 0
    assert (a.grad, b.grad, c.grad) == (0, 10, 0)


def test_isolated_traversals_enqueued_in_both_directions() -> None:
    a, b, c = variables(2, 3, 5)
    u = a * b
    v = u * c
    dr.set_grad(v, 1)
    with dr.isolate_grad():
        dr.enqueue(dr.ADMode.Forward, b)
        dr.enqueue(dr.ADMode.Backward, u)
        dr.traverse(dr.ADMode.Backward)
    assert (a.grad, b.grad, c.grad) == (15, 10, 0)


def test_evaluated_loops_go_on_along_what_was_enqueued() -> None:
    a, b, c = variables(2, 3, 5)
    v = a * b

    @dr.syntax
    def loop() -> None:
        i = UInt32(0)
        while dr.hint(i < 2, mode="evaluated"):
            y = v * c
            dr.set_grad(y, 1)
            dr.backward_to(b)
            i += 1

    loop()
    assert (a.grad, b.grad, c.grad) == (0, 20, 0)
