"""The same programs over double precision, to be differentiated.

Integers that a program only adds, multiplies and compares become floats, as does
`Int` of its namespace; so that no two of them are equal, each is moved off its place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import lumijit as lj
import lumijit.llvm.ad
import lumijit.scalar
from lumijit import pytree
from lumijit.derivatives.functional import Call
from tests.differences import slopes
from tests.dsl.programs.modes import SHORT, Program, flags_of

Array = np.ndarray[Any, Any]
FOLDER = str(Path(__file__).parent)
#: Programs of integers that end take fewer lines.
LINES = 20_000
PLACES = 10
_KINDS = {
    "Int": "Float64",
    "Float": "Float64",
    "Float16": "Float64",
    "Array2f": "Array2f64",
    "Array3f": "Array3f64",
}


class Endless(Exception):
    """A program that doesn't seem to end with floats."""


class NoFloats(Exception):
    """A program that returns no floats."""


class NotDifferentiable(Exception):
    """A program whose differences to both sides disagree everywhere."""


@contextmanager
def bounded() -> Iterator[None]:
    """Raise an error if what runs inside takes too many lines of the programs."""
    left = LINES

    def count(frame: Any, event: str, _arg: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        left -= event == "line"
        if left < 0:
            raise Endless(f"more than {LINES} lines")
        return count

    former = sys.gettrace()
    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(former)


class Space:
    """A namespace in which some types are others."""

    def __init__(self, space: ModuleType) -> None:
        self._space = space

    def __getattr__(self, name: str) -> Any:
        return getattr(self._space, _KINDS.get(name, name))


_SCALAR: Any = Space(lumijit.scalar)
_VECTOR: Any = Space(lumijit.llvm.ad)


def candidates(program: Program) -> list[str]:
    """Return the names of columns and shared arrays that may become floats."""
    given = {**program.columns, **program.shared}
    return [name for name, (kind, _) in given.items() if kind != "Bool"]


class FloatProgram:
    """A program of floats, at a place where it is differentiable.

    `jacobian` has a row for each number that the program returns or leaves in shared
    arrays, and a column for each of its floats, input by input.
    """

    def __init__(self, program: Program, names: Sequence[str]) -> None:
        self._program = program
        self._names = names
        self._traced = lj.syntax(program.function)
        self._mode = "evaluated" if program.is_recursive else "symbolic"
        given = {**program.columns, **program.shared}
        for seed in range(PLACES):
            rng = np.random.default_rng(seed)
            values = [np.array(given[name][1], float) for name in self._names]
            self.inputs = [v + rng.uniform(0.05, 0.45, v.shape) for v in values]
            point = np.concatenate(self.inputs).tolist()
            with bounded():
                self._results(point)
            with flags_of(self._mode):
                arrays = [_VECTOR.Float64(v) for v in self.inputs]
                found, _ = self._returned(*arrays)
            self.paths = [path for path, leaf in found if _is_float(leaf)]
            if not self.paths and not any(name in program.shared for name in names):
                raise NoFloats("no float results")
            jacobian = slopes(self._plain, point)
            if jacobian is not None:
                self.jacobian = jacobian
                return
        raise NotDifferentiable

    def _results(self, numbers: Sequence[float]) -> tuple[list[Any], dict[str, Any]]:
        """Run plain Python; return the results of each lane, and the shared arrays."""
        sizes = [len(v) for v in self.inputs]
        parts = np.split(np.array(numbers), np.cumsum(sizes)[:-1])
        floats = dict(zip(self._names, parts, strict=True))
        shared = {
            name: lumijit.scalar.ArrayXf64(*floats[name])
            if name in floats
            else getattr(lumijit.scalar, f"ArrayX{SHORT[kind]}")(*values)
            for name, (kind, values) in self._program.shared.items()
        }
        columns = {
            name: floats[name].tolist() if name in floats else values
            for name, (_, values) in self._program.columns.items()
        }
        results = []
        for lane in range(self._program.lanes):
            arguments = {name: values[lane] for name, values in columns.items()}
            function = self._program.function
            results.append(self._program.call(function, _SCALAR, arguments, shared))
        return results, {n: a for n, a in shared.items() if n in floats}

    def _plain(self, numbers: Sequence[float]) -> list[float]:
        rows, shared = self._results(numbers)
        lanes = [dict(_parts(row)) for row in rows]
        found = [float(lane[path]) for path in self.paths for lane in lanes]
        return found + [float(v) for a in shared.values() for v in a.numpy()]

    def _returned(self, *inputs: Any) -> tuple[list[tuple[str, Any]], list[Any]]:
        """Run the vectorized program; return its results, and shared floats."""
        floats = dict(zip(self._names, inputs, strict=True))
        columns, shared = (
            {
                name: floats[name]
                if name in floats
                else getattr(lumijit.llvm.ad, kind)(values)
                for name, (kind, values) in given.items()
            }
            for given in (self._program.columns, self._program.shared)
        )
        result = self._program.call(self._traced, _VECTOR, columns, shared)
        zeros = lj.zeros(_VECTOR.Float64, self._program.lanes)
        found = [
            (path, leaf + zeros if _is_float(leaf) else leaf)
            for path, leaf in _parts(result)
        ]
        return found, [shared[name] for name in shared if name in floats]

    def run(self, *inputs: Any) -> list[Any]:
        """Return the floats among them, with one entry for each lane."""
        found, shared = self._returned(*inputs)
        return [leaf for _, leaf in found if _is_float(leaf)] + shared

    def compare(self, mode: str, way: str) -> None:
        """Compare the derivatives in forward or reverse mode with the differences."""
        rng = np.random.default_rng(len(self.paths))
        rows, columns = self.jacobian.shape
        with flags_of(mode):
            inputs = [_VECTOR.Float64(v) for v in self.inputs]
            call = Call("program", self.run, inputs)
            if way == "forward":
                along = rng.uniform(-1, 1, columns)
                expected = self.jacobian @ along
                found = call.push(tuple(self._split(along, self.inputs)))
            else:
                by = rng.uniform(-1, 1, rows)
                expected = by @ self.jacobian
                found = call.pull(self._split(by, call.outputs))
            lj.eval(found)
        np.testing.assert_allclose(
            np.concatenate([leaf.numpy() for leaf in found]),
            expected,
            rtol=1e-5,
            atol=1e-5 * (1 + np.abs(expected).max()),
        )

    @staticmethod
    def _split(values: Array, like: Sequence[Any]) -> list[Any]:
        ends = np.cumsum([len(v) for v in like])[:-1]
        return [_VECTOR.Float64(part) for part in np.split(values, ends)]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Go through the numbers and flat arrays of a PyTree, by their paths."""
    for path, leaf in pytree.tree_leaves(value):
        if not isinstance(leaf, lj.ArrayBase) or lj.depth_v(leaf) == lj.is_jit_v(leaf):
            yield path, leaf
        else:
            yield from ((f"{path}[{k}]", leaf[k]) for k in range(len(leaf)))


def _is_float(leaf: Any) -> bool:
    is_array = isinstance(leaf, lj.ArrayBase) and lj.is_float_v(leaf)
    return is_array or isinstance(leaf, float)
