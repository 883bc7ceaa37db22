"""The kernel cache: what shares a kernel, in memory and on disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import emit1, emit2
from lumijit.compiler.launch import kernels
from lumijit.compiler.plan.describe import describe
from lumijit.compiler.plan.program import STREAMING_FROM, Program, is_streaming
from lumijit.compiler.record import memory
from lumijit.llvm import Float, Int, UInt
from lumijit.runtime import history
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import BOOL, FLOAT32, FLOAT64, INT32, UINT32, DType
from tests.compiler.support import Holder, array, branch, data, lit, loop

TRUE = trace.make_true(1)


def described(wanted: list[Node]) -> Any:
    """Return the key of a launch that needs no plan."""
    found = describe(wanted, (), 0)
    return None if found is None else found.key


@pytest.fixture(autouse=True, scope="module")
def _history() -> Iterator[None]:
    with scoped_set_flag(JitFlag.KernelHistory, True):
        yield


def is_hit(node: Node) -> bool:
    """Evaluate a node in one kernel and tell whether the kernel was known."""
    history.kernel_history()
    data(node)
    (entry,) = history.kernel_history([history.KernelType.JIT])
    return bool(entry["cache_hit"])


def formula(a: float, b: float, size: int = 100) -> Node:
    x = array(np.arange(size), FLOAT32)
    scaled = emit2(ar.MUL, x, lit(FLOAT32, a))
    return emit2(ar.ADD, scaled, emit2(ar.MAX, x, lit(FLOAT32, b)))


def test_other_literals_share_the_kernel() -> None:
    kernels.flush()
    assert not is_hit(formula(2.5, 3.5))
    for a, b in ((7.5, 1e30), (3.5, 3.5), (-1e-30, float("inf"))):
        node = formula(a, b)
        expected = np.arange(100, dtype=np.float32)
        expected = expected * np.float32(a) + np.maximum(expected, np.float32(b))
        assert is_hit(node)
        np.testing.assert_array_equal(data(node), expected)


def test_other_sizes_share_the_kernel() -> None:
    kernels.flush()
    data(formula(2.5, 3.5))
    assert all(is_hit(formula(2.5, 3.5, size)) for size in (2, 7, 1000, 100_000))


def test_other_literals_in_regions_share_the_kernel() -> None:
    def steps(limit: int, by: int) -> Node:
        (found,) = loop(
            (array(np.arange(20), UINT32),),
            lambda i: emit2(lo.LT, i, lit(UINT32, limit)),
            lambda i: (emit2(ar.ADD, i, lit(UINT32, by)),),
        )
        return found

    kernels.flush()
    assert not is_hit(steps(30, 4))
    assert is_hit(steps(90, 5))
    assert data(steps(21, 10)).tolist()[:3] == [30, 21, 22]


def test_literal_values_arrive_in_every_type() -> None:
    from lumijit.runtime.dtypes import ARITHMETIC

    for t in ARITHMETIC:
        x = array([1, 2, 3], t)
        for value in (5, 100, 77):
            found = data(emit2(ar.ADD, x, lit(t, value)))
            assert found.tolist() == [value + 1, value + 2, value + 3]


def test_structures_differ() -> None:
    """Whatever changes the code changes the key."""
    x, y = array(np.arange(8), FLOAT32), array(np.arange(8), FLOAT32)
    one = array([2], FLOAT32)
    i = array(np.arange(8), UINT32)
    doubles = array(np.arange(8), FLOAT64)
    mask = emit2(lo.LT, x, y)

    def nested(op: object) -> Node:
        def side() -> tuple[Node, ...]:
            return (emit2(op, x, y),)  # type: ignore[arg-type]

        return branch(mask, side, lambda: (x,))[0]

    def written(op: str, mode: str) -> Node:
        holder = Holder(array(np.zeros(8), FLOAT32))
        memory.scatter(holder, x, i, TRUE, op, mode)
        return holder._node.deps[0]

    roots: list[list[Node]] = [
        [emit2(ar.ADD, x, y)],
        [emit2(ar.ADD, x, x)],
        [emit2(ar.SUB, x, y)],
        [emit2(ar.ADD, x, one)],
        [emit2(ar.ADD, one, x)],
        [emit2(ar.ADD, doubles, doubles)],
        [emit2(ar.ADD, x, lit(FLOAT32, 3))],
        [emit2(ar.ADD, emit2(ar.ADD, x, y), y)],
        [emit2(ar.ADD, x, y), emit2(ar.SUB, x, y)],
        [emit2(ar.SUB, x, y), emit2(ar.ADD, x, y)],
        [trace.cast_to(x, INT32)],
        [trace.cast_to(x, UINT32)],
        [trace.bitcast_to(x, UINT32)],
        [emit2(lo.SHL, i, lit(UINT32, 3))],
        [emit2(lo.SHL, i, lit(UINT32, 4))],
        [memory.gather(x, i, TRUE)],
        [memory.gather(x, i, mask)],
        [nested(ar.ADD)],
        [nested(ar.SUB)],
        [trace.counter(8)],
        [trace.select(mask, x, lit(FLOAT32, 0))],
        [trace.select(mask, lit(FLOAT32, 0), x)],
        [trace.select(mask, x, lit(FLOAT32, 1))],
    ]
    keys = [Program(8, nodes, [], 0).key for nodes in roots]
    effects = [written(*way) for way in (("add", "direct"), ("mul", "direct"))]
    effects += [written("identity", "auto"), written("add", "no_conflicts")]
    keys += [Program(8, [], [effect], 0).key for effect in effects]
    keys.append(Program(8, [], [written("add", "expand")], 100).key)
    keys.append(Program(1, [emit2(ar.ADD, one, one)], [], 0).key)
    assert len(set(keys)) == len(keys)
    names = {kernels.structural_hash(key) for key in keys}
    assert len(names) == len(keys)


def test_masks_are_part_of_the_code() -> None:
    x = array([1, 2], FLOAT32)
    with scoped_set_flag(JitFlag.ConstantPropagation, False):
        nodes = [trace.select(lit(BOOL, v), x, emit1(ar.NEG, x)) for v in (True, False)]
    assert data(nodes[0]).tolist() == [1, 2]
    assert data(nodes[1]).tolist() == [-1, -2]


def test_equal_structures_have_equal_keys() -> None:
    def key(a: float, b: float) -> object:
        return described([formula(a, b)])

    assert key(2.5, 3.5) == key(4.5, 5.5)
    assert repr(key(2.5, 3.5)) == repr(key(4.5, 5.5))


def test_keys_tell_types_and_later_uses() -> None:
    """Types of results follow from those of operands; no number equals a mask."""

    def key(dtype: DType) -> Any:
        x = array(np.arange(8), dtype)
        total = emit2(ar.ADD, x, x)
        # (What a walk before has noted doesn't count.)
        assert described([total]) == described([total])
        return described([total])

    assert len({key(t) for t in (FLOAT32, FLOAT64, INT32, UINT32)}) == 4
    numbers = [part for part in key(FLOAT32) if type(part) is int]
    assert numbers == [3]


def test_reasons_of_a_miss() -> None:
    kernels.flush()
    history.kernel_history()
    data(formula(2.5, 3.5))
    data(emit1(ar.SQRT, formula(2.5, 3.5)))
    first, second = history.kernel_history()
    assert first["recompile_reason"] == "first kernel"
    expected = (
        r"differs from a known kernel at step \d+ of \d+: 'sqrt' of Float32, "
        "where that has its end"
    )
    assert re.fullmatch(expected, second["recompile_reason"])


def test_reasons_name_operations_types_and_labels() -> None:
    def reason(array: Any) -> str:
        history.kernel_history()
        lj.eval(array)
        return str(history.kernel_history()[-1]["recompile_reason"])

    def count(label: str, factor: int) -> Any:
        def body(i: UInt) -> tuple[UInt]:
            return (i * factor + 1,)

        return lj.while_loop((UInt(0, 1),), lambda i: i < 3, body, label=label)[0]

    x = Float(1, 2, 3)
    lj.eval(x)
    kernels.flush()
    assert reason(x * 2 + 1) == "first kernel"
    assert reason(x * 2 - 1) == (
        "differs from a known kernel at step 5 of 5: 'sub' of Float32, where that has "
        "'add' of Float32"
    )
    root = lj.sqrt(x * 2 + 1)
    lj.set_label(root, "root")
    assert "6 of 6: 'sqrt' of Float32 ('root'), where that has its end" in reason(root)
    target = lj.zeros(Float, 3)
    lj.scatter(target, x, UInt(0, 1, 2))
    reason(target)
    lj.scatter_add(target, x, UInt(0, 1, 2))
    assert "'scatter', with other operands or of another kind" in reason(target)
    assert reason(Int(1, 2) ^ 5) == "no known kernel begins with a number of Int32"
    reason(count("first", 3))
    assert "'loop' ('counting'), with other operands" in reason(count("counting", 1))


SCRIPT = """
import json, sys
import numpy as np
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import memory
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops import arithmetic as ar, logic as lo
from lumijit.runtime import history
from lumijit.runtime.config import JitFlag, set_flag
from tests.compiler.support import Holder, array, branch, data, lit
from lumijit.runtime.dtypes import FLOAT32, UINT32
set_flag(JitFlag.KernelHistory, True)
x = array(np.arange(50), FLOAT32)
k = float(sys.argv[1])
a = trace.emit2(ar.MUL, x, lit(FLOAT32, k))
cond = trace.emit2(lo.LT, a, lit(FLOAT32, 40))
(b,) = branch(cond, lambda: (trace.emit1(ar.SQRT, a),), lambda: (x,))
bins = Holder(array(np.zeros(3), FLOAT32))
index = trace.emit2(ar.MOD, trace.counter(50), lit(UINT32, 3))
memory.scatter(bins, b, index, trace.make_true(1), "add")
values = [data(b).tolist(), data(bins._node).tolist()]
found = [(e["hash"], e["cache_disk"], e["cache_hit"]) for e in history.kernel_history()
         if e["type"] is history.KernelType.JIT]
