"""Programs that recurse under array conditions."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import lumijit as lj

from .modes import program
from .plain import INTS, MORE

T = ModuleType
SMALL = ("UInt", [0, 1, 2, 3, 4, 5, 3])
NODES = ("UInt", [0, 1, 2, 3, 4, 5, 6])


@lj.syntax
def factorial(n: Any) -> Any:
    if n <= 1:
        return n - n + 1
    return n * factorial(n - 1)


@lj.syntax
def fibonacci(n: Any) -> Any:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@lj.syntax
def is_even(n: Any) -> Any:
    if n == 0:
        return True
    return is_odd(n - 1)


@lj.syntax
def is_odd(n: Any) -> Any:
    if n == 0:
        return False
    return is_even(n - 1)


@dataclass
class Ray:
    """A PyTree that recursion passes down and returns."""

    depth: Any
    weight: Any


@lj.syntax
def bounce(ray: Ray, x: Any) -> Any:
    if ray.depth < 4:
        if x > ray.depth:
            ray = bounce(Ray(ray.depth + 1, ray.weight * 2 + x), x - 1)
        elif x > 0:
            ray = bounce(Ray(ray.depth + 2, ray.weight - 1), x)
    return ray


@lj.syntax
def count_paths(n: Any, k: Any) -> Any:
    total = n - n
    if n == 0:
        return total + 1
    for step in range(1, k + 1):
        if step > n:
            break
        total += count_paths(n - step, k)
    return total


@lj.syntax
def draining(x: Any, bins: Any) -> Any:
    while x > 0:
        lj.scatter_add(bins, 1, x & 3)
        x = x - 4
        if x > 1:
            x = draining(x - 1, bins)
    return x


class Tree:
    """A binary tree in arrays."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @lj.syntax
    def total(self, t: T, node: Any) -> Any:
        value = lj.gather(t.Int, self.table, node, node < 7)
        if node < 3:
            left, right = self.total(t, 2 * node + 1), self.total(t, 2 * node + 2)
            value = value + left - right
        return value


@program(is_recursive=True, n=SMALL)
def factorials(t: T, n: Any) -> Any:
    return factorial(n), fibonacci(n)


@program(is_recursive=True, n=SMALL)
def mutual_recursion(t: T, n: Any) -> Any:
    if n > 3:
        n = n - 1
    return is_even(n), is_odd(n)


@program(is_recursive=True, x=INTS)
def recursion_over_trees(t: T, x: Any) -> Any:
    return bounce(Ray(t.Int(0), x), x)


@program(is_recursive=True, n=SMALL, k=("UInt", [1, 2, 2, 3, 0, 1, 2]))
def recursion_in_a_loop(t: T, n: Any, k: Any) -> Any:
    total = t.UInt(0)
    while total < 3:
        total += 1 + count_paths(n % 4, k)
    return total


@program(is_recursive=True, shared={"bins": ("Int", [0, 0, 0, 0])}, x=INTS)
def loop_in_recursion(t: T, x: Any, bins: Any) -> Any:
    return draining(x, bins)


@program(
    is_recursive=True, shared={"table": ("Int", [3, 1, 4, 1, 5, 9, 2])}, node=NODES
)
def recursive_methods(t: T, node: Any, table: Any) -> Any:
    return Tree(table).total(t, node)


@program(is_recursive=True, x=INTS, y=MORE)
def recursive_closure(t: T, x: Any, y: Any) -> Any:
    calls = []

    @lj.syntax
    def gcd(a: Any, b: Any) -> Any:
        calls.append(1)
        return a if b == 0 else gcd(b, a % b)

    a, b = x * x + 1, (y * y) & 3
    return gcd(a, b)


@program(x=INTS)
def plain_recursion(t: T, x: Any) -> Any:
    @lj.syntax
    def power(v: Any, n: int) -> Any:
        if n == 0:
            return v - v + 1
        return v * power(v, n - 1)

    return power(x, 5)
