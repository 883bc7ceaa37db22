"""What threads of GPUs do around an element, carried out on the CPU one by one.

A kernel's text is that for GPUs, but for the intrinsics, which tell it here which
thread it is. Barriers do nothing, so blocks whose threads share memory have one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.thread.bins import MOST_BINS
from lumijit.compiler.lower.thread.ptx import PtxTarget
from lumijit.compiler.plan import target as targets
from lumijit.compiler.plan.program import VALUES_PER_BIN, Program
from lumijit.compiler.plan.target import Code
from lumijit.llvm import Array3f, Bool, Float, Float64, Int, UInt, UInt8, UInt64
from lumijit.runtime.settings import settings as options

pytestmark = pytest.mark.host("its kernels are carried out on the CPU")
# What is told by the registers of a thread, in the order of the words of @state. (One
# thread runs at a time: it is alone in its warp.)
_REGISTERS = ("tid", "ntid", "ctaid", "nctaid")
_STATE = """
@state = internal global [4 x i32] zeroinitializer
define internal void @nvvm.barrier.cta.sync.aligned.all(i32 %x) {{
  ret void
}}
define internal i32 @nvvm.activemask() {{
  ret i32 1
}}
define internal i32 @nvvm.read.ptx.sreg.laneid() {{
  ret i32 0
}}
define internal i32 @nvvm.shfl.sync.bfly.i32(i32 %m, i32 %x, i32 %where, i32 %c) {{
  ret i32 %x
}}
define internal i1 @nvvm.vote.all.sync(i32 %m, i1 %x) {{
  ret i1 %x
}}
define void @{name}(i64 %begin, i64 %end, i32 %thread, ptr %args) {{
entry:
  %total = mul i32 {blocks}, {threads}
  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %after, %body ]
  %more = icmp ult i32 %k, %total
  br i1 %more, label %body, label %done
body:
  %own = urem i32 %k, {threads}
  %block = udiv i32 %k, {threads}
  store i32 %own, ptr @state
  store i32 {threads}, ptr getelementptr (i32, ptr @state, i64 1)
  store i32 %block, ptr getelementptr (i32, ptr @state, i64 2)
  store i32 {blocks}, ptr getelementptr (i32, ptr @state, i64 3)
  call void @gpu(i64 %end, ptr %args)
  %after = add i32 %k, 1
  br label %head
done:
  ret void
}}
"""
_REGISTER = """
define internal i32 @nvvm.read.ptx.sreg.{register}.x() {{
  %x = load i32, ptr getelementptr (i32, ptr @state, i64 {k})
  ret i32 %x
}}
"""


class Carried(PtxTarget):
    """Carries out each kernel as a GPU would: so many blocks of so many threads."""

    name = "carried"

    def __init__(self, blocks: int, threads: int) -> None:
        self.form = {"blocks": blocks, "threads": threads}
        self.codes: list[Code] = []

    @property
    def collectives(self) -> Any:
        return kernels.target_named("thread").collectives

    def lower(self, program: Program, plan: Any, name: str) -> Code:
        code = super().lower(program, plan, name)
        self.codes.append(code)
        text = re.sub(r"ptr byval\(\[\d+ x i64\]\) align 8 %args", "ptr %args", code.ir)
        text = text.replace(f"ptx_kernel void @{name}", "internal void @gpu")
        text = text.replace("@llvm.nvvm.", "@nvvm.")
        text = re.sub(r"declare (void|i1|i32) @nvvm\..*", "", text)
        text += _STATE.format(name=name, **self.form)
        for k, register in enumerate(_REGISTERS):
            text += _REGISTER.format(register=register, k=k)
        return code._replace(ir=text)


@contextmanager
def carried(blocks: int, threads: int) -> Iterator[Carried]:
    """Carry out kernels in this form in the block."""
    former, target = targets.in_use(), Carried(blocks, threads)
    stored = options.no_disk_cache
    options.no_disk_cache = True
    kernels.use(target)
    kernels.flush()
    try:
        yield target
    finally:
        options.no_disk_cache = stored
        kernels.use(former)
        kernels.flush()


def some(t: Any, n: int, most: int = 50) -> Any:
    """Return an array in memory, of numbers that sums of floats keep exactly."""
    made = t(np.random.default_rng(n).integers(0, most, n).astype(np.uint32))
    dr.eval(made)
    return made


PROGRAMS: dict[str, tuple[int, Callable[[int], Any]]] = {
    "a number": (8, lambda n: some(Float, n) * 2 + 1),
    "two arrays": (4, lambda n: some(Float, n) * 3 + some(Int, n)),
    "three components": (4, lambda n: Array3f(some(Float, n), 1, some(Float, n)) * 2),
    "doubles": (4, lambda n: some(Float64, n) * 3),
    "bytes": (8, lambda n: some(UInt8, n) + 3),
    "masks": (8, lambda n: ~(some(UInt, n) > 7)),
    "numbers of elements": (8, lambda n: dr.arange(Float, n) * 2),
    "mask and number": (8, lambda n: dr.select(some(UInt, n) > 9, 1.5, some(UInt8, n))),
    "long": (1, lambda n: sum((some(Float, n) * k for k in range(60)), Float(0))),
    "a gather": (1, lambda n: dr.gather(Float, some(Float, 50), some(UInt, n))),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [1, 7, 100, 999])
def test_threads_compute_several_elements(name: str, n: int) -> None:
    width, program = PROGRAMS[name]
    expected = np.array(program(n))
    for blocks, threads in ((1, 1), (1, 3), (5, 4), (300, 1)):
        with carried(blocks, threads) as target:
            found = np.array(program(n))
        np.testing.assert_array_equal(found, expected)
        if n > 1:
            assert target.codes[-1].width == width


@pytest.mark.parametrize("t", [Int, UInt, UInt64, Float, Float64])
@pytest.mark.parametrize("op", ["Add", "Min", "Max", "Mul"])
@settings(max_examples=12)
@given(entries=st.integers(1, 40), blocks=st.integers(1, 7), data=st.data())
def test_blocks_have_copies_of_few_entries(
    t: Any, op: str, entries: int, blocks: int, data: st.DataObject
) -> None:
    n = data.draw(st.integers(VALUES_PER_BIN * entries, 900))
    values = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=9))
    index = some(UInt, n, entries)
    active = Bool(np.resize([True, True, False], n))
    if op == "Mul":
        values = [1 + x // 3 for x in values]
    x = t(np.resize(np.array(values, np.uint32), n))
    dr.eval(x, active)

    def program() -> Any:
        target = dr.full(t, 2, entries)
        dr.scatter_reduce(getattr(dr.ReduceOp, op), target, x, index, active)
        return target.numpy()

    expected = program()
    with carried(blocks, 1) as target:
        found = program()
    np.testing.assert_array_equal(found, expected)
    assert "addrspace(3)" in target.codes[-1].ir


def test_which_arrays_have_copies_in_blocks() -> None:
    def copies(write: Callable[[Any, Any, UInt], None], entries: int, n: int) -> int:
        with carried(2, 1) as target:
            arrays = [dr.zeros(Float, entries) for _ in range(MOST_BINS + 1)]
            index = some(UInt, n, entries)
            write(arrays, Float(index), index)
            dr.eval(arrays)
        for array in arrays:
            assert (array.numpy() >= 0).all()
        return sum(code.ir.count("global [") for code in target.codes)

    def one(mode: Any) -> Callable[[Any, Any, UInt], None]:
        return lambda a, x, i: dr.scatter_add(a[0], x, i, mode=mode)

    auto = one(dr.ReduceMode.Auto)
    assert copies(auto, 100, 500) == 1
    # Neither larger ones, nor such as few values go to, nor where the user says how.
    assert copies(auto, 5000, 1000) == 0
    assert copies(auto, 600, 1000) == 0
    assert copies(one(dr.ReduceMode.Direct), 100, 500) == 0
    assert copies(one(dr.ReduceMode.Expand), 600, 1000) == 1

    def several(arrays: Any, x: Any, index: UInt) -> None:
        for array in arrays:
            dr.scatter_add(array, x, index)

    assert copies(several, 100, 500) == MOST_BINS
