"""Objects whose entries called functions change, and which others replace.

What they change is state as a whole then: no array is in two entries.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import PCG32, Array2f, Float, UInt, UInt64
from lumijit.runtime.errors import StateError, SyntaxTransformError

from .holders import KINDS, Ball, K, Ray, Struct, X


@lj.syntax
def steps(z: Any, k: Any) -> None:
    for _ in range(k):
        z.step()


@lj.syntax
def in_a_branch(z: Any, x: Any, k: Any) -> None:
    if x < 100:
        for _ in range(k):
            z.step()
        if k == 0:
            z.reset()


@lj.syntax
def in_called_functions(z: Any, x: Any, k: Any) -> None:
    if x < 100:
        steps(z, k)
        z.reset_if(k == 0)


@lj.syntax
def stepped_only(z: Any, x: Any, k: Any) -> None:
    if x < 100:
        steps(z, k)


@lj.syntax
def in_a_loop(z: Any, x: Any, k: Any) -> None:
    j = UInt(0)
    while j < k:
        i = UInt(0)
        while i < 2:
            z.step()
            i += 1
        if j == 1:
            z.reset()
        j += 1


@lj.syntax
def reset_each_turn(z: Any, x: Any, k: Any) -> None:
    j = UInt(0)
    while j < k:
        if j > 0:
            z.step()
        z.reset()
        j += 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "program",
    [in_a_branch, in_called_functions, stepped_only, in_a_loop, reset_each_turn],
)
@pytest.mark.parametrize("symbolic", [True, False])
def test_changed_and_replaced(
    kind: Callable[[Any], Any], program: Any, symbolic: bool
) -> None:
    def run(x: Any, k: Any) -> Any:
        z = kind(x)
        program(z, x, k)
        return z.total()

    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = run(Float(X), UInt(K)).numpy()
    alone = [run(Float(x), UInt(k))[0] for x, k in zip(X, K, strict=True)]
    wanted = [plain(kind, program, x, k) for x, k in zip(X, K, strict=True)]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(alone, wanted)


def plain(kind: Any, program: Any, x: float, k: int) -> float:
    """Run what the program says by hand, one element at a time."""
    z = kind(float(x))
    if program in (in_a_branch, in_called_functions, stepped_only):
        if x < 100:
            for _ in range(k):
                z.step()
            if k == 0 and program is not stepped_only:
                z.reset()
    else:
        for j in range(k):
            if program is in_a_loop:
                z.step()
                z.step()
                if j == 1:
                    z.reset()
            else:
                if j > 0:
                    z.step()
                z.reset()
    return float(z.total()[0])


class Moving:
    def __init__(self, x: Any) -> None:
        self.ray = Ray(Array2f(x, x), Float(0))
        self.rng = PCG32(size=len(x))

    def move(self) -> None:
        self.ray.o += 1

    def wait(self) -> None:
        self.ray.t = self.ray.t + 1

    def renew(self) -> None:
        self.ray = Ray(self.ray.o, self.ray.t)

    def copied(self) -> None:
        self.ray = copy.copy(self.ray)

    def turned(self) -> None:
        self.ray = replace(self.ray, o=self.ray.o.yx * 2)

    def draw(self) -> None:
        self.ray.t += self.rng.next_float32()

    def again(self) -> None:
        self.rng = PCG32(self.rng)

    def anew(self) -> None:
        self.rng = PCG32(size=len(self.ray.t))


METHODS = ["move", "wait", "draw"], ["renew", "copied", "turned", "again", "anew"]


@pytest.mark.parametrize("first", METHODS[0])
@pytest.mark.parametrize("second", METHODS[1])
@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("symbolic", [True, False])
def test_an_object_is_new_in_each_turn(
    first: str, second: str, is_nested: bool, symbolic: bool
) -> None:
    @lj.syntax
    def program(z: Any, x: Any) -> None:
        j = UInt(0)
        while j < 3:
            if is_nested:
                i = UInt(0)
                while i < 2:
                    getattr(z, first)()
                    i += 1
            else:
                getattr(z, first)()
            getattr(z, second)()
            j += 1

    x = Float(X)
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        z = Moving(x)
        program(z, x)
    wanted = Moving(x)
    for _ in range(3):
        for _ in range(2 if is_nested else 1):
            getattr(wanted, first)()
        getattr(wanted, second)()
    np.testing.assert_array_equal(z.ray.o.numpy() + 0 * z.ray.t.numpy(), wanted.ray.o)
    np.testing.assert_allclose(z.ray.t + 0 * x, wanted.ray.t + 0 * x, rtol=1e-6)
    np.testing.assert_array_equal(
        z.rng.state + 0 * UInt64(x), wanted.rng.state + 0 * UInt64(x)
    )


@lj.syntax
def struct_replaced(z: Any, x: Any, k: Any) -> Any:
    p, i = Ray(Array2f(x, 1), Float(0)), UInt(0)
    while i < k:
        p.o += 1
        if i == 1:
            p = replace(p, t=p.t + 1)
        i += 1
    return p.o.x + 100 * p.t


class Gated(Ball):
    @lj.syntax
    def step_if(self, x: Any) -> None:
        if x > 3:
            self.p += x


@lj.syntax
def changed_in_both(z: Any, x: Any, k: Any) -> Any:
    if k > 1:
        z.step_if(x)
    return z.p.x


@pytest.mark.parametrize("program", [struct_replaced, changed_in_both])
@pytest.mark.parametrize("symbolic", [True, False])
def test_nested_arrays_in_what_is_replaced(program: Any, symbolic: bool) -> None:
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = program(Gated(Float(X)), Float(X), UInt(K)).numpy()
    alone = [
        program(Gated(Float(x)), Float(x), UInt(k))[0]
        for x, k in zip(X, K, strict=True)
    ]
    np.testing.assert_array_equal(found, alone)


class Halving(Ball):
    def half(self) -> None:
        self.p = self.p * 0.5


class Flat(Halving):
    def made(self, x: Any) -> Any:
        return Float(x)


@lj.syntax
def names_part(s: Any, t: Any, k: Any) -> Any:
    i = UInt(0)
    while i < k:
        s.step()
        i += 1
        if i == 2:
            t.half()
    return s.p + 100 * t.p


@pytest.mark.parametrize("kind", [Halving, Flat])
def test_one_array_of_two_objects_parts(kind: Any) -> None:
    def run(symbolic: bool) -> Any:
        s, t = kind(Float(X)), kind(Float(X))
        t.p = s.p
        with (
            lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
            lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
        ):
            return names_part(s, t, UInt(K))

    with pytest.raises(StateError, match=r"'s\.p' and 't\.p' are one array in some"):
        run(True)
    found = run(False)
    first = found.x if kind is Halving else found
    wanted = []
    for x, k in zip(X, K, strict=True):
        s = t = float(x)
        for i in range(k):
            s += 9
            t = s if i == 0 else t
            t = s * 0.5 if i == 1 else t
        wanted.append(s + 100 * t)
    np.testing.assert_allclose(first.numpy(), wanted)


@lj.syntax
def raised(p: Any, k: Any) -> None:
    for _ in range(k):
        p += 0.5


@pytest.mark.parametrize("held", ["attribute", "item", "field"])
@pytest.mark.parametrize("symbolic", [True, False])
def test_an_entry_is_an_argument_of_what_changes_it(held: str, symbolic: bool) -> None:
    @lj.syntax
    def program(x: Any, k: Any) -> Any:
        array = Array2f(x, x)
        z: Any = {"attribute": Ball(x), "item": [array], "field": Ray(array, x)}[held]
        if held == "attribute":
            z.p = array
        for _ in range(k):
            if held == "attribute":
                raised(z.p, k)
            elif held == "item":
                raised(z[0], k)
            else:
                raised(z.o, k)
        return array.x

    with lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic):
        found = program(Float(X), UInt(K)).numpy()
    wanted = [x + 0.5 * k * k for x, k in zip(X, K, strict=True)]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("symbolic", [True, False])
def test_parts_of_objects_in_lists(symbolic: bool) -> None:
    @lj.syntax
    def program(x: Any, k: Any) -> Any:
        s = Ball(x)
        s.p = [Ball(x), {"a": Struct(x)}]
        if k > 0:
            s.p[0].p.y += 0.25
            s.p[1]["a"].p.o.x += 0.5
        return s.p[0].p.y + 100 * s.p[1]["a"].p.o.x

    with lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic):
        found = program(Float(X), UInt(K)).numpy()
    both = zip(X, K, strict=True)
    wanted = [x + 1 + 100 * x + (50.25 if k > 0 else 0) for x, k in both]
    np.testing.assert_allclose(found, wanted)


@dataclass(slots=True)
class Slots:
    a: Any
    v: Any


WORLD = SimpleNamespace()


@pytest.mark.parametrize("symbolic", [True, False])
def test_slots_and_globals(symbolic: bool) -> None:
    """One entry is changed here and another one by a method; a copy replaces."""

    class Stepped(Ball):
        def step(self) -> None:
            self.p.v += 1

    @lj.syntax
    def in_slots(x: Any, k: Any) -> Any:
        z = Stepped(x)
        z.p = Slots(Float(x), Float(x))
        i = UInt(0)
        while i < k:
            i += 1
            z.p.a = z.p.a + 1
            z.step()
        return z.p.a + 100 * z.p.v

    @lj.syntax
    def in_globals(x: Any, k: Any) -> Any:
        WORLD.z = [Float(x), Float(x)]
        WORLD.ray = Ray(Array2f(x, x), Float(x))
        if k < 3:
            WORLD.z = list(WORLD.z)
            WORLD.ray = copy.copy(WORLD.ray)
            for _ in range(k):
                WORLD.z[0] += 1
                WORLD.ray.o.y += 1
        return WORLD.z[0] + 100 * WORLD.ray.o.y

    def run_globals() -> Any:
        return in_globals(Float(X), UInt(K)).numpy()

    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = in_slots(Float(X), UInt(K)).numpy()
        wanted = [101 * (x + k) for x, k in zip(X, K, strict=True)]
        np.testing.assert_allclose(found, wanted)
        if symbolic:
            with pytest.raises(SyntaxTransformError, match="made inside of the const"):
                run_globals()
            return
        second = run_globals()
    pairs = list(zip(X, K, strict=True))
    wanted = [101 * (x + (k if k < 3 else 0)) for x, k in pairs]
    np.testing.assert_allclose(second, wanted)
