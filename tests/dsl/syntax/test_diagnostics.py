"""Errors of `@syntax`: wording, file, line and caret."""

from __future__ import annotations

import functools
import linecache
from typing import Any

import pytest

from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    SyntaxTransformError,
)
from lumijit.syntax import UndefinedVariableError, hint, syntax
from tests.dsl.syntax.fake_control import Lanes
from tests.dsl.syntax.lanes import define

ARRAY = Lanes([1, 5])


def refused(text: str, match: str, caret: str, **names: Any) -> None:
    """Check that `f` runs for numbers, but is refused for arrays at `caret`."""
    function = syntax(define(text, **names))
    with pytest.raises(SyntaxTransformError, match=match) as caught:
        list(function(ARRAY))
    shown = str(caught.value).splitlines()
    line, pointer = shown[-2:]
    assert line[pointer.index("^") :].startswith(caret), shown
    number = [line.strip() in t for t in text.splitlines()].index(True) + 1
    assert f">:{number} in f: @syntax: " in shown[0]
    assert caught.value.lineno == number


def test_yield_in_a_vectorized_loop() -> None:
    text = "def f(x):\n    while x < 3:\n        yield x\n        x += 1\n"
    refused(text, r"'yield' can't be part of vectorized control flow", "yield x")
    assert list(syntax(define(text))(1)) == [1, 2]


def test_yield_in_a_vectorized_branch() -> None:
    text = "def f(x):\n    if x < 3:\n        y = yield x\n"
    refused(text, "'yield' can't be part", "yield x")


def test_await_in_a_vectorized_branch() -> None:
    text = "async def f(x):\n    if x < 3:\n        await other()\n"
    with pytest.raises(SyntaxTransformError, match="'await' can't be part"):
        syntax(define(text))(ARRAY).send(None)


@pytest.mark.parametrize("word", ["for k in x", "with x"])
def test_asynchronous_statements(word: str) -> None:
    text = f"async def f(x):\n    if x < 3:\n        async {word}:\n            pass\n"
    kind = word.split()[0]
    with pytest.raises(SyntaxTransformError, match=f"'async {kind}' can't be part"):
        syntax(define(text))(ARRAY).send(None)


def test_try_with_except_around_a_vectorized_branch() -> None:
    text = """
def f(x):
    try:
        if x < 3:
            x += 1
    except ValueError:
        pass
    return x
"""
    refused(text, "this statement inside 'try' with 'except' can't be part", "if x < 3")
    assert syntax(define(text))(1) == 2


@pytest.mark.parametrize(
    ("statement", "caret"),
    [
        ("while x < 3:\n            x += 1", "while x < 3"),
        ("for i in range(x):\n            x += 1", "for i in"),
    ],
)
def test_try_with_except_around_a_vectorized_loop(statement: str, caret: str) -> None:
    text = f"""
def f(x):
    try:
        {statement}
    except ValueError:
        pass
    return x
"""
    refused(text, "inside 'try' with 'except' can't be part", caret)


def test_a_jump_out_of_try_in_a_vectorized_loop() -> None:
    text = """
def f(x):
    while x < 3:
        try:
            x += 1
            break
        except ValueError:
            pass
    return x
"""
    refused(text, "a jump inside 'try' with 'except' can't be part", "try:")
    assert syntax(define(text))(1) == 2


def test_match_on_an_array() -> None:
    text = """
def f(x):
    match x:
        case 1:
            return 1
        case n if n > 3:
            return 2
    return 3
"""
    refused(text, "'match' on an array can't be part", "match x")
    assert [syntax(define(text))(v) for v in (1, 5, 2)] == [1, 2, 3]


def test_match_guard_on_an_array() -> None:
    text = """
def f(x):
    match 1:
        case n if x > 3:
            return 2
    return 3
"""
    refused(text, "'match' on an array can't be part", "match 1")
    refused(text, "write 'if' and 'elif'", "match 1")


def test_assignment_to_a_global() -> None:
    text = """
def f(x):
    global total
    if x < 3:
        total = x
    return total
"""
    match = "an assignment to the global variable 'total' can't be part"
    refused(text, match, "total = x", total=7)
    assert syntax(define(text, total=7))(5) == 7


def test_walrus_for_some_elements_in_a_comprehension() -> None:
    text = "def f(x):\n    return [x > 1 and (z := x + k) > 2 for k in range(2)]\n"
    refused(text, "an assignment .':='. for some elements, in a comprehension", "x > 1")
    assert syntax(define(text))(1) == [False, False]


def test_async_generators_are_plain() -> None:
    text = "async def f(x):\n    if x < 3:\n        x += 1\n    yield x\n"
    agen = syntax(define(text))(ARRAY)
    with pytest.raises(SyntaxTransformError, match="in an asynchronous generator"):
        agen.__anext__().send(None)


def test_a_variable_without_value_in_one_branch() -> None:
    text = """
def f(x):
    if x < 3:
        y = x
    z = x + 1
    return y + z
"""
    function = syntax(define(text))
    match = (
        r":6 in f: @syntax: variable 'y' is read, but it has no value here: a "
        r"vectorized branch leaves it without one \('if' at .*:3\)\. Fix: assign 'y'"
    )
    with pytest.raises(UndefinedVariableError, match=match):
        function(ARRAY)
    assert function(1) == 3
    with pytest.raises(UnboundLocalError, match="'y'"):
        function(4)


