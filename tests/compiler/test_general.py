"""Which numbers coincide must not matter: one kernel, and the right results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import emit2, emit3
from lumijit.compiler.launch import kernels
from lumijit.compiler.plan import general
from lumijit.compiler.plan.program import Program
from lumijit.compiler.record import memory
from lumijit.runtime import history
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import FLOAT32, INT64, UINT32, UINT64
from tests.compiler.support import Holder, array, branch, data, lit, loop
from tests.verifier.interpret import interpret

TRUE = trace.make_true(1)
Recipe = Callable[[list[float]], Node]


@pytest.fixture(autouse=True)
def _history() -> Iterator[None]:
    with scoped_set_flag(JitFlag.KernelHistory, True):
        kernels.flush()
        yield


def misses(node: Node) -> int:
    """Evaluate a node as the interpreter does; return how many kernels were new."""
    expected = interpret([node])[0]
    history.kernel_history()
    np.testing.assert_array_equal(data(node), expected)
    entries = history.kernel_history([history.KernelType.JIT])
    return sum(not entry["cache_hit"] for entry in entries)


def values() -> Node:
    return array(np.linspace(-2, 2, 37), FLOAT32)


def number(value: float) -> Node:
    return lit(FLOAT32, value)


def straight(v: list[float]) -> Node:
    x = values()
    a, b, c, d = map(number, v)
    left = emit2(ar.MAX, emit2(ar.MUL, x, a), b)
    right = emit2(ar.SUB, c, emit2(ar.DIV, x, d))
    return emit2(ar.ADD, left, emit2(ar.MUL, right, a))


def looping(v: list[float]) -> Node:
    x = values()
    a, b, c, d = map(number, v)
    outer = emit2(ar.MIN, x, b)

    def body(i: Node, y: Node, z: Node) -> tuple[Node, ...]:
        def yes() -> tuple[Node, ...]:
            return (emit2(ar.MAX, y, a), d)

        def no() -> tuple[Node, ...]:
            return (emit2(ar.MIN, emit2(ar.MAX, y, c), outer), c)

        y, added = branch(emit2(lo.LT, y, b), yes, no)
        z = emit2(ar.MAX, emit2(ar.MIN, x, c), emit2(ar.MIN, z, added))
        return emit2(ar.ADD, i, lit(UINT32, 1)), y, z

    def more(i: Node, y: Node, z: Node) -> Node:
        return emit2(lo.LT, i, lit(UINT32, 3))

    start = array(np.zeros(37), UINT32)
    _, y, z = loop((start, trace.resized(a, 37), d), more, body)
    return emit2(ar.ADD, emit2(ar.ADD, y, z), emit2(ar.MAX, x, d))


def nested(v: list[float]) -> Node:
    x = values()
    a, b, c, d = map(number, v)

    def inner(i: Node, y: Node) -> tuple[Node, ...]:
        return (
            emit2(ar.ADD, i, lit(UINT32, 1)),
            emit2(ar.MAX, emit2(ar.MIN, y, a), emit2(ar.MIN, x, b)),
        )

    def outer(i: Node, y: Node) -> tuple[Node, ...]:
        below = emit2(ar.MAX, x, c)
        _, y = loop((i, y), lambda j, _: emit2(lo.LT, j, lit(UINT32, 4)), inner)
        return emit2(ar.ADD, i, lit(UINT32, 1)), emit2(ar.MAX, below, y)

    def more(i: Node, y: Node) -> Node:
        return emit2(lo.LT, i, lit(UINT32, 2))

    _, y = loop((array(np.zeros(37), UINT32), x), more, outer)
    return emit2(ar.MIN, y, d)


def indexed(v: list[float]) -> Node:
    a, b, c, d = map(number, v)
    x = values()
    index = array(np.arange(37)[::-1], UINT32)
    holder = Holder(array(np.zeros(37), FLOAT32))
    read = memory.gather(x, index, TRUE)
    memory.scatter(holder, emit2(ar.MUL, read, a), index, TRUE)
    memory.scatter(holder, emit2(ar.MAX, read, b), index, TRUE, "max", "direct")
    return emit2(ar.MAX, emit2(ar.MIN, holder._node, c), d)


RECIPES = (straight, looping, nested, indexed)
# Every way in which four numbers can coincide, with values that fold nowhere.
PATTERNS = sorted(
    {tuple(p.index(k) for k in p) for p in itertools.product(range(4), repeat=4)}
)


@pytest.mark.parametrize("recipe", RECIPES)
def test_later_coincidences_compile_nothing(recipe: Recipe) -> None:
    misses(recipe([1.5, 2.5, 3.5, 0.75]))
    for pattern in PATTERNS:
        assert misses(recipe([1.25 + 1.5 * k for k in pattern])) == 0, pattern


@pytest.mark.parametrize("recipe", [straight, indexed])
def test_first_coincidences_compile_nothing_more(recipe: Recipe) -> None:
    """Where no whole operations are merged, the first numbers may coincide, too."""
    for pattern in PATTERNS:
        kernels.flush()
        misses(recipe([1.25 + 1.5 * k for k in pattern]))
        assert misses(recipe([1.5, 2.5, 3.5, 0.75])) == 0, pattern


def test_a_kernel_is_found_on_disk_without_its_general_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "NOTED_FROM", 1)
    for numbers in ([1.5, 2.5, 3.5, 0.75], [1.25, 1.25, 4.25, 1.25]):
        misses(straight(numbers))
        kernels.flush()
        with monkeypatch.context() as patch:
            patch.setattr(general, "generalized", None)
            node = straight(numbers)
            expected = interpret([node])[0]
            # The history would ask for the code, which isn't on disk.
            with scoped_set_flag(JitFlag.KernelHistory, False):
                np.testing.assert_array_equal(data(node), expected)


@pytest.mark.parametrize("recipe", RECIPES)
def test_numbers_that_become_zero(recipe: Recipe) -> None:
    misses(recipe([1.5, 2.5, 3.5, 0.75]))
    assert misses(recipe([1.5, 0.0, 3.5, 0.75])) == 0
    assert misses(recipe([3.5, -0.0, 3.5, 3.5])) == 0


@given(
    st.sampled_from(RECIPES),
    st.lists(
        st.lists(
            st.sampled_from([2.5, 3.5, 0.75, 0.0, 1.0, -1.0]), min_size=4, max_size=4
        ),
        min_size=2,
        max_size=4,
    ),
)
@settings(max_examples=40, deadline=None)
def test_any_sequence_of_numbers(recipe: Recipe, runs: list[list[float]]) -> None:
    kernels.flush()
    for numbers in runs:
        numbers[3] = numbers[3] or 1.0
        misses(recipe(numbers))
        assert misses(recipe(numbers)) == 0


def test_a_merged_operation_needs_one_more_kernel_at_most() -> None:
    def products(a: float, b: float) -> Node:
        x = values()
        left, right = (emit2(ar.MUL, x, number(v)) for v in (a, b))
        return emit2(ar.ADD, left, emit2(ar.MAX, right, x))

    assert misses(products(2.5, 2.5)) == 1
    assert misses(products(2.5, 3.5)) == 1
    assert misses(products(4.5, 3.5)) == 0
    assert misses(products(4.5, 4.5)) == 0


def test_powers_of_two_share_the_kernel_of_products() -> None:
    def product(a: int) -> Node:
        x = array(np.arange(-5, 5), INT64)
        return emit2(ar.ADD, emit2(ar.MUL, x, lit(INT64, a)), x)

    assert misses(product(3)) == 1
    numbers = (8, 4, 1 << 40, -7, -(1 << 63))
    assert [misses(product(a)) for a in numbers] == [0] * len(numbers)


def test_different_powers_of_two_are_not_one_number() -> None:
    """A number with many uses is one argument, and stands for one power of two."""

    def products(factors: list[int]) -> Node:
        total = array(np.arange(3), UINT64)
        for k, factor in enumerate(factors):
            x = array(np.full(3, 100 + k), UINT64)
            total = emit2(lo.XOR, total, emit2(ar.MUL, x, lit(UINT64, factor)))
        return total

    count = general.MAX_USES + 2
    assert misses(products([3] * count)) == 1
    assert misses(products([8] * count)) == 0
    assert misses(products([2 << k for k in range(count)])) == 1
    assert misses(products([3] * (count - 1) + [4])) == 1


def test_a_number_with_many_uses_is_one_argument() -> None:
    def chain(a: float, b: float) -> Node:
        x = values()
        for _ in range(12):
            x = emit2(ar.MAX, emit2(ar.MUL, x, number(a)), emit2(ar.ADD, x, number(b)))
        return x

    node = chain(0.5, 0.25)
    program = Program(37, [node], [], 0)
    assert len(general.generalized(program).program.arguments) == 3
    assert misses(node) == 1
    assert misses(chain(0.25, 0.25)) == 0
    assert misses(chain(0.0, 0.25)) <= 1


def test_a_number_with_many_uses_may_coincide_at_first() -> None:
    """Uses by other operations are other arguments from the first build on."""

    def recipe(radius: float, colour: float) -> Node:
        x = values()
        for k in range(general.MAX_USES + 4):
            x = emit2(ar.MAX, emit2(ar.SUB, x, number(radius)), number(-k))
        hit = emit2(lo.LT, x, number(-20.5))
        return emit3(lo.SELECT, hit, number(colour), x)

    assert misses(recipe(0.25, 0.25)) == 1
    assert misses(recipe(0.25, 0.75)) == 0
    assert misses(recipe(0.5, 0.25)) == 0


def test_other_programs_do_not_match() -> None:
    x, y = values(), values()
    a, b = number(2.5), number(3.5)
    known = general.generalized(
        Program(37, [emit2(ar.ADD, emit2(ar.MUL, x, a), y)], [], 0)
    )
    others = [
        emit2(ar.ADD, emit2(ar.MUL, x, a), b),
        emit2(ar.ADD, emit2(ar.MUL, x, y), y),
        emit2(ar.ADD, emit2(ar.DIV, x, a), y),
        emit2(ar.ADD, emit2(ar.MUL, a, x), y),
        emit2(ar.ADD, emit2(ar.MUL, x, a), array([1], FLOAT32)),
        emit2(ar.MUL, x, a),
        trace.cast_to(emit2(ar.ADD, emit2(ar.MUL, x, a), y), UINT32),
    ]
    for other in others:
        assert general.match(known.program, Program(37, [other], [], 0)) is None
    same = Program(37, [emit2(ar.ADD, emit2(ar.MUL, y, b), y)], [], 0)
    assert general.match(known.program, same) is not None
    streaming = Program(1 << 24, [other], [], 0)
    assert general.match(known.program, streaming) is None


def test_numbers_in_callables() -> None:
    import lumijit as dr
    from lumijit.llvm import Float, UInt

    index = dr.arange(UInt, 37) % 4
    x = dr.linspace(Float, -2, 2, 37)
    dr.eval(index, x)

    def called(a: float, b: float, c: float) -> Float:
        first = [lambda v, k=k: dr.maximum(v * a, b + k) for k in (0.25, 0.5)]
        second = [lambda v: dr.minimum(v, c) * b]
        return dr.switch(index, [*first, *second], x) + a

    assert misses(called(1.5, 2.5, 3.5)._node) == 1
    for numbers in ((3.5, 3.5, 3.5), (1.5, 2.5, 2.5), (0.75, 1.25, 0.75)):
        assert misses(called(*numbers)._node) == 0
