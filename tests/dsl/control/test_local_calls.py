"""Local memory in calls: buffers of the caller and of the callables, merged or not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Bool, Float, UInt
from lumijit.runtime.errors import ArrayIndexError, StateError, SymbolicError
from tests.verifier import verify
from tests.verifier.interpret import interpret

Flag = dr.JitFlag
LENGTH = 6
LANES = 75
MASK = (1 << 32) - 1


@pytest.fixture(params=list(itertools.product([True, False], repeat=3)), ids=str)
def flags(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test with and without merging, moved results and symbolic calls."""
    names = (Flag.MergeFunctions, Flag.OptimizeCalls, Flag.SymbolicCalls)
    with ExitStack() as stack:
        for flag, value in zip(names, request.param, strict=True):
            stack.enter_context(dr.scoped_set_flag(flag, value))
        yield


class Step:
    """An operation on a stack, with data of its own."""

    def __init__(self, k: int) -> None:
        self.factor = 3 * k + 1
        self.shift = dr.opaque(UInt, 7 * k)
        self.table = UInt([5 * k + n for n in range(LENGTH)])

    def push(self, stack: Any, depth: Any, x: Any, active: Any = True) -> Any:
        """Write to a buffer from outside, by way of one from inside."""
        own = dr.alloc_local(UInt, 4, value=self.shift)
        own[x % 4] = x * self.factor
        own[(x + 1) % 4] += dr.gather(UInt, self.table, x % LENGTH)
        place = depth % LENGTH
        stack[place] = own[depth % 4] + stack[x % LENGTH]
        return own[x % 4] + stack[place]

    def drop(self, stack: Any, depth: Any, x: Any) -> Any:
        stack.write(self.shift, depth % LENGTH, active=x % 2 == 0)
        return x + stack[0]


def plain_push(k: int, stack: list[int], depth: int, x: int) -> int:
    own = [7 * k] * 4
    own[x % 4] = x * (3 * k + 1)
    own[(x + 1) % 4] += 5 * k + x % LENGTH
    place = depth % LENGTH
    stack[place] = (own[depth % 4] + stack[x % LENGTH]) & MASK
    return (own[x % 4] + stack[place]) & MASK


def plain_drop(k: int, stack: list[int], depth: int, x: int) -> int:
    if x % 2 == 0:
        stack[depth % LENGTH] = 7 * k
    return x + stack[0]


def steps(count: int) -> tuple[list[Step], Any]:
    base = type("Base", (), {})
    cls = type("Own", (Step, base), {})
    objects = [cls(k) for k in range(count)]
    return objects, dr.instance_array_t(UInt, base)(objects)


