"""Recorded functions that tests save, and load in another process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import lumijit as dr
from lumijit.llvm.ad import Array3f, Float, Matrix2f, TensorXf, Texture1f, UInt32
from lumijit.replay.recorded_function import Kernel

GAIN = Float(1, 2, 3)
RATE = 0.5
TEXTURE = Texture1f(TensorXf([0, 1, 4, 9], (4, 1)))


@dataclass
class State:
    v: Array3f
    n: int


class Model:
    def __init__(self) -> None:
        self.bias = Float(0.5, 0.25, 1)
        self.count = 0
        self.seen: list[Any] = []

    def shifted(self, x: Float) -> Float:
        return x + self.bias * self.count

    @dr.kernel
    def step(self, x: Float, rate: float) -> Any:
        self.count += 1
        i = UInt32(0)
        while i < 4:
            x = dr.sin(x) * rate
            i += 1
        y = self.shifted(x)
        if rate > 2:
            y = y + 1
        self.seen = [y]
        return {"y": y * GAIN, "state": State(Array3f(y, 1, RATE), self.count)}


@dr.kernel
def collected(x: Float) -> Any:
    y = dr.prefix_sum(x) + dr.sum(x)
    bins = dr.zeros(Float, 4)
    dr.scatter_add(bins, y, UInt32(x) % 4)
    buffer = dr.alloc_local(Float, 4)
    buffer[0] = dr.max(y)
    for k in range(3):
        buffer[k + 1] = buffer[k] * 0.5
    table = dr.gather(Float, Float(5, 6, 7, 8), UInt32(x) & 3)
    return bins, buffer[3], table, dr.sort(x), Matrix2f(y, 1, 2, y), "text", None


@dr.kernel
def textured(x: Float) -> Any:
    return TEXTURE.eval(x)


@dr.kernel
def energy(x: Float, w: Float) -> Any:
    return dr.sum(dr.exp(x) * w * GAIN)


@dr.kernel(graph_breaks=True)
def normalized(x: Float) -> Any:
    largest = dr.max(x)[0]
    return x / largest if largest > 1 else x


FUNCTIONS: dict[str, Kernel[..., Any]] = {
    "step": Model.step,
    "collected": collected,
    "textured": textured,
    "energy": energy,
    "normalized": normalized,
}


def results() -> list[str]:
    """Call everything; return what comes out, as text."""
    model = Model()
    found: list[Any] = []
    for k in range(4):
        x = Float(0.1, 0.2 + k, 3) + 0
        found += [model.step(x, 1.5 + k), model.count, model.seen]
        found += [collected(x), textured(x / 4), normalized(x / 2 * k)]
        w = Float(1, 2, 3) + k
        dr.enable_grad(x, w)
        total = energy(x, w)
        dr.backward(total)
        found += [total, x.grad, w.grad]
    return [repr(value) for value in found]


def main(mode: str, folder: str) -> None:
    """Save recordings, or load them and show that nothing is recorded."""
    if mode == "load":
        for name, function in FUNCTIONS.items():
            function.load(f"{folder}/{name}.recordings")
    print("\n".join(results()))
    if mode == "save":
        for name, function in FUNCTIONS.items():
            function.save(f"{folder}/{name}.recordings")
    else:
        made = {name: f.n_recordings for name, f in FUNCTIONS.items()}
        if any(made.values()):
            sys.exit(
                f"recorded anew: {made}\n{[f.history for f in FUNCTIONS.values()]}"
            )


if __name__ == "__main__":
    from tests.dsl.replay import saved_programs

    # As the module that others import.
    saved_programs.main(*sys.argv[1:])
