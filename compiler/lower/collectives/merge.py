"""Kernels that merge the private copies of a scatter (`lower.packet.access`)."""

from __future__ import annotations

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import each, lanes
from lumijit.runtime.dtypes import DType


def merge_ir(name: str, op: str, t: DType) -> str:
    """Combine private copies into dst[begin … end).

    Slots: dst, base, entries between threads, threads, interleaved copies.
    """
    element = t.memory_llvm
    body = f"""  %to = getelementptr {element}, ptr %dst, i64 %e
  %old = load {element}, ptr %to
  %first = mul i64 %e, %copies
  br label %slot
slot:
  %t = phi i64 [ 0, %next ], [ %t.n, %slot.end ]
  %at = phi i64 [ %first, %next ], [ %at.n, %slot.end ]
  %sum = phi {element} [ %old, %next ], [ %sum.c, %slot.end ]
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
  store {element} %sum.c, ptr %to"""
    return each(name, "dst base stride:i64 threads:i64 copies:i64", body, last="store")


def merge_vector_ir(name: str, op: str, t: DType) -> str:
    """Combine one copy per thread into dst[begin … end), whole vectors at a time.

    Slots: dst, base, entries between threads, threads, (unused).
    """
    width = lanes(t)
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    body = f"""  %to = getelementptr {element}, ptr %dst, i64 %e
  %old = load {ty}, ptr %to, align {t.size_bytes}
  br label %slot
slot:
  %t = phi i64 [ 0, %next ], [ %t.n, %slot ]
  %at = phi i64 [ %e, %next ], [ %at.n, %slot ]
  %sum = phi {ty} [ %old, %next ], [ %sum.n, %slot ]
  %from = getelementptr {element}, ptr %base, i64 %at
  %v = load {ty}, ptr %from, align {t.size_bytes}
{combine_text(op, t, ty, "sum.n", "%sum", "%v")}
  %at.n = add i64 %at, %stride
  %t.n = add i64 %t, 1
  %tmore = icmp ult i64 %t.n, %threads
  br i1 %tmore, label %slot, label %store
store:
  store {ty} %sum.n, ptr %to, align {t.size_bytes}"""
    return each(name, "dst base stride:i64 threads:i64", body, step=width, last="store")