def check(found: Any, buffer: Any, wanted: list[Any], rows: list[list[int]]) -> None:
    """Compare results and all entries of a buffer, lane by lane."""
    outputs = [found, *(buffer[k] for k in range(LENGTH))]
    nodes = [array._node for array in outputs]
    verify.verify(nodes)
    expected = [wanted, *np.array(rows).T.tolist()]
    for values, row in zip(interpret(nodes), expected, strict=True):
        assert np.broadcast_to(values, len(row)).tolist() == row
    dr.eval(outputs, buffer)
    for array, row in zip(outputs, expected, strict=True):
        assert np.broadcast_to(array.numpy(), len(row)).tolist() == row
    for k, row in enumerate(expected[1:]):
        assert np.broadcast_to(buffer[k].numpy(), len(row)).tolist() == row


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize("count", [1, 2, 8, 9, 30])
@pytest.mark.parametrize("is_wide", [True, False])
def test_dispatch(count: int, is_wide: bool) -> None:
    _, pointers = steps(count)
    x = dr.arange(UInt, LANES)
    index = x * 7 % (count + 1)
    active = x % 5 != 2
    start = x * 100 if is_wide else UInt(100)
    array = dr.gather(type(pointers), pointers, index, active=index < count)
    stack = dr.alloc_local(UInt, LENGTH, value=start)
    first = dr.dispatch(array, Step.push, stack, x % 3, x, active)
    second = dr.dispatch(array, Step.drop, stack, x % 4, x)
    rows = [[n * 100 if is_wide else 100] * LENGTH for n in range(LANES)]
    wanted = []
    for n, row in enumerate(rows):
        k = n * 7 % (count + 1)
        a = b = 0
        if k < count and n % 5 != 2:
            a = plain_push(k, row, n % 3, n)
        if k < count:
            b = plain_drop(k, row, n % 4, n)
        wanted.append((a + b) & MASK)
    check(first + second, stack, wanted, rows)


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize("count", [3, 12])
def test_dispatch_in_a_loop(count: int) -> None:
    _, pointers = steps(count)

    @dr.syntax
    def walk(pointers: Any, x: Any, stack: Any) -> Any:
        i, total = UInt(0), UInt(0)
        while i < x % 9:
            array = dr.gather(type(pointers), pointers, (x + i) % count)
            total += dr.dispatch(array, Step.push, stack, i, x + i)
            i += 1
        return total

    x = dr.arange(UInt, LANES)
    stack = dr.alloc_local(UInt, LENGTH, value=x)
    symbolic = dr.flag(Flag.SymbolicCalls)
    with dr.scoped_set_flag(Flag.SymbolicLoops, symbolic):
        total = walk(pointers, x, stack)
    rows = [[n] * LENGTH for n in range(LANES)]
    wanted = []
    for n, row in enumerate(rows):
        pushed = [plain_push((n + i) % count, row, i, n + i) for i in range(n % 9)]
        wanted.append(sum(pushed) & MASK)
    check(total, stack, wanted, rows)


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize("count", [2, 11])
def test_callables_write_to_copies_of_one_buffer(count: int) -> None:
    x = dr.arange(UInt, LANES)
    a = dr.alloc_local(UInt, LENGTH, value=x)
    b, kept = dr.Local(a), dr.Local(a)

    def target(k: int) -> Any:
        def call(x: Any) -> Any:
            if k % 3 != 1:
                a[x % LENGTH] = b[(x + 1) % LENGTH] + k
            if k % 3 != 0:
                b[(x + 1) % LENGTH] = a[x % LENGTH] * 2
            if k % 3 == 2:
                a[0] = b[1]
            return a[2] + b[3]

        return call

    index = x % (count + 1)
    result = dr.switch(index, [target(k) for k in range(count)], x)
    rows_a, rows_b = ([[n] * LENGTH for n in range(LANES)] for _ in range(2))
    wanted = []
    for n, (p, q) in enumerate(zip(rows_a, rows_b, strict=True)):
        k = n % (count + 1)
        if k == count:
            wanted.append(0)
            continue
        if k % 3 != 1:
            p[n % LENGTH] = q[(n + 1) % LENGTH] + k
        if k % 3 != 0:
            q[(n + 1) % LENGTH] = p[n % LENGTH] * 2
        if k % 3 == 2:
            p[0] = q[1]
        wanted.append(p[2] + q[3])
    check(result, a, wanted, rows_a)
    check(result, b, wanted, rows_b)
    check(result, kept, wanted, [[n] * LENGTH for n in range(LANES)])


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize("count", [2, 11])
def test_callables_only_read(count: int) -> None:
    x = dr.arange(UInt, LANES)
    buffer = dr.alloc_local(UInt, LENGTH, value=x)
    buffer[1] = x + 1
    targets = [lambda x, k=k: buffer[1] + buffer[x % LENGTH] * k for k in range(count)]
    result = dr.switch(x % count, targets, x)
    rows = [[n, n + 1, n, n, n, n] for n in range(LANES)]
    wanted = [r[1] + r[n % LENGTH] * (n % count) for n, r in enumerate(rows)]
    check(result, buffer, wanted, rows)


