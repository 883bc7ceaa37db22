"""Random programs on tensors: values as NumPy has them, derivatives as differences do.

Owns programs of several steps, and tensors as the state of loops and branches; single
functions are in the other modules.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import ad

Step = tuple[Callable[[Any], Any], Callable[[Any], Any]]
Steps = Callable[[random.Random, tuple[int, ...]], Step]


def _axis(r: random.Random, shape: tuple[int, ...]) -> int:
    return r.randint(-len(shape), len(shape) - 1)


def _axes(r: random.Random, shape: tuple[int, ...]) -> Any:
    several = tuple(r.sample(range(len(shape)), r.randint(1, len(shape))))
    return r.choice([None, _axis(r, shape), several])


def _basic(r: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    parts = [slice(None), slice(None, None, -1), slice(0, None, 2), slice(1, None)]
    return tuple(r.choice([*parts, r.randint(-n, n - 1)]) for n in shape)


def function(r: random.Random, shape: tuple[int, ...]) -> Step:
    del shape
    return r.choice(
        [
            (lambda a: dr.sin(a), lambda a: np.sin(a)),
            (lambda a: dr.tanh(a), lambda a: np.tanh(a)),
            (lambda a: a * a - a / 2, lambda a: a * a - a / 2),
            (lambda a: dr.select(a > 0.1, a, -a), lambda a: np.where(a > 0.1, a, -a)),
            (lambda a: dr.sqrt(a * a + 1), lambda a: np.sqrt(a * a + 1)),
        ]
    )


def index(r: random.Random, shape: tuple[int, ...]) -> Step:
    key = _basic(r, shape)[: r.randint(1, len(shape))]
    key = r.choice([key, (..., *key), (None, *key)])
    return (lambda a: a[key]), (lambda a: a[key])


def chosen(r: random.Random, shape: tuple[int, ...]) -> Step:
    axis = r.randrange(len(shape))
    picks = np.array(r.choices(range(-shape[axis], shape[axis]), k=3), np.int32)
    wide = ad.TensorXi(picks)
    before: tuple[Any, ...] = (slice(None),) * axis
    ours, of_numpy = (*before, wide), (*before, picks)
    return r.choice(
        [
            (lambda a: a[ours], lambda a: a[of_numpy]),
            (
                lambda a: dr.take(a, wide, axis=axis),
                lambda a: np.take(a, picks, axis),
            ),
        ]
    )


def changed(r: random.Random, shape: tuple[int, ...]) -> Step:
    key, kind = _basic(r, shape), r.randrange(3)

    def change(a: Any, copied: Any) -> Any:
        if kind == 0:
            copied[key] = a[key] * a[key] + 2
        elif kind == 1:
            copied[key] += a[key] * 3
        else:
            copied *= a
            copied[...] = copied - a
        return copied

    return (lambda a: change(a, a * 1)), (lambda a: change(a, np.array(a)))


def masked(r: random.Random, shape: tuple[int, ...]) -> Step:
    mask = np.random.default_rng(r.randrange(99)).random(shape) < 0.5
    ours = ad.TensorXb(mask)

    def change(a: Any) -> Any:
        a = a * 1
        a[ours] = dr.select(a[ours] > 0, a[ours] * a[ours], 3 * a[ours])
        return a

    return change, lambda a: np.where(mask, np.where(a > 0, a * a, 3 * a), a)


def reduced(r: random.Random, shape: tuple[int, ...]) -> Step:
    name = r.choice(["sum", "min", "max", "mean", "var", "prod"])
    options: dict[str, Any] = {"axis": _axes(r, shape), "keepdims": r.random() < 0.5}
    of_numpy = getattr(np, name)
    return (
        lambda a: getattr(dr, name)(a, **options),
        lambda a: of_numpy(a, **options),
    )


def joined(r: random.Random, shape: tuple[int, ...]) -> Step:
    axis, middle = _axis(r, shape), len(shape) and shape[0] // 2
    return r.choice(
        [
            (
                lambda a: dr.concat([a, a * a], axis=axis),
                lambda a: np.concatenate([a, a * a], axis),
            ),
            (
                lambda a: dr.stack([a, a * a], axis=axis),
                lambda a: np.stack([a, a * a], axis),
            ),
            (
                lambda a: dr.split(a, [middle], axis=0)[1],
                lambda a: np.split(a, [middle], 0)[1],
            ),
        ]
    )


def moved(r: random.Random, shape: tuple[int, ...]) -> Step:
    first, second = _axis(r, shape), _axis(r, shape)
    to = r.choice([(-1,), shape[::-1], (*shape, 1)])
    return r.choice(
        [
            (
                lambda a: dr.moveaxis(a, first, second),
                lambda a: np.moveaxis(a, first, second),
            ),
            (
                lambda a: dr.reshape(ad.TensorXf64, a, to),
                lambda a: a.reshape(to),
            ),
            (lambda a: dr.reverse(a, axis=first), lambda a: np.flip(a, first)),
        ]
    )


def along(r: random.Random, shape: tuple[int, ...]) -> Step:
    axis, taps = _axis(r, shape), [float(r.randint(-2, 2)) for _ in range(3)]

    def convolved(row: Any) -> Any:
        return np.convolve(row, taps)[1:][: len(row)]

    weights = np.random.default_rng(1).random((shape[-1], 2))
    return r.choice(
        [
            (lambda a: dr.cumsum(a, axis=axis), lambda a: np.cumsum(a, axis)),
            (lambda a: dr.sort(a, axis=axis), lambda a: np.sort(a, axis)),
            (
                lambda a: dr.convolve(a, taps, axis=axis),
                lambda a: np.apply_along_axis(convolved, axis, a),
            ),
            (lambda a: a @ ad.TensorXf64(weights), lambda a: a @ weights),
        ]
    )


STEPS: list[Steps] = [
    *(function, index, chosen, changed, masked, reduced, joined, moved, along),
]


@pytest.mark.parametrize("seed", range(30))
def test_steps(seed: int) -> None:
    r = random.Random(seed)
    shape = tuple(r.choices([1, 2, 3, 4], k=r.randint(1, 3)))
    data = np.random.default_rng(seed).normal(size=shape)
    steps: list[Step] = []
    value = data
    for _ in range(4):
        if not value.ndim:
            break
        step = r.choice(STEPS)(r, value.shape)
        found = np.asarray(step[1](value))
        if 0 < found.size < 200 and np.abs(found).max() < 50:
            steps.append(step)
            value = found
    weights = np.random.default_rng(seed + 1).normal(size=value.shape)

    def program(x: Any) -> Any:
        for ours, _ in steps:
            x = ours(x)
        return x

    result = program(ad.TensorXf64(data))
    assert result.shape == value.shape
    np.testing.assert_allclose(result.numpy(), value, 1e-9, 1e-9)
    wide = ad.TensorXf64(weights)
    dr.gradcheck(lambda x: dr.sum(program(x) * wide, axis=None), ad.TensorXf64(data))


class Ours:
    """What the programs below call, on tensors."""

    sin = staticmethod(dr.sin)
    maximum = staticmethod(dr.maximum)
    where = staticmethod(dr.select)

    @staticmethod
    def flat(mask: Any) -> Any:
        return mask.array if hasattr(mask, "array") else mask


class Plain:
    """The same on numbers."""

    sin = staticmethod(np.sin)
    maximum = staticmethod(max)

    @staticmethod
    def where(mask: Any, a: Any, b: Any) -> Any:
        return a if mask else b

    @staticmethod
    def flat(mask: Any) -> Any:
        return mask


def formula(r: random.Random, names: list[str], depth: int = 0) -> str:
    """Write an expression, of which not much becomes large."""
    if depth > 2 or r.random() < 0.25:
        return r.choice([*names, "0.25", "-1.5"])
    a, b, c = (formula(r, names, depth + 1) for _ in range(3))
    forms = [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"m.sin({a})"]
    forms += [f"m.maximum({a}, {b} + x * 0)", f"m.where(x > {a}, {b}, {c} + y * 0)"]
    return r.choice(forms)


def written(r: random.Random) -> str:
    """Write a function with a loop or a branch whose state are tensors `x` and `y`."""
    updates = [
        f"{name} = {formula(r, ['x', 'y'])} * 0.5 + {r.choice('xy')} * 0.25"
        for name in r.choice(["x", "y", "xy", "yx"])
    ]
    inner = "".join(f"        {line}\n" for line in updates)
    head = "def f(m, x, y, n):\n    i = n * 0\n"
    tail = "    return x, y\n"
    kind = r.randrange(4)
    if kind == 0:
        loop = f"    while m.flat(i < n):\n{inner}        i += 1\n"
        return f"{head}{loop}{tail}"
    if kind == 1:
        stop = f"(x < {r.choice([0.5, 1, 2])}) & (j < 5)"
        body = f"    j = x * 0\n    while m.flat({stop}):\n{inner}        j = j + 1\n"
        return f"{head}{body}{tail}"
    if kind == 2:
        other = f"    else:\n        y = {formula(r, ['x', 'y'])} + y * 0\n"
        return f"{head}    if m.flat(x > 0):\n{inner}{other}{tail}"
    nested = "".join(f"            {line}\n" for line in updates)
    branch = f"        if m.flat(x + i > 0.5):\n{nested}"
    return f"{head}    while m.flat(i < n):\n{branch}        i += 1\n{tail}"


def compiled(source: str, name: str) -> Any:
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names: dict[str, Any] = {"dr": dr}
    exec(compile(source, name, "exec"), names)
    return names["f"]


@pytest.mark.parametrize("seed", range(20))
def test_control_flow(seed: int) -> None:
    r, rng = random.Random(seed), np.random.default_rng(seed)
    source = written(r)
    shape = r.choice([(3,), (2, 3), (1,), (1, 4), (2, 1, 3), (), (2, 2, 2)])
    x, y = np.round(rng.normal(size=(2, *shape)) * 16) / 16
    varies = r.random() < 0.5
    n = rng.integers(0, 4, shape if varies else ()).astype(np.int32)
    plain = compiled(source, f"<plain {seed}>")
    expected = [np.zeros(shape), np.zeros(shape)]
    for place in np.ndindex(shape):
        turns = n[place] if varies else n
        found = plain(Plain, x[place], y[place], int(turns))
        expected[0][place], expected[1][place] = found
    ours = dr.syntax(compiled(source, f"<random {seed}>"))
    count = ad.TensorXi(n) if varies else ad.Int(int(n))
    weights = [ad.TensorXf64(np.asarray(w)) for w in rng.normal(size=(2, *shape))]

    def program(x: Any, y: Any) -> Any:
        pairs = zip(ours(Ours, x, y, count), weights, strict=True)
        return sum((dr.sum(v * w, axis=None) for v, w in pairs), ad.TensorXf64(0))

    inputs = [ad.TensorXf64(np.asarray(v)) for v in (x, y)]
    for is_symbolic in (True, False):
        with (
            dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic),
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, is_symbolic),
        ):
            found = ours(Ours, *inputs, count)
            for value, right in zip(found, expected, strict=True):
                assert value.shape == shape
                np.testing.assert_allclose(value.numpy(), right, 1e-9, 1e-9)
    # (Away from the edges of branches, where there is no derivative.)
    moved = [v + 0.0123 for v in inputs]
    dr.gradcheck(program, *moved)
