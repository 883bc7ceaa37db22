"""Each method against NumPy in double precision, over twenty steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayValueError

STEPS = 20
RATES = [0.1 / (1 + 0.3 * i) for i in range(STEPS)]
Make = Callable[..., dr.opt.Optimizer]


@dataclass
class Reference:
    """A parameter, and what its method remembers, as NumPy arrays of doubles."""

    x: np.ndarray
    m: Any = 0.0
    v: Any = 0.0
    i: int = 0


def sgd(r, g, lr, mu=0.0, nesterov=False):
    r.v = mu * r.v + g
    r.x = r.x - lr * (g + mu * r.v if nesterov else r.v)


def rmsprop(r, g, lr, alpha=0.99, epsilon=1e-8):
    r.v = alpha * r.v + (1 - alpha) * g**2
    r.x = r.x - lr * g / (np.sqrt(r.v) + epsilon)


def adam(r, g, lr, b1=0.9, b2=0.999, epsilon=1e-8, decay=0.0):
    r.i += 1
    r.x = r.x * (1 - lr * decay)
    r.m = b1 * r.m + (1 - b1) * g
    r.v = b2 * r.v + (1 - b2) * g**2
    mean, square = r.m / (1 - b1**r.i), r.v / (1 - b2**r.i)
    r.x = r.x - lr * mean / (np.sqrt(square) + epsilon)


METHODS: dict[str, tuple[Make, Callable[..., None], dict[str, Any], dict[str, Any]]] = {
    "SGD": (dr.opt.SGD, sgd, {}, {}),
    "momentum": (dr.opt.SGD, sgd, {"momentum": 0.8}, {"mu": 0.8}),
    "Nesterov": (
        dr.opt.SGD,
        sgd,
        {"momentum": 0.8, "nesterov": True},
        {"mu": 0.8, "nesterov": True},
    ),
    "RMSProp": (dr.opt.RMSProp, rmsprop, {}, {}),
    "RMSProp 2": (
        dr.opt.RMSProp,
        rmsprop,
        {"alpha": 0.7, "epsilon": 1e-3},
        {"alpha": 0.7, "epsilon": 1e-3},
    ),
    "Adam": (dr.opt.Adam, adam, {}, {}),
    "Adam 2": (
        dr.opt.Adam,
        adam,
        {"beta_1": 0.6, "beta_2": 0.8, "epsilon": 1e-2},
        {"b1": 0.6, "b2": 0.8, "epsilon": 1e-2},
    ),
    "AdamW": (dr.opt.AdamW, adam, {}, {"decay": 0.01}),
    "AdamW 2": (dr.opt.AdamW, adam, {"weight_decay": 0.5}, {"decay": 0.5}),
}


def slope(x, target):
    """The derivative of the sum of (x - target)^4 / 4 + (x - target)^2 / 2."""
    d = x - target
    return d**3 + d


def loss(x, target):
    d = x - target
    return dr.sum(0.25 * dr.square(d * d) + 0.5 * d * d)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("cls", "tolerance"),
    [(ad.Float64, 1e-12), (ad.Float, 2e-5), (ad.Float16, 1.5e-2)],
    ids=["f64", "f32", "f16"],
)
@pytest.mark.parametrize("size", [1, 13])
def test_steps_are_those_of_numpy(method, cls, tolerance, size):
    make, reference, options, theirs = METHODS[method]
    rng = np.random.default_rng(7)
    start, target = rng.uniform(-1, 1, (2, size)).astype(cls(0).numpy().dtype)
    opt = make(lr=1, params={"x": cls(start)}, **options)
    expected = Reference(start.astype(np.float64))
    for rate in RATES:
        opt.set_learning_rate(rate)
        dr.backward(loss(opt["x"], cls(target)))
        opt.step()
        reference(
            expected, slope(expected.x, target.astype(np.float64)), rate, **theirs
        )
    np.testing.assert_allclose(opt["x"].numpy(), expected.x, rtol=0, atol=tolerance)
    assert type(opt["x"]) is cls
    assert dr.grad_enabled(opt["x"])


@pytest.mark.parametrize("method", METHODS)
def test_masked_updates_leave_entries_without_gradient_alone(method):
    make, reference, options, theirs = METHODS[method]
    rng = np.random.default_rng(8)
    start, target = rng.uniform(-1, 1, (2, 9))
    opt = make(lr=0.1, params={"x": ad.Float64(start)}, mask_updates=True, **options)
    entries = [Reference(v) for v in start]
    for step in range(STEPS):
        chosen = rng.random(9) < 0.4
        mask = ad.Bool(chosen)
        d = dr.select(mask, opt["x"] - ad.Float64(target), 0)
        dr.backward(dr.sum(d * d))
        opt.step()
        for entry, goal, is_chosen in zip(entries, target, chosen, strict=True):
            # Steps are counted for all entries together.
            if is_chosen:
                entry.i = step
                reference(entry, 2 * (entry.x - goal), 0.1, **theirs)
    np.testing.assert_allclose(opt["x"].numpy(), [e.x for e in entries], atol=1e-12)


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (dr.opt.SGD, {"lr": -1}, r"opt.SGD: 'lr' is -1 \(expected 0 or more, finite"),
        (dr.opt.SGD, {"lr": float("nan")}, "'lr' is nan"),
        (dr.opt.SGD, {"lr": 1, "momentum": -0.5}, "'momentum' is -0.5"),
        (
            dr.opt.SGD,
            {"lr": 1, "nesterov": True},
            "'nesterov' is set, and the momentum",
        ),
        (dr.opt.RMSProp, {"lr": 1, "alpha": 1}, r"'alpha' is 1 \(expected .* below 1"),
        (dr.opt.RMSProp, {"lr": 1, "epsilon": -1}, "'epsilon' is -1"),
        (dr.opt.Adam, {"lr": 1, "beta_1": 1}, "'beta_1' is 1"),
        (dr.opt.Adam, {"lr": 1, "beta_2": 1.5}, "'beta_2' is 1.5"),
        (
            dr.opt.AdamW,
            {"lr": 1, "weight_decay": -1},
            "opt.AdamW: 'weight_decay' is -1",
        ),
    ],
)
def test_numbers_that_make_no_sense(make, options, match):
    with pytest.raises(ArrayValueError, match=match):
        make(**options)
