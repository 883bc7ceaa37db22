"""Objects from outside of a loop that change in place, until a name gets another one.

Which object the name has, differs between elements. Each function is compared with
itself run element by element, as plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm.ad import Array2f, Float, Float64, Int, UInt
from lumijit.runtime.errors import SyntaxTransformError

from .by_element import K, Program, X, check, expected

PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


@dataclass
class Ray:
    o: Any
    t: Any = 0

    def step(self) -> None:
        self.t = self.t + self.o


@dataclass
class Path:
    ray: Any
    n: Any = 0


class Holder:
    """An object that is no PyTree."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray


@program
def assigned(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        if ray.t > 4:
            ray = Ray(ray.o - 2, ray.t * 0.25)
        i += 1
    return ray.o, ray.t, old.o, old.t


@program
def updated(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    for _ in range(k):
        ray.t += 1
        if ray.t > 4:
            ray = Ray(ray.o - 2, ray.t * 0.25)
    return ray.t, old.o, old.t


@program
def entries_of_structs(k: Any, x: Any) -> Any:
    path = Path(Ray(x * 1, x * 2), x * 0)
    old = path.ray
    i = 0
    while i < k:
        path.ray.t = path.ray.t + 1
        path.ray.o += path.ray.t
        if path.ray.t > 4:
            path.ray = Ray(path.ray.o - 2, path.ray.t * 0.25)
            path.n = path.n + 1
        i += 1
    return path.ray.o, path.ray.t, path.n, old.o, old.t


@program
def before_and_after(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        if ray.t > 4:
            ray = Ray(ray.o - 2, ray.t * 0.25)
        ray.o += 3
        ray.t = ray.t + ray.o
        i += 1
    return ray.o, ray.t, old.o, old.t


@program
def twice_in_a_turn(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        if ray.t > 4:
            ray = Ray(ray.o - 2, ray.t * 0.25)
        ray.t = ray.t + 2
        if i == 3:
            ray = Ray(ray.o + 2, ray.t * 0.5)
        ray.t = ray.t + 4
        i += 1
    return ray.o, ray.t, old.o, old.t


@program
def in_nested_branches(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        if i % 2 == 0:
            ray.t = ray.t + 1
            if ray.t > 4:
                ray = Ray(ray.o - 2, ray.t * 0.25)
            ray.t = ray.t + 3
        else:
            ray.step()
            if ray.o > 2:
                if ray.t > 3:
                    ray = Ray(ray.o * 0.5, ray.t)
                else:
                    ray.o = ray.o * 0.75
        i += 1
    return ray.o, ray.t, old.o, old.t


@program
def replaced_in_all_elements_of_a_branch(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        if i == 2:
            ray.t = ray.t + 7
            ray = Ray(x, ray.t * 0.25)
        elif i == 4:
            ray = Ray(x, ray.t * 0.5)
            ray.t = ray.t + 7
        i += 1
    return ray.o, ray.t, old.o, old.t


@program
def replaced_in_each_turn(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        ray.o += 1
        ray = Ray(ray.o - 2, ray.t * 0.25)
        ray.t += 1
        i += 1
    return ray.o, ray.t, old.o, old.t


@program
def breaks_and_continues(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    for i in range(k):
        ray.t = ray.t + 1
        if ray.t > 6.123:
            ray = Ray(x)
            break
        if i % 3 == 2:
            continue
        ray.o = ray.o + 1
        if ray.o > 4:
            ray = Ray(ray.o - 2, ray.t * 0.25)
            continue
        ray.t = ray.t + 0.5
    return ray.o, ray.t, old.o, old.t


@program
def loops_in_loops(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    for i in range(k):
        ray.t = ray.t + 1
        j = 0
        while j < i:
            ray.t = ray.t + 0.5
            if ray.t > 5:
                ray = Ray(ray.o - 2, ray.t * 0.25)
            j += 1
        ray.o = ray.o + 1
    return ray.o, ray.t, old.o, old.t


@program
def loops_in_loops_that_replace_only(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    for i in range(k):
        ray.t = ray.t + 1
        j = 0
        while j < i:
            if ray.t + j > 5:
                ray = Ray(ray.o - 2, ray.t * 0.25)
            j += 1
    return ray.o, ray.t, old.o, old.t


@program
def loops_in_branches(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    if x > 0:
        for _ in range(k):
            ray.t = ray.t + 1
            if ray.t > 5:
                ray = Ray(ray.o - 2, ray.t * 0.25)
    return ray.o, ray.t, old.o, old.t


@program
def several_names(k: Any, x: Any) -> Any:
    a, b = Ray(x * 1, x * 2), Ray(x * 3, x * 4)
    first, second = a, b
    i = 0
    while i < k:
        a.t = a.t + 1
        b.step()
        if a.t > 4:
            a = Ray(a.o - 2, b.t * 0.25)
        if i == 3:
            b = Ray(b.o, a.t)
        i += 1
    return a.t, b.t, first.o, first.t, second.o, second.t


@program
def numbers(k: Any, x: Any) -> Any:
    ray = Ray(0, 1)
    old = ray
    i = 0
    while i < k:
        ray.o += 1
        if ray.o > x:
            ray = Ray(-3, 2)
        i += 1
    return ray.o, ray.t, old.o, old.t


@program
def one_loop_after_another(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)
    old = ray
    for _ in range(k):
        ray.t = ray.t + 1
        if ray.t > 4:
            ray = Ray(ray.o - 2, ray.t * 0.25)
    ray = Ray(ray.o, ray.t)
    for _ in range(k):
        ray.t = ray.t - 1
        if ray.t < 0:
            ray = Ray(ray.o - 2, ray.t * 0.25 + 3)
    return ray.o, ray.t, old.o, old.t


@program
def returns_from_loops(k: Any, x: Any) -> Any:
    ray = Ray(x * 1, x * 2)

    @lj.syntax
    def inner(ray: Any) -> Any:
        i = 0
        while i < k:
            ray.t = ray.t + 1
            if ray.t > 7:
                return ray.o * 3
            if ray.t > 4:
                ray = Ray(ray.o - 2, ray.t * 0.25)
            i += 1
        return ray.t

    return inner(ray), ray.o, ray.t


@program
def called_functions(k: Any, x: Any) -> Any:
    @lj.syntax
    def spawn(path: Any) -> None:
        if path.ray.t > 4:
            path.ray = Ray(path.ray.o - 2, path.ray.t * 0.25)

    @lj.syntax
    def spawned(ray: Any) -> Any:
        if ray.t > 5:
            ray = Ray(ray.o - 3, ray.t * 0.25)
        return ray

    path, ray = Path(Ray(x * 1, x * 2)), Ray(x * 3, x * 2)
    old, second = path.ray, ray
    i = 0
    while i < k:
        path.ray.step()
        ray.step()
        spawn(path)
        ray = spawned(ray)
        i += 1
    return path.ray.o, path.ray.t, old.o, old.t, ray.t, second.t


def from_objects(k: Any, x: Any) -> Any:
    holder, ray = Holder(Ray(x * 3, x)), Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        if ray.t > 4:
            ray = holder.ray
        i += 1
    return ray.o, ray.t, old.o, old.t, holder.ray.t


@program
def from_objects_in_all_elements(k: Any, x: Any) -> Any:
    holder, ray = Holder(Ray(x * 3, x)), Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        ray = holder.ray
        i += 1
    return ray.o, ray.t, old.o, old.t, holder.ray.t


def from_lists(k: Any, x: Any) -> Any:
    rays, ray = [Ray(x * 3, x)], Ray(x * 1, x * 2)
    old = ray
    i = 0
    while i < k:
        ray.t = ray.t + 1
        if ray.t > 4:
            ray = rays[0]
        i += 1
    return ray.o, ray.t, old.o, old.t, rays[0].t


@program
def lists_themselves(k: Any, x: Any) -> Any:
    values = [x * 1, x * 2]
    old = values
    i = 0
    while i < k:
        values[0] = values[0] + 1
        if values[0] > 4:
            values = [values[1], values[0]]
        i += 1
    return values, old


def paths_and_their_rays(k: Any, x: Any) -> Any:
    path = Path(Ray(x * 1, x * 2), x * 3)
    ray, old = path.ray, path
    i = 0
    while i < k:
        path.ray.t = path.ray.t + 1
        path.n += 1
        if path.n > 4:
            path = Path(Ray(path.n, path.ray.t), x)
        i += 1
    return path.n, path.ray.t, ray.t, old.n, old.ray.t


@program
def paths_and_their_rays_only(k: Any, x: Any) -> Any:
    path = Path(Ray(x * 1, x * 2), x * 3)
    ray, old = path.ray, path
    i = 0
    while i < k:
        path.ray.t = path.ray.t + 1
        if path.ray.t > 4:
            path = Path(Ray(path.n, path.ray.t - 2), x)
        i += 1
    return path.n, path.ray.t, ray.t, old.n, old.ray.t


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_element_by_element(function: Program, symbolic: bool) -> None:
    """These were refused, or the object was changed in the first turn only."""
    check(function, symbolic)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_of_numbers_it_is_plain_python(function: Program) -> None:
    decorated = lj.syntax(function)
    for k, y in zip(K, X, strict=True):
        assert expected(decorated, k, y) == expected(function, k, y)


REFUSED: dict[Program, str] = {
    from_objects: r"'ray' is another object than before in some elements only, and the",
    from_lists: r"'ray' and 'rays' are one object in some elements only, and the 'wh",
    paths_and_their_rays: r"'path' is another object than before.* Fix: assign the con",
}


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_others_could_see_is_refused(function: Program, symbolic: bool) -> None:
    """An object that others have would be changed in some elements, or not at all."""
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
        pytest.raises(SyntaxTransformError, match=REFUSED[function]),
    ):
        lj.syntax(function)(Int(K), Float64(X))


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("is_nested", [True, False])
def test_a_called_function_rebinds_what_is_nonlocal_in_both(
    symbolic: bool, is_nested: bool
) -> None:
    def program(x: Any, k: Any, is_assigned: bool) -> Any:
        z = Array2f(x + 1, 1) if is_nested else Float(x) + 1

        def halve() -> None:
            nonlocal z
            z = z * 0.5

        @lj.syntax
        def inner() -> Any:
            nonlocal z
            if is_assigned:
                z = z + 1
            if k > 0:
                halve()
            return z

        found = inner()
        return found.x if is_nested else found

    x, k = [1, 2, 3], [0, 2, 1]
    for is_assigned in (False, True):
        with lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic):
            found = program(Float(x), UInt(k), is_assigned)
        first = [v + 1 + is_assigned for v in x]
        wanted = [v / 2 if n else v for v, n in zip(first, k, strict=True)]
        assert list(found) == wanted
