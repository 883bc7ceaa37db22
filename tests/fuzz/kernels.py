"""Random functions under `@kernel`, called again and again with changed inputs.

Each function runs in two worlds, decorated in one of them. Between two calls something
changes in both: an argument, an object, a variable outside, a flag, what is tracked.
Results and all that the function can leave anything in have to agree after each call,
and so have derivatives by what is tracked.

    python -m tests.fuzz.kernels --count 200 [--target device]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

import lumijit as dr
from lumijit.llvm import ad as t
from lumijit.runtime.errors import RecordingError
from tests.targets import DEVICES, standing_in

HEAD = """
import lumijit as dr
from dataclasses import dataclass
from lumijit.llvm.ad import *

LEVEL = 2
SHARED = Float(0.5, 1.5, 2.5) + 0


@dataclass
class Ray:
    o: Array2f
    t: float


class Thing:
    def __init__(self):
        self.v = Float(1, 2, 3) + 0
        self.t = 1
        self.rate = 0.25
        self.name = "p"
        self.items = [Float(1, 1, 1) + 0, Float(2, 0, 1) + 0]
        self.d = {"a": Float(3, 2, 1) + 0}


def make(decorate):
    thing = Thing()
    offset = Float(0.25, 0.5, 0.75) + 0
    count = 3

    @decorate
    def f(x, y, a, k, ray, thing2):
        nonlocal count, offset
        z = x + offset
"""
TAIL = """

    def world():
        return thing, offset, count

    def change(what, value):
        nonlocal count, offset
        if what == "count":
            count = value
        elif what == "offset":
            offset = value
        elif what == "offset in place":
            offset += value

    return f, world, change
