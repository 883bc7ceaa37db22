"""Objects with an array, a struct, a list or a dictionary, which methods change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lumijit as lj
from lumijit.llvm import Array2f, Array22f, Float

X, K = [1, 2, 200, 5], [2, 0, 1, 3]


class Ball:
    """Has an array, a list or a dictionary that methods change or replace."""

    def __init__(self, x: Any) -> None:
        self.p: Any = self.made(x)

    def made(self, x: Any) -> Any:
        return Array2f(x, x + 1)

    def step(self) -> None:
        self.p += 9

    def reset(self) -> None:
        self.p = self.made(7)

    @lj.syntax
    def reset_if(self, mask: Any) -> None:
        if mask:
            self.p = self.made(7)

    def total(self) -> Any:
        return self.p.x + 3 * self.p.y


class Component(Ball):
    def step(self) -> None:
        self.p.y += 9


class Rows(Ball):
    def made(self, x: Any) -> Any:
        return Array22f(Array2f(x, x + 1), Array2f(x + 2, x + 3))

    def step(self) -> None:
        self.p[1].x += 9

    def total(self) -> Any:
        return self.p.x.y + 3 * self.p.y.x


class Listed(Ball):
    def made(self, x: Any) -> Any:
        return [Float(x), Float(x) + 1]

    def step(self) -> None:
        self.p[0] += 9

    def total(self) -> Any:
        return self.p[0] + 3 * self.p[1]


class Keyed(Listed):
    def made(self, x: Any) -> Any:
        return {0: Float(x), 1: Float(x) + 1}


class Items(Listed):
    def step(self) -> None:
        self.p[0] = self.p[0] + 9


@dataclass
class Ray:
    o: Array2f
    t: Float


class Struct(Ball):
    def made(self, x: Any) -> Any:
        return Ray(Array2f(x, x + 1), Float(x) + 2)

    def step(self) -> None:
        self.p.t += 9
        self.p.o = self.p.o + 4

    def total(self) -> Any:
        return self.p.o.y + 3 * self.p.t


KINDS = [Ball, Component, Rows, Listed, Keyed, Items, Struct]