print(json.dumps([values, found]))
"""


def run_script(folder: Path, number: float) -> list[list[list[object]]]:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "LUMIJIT_CACHE_DIR": str(folder), "PYTHONPATH": path}
    env["PYTHONHASHSEED"] = str(int(number * 100))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(number)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: list[list[list[object]]] = json.loads(done.stdout)
    return found


def test_fresh_processes_find_kernels_on_disk(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    _, first = run_script(folder, 1.5)
    values, second = run_script(folder, 2.5)
    assert [entry[1:] for entry in first] == [[False, False]] * len(first)
    assert [entry[1:] for entry in second] == [[True, False]] * len(first)
    assert [entry[0] for entry in first] == [entry[0] for entry in second]
    x = np.arange(50, dtype=np.float32)
    expected = np.where(x * 2.5 < 40, np.sqrt(x * np.float32(2.5)), x)
    np.testing.assert_allclose(np.array(values[0], np.float32), expected, rtol=1e-6)


@pytest.mark.packets("stores past the caches")
@pytest.mark.parametrize("extra", [0, 5])
def test_large_kernels_write_past_the_caches(extra: int) -> None:
    size = STREAMING_FROM // 8 + extra
    x = data(emit2(ar.MUL, trace.counter(size), lit(UINT32, 3)))
    history.kernel_history()
    for count, expected in ((size, True), (size - size // 8, False)):
        source = array(x[:count], UINT32)
        node = emit2(ar.ADD, source, lit(UINT32, 7))
        assert is_streaming([node], [source], count) is expected
        assert (described([node])[-1] == "streaming") is expected
        assert Program(count, [node], [], 0).is_streaming is expected
        np.testing.assert_array_equal(data(node), x[:count] + 7)


def test_history_counts_operations_and_arguments() -> None:
    history.kernel_history()
    data(emit2(ar.SUB, formula(2.5, 9.5), lit(FLOAT32, 1.5)))
    (entry,) = history.kernel_history()
    assert entry["operation_count"] >= 4
    assert entry["input_count"] == 4
