"""Kernels that merge the private copies of a scatter (`lower.packet.access`)."""

from __future__ import annotations

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import arg, head, lanes
from lumijit.runtime.dtypes import DType


def merge_ir(name: str, op: str, t: DType) -> str:
    """Combine private copies into dst[begin … end).

    Slots: dst, base, entries between threads, threads, interleaved copies.
    """
    element = t.memory_llvm
    return f"""{head(name)}
entry:
{arg("dst", 0)}
{arg("base", 1)}
{arg("stride", 2, "i64")}
{arg("threads", 3, "i64")}
{arg("copies", 4, "i64")}
  br label %entryloop
entryloop:
  %k = phi i64 [ %begin, %entry ], [ %k.n, %store ]
  %to = getelementptr {element}, ptr %dst, i64 %k
  %old = load {element}, ptr %to
  %first = mul i64 %k, %copies
  br label %slot
slot:
  %t = phi i64 [ 0, %entryloop ], [ %t.n, %slot.end ]
  %at = phi i64 [ %first, %entryloop ], [ %at.n, %slot.end ]
  %sum = phi {element} [ %old, %entryloop ], [ %sum.c, %slot.end ]
  br label %copy
copy:
  %c = phi i64 [ 0, %slot ], [ %c.n, %copy ]
  %part = phi {element} [ %sum, %slot ], [ %sum.c, %copy ]
  %place = add i64 %at, %c
  %from = getelementptr {element}, ptr %base, i64 %place
  %v = load {element}, ptr %from
{combine_text(op, t, element, "sum.c", "%part", "%v")}
  %c.n = add i64 %c, 1
  %cmore = icmp ult i64 %c.n, %copies
  br i1 %cmore, label %copy, label %slot.end
slot.end:
  %at.n = add i64 %at, %stride
  %t.n = add i64 %t, 1
  %tmore = icmp ult i64 %t.n, %threads
  br i1 %tmore, label %slot, label %store
store:
  store {element} %sum.c, ptr %to
  %k.n = add i64 %k, 1
  %more = icmp ult i64 %k.n, %end
  br i1 %more, label %entryloop, label %exit
exit:
  ret void
}}
"""


def merge_vector_ir(name: str, op: str, t: DType) -> str:
    """Combine one copy per thread into dst[begin … end), whole vectors at a time.

    Slots: dst, base, entries between threads, threads, (unused).
    """
    width = lanes(t)
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    return f"""{head(name)}
entry:
{arg("dst", 0)}
{arg("base", 1)}
{arg("stride", 2, "i64")}
{arg("threads", 3, "i64")}
  br label %chunk
chunk:
  %k = phi i64 [ %begin, %entry ], [ %k.n, %store ]
  %to = getelementptr {element}, ptr %dst, i64 %k
  %old = load {ty}, ptr %to, align {t.size_bytes}
  br label %slot
slot:
  %t = phi i64 [ 0, %chunk ], [ %t.n, %slot ]
  %at = phi i64 [ %k, %chunk ], [ %at.n, %slot ]
  %sum = phi {ty} [ %old, %chunk ], [ %sum.n, %slot ]
  %from = getelementptr {element}, ptr %base, i64 %at
  %v = load {ty}, ptr %from, align {t.size_bytes}
{combine_text(op, t, ty, "sum.n", "%sum", "%v")}
  %at.n = add i64 %at, %stride
  %t.n = add i64 %t, 1
  %tmore = icmp ult i64 %t.n, %threads
  br i1 %tmore, label %slot, label %store
store:
  store {ty} %sum.n, ptr %to, align {t.size_bytes}
  %k.n = add i64 %k, {width}
  %more = icmp ult i64 %k.n, %end
  br i1 %more, label %chunk, label %exit
exit:
  ret void
}}
"""
