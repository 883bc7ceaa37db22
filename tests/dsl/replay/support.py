"""What tests of `@kernel` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lumijit as dr
from lumijit.llvm.ad import Array3f, Float
from lumijit.pytree import tree_leaves

FACTOR = 1.0


def array(*values: float) -> Float:
    made = Float(*values)
    dr.make_opaque(made)
    return made


def assert_equal(found: Any, expected: Any) -> None:
    if isinstance(found, dr.ArrayBase):
        assert dr.allclose(found, expected), (found, expected)
        return
    leaves = [list(tree_leaves(v)) for v in (found, expected)]
    assert [path for path, _ in leaves[0]] == [path for path, _ in leaves[1]]
    for (_, a), (_, b) in zip(*leaves, strict=True):
        assert a == b if isinstance(a, str) else dr.allclose(a, b), (found, expected)


class Sampler:
    def __init__(self) -> None:
        self.t = 0
        self.v = array(0, 0)
        self.kept: dict[str, Any] = {}

    @dr.kernel
    def step(self, x: Float, k: int = 2) -> Any:
        self.t += 1
        self.v = self.v + x * self.t * k
        self.kept["last"] = x
        return self.v * 2


@dataclass
class Ray:
    o: Array3f
    t: float
