"""Long blocks of kernels are cut, and many addresses are loaded where they are used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.emit import long_blocks
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.common import lowering
from lumijit.llvm import Array2f, Bool, Float, Texture2f, UInt
from lumijit.runtime.settings import settings
from tests.fuzz import check as checks
from tests.fuzz.writer import Writer

pytestmark = pytest.mark.usefixtures("each_target")

SIZE = 300
CODE = """
start:
  %a = phi i32 [ 0, %entry ], [ %c, %start ]
  %b = add i32 %a, 1
  %c = add i32 %b, 1
  %m = icmp eq <8 x i32> %v, %w
  %d = add i32 %c, 1
  %e = select <8 x i1> %m, <8 x i32> %v, <8 x i32> %w
  br i1 %x, label %start, label %done
done:
  %f = phi i32 [ %d, %start ]
  ret void
"""


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Build kernels anew: how long blocks are is in no key."""
    monkeypatch.setattr(settings, "no_disk_cache", True)
    kernels.flush()
    yield monkeypatch
    kernels.flush()


def collatz(n: UInt) -> UInt:
    count = UInt(0)

    def turn(n: UInt, count: UInt) -> tuple[UInt, UInt]:
        return dr.select(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return dr.while_loop((n, count), lambda n, _: n > 1, turn)[1]


def chain() -> list[Any]:
    x = llvm.ad.Float(np.linspace(0.9, 1.1, SIZE))
    dr.enable_grad(x)
    y = x
    for k in range(40):
        y = dr.sin(y * x) + dr.select(y > 0.5, 0.1 * k, x)
    dr.backward(y)
    return [y, dr.grad(x)]


def accesses() -> list[Any]:
    n = dr.arange(UInt, SIZE)
    target = dr.zeros(Float, 2 * SIZE)
    value = dr.gather(Float, dr.arange(Float, SIZE) ** 2, n // 17 * 17 + n % 5)
    dr.scatter(target, value, n + n // 17 * 3, n % 7 != 3)
    dr.scatter_add(target, value, n % 20)
    return [target]


def regions() -> list[Any]:
    n = dr.arange(UInt, SIZE)
    functions = [lambda x: x + 1, lambda x: dr.sqrt(x) * 2, lambda x: -x]
    switched = dr.switch(n % 3, functions, Float(n))
    texture = Texture2f(llvm.TensorXf(np.arange(48.0), (4, 4, 3)))
    looked_up = texture.eval(Array2f(Float(n) / SIZE, 0.3))
    buffer = dr.alloc_local(Float, 4, Float(0))
    buffer[n % 4] = Float(n)
    either = dr.if_stmt((n,), n > 100, lambda n: n * 2, lambda n: n - 1)
    return [switched, *looked_up, buffer[1], collatz(n + 1), either]


def arrays() -> list[Any]:
    xs = [dr.opaque(Float, k, SIZE) + dr.arange(Float, SIZE) for k in range(20)]
    mask = dr.opaque(Bool, True, SIZE)
    dr.eval(xs)
    found = [dr.select(mask, a * b, 0) for a, b in pairwise(xs)]
    return [*found, dr.gather(Float, xs[3], dr.arange(UInt, SIZE) // 2) + xs[3]]


@pytest.mark.parametrize("program", [chain, accesses, regions, arrays])
@pytest.mark.parametrize("length", [3, 10, 50])
def test_cut_code_computes_the_same(
    program: Callable[[], list[Any]], length: int, anew: pytest.MonkeyPatch
) -> None:
    expected = [np.array(value) for value in program()]
    kernels.flush()
    anew.setattr(long_blocks, "LENGTH", length)
    anew.setattr(lowering, "MANY_ARRAYS", 0)
    for value, wanted in zip(program(), expected, strict=True):
        np.testing.assert_array_equal(np.array(value), wanted)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("pattern", ["local", "calls", "indices", "inplace"])
def test_random_programs(pattern: str, number: int, anew: pytest.MonkeyPatch) -> None:
    anew.setattr(long_blocks, "LENGTH", 4)
    anew.setattr(lowering, "MANY_ARRAYS", 0)
    # (These seeds give programs that aren't refused.)
    program = Writer(f"blocks {pattern} {number}", [pattern]).program()
    checks.check(program, "symbolic")


@pytest.mark.packets("blocks of packets")
def test_long_programs_are_cut(
    anew: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def code(turns: int) -> str:
        x = dr.arange(Float, SIZE)
        for k in range(turns):
            x = x * x + k
        with dr.scoped_set_flag(dr.JitFlag.PrintIR, True):
            dr.eval(x)
        return capsys.readouterr().out

    assert "branch_weights" not in re.sub("!2 = .*", "", code(100))
    assert len(re.findall("label %exit, label %cut.*!prof", code(1000))) > 2


def test_masks_stay_where_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_blocks, "LENGTH", 2)
    lines = CODE.strip().split("\n")
    for keeps_masks in (False, True):
        found = "\n".join(long_blocks.cut(lines, "slt i32 %x, 0", "done", keeps_masks))
        *_, last = re.findall(r"(cut\S+\.to):", found)
        assert f"phi i32 [ 0, %entry ], [ %c, %{last} ]" in found
        assert f"%f = phi i32 [ %d, %{last} ]" in found
        made, used = found.index("%m = "), found.index("<8 x i1> %m")
        assert ("br i1 %cut" in found[made:used]) is not keeps_masks
