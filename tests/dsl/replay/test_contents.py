"""What replays leave in containers: keys in order, members, no recorded numbers."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import scalar
from lumijit.llvm.ad import Float
from lumijit.runtime.errors import RecordingError
from tests.dsl.replay.support import array, assert_equal


def _popped(held: Any, key: str, x: Float) -> None:
    held[key] = held.pop(key) + x


def _moved(held: Any, key: str, x: Float) -> None:
    held.move_to_end(key)
    held[key] += x


@pytest.mark.parametrize("use", [_popped, _moved])
def test_dictionaries_have_their_order(use: Any) -> None:
    held: Any = OrderedDict(a=array(1), b=array(2))
    expected = OrderedDict(held)

    @dr.kernel
    def touch(key: str, x: Float) -> None:
        use(held, key, x)

    for key in "aab" * 3:
        touch(key, array(1))
        use(expected, key, array(1))
        assert list(held) == list(expected)
        assert_equal(list(held.values()), list(expected.values()))
    assert touch.n_recordings < 9


def test_arguments_have_their_order() -> None:
    @dr.kernel
    def last(held: dict[str, Float]) -> list[Any]:
        first = next(iter(held))
        held[first] = held.pop(first) * 2
        return [held[first], list(held)]

    for order in ("ab", "ab", "ba", "ba"):
        held = {key: array(ord(key)) for key in order}
        assert_equal(last(held), [array(2 * ord(order[0])), [*order[::-1]]])
        assert list(held) == [*order[::-1]]
    assert last.n_recordings == 2


def test_keys_are_part_of_what_is_reached() -> None:
    held = {"a": array(1)}

    @dr.kernel
    def f(x: Float) -> Float:
        return x + held["a"] if "a" in held else x

    assert_equal(f(array(1)), [2])
    held["b"] = held.pop("a")
    assert_equal(f(array(1)), [1])


@pytest.mark.parametrize("make", [set, deque, list])
def test_members_come_and_go(make: Any) -> None:
    held, expected = make(), make()

    def use(held: Any, k: int) -> None:
        if k in held:
            held.remove(k)
        else:
            (held.add if make is set else held.append)(k)

    @dr.kernel
    def f(x: Float, k: int) -> Float:
        use(held, k)
        return x * 2

    for k in (3, 3, 3, 3, 4, 3, 4, 3, 4):
        f(array(1), k)
        use(expected, k)
        assert held == expected
        assert all(type(v) is int for v in held)
    assert f.n_recordings < 9


@pytest.mark.parametrize("make", [itertools.count, lambda: iter([1.0, 2.0])])
def test_iterators_do_not_go_on(make: Any) -> None:
    numbers = make()

    @dr.kernel
    def f(x: Float) -> Float:
        return x * next(numbers)

    with pytest.raises(RecordingError, match=r"iterator of type .* go on, which a rep"):
        f(array(1))


@pytest.mark.parametrize("is_argument", [True, False])
def test_cycles_do_not_go_on(is_argument: bool) -> None:
    numbers = itertools.cycle([1, 2])

    @dr.kernel
    def f(x: Float, given: Any = None) -> Float:
        return x * next(given or numbers)

    for k in range(4):
        with pytest.raises(RecordingError, match="or cycle, which a replay can't have"):
            f(array(1), *[numbers] * is_argument)
        assert next(numbers) == 1 + k % 2


def _types(value: Any) -> Any:
    """Return the types of all that there is, keys and members, too."""
    if isinstance(value, dict):
        return [_types([*item]) for item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value).__name__, [_types(v) for v in value]
    return type(value)


LEFT: dict[str, Any] = {
    "item": lambda n: n,
    "tuple": lambda n: (1, n),
    "key": lambda n: {n: 1, (n, "a"): n + 1},
    "frozen set": lambda n: frozenset([n, n + 1]),
    "nested": lambda n: [{"a": {n: [n]}}],
}


@pytest.mark.parametrize("make", LEFT.values(), ids=LEFT.keys())
@pytest.mark.parametrize("fails", [False, True])
def test_no_recorded_number_is_left(make: Any, fails: bool) -> None:
    left: list[Any] = []
    cache: dict[Any, Any] = {}

    @dr.kernel
    def function(x: Float, n: int) -> Any:
        left[:] = [make(n)]
        cache[n, "x"] = cache["n"] = n
        if fails:
            raise KeyError(0)
        return [x * n, make(n)]

    for n in (2, 2, 3):
        cache.clear()
        expected = make(n)
        if fails:
            with pytest.raises(KeyError):
                function(Float(1), n)
        else:
            found = function(Float(1), n)[1]
            assert found == expected
            assert _types(found) == _types(expected)
        assert left == [expected]
        assert _types(left) == _types([expected])
        assert _types(cache) == _types({(n, "x"): n, "n": n})


def test_exceptions_come_through_where_a_list_contains_itself() -> None:
    left: list[Any] = []

    @dr.kernel
    def function(x: Float, n: int) -> Any:
        left.append(left[:] + [n])
        left[0].append(left[0])
        raise KeyError(n)

    with pytest.raises(KeyError):
        function(Float(1), 2)


def test_no_recorded_number_is_left_where_nothing_is_replayed() -> None:
    @dr.kernel(graph_breaks=True)
    def function(x: Float, n: int) -> Any:
        return x, {n}

    assert _types(function(Float(1), 2)[1]) == _types({2})


def _changed(value: Any) -> None:
    value[(0, 0) if isinstance(value, scalar.TensorXf) else 0] = 9


HOST: dict[str, Any] = {
    "tensor": lambda: scalar.TensorXf([1, 2, 3, 4], shape=(2, 2)),
    "array": lambda: scalar.ArrayXf(1, 2, 3),
    "static array": lambda: scalar.Array3f(1, 2, 3),
    "numpy": lambda: np.ones(2, np.float32),
}


@pytest.mark.parametrize("make", HOST.values(), ids=HOST.keys())
def test_memory_of_the_host_is_made_anew(make: Any) -> None:
    @dr.kernel
    def f(value: Any, x: Float) -> Any:
        made = value + 1
        return [made, made, x * 2]

    for k in range(3):
        found = f(make(), array(k))
        assert np.array_equal(found[0], make() + 1)
        assert found[0] is found[1]
        _changed(found[0])
    assert f.n_recordings == 1


@pytest.mark.parametrize("make", HOST.values(), ids=HOST.keys())
@pytest.mark.parametrize("is_argument", [True, False])
def test_memory_of_the_host_is_not_changed_in_place(
    make: Any, is_argument: bool
) -> None:
    held = make()

    @dr.kernel
    def f(x: Float, value: Any = None) -> Float:
        _changed(held if value is None else value)
        return x

    with pytest.raises(RecordingError, match="changes memory of the host in place"):
        f(array(1), make() if is_argument else None)


def test_arrays_of_objects_are_not_made_anew() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        made = np.empty(2, dtype=object)
        made[0] = x * 2
        return made

    with pytest.raises(RecordingError, match="new object of type 'ndarray'"):
        f(array(1))
