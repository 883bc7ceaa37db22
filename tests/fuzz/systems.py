"""Evaluates expressions here and in the peer, and compares results.

`python -m tests.fuzz.systems SYSTEM FILE FIRST` evaluates a file's expressions from
some on with a system, `lumijit` or `drjit`.
"""

from __future__ import annotations

import importlib
import json
import math
import operator
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any

#: A namespace, and an expression with its types.
Asked = tuple[str, str]
REFUSED = "!"
ENDED = [REFUSED, "the process ended"]


def described(value: Any) -> Any:
    """Return type, shape and entries of a result."""
    if isinstance(value, (type, Enum)):
        return value.__name__ if isinstance(value, type) else value.name
    if isinstance(value, (tuple, list)):
        return [described(part) for part in value]
    if isinstance(value, dict):
        return {str(key): described(part) for key, part in value.items()}
    if hasattr(value, "numpy"):
        data = value.numpy()
        entries = [_entry(v) for v in data.ravel().tolist()]
        return [type(value).__name__, list(data.shape), entries]
    if isinstance(value, (bool, int, float)):
        return [type(value).__name__, [], [_entry(value)]]
    return re.sub(r"drjit|lumijit| object at \w+", "", repr(value))


def _entry(value: Any) -> str:
    return (
        str(complex(value)) if isinstance(value, (float, complex)) else str(int(value))
    )


def scope(dr: Any, namespace: str) -> dict[str, Any]:
    """Return the names that expressions know."""
    types = importlib.import_module(f"{dr.__name__}.{namespace}")
    found = {name: getattr(types, name) for name in dir(types) if name[0].isupper()}
    found |= {"dr": dr, "ReduceOp": dr.ReduceOp, "VarType": dr.VarType}
    return found | {"nan": math.nan, "inf": math.inf, "operator": operator}


def evaluate(system: str, path: str, first: int) -> Iterator[Any]:
    """Evaluate a file's expressions from some on with a system."""
    dr = importlib.import_module(system)
    importlib.import_module(f"{dr.__name__}.nn")
    asked = json.loads(Path(path).read_text())[first:]
    scopes = {name: scope(dr, name) for name, _ in asked}
    for namespace, text in asked:
        try:
            yield described(eval(text, dict(scopes[namespace])))
        except Exception as error:
            yield [REFUSED, type(error).__name__]


def evaluated_by(python: str, system: str, asked: Sequence[Asked]) -> list[Any]:
    """Have another Python evaluate expressions; some end its process."""
    found: list[Any] = []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        while len(found) < len(asked):
            command = [python, "-m", "tests.fuzz.systems", system, file.name]
            command.append(str(len(found)))
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            found += map(json.loads, run.stdout.splitlines())
            if len(found) < len(asked):
                found.append(ENDED)
    return found


def both(peer_python: str, asked: Sequence[Asked]) -> tuple[list[Any], list[Any]]:
    """Evaluate expressions here and in the peer."""
    with ThreadPoolExecutor() as pool:
        pythons, systems = (sys.executable, peer_python), ("lumijit", "drjit")
        ours, theirs = pool.map(evaluated_by, pythons, systems, (asked, asked))
    return ours, theirs


def is_refused(result: Any) -> bool:
    """Return whether an expression was an error."""
    return isinstance(result, list) and result[:1] == [REFUSED]


def is_same(ours: Any, theirs: Any, floor: float = 1, tolerance: float = 2e-5) -> bool:
    """Compare two results; errors are alike whatever their types.

    Entries below `floor` may differ by as much as this may. At 1, doubles may differ by
    as much as singles.
    """
    if is_refused(ours) or is_refused(theirs):
        return is_refused(ours) and is_refused(theirs)
    if isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        if len(ours) != len(theirs):
            return False
        if isinstance(ours[0], str):
            tolerance = _tolerance(ours[0], tolerance, floor)
        pairs = zip(ours, theirs, strict=True)
        return all(is_same(a, b, floor, tolerance) for a, b in pairs)
    if ours == theirs:
        return True
    try:
        if int(ours) != int(theirs):
            return False
    except (TypeError, ValueError):
        pass
    try:
        a, b = complex(ours), complex(theirs)
    except (TypeError, ValueError):
        return False
    slack = tolerance * max(floor, abs(a), abs(b))
    return _is_near(a.real, b.real, slack) and _is_near(a.imag, b.imag, slack)


def is_better(ours: Any, theirs: Any, exact: Any, their_exact: Any) -> bool:
    """Return whether both mean the same, and ours is near, or nearer, to it.

    What is meant are the results in double precision.
    """
    if not is_same(exact, their_exact, tolerance=1e-9):
        return False
    error = _distance(ours, exact)
    return error < 1 or error <= _distance(theirs, exact)


def _distance(found: Any, exact: Any, tolerance: float = 2e-5) -> float:
    """Return the largest error of arrays, relative to their entries and tolerances."""
    if not isinstance(found, list) or not isinstance(exact, list):
        return 0 if found == exact else math.inf
    if len(found) != len(exact):
        return math.inf
    if len(found) != 3 or not isinstance(found[2], list) or not found[2]:
        return max(map(_distance, found, exact), default=0)
    if found[1] != exact[1]:
        return math.inf
    try:
        pairs = [
            (complex(a), complex(b)) for a, b in zip(found[2], exact[2], strict=True)
        ]
    except ValueError:
        return 0 if found == exact else math.inf
    scale = max(abs(b) for _, b in pairs) * _tolerance(found[0], tolerance, 0)
    errors = [
        0 if _is_near(a.real, b.real, 0) and _is_near(a.imag, b.imag, 0) else abs(a - b)
        for a, b in pairs
    ]
    return math.inf if any(e != e for e in errors) else max(errors) / max(scale, 1e-300)


def _is_near(a: float, b: float, slack: float) -> bool:
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) <= slack
    return a == b or (a != a and b != b)


def _tolerance(cls: str, otherwise: float, floor: float) -> float:
    """Return how much entries of a type may differ, relatively."""
    found = re.search(r"(Float|f)(16|32|64)?$", cls)
    if found and found[2] == "16":
        return 5e-3
    # What is compared loosely is so in double precision, too.
    if found and found[2] == "64" and floor < 1:
        return 1e-12
    return 2e-5 if found else otherwise


if __name__ == "__main__":
    for result in evaluate(sys.argv[1], sys.argv[2], int(sys.argv[3])):
        print(json.dumps(result), flush=True)