"""
OPERANDS = (
    *("x", "y", "z", "offset", "thing.v", "thing.items[0]", 'thing.d["a"]', "SHARED"),
    *("thing2.v", "ray.o.x", "a", "k", "ray.t", "thing.t", "thing.rate", "count"),
    *("LEVEL", "2.0", "thing2.rate", "thing.items[-1]"),
)
NUMBERS = ("a", "k", "ray.t", "thing.t", "thing.rate", "count", "LEVEL", "1")
COMPUTING = (
    *("z = z {op} {operand}",) * 6,
    "z = dr.sin(z) + {operand}",
    "z = dr.fma(z, {operand}, {operand})",
    "z = dr.select(z > {number}, {operand}, z)",
    "z = z + dr.sum(z) * 0.125",
    "z = z * dr.mean(y)",
    "z = dr.prefix_sum(z) * 0.5",
    "a = a * 0.5 + {number}",
    "k = k + 1",
    "if a > 0.5:\n    z = z + 1\nelse:\n    z = z - {number}",
    "for _ in range(k % 3):\n    z = z * 0.5 + {operand}",
    'if thing.name == "p":\n    z = z + 2',
    "if thing2.t > 2:\n    z = z + thing2.t",
    "i = UInt32(0)\nwhile i < UInt32(k % 4):\n    z = z * 0.5 + {operand}\n    i += 1",
    "w = Float(z)\ndr.scatter_add(w, Float({number}), UInt32(1))\nz = z + w",
    "if z > 1:\n    z = z * 0.5\nelse:\n    z = z + {operand}",
    "p = Float(thing2.v)\ndr.disable_grad(p)\ndr.enable_grad(p)\n"
    "dr.backward(dr.sum(dr.detach(z) * p * p))\nz = z + dr.grad(p) * 0.125",
    "z = dr.gather(Float, z, dr.arange(UInt32, dr.width(z)) ^ 1 & 1)",
)
ARRAYS = ("x", "y", "z", "thing.v", "thing2.v", "offset")
ASKING = (
    "if dr.grad_enabled({array}):\n    z = z * 0.5\nelse:\n    z = z + 1",
    "z = z + dr.grad({array})",
    "dr.set_grad({array}, {number})",
    "dr.accum_grad({array}, 0.5)",
    "dr.clear_grad({array})",
    "dr.backward(dr.sum(z * {operand}), dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)",
    "dr.forward({array}, dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)",
    "dr.enable_grad({array})",
)
LEAVING = (
    "thing.v = z * 0.5",
    "thing.t += 1",
    "thing2.t = thing2.t + k",
    "thing.rate = thing.rate * 0.5 + {number} * 0.125",
    "thing.items[0] = z",
    "thing.items = [z, thing.items[0]]",
    "if len(thing.items) < 4:\n    thing.items.append(z)\nelse:\n    thing.items.pop()",
    'thing.d["a"] = thing.d["a"] * 0.5 + {operand}',
    'thing.d["b"] = z',
    "count = (count + k) % 5",
    "offset = offset * 0.5 + 0.125",
    "thing.t = 1",
    "thing.rate = {number}",
    "count = 3",
    "ray.t = 1.5",
    'thing.name = "p"',
    "thing.v = offset",
    "thing.items[0] = thing2.v",
    "ray.t = ray.t * 0.5",
    "ray.o.x = ray.o.x * 0.5 + {number}",
    "ray.o = ray.o * 0.5",
    "x += 1",
    "y *= 0.5",
    "thing2.v += 1",
    "dr.scatter(y, Float({number}), UInt32(0))",
)
READING = (
    "z = z * (1 + dr.sum(z)[0] % 2)",
    "if dr.max(z)[0] > {number}:\n    z = z * 0.5\nelse:\n    z = z + {operand}",
    "a = a + dr.min(x)[-1] * 0.25",
    "if dr.any(z > 2):\n    k = k + 1",
    "while dr.hint(z < 2, mode='evaluated'):\n    z = dr.abs(z) * 2 + 1",
    "n = dr.count(z > {number})[0]\nz = z + n",
)
RETURNS = (
    "return z",
    "return z, a, k",
    'return {"z": z, "n": [count, thing.t], "same": x}',
    "return Array3f(z, a, y), thing.rate * 2",
    "return [z, thing.v], Ray(Array2f(z, y), a)",
    "return None",
    "return a + k, z * 2, x",
)


def program(rng: random.Random) -> tuple[str, bool]:
    """Return the text of a module with a random function, and whether it may read."""
    lines = []
    # What leaves nothing but its result is differentiated by recordings, too.
    statements: tuple[str, ...] = (
        COMPUTING if rng.random() < 0.3 else (*COMPUTING, *LEAVING)
    )
    has_reads = rng.random() < 0.3
    if has_reads:
        statements += READING
    if rng.random() < 0.5:
        statements += ASKING
    for _ in range(rng.randrange(2, 9)):
        text = rng.choice(statements)
        while "{" in text.replace('{"', ""):
            text = text.replace("{operand}", rng.choice(OPERANDS), 1)
            text = text.replace("{array}", rng.choice(ARRAYS), 1)
            text = text.replace("{number}", rng.choice(NUMBERS), 1)
            text = text.replace("{op}", rng.choice("+-*"), 1)
        lines.append(text)
    lines.append(rng.choice(RETURNS))
    return HEAD + textwrap.indent("\n".join(lines), " " * 8) + TAIL, has_reads


class World:
    """A module with the function, and the arguments of the next call."""

    def __init__(self, path: Path, decorate: Any) -> None:
        spec = spec_from_file_location(f"world_{id(self)}", path)
        assert spec is not None
        assert spec.loader is not None
        self.module: Any = module_from_spec(spec)
        sys.modules[spec.name] = self.module
        spec.loader.exec_module(self.module)
        self.function, self.surroundings, self.change = self.module.make(decorate)
        self.x = t.Float(1, 2, 3) + 0
        self.y = t.Float(0.5, 0.25, 1) + 0
        self.numbers: list[Any] = [0.75, 2]
        self.ray = self.module.Ray(t.Array2f(1, 2) + t.Float(0, 1, 2), 1.5)
        self.thing2 = self.module.Thing()
        # What was tracked, and still may be.
        self.sources: list[Any] = []

    def call(self) -> Any:
        """Call the function; return all that can be seen afterwards."""
        result = self.function(self.x, self.y, *self.numbers, self.ray, self.thing2)
        thing, offset, count = self.surroundings()
        seen = [result, self.x, self.y, self.ray, offset, count]
        for what in (thing, self.thing2):
            seen += [vars(what)[name] for name in sorted(vars(what))]
        seen += [self.module.SHARED, self.module.LEVEL]
        seen += dr.grad(self.sources)
        return [shown(v) for v in [*seen, *self.gradients(result)]]

    def track(self, array: Any) -> None:
        """Track an array from here on."""
        dr.enable_grad(array)
        self.sources.append(array)

    def gradients(self, result: Any) -> list[Any]:
        """Return derivatives of what is tracked of a result."""
        sources = [v for v in self.sources if dr.grad_enabled(v)]
        results = tracked_leaves(result)
        if not (sources and results):
            return []
        total = t.Float(0)
        for k, value in enumerate(results):
            total += dr.sum(value * value) * (1 + 0.5 * k)
        dr.clear_grad(sources)
        dr.backward(total, dr.ADFlag.ClearVertices)
        found = dr.grad(sources)
        dr.clear_grad(sources)
        dr.set_grad(sources, 1)
        found.append(dr.forward_to(total, flags=dr.ADFlag.ClearInterior))
        dr.clear_grad(sources)
        return found


def tracked_leaves(value: Any) -> list[Any]:
    """List the flat arrays of a result that are tracked, each once."""
    if isinstance(value, dict):
        value = list(value.values())
    if hasattr(value, "__dataclass_fields__"):
        value = list(vars(value).values())
    if isinstance(value, (list, tuple)) or getattr(value, "depth_v", 1) > 1:
        return [leaf for v in value for leaf in tracked_leaves(v)]
    return [value] if dr.grad_enabled(value) else []


def shown(value: Any) -> Any:
    """Return a value as what can be compared."""
    if isinstance(value, dr.ArrayBase):
        return type(value).__name__, value.numpy().astype(np.float64)
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(shown, value)]
    if hasattr(value, "__dataclass_fields__"):
        return {k: shown(v) for k, v in vars(value).items()}
    return type(value).__name__, value


def agree(a: Any, b: Any) -> bool:
    """Tell whether two results are the same up to rounding."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(agree(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(agree, a, b))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-4, equal_nan=True)
    if isinstance(a, float):
        return bool(np.isclose(a, b, 1e-9, 1e-9, equal_nan=True))
    return type(a) is type(b) and bool(a == b)


