"""Local buffers of one entry beside wide arrays: each derivative counts once.

In reverse mode, what depends on one entry has the sum of what the elements have, and a
buffer of one entry may be read at wide indices, or become wide later.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Bool, Float, Float64, UInt

X = (1, 2, 3, 4)


def read_twice(w: Any) -> Any:
    h = dr.alloc_local(Float, 2, value=Float(0))
    h[dr.opaque(UInt, 1)] = w
    return h[UInt(0, 1, 0, 1)] + h[1]


def read_then_widened(w: Any) -> Any:
    h = dr.alloc_local(Float, 2, value=Float(0))
    h[0] = w * 2
    dr.eval(h)
    x = Float(X) + h[0]
    h[1] = Float(X)
    return x + h[0]


def widened(w: Any) -> Any:
    h = dr.alloc_local(Float, 2, value=Float(0))
    h[0] = w * 2
    h[1] = Float(X)
    return h[0] + h[1]


def widened_start(w: Any) -> Any:
    h = dr.alloc_local(Float, 2, value=w * 1)
    h[1] = Float(X)
    return h[0] * h[1]


@pytest.mark.parametrize(
    ("function", "expected"),
    [(read_twice, 6), (read_then_widened, 16), (widened, 8), (widened_start, 10)],
)
def test_each_counts_once(function: Callable[[Any], Any], expected: float) -> None:
    w = Float(3)
    dr.enable_grad(w)
    dr.backward(dr.sum(function(w)))
    assert list(w.grad) == [expected]
    w = Float(3)
    dr.enable_grad(w)
    dr.set_grad(w, 1)
    assert list(dr.sum(dr.forward_to(function(w)))) == [expected]


def drawn(rng: random.Random) -> str:
    """Return a program that reads and writes a buffer, all of it in straight lines."""
    start = rng.choice(["F(0.5)", "w*1", "dr.zeros(F,4)", "x*w"])
    lines = [f"h = dr.alloc_local(F, 2, value={start})"]
    names = ["w", "x"]
    for k in range(rng.randint(2, 7)):
        kind, name = rng.random(), rng.choice(names)
        value = rng.choice([name, f"{name}*w", f"{name}*0.7", f"{name}*{name}"])
        place = rng.choice(["0", "1", "one", "wide"])
        if kind < 0.45:
            lines.append(f"h[{place}] = F({value})")
        elif kind < 0.75:
            lines.append(f"t{k} = h[{place}] * {rng.choice([*names, '1.5'])}")
            names.append(f"t{k}")
        elif kind < 0.88:
            lines.append(rng.choice(["dr.eval(h)", f"dr.eval({name})"]))
        elif kind < 0.94:
            lines.append("h = dr.Local(h)")
        else:
            lines.append(f"h.write(F({value}), 0, active=mask)")
    lines.append(f"y = (h[0] + h[1]*2 + {' + '.join(names)}) * c")
    return "\n".join(lines)


class PlainBuffer(list):
    def write(self, value: float, index: int, active: bool) -> None:
        if active:
            self[index] = value


class Plain:
    """What such a program needs, for one element."""

    @staticmethod
    def alloc_local(_: Any, length: int, value: float) -> PlainBuffer:
        return PlainBuffer([value] * length)

    @staticmethod
    def zeros(*_: Any) -> float:
        return 0.0

    @staticmethod
    def eval(*_: Any) -> None:
        """Nothing is to be evaluated."""

    Local = PlainBuffer


FACTORS = [1.0, 0.5, -2.0, 0.7]


def plain_sum(text: str, w: float, x: Any) -> float:
    total = 0.0
    for k, c in enumerate(FACTORS):
        names = {"dr": Plain, "F": float, "w": w, "x": x[k], "c": c}
        names |= {"one": 1, "wide": k % 2, "mask": k % 2 == 0}
        exec(text, names)
        total += names["y"]
    return total


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    text = drawn(rng)
    w, *x = (rng.uniform(-1, 1) for _ in range(5))
    dx = np.array([rng.uniform(-1, 1) for _ in range(4)])
    step = 1e-6
    up = plain_sum(text, w + step, x + step * dx)
    down = plain_sum(text, w - step, x - step * dx)
    expected = (up - down) / (2 * step)

    def run() -> tuple[Any, Any, Any]:
        a, b = Float64(w) + 0, Float64(x) + 0
        dr.enable_grad(a, b)
        names = {"dr": dr, "F": Float64, "w": a, "x": b, "c": Float64(FACTORS)}
        names |= {"one": dr.opaque(UInt, 1), "wide": UInt(0, 1, 0, 1)}
        names["mask"] = Bool(True, False, True, False)
        exec(text, names)
        return a, b, dr.sum(names["y"])

    a, b, total = run()
    np.testing.assert_allclose(total[0], plain_sum(text, w, x), 1e-9, 1e-12)
    dr.backward(total)
    found = a.grad[0] + dr.sum(b.grad * Float64(dx))[0]
    np.testing.assert_allclose(found, expected, 1e-6, 1e-6)
    a, b, total = run()
    dr.set_grad(a, 1.0)
    dr.set_grad(b, Float64(dx))
    np.testing.assert_allclose(dr.forward_to(total)[0], expected, 1e-6, 1e-6)
