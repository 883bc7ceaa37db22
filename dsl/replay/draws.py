"""Random numbers that a recorded function draws from Python or NumPy.

They would be the same ones in each replay. States of generators tell, and where other
threads may have drawn, so do the methods of Python's that this one has called. (Those
of NumPy's call nobody.)
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lumijit.control.locations import Location

Generator = random.Random | np.random.RandomState | np.random.Generator
_KINDS = (random.Random, np.random.RandomState, np.random.Generator)
# The generators behind the functions of the modules.
_FUNCTIONS: tuple[Any, ...] = (random.getstate, np.random.get_state)
_SHARED = tuple([function.__self__ for function in _FUNCTIONS])


class Draws:
    """Tells, after a `with` block, whether it drew from generators within reach."""

    def __init__(self, places: Sequence[Location]) -> None:
        self._places = places
        self._before = self._states()
        self._called: set[int] = set()
        self._has_company = len(sys._current_frames()) > 1

    def __enter__(self) -> Draws:
        self._is_watching = self._has_company and sys.getprofile() is None
        if self._is_watching:
            sys.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_watching:
            sys.setprofile(None)

    def _note(self, frame: Any, event: str, called: Any) -> None:
        del frame
        owner = getattr(called, "__self__", None) if event == "c_call" else None
        if isinstance(owner, random.Random) and called.__name__ != "getstate":
            self._called.add(id(owner))

    @property
    def drawer(self) -> str:
        """Who may have drawn."""
        others = ", or another thread meanwhile," if self._has_company else ""
        return f"the function{others}"

    def happened(self) -> bool:
        """Tell whether there are draws, of this thread as far as that can be told."""
        after = self._states()
        if after.keys() != self._before.keys():
            return True
        for key, (generator, state) in after.items():
            is_told = self._is_watching and isinstance(generator, random.Random)
            is_mine = key in self._called or not is_told
            if is_mine and state != self._before[key][1]:
                return True
        return False

    def _states(self) -> dict[int, tuple[Generator, Any]]:
        """Return generators and their states."""
        held = [v for place in self._places for v in place.current().values()]
        found = [v for v in (*_SHARED, *held) if isinstance(v, _KINDS)]
        return {id(v): (v, _state(v)) for v in found}


def _state(generator: Generator) -> Any:
    if isinstance(generator, np.random.Generator):
        return _comparable(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return _comparable(generator.get_state())
    return generator.getstate()


def _comparable(state: Any) -> Any:
    """Return the state of a generator of NumPy's as something that `==` compares."""
    if isinstance(state, np.ndarray):
        return state.tobytes()
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return tuple(map(_comparable, state)) if isinstance(state, tuple) else state