def changed(worlds: Sequence[World], rng: random.Random) -> str:
    """Change one thing in all worlds; return what."""
    what = rng.choice(CHANGES)
    seed = rng.random()
    for world in worlds:
        own = random.Random(seed)
        values = [own.choice((0.5, 1, 2, -1, 0.25)) for _ in range(3)]
        array = t.Float(values) + 0
        number = own.choice((0.25, 0.5, 0.75, 1.5, 2.0))
        integer = own.randrange(6)
        thing = world.surroundings()[0]
        match what:
            case "x":
                world.x = array
            case "x in place":
                world.x += number
            case "y":
                world.y = array
            case "alias":
                world.y = world.x
            case "no alias":
                world.y = t.Float(world.x) + 0
            case "literal":
                world.y = t.Float(number)
            case "copy":
                world.y = t.Float(world.x)
            case "a":
                world.numbers[0] = number
            case "a int":
                world.numbers[0] = integer
            case "k":
                world.numbers[1] = integer
            case "ray":
                world.ray = world.module.Ray(t.Array2f(array, 1), number)
            case "ray.t":
                world.ray.t = number
            case "thing2":
                world.thing2 = world.module.Thing()
            case "same thing":
                world.thing2 = thing
            case "thing2.v":
                world.thing2.v = array
            case "name":
                thing.name = own.choice("pq")
            case "rate":
                thing.rate = number
            case "v":
                thing.v = array
            case "v is x":
                thing.v = world.x
            case "items":
                thing.items = [array, array + 1, array * 2]
            case "d":
                thing.d = {"a": array}
            case "level":
                world.module.LEVEL = integer
            case "shared":
                world.module.SHARED = array
            case "track x" | "track y" | "track v" | "track thing2.v":
                owner = {"v": thing, "thing2.v": world.thing2}.get(what[6:])
                source = getattr(owner or world, "v" if owner else what[6:])
                world.track(source)
            case "computed x" | "computed v":
                owner = thing if what[-1] == "v" else world
                setattr(owner, what[-1], world.x * number + thing.v)
            case "untrack":
                dr.disable_grad(world.sources)
                world.sources.clear()
            case "count" | "offset" | "offset in place":
                value = integer if what == "count" else array
                world.change(what, value)
    return what


CHANGES = (
    *("x", "x in place", "y", "alias", "no alias", "literal", "copy", "a", "a int"),
    *("k", "ray", "ray.t", "thing2", "same thing", "thing2.v", "name", "rate", "v"),
    *("v is x", "items", "d", "level", "shared", "count", "offset", "offset in place"),
    *("track x", "track y", "track v", "track thing2.v", "untrack", "nothing"),
    *("computed x", "computed v"),
)


def check(number: int, calls: int, folder: Path) -> tuple[int, int, str]:
    """Check one function; return how often it was called and recorded, and its text.

    Raises:
        AssertionError: if the worlds differ.
    """
    rng = random.Random(f"kernels {number}")
    text, has_reads = program(rng)
    path = folder / f"program_{number}.py"
    path.write_text(text)
    kernel = dr.kernel(warn_after=-1, graph_breaks=has_reads)
    worlds = [World(path, kernel), World(path, dr.syntax)]
    done = 0
    history = ["first"]
    for _ in range(calls):
        outcomes = []
        for world in worlds:
            try:
                outcomes.append(world.call())
            except RecordingError:
                raise
            except Exception as error:
                outcomes.append(type(error).__name__)
        if not agree(*outcomes):
            raise AssertionError(
                f"program {number} after {history}:\n{text}\n"
                + "\n".join(
                    f"{a}\n{b}"
                    for a, b in zip(*outcomes, strict=False)
                    if not agree(a, b)
                )
            )
        if isinstance(outcomes[0], str):
            break
        done += 1
        if done == 1 and rng.random() < 0.5:
            for world in worlds:
                world.track(world.x)
        for _ in range(rng.choice((0, 1, 1, 2))):
            history.append(changed(worlds, rng))
    return done, worlds[0].function.n_recordings, text


def main(arguments: Sequence[str]) -> int:
    """Check functions; return the status."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.kernels", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", type=int, default=12)
    parser.add_argument("--target", choices=("host", *DEVICES), default="host")
    options = parser.parse_args(arguments)
    with standing_in(options.target):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    failures = calls = recordings = 0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.first, options.first + options.count):
            try:
                done, made, _ = check(number, options.calls, Path(folder))
                calls += done
                recordings += made
            except Exception as error:
                failures += 1
                print(f"{number}: {type(error).__name__}: {error}", flush=True)
    print(
        f"{options.count} functions, {calls} calls, {recordings} recordings, "
        f"{failures} failures, {time.perf_counter() - start:.0f} s"
    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
