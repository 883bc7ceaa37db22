"""Derivatives of what lies in memory that NumPy and others can write to.

Whatever they write, a derivative is that of the values that were there when the
operation was traced, and arrays show what was written to their views.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.record import exposed
from lumijit.llvm import Float64 as Plain
from lumijit.llvm.ad import Array2f64, Float64, TensorXf64, UInt32
from lumijit.runtime import buffers

pytestmark = pytest.mark.host("views of a device's memory are copies")

SIZE = 40
COUNT = 1000
X = np.linspace(1, 2, SIZE)
BEFORE = np.linspace(3, 4, SIZE)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> None:
    """Collect what other tests have left: where no variable lives, nothing is kept."""
    gc.collect()


def array() -> np.ndarray[Any, Any]:
    """Return entries where kernels can read them without a copy."""
    raw = np.empty(4096)
    skipped = -raw.ctypes.data % 4096 // 8
    entries = raw[skipped : skipped + SIZE]
    entries[:] = BEFORE
    return entries


def variable() -> Float64:
    """Return a variable in memory of its own.

    (Whether that of NumPy's arrays is shared depends on where it happens to lie.)
    """
    x = -Float64(-X)
    dr.eval(x)
    dr.enable_grad(x)
    return x


Pair = tuple[Float64, Any]


def of_numpy() -> Pair:
    data = array()
    return Float64(data), data


def of_a_part() -> Pair:
    data = array()
    frozen = data.view()
    frozen.flags.writeable = False
    return Float64(frozen), data


def of_another_type() -> Pair:
    data = array()
    return Float64(Plain(data)), data


def viewed() -> Pair:
    a = dr.opaque(Float64, 0, SIZE)
    view = a.numpy()
    view[:] = BEFORE
    return a, view


def viewed_in_part() -> Pair:
    a, view = viewed()
    return a, view[:]


def by_memoryview() -> Pair:
    a, view = viewed()
    return a, memoryview(view)


def by_dlpack() -> Pair:
    a, view = viewed()
    del view
    return a, np.from_dlpack(a)


def by_asarray() -> Pair:
    a, _ = viewed()
    return a, np.asarray(a)


def of_a_tensor() -> Pair:
    a, _ = viewed()
    tensor = TensorXf64(a, (2, SIZE // 2))
    return tensor.array, tensor.numpy().reshape(-1)


def of_a_copy() -> Pair:
    a, _ = viewed()
    return a, Float64(a).numpy()


def written_to() -> Pair:
    a, view = viewed()
    before = a[3]
    dr.scatter(a, Float64(0), UInt32(3))
    dr.scatter(a, Float64(before), UInt32(3))
    return a, view


SOURCES = [
    of_numpy,
    of_a_part,
    of_another_type,
    viewed,
    viewed_in_part,
    by_memoryview,
    by_dlpack,
    by_asarray,
    of_a_tensor,
    of_a_copy,
    written_to,
]


def product(x: Float64, a: Float64) -> Float64:
    return x * a


def late(x: Float64, a: Float64) -> Float64:
    """Read memory by an operation that isn't computed yet."""
    return dr.sin(x) * (dr.sqrt(a) + 1)


def gathered(x: Float64, a: Float64) -> Float64:
    index = dr.arange(UInt32, SIZE)
    return x * dr.gather(Float64, a, SIZE - 1 - index) * x


def selected(x: Float64, a: Float64) -> Float64:
    return dr.select(a > 3.5, x * a, x * x)


def divided(x: Float64, a: Float64) -> Float64:
    return dr.minimum(a / x, 100)


def nested(x: Float64, a: Float64) -> Float64:
    found = Array2f64(x, a) * Array2f64(a, x)
    return found.x + found.y


@dr.syntax
def looped(x: Float64, a: Float64) -> Float64:
    k = UInt32(0)
    y = Float64(1)
    while k < 5:
        y = y * x + dr.sin(a * y)
        k += 1
    return y


@dr.syntax
def branched(x: Float64, a: Float64) -> Float64:
    if a > 3.5:
        y = x * a
    else:
        y = a / x
    return y


def called(x: Float64, a: Float64) -> Float64:
    index = dr.arange(UInt32, SIZE) % 2
    functions = [lambda x, b: x * b, lambda x, _: dr.gather(Float64, a, UInt32(5)) / x]
    found: Float64 = dr.switch(index, functions, x, a)
    return found


class Table:
    """An instance whose method reads what its attribute holds."""

    def __init__(self, entries: Float64) -> None:
        self.entries = entries

    def times(self, x: Float64, k: UInt32) -> Float64:
        return x * dr.gather(Float64, self.entries, k)


def dispatched(x: Float64, a: Float64) -> Float64:
    """The addresses of attributes lie in a table."""
    cls: Any = type("Own", (Table, type("Base", (), {})), {})
    tables = [cls(a), cls(Float64(array() + 1)), cls(Float64(a))]
    pointers = dr.instance_array_t(Float64, cls.__bases__[1])(tables)
    index = dr.arange(UInt32, SIZE)
    chosen = dr.gather(type(pointers), pointers, index % 3)
    found: Float64 = dr.dispatch(chosen, cls.times, x, index)
    return found


@dr.syntax
def looped_over_gathers(x: Float64, a: Float64) -> Float64:
    k = UInt32(0)
    y = Float64(x)
    while k < 5:
        y *= dr.gather(Float64, a, k)
        k += 1
    return y


def scattered(x: Float64, a: Float64) -> Float64:
    target = dr.zeros(Float64, SIZE)
    dr.scatter_add(target, x * a, dr.arange(UInt32, SIZE))
    return target * a


def summed(x: Float64, a: Float64) -> Float64:
    return dr.sum(x * a) * x + dr.prefix_sum(x * a) * a


FUNCTIONS = [
    product,
    late,
    gathered,
    selected,
    divided,
    nested,
    looped,
    branched,
    called,
    dispatched,
    looped_over_gathers,
    scattered,
    summed,
]


def expected_of(function: Callable[..., Float64], values: Any) -> tuple[Any, Any]:
    x = variable()
    y = function(x, Float64(values.copy()))
    dr.backward(y)
    return y.numpy().copy(), x.grad.numpy().copy()


FLAGS = (
    dr.JitFlag.SymbolicLoops,
    dr.JitFlag.SymbolicConditionals,
    dr.JitFlag.SymbolicCalls,
)


@pytest.fixture(autouse=True)
def _alone() -> None:
    """Leave nothing of earlier tests: no variables, no views, no kernels that run."""
    dr.sync_thread()
    gc.collect()


@pytest.fixture(params=["symbolic", "evaluated"])
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run control flow in both ways."""
    with contextlib.ExitStack() as stack:
        for flag in FLAGS if request.param == "evaluated" else ():
            stack.enter_context(dr.scoped_set_flag(flag, False))
        yield


def named(function: Callable[..., Any]) -> str:
    return str(function.__name__)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("moment", range(4))
@pytest.mark.parametrize("function", FUNCTIONS, ids=named)
@pytest.mark.parametrize("source", SOURCES, ids=named)
def test_what_is_written_later(
    source: Callable[[], Pair], function: Callable[..., Float64], moment: int
) -> None:
    a, view = source()
    others = np.asarray(view)
    expected = expected_of(function, BEFORE)
    x = variable()
    y = function(x, a)
    if moment == 0:
        others[:] = others[::-1].copy()
    if moment == 1:
        dr.eval(y)
        others[2] = 100
    dr.backward(y)
    if moment == 2:
        others[:] = np.nan
    gradient = x.grad
    dr.eval(gradient)
    dr.sync_thread()
    others[:] = 7
    np.testing.assert_allclose(y, expected[0], 1e-12)
    np.testing.assert_allclose(gradient, expected[1], 1e-12)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("function", FUNCTIONS, ids=named)
def test_updates_of_a_view_between_steps(function: Callable[..., Float64]) -> None:
    """Views stay views, and each step has the values of its time."""
    expected = [expected_of(function, BEFORE + k) for k in range(2)]
    a, view = viewed()
    x = variable()
    kept = []
    for step in range(4):
        view[:] = BEFORE + step // 2
        kept.append(function(x, a))
        np.testing.assert_array_equal(a, BEFORE + step // 2)
    view[:] = 0
    assert dr.all(a == 0)
    for step, y in enumerate(kept):
        dr.clear_grad(x)
        dr.backward(y)
        np.testing.assert_allclose(y, expected[step // 2][0], 1e-12)
        np.testing.assert_allclose(x.grad, expected[step // 2][1], 1e-12)


def test_copies_serve_as_long_as_nothing_changes() -> None:
    a = dr.opaque(Float64, 1.001, 1 << 14)
    view = a.numpy()
    x = dr.full(Float64, 1, 1 << 14)
    dr.enable_grad(x)
    y = x
    dr.eval(x)
    before = memory()
    for _ in range(100):
        y = y * a
    assert memory() - before < 300_000
    view[:] = 0
    dr.backward(y)
    np.testing.assert_allclose(x.grad[0], 1.001**100)


def memory() -> int:
    return buffers.memory_stats()["live_bytes"]


def test_memory_is_not_copied_where_nothing_is_recorded_of_it() -> None:
    a, view = viewed()
    b = Float64(array())
    x = variable()
    gc.collect()
    before = memory()
    y = x * x
    y += 1
    assert memory() == before
    view[0] = 5
    assert a[0] == 5
    assert b[0] == 3
    dr.backward(y)
    assert x.grad[0] == 2


def test_numpys_array_is_left_alone_by_what_was_recorded() -> None:
    """An array that has got memory of its own is an array like others."""
    data = array()
    a = Float64(data)
    x = variable()
    y = x * a
    data[:] = 0
    dr.scatter(a, Float64(9), UInt32(0))
    dr.backward(y)
    assert a[0] == 9
    assert a[1] == BEFORE[1]
    np.testing.assert_array_equal(x.grad, BEFORE)


def test_a_variable_whose_view_is_written_to() -> None:
    x = variable()
    view = x.numpy()
    y = x * x
    view[:] = 10
    z = x * x * x
    view[:] = 0
    dr.backward(y)
    np.testing.assert_array_equal(x.grad, 2 * X)
    dr.clear_grad(x)
    dr.backward(z)
    np.testing.assert_array_equal(x.grad, 300)
    assert dr.all(x == 0)


def test_gradients_that_were_given() -> None:
    x = Float64(X.copy())
    a, view = viewed()
    dr.enable_grad(x)
    y = 2 * x
    dr.set_grad(y, a + 1)
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)
    view[:] = 0
    np.testing.assert_array_equal(x.grad, 2 * (BEFORE + 1))


def test_counters_that_are_not_read_yet() -> None:
    """To look at memory computes nothing that waits to be."""
    a, view = viewed()
    x = variable()
    counter = dr.zeros(UInt32, 1)
    place = dr.scatter_inc(counter, dr.zeros(UInt32, SIZE))
    y = x * a
    out = dr.zeros(Float64, SIZE)
    dr.scatter(out, y, place)
    view[:] = 0
    dr.backward(y)
    assert counter[0] == SIZE
    np.testing.assert_allclose(np.sort(out.numpy()), np.sort(X * BEFORE))
    np.testing.assert_array_equal(x.grad, BEFORE)


def test_views_that_an_operation_does_not_read_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loop that keeps NumPy arrays of its losses doesn't become slower by them."""
    gc.collect()
    before = len(vertices.exposed)
    x = variable()
    kept = [dr.detach(dr.sum(x * x)).numpy() for _ in range(20)]
    given = [Float64(array()) for _ in range(20)]
    looked: list[Any] = []
    monkeypatch.setattr(exposed, "_give_copy", looked.append)
    y = x * given[3]
    assert len(looked) == 1
    y = dr.sin(y * x) + 1
    assert len(looked) == 1
    monkeypatch.undo()
    dr.backward(y)
    assert len(vertices.exposed) <= before + len(given)
    assert len(kept) == 20


def test_operations_that_are_not_computed_are_not_walked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand tracked ones beside a chain of others aren't a walk each."""
    walked: list[Node] = []

    class Seen(WeakSet[Node]):
        def add(self, item: Node) -> None:
            walked.append(item)
            super().add(item)

    a, view = viewed()
    x = variable()
    b = dr.opaque(Float64, 1, SIZE)
    for _ in range(COUNT):
        b = dr.sin(b)
    monkeypatch.setattr(exposed, "_seen", Seen())
    for _ in range(COUNT):
        x = x * b
    assert len(walked) == COUNT
    assert view[0] == a[0]


def step(x: Float64, a: Float64) -> Float64:
    dr.enable_grad(x)
    y = x * a * a
    dr.backward(y)
    gradient = x.grad
    dr.disable_grad(x)
    return gradient


@pytest.mark.parametrize("source", SOURCES, ids=named)
def test_kernels(source: Callable[[], Pair]) -> None:
    a, view = source()
    gc.collect()
    others = np.asarray(view)
    recorded = dr.kernel(step)
    x = Float64(X.copy())
    for k in range(4):
        gradient = recorded(x, a)
        values = a.numpy().copy()
        if "of_" not in source.__name__:
            np.testing.assert_array_equal(values, BEFORE + k)
        others[:] = BEFORE + k + 1
        np.testing.assert_allclose(gradient, values**2, 1e-12)
    assert recorded.n_recordings == 1


def test_what_another_thread_works_with_is_left_alone() -> None:
    # (Pipes, as the other thread's loop refuses what changes objects.)
    (inside, tell), (go_on, let) = os.pipe(), os.pipe()
    found: list[Any] = []

    def body(x: Float64, i: UInt32) -> Any:
        os.write(tell, b"x")
        os.read(go_on, 1)
        return x + 1, i + 1

    def work() -> None:
        x = Float64(array())
        nodes.append((x, x._node, x._node.buffer))
        state = (x, UInt32(0))
        try:
            found.append(dr.while_loop(state, lambda x, i: i < 3, body)[0].numpy())
        finally:
            os.write(tell, b"x")

    nodes: list[tuple[Float64, Node, Any]] = []
    thread = threading.Thread(target=work)
    thread.start()
    try:
        os.read(inside, 1)
        variable = Float64(array())
        dr.enable_grad(variable)
        # The end of a construct, and a traversal.
        _, y = dr.while_loop(
            (UInt32(0), variable), lambda i, y: i < 2, lambda i, y: (i + 1, y * y)
        )
        dr.backward(y)
        ((x, node, buffer),) = nodes
        assert x._node is node
        assert node.buffer is buffer
    finally:
        os.write(let, bytes(9))
        thread.join()
        for pipe in (inside, tell, go_on, let):
            os.close(pipe)
    np.testing.assert_allclose(found[0], array() + 3)
    np.testing.assert_allclose(dr.grad(variable), 4 * array() ** 3)


def test_what_a_thread_has_left_is_protected() -> None:
    made: list[Float64] = []
    contents = array()
    thread = threading.Thread(target=lambda: made.append(Float64(contents)))
    thread.start()
    thread.join()
    (x,) = made
    variable = Float64(array())
    dr.enable_grad(variable)
    _, y = dr.while_loop(
        (UInt32(0), variable), lambda i, y: i < 2, lambda i, y: (i + 1, y * x)
    )
    contents[:] = 7
    dr.backward(y)
    np.testing.assert_allclose(dr.grad(variable), array() ** 2)


def add_in_a_loop(film: Float64, x: Float64) -> None:
    def turn(i: UInt32) -> tuple[UInt32]:
        dr.scatter_add(film, x * x, i)
        return (i + 1,)

    dr.while_loop((UInt32(0),), lambda i: i < 4, turn)


def add_in_a_branch(film: Float64, x: Float64) -> None:
    dr.if_stmt(
        (x,),
        x > 0,
        lambda x: dr.scatter_add(film, x * x, dr.arange(UInt32, 4)),
        lambda x: None,
    )


@pytest.mark.parametrize("add", [add_in_a_loop, add_in_a_branch])
@pytest.mark.parametrize("is_own", [True, False])
def test_a_region_writes_to_what_numpy_sees(add: Any, is_own: bool) -> None:
    """A film that was shown, and goes on being added to."""
    film = dr.opaque(Float64, 1, 4) if is_own else Float64(np.ones(4))
    x = dr.full(Float64, 3, 4)
    dr.enable_grad(x)
    expected = np.ones(4)
    for frame in range(3):
        seen = film.numpy()
        np.testing.assert_array_equal(seen, expected)
        add(film, x * (frame + 1))
        expected = expected + 9 * (frame + 1) ** 2 * (4 if add is add_in_a_loop else 1)
        np.testing.assert_array_equal(film, expected)
    dr.backward(dr.sum(film))
    count = 16 if add is add_in_a_loop else 4
    np.testing.assert_array_equal(x.grad, [(1 + 4 + 9) * 6 * count / 4] * 4)
