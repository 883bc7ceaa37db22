"""Some random programs have the derivatives that differences say."""

from __future__ import annotations

import functools

import pytest

from lumijit.compiler.ir.ops.arithmetic import MUL
from lumijit.runtime import cpu
from tests.fuzz.derivatives import Check, Mismatch
from tests.fuzz.smooth import Writer
from tests.targets import written_for

COUNT = 150


@pytest.fixture(autouse=True)
def _quick_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Almost all of the time would be LLVM's."""
    compile_ir = functools.partial(cpu.compile_ir, opt_level=0)
    monkeypatch.setattr(cpu, "compile_ir", compile_ir)


@pytest.mark.parametrize("number", range(COUNT))
def test_derivatives_agree_with_differences(number: int) -> None:
    kinds = {"writes": number % 3 == 0, "customs": number % 5 == 0}
    writer = Writer(f"smooth {number}", **kinds)
    text = writer.text()
    check = Check(text, writer.data)
    with written_for("packet" if number % 50 == 0 else "thread"):
        for is_symbolic in (True, False):
            try:
                check.compare(is_symbolic)
            except Mismatch as error:
                pytest.fail(f"{error}\n{text}")


@pytest.mark.parametrize("number", range(12))
def test_second_derivatives_agree_with_differences(number: int) -> None:
    writer = Writer(f"smooth {number}", writes=number % 2 == 0)
    text = writer.text()
    check = Check(text, writer.data)
    with written_for("thread"):
        try:
            assert check.compare_twice(number % 4 != 3)
        except Mismatch as error:
            pytest.fail(f"{error}\n{text}")


TEXT = """@syntax
def program(dr, t, a, b, c, w, table, n, img, at):
    while a < 2:
        a = a + 0.3 + b * b * c
    return a, b, c
"""


def test_wrong_derivatives_are_found() -> None:
    check = Check(TEXT, Writer("data").data)
    check.compare(True)
    right = MUL.derivative
    assert isinstance(right, tuple)
    object.__setattr__(MUL, "derivative", (right[0], right[0]))
    try:
        for is_symbolic in (True, False):
            kind = "symbolic" if is_symbolic else "evaluated"
            with pytest.raises(Mismatch, match=f"{kind} forward: .*, differences: "):
                check.compare(is_symbolic)
    finally:
        object.__setattr__(MUL, "derivative", right)


def test_places_without_derivatives_are_left() -> None:
    places = iter([0.0, 0.0, 0.5])

    def data() -> tuple[dict[str, list[float]], list[int]]:
        numbers = {"a": [next(places)], "b": [1.0], "c": [1.0], "w": [1.0]}
        return {**numbers, "table": [0.0]}, [1]

    text = TEXT.replace("while a < 2:", "if a < 2:").replace("a + 0.3", "abs(a)")
    check = Check(text, data)
    assert check.kinks == 2
    check.compare(True)
    places = iter([0.0] * 100)
    with pytest.raises(Mismatch, match="not differentiable at 10 places"):
        Check(text, data)


def test_a_seed_stands_for_a_program() -> None:
    assert Writer("a").text() == Writer("a").text() != Writer("b").text()
    assert "break" not in Writer("smooth 6", jumps=False).text()
