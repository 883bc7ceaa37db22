"""Containers that the functions of a construct get as copies, and hand back.

Where every function returns the very object that it was given, the result is the
caller's object, with what the construct has made of it: a random generator, a list, a
struct. (`@syntax` tells by names; this is for constructs that are called as functions.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from lumijit.base import ArrayBase
from lumijit.pytree import Parts, kind_of


class Refilled:
    """Which containers of results are those that functions were given.

    `is_loop`: results are arguments of the next call, which has the same places.
    """

    def __init__(self, values: Sequence[Any], is_loop: bool) -> None:
        self._own = Parts(values).containers
        self._is_loop = is_loop
        self._places: dict[int, int] | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is any container that can be filled again."""
        return any(_can_refill(container) for container in self._own)

    def noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that notes what of its arguments it returns."""

        def noted(*args: Any) -> Any:
            given = Parts(args).containers
            result = function(*args)
            self._note(given, result)
            return result

        return noted

    def _note(self, given: list[Any], result: Any) -> None:
        places = {id(container): k for k, container in enumerate(given)}
        containers = Parts(result if type(result) is tuple else (result,)).containers
        found = {
            k: places[id(container)]
            for k, container in enumerate(containers)
            if id(container) in places
        }
        if self._is_loop:
            found = {k: place for k, place in found.items() if k == place}
        known = self._places
        if known is not None:
            found = dict(found.items() & known.items())
        self._places = found

    def result(self, value: Any) -> Any:
        """Return a construct's result, in the caller's containers."""
        if not self._places:
            return value
        if type(value) is tuple:
            places = count()
            return tuple([self._put(part, places) for part in value])
        return self._put(value, count())

    def _put(self, value: Any, places: Iterator[int]) -> Any:
        kind = kind_of(type(value))
        if kind is None:
            return value
        place = next(places)
        keys = kind.keys(value)
        old = kind.parts(value, keys)
        new = [self._put(part, places) for part in old]
        assert self._places is not None
        own = self._own[self._places[place]] if place in self._places else None
        if type(own) is type(value) and own is not value and _can_refill(own):
            if isinstance(own, list):
                own[:] = new
            elif isinstance(own, dict):
                own.update(zip(keys, new, strict=True))
            else:
                for name, part in zip(keys, new, strict=True):
                    object.__setattr__(own, name, part)
            return own
        is_same = all(a is b for a, b in zip(old, new, strict=True))
        return value if is_same else kind.build(value, keys, new)


def _can_refill(container: Any) -> bool:
    """Tell whether a container is a list, a dictionary or a struct of the user's."""
    if isinstance(container, (list, dict)):
        return True
    cls = type(container)
    return not (isinstance(container, (tuple, ArrayBase)) or hasattr(cls, "_rebuilt"))
