"""The one traversal of containers."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Float
from lumijit.pytree import (
    copied,
    is_container,
    rebuild,
    struct_fields,
    tree_leaves,
    tree_map,
)
from lumijit.runtime.errors import ArrayTypeError

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 2


class Struct:
    DRJIT_STRUCT = {"a": Float, "b": int}

    def __init__(self):
        self.a = 1
        self.b = 2


class Demanding:
    DRJIT_STRUCT = {"a": int}

    def __init__(self, a):
        self.a = a


def test_all_containers_are_rebuilt():
    struct = Struct()
    tree = [1, (2, {"k": 3}), Point(4, 5), Frozen(6), struct]
    doubled = tree_map(lambda v: v * 2, tree)
    assert doubled[:4] == [2, (4, {"k": 6}), Point(8, 10), Frozen(12, 4)]
    assert (doubled[4].a, doubled[4].b) == (2, 4)
    assert doubled[4] is not struct


def test_paths_name_the_leaves():
    tree = {"a": [1], "p": Point(2, 3), "s": Struct()}
    assert [path for path, _ in tree_leaves(tree, "t")] == [
        "t['a'][0]",
        "t['p'][0]",
        "t['p'][1]",
        "t['s'].a",
        "t['s'].b",
    ]


def test_what_is_a_leaf():
    for leaf in (1, "ab", None, Float(1), OrderedDict(a=1), range(3), Struct, Frozen):
        assert not is_container(leaf)
    assert struct_fields(Struct) == {"a": Float, "b": int}
    assert struct_fields(3) is None


def test_cycles_are_recursion_errors():
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(RecursionError):
        list(tree_leaves(tree))


def test_structures_must_match():
    with pytest.raises(ArrayTypeError, match="the structures differ: list against"):
        tree_map(lambda a, b: a, [1], (1,))
    with pytest.raises(ArrayTypeError, match="the structures differ: keys"):
        tree_map(lambda a, b: a, [1], [1, 2])


def test_structs_need_a_default_constructor():
    with pytest.raises(ArrayTypeError, match="can't be constructed without arguments"):
        rebuild(Demanding(1), [2])


class Fresh:
    """Its field is a property, which returns another dictionary each time."""

    DRJIT_STRUCT = {"items": dict}

    def __init__(self, value: float = 0) -> None:
        self._value: Any = Float(value)

    @property
    def items(self) -> dict[str, Any]:
        return {"a": self._value}

    @items.setter
    def items(self, items: dict[str, Any]) -> None:
        self._value = items["a"]


def test_containers_that_live_briefly_are_told_apart() -> None:
    """Later ones, at the same address, were taken for the first."""
    copies = copied([Fresh(k) for k in range(50)])
    assert [copy.items["a"][0] for copy in copies] == list(range(50))


def test_classes_of_functions_are_let_go() -> None:
    """Their closures may hold arrays."""

    def made() -> tuple[Any, Any]:
        held = Float(1, 2)

        @dataclass
        class Local:
            x: Float

            def scaled(self) -> Float:
                return self.x * held

        class Other:
            def get(self) -> Float:
                return held

        dr.eval(Local(held), [Other()])
        return weakref.ref(Local), weakref.ref(Other)

    references = made()
    gc.collect()
    assert [reference() for reference in references] == [None, None]
