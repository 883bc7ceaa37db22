"""Gradients that a symbolic loop, call or branch adds to arrays outside of it.

They have arrived once the construct has ended, whoever asks for them, and however.
"""

from __future__ import annotations

import sys
import threading

import pytest

import lumijit as dr
from lumijit.llvm.ad import Float, UInt


def tracked(*values: float) -> Float:
    x = Float(*values)
    dr.enable_grad(x)
    return x


def add(w: Float, x: Float) -> None:
    dr.backward_from(dr.gather(Float, w, UInt(0)) * x)


@dr.syntax
def in_loop(w: Float, x: Float) -> None:
    i = UInt(0)
    while i < 2:
        add(w, x)
        i += 1


def in_call(w: Float, x: Float) -> None:
    def target(x):
        add(w, x)
        return x

    dr.switch(UInt(0, 1), [target, lambda x: target(2 * x)], x)


def in_branch(w: Float, x: Float) -> None:
    def target(x):
        add(w, x)
        return x

    dr.if_stmt((x,), x > 0, target, lambda x: x)


# With x = (1, 2): what arrives at the first entry.
CONSTRUCTS = [(in_loop, 6), (in_call, 5), (in_branch, 3)]


@pytest.fixture(params=CONSTRUCTS, ids=lambda p: p[0].__name__)
def construct(request):
    return request.param


def test_they_are_there_for_a_replay(construct) -> None:
    run, once = construct
    w = tracked(1, 2)

    @dr.freeze
    def step(w, x):
        run(w, x)
        return x + 1

    for k in range(1, 5):
        step(w, Float(1, 2))
        assert w.grad[0] == k * once


def test_they_are_cleared_and_replaced(construct) -> None:
    run, once = construct
    w = tracked(1, 2)
    run(w, Float(1, 2))
    assert w.grad[0] == once
    dr.clear_grad(w)
    assert not dr.any(w.grad != 0)
    run(w, Float(1, 2))
    dr.set_grad(w, 5)
    assert dr.all(w.grad == 5)


def test_another_traversal_begins_anew(construct) -> None:
    run, _ = construct
    w = tracked(1, 2)
    run(w, Float(1, 2))
    dr.set_grad(w, 1)
    assert dr.all(dr.forward_to(w * w) == Float(2, 4))


def test_those_of_another_thread_are_seen(construct) -> None:
    run, once = construct
    w = tracked(1, 2)
    other = threading.Thread(target=run, args=(w, Float(1, 2)))
    other.start()
    other.join()
    assert w.grad[0] == once


def test_custom_operations_add_to_what_is_computed_of_others(construct) -> None:
    run, once = construct
    t = tracked(0.5)
    table = Float(3, 2) * t

    class Operation(dr.CustomOp):
        def eval(self, x):
            self.x = x
            self.add_input(table)
            return x * dr.sum(dr.detach(table))

        def backward(self):
            run(table, self.x * self.grad_out())

    dr.backward(dr.custom(Operation, Float(1, 2)))
    assert t.grad[0] == 3 * once


def test_threads_add_to_one_variable() -> None:
    x = tracked(*range(50))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def run(k: int) -> None:
        for _ in range(20):
            dr.backward(dr.sum(x * k))

    try:
        for _ in range(4):
            dr.clear_grad(x)
            threads = [threading.Thread(target=run, args=(k,)) for k in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert dr.all(x.grad == 200)
    finally:
        sys.setswitchinterval(before)
