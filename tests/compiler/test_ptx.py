"""Programs on the thread target, each kernel of which becomes PTX and is assembled."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import TEXEL
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.cooperative.kernels import nvvm
from lumijit.compiler.lower.thread.ptx import PtxTarget
from lumijit.compiler.plan.program import Program
from lumijit.llvm import Array2f, Array3f, Float, Int, Texture2f, UInt, ad
from lumijit.runtime import nvptx
from lumijit.runtime.dtypes import FLOAT32, UINT64, VALUES, DType, from_numpy
from tests.compiler.support import array
from tests.compiler.test_ops import ELEMENTWISE, emit, operands
from tests.compiler.test_thread import PROGRAMS
from tests.fuzz.__main__ import draw
from tests.fuzz.check import Refused, check
from tests.fuzz.writer import PATTERNS
from tests.targets import written_for
from tests.tools.assembling import assemble
from tests.tools.ptx import translating
from tests.verifier.verify import verify

pytestmark = pytest.mark.host("its kernels are translated")


def values(found: Any) -> list[Any]:
    found = found if isinstance(found, tuple) else (found,)
    dr.eval(found)
    return [x.numpy() for x in found]


def printed(n: int) -> Any:
    """What is printed from a kernel goes through a buffer."""
    x = dr.arange(Float, n) * 2
    dr.print("x = {x}", x=x, active=x > 3)
    return x


@dr.syntax
def asserted(n: int) -> Any:
    """Notes of bounds that are exceeded go through a buffer, too."""
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        i = UInt(0)
        total = dr.zeros(Float, n)
        source = dr.arange(Float, n)
        while i < 3:
            total += dr.gather(Float, source, (dr.arange(UInt, n) + i) % n)
            i += 1
        dr.assert_true(total >= 0)
        dr.eval(total)
        return total


def texture(n: int) -> Any:
    made = Texture2f((5, 7), 3)
    made.set_value(dr.arange(Float, 5 * 7 * 3))
    where = Array2f(dr.linspace(Float, -0.2, 1.2, n), 0.4)
    return (*made.eval(where), *made.eval_cubic(where))


def gradient(n: int) -> Any:
    x = dr.arange(ad.Float, n) / n
    dr.enable_grad(x)
    y = dr.sum(dr.sin(x) * dr.gather(ad.Float, x, dr.arange(ad.UInt, n) // 2))
    dr.backward(y)
    return Float(x.grad)


def collective(n: int) -> Any:
    x = dr.arange(Int, n) % 7 - 3
    v = Array3f(Float(x), 1, 2)
    return (
        dr.prefix_sum(x),
        dr.sum(x),
        dr.compress(x > 0),
        dr.sort(x),
        dr.block_sum(dr.repeat(x, 3), 3),
        dr.repeat(v, 2).x,
    )


FURTHER = {
    "printed": printed,
    "asserted": asserted,
    "texture": texture,
    "gradient": gradient,
    "collective": collective,
}


@pytest.mark.parametrize("name", [*PROGRAMS, *FURTHER])
def test_programs_become_ptx(name: str, tmp_path: Path) -> None:
    program: Callable[[int], Any] = {**PROGRAMS, **FURTHER}[name]
    with written_for("packet"):
        expected = values(program(65))
    with translating(tmp_path, is_quiet=True) as target:
        found = values(program(65))
    assert target.files
    assert target.failures == []
    for x, y in zip(expected, found, strict=True):
        if name in ("counters", "elementwise", "texture", "gradient"):
            np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(x, y)


def test_masks_are_combined_by_warps(tmp_path: Path) -> None:
    with translating(tmp_path, is_quiet=True) as target:
        mask = dr.arange(UInt, 100) < 100
        for op, expected in ((dr.ReduceOp.And, True), (dr.ReduceOp.Or, True)):
            assert dr.reduce(op, mask, mode="symbolic")[0] == expected
    assert target.failures == []
    assert any("match.any.sync" in path.read_text() for path in target.files)


def test_shifts_ask_for_all_bits_of_the_amount() -> None:
    """LLVM would make one instruction, which takes the low half, of `ult` and `shl`."""
    x, y = dr.opaque(cuda.Int64, 5, 9), dr.opaque(cuda.Int64, 1 << 40, 9)
    for found in (x << y, cuda.UInt64(x) >> cuda.UInt64(y)):
        (text,) = dr.ptx(found)
        assert re.search(r"setp\.\w+\.u64\s+%p\d+, %rd\d+, (63|64)", text)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_random_programs_become_ptx(pattern: str, tmp_path: Path) -> None:
    with translating(tmp_path, is_quiet=True) as target:
        for number in range(3):
            try:
                check(draw(7, number, (pattern,)), "symbolic")
            except Refused:
                continue
    assert target.files
    assert target.failures == []


def type_of(x: Any) -> DType:
    found = from_numpy(x.dtype)
    assert found is not None
    return found


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_operations_become_ptx(op: Op, tmp_path: Path) -> None:
    """One kernel has an operation on all types."""
    types = [t for t in VALUES if t in op.accepts]
    nodes = [
        emit(op, *(array(x, type_of(x)) for x in operands(op, t, 5))) for t in types
    ]
    program = Program(5, nodes, [], 0)
    ir = PtxTarget().code(program, "kernel", kernels.target()).ir
    path = tmp_path / "kernel.ptx"
    path.write_text(nvptx.translate(ir))
    if nvptx.assembler() is None:
        pytest.skip("translated, but not assembled: ptxas is not installed")
    assert "registers" in assemble(path)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_texture_units_look_up(dimensions: int, tmp_path: Path) -> None:
    """One instruction gives all channels of a position."""
    handle = array(np.array([7]), UINT64)
    x, y = (array(np.linspace(k, k + 1, 9), FLOAT32) for k in range(2))
    nodes = [
        trace.append(TEXEL, FLOAT32, (handle, at, y, x), 4 * dimensions + channel)
        for at in (x, y)
        for channel in (0, 2)
    ]
    verify(nodes)
    code = PtxTarget().code(Program(9, nodes, [], 0), "kernel", kernels.target())
    path = tmp_path / "kernel.ptx"
    path.write_text(nvptx.translate(code.ir))
    lookups = path.read_text().count(f"tex.{dimensions}d.v4.f32.f32")
    assert lookups == 2 * code.width
    if nvptx.assembler() is None:
        pytest.skip("translated, but not assembled: ptxas is not installed")
    assert "registers" in assemble(path)


def test_memory_is_exchanged_on_the_gpu_only() -> None:
    product = dr.full(cuda.Float, 1, 3)
    x = cuda.Float([1.0] * 9)
    dr.scatter_reduce(dr.ReduceOp.Mul, product, x, cuda.UInt(x))
    texts = dr.ptx(product)
    texts.append(nvptx.translate(nvvm().scan_ir("k", "add", FLOAT32, False, False)))
    for text, count in zip(texts, (1, 4), strict=True):
        assert len(re.findall(r"\.gpu\.global", text)) == count
        assert ".sys." not in text


def different_bodies(n: int) -> Any:
    def body(k: int) -> Callable[[Float], Float]:
        def run(x: Float) -> Float:
            for _ in range(k + 1):
                x = dr.fma(x, x, x) if k % 2 else dr.rcp(x) + x
            return x

        return run

    bodies = [body(k) for k in range(20)]
    return dr.switch(dr.arange(UInt, n) % 20, bodies, dr.linspace(Float, 0.1, 0.2, n))


def test_many_bodies_are_chosen_by_a_table(tmp_path: Path) -> None:
    with written_for("packet"):
        expected = values(different_bodies(65))
    with translating(tmp_path, is_quiet=True) as target:
        np.testing.assert_array_equal(values(different_bodies(65)), expected)
    assert target.failures == []
    assert any("brx.idx" in path.read_text() for path in target.files)


@pytest.mark.parametrize("length", [1, 40])
def test_loops_that_do_much_ask_whether_to_end(tmp_path: Path, length: int) -> None:
    """In those that do little, three instructions more count."""

    def turn(x: Float) -> tuple[Float]:
        for _ in range(length):
            x = x * 0.5 + x
        return (x,)

    with translating(tmp_path, is_quiet=True) as target:
        values(dr.while_loop((dr.arange(Float, 65) + 1,), lambda x: x < 9, turn))
    assert target.failures == []
    texts = [path.read_text() for path in target.files]
    assert any("ld.volatile" in text for text in texts) == (length > 1)


def test_threads_go_on_behind_the_grid() -> None:
    x = array(np.arange(5), FLOAT32)
    program = Program(
        5, [emit(next(op for op in ELEMENTWISE if op.name == "neg"), x)], [], 0
    )
    text = nvptx.translate(PtxTarget().code(program, "k", kernels.target()).ir)
    assert "%nctaid.x" in text


@pytest.mark.parametrize("t", [Int, Float, ad.Float64, dr.llvm.UInt64, dr.llvm.Float16])
def test_lanes_write_once_for_one_entry(t: Any, tmp_path: Path) -> None:
    with translating(tmp_path, is_quiet=True) as target:
        for op in (dr.ReduceOp.Add, dr.ReduceOp.Max):
            total, bins = dr.zeros(t), dr.zeros(t, 5)
            i = dr.arange(UInt, 65)
            dr.scatter_reduce(op, total, t(i), UInt(0))
            local = dr.ReduceMode.Local
            dr.scatter_reduce(op, bins, t(i), i % 5, i > 2, mode=local)
            dr.eval(total, bins)
    assert target.failures == []
    texts = [path.read_text() for path in target.files]
    assert sum(text.count("match.any.sync") for text in texts) == 4


@pytest.mark.parametrize("t", [Int, Float, ad.Float64, dr.llvm.UInt64, dr.llvm.Float16])
def test_neighbours_write_once_in_memory(t: Any, tmp_path: Path) -> None:
    with translating(tmp_path, is_quiet=True) as target:
        for op in (dr.ReduceOp.Add, dr.ReduceOp.Max):
            sums = dr.zeros(t, 1 << 15)
            i = dr.arange(UInt, 65)
            dr.scatter_reduce(op, sums, t(i), i // 3)
            dr.eval(sums)
    assert target.failures == []
    texts = [path.read_text() for path in target.files]
    assert sum(text.count("vote.sync.all") for text in texts) == 2
