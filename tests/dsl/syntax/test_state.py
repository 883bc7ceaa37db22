"""Which variables become state, and how hints and mutable state are handled."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import pytest

from lumijit.syntax import hint, hints, syntax
from tests.dsl.syntax.fake_control import Control, Lanes
from tests.dsl.syntax.lanes import define

ARRAY: Any = Lanes([1, 5])


@dataclasses.dataclass
class Point:
    x: Any
    y: Any

    def move(self) -> Any:
        self.x = self.x + 1
        return self.x


class Opaque:
    def __init__(self, count: Any) -> None:
        self.count = count


def lanes(value: Any) -> Any:
    return value.values.tolist()


def test_loop_state_follows_liveness(control: Control) -> None:
    @syntax
    def f(x: Any, unused: Any) -> Any:
        limit = unused * 0 + 9
        scratch = unused
        while x < limit:
            scratch = x * 2
            x = x + scratch
        return x

    f(ARRAY, ARRAY)
    ((_, record),) = control.calls
    assert record["state"] == ("limit", "x")


def test_branch_results_follow_liveness(control: Control) -> None:
    @syntax
    def f(x: Any, y: Any) -> Any:
        if x > 2:
            a = x + 1
            x = a
            dead = a
        else:
            dead = y  # noqa: F841
        return x, y

    f(ARRAY, ARRAY)
    ((_, record),) = control.calls
    assert record == {"args": ("x", "y"), "results": ("x",)}


def test_a_return_in_every_branch_needs_no_flags(control: Control) -> None:
    @syntax
    def f(x: Any) -> Any:
        if x > 2:
            return x
        y = x * 2
        return y

    f(ARRAY)
    ((_, record),) = control.calls
    assert record == {"args": ("x",), "results": ("return value",)}


def test_hints_are_forwarded(control: Control) -> None:
    @syntax
    def f(x: Any, name: str) -> Any:
        while hints.hint(
            x < 9, mode="evaluated", label=name, strict=False, max_iterations=20
        ):
            if hint(x > 4, label="inner"):
                x += 1
            x += 1
        for _ in hint(range(x), compress=True):
            x += 1
        return x

    f(ARRAY, "outer")
    (first, *_, last) = (c for c in control.calls if c[0] == "while_loop")
    assert first[1] == {
        "state": ("x",),
        "mode": "evaluated",
        "label": "outer",
        "strict": False,
        "max_iterations": 20,
        "first": None,
    }
    assert last[1]["compress"] is True
    inner = [c[1] for c in control.calls if c[0] == "if_stmt"]
    assert inner[0]["label"] == "inner"


def test_mode_sends_a_plain_condition_to_the_primitive(control: Control) -> None:
    @syntax
    def f(x: Any, mode: Any) -> Any:
        i = 0
        while hint(i < 3, mode=mode):
            i = i + 1
        if hint(i == 3, mode=mode):
            x = x + i
        return x

    assert f(1, None) == 4
    assert f(1, "scalar") == 4
    assert control.calls == []
    assert lanes(f(ARRAY, "symbolic")) == [4, 8]
    assert [c[0] for c in control.calls] == ["while_loop", "if_stmt"]


def test_mode_scalar_takes_the_truth_value() -> None:
    @syntax
    def f(x: Any) -> Any:
        if hint(x > 2, mode="scalar"):
            x = x + 1
        return x

    with pytest.raises(TypeError, match="ambiguous"):
        f(ARRAY)


def test_include_and_exclude(control: Control) -> None:
    @syntax
    def f(x: Any, y: Any, z: Any) -> Any:
        while hint(x < 9, include=[z], exclude=[y]):
            x = x + y
        return x, z

    x, _ = f(ARRAY, Lanes([2, 3]), ARRAY)
    assert lanes(x) == [9, 11]
    ((_, record),) = control.calls
    assert record["state"] == ("x", "z")


def test_hint_returns_its_argument() -> None:
    assert hint(ARRAY, mode="symbolic") is ARRAY


def test_a_foreign_hint_is_an_ordinary_call(control: Control) -> None:
    def other(value: Any, weight: int) -> Any:
        return value

    text = "def f(x):\n    if hint(x > 2, weight=1):\n        x = -x\n    return x\n"
    assert lanes(syntax(define(text, hint=other))(ARRAY)) == [1, -5]


def test_attributes_of_a_tree_are_state() -> None:
    @syntax
    def f(p: Point) -> Any:
        while p.x < 4:
            p.x += 1
            if p.x > 2:
                p.y = p.y + p.x
        return p

    point = Point(ARRAY, ARRAY * 10)
    result = f(point)
    assert result is point
    assert lanes(point.x) == [4, 5]
    assert lanes(point.y) == [17, 50]


def test_a_method_may_change_its_tree() -> None:
    @syntax
    def f(p: Point, x: Any) -> Any:
        if x > 2:
            p.move()
        while p.move() < 8:
            x += 1
        return x

    point = Point(ARRAY, 0)
    assert lanes(f(point, ARRAY)) == [7, 6]
    assert lanes(point.x) == [8, 8]


def test_attributes_of_an_opaque_object_are_state() -> None:
    @syntax
    def f(o: Opaque, x: Any) -> Any:
        while x < 4:
            x += 1
            if x > 2:
                o.count += x
        return x

    opaque = Opaque(Lanes([0, 100]))
    f(opaque, ARRAY)
    assert lanes(opaque.count) == [7, 100]
    plain = Opaque(0)
    f(plain, 1)
    assert plain.count == 7


def test_a_list_in_a_closure_is_changed_in_place() -> None:
    log = [ARRAY * 0]

    @syntax
    def f(x: Any) -> None:
        if x > 2:
            log[0] = log[0] + x

    f(ARRAY)
    assert lanes(log[0]) == [0, 5]


def test_plain_conditions_never_reach_the_primitives(control: Control) -> None:
    @syntax
    def f(x: Any, n: int) -> Any:
        for i in range(n):
            if i % 2 == 0 and n > 1:
                x = x + i
            elif not i:
                continue
        while n > 0:
            n -= 1
            x = x * 2 if n else x
        return x

    assert lanes(f(ARRAY, 3)) == [12, 28]
    assert control.calls == []


def test_plain_operands_keep_short_circuits() -> None:
    log: list[str] = []

    def see(name: str, value: Any) -> Any:
        log.append(name)
        return value

    @syntax
    def f(a: Any, b: Any) -> Any:
        return (
            see("a", a) and see("b", b),
            see("c", a) or see("d", b),
            not see("e", a),
            0 < see("f", a) < see("g", b),
            see("h", 1) if see("i", a) else see("j", 2),
        )

    assert f(0, 7) == (0, 7, True, False, 2)
    assert log == ["a", "c", "d", "e", "f", "i", "j"]
    log.clear()
    assert f(3, 7) == (7, 3, False, True, 1)
    assert log == ["a", "b", "c", "e", "f", "g", "i", "h"]


def test_truth_is_asked_once() -> None:
    class Judge:
        asked = 0

        def __bool__(self) -> bool:
            self.asked += 1
            return self.asked < 3

    @syntax
    def f(judge: Any) -> int:
        n = 0
        while judge:
            n += 1
        return n

    judge = Judge()
    assert f(judge) == 2
    assert judge.asked == 3


def test_print_code_shows_code_that_parses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @syntax(print_code=True)
    def f(x: Any) -> Any:
        while x < 3:
            x += 1
        return x

    shown = capsys.readouterr().out
    ast.parse(shown)
    assert "_lj_runtime.while_loop((x,)" in shown
    assert lanes(f(ARRAY)) == [3, 5]


def test_print_ast_shows_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    @syntax(print_ast=True)
    def f(x: Any) -> Any:
        return x if x > 1 else 1

    assert "FunctionDef" in capsys.readouterr().out
    assert f(0) == 1


def test_a_value_first_assigned_in_a_loop_can_t_be_read_after_it() -> None:
    @syntax
    def f(x: Any) -> Any:
        while x < 9:
            last = x
            x = x + 3
        return last

    with pytest.raises(UnboundLocalError, match="elements that don't enter"):
        f(ARRAY)


class Counter:
    def __init__(self, count: Any) -> None:
        self.__count = count
        self.log: list[Any] = [count * 0]

    @syntax
    def add(self, x: Any) -> None:
        if x > 2:
            self.__count += x
            self.log[0] = x

    @property
    def count(self) -> Any:
        return self.__count


def test_private_attributes_and_lists_of_an_opaque_object() -> None:
    counter = Counter(ARRAY)
    log = counter.log
    counter.add(ARRAY)
    assert lanes(counter.count) == [1, 10]
    assert counter.log is log
    assert lanes(log[0]) == [0, 5]


def test_an_attribute_is_restored_when_a_branch_fails() -> None:
    @syntax
    def f(o: Opaque, x: Any) -> Any:
        if x > 2:
            o.count = x
            {}["no"]  # type: ignore[index]

    opaque = Opaque(7)
    with pytest.raises(KeyError):
        f(opaque, ARRAY)
    assert opaque.count == 7


def test_incompatible_results_are_reported_by_the_primitive() -> None:
    @syntax
    def f(x: Any) -> Any:
        if x > 2:
            return "text"
        return x

    with pytest.raises(TypeError, match="'return value' has incompatible values"):
        f(ARRAY)
