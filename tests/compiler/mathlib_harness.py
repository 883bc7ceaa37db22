"""Runs generators of `mathlib` on arrays: one small kernel around each.

Uses llvmlite alone, so that the functions are tested without the rest of the
compiler. The benchmarks and the accuracy table use it too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from lumijit.compiler.emit.builder import Builder, TargetInfo
from lumijit.compiler.emit.mathlib import FUNCTIONS
from lumijit.compiler.emit.mathlib.bits import INF, NAN, fabs, split
from lumijit.runtime import cpu
from lumijit.runtime.dtypes import FLOAT32, DType

Array = npt.NDArray[Any]
TWO_ARGUMENTS = frozenset({"atan2", "power"})
TWO_RESULTS = frozenset({"sincos", "sincosh"})
HOST = TargetInfo()
AVX512 = TargetInfo(lanes_f32=16, has_masks=True, has_avx512=True)

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def kernel_ir(name: str, t: DType, width: int, target: TargetInfo = HOST) -> str:
    """Return a module with `kernel(in0, in1, out0, out1, n)` around a function."""
    b = Builder(width, target)
    ty, align = b.type(t), t.size_bytes
    arity = 2 if name in TWO_ARGUMENTS else 1
    arguments = []
    for i in range(arity):
        address = b.emit(f"getelementptr {t.llvm}, ptr %in{i}, i64 %index")
        arguments.append(b.emit(f"load {ty}, ptr {address}, align {align}"))
    results = FUNCTIONS[name](b, t, *arguments)
    for i, result in enumerate((results,) if isinstance(results, str) else results):
        address = b.emit(f"getelementptr {t.llvm}, ptr %out{i}, i64 %index")
        b.line(f"store {ty} {result}, ptr {address}, align {align}")
    return "\n".join(
        [
            "define void @kernel(ptr %in0, ptr %in1, ptr %out0, ptr %out1, i64 %n) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %index = phi i64 [0, %entry], [%next, %loop]",
            *b.lines,
            f"  %next = add i64 %index, {max(width, 1)}",
            "  %more = icmp ult i64 %next, %n",
            "  br i1 %more, label %loop, label %exit",
            "exit:",
            "  ret void",
            "}",
            *b.declarations.values(),
            *b.helpers.values(),
        ]
    )


def target_machine(
    cpu: str | None = None, features: str | None = None, jit: bool = True
) -> Any:
    """Return a target machine, of the host unless a processor is named."""
    target = llvm.Target.from_triple(llvm.get_process_triple())
    if features is None and cpu is None:
        features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=cpu or llvm.get_host_cpu_name(),
        features=features or "",
        opt=2,
        reloc="pic",
        codemodel="small",
        jit=jit,
    )


def assembly(name: str, t: DType, width: int, cpu: str | None = None) -> str:
    """Return the assembly of a function's kernel."""
    target = AVX512 if cpu is not None and "avx512" in cpu else HOST
    module = llvm.parse_assembly(kernel_ir(name, t, width, target))
    return str(target_machine(cpu).emit_assembly(module))


def _modelled(what: str, extra: str) -> str:
    """Write a function that does what `vgetexpps` or `vgetmantps` is documented to."""
    b, t = Builder(16, HOST), FLOAT32
    a = fabs(b, t, "%x")
    e, f = split(b, t, a)
    m = b.add(t, f, 1.0)
    is_low = b.compare("olt", t, m, 0.75)
    m = b.select(t, is_low, b.add(t, m, m), m)
    e = b.select(t, is_low, b.sub(t, e, 1.0), e)
    is_zero = b.compare("oeq", t, a, 0.0)
    is_finite = b.compare("olt", t, a, INF)
    if what == "getexp":
        e = b.select(t, b.compare("olt", t, m, 1.0), b.sub(t, e, 1.0), e)
        result = b.select(t, is_finite, b.select(t, is_zero, -INF, e), a)
    else:
        m = b.select(t, is_finite, b.select(t, is_zero, 1.0, m), 1.0)
        m = b.select(t, b.compare("olt", t, "%x", 0.0), NAN, m)
        result = b.select(t, b.compare("uno", t, a, a), "%x", m)
    ty = b.type(t)
    lines = [
        f"define {ty} @model.{what}({ty} %x, {extra}{ty} %p, i16 %m, i32 %r) {{",
        *b.lines,
        f"  ret {ty} {result}",
        "}",
        *b.declarations.values(),
    ]
    return "\n".join(lines)


def model_avx512(ir: str) -> str:
    """Replace the intrinsics that only AVX-512 has by functions that model them."""
    for what, extra in (("getexp", ""), ("getmant", "i32 %i, ")):
        name = f"@llvm.x86.avx512.mask.{what}.ps.512"
        if name in ir:
            kept = [
                k
                for k in ir.split("\n")
                if not k.startswith("declare") or name not in k
            ]
            ir = "\n".join(kept).replace(name, f"@model.{what}")
            have = {k for k in kept if k.startswith("declare")}
            added = [k for k in _modelled(what, extra).split("\n") if k not in have]
            ir = "\n".join([ir, *added])
    return ir


Kernel = Callable[[int, int, int, int, int], None]


@cache
def compiled(name: str, t: DType, width: int, target: TargetInfo = HOST) -> Kernel:
    """Build a function's kernel for this machine.

    Code generated for AVX-512 runs elsewhere too, if slowly: LLVM replaces what the
    machine lacks, or `model_avx512` does.
    """
    ir = kernel_ir(name, t, width, target)
    if not llvm.get_host_cpu_features().get("avx512f"):
        ir = model_avx512(ir)
    # (LLVM's own linker ends the process where memory lies more than 2 GiB apart.)
    built = cpu.link(cpu.compile_ir(ir), "kernel", name)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    function = kind(built.address)
    function.built = built  # type: ignore[attr-defined]
    return function


def default_width(t: DType) -> int:
    """Return the packet width of the tests: two AVX2 registers."""
    return 16 if t.bits == 32 else 8


def run(
    name: str,
    t: DType,
    *inputs: Array,
    width: int | None = None,
    target: TargetInfo = HOST,
) -> Any:
    """Apply a function to arrays; returns an array, or a tuple of two."""
    if width is None:
        width = default_width(t)
    size = inputs[0].size
    step = max(width, 1)
    padded_size = -(-size // step) * step
    padded = [np.resize(x.astype(t.numpy), max(padded_size, 1)) for x in inputs]
    results = [np.empty(max(padded_size, 1), t.numpy) for _ in range(2)]
    if size:
        compiled(name, t, width, target)(
            padded[0].ctypes.data,
            padded[-1].ctypes.data,
            results[0].ctypes.data,
            results[1].ctypes.data,
            padded_size,
        )
    if name in TWO_RESULTS:
        return results[0][:size], results[1][:size]
    return results[0][:size]
