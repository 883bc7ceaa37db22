"""What accuracy the elliptic integrals have to reach, and how it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

import lumijit as dr
from lumijit import llvm
from lumijit.runtime.dtypes import FLOAT32, FLOAT64, DType

from ...compiler.mathlib_accuracy import Measured, Pair, exact_errors

REFERENCES = {
    "comp_ellint_1": lambda k: mpmath.ellipk(k * k),
    "comp_ellint_2": lambda k: mpmath.ellipe(k * k),
    "comp_ellint_3": lambda k, nu: mpmath.ellippi(nu, k * k),
    "ellint_1": lambda phi, k: mpmath.ellipf(phi, k * k),
    "ellint_2": lambda phi, k: mpmath.ellipe(phi, k * k),
    "ellint_3": lambda phi, k, nu: mpmath.ellippi(nu, phi, k * k),
}
TYPES = {FLOAT32: llvm.Float, FLOAT64: llvm.Float64}


@dataclass(frozen=True)
class EllipticRow:
    """One measurement: a function, the domain of each argument, and two bounds.

    `max_ulp` bounds the error against the exact value, `mean_ulp` the mean distance to
    the correctly rounded value.
    """

    name: str
    t: DType
    domain: tuple[tuple[str, Pair], ...]
    max_ulp: float
    mean_ulp: float


_K = ("k", (-1.0, 1.0))
_QUARTER, _TURNS = ("phi", (-1.57, 1.57)), ("phi", (-10.0, 10.0))
_POSITIVE, _NEGATIVE = ("nu", (0.0, 0.95)), ("nu", (-5.0, 0.0))
_DOMAINS = (
    ("comp_ellint_1", (_K,)),
    ("comp_ellint_2", (_K,)),
    ("comp_ellint_3", (_K, _POSITIVE)),
    ("comp_ellint_3", (_K, _NEGATIVE)),
    ("ellint_1", (_QUARTER, _K)),
    ("ellint_1", (_TURNS, _K)),
    ("ellint_2", (_QUARTER, _K)),
    ("ellint_2", (_TURNS, _K)),
    ("ellint_3", (_QUARTER, _K, _POSITIVE)),
    ("ellint_3", (_TURNS, _K, _POSITIVE)),
    ("ellint_3", (_QUARTER, _K, _NEGATIVE)),
)
_BOUNDS = {
    FLOAT32: (
        (5, 0.9),
        (5, 1.0),
        (5, 0.8),
        (18, 2.0),
        (5, 0.8),
        (7, 1.0),
        (5, 0.9),
        (8, 1.1),
        (5, 0.9),
        (7, 1.0),
        (18, 1.4),
    ),
    FLOAT64: (
        (7, 1.2),
        (5, 1.1),
        (6, 1.0),
        (18, 2.3),
        (6, 1.0),
        (9, 1.1),
        (6, 1.0),
        (10, 1.3),
        (6, 1.0),
        (7, 1.1),
        (18, 1.5),
    ),
}
ELLIPTIC = tuple(
    EllipticRow(name, t, domain, *bounds)
    for t, rows in _BOUNDS.items()
    for (name, domain), bounds in zip(_DOMAINS, rows, strict=True)
)


def measure_elliptic(row: EllipticRow, count: int, seed: int = 7) -> Measured:
    """Compare a function with mpmath at random arguments of its domain."""
    random = np.random.default_rng(seed)
    columns = [
        random.uniform(*ends, count).astype(row.t.numpy) for _, ends in row.domain
    ]
    function: Any = getattr(dr, row.name)
    found = function(*(TYPES[row.t](column) for column in columns)).numpy()
    with mpmath.workdps(40):
        rows = np.stack(columns, axis=1).astype(np.float64).tolist()
        reference: Any = REFERENCES[row.name]
        values = [reference(*map(mpmath.mpf, point)).real for point in rows]
        return exact_errors(found, values)
