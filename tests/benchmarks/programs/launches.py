"""Tiny launches, evaluated loops, and the memory that they take."""

from __future__ import annotations

from typing import Any

import lumijit as dr
from lumijit.llvm import Array3f, Bool, Float, UInt
from tests.benchmarks.declare import LAUNCH, PEAK, Program, case, ready


@case("launches", 64, LAUNCH)
def launch_64(n: int) -> Program:
    """One operation on 64 entries."""
    x = ready(dr.arange(Float, n))
    return lambda: dr.fma(x, 2.5, 1.25)


@case("launches", 1000, LAUNCH)
def three_ops_1000(n: int) -> Program:
    """Three operations on 1,000 entries."""
    x = ready(dr.arange(Float, n))
    return lambda: dr.sqrt(x * 2.5 + 1.25)


@case("launches", 1000, LAUNCH)
def vectors_1000(n: int) -> Program:
    """Operations on 1,000 vectors: three outputs."""
    x = dr.arange(Float, n)
    v = ready(Array3f(x, x + 1, -x))
    return lambda: v * dr.dot(v, v) + 1


@case("launches", 1000, LAUNCH)
def gather_1000(n: int) -> Program:
    """A gather of 1,000 entries."""
    x, i = ready(dr.arange(Float, n), n - 1 - dr.arange(UInt, n))
    return lambda: dr.gather(Float, x, i) + 1


@case("launches", 1000, LAUNCH)
def scatter_1000(n: int) -> Program:
    """A scatter of 1,000 entries."""
    x, i = ready(dr.arange(Float, n), n - 1 - dr.arange(UInt, n))

    def program() -> Float:
        target = dr.zeros(Float, n)
        dr.scatter(target, x, i)
        return target

    return program


@case("launches", 1000, LAUNCH)
def sum_1000(n: int) -> Program:
    """The sum of 1,000 values, read by Python."""
    x = ready(dr.arange(Float, n))

    def program() -> Float:
        total = dr.sum(x * 2)
        return Float(total[0])

    return program


@case("launches", 1000, LAUNCH)
def loop_1000(n: int) -> Program:
    """A symbolic loop for 1,000 entries, traced and launched."""
    x = ready(dr.arange(Float, n))
    return lambda: damped(x)


@dr.syntax
def damped(x: Float) -> Float:
    """Halve values until they are small."""
    i = UInt(0)
    while (x > 1) & (i < 8):
        x = x * 0.5
        i += 1
    return x


@case("launches", 1000, LAUNCH)
def dependent_200(n: int) -> Program:
    """200 small evaluations, each of the one before."""
    x = ready(dr.arange(Float, n))

    def program() -> Float:
        y = x
        for _ in range(200):
            y = y * 0.5 + 1
            dr.eval(y)
        return y

    return program


@case("launches", 1000, LAUNCH)
def optimizer_steps(n: int) -> Program:
    """Ten steps of an optimizer with four parameters' moments."""
    state = ready([dr.arange(Float, n) + k for k in range(8)])

    def program() -> list[Float]:
        values = list(state)
        for _ in range(10):
            for k in range(4):
                gradient = dr.sin(values[k])
                values[4 + k] = 0.9 * values[4 + k] + 0.1 * gradient
                values[k] = values[k] - 0.01 * values[4 + k]
            dr.eval(values)
        return values

    return program


@case("evaluated loops", 10_000, LAUNCH)
def evaluated_loop(n: int) -> Program:
    """50 iterations of an evaluated loop over 10,000 entries."""
    x = ready(dr.arange(Float, n))

    def program() -> tuple[UInt, Float]:
        return dr.while_loop(
            (UInt(0), x),
            lambda i, x: i < 50,
            lambda i, x: (i + 1, x * 0.99 + 1),
            mode="evaluated",
        )

    return program


@dr.syntax
def halvings(x: UInt) -> UInt:
    """Count how often numbers can be halved, or tripled, until they are 1."""
    i = UInt(0)
    while x > 1:
        x = dr.select((x & 1) == 0, x >> 1, 3 * x + 1)
        i += 1
    return i


@case("evaluated loops", 1 << 18, tiny=1000)
def wavefront(n: int) -> Program:
    """An evaluated loop of over 100 iterations: entries leave one by one."""
    x = ready(dr.arange(UInt, n) % 1000 + 1)

    def program() -> UInt:
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
            return halvings(x)

    return program


@case("evaluated loops", 1 << 18, tiny=1000)
def wavefront_compressed(n: int) -> Program:
    """The same, but entries that are done are taken out."""
    x = ready(dr.arange(UInt, n) % 1000 + 1)

    def program() -> UInt:
        return dr.while_loop(
            (UInt(0), x),
            lambda i, x: x > 1,
            lambda i, x: (i + 1, dr.select((x & 1) == 0, x >> 1, 3 * x + 1)),
            mode="evaluated",
            compress=True,
        )[0]

    return program


@dr.syntax
def evaluated_sides(x: Float, mask: Bool) -> Float:
    """Take a branch that is evaluated."""
    if mask:
        x = x * 2 + 1
    else:
        x = dr.sqrt(x)
    return x


@case("evaluated loops", 10_000, LAUNCH)
def evaluated_branch(n: int) -> Program:
    """An evaluated branch over 10,000 entries."""
    x, mask = ready(dr.arange(Float, n), (dr.arange(UInt, n) & 3) == 0)

    def program() -> Any:
        with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False):
            return evaluated_sides(x, mask)

    return program


@case("memory", 1 << 20, PEAK)
def evaluation_loop(n: int) -> Program:
    """100 evaluations of 1 M entries, each of the one before, without waiting."""
    x = ready(dr.arange(Float, n) * 0.1)

    def program() -> Float:
        y = x
        for _ in range(100):
            y = dr.sin(y) + 1
            dr.eval(y)
        return y

    return program


@case("memory", 1 << 22, PEAK)
def fused_expression(n: int) -> Program:
    """A fused expression of 4 M values: nothing but the result takes memory."""
    x = ready(dr.arange(Float, n) * 1e-6)

    def program() -> Float:
        return dr.sqrt(dr.fma(x, x, 1)) * dr.sin(x) + dr.exp(-x) / (1 + x * x)

    return program
