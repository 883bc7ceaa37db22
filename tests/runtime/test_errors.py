"""`errors`: how messages are worded."""

from __future__ import annotations

import pickle

import pytest

from lumijit.runtime import errors
from lumijit.runtime.errors import message, warn


def test_a_message_names_the_line_the_construct_and_the_mend() -> None:
    text = message("sum", "'x' is empty", "pass entries.")
    place, rest = text.split(": ", 1)
    assert rest == "sum: 'x' is empty. Fix: pass entries."
    assert "test_errors.py:" in place
    assert place.endswith("in test_a_message_names_the_line_the_construct_and_the_mend")


@pytest.mark.parametrize("problem", ["it ends.", "does it end?"])
def test_a_problem_that_ends_needs_no_stop(problem: str) -> None:
    assert message("sum", problem, "wait.").endswith(f": {problem} Fix: wait.")


def test_without_a_mend_the_problem_comes_last() -> None:
    assert message("sum", "'x' is empty").endswith("sum: 'x' is empty")


def test_warnings_name_the_users_line() -> None:
    with pytest.warns(UserWarning, match="look here") as caught:
        warn("look here", UserWarning)
    assert caught[0].filename == __file__


def test_an_error_words_its_parts_and_survives_pickling() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.LumijitError)
    ]
    for kind in kinds:
        error = kind("lumijit.f", "the size is odd", "pass an even one.")
        assert str(error).endswith("lumijit.f: the size is odd. Fix: pass an even one.")
        assert __file__ in str(error)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert str(again) == str(error)
        assert str(kind("worded already")) == "worded already"
