"""Kernels that combine the entries of an array, or of its blocks, to one."""

from __future__ import annotations

from lumijit.compiler.lower.collectives.pieces import arg, block_total, head, lanes
from lumijit.runtime.dtypes import DType


def reduce_ir(name: str, op: str, t: DType) -> str:
    """Combine src[begin … end) into dst[begin / block]; slots: src, dst, block."""
    element = t.memory_llvm
    total, result = block_total(op, t, "entry")
    return f"""{head(name)}
entry:
{arg("src", 0)}
{arg("dst", 1)}
{arg("block", 2, "i64")}
  %start = add i64 %begin, 0
  %stop = add i64 %end, 0
  %count = sub i64 %end, %begin
  %whole = and i64 %count, -{lanes(t)}
  %full = add i64 %begin, %whole
  %any = icmp ne i64 %whole, 0
{total}
  %number = udiv i64 %begin, %block
  %out = getelementptr {element}, ptr %dst, i64 %number
  store {element} {result}, ptr %out
  ret void
}}
"""


def block_reduce_ir(name: str, op: str, t: DType) -> str:
    """Set dst[j] to the combination of src[j * block … (j + 1) * block).

    Slots: src, dst, block.
    """
    element = t.memory_llvm
    total, result = block_total(op, t, "next")
    return f"""{head(name)}
entry:
{arg("src", 0)}
{arg("dst", 1)}
{arg("block", 2, "i64")}
  br label %next
next:
  %j = phi i64 [ %begin, %entry ], [ %j.n, %fold ]
  %start = mul i64 %j, %block
  %stop = add i64 %start, %block
  %whole = and i64 %block, -{lanes(t)}
  %full = add i64 %start, %whole
  %any = icmp ne i64 %whole, 0
{total}
  %out = getelementptr {element}, ptr %dst, i64 %j
  store {element} {result}, ptr %out
  %j.n = add i64 %j, 1
  %again = icmp ult i64 %j.n, %end
  br i1 %again, label %next, label %exit
exit:
  ret void
}}
"""
