"""Functions that are made, and decorated, again: nested ones, methods of factories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Float, Int
from lumijit.runtime.errors import SyntaxTransformError
from lumijit.syntax import rewriting, syntax


def scaled(factor: Any, **options: Any) -> Callable[[Any], Any]:
    @syntax(**options)
    def f(x: Any, limit: Any = factor * 10) -> Any:
        """Multiply."""
        while x < limit:
            x *= factor
        return x

    return f


def test_code_is_shared_and_closures_are_not() -> None:
    two, three = scaled(2), scaled(3)
    assert two.__code__ is three.__code__
    assert two(1) == 32
    assert three(1) == 81
    assert list(two(Float(1, 30))) == [32, 30]
    assert list(three(Float(1, 30))) == [81, 30]
    assert two.__defaults__ == (20,)
    assert two.__doc__ == "Multiply."
    assert list(scaled(Float(2, 4))(Float(1, 1))) == [32, 64]


def test_printed_code_is_written_anew(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        scaled(2, print_code=True)
        assert "while_loop" in capsys.readouterr().out


def looped(hint: Any) -> Callable[[Any], Any]:
    @syntax
    def f(i: Any) -> Any:
        while hint(i < 5, label="counting"):
            i += 1
        return i

    return f


@pytest.mark.parametrize("is_hint_first", [False, True])
def test_names_may_mean_something_else(is_hint_first: bool) -> None:
    rewriting._known.clear()
    labels: list[str] = []

    def own(condition: Any, label: str) -> Any:
        labels.append(label)
        return condition

    names = [dr.hint, own] if is_hint_first else [own, dr.hint]
    for name in names:
        labels.clear()
        f = looped(name)
        assert list(f(Int(1, 7))) == [5, 7]
        assert bool(labels) is (name is own)


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x < 5


def left(test: Any) -> Callable[[Any], Any]:
    @syntax
    def f(x: Any) -> Any:
        while test(x):
            x += 1
            if x == 4:
                break
        return x

    return f


def test_conditions_that_may_change_something_are_evaluated_once() -> None:
    rewriting._known.clear()
    assert list(left(lambda x: x < 5)(Int(1, 5))) == [4, 5]
    for start, calls in ((1, 3), (4, 2)):
        test = Counting()
        assert left(test)(start) == (4 if start == 1 else 5)
        assert test.calls == calls


def test_code_that_is_known_is_refused_behind_another_decorator() -> None:
    def f(x: Any) -> Any:
        return x

    assert syntax(f)(2) == 2

    def g(x: Any) -> Any:
        return x

    f.__wrapped__ = g  # type: ignore[attr-defined]
    with pytest.raises(SyntaxTransformError, match="innermost decorator"):
        syntax(f)


@pytest.mark.parametrize(("bound", "kept"), [(4, 3), (2, 2)])
def test_what_is_kept_is_bounded(
    bound: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewriting._known.clear()
    monkeypatch.setattr(rewriting, "_KEPT", bound)
    for make in (lambda: scaled(2), lambda: looped(dr.hint), lambda: left(Counting())):
        make()
    assert len(rewriting._known) == kept
    assert scaled(2)(1) == 32