@pytest.mark.usefixtures("flags")
def test_loops_and_branches_inside() -> None:
    x = dr.arange(UInt, LANES)
    buffer = dr.alloc_local(UInt, LENGTH, value=x)

    def target(k: int) -> Any:
        @dr.syntax
        def call(x: Any) -> Any:
            own = dr.alloc_local(UInt, LENGTH, value=UInt(k))
            i = UInt(0)
            while i < x % LENGTH:
                own[i] = buffer[i] + i * k
                if own[i] % 2 == 0:
                    buffer[i] = own[x % LENGTH]
                i += 1
            return own[i // 2]

        return call

    result = dr.switch(x % 10, [target(k) for k in range(10)], x)
    rows = [[n] * LENGTH for n in range(LANES)]
    wanted = []
    for n, row in enumerate(rows):
        k, end = n % 10, n % LENGTH
        own = [k] * LENGTH
        for i in range(end):
            own[i] = row[i] + i * k
            if own[i] % 2 == 0:
                row[i] = own[end]
        wanted.append(own[end // 2])
    check(result, buffer, wanted, rows)


def kernel_of(*arrays: Any) -> str:
    with dr.scoped_set_flag(Flag.KernelHistory, True):
        dr.kernel_history_clear()
        dr.eval(*arrays)
        found = [k for k in dr.kernel_history() if k["type"] is dr.KernelType.JIT]
        dr.kernel_history_clear()
    return str(found[-1]["ir"])


def areas(ir: str) -> int:
    """Return how many buffers are on a kernel's stack."""
    return len(re.findall(r"%local\d+ = alloca", ir))


@pytest.mark.parametrize("count", [3, 11])
def test_calls_write_in_place(count: int) -> None:
    def program(keep: bool) -> str:
        x = dr.arange(UInt, LANES)
        buffer = dr.alloc_local(UInt, 20, value=x)
        before = dr.Local(buffer)

        def target(k: int) -> Any:
            def call(x: Any) -> Any:
                buffer[x % (k + 2)] = x * x + k
                return dr.sqrt(Float(x))

            return call

        # Their structures differ, so nothing is merged.
        targets = [target(k) for k in range(count)]
        with dr.scoped_set_flag(Flag.MergeFunctions, False):
            dr.switch(x % count, targets, x)
        return kernel_of(buffer[3] + before[4] if keep else buffer[3])

    assert areas(program(keep=False)) == 1
    assert areas(program(keep=True)) == 2


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_failing_callables_leave_buffers_alone(mode: str) -> None:
    x = UInt(0, 1, 0)
    buffer = dr.alloc_local(UInt, 2, value=x)

    def first(x: Any) -> Any:
        buffer[0] = x + 10
        return x

    def second(x: Any) -> Any:
        buffer[1] = x + 20
        raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        dr.switch(x, [first, second], x, mode=mode)
    assert buffer[0].numpy().tolist() == buffer[1].numpy().tolist() == [0, 1, 0]


def test_buffers_of_other_callables_are_over() -> None:
    found: list[Any] = []

    def first(x: Any) -> Any:
        found.append(dr.alloc_local(UInt, 2, value=x))
        return found[0][0]

    def second(x: Any) -> Any:
        return found[0][1]

    with pytest.raises(SymbolicError, match=r"allocated inside switch, which is over"):
        dr.switch(UInt(0, 1), [first, second], UInt(4, 5))
    with pytest.raises(SymbolicError, match=r"allocated inside switch, which is over"):
        found[0][0]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_may_end_by_what_a_buffer_holds(mode: str) -> None:
    x = dr.arange(UInt, 30)
    buffer = dr.alloc_local(UInt, 2, value=x % 7)

    def body(total: Any) -> Any:
        buffer[0] += 1
        return (total + x,)

    (total,) = dr.while_loop((UInt(0),), lambda _: buffer[0] < 5, body, mode=mode)
    turns = [max(0, 5 - n % 7) for n in range(30)]
    assert total.numpy().tolist() == [n * t for n, t in enumerate(turns)]
    with pytest.raises(StateError, match="depends on nothing that the body changes"):
        dr.while_loop(
            (UInt(0),), lambda _: buffer[0] < 9, lambda t: (t + x,), mode="symbolic"
        )


# One lane


@dr.syntax
def sorted_sum(x: Any, buffer: Any) -> Any:
    """Fill a buffer, sort it by insertion, and sum its first half."""
    own = dr.alloc_local(UInt, LENGTH, value=UInt(0))
    i = UInt(0)
    while i < LENGTH:
        own[i] = (x * 7 + i * 5) % 11
        j = UInt(i)
        while (j > 0) & (own.read(j - 1, active=j > 0) > own[j]):
            above, below = own[j], own[j - 1]
            own[j] = below
            own[j - 1] = above
            j -= 1
        i += 1
    buffer[x % LENGTH] += own[1]
    return own[0] + own[1] * 100 + buffer[x % LENGTH] * 10000


def test_one_lane() -> None:
    x = dr.arange(UInt, 20)
    buffer = dr.alloc_local(UInt, LENGTH, value=x * 3)
    expected = sorted_sum(x, dr.Local(buffer)).numpy().tolist()
    seen = []
    for lane in range(20):
        (found,) = dr.run_lane(sorted_sum, lane, x, buffer).numpy().tolist()
        seen.append(found)
    assert seen == expected
    # The lanes' writes have been undone.
    for k in range(LENGTH):
        assert buffer[k].numpy().tolist() == [3 * n for n in range(20)]


def test_one_lane_sees_numbers() -> None:
    buffer = dr.alloc_local(Float, 3, value=Float(1, 2, 3))
    seen: list[float] = []

    def look(x: Any) -> Any:
        buffer.write(x * 2, 1, active=Bool(True, False, True))
        seen.extend([float(buffer[0][0]), float(buffer[UInt(1, 1, 1)][0])])
        return dr.switch(UInt(0, 1, 0), [lambda: buffer[1], lambda: buffer[2]])

    assert dr.run_lane(look, 1, Float(5, 6, 7)).numpy().tolist() == [2]
    assert dr.run_lane(look, 2, Float(5, 6, 7)).numpy().tolist() == [14]
    assert seen == [2, 2, 3, 14]


def test_one_lane_checks_positions() -> None:
    buffer = dr.alloc_local(UInt, 4, value=UInt(0))
    with pytest.raises(ArrayIndexError, match="lane 2 accesses entry 4 of an array"):
        dr.run_lane(lambda x: buffer[x], 2, UInt(0, 1, 4))

    def write(x: Any) -> None:
        buffer[x] = x

    with pytest.raises(ArrayIndexError, match="lane 1 accesses entry 9 of an array"):
        dr.run_lane(write, 1, UInt(0, 9))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("what", ["access", "index", "compute"])
def test_writes_of_other_functions_stay(mode: str, what: str) -> None:
    """Also where a function runs again, for all elements, or may have written."""
    image = dr.zeros(Float, 4)
    buffer = dr.alloc_local(Float, 2, value=Float(0.5))

    def first(x, n):
        dr.scatter_add(image, x, n)
        return x

    def second(x, n):
        if what == "access":
            buffer[n % 2] = x
        elif what == "index":
            x = x + 0 * dr.gather(Float, x, n)
        elif what == "compute":
            return x + 0 * len(image)
        dr.scatter_add(image, x * 10, n, active=n > 2)
        return x

    x, n = Float(1, 2, 3, 4), UInt(0, 1, 2, 3)
    y = dr.switch(n % 2, [first, second], x, n, mode=mode)
    assert list(y) == [1, 2, 3, 4]
    assert list(image) == [1, 0, 3, 0 if what == "compute" else 40]
