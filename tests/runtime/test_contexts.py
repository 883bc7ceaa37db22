"""Context managers made of generators, and Ctrl-C as they are entered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from lumijit.runtime.contexts import contextmanager

log: list[str] = []


@contextmanager
def noted(name: str) -> Iterator[str]:
    log.append(f"into {name}")
    try:
        yield name
    except KeyError:
        log.append("key")
    finally:
        log.append(f"out of {name}")


def test_it_works_as_that_of_the_library() -> None:
    log.clear()
    with noted("a") as name:
        assert name == "a"
    with noted("b"):
        raise KeyError
    with pytest.raises(ValueError, match="mine"), noted("c"):
        raise ValueError("mine")
    assert log == [
        *("into a", "out of a", "into b", "key"),
        *("out of b", "into c", "out of c"),
    ]


def test_what_has_been_entered_ends_at_once(monkeypatch: Any) -> None:
    """As if Ctrl-C came between the generator's `yield` and the block."""

    def interrupted(self: Any) -> Any:
        value = next(self.gen)
        if self.gen.__name__ == "noted":
            raise KeyboardInterrupt
        return value

    log.clear()
    monkeypatch.setattr(contextlib._GeneratorContextManager, "__enter__", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught, noted("a"):
        log.append("block")
    assert log == ["into a", "out of a"]
    del caught
