"""The rewritten function is the same kind of object as the original."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
import traceback
from typing import Any

import pytest

from lumijit.syntax import syntax
from tests.dsl.syntax.fake_control import Lanes
from tests.dsl.syntax.lanes import define

missing: Any  # Never assigned.
LIMIT = 6


def test_closure_cells_are_shared() -> None:
    limit = 3

    @syntax
    def f(x: Any) -> Any:
        while x < limit:
            x += 1
        return x

    assert f(0) == 3
    limit = 5
    assert f(0) == 5
    assert f(Lanes([0, 7])).values.tolist() == [5, 7]


def test_nonlocal_is_written_in_plain_and_vectorized_code() -> None:
    total: Any = 0

    @syntax
    def f(x: Any) -> None:
        nonlocal total
        while x < 3:
            x += 1
            total = total + x

    f(0)
    assert total == 6
    f(Lanes([1, 2, 3]))
    assert total.values.tolist() == [11, 9, 6]


def test_an_empty_closure_cell_may_be_filled_later() -> None:
    @syntax
    def even(n: int) -> bool:
        return True if n == 0 else odd(n - 1)

    @syntax
    def odd(n: int) -> bool:
        return False if n == 0 else even(n - 1)

    assert even(10)
    assert not even(7)


def test_defaults_and_annotations_are_kept() -> None:
    marker = object()

    @syntax
    def f(
        a: Any, /, b: int = 2, *rest: Any, c: Any = marker, d: int, **others: Any
    ) -> Any:
        if a > 0:
            b = b + 1
        return b, rest, c, d, others

    assert f(1, d=4) == (3, (), marker, 4, {})
    assert f(0, 5, 6, 7, c=1, d=2, e=3) == (5, (6, 7), 1, 2, {"e": 3})
    assert f.__name__ == "f"
    assert f.__qualname__.endswith("<locals>.f")
    assert f.__module__ == __name__
    assert f.__annotations__["b"] == "int"
    assert f.__kwdefaults__ == {"c": marker}
    assert list(inspect.signature(f).parameters) == [
        "a",
        "b",
        "rest",
        "c",
        "d",
        "others",
    ]
    assert inspect.unwrap(f).__code__ is not f.__code__


def test_function_attributes_and_docstring_are_kept() -> None:
    def f(x: Any) -> Any:
        """Say what it does."""
        return x if x > 0 else -x

    vars(f)["extra"] = 7
    g = syntax(f)
    assert g.__doc__ == "Say what it does."
    assert vars(g)["extra"] == 7
    assert syntax(g) is g


class Base:
    def shift(self, x: Any) -> Any:
        return x + 1


class Derived(Base):
    __scale = 3

    @syntax
    def shift(self, x: Any) -> Any:
        while x < 9:
            x = super().shift(x) * self.__scale
        return x

    @syntax
    def shift_once(self, x: Any) -> Any:
        if x < 9:
            x = super().shift(x) * Derived.__scale + len(Derived.__name__)
        return x

    @syntax
    @staticmethod
    def low(x: Any) -> Any:
        return x if x < 3 else 3

    @staticmethod
    @syntax
    def high(x: Any) -> Any:
        return x if x > 3 else 3

    @syntax
    @classmethod
    def name_or(cls, x: Any) -> Any:
        if x > 0:
            x = -x
        return cls.__name__, x

    @property
    @syntax
    def sign(self) -> int:
        return 1 if self.__scale > 0 else -1


def test_methods_and_super() -> None:
    assert Derived().shift(1) == 21
    assert Derived().shift(Lanes([1, 20])).values.tolist() == [21, 20]
    # (Which name their own class.)
    assert Derived().shift_once(Lanes([1, 20])).values.tolist() == [13, 20]


def test_static_and_class_methods_in_either_order() -> None:
    assert Derived.low(Lanes([1, 9])).values.tolist() == [1, 3]
    assert Derived().high(Lanes([1, 9])).values.tolist() == [3, 9]
    assert Derived.name_or(3) == ("Derived", -3)
    assert Derived().sign == 1


def test_decorators_above_are_applied_once() -> None:
    calls = []

    def log(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            calls.append(args)
            return function(*args)

        return wrapper

    @log
    @syntax
    def f(x: Any) -> Any:
        return x if x > 1 else 1

    assert f(5) == 5
    assert calls == [(5,)]


def test_globals_are_read_live(monkeypatch: pytest.MonkeyPatch) -> None:
    @syntax
    def f(x: Any) -> Any:
        while x < LIMIT:
            x += 1
        return x

    assert f(Lanes([0, 7])).values.tolist() == [6, 7]
    monkeypatch.setitem(globals(), "LIMIT", 8)
    assert f(0) == 8


def test_a_traceback_shows_the_users_lines() -> None:
    @syntax
    def f(x: Any) -> Any:
        while x < 3:
            if x > 1:
                x = x + missing  # noqa: F821
            x += 1
        return x

    first = inspect.unwrap(f).__code__.co_firstlineno
    for x in (2, Lanes([2, 0])):
        with pytest.raises(NameError) as caught:
            f(x)
        frames = traceback.extract_tb(caught.value.__traceback__)
        own = [frame for frame in frames if frame.filename == __file__][1:]
        assert own[-1].lineno == first + 4
        assert own[-1].line == "x = x + missing  # noqa: F821"
        assert {frame.name for frame in own} == {"f"}
        assert all(first < (frame.lineno or 0) <= first + 4 for frame in own)


def test_generators_keep_working() -> None:
    @syntax
    def f(n: int) -> Any:
        i = 0
        while i < n:
            if i % 2 == 0:
                yield i
            i += 1

    assert list(f(5)) == [0, 2, 4]


def test_coroutines_keep_working() -> None:
    @syntax
    async def f(x: Any) -> Any:
        if x > 2:
            x = x - 1
        await asyncio.sleep(0)
        return x

    assert asyncio.run(f(Lanes([1, 5]))).values.tolist() == [1, 4]


def test_inner_functions_are_plain_unless_recursive() -> None:
    text = """
