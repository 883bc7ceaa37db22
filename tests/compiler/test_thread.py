"""The thread target: what packets compute, an element at a time; and PTX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.mathematics import SIN
from lumijit.compiler.ir.trace import emit1, emit2
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.thread.ptx import LOCAL_BYTES, SCRATCH_BYTES, PtxTarget
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import in_use
from lumijit.compiler.record import local
from lumijit.llvm import Bool, Float, Float16, Float64, Int, UInt
from lumijit.runtime import nvptx
from lumijit.runtime.dtypes import FLOAT32, UINT32
from lumijit.runtime.errors import KernelBuildError
from lumijit.runtime.settings import settings
from tests.compiler.support import array, lit
from tests.targets import written_for
from tests.thread_target import ThreadTarget
from tests.tools import ptx
from tests.tools.assembling import assemble

SIZES = (1, 2, 63, 64, 65, 1000)


def _run(program: Callable[[int], Any], size: int) -> list[Any]:
    found = program(size)
    found = found if isinstance(found, tuple) else (found,)
    dr.eval(found)
    return [x.numpy() for x in found]


def elementwise(n: int) -> Any:
    x = dr.arange(Float, n) / 7 - 3
    s, c = dr.sincos(x)
    half = Float16(x)
    wide = Int(x * 1e6) // (Int(dr.arange(UInt, n)) - 5)
    return s + c * dr.exp(x), dr.fma(half, half, half), wide, (x > 0) & (s > c)


def uniform(n: int) -> Any:
    one, mask = dr.opaque(Float, 3), dr.opaque(Bool, True)
    return dr.select(mask, one, 0) + dr.arange(Float, n), one * 2


def gathers(n: int) -> Any:
    x = dr.arange(Float64, n) * 3
    masks = dr.arange(UInt, n) % 3 == 0
    dr.eval(x, masks)
    at = (dr.arange(UInt, n) * 7) % n
    found = dr.gather(Float64, x, at, at % 2 == 0)
    beyond = dr.opaque(UInt, n) + at
    return found, dr.gather(Bool, masks, at), dr.gather(Float64, x, beyond)


def reductions(n: int) -> Any:
    at = dr.arange(UInt, n) % 5
    x = dr.arange(Int, n) - 7
    made = []
    ops = dr.ReduceOp
    for op, modes in (
        (ops.Add, ("Auto", "Direct", "Local", "Expand")),
        (ops.Min, ("Auto",)),
        (ops.Max, ("Auto",)),
        (ops.And, ("Direct",)),
        (ops.Or, ("Auto",)),
    ):
        for mode in modes:
            target = dr.zeros(Int, 5) + 1
            how = getattr(dr.ReduceMode, mode)
            dr.scatter_reduce(op, target, x, at, mode=how)
            made.append(target)
    product, half = dr.full(Float, 1, 5), dr.zeros(Float16, 5)
    dr.scatter_reduce(ops.Mul, product, Float(2), at, dr.arange(UInt, n) < 20)
    dr.scatter_reduce(ops.Add, half, Float16(at), at, dr.arange(UInt, n) < 20)
    bits = dr.full(Bool, False, 5)
    dr.scatter(bits, Bool(True), at, at > 2)
    return (*made, product, half, bits)


def counters(n: int) -> Any:
    counter, total, rest = UInt(0, 0), dr.zeros(Float, 2), dr.zeros(Float, 2)
    own = dr.scatter_inc(counter, UInt(1), dr.arange(UInt, n) % 2 == 1)
    dr.scatter_add_kahan(total, rest, dr.arange(Float, n) * 0.1, UInt(0))
    return own, counter, total + rest


def loops(n: int) -> Any:
    @dr.syntax
    def collatz(x: UInt) -> Any:
        steps = UInt(0)
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps += 1
        k = UInt(0)
        while k < 3:
            steps += k
            k += 1
            if steps > 100:
                break
        return steps, x, k

    return collatz(dr.arange(UInt, n) + 1)


def writing_loops(n: int) -> Any:
    out = dr.zeros(UInt, n)

    @dr.syntax
    def write(i: UInt) -> None:
        k = UInt(0)
        while k < i % 5:
            if k % 2 == 0:
                dr.scatter_add(out, k, i)
            k += 1

    write(dr.arange(UInt, n))
    return out


def calls(count: int) -> Callable[[int], Any]:
    def program(n: int) -> Any:
        def body(k: int) -> Callable[..., Any]:
            return lambda x, active: (dr.sin(x) * k if k % 3 else x + k, UInt(k))

        bodies = [body(k) for k in range(count)]
        index = dr.arange(UInt, n) % (count + 1)
        return dr.switch(index, bodies, dr.arange(Float, n), active=index < count)

    return program


def buffers(length: int) -> Callable[[int], Any]:
    """Buffers in loops, branches and calls, and read by a later kernel."""

    @dr.syntax
    def fill(n: int) -> Any:
        i = dr.arange(UInt, n)
        memory = dr.alloc_local(UInt, length, UInt(1))
        k = UInt(0)
        while k < 6:
            memory[(i + k) % length] = memory[k] + k
            k += 1
        if i % 3 == 0:
            memory[0] = UInt(77)
        else:
            memory[1] = i
        first = memory[0]
        flags = dr.alloc_local(Bool, 3, Bool(False))
        flags[i % 3] = i % 2 == 0
        return first, memory[1], memory[(i * 5) % length], flags[2]

    return fill


PROGRAMS = {
    "elementwise": elementwise,
    "uniform": uniform,
    "gathers": gathers,
    "reductions": reductions,
    "counters": counters,
    "loops": loops,
    "writing loops": writing_loops,
    "few calls": calls(3),
    "many calls": calls(12),
    "small buffers": buffers(7),
    "large buffers": buffers(20_000),
}


@pytest.mark.host("compares two targets of it")
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_compute_what_packets_do(name: str) -> None:
    for size in SIZES[:4] if name == "large buffers" else SIZES:
        with written_for("packet"):
            expected = _run(PROGRAMS[name], size)
        with written_for("thread"):
            found = _run(PROGRAMS[name], size)
        for x, y in zip(expected, found, strict=True):
            if name in ("counters", "elementwise"):
                np.testing.assert_allclose(x, y, rtol=1e-6)
            else:
                np.testing.assert_array_equal(x, y)


def test_targets_do_not_share_kernels() -> None:
    names = set()
    for target in ("packet", "thread"):
        with written_for(target):
            names.add(kernels.structural_hash("a kernel"))
    assert len(names) == 2


def _program() -> Program:
    x = array(np.arange(5), FLOAT32)
    return Program(5, [emit1(SIN, emit2(ar.MUL, x, lit(FLOAT32, 3)))], [], 0)


def test_threads_have_no_vectors() -> None:
    code = ThreadTarget().code(_program(), "kernel", kernels.target())
    assert "> " not in code.ir
    assert code.width == 1
    assert code.ir.count("define") == 2


def _ptx() -> str:
    code = PtxTarget().code(_program(), "kernel", kernels.target())
    return nvptx.translate(code.ir)


def test_kernels_become_ptx() -> None:
    text = _ptx()
    assert ".visible .entry kernel(" in text
    assert "%ctaid.x" in text
    assert f".target {nvptx.PROCESSOR}" in text


def test_code_that_llvm_refuses_for_gpus() -> None:
    with pytest.raises(KernelBuildError, match="translation to PTX: LLVM refuses"):
        nvptx.translate("define void @f() { ret i32 0 }")


@pytest.mark.skipif(nvptx.assembler() is None, reason="ptxas is not installed")
def test_ptx_is_assembled(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(_ptx())
    assert "registers" in assemble(path)
    assert path.with_suffix(".cubin").exists()
    path.write_text("nonsense")
    with pytest.raises(KernelBuildError, match="ptxas refuses"):
        assemble(path)


def test_large_local_memory_is_for_some_threads_of_a_gpu(tmp_path: Path) -> None:
    """GPUs keep local memory ready for all threads that can run at once."""
    for length, is_large in ((LOCAL_BYTES // 4 - 16, False), (LOCAL_BYTES // 4, True)):
        buffer = local.allocate(UINT32, length)
        entry = local.read(buffer, trace.counter(5), trace.make_true(1))
        program = Program(5, [entry], [], 0)
        code = PtxTarget().code(program, "kernel", kernels.target())
        text = nvptx.translate(code.ir)
        assert (code.scratch_bytes > 0) == is_large == (".local" not in text)
        assert code.scratch_bytes <= SCRATCH_BYTES
        if nvptx.assembler():
            (tmp_path / "kernel.ptx").write_text(text)
            assert "registers" in assemble(tmp_path / "kernel.ptx")


@pytest.mark.host("its kernels are translated")
def test_the_gallery_becomes_ptx(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "no_disk_cache", False)
    former = in_use()
    assert ptx.main(["--out", str(tmp_path), "--only", "quickstart"]) == 0
    assert in_use() is former
    assert ".entry" in (tmp_path / "quickstart0.ptx").read_text()
    assert "1 kernels in" in capfd.readouterr().out