def test_a_variable_without_value_fails_when_captured() -> None:
    text = """
def f(x):
    if x < 3:
        y = x
    return [(lambda: y + 1)()]
"""
    with pytest.raises(UndefinedVariableError, match="variable 'y' is read"):
        syntax(define(text))(ARRAY)


def test_a_lambda() -> None:
    with pytest.raises(SyntaxTransformError, match=r"a lambda can't.*'def'"):
        syntax(lambda x: x)


def test_something_that_is_no_function() -> None:
    with pytest.raises(SyntaxTransformError, match=r"an object of type 'type'"):
        syntax(int)


def test_a_decorator_below() -> None:
    def other(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    with pytest.raises(SyntaxTransformError, match="@syntax the innermost"):

        @syntax
        @other
        def f(x: Any) -> Any:
            return x


def test_source_that_cannot_be_found() -> None:
    namespace: dict[str, Any] = {}
    # (From Python 3.13 on, "<string>" is what `python -c` runs.)
    exec(compile("def f(x):\n    return x\n", "<nowhere>", "exec"), namespace)
    with pytest.raises(SyntaxTransformError, match=r"can't be found.*linecache"):
        syntax(namespace["f"])


def test_source_that_has_changed() -> None:
    function = define("def f(x):\n    return x\n")
    name = function.__code__.co_filename
    linecache.cache[name] = (1, None, ["def g(x):\n", "    return x\n"], name)
    with pytest.raises(SyntaxTransformError, match="not that of this function"):
        syntax(function)
    linecache.cache[name] = (1, None, ["def f(x:\n", "    return x\n"], name)
    with pytest.raises(SyntaxTransformError, match="can't be"):
        syntax(function)


def test_range_with_step_zero() -> None:
    text = "def f(x):\n    for i in range(0, x, 0):\n        pass\n"
    with pytest.raises(ArrayValueError, match=r":2 in f.*a step of zero"):
        syntax(define(text))(ARRAY)


def test_range_of_floats() -> None:
    text = "def f(x):\n    for i in range(x):\n        pass\n"
    with pytest.raises(ArrayTypeError, match="bound of type 'Lanes'"):
        syntax(define(text))(Lanes([1.5]))


@pytest.mark.parametrize(
    ("text", "match", "caret"),
    [
        ("hint(x > 1, speed=3)", "unknown keyword 'speed'", "3)"),
        ("hint(x > 1, max_iterations=3)", "applies to loops only", "3)"),
        ("hint(x > 1, include=x)", "list of local variables", "x)"),
        ("hint(x > 1, exclude=[x.y])", "list of local variables", "[x.y]"),
        ("hint(x > 1, 2)", "exactly one condition", "hint("),
    ],
)
def test_hints_are_checked_when_decorating(text: str, match: str, caret: str) -> None:
    function = define(f"def f(x):\n    if {text}:\n        pass\n", hint=hint)
    with pytest.raises(SyntaxTransformError, match=match) as caught:
        syntax(function)
    line, pointer = str(caught.value).splitlines()[-2:]
    assert line[pointer.index("^") :].startswith(caret)


def test_control_flow_that_is_nested_too_deeply() -> None:
    lines = ["def f(x):", "    if x == 0:", "        y = 0"]
    for i in range(1, 600):
        lines += [f"    elif x == {i}:", f"        y = {i * i}"]
    with pytest.raises(SyntaxTransformError, match="nested too deeply"):
        syntax(define("\n".join([*lines, ""])))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize(
    ("text", "match", "caret"),
    [
        (
            "def f(x):\n    while hint(x < 3, mode='MODE'):\n        yield x\n",
            "'yield' can't be part of vectorized control flow, which mode='MODE' asks",
            "yield x",
        ),
        (
            "async def f(x):\n    if hint(x < 3, mode='MODE'):\n        await x\n",
            "'await' can't be part",
            "await x",
        ),
        (
            "def f(x):\n    try:\n        if hint(x < 3, mode='MODE'):\n"
            "            x = 1\n    except ValueError:\n        pass\n",
            "inside 'try' with 'except' can't be part",
            "if hint",
        ),
        (
            "def f(x):\n    global y\n    if hint(x < 3, mode='MODE'):\n"
            "        y = 1\n",
            "an assignment to the global variable 'y' can't be part",
            "y = 1",
        ),
    ],
)
def test_a_mode_has_syntax_refused_when_decorating(
    text: str, match: str, caret: str, mode: str
) -> None:
    function = define(text.replace("MODE", mode), hint=hint, y=0)
    with pytest.raises(SyntaxTransformError, match=match.replace("MODE", mode)) as e:
        syntax(function)
    line, pointer = str(e.value).splitlines()[-2:]
    assert line[pointer.index("^") :].startswith(caret)


def test_the_scalar_mode_has_nothing_refused() -> None:
    text = """
def f(x):
    while hint(x < 3, mode="scalar"):
        yield x
        x += 1
"""
    assert list(syntax(define(text, hint=hint))(1)) == [1, 2]