def f(x):
    def g(v):
        if v > 2:
            v = v - 1
        return v
    return g(x)
"""
    with pytest.raises(TypeError, match="ambiguous"):
        syntax(define(text))(Lanes([1, 5]))
    deep = syntax(define(text), recursive=True)
    assert deep(5) == 4
    assert deep(Lanes([1, 5])).values.tolist() == [1, 4]


def test_recursive_reaches_functions_in_functions_in_blocks() -> None:
    text = """
def f(x):
    k = 0
    while x < 5:
        def g(v):
            nonlocal k
            def h(w):
                while w > 2:
                    w -= 1
                return w
            if v > 2:
                k = k + h(v)
            return v
        x = g(x) + 1
    return x, k
"""
    deep = syntax(define(text), recursive=True)
    assert deep(1) == define(text)(1) == (5, 4)
    x, k = deep(Lanes([1, 4, 9]))
    assert x.values.tolist() == [5, 5, 9]
    assert k.values.tolist() == [4, 2, 0]


def test_tabs_and_odd_indentation() -> None:
    text = "if True:\n\tdef f(x):\n\t\tif x > 0:\n\t\t\tx = -x\n\t\treturn x\n"
    assert syntax(define(text))(Lanes([3, -1])).values.tolist() == [-3, -1]


def test_private_names_of_an_enclosing_class() -> None:
    class Outer:
        def __hidden(self) -> int:
            return 4

        def make(self) -> Any:
            @syntax
            def f(x: Any) -> Any:
                return self.__hidden() if x > 0 else x

            return f

    assert Outer().make()(Lanes([1, -1])).values.tolist() == [4, -1]


def test_many_sequential_returns_stay_linear() -> None:
    lines = ["def f(x):"]
    for i in range(40):
        lines += [f"    if x == {i}:", f"        return {i * i}"]
    lines += ["    return -1", ""]
    start = time.perf_counter()
    f = syntax(define("\n".join(lines)))
    assert f(Lanes([3, 39, 50])).values.tolist() == [9, 1521, -1]
    assert time.perf_counter() - start < 10


def test_deep_nesting_stays_polynomial() -> None:
    lines = ["def f(x):"]
    for depth in range(12):
        lines.append("    " * (depth + 1) + f"while x < {depth + 1}:")
    lines += ["    " * 13 + "x += 1", "    return x", ""]
    f = syntax(define("\n".join(lines)))
    assert f(0) == 12
    assert f(Lanes([0, 5])).values.tolist() == [12, 5]


def test_long_chains_of_elif() -> None:
    lines = ["def f(x):", "    if x == 0:", "        y = 0"]
    for i in range(1, 70):
        lines += [f"    elif x == {i}:", f"        y = {i * i}"]
    lines += ["    else:", "        y = -1", "    return y", ""]
    f = syntax(define("\n".join(lines)))
    assert f(60) == 3600
    assert f(Lanes([3, 69, 99])).values.tolist() == [9, 4761, -1]


def test_a_notebook_cell() -> None:
    text = "@syntax\ndef f(x):\n    return x if x > 0 else -x\n"
    f = define(text, syntax=syntax)
    assert f(Lanes([-1, 2])).values.tolist() == [1, 2]


def test_type_comments_and_annotations_survive() -> None:
    text = """
def f(x):  # type: (int) -> int
    y: int
    y = 0  # type: int
    z: int = 1
    for i in range(3):  # type: int
        if x > i:
            y += z
    return y
"""
    assert syntax(define(text))(Lanes([0, 2, 9])).values.tolist() == [0, 2, 3]
